"""The instant of a query's last report: what tells an answer without rows from one that has not come yet.

A report in which no group is present, or none passes HAVING, leaves nothing in the results. Who has read all results
and knows this instant knows that the answer at it is empty (`stats()`, the dashboard).
"""

from __future__ import annotations

from panewise.language.statements import Emit as Emission
from panewise.plan.nodes import Emit
from panewise.runtime.hosted_query import HostedQuery
from panewise.runtime.hosting import Hosting


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
    report = hosting.consumers[query.name].last_due(query)
    if report is None or report <= query.silent_until:
        return None
    return report if query.whole_from is None or report >= query.whole_from else None
