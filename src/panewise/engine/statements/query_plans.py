"""Plans new queries beside those that run.

A plan follows from what is measured, unless it was decided before: when a snapshot or a log was written, or by others
in this process that run the same statements. With such others, measurements are ignored, so that all processes agree.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from panewise.catalog import QueryDefinition
from panewise.engine.books.books import Books
from panewise.engine.books.definitions import definition_of
from panewise.engine.books.made_queries import MadeQueries, MadeQuery
from panewise.engine.books.measured_statistics import measured
from panewise.language import statements as s
from panewise.optimize.planner import LogicalQuery, Planner
from panewise.plan.decided import NOTHING_DECIDED, Decided, decided_on
from panewise.plan.nodes import Emit
from panewise.plan.physical_plan import Difference, PhysicalPlan, Planned
from panewise.plan.scale_sampled import scale_sampled


class QueryPlans:
    """Plans the queries of one engine."""

    def __init__(self, books: Books) -> None:
        self._books = books
        self._made: MadeQueries | None = None
        self._decided: Mapping[str, Decided] | None = None  # by query, while a snapshot is restored

    def share(self, made: MadeQueries) -> None:
        """Others in this process run the same statements: what is bound and planned here is noted, and used by all."""
        self._made = made

    @contextmanager
    def decided(self, decided: Mapping[str, Decided]) -> Iterator[None]:
        """Until the end of the block queries are planned as it was decided, by name."""
        self._decided = decided
        try:
            yield
        finally:
            self._decided = None

    def known(self, text: str) -> MadeQuery | None:
        """What this process has bound and planned for a statement already; None if it may not be used."""
        return None if self._made is None else self._made.find(text, self._books.catalog)

    def planner(self, plan: Emit) -> Planner:
        """A planner with the statistics of what a plan reads."""
        return Planner(self._books.hosting.sharing, measured(plan, self._books))

    def decisions(self, statement: s.CreateQuery) -> Decided:
        """What the planner decides on a query that is going to be created."""
        books = self._books
        sampled = scale_sampled(statement, books.catalog)
        assert isinstance(sampled, s.CreateQuery)
        definition, plan = definition_of(sampled, books.find_aggregate)
        assert plan is not None
        query = LogicalQuery(definition.name.lower(), plan, definition.options)
        return decided_on(self.planner(plan).node(books.hosting.plan, query))

    def with_query(
        self, statement: s.CreateQuery, definition: QueryDefinition, plan: Emit, decided: Decided | None
    ) -> PhysicalPlan:
        """The plan of all that runs and a new query. `decided`: what was decided on it when it was created."""
        hosting, key = self._books.hosting, definition.name.lower()
        if self._decided is not None:
            decided = self._decided.get(key, NOTHING_DECIDED)
        query = LogicalQuery(key, plan, definition.options)
        if self._made is None:
            return self.planner(plan).planned(hosting.plan, query, decided)
        node = self._made.node_of(plan, definition, hosting.sharing)
        if node is None:
            node = Planner(hosting.sharing).node(PhysicalPlan(), query, decided)
            self._made.note(statement, definition, plan, node, hosting.sharing, self._books.catalog)
        return hosting.plan.changed(Difference(coming={key: Planned(node)}))

    def without_query(self, key: str) -> PhysicalPlan:
        """The plan of all that runs but one query."""
        hosting = self._books.hosting
        return Planner(hosting.sharing).without(hosting.plan, key)
