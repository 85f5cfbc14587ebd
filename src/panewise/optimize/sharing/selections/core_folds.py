"""Which queries over a core have their aggregates folded by it, once for all with the same groups.

Those that report groups of pairs of a join of streams, by time, and nothing else, of states that the core can keep.
"""

from __future__ import annotations

from panewise.aggregates.states import Operation
from panewise.plan.aggregation import Aggregation
from panewise.plan.inputs import report_window
from panewise.plan.nodes import Emit, Join
from panewise.plan.shared_core import SharedCore, grouped_above


def folds_in_core(plan: Emit, core: SharedCore) -> bool:
    """Whether the core answers the query itself, instead of telling its changes."""
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
    """Whether all its states are of a fixed size, built in, and the same in whatever order results come.

    FIRST, LAST, ARG_MIN and ARG_MAX are not: which of the results that are born together is first is the join's choice.
    """
    return all(key.kind.operation < Operation.USER and not key.ordered for key in aggregation.states)
