"""The cost of states without a fixed size: bags of values, lists of the most frequent ones, sketches.

A row's value is sorted into its slice and merged once into every dyadic interval above it that a window needs. An
answer goes through the O(log slices) intervals of its window (`synopses/values/bags.py`). The figures were measured for
medians of random doubles on one core of a shared server. They are right within a factor of two for 1 to 1,000 groups
and windows of 4 to 256 slices. They are used for all of these states, because states that keep values cost about this
much.
"""

from __future__ import annotations

import math

from panewise.optimize.sharing.costs.weave_costs import WindowSums

ROW_NS = 60.0  # a value is sorted into its slice
LEVEL_NS = 8.0  # a value is merged into an interval, for each level above its slice
PIECE_NS = 2_000.0  # an answer goes through an interval, for each group


def held_cost(rate: float, edge_rate: float, windows: WindowSums, groups: float) -> float:
    """The cost per unit of the axis: rows enter slices and intervals, and windows are answered."""
    levels = math.log2(max(2.0, windows.longest * edge_rate))
    pieces = max(windows.answers, windows.logarithms + windows.answers * math.log2(max(edge_rate, 1e-300)))
    return rate * (ROW_NS + levels * LEVEL_NS) + pieces * groups * PIECE_NS
