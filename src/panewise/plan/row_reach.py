"""How long a row matters to a plan over several inputs.

If every input is a window of time with a range, the relation of a plan is a function of the rows in the windows
(definition 3.1 of Golab 2006). Then the plan's state can be rebuilt from those rows alone. A row that left its window
before the last report appears in no later report, and in no report that a later one is compared with.

    row  t     t + offset          t + offset + range           t + reach
         |.........|=======in the window======|......one slide......|   not needed after this instant

This does not hold if a plan has more state than that relation: answers without GROUP BY, which exist from the first row
on; sums of floating-point numbers, which depend on the order of addition; and tables.
"""

from __future__ import annotations

from panewise.plan.inputs import has_several_inputs, is_table, of_block
from panewise.plan.nodes import Aggregate, Aggregated, Emit, Scan, WindowOf
from panewise.temporal import TimeWindow

EXACT = ("COUNT", "SUM", "AVG", "MIN", "MAX")  # same result in every order, except over floating-point numbers


def reach_of(plan: Emit) -> dict[str, int] | None:
    """For each stream, by its name in lower case, for how many microseconds a row matters; None if that is unknown."""
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
