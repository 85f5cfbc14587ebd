"""Queries as one process has bound, built and planned them, for all in it who run the same statements.

A Spark pipeline's driver runs a statement twice: its books check it, and its program says where it runs. A restart does
so again for what a checkpoint has. Whoever is first notes what came of it, and the others take that. Binding costs a
millisecond or two a statement.

What was bound holds for as long as everything below the query is defined as it was: `find` looks at that, down to the
streams and tables. Options of these are no matter to who binds.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from panewise.catalog import Catalog, Definition, QueryDefinition, TableDefinition
from panewise.language import statements as s
from panewise.plan.nodes import Emit
from panewise.plan.physical_plan import PhysicalQuery


@dataclass(frozen=True)
class MadeQuery:
    """A statement, what it defines, its plan, and its node as planned with `sharing`. `below`: what it was bound to."""

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
    """One for each name at most: the last one that was made."""

    def __init__(self) -> None:
        self._made: dict[str, MadeQuery] = {}  # by lower-case name
        self._names: dict[str, str] = {}  # by text of the statement, as it was written or in its canonical form

    def note(
        self,
        statement: s.CreateQuery,
        definition: QueryDefinition,
        plan: Emit,
        node: PhysicalQuery,
        sharing: str,
        catalog: Catalog,
    ) -> None:
        """A query was made, of what the catalog has."""
        made = MadeQuery(statement, definition, plan, node, sharing, _below(definition, catalog))
        self._forget(made.name)
        self._made[made.name] = made
        self._names[statement.text] = made.name

    def note_text(self, text: str, statement: s.Statement) -> None:
        """A statement that was made a query was written like this."""
        if isinstance(statement, s.CreateQuery) and self._names.get(statement.text) is not None:
            self._names[text] = self._names[statement.text]

    def take(self, other: MadeQueries) -> None:
        """Queries that only the other one knows are known here too."""
        for name in other._made.keys() - self._made.keys():
            self._made[name] = other._made[name]
        self._names = other._names | self._names

    def forget(self, definition: QueryDefinition) -> None:
        """A query was dropped. One that was made later, under the same name, stays."""
        made = self._made.get(definition.name.lower())
        if made is not None and made.definition == definition:
            self._forget(made.name)

    def _forget(self, name: str) -> None:
        if self._made.pop(name, None) is not None:
            self._names = {text: other for text, other in self._names.items() if other != name}

    def find(self, text: str, catalog: Catalog) -> MadeQuery | None:
        """What came of a statement, where it may be run and means what it meant then."""
        made = self._made.get(self._names.get(text, ""))
        if made is None or catalog.find(made.name) is not None:
            return None
        return made if all(_same(catalog.find(known.name), known) for known in made.below) else None

    def node_of(self, plan: Emit, definition: QueryDefinition, sharing: str) -> PhysicalQuery | None:
        """The node of a plan that `find` has given."""
        made = self._made.get(definition.name.lower())
        return made.node if made is not None and made.plan is plan and made.sharing == sharing else None


def _below(definition: QueryDefinition, catalog: Catalog) -> tuple[Definition, ...]:
    """All that a query reads, and what that reads."""
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
        return now == then  # whether a stream changes it stands among its options
    return now is not None and replace(now, options=()) == replace(then, options=())
