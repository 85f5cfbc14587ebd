"""Running operators are adapted between two steps: consumers measure, and `optimize` decides.

A consumer asks after every step. It applies no change itself, but hands a `Difference` of the host's plan to the host's
`change`, by which queries are also created and dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from panewise.optimize.joins.reordering import Measuring, next_orders
from panewise.plan.physical_plan import CoreKey, Difference, JoinKey

Change = Callable[[Difference], None]


def orders_changed(of: str | CoreKey, joins: Mapping[tuple[int, int], Measuring]) -> Difference:
    """The new orders of those joins that should change theirs. `of`: the query or core that the joins run for."""
    found = {
        JoinKey(of, *number): orders for number, join in joins.items() if (orders := next_orders(join)) is not None
    }
    return Difference(ordered=found)
