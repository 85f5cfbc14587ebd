"""How long rows matter to a plan over several inputs: what was born of windows of time is gone with them.

Where every input is a window of time that ends, the relation of a plan is a function of the rows that are in the
windows (definition 3.1 of Golab 2006), so that whoever has those rows, and no others, can build the plan's state anew.
A row that left before the last report is in none that is still to come, nor in one that is compared with it.

    row  t     t + offset          t + offset + range           t + reach
         |.........|=======in the window======|......one slide......|   not needed by who has come beyond this

Not so for a plan that holds more than that relation: answers without GROUP BY, which are there from the first row on,
sums of floating-point numbers, which are those of the order in which they were made, and tables.
"""

from __future__ import annotations

from panewise.plan.inputs import has_several_inputs, is_table, of_block
from panewise.plan.nodes import Aggregate, Aggregated, Emit, Scan, WindowOf
from panewise.temporal import TimeWindow

EXACT = ("COUNT", "SUM", "AVG", "MIN", "MAX")  # over other than floating-point numbers: the same in every order


def reach_of(plan: Emit) -> dict[str, int] | None:
    """By stream, in lower case: after how many microseconds a row matters no more; None where that is not known."""
    if not has_several_inputs(plan) or plan.restore:
        return None
    found: dict[str, int] = {}
    for node in of_block(plan.input):
        if is_table(node) or (isinstance(node, Aggregate) and not _exact(node)):
            return None
        if isinstance(node, WindowOf):
            window = node.window
            known = isinstance(node.input, Scan) and node.input.kind == "stream"
            if not known or not isinstance(window, TimeWindow) or window.range_us is None:
                return None
            assert isinstance(node.input, Scan)
            name = node.input.name.lower()
            found[name] = max(found.get(name, 0), window.range_us + window.offset_us)
    slide = max((w.slide_us or 0 for w in plan.input.windows() if isinstance(w, TimeWindow)), default=0)
    return {name: reach + slide for name, reach in found.items()}


def _exact(node: Aggregate) -> bool:
    return bool(node.keys) and all(map(_same_in_every_order, node.aggregates))


def _same_in_every_order(aggregated: Aggregated) -> bool:
    fractional = any(argument.type.fractional for argument in aggregated.arguments)
    return aggregated.bound.name in EXACT and (not fractional or aggregated.bound.name == "COUNT")
