"""Results on their way out of an engine: they count as read when they have been handed on, and that is logged.

Invariant: if anything is raised before that, they have not been read, and the next reader gets the same results. An
interrupt in the middle of a read leaves a broken engine.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from panewise.engine.books.books import Books
from panewise.engine.channels.hosted_query import HostedQuery


def read_out(books: Books, queries: list[HostedQuery], hand: Callable[[list[pa.Table]], None]) -> list[pa.Table]:
    """The new results of queries, a table each. `hand` gets them before they count as read."""
    tables: list[pa.Table] = []
    log, records = books.log, None
    with books.turns.change as change:
        try:
            for query in queries:
                tables.append(query.read())  # noqa: PERF401 - these are put back if the next read raises
            hand(tables)
            if log is not None:
                records = log.records
                with change:
                    log.hands_out([query for query, table in zip(queries, tables, strict=True) if table.num_rows])
        except BaseException as problem:
            # If an interrupt comes after the record was logged, the results have been read.
            noted = log is not None and records is not None and log.records != records
            for query, table in zip(queries, tables, strict=False) if not noted else ():
                query.put_back(table)
            if len(tables) == len(queries) or isinstance(problem, Exception):
                change.undone()  # unless an interrupt came in the middle of a read
            raise
    return tables
