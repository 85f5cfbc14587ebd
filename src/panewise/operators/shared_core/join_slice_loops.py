"""The compiled loops of aggregates over joins: they compute reports from slices in the order of time.

At each instant with reports the slices are combined once, from the youngest to the oldest. On the way the windows that
are due are answered, the shortest first:

    slices    |-----|--|-----|--|-----|--|        highs: how many slices begin before the instant
                       [ shortest        )        lows: the position of the first slice of each window
              [ longest                  )

`combine_run` must be a global: `loop_for` replaces it for states that choose a string.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from panewise.aggregates.kernels import combine_run
from panewise.arrays import Floats, Ints
from panewise.loops import compiled_loop
from panewise.synopses.slice_ring import copy_states

Mask = NDArray[np.bool_]
# The arrays of a loop are grouped in plain tuples: with named ones Numba needs longer for each call.
DueArrays = tuple[Ints, Ints, Ints, Ints]
"""The rooms of the slices; `highs`, `due_ends` and `lows` of `DueJoinReports`."""
EntryArrays = tuple[Ints, Ints, Ints]
"""The entries of sparse slices (`OpenSlices.entries`)."""
States = tuple[Ints, Floats]
"""The integer and the floating-point fields of states."""


@compiled_loop
def report_dense(
    operation: int, held: States, width: int, groups: int, begin: int, end: int, due: DueArrays, wanted: Mask,
    offsets: Ints, blank: States, total: States, out: States, ranks: Ints,
) -> None:  # fmt: skip
    """Computes the reports of the instants [begin, end) from dense slices, for the first `groups` groups.

    Report j is written to `out` from `offsets[j]` on. Only `wanted` reports need this state. `blank` is the identity.
    """
    rooms, highs, due_ends, lows = due
    (ints, floats), (blank_ints, blank_floats) = held, blank
    (total_ints, total_floats), (out_ints, out_floats) = total, out
    zero = 0 * width  # With a literal 0, Numba would compile another specialisation.
    for instant in range(begin, end):
        copy_states(total_ints, total_floats, zero, blank_ints, blank_floats, zero, groups)
        position = highs[instant]
        for report in range(due_ends[instant - 1] if instant > 0 else 0, due_ends[instant]):
            if not wanted[report]:
                continue
            while position > lows[report]:
                position -= 1
                source = rooms[position] * width
                combine_run(operation, total_ints, total_floats, zero, ints, floats, source, groups, ranks)
            copy_states(out_ints, out_floats, offsets[report], total_ints, total_floats, zero, groups)


@compiled_loop
def count_touched(begin: int, end: int, due: DueArrays, entries: EntryArrays, seen: Ints, sizes: Ints) -> None:
    """Counts the groups in each report, from sparse slices, into `sizes`. `seen` is -1 for all groups."""
    rooms, highs, due_ends, lows = due
    heads, entry_next, entry_group = entries
    for instant in range(begin, end):
        position, count = highs[instant], 0
        for report in range(due_ends[instant - 1] if instant > 0 else 0, due_ends[instant]):
            while position > lows[report]:
                position -= 1
                entry = heads[rooms[position]]
                while entry >= 0:
                    if seen[entry_group[entry]] != instant:
                        seen[entry_group[entry]] = instant
                        count += 1
                    entry = entry_next[entry]
            sizes[report] = count


@compiled_loop
def report_sparse(
    operation: int, held: States, entries: EntryArrays, places: Ints, touched: Ints, out_groups: Ints, begin: int,
    end: int, due: DueArrays, wanted: Mask, offsets: Ints, blank: States, total: States, out: States, ranks: Ints,
) -> None:  # fmt: skip
    """Like `report_dense`, from sparse slices. A report has the groups of its slices, in the order of their discovery.

    `places` is -1 for all groups, before and after the call.
    """
    rooms, highs, due_ends, lows = due
    heads, entry_next, entry_group = entries
    (ints, floats), (blank_ints, blank_floats) = held, blank
    (total_ints, total_floats), (out_ints, out_floats) = total, out
    # With literals, Numba would compile another specialisation for each.
    one, zero = min(1, rooms.shape[0] + 1), 0 * operation
    for instant in range(begin, end):
        position, count = highs[instant], zero
        for report in range(due_ends[instant - 1] if instant > 0 else 0, due_ends[instant]):
            if not wanted[report]:
                continue
            while position > lows[report]:
                position -= 1
                entry = heads[rooms[position]]
                while entry >= 0:
                    place = places[entry_group[entry]]
                    if place < 0:
                        place = count
                        places[entry_group[entry]] = place
                        touched[place] = entry_group[entry]
                        copy_states(total_ints, total_floats, place, blank_ints, blank_floats, zero, one)
                        count += one
                    combine_run(operation, total_ints, total_floats, place, ints, floats, entry, one, ranks)
                    entry = entry_next[entry]
            copy_states(out_ints, out_floats, offsets[report], total_ints, total_floats, zero, count)
            out_groups[offsets[report] : offsets[report] + count] = touched[:count]
        for k in range(count):
            places[touched[k]] = -1
