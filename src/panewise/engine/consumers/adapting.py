"""What runs is adapted between two steps, as a `Difference` of the host's plan: who runs it measures, `optimize`
decides.

A consumer asks after every step. Where something is to change it does not change it, but hands the difference to the
host's `change`, which is also how queries come and go.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from panewise.optimize.joins.reordering import Measuring, next_orders
from panewise.plan.physical_plan import CoreKey, Difference, JoinKey

Change = Callable[[Difference], None]


def orders_changed(of: str | CoreKey, joins: Mapping[tuple[int, int], Measuring]) -> Difference:
    """The orders in which joins are to go on; nothing, mostly. `of`: the query, or the core, that they run for."""
    found = {
        JoinKey(of, *number): orders for number, join in joins.items() if (orders := next_orders(join)) is not None
    }
    return Difference(ordered=found)
