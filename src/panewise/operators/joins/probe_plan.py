"""In which order a new row of each input probes the others, and which index it uses at each level.

A slot is one class of equal attributes of one input. At every level the index is that of a class that some bound input
has too. Further shared classes are compared. An input that shares no class with a bound one is scanned: all inputs then
have one more class in which every key is 0, so that a scan is a walk along a chain too.

There is one order for each origin, the input of the new row (Golab and Özsu 2003, section 5.2). The planner chooses
them (`optimize/joins`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from panewise.arrays import Small
from panewise.operators.joins.join_loops import ProbeLevels
from panewise.plan.physical_plan import Orders


@dataclass(frozen=True)
class ProbePlan:
    """By origin and level: the input probed, its slot, and the slot of a bound input that gives the key.

    The level's comparisons are [check_starts[origin, level], check_starts[origin, level + 1]) of the other `check_`
    arrays.
    """

    orders: Orders
    level_inputs: Small
    level_slots: Small
    level_sources: Small
    check_starts: Small
    check_slots: Small
    check_sources: Small
    slot_inputs: Small
    linked: NDArray[np.bool_]  # by slot: whether some level walks its chains

    @property
    def levels(self) -> ProbeLevels:
        """The arrays, for the loops."""
        return (
            self.level_inputs, self.level_slots, self.level_sources, self.check_starts, self.check_slots,
            self.check_sources, self.slot_inputs, self.linked,
        )  # fmt: skip


def needs_scan(orders: Orders, classes: Sequence[frozenset[int]]) -> bool:
    """Whether some input shares no class with those bound before it."""
    for origin, order in enumerate(orders):
        bound = {origin}
        for target in order:
            if not any(target in members and bound & members for members in classes):
                return True
            bound.add(target)
    return False


def probe_plan(
    orders: Orders, classes: Sequence[frozenset[int]], widths: Sequence[int], slots: Sequence[tuple[int, int]]
) -> ProbePlan:
    """The plan for these orders. A slot is (class, input). The class with most key columns (`widths`) is preferred."""
    inputs = len(orders)
    for origin, order in enumerate(orders):
        assert sorted((origin, *order)) == list(range(inputs)), f"order {order} of input {origin} must name the others"
    number = {slot: i for i, slot in enumerate(slots)}
    shape = (inputs, inputs - 1)
    level_inputs, level_slots, level_sources = (np.zeros(shape, np.int32) for _ in range(3))
    check_starts = np.zeros((inputs, inputs), np.int32)
    checks: list[tuple[int, int]] = []
    preferred = sorted(range(len(classes)), key=lambda c: -widths[c])
    for origin, order in enumerate(orders):
        bound = [origin]
        for level, target in enumerate(order):
            shared = [
                (number[c, target], number[c, source])
                for c in preferred
                if target in classes[c] and (source := next((b for b in bound if b in classes[c]), None)) is not None
            ]
            level_inputs[origin, level] = target
            level_slots[origin, level], level_sources[origin, level] = shared[0]
            check_starts[origin, level] = len(checks)
            # The keys of the class for scans have no columns and are always equal.
            checks += [pair for pair in shared[1:] if widths[slots[pair[0]][0]]]
            check_starts[origin, level + 1] = len(checks)
            bound.append(target)
    linked = np.zeros(len(slots), np.bool_)
    linked[level_slots.reshape(-1)] = True
    pairs = np.array(checks, np.int32).reshape(-1, 2)
    return ProbePlan(
        orders, level_inputs, level_slots, level_sources, check_starts,
        np.ascontiguousarray(pairs[:, 0]), np.ascontiguousarray(pairs[:, 1]),
        np.array([i for _, i in slots], np.int32), linked,
    )  # fmt: skip
