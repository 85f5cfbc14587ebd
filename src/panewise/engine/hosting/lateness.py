"""The lateness of a query: the time from the push of the rows that completed its last report until the report.

It is measured in seconds of the wall clock. Streams note when rows are pushed (`push_times`); `stats()` computes it.
"""

from __future__ import annotations

from panewise.engine.channels.hosted_query import HostedQuery
from panewise.engine.channels.window_ends import due_report
from panewise.engine.hosting.query_registry import QueryRegistry


def lateness_of(query: HostedQuery, hosting: QueryRegistry) -> float | None:
    """The lateness of a query's last report, in seconds; None if it has no results, or windows without SLIDE in time.

    A report over several streams waits for all of them. The rows that came last completed it: they have waited least.
    """
    consumer = hosting.consumers[query.name]
    last = due_report(query.plan, query.block, consumer.watermark)
    if last is None or not query.rows_out:
        return None
    answered = consumer.answered_at(last)
    known = [root.waited(last, answered) for root in hosting.graph.roots(query)]
    return min((seconds for seconds in known if seconds is not None), default=None)
