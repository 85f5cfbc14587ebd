"""The compiled loops over states: fold rows into slots, combine runs of slots.

The fields of states are two matrices, `ints[field, slot]` (int64) and `floats[field, slot]` (float64). `slots` has the
slot of each row; only the caller knows which slice and group a slot belongs to. `valid` is one byte per row, or empty
if no value is NULL. `combine_run` takes the older states on the left. No built-in aggregate depends on that, but users'
aggregates may.

The loops branch on the operation once per run, not per slot, so one compilation serves every built-in aggregate.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from panewise.aggregates.states import Operation
from panewise.arrays import Floats, Ints
from panewise.loops import compiled_loop

Bytes = NDArray[np.uint8]

ADD = int(Operation.ADD)
SUM_FLOAT = int(Operation.SUM_FLOAT)
MIN_INT = int(Operation.MIN_INT)
MAX_INT = int(Operation.MAX_INT)
MIN_FLOAT = int(Operation.MIN_FLOAT)
MAX_FLOAT = int(Operation.MAX_FLOAT)
MIN_STRING = int(Operation.MIN_STRING)
MAX_STRING = int(Operation.MAX_STRING)
MOMENTS = int(Operation.MOMENTS)
EARLIEST = int(Operation.EARLIEST)
LATEST = int(Operation.LATEST)
ARG_MIN_INT = int(Operation.ARG_MIN_INT)
ARG_MAX_STRING = int(Operation.ARG_MAX_STRING)
ARG_MAX_INT = int(Operation.ARG_MAX_INT)
ARG_MIN_FLOAT = int(Operation.ARG_MIN_FLOAT)
ARG_MAX_FLOAT = int(Operation.ARG_MAX_FLOAT)
ARG_MIN_STRING = int(Operation.ARG_MIN_STRING)

LOW_MASK = 0xFFFFFFFF


@compiled_loop
def _run_end(slots: Ints, begin: int) -> int:
    """The end of the run of rows from `begin` on that have the same slot."""
    end = begin + 1
    while end < slots.shape[0] and slots[end] == slots[begin]:
        end += 1
    return end


@compiled_loop
def _come_in_runs(slots: Ints) -> bool:
    """Whether neighbouring rows often share a slot, judged by the first rows. Then it pays to look for runs.

    Reading a slot right after it was written makes the processor wait; within a run its state stays in a register.
    """
    first, found = slots[: min(64, slots.shape[0])], 0
    for i in range(1, first.shape[0]):
        found += first[i] != first[i - 1]
    return first.shape[0] == 64 and found <= 4


@compiled_loop
def fold_count(slots: Ints, valid: Bytes, ints: Ints) -> None:
    """COUNT of rows, or of the valid ones."""
    if valid.shape[0] == 0 and _come_in_runs(slots):
        i = 0
        while i < slots.shape[0]:
            end = _run_end(slots, i)
            ints[0, slots[i]] += end - i
            i = end
    elif valid.shape[0] == 0:
        for i in range(slots.shape[0]):
            ints[0, slots[i]] += 1
    else:
        for i in range(slots.shape[0]):
            ints[0, slots[i]] += valid[i]


@compiled_loop
def fold_sum_integer(slots: Ints, values: Ints, valid: Bytes, ints: Ints) -> None:
    """Sums the high and the low 32 bits separately and moves the carry up at once, so that no prefix can overflow."""
    checked = valid.shape[0] > 0
    for i in range(slots.shape[0]):
        if checked and valid[i] == 0:
            continue
        s = slots[i]
        low = ints[1, s] + (values[i] & LOW_MASK)
        ints[0, s] += (values[i] >> 32) + (low >> 32)
        ints[1, s] = low & LOW_MASK


@compiled_loop
def fold_sum_float(slots: Ints, values: Floats, valid: Bytes, floats: Floats) -> None:
    """Knuth's two-sum: the residue holds what rounding dropped."""
    checked = valid.shape[0] > 0
    for i in range(slots.shape[0]):
        if checked and valid[i] == 0:
            continue
        s = slots[i]
        old = floats[0, s]
        new = old + values[i]
        part = new - old
        floats[0, s] = new
        floats[1, s] += (old - (new - part)) + (values[i] - part)


