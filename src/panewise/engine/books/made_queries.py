"""Queries that this process has bound and planned, for others in it that run the same statements.

The driver of a Spark pipeline runs a statement twice: its books check it, and its program says where it runs. A restart
does both again for the statements of a checkpoint. The first one notes the result, and the others use it. Binding takes
a millisecond or two per statement.

A bound statement stays valid as long as everything that the query reads is defined as before, directly or through other
queries; `find` checks that. Options of streams do not matter, because binding does not look at them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from panewise.catalog import Catalog, Definition, QueryDefinition, TableDefinition
from panewise.language import statements as s
from panewise.plan.nodes import Emit
from panewise.plan.physical_plan import PhysicalQuery


@dataclass(frozen=True)
class MadeQuery:
    """A statement, what it defines, its plan, and its node as planned with `sharing`.

    `below`: the definitions of everything that it reads.
    """

    statement: s.CreateQuery
    definition: QueryDefinition
    plan: Emit
    node: PhysicalQuery
    sharing: str
    below: tuple[Definition, ...]

    @property
    def name(self) -> str:
        return self.definition.name.lower()


class MadeQueries:
    """The last query that was made under each name."""

    def __init__(self) -> None:
        self._made: dict[str, MadeQuery] = {}  # by lower-case name
        self._names: dict[str, str] = {}  # by the statement's text, as written and in its canonical form

    def note(
        self,
        statement: s.CreateQuery,
        definition: QueryDefinition,
        plan: Emit,
        node: PhysicalQuery,
        sharing: str,
        catalog: Catalog,
    ) -> None:
        """A query was made over the definitions of the catalog."""
        made = MadeQuery(statement, definition, plan, node, sharing, _below(definition, catalog))
        self._forget(made.name)
        self._made[made.name] = made
        self._names[statement.text] = made.name

    def note_text(self, text: str, statement: s.Statement) -> None:
        """`text` is how the statement of a query was written."""
        if isinstance(statement, s.CreateQuery) and self._names.get(statement.text) is not None:
            self._names[text] = self._names[statement.text]

    def take(self, other: MadeQueries) -> None:
        """Adds the queries that only `other` knows."""
        for name in other._made.keys() - self._made.keys():
            self._made[name] = other._made[name]
        self._names = other._names | self._names

    def forget(self, definition: QueryDefinition) -> None:
        """A query was dropped. A later query of the same name stays."""
        made = self._made.get(definition.name.lower())
        if made is not None and made.definition == definition:
            self._forget(made.name)

    def _forget(self, name: str) -> None:
        if self._made.pop(name, None) is not None:
            self._names = {text: other for text, other in self._names.items() if other != name}

    def find(self, text: str, catalog: Catalog) -> MadeQuery | None:
        """The query of a statement, if its name is free and the statement means the same as then; else None."""
        made = self._made.get(self._names.get(text, ""))
        if made is None or catalog.find(made.name) is not None:
            return None
        return made if all(_same(catalog.find(known.name), known) for known in made.below) else None

    def node_of(self, plan: Emit, definition: QueryDefinition, sharing: str) -> PhysicalQuery | None:
        """The node of a plan that came from `find`; None if it was planned with another `sharing`."""
        made = self._made.get(definition.name.lower())
        return made.node if made is not None and made.plan is plan and made.sharing == sharing else None


def _below(definition: QueryDefinition, catalog: Catalog) -> tuple[Definition, ...]:
    """Everything that a query reads, directly or through other queries."""
    found: dict[str, Definition] = {}
    names = list(definition.inputs)
    while names:
        known = catalog.get(names.pop())
        if known.name.lower() not in found:
            found[known.name.lower()] = known
            if isinstance(known, QueryDefinition):
                names.extend(known.inputs)
    return tuple(found.values())


def _same(now: Definition | None, then: Definition) -> bool:
    if isinstance(then, TableDefinition):
        return now == then  # its options say which stream changes it
    return now is not None and replace(now, options=()) == replace(then, options=())
