"""The rows that describe nodes of dyadic runs in their arena, and the loops that move, read and renumber nodes.

A row of `nodes` has the index of the node's interval, the begin and the number of its values in the arena, and the
begin and the number of its segments. `dyadic_runs` draws the arena. Each loop is linear in the size of its nodes.
"""

from __future__ import annotations

import numpy as np

from panewise.arrays import Ints
from panewise.loops import compiled_loop

# The columns of `nodes`.
INDEX, BEGIN, LENGTH, SEGMENT, SEGMENTS = range(5)
COLUMNS = 5


@compiled_loop
def move_nodes(
    nodes: Ints, live: Ints, values: Ints, before: Ints, segments: Ints,
    new_values: Ints, new_before: Ints, new_segments: Ints, used: Ints,
) -> None:  # fmt: skip
    """Copies the live nodes to another arena. Rows of dead nodes become stale, but their indices are not used again."""
    at, at_segment = 0, 0
    for place in live:
        begin, length = nodes[place, BEGIN], nodes[place, LENGTH]
        for j in range(length + 1):
            new_values[at + j], new_before[at + j] = values[begin + j], before[begin + j]
        segment = nodes[place, SEGMENT]
        for j in range(nodes[place, SEGMENTS]):
            for field in range(3):
                new_segments[at_segment + j, field] = segments[segment + j, field]
        nodes[place, BEGIN], nodes[place, SEGMENT] = at, at_segment
        at += length + 1
        at_segment += nodes[place, SEGMENTS]
    used[0], used[1] = at, at_segment


@compiled_loop
def taken_runs(rows: Ints, values: Ints, before: Ints, segments: Ints) -> tuple[Ints, Ints, Ints, Ints]:
    """The concatenated runs of rows: (lengths, groups, values, counts).

    Reads segment by segment, because regrouping may have left values that belong to no segment.
    """
    lengths = np.zeros(rows.shape[0], np.int64)
    for i in range(rows.shape[0]):
        for s in range(rows[i, SEGMENT], rows[i, SEGMENT] + rows[i, SEGMENTS]):
            lengths[i] += segments[s, 2] - segments[s, 1]
    total = lengths.sum()
    groups, run_values, counts = np.empty(total, np.int64), np.empty(total, np.int64), np.empty(total, np.int64)
    at = 0
    for i in range(rows.shape[0]):
        begin = rows[i, BEGIN]
        for s in range(rows[i, SEGMENT], rows[i, SEGMENT] + rows[i, SEGMENTS]):
            for j in range(begin + segments[s, 1], begin + segments[s, 2]):
                groups[at], run_values[at], counts[at] = segments[s, 0], values[j], before[j + 1] - before[j]
                at += 1
    return lengths, groups, run_values, counts


@compiled_loop
def rename_groups(nodes: Ints, live: Ints, segments: Ints, renamed: Ints) -> None:
    """Renumbers groups, with -1 for dropped ones, and sorts segments again. Values stay in place."""
    for place in live:
        begin, kept, ordered = nodes[place, SEGMENT], 0, True
        for s in range(begin, begin + nodes[place, SEGMENTS]):
            group = renamed[segments[s, 0]]
            if group < 0:
                continue
            ordered &= kept == 0 or segments[begin + kept - 1, 0] < group
            segments[begin + kept, 0] = group
            segments[begin + kept, 1], segments[begin + kept, 2] = segments[s, 1], segments[s, 2]
            kept += 1
        nodes[place, SEGMENTS] = kept
        if not ordered:
            mixed = segments[begin : begin + kept].copy()
            order = np.argsort(mixed[:, 0])
            for s in range(kept):
                for field in range(3):
                    segments[begin + s, field] = mixed[order[s], field]


@compiled_loop
def rename_values(nodes: Ints, live: Ints, values: Ints, segments: Ints, renamed: Ints) -> None:
    """Renumbers the values that belong to a group. Values of dropped groups may have no new code."""
    for place in live:
        begin, segment = nodes[place, BEGIN], nodes[place, SEGMENT]
        for s in range(segment, segment + nodes[place, SEGMENTS]):
            for j in range(begin + segments[s, 1], begin + segments[s, 2]):
                values[j] = renamed[values[j]]