@compiled_loop
def fold_extreme_integer(operation: int, slots: Ints, values: Ints, valid: Bytes, ints: Ints) -> None:
    checked = valid.shape[0] > 0
    if operation == MIN_INT:
        for i in range(slots.shape[0]):
            if not checked or valid[i] != 0:
                ints[0, slots[i]] = min(ints[0, slots[i]], values[i])
    else:
        for i in range(slots.shape[0]):
            if not checked or valid[i] != 0:
                ints[0, slots[i]] = max(ints[0, slots[i]], values[i])


@compiled_loop
def fold_extreme_float(operation: int, slots: Ints, values: Floats, valid: Bytes, floats: Floats) -> None:
    """NaN is greater than every number, so the identity of MIN is NaN.

    Stores always instead of branching, because no branch predictor can guess whether a row is a new extreme.
    """
    checked = valid.shape[0] > 0
    if not checked and _come_in_runs(slots):
        i = 0
        while i < slots.shape[0]:
            slot, old = slots[i], floats[0, slots[i]]
            end = _run_end(slots, i)
            if operation == MIN_FLOAT:
                for value in values[i:end]:
                    old = value if value < old or old != old else old
            else:
                for value in values[i:end]:
                    old = value if value > old or value != value else old
            floats[0, slot] = old
            i = end
    elif operation == MIN_FLOAT:
        for i in range(slots.shape[0]):
            if not checked or valid[i] != 0:
                old, value = floats[0, slots[i]], values[i]
                floats[0, slots[i]] = value if value < old or old != old else old
    else:
        for i in range(slots.shape[0]):
            if not checked or valid[i] != 0:
                old, value = floats[0, slots[i]], values[i]
                floats[0, slots[i]] = value if value > old or value != value else old


@compiled_loop
def fold_extreme_string(operation: int, slots: Ints, codes: Ints, valid: Bytes, ints: Ints, ranks: Ints) -> None:
    """Codes are compared by their rank in the pool's order. Code -1: no string yet."""
    checked = valid.shape[0] > 0
    for i in range(slots.shape[0]):
        if checked and valid[i] == 0:
            continue
        old = ints[0, slots[i]]
        if old < 0 or (operation == MIN_STRING) == (ranks[codes[i]] < ranks[old]):
            ints[0, slots[i]] = codes[i]


@compiled_loop
def fold_moments(slots: Ints, values: Floats, valid: Bytes, ints: Ints, floats: Floats) -> None:
    """Welford's update of mean and M2."""
    checked = valid.shape[0] > 0
    for i in range(slots.shape[0]):
        if checked and valid[i] == 0:
            continue
        s = slots[i]
        rows = ints[0, s] + 1
        delta = values[i] - floats[0, s]
        mean = floats[0, s] + delta / rows
        ints[0, s] = rows
        floats[0, s] = mean
        floats[1, s] += delta * (values[i] - mean)


@compiled_loop
def fold_end(operation: int, slots: Ints, times: Ints, arrivals: Ints, values: Ints, valid: Bytes, ints: Ints) -> None:
    """The earliest or latest value by (timestamp, arrival); floats come as their bits."""
    checked = valid.shape[0] > 0
    for i in range(slots.shape[0]):
        if checked and valid[i] == 0:
            continue
        s = slots[i]
        sooner = times[i] < ints[0, s] or (times[i] == ints[0, s] and arrivals[i] < ints[1, s])
        if sooner == (operation == EARLIEST):
            ints[0, s] = times[i]
            ints[1, s] = arrivals[i]
            ints[2, s] = values[i]


