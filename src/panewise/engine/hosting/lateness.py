"""The lateness of a query: by how much its last report appeared after the rows that completed it were pushed.

Seconds of the wall clock, from what its streams have noted (`push_times`); computed when `stats()` asks for it.
"""

from __future__ import annotations

from panewise.engine.channels.hosted_query import HostedQuery
from panewise.engine.channels.window_ends import due_report
from panewise.engine.hosting.query_registry import QueryRegistry


def lateness_of(query: HostedQuery, hosting: QueryRegistry) -> float | None:
    """Seconds, of the last report of a query that has results; None where its windows have no SLIDE in time.

    A report over several streams waits for all: the rows that came last completed it, and they have waited least.
    """
    consumer = hosting.consumers[query.name]
    last = due_report(query.plan, query.block, consumer.come_to)
    if last is None or not query.rows_out:
        return None
    answered = consumer.answered_at(last)
    known = [root.waited(last, answered) for root in hosting.graph.roots(query)]
    return min((seconds for seconds in known if seconds is not None), default=None)
