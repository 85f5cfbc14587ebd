"""The lateness of a query: by how much its last report appeared after the rows that completed it were pushed.

Seconds of the wall clock, from what its streams have noted (`push_times`); computed when `stats()` asks for it.
"""

from __future__ import annotations

from panewise.plan.inputs import has_several_inputs, report_window
from panewise.runtime.consumers import TreeConsumer
from panewise.runtime.hosted_query import HostedQuery
from panewise.runtime.hosting import Hosting
from panewise.runtime.stream import Stream
from panewise.temporal import TimeWindow


def lateness_of(query: HostedQuery, hosting: Hosting) -> float | None:
    """Seconds, of the last report of a query that has results; None where its windows have no SLIDE in time.

    A report over several streams waits for all: the rows that came last completed it, and they have waited least.
    """
    window = report_window(query.plan) if has_several_inputs(query.plan) else query.block.window
    if not isinstance(window, TimeWindow) or window.slide_us is None or not query.rows_out:
        return None
    consumer = hosting.consumers[query.name]
    last = consumer.come_to - (consumer.come_to - window.align_us) % window.slide_us
    answered = None  # by the clock; None: when its rows were processed
    if isinstance(consumer, TreeConsumer) and consumer.answered_late is not None:
        after, upto, at = consumer.answered_late
        answered = at if after < last <= upto else None
    known = [root.push_times.lateness(last, answered) for root in hosting.roots(query) if isinstance(root, Stream)]
    return min((seconds for seconds in known if seconds is not None), default=None)