@compiled_loop
def fold_arg(
    operation: int,
    slots: Ints,
    times: Ints,
    arrivals: Ints,
    values: Ints,
    has_value: Bytes,
    int_keys: Ints,
    float_keys: Floats,
    has_key: Bytes,
    ints: Ints,
    floats: Floats,
    ranks: Ints,
) -> None:
    """The value of the row with the least or greatest key. Rows without a key are ignored."""
    float_key = operation == ARG_MIN_FLOAT or operation == ARG_MAX_FLOAT
    least = operation == ARG_MIN_INT or operation == ARG_MIN_FLOAT or operation == ARG_MIN_STRING
    ranked = operation == ARG_MIN_STRING or operation == ARG_MAX_STRING
    for i in range(slots.shape[0]):
        if has_key.shape[0] > 0 and has_key[i] == 0:
            continue
        s = slots[i]
        if ints[3, s] >= 0:
            if float_key:
                old, new = floats[0, s], float_keys[i]
                equal = old == new or (old != old and new != new)
                less = new < old or (old != old and new == new)
            elif ranked:
                equal = ints[4, s] == int_keys[i]
                less = ranks[int_keys[i]] < ranks[ints[4, s]]
            else:
                equal = ints[4, s] == int_keys[i]
                less = int_keys[i] < ints[4, s]
            earlier = times[i] < ints[0, s] or (times[i] == ints[0, s] and arrivals[i] < ints[1, s])
            if (equal and not earlier) or (not equal and less != least):
                continue
        ints[0, s] = times[i]
        ints[1, s] = arrivals[i]
        ints[2, s] = values[i]
        ints[3, s] = 1 if has_value.shape[0] == 0 or has_value[i] != 0 else 0
        if float_key:
            floats[0, s] = float_keys[i]
        else:
            ints[4, s] = int_keys[i]


@compiled_loop
def _prefers(
    operation: int, ints: Ints, floats: Floats, d: int, ints2: Ints, floats2: Floats, s: int, ranks: Ints
) -> int:
    """1 where the second state's key wins, -1 where the first's does, 0 for equal keys."""
    if operation == ARG_MIN_FLOAT or operation == ARG_MAX_FLOAT:
        a, b = floats[0, d], floats2[0, s]
        if a == b or (a != a and b != b):
            return 0
        less = b < a or (a != a and b == b)
        return 1 if less == (operation == ARG_MIN_FLOAT) else -1
    if operation == ARG_MIN_INT or operation == ARG_MAX_INT:
        x, y = ints[4, d], ints2[4, s]
    else:
        x, y = ranks[ints[4, d]], ranks[ints2[4, s]]
    if x == y:
        return 0
    return 1 if (y < x) == (operation == ARG_MIN_INT or operation == ARG_MIN_STRING) else -1


@compiled_loop
def _combine_arg(
    operation: int, ints: Ints, floats: Floats, d: int, ints2: Ints, floats2: Floats, s: int, count: int, ranks: Ints
) -> None:
    float_key = operation == ARG_MIN_FLOAT or operation == ARG_MAX_FLOAT
    for j in range(count):
        if ints2[3, s + j] < 0:
            continue
        if ints[3, d + j] >= 0:
            wins = _prefers(operation, ints, floats, d + j, ints2, floats2, s + j, ranks)
            if wins == 0:
                earlier = ints2[0, s + j] < ints[0, d + j] or (
                    ints2[0, s + j] == ints[0, d + j] and ints2[1, s + j] < ints[1, d + j]
                )
                wins = 1 if earlier else -1
            if wins < 0:
                continue
        for f in range(4):
            ints[f, d + j] = ints2[f, s + j]
        if float_key:
            floats[0, d + j] = floats2[0, s + j]
        else:
            ints[4, d + j] = ints2[4, s + j]


