"""Decides whether the core of a query folds its aggregates, once for all queries with the same groups.

The query must report groups of the results of a join of streams, by time, and nothing else. The core must be able to
keep its states.
"""

from __future__ import annotations

from panewise.aggregates.states import Operation
from panewise.plan.aggregation import Aggregation
from panewise.plan.inputs import report_window
from panewise.plan.nodes import Emit, Join
from panewise.plan.shared_core import SharedCore, grouped_above


def folds_in_core(plan: Emit, core: SharedCore) -> bool:
    """Whether the core answers the query itself, instead of giving it changes."""
    if not isinstance(core.node, Join):
        return False
    found, window = grouped_above(plan, core), report_window(plan)
    if found is None or window is None or window.slide_us is None:
        return False
    aggregate, having, items = found
    arguments = tuple(call.arguments for call in aggregate.aggregates)
    bound = tuple(call.bound for call in aggregate.aggregates)
    return can_be_folded(Aggregation(aggregate.keys, bound, arguments, items, having))


def can_be_folded(aggregation: Aggregation) -> bool:
    """Whether all states have a fixed size, are built in, and do not depend on the order of results.

    FIRST, LAST, ARG_MIN and ARG_MAX depend on it: a join gives results that are born together in any order.
    """
    return all(key.kind.operation < Operation.USER and not key.ordered for key in aggregation.states)
