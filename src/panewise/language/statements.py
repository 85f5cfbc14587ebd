"""Typed statements, as the binder returns them: every name is found and every type is known."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from panewise.language.expressions import Expression, Value
from panewise.schema import Schema
from panewise.temporal import Window

Options = tuple[tuple[str, Value], ...]
WINDOWLESS = ("table", "archive")  # kinds of inputs without a window: a query reads all their rows


class Emission(StrEnum):
    """How the relation that a query computes becomes a stream of results."""

    RSTREAM = "RSTREAM"  # the whole relation at every report
    ISTREAM = "ISTREAM"  # rows that were not in the previous report
    DSTREAM = "DSTREAM"  # rows of the previous report that are gone
    CHANGES = "CHANGES"  # both, with +1 or -1 in the column `change`; continuous queries only


@dataclass(frozen=True)
class Named:
    """A stream, table, query or archive of the catalog as an input."""

    name: str
    kind: str  # 'stream', 'table', 'query' or 'archive'
    schema: Schema
    timestamp: str | None  # the event-time column; None for a table
    retroactive: bool = True  # table only: whether a change affects the results of rows that arrived before it


@dataclass(frozen=True)
class Input:
    """One entry of FROM: a relation, its alias, and its window (None for a table)."""

    alias: str
    relation: Named | Select | SetOperation
    window: Window | None


@dataclass(frozen=True)
class SelectItem:
    name: str
    expression: Expression


@dataclass(frozen=True)
class Exists:
    """`[NOT] EXISTS (select)` as a conjunct of WHERE. The WHERE of `select` may refer to the SELECT around it."""

    negated: bool
    select: Select


@dataclass(frozen=True)
class Select:
    """One SELECT over windows. Join conditions of ON are part of `where`.

    `outer` has the kind of each join, in the order of the inputs after the first, if one of them is not an inner join.
    The planner refuses those.
    """

    items: tuple[SelectItem, ...]
    inputs: tuple[Input, ...]
    where: Expression | None = None
    exists: tuple[Exists, ...] = ()
    group_by: tuple[Expression, ...] = ()
    having: Expression | None = None
    distinct: bool = False
    emit: Emission | None = None  # None: the default of the window
    restore: bool = False
    outer: tuple[str, ...] = ()

    @property
    def aggregated(self) -> bool:
        return bool(self.group_by) or self.having is not None or any(i.expression.aggregates() for i in self.items)


@dataclass(frozen=True)
class SetOperation:
    """UNION, UNION ALL, EXCEPT, EXCEPT ALL, INTERSECT of two selects."""

    kind: str
    left: Select | SetOperation
    right: Select | SetOperation


Query = Select | SetOperation


@dataclass(frozen=True)
class Statement:
    """The base of all statements. `text` is the statement's canonical text."""

    text: str = field(compare=False)


@dataclass(frozen=True)
class CreateStream(Statement):
    name: str
    schema: Schema
    timestamp: str
    delay_us: int
    options: Options
    if_not_exists: bool = False


@dataclass(frozen=True)
class CreateTable(Statement):
    name: str
    schema: Schema
    primary_key: tuple[str, ...]
    retroactive: bool
    options: Options
    if_not_exists: bool = False


@dataclass(frozen=True)
class CreateQuery(Statement):
    name: str
    query: Query
    options: Options
    if_not_exists: bool = False


@dataclass(frozen=True)
class CreateSink(Statement):
    name: str
    source: str
    options: Options
    if_not_exists: bool = False


@dataclass(frozen=True)
class CreateArchive(Statement):
    """Keeps the rows of a query or stream in files. `timestamp` is the column with the time of each row."""

    name: str
    source: str
    schema: Schema
    timestamp: str
    options: Options
    if_not_exists: bool = False


@dataclass(frozen=True)
class Drop(Statement):
    kind: str  # 'stream', 'table', 'query', 'sink' or 'archive'
    name: str
    if_exists: bool = False


@dataclass(frozen=True)
class SuspendQuery(Statement):
    name: str


@dataclass(frozen=True)
class ResumeQuery(Statement):
    name: str


@dataclass(frozen=True)
class AlterStream(Statement):
    name: str
    options: Options


@dataclass(frozen=True)
class AlterArchive(Statement):
    name: str
    options: Options


@dataclass(frozen=True)
class Show(Statement):
    kind: str  # 'streams', 'tables', 'queries', 'sinks' or 'archives'


@dataclass(frozen=True)
class Explain(Statement):
    """EXPLAIN QUERY name, EXPLAIN SELECT ... (`query`), or EXPLAIN PLAN (neither)."""

    name: str | None = None
    query: Query | None = None


@dataclass(frozen=True)
class SelectOnce(Statement):
    """A one-time query."""

    query: Query


@dataclass(frozen=True)
class Insert(Statement):
    table: str
    rows: tuple[tuple[Value, ...], ...]  # one value per column of the table, in its order


@dataclass(frozen=True)
class Update(Statement):
    table: str
    assignments: tuple[tuple[str, Expression], ...]
    where: Expression | None


@dataclass(frozen=True)
class Delete(Statement):
    table: str
    where: Expression | None