@compiled_loop
def combine_run(
    operation: int, ints: Ints, floats: Floats, d: int, ints2: Ints, floats2: Floats, s: int, count: int, ranks: Ints
) -> None:
    """Combines `count` states from slot d on, in place, with those from slot s on of the second matrices."""
    if operation == ADD:
        for f in range(ints.shape[0]):
            for j in range(count):
                ints[f, d + j] += ints2[f, s + j]
    elif operation == SUM_FLOAT:
        for j in range(count):
            old = floats[0, d + j]
            value = floats2[0, s + j]
            new = old + value
            part = new - old
            floats[0, d + j] = new
            floats[1, d + j] += floats2[1, s + j] + ((old - (new - part)) + (value - part))
    elif operation == MAX_FLOAT:
        for j in range(count):
            old, value = floats[0, d + j], floats2[0, s + j]
            floats[0, d + j] = value if value > old or value != value else old
    elif operation == MIN_FLOAT:
        for j in range(count):
            old, value = floats[0, d + j], floats2[0, s + j]
            floats[0, d + j] = value if value < old or old != old else old
    elif operation == MAX_INT:
        for j in range(count):
            ints[0, d + j] = max(ints[0, d + j], ints2[0, s + j])
    elif operation == MIN_INT:
        for j in range(count):
            ints[0, d + j] = min(ints[0, d + j], ints2[0, s + j])
    else:
        for j in range(count):
            more = ints2[0, s + j]
            if more == 0:
                continue
            rows = ints[0, d + j]
            delta = floats2[0, s + j] - floats[0, d + j]
            total = rows + more
            if rows == 0:
                floats[0, d + j] = floats2[0, s + j]
                floats[1, d + j] = floats2[1, s + j]
            else:
                floats[0, d + j] += delta * (more / total)
                floats[1, d + j] += floats2[1, s + j] + delta * delta * (rows * (more / total))
            ints[0, d + j] = total


@compiled_loop
def combine_chosen(
    operation: int, ints: Ints, floats: Floats, d: int, ints2: Ints, floats2: Floats, s: int, count: int, ranks: Ints
) -> None:
    """`combine_run` for states that choose a string or a row. Separate, because few queries need it compiled."""
    if operation == MIN_STRING or operation == MAX_STRING:
        for j in range(count):
            code = ints2[0, s + j]
            held = ints[0, d + j]
            if code >= 0 and (held < 0 or (operation == MIN_STRING) == (ranks[code] < ranks[held])):
                ints[0, d + j] = code
    elif operation == EARLIEST or operation == LATEST:
        for j in range(count):
            sooner = ints2[0, s + j] < ints[0, d + j] or (
                ints2[0, s + j] == ints[0, d + j] and ints2[1, s + j] < ints[1, d + j]
            )
            if sooner == (operation == EARLIEST):
                for f in range(3):
                    ints[f, d + j] = ints2[f, s + j]
    else:
        _combine_arg(operation, ints, floats, d, ints2, floats2, s, count, ranks)


@compiled_loop
def combine_at(
    operation: int, ints: Ints, floats: Floats, slots: Ints, ints2: Ints, floats2: Floats, ranks: Ints
) -> None:
    """Combines state i of the second matrices into slot `slots[i]`, in order. Slots may repeat."""
    for i in range(slots.shape[0]):
        combine_run(operation, ints, floats, slots[i], ints2, floats2, i, 1, ranks)


@compiled_loop
def combine_chosen_at(
    operation: int, ints: Ints, floats: Floats, slots: Ints, ints2: Ints, floats2: Floats, ranks: Ints
) -> None:
    """`combine_at` for states that choose a string or a row."""
    for i in range(slots.shape[0]):
        combine_chosen(operation, ints, floats, slots[i], ints2, floats2, i, 1, ranks)


@compiled_loop
def reset_rooms(
    ints: Ints, floats: Floats, rooms: Ints, width: int, int_identity: Ints, float_identity: Floats
) -> None:
    """Sets all slots of these rooms to the identity."""
    for room in rooms:
        for f in range(ints.shape[0]):
            for j in range(room * width, (room + 1) * width):
                ints[f, j] = int_identity[f]
        for f in range(floats.shape[0]):
            for j in range(room * width, (room + 1) * width):
                floats[f, j] = float_identity[f]
