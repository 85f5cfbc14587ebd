"""What the planner is told of the streams and tables that a plan reads: their rates and sizes now.

A rate is rows per second of event time since the stream began. Streams with few rows and tables without rows are left
out; the planner assumes figures for them (`optimize/rewrites/statistics.py`). Cost: O(inputs of the plan).
"""

from __future__ import annotations

from panewise.engine.books.books import Books
from panewise.optimize.rewrites.statistics import Statistics
from panewise.plan.nodes import Emit, Scan
from panewise.temporal import SECOND

MEASURED_FROM = 1_000  # rows


def measured(plan: Emit, books: Books) -> Statistics:
    """The statistics of all that a plan reads by name, in queries in parentheses too."""
    rates: dict[str, float] = {}
    table_rows: dict[str, float] = {}
    for node in plan.walk():
        if isinstance(node, Scan) and node.kind == "table":
            count = books.table(node.name).row_count
            table_rows |= {node.name: float(count)} if count else {}
        elif isinstance(node, Scan) and node.name.lower() in books.streams:
            rate = _rate(books, node.name)
            rates |= {node.name: rate} if rate is not None else {}
    return Statistics(rates=rates, table_rows=table_rows)


def _rate(books: Books, name: str) -> float | None:
    """Rows per second of event time; None while there are too few to tell."""
    stream = books.streams[name.lower()]
    oldest, newest = stream.oldest, stream.newest
    if stream.rows_seen < MEASURED_FROM or oldest is None or newest is None or newest <= oldest:
        return None
    return stream.rows_seen * SECOND / (newest - oldest)
