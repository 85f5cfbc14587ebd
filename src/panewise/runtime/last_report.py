"""The instant of a query's last report: what tells an answer without rows from one that has not come yet.

A report in which no group is present, or none passes HAVING, leaves nothing in the results. Who has read all results
and knows this instant knows that the answer at it is empty (`stats()`, the dashboard).
"""

from __future__ import annotations

from panewise.language.statements import Emit as Emission
from panewise.plan.blocks import Block
from panewise.plan.inputs import has_several_inputs, report_window
from panewise.plan.nodes import Emit
from panewise.runtime.consumers import TreeConsumer
from panewise.runtime.hosted_query import HostedQuery
from panewise.runtime.hosting import Hosting
from panewise.temporal import TimeWindow


def due_report(plan: Emit, block: Block, come_to: int) -> int | None:
    """The last instant up to `come_to` at which a query reports; None where its windows have no SLIDE in time."""
    window = report_window(plan) if has_several_inputs(plan) else block.window
    if not isinstance(window, TimeWindow) or window.slide_us is None:
        return None
    return come_to - (come_to - window.align_us) % window.slide_us


def says_all(plan: Emit) -> bool:
    """Whether every report is the whole answer, and not what has changed."""
    return plan.emission is Emission.RSTREAM and not plan.restore


def last_report(query: HostedQuery, hosting: Hosting) -> int | None:
    """The instant of the last report, whether it had rows or not.

    None where the answer is not told in whole reports, where there was no report yet, and while the last one that was
    due was not made: the query is suspended, or began or was resumed after it.
    """
    if query.status != "RUNNING" or not says_all(query.plan) or query.is_to_begin:
        return None
    consumer = hosting.consumers[query.name]
    if isinstance(consumer, TreeConsumer) and consumer.counts_rows:
        report = consumer.due_time(query.name)
    else:
        report = due_report(query.plan, query.block, consumer.come_to)
    if report is None or report <= query.silent_until:
        return None
    return report if query.whole_from is None or report >= query.whole_from else None
