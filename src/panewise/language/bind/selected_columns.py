"""The columns of a query's results, report columns first, and which of them is the event time.

A periodic query (some window has SLIDE) has `window_start`, `window_end` and its items. A continuous one has `instant`,
then `change` if it is a change log, then its items. A query that reads only tables has its items.
"""

from __future__ import annotations

from panewise.language.statements import WINDOWLESS, Emission, Input, Named, Query, Select, SetOperation
from panewise.schema import INT, TIMESTAMP, Column, Schema


def periodic(query: Query) -> bool:
    """Whether the query reports at slides, and not at every change."""
    if isinstance(query, SetOperation):
        return periodic(query.left) or periodic(query.right)
    return any(_input_periodic(entry) for entry in query.inputs)


def windowed(query: Query) -> bool:
    """Whether the query reads a stream, directly or in a subquery."""
    if isinstance(query, SetOperation):
        return windowed(query.left) or windowed(query.right)
    return any(
        entry.relation.kind not in WINDOWLESS if isinstance(entry.relation, Named) else windowed(entry.relation)
        for entry in query.inputs
    )


def emitted(query: Query) -> Emission:
    """How the query's relation becomes a stream: as the query says, or the default of its windows."""
    if isinstance(query, SetOperation):
        left, right = emitted(query.left), emitted(query.right)
        return left if left == right else Emission.RSTREAM if periodic(query) else Emission.CHANGES
    if query.emit is not None:
        return query.emit
    windows = [entry.window for entry in query.inputs if entry.window is not None]
    internal = bool(windows) and all(window.internal for window in windows)
    if not periodic(query):
        return Emission.ISTREAM if internal else Emission.CHANGES
    # An aggregate reports at every slide, even if its value has not changed. A selected row is new only once.
    return Emission.ISTREAM if internal and not query.aggregated else Emission.RSTREAM


def item_columns(query: Query) -> tuple[Column, ...]:
    """The columns of the selected items. A set operation has the names of its left side."""
    while isinstance(query, SetOperation):
        query = query.left
    return tuple(Column(item.name, item.expression.type) for item in query.items)


def report_columns(query: Query) -> tuple[Column, ...]:
    """The columns that the report adds in front of the items."""
    if not windowed(query):
        return ()
    if periodic(query):
        return (Column("window_start", TIMESTAMP), Column("window_end", TIMESTAMP))
    change = (Column("change", INT),) if emitted(query) == Emission.CHANGES else ()
    return (Column("instant", TIMESTAMP), *change)


def result_columns(query: Query) -> Schema:
    """The columns of the query's results, as a query over it sees them."""
    return Schema((*report_columns(query), *item_columns(query)))


def event_time(query: Query) -> str | None:
    """The event-time column of the results; None if the query reads only tables."""
    if not windowed(query):
        return None
    return "window_end" if periodic(query) else "instant"


def _input_periodic(entry: Input) -> bool:
    if entry.window is not None:
        return entry.window.periodic
    return isinstance(entry.relation, Select | SetOperation) and periodic(entry.relation)
