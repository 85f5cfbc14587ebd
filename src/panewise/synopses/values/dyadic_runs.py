"""Runs of slices and of dyadic intervals over them, in one arena. Bags are answered from them.

    level 2   [0 ........ 4)                 node (level, index) is the run of the slices from index * 2^level up to
    level 1   [0 .. 2) [2 .. 4) [4 .. 6)     (index + 1) * 2^level; it is merged from its two children when first needed
    level 0   0    1    2    3   4   5  6

A window is the union of at most 2 log2(slices) nodes, its cover (Arasu and Widom 2004, theorem 3.1). Invariant: a node
has been made if and only if its row in `nodes` has its index. In the arena it has

    values   v0 v1 v2 ...  -        distinct and ascending within a segment
    before    0 c0 ..   ... total   the number of values before this one in the node, so that counts are differences
    segments (group, begin, end)    ascending by group; begin and end are relative to the node

Insert O(values of the slice). The nodes above cost O(log slices) per value, once; space is the same. Evict O(1): nodes
that begin before `first` are dead, and are not copied when the full arena moves. Regrouping rewrites only segments.
"""

from __future__ import annotations

import numpy as np

from panewise.arrays import Ints
from panewise.loops import compiled_loop
from panewise.synopses.values.dyadic_nodes import (
    BEGIN,
    COLUMNS,
    INDEX,
    LENGTH,
    SEGMENT,
    SEGMENTS,
    move_nodes,
    rename_groups,
    rename_values,
    taken_runs,
)
from panewise.synopses.values.runs import Run

LEAST_ROOM = 64
LEAST_CAPACITY = 1024


class DyadicRuns:
    """The nodes of slices `first` to `after`. Its arrays are public, to be read by the loops that answer."""

    def __init__(self) -> None:
        self.first = 0
        self.after = 0
        self._clear(LEAST_ROOM, LEAST_CAPACITY, LEAST_CAPACITY)

    def _clear(self, room: int, values: int, segments: int) -> None:
        self._room = room  # slices; a power of two
        self.nodes: Ints = np.full((2 * room, COLUMNS), -1, np.int64)
        self.values: Ints = np.empty(values, np.int64)
        self.before: Ints = np.empty(values, np.int64)
        self.segments: Ints = np.empty((segments, 3), np.int64)
        self._used: Ints = np.zeros(2, np.int64)  # numbers of values and segments in use

    @property
    def bytes_held(self) -> int:
        return self.nodes.nbytes + self.values.nbytes + self.before.nbytes + self.segments.nbytes

    # -- slices ------------------------------------------------------------------------------------------------------

    def insert(self, runs: list[Run]) -> None:
        if not runs:
            return
        lengths = np.array([len(run) for run in runs], np.int64)
        if len(runs) == 1:
            self.insert_joined(lengths, runs[0].groups, runs[0].values, runs[0].counts)
            return
        self.insert_joined(
            lengths,
            np.concatenate([run.groups for run in runs]),
            np.concatenate([run.values for run in runs]),
            np.concatenate([run.counts for run in runs]),
        )

    def insert_joined(self, lengths: Ints, groups: Ints, values: Ints, counts: Ints) -> None:
        """Appends new slices as concatenated runs."""
        needed = self.after - self.first + len(lengths)
        if needed > self._room:
            self._widen(1 << (needed - 1).bit_length())
        self._reserve(len(values) + len(lengths), len(values))
        _put(
            self.nodes, self.values, self.before, self.segments, self._used,
            self._room, self.after, lengths, groups, values, counts,
        )  # fmt: skip
        self.after += len(lengths)

    def evict(self, before: int) -> None:
        self.first = min(max(self.first, before), self.after)

    def held(self) -> tuple[Ints, Ints, Ints, Ints]:
        """The concatenated runs of all slices held: (lengths, groups, values, counts)."""
        slices = self._room + (np.arange(self.first, self.after) & (self._room - 1))
        return taken_runs(self.nodes[slices], self.values, self.before, self.segments)

    def replace(self, first: int, lengths: Ints, groups: Ints, values: Ints, counts: Ints) -> None:
        """Replaces all slices by these concatenated runs, the first of which has the number `first`."""
        self.first = self.after = first
        self._clear(LEAST_ROOM, LEAST_CAPACITY, LEAST_CAPACITY)
        self.insert_joined(lengths, groups, values, counts)

    # -- answers -----------------------------------------------------------------------------------------------------

    def ranges(self, starts: Ints, ends: Ints, groups: Ints) -> tuple[Ints, Ints, Ints]:
        """The ranges of the arena with the values of each window and group: (offsets, lows, highs).

        Entry answer * len(groups) + group has the sorted ranges with numbers offsets[entry] up to offsets[entry + 1].
        """
        while True:
            lacking, lacking_segments, offsets, places = _covered(
                self.nodes, self.values, self.before, self.segments, self._used,
                self._room, self.first, self.after, starts, ends,
            )  # fmt: skip
            assert lacking >= 0, "a window reaches beyond the slices held"
            if not lacking:
                return _ranges(self.nodes, self.segments, offsets, places, groups)
            self._reserve(lacking, lacking_segments)

    # -- room --------------------------------------------------------------------------------------------------------

    def _widen(self, room: int) -> None:
        places, levels = _live(self.nodes, self._room, self.first, self.after)
        old, self.nodes = self.nodes, np.full((2 * room, COLUMNS), -1, np.int64)
        rings = room >> levels
        self.nodes[rings + (old[places, INDEX] & (rings - 1))] = old[places]
        self._room = room

    def _reserve(self, values: int, segments: int) -> None:
        """Makes room for more values and segments. If the arena has to move, dead nodes are not copied."""
        if self._used[0] + values <= len(self.values) and self._used[1] + segments <= len(self.segments):
            return
        live, _ = _live(self.nodes, self._room, self.first, self.after)
        alive = int(self.nodes[live, LENGTH].sum()) + len(live) + values
        alive_segments = int(self.nodes[live, SEGMENTS].sum()) + segments
        # Twice the need, so that the next move comes only after as much was added as is copied now.
        capacity = max(LEAST_CAPACITY, 1 << (2 * alive - 1).bit_length())
        segment_capacity = max(LEAST_CAPACITY, 1 << (2 * alive_segments - 1).bit_length())
        moved, moved_before = np.empty(capacity, np.int64), np.empty(capacity, np.int64)
        moved_segments = np.empty((segment_capacity, 3), np.int64)
        move_nodes(
            self.nodes, live, self.values, self.before, self.segments, moved, moved_before, moved_segments, self._used
        )
        self.values, self.before, self.segments = moved, moved_before, moved_segments

    # -- renumbering -------------------------------------------------------------------------------------------------

    def regroup(self, renamed: Ints) -> None:
        """Renumbers groups: `renamed` has the new number of each old one, -1 for a dropped group."""
        live, _ = _live(self.nodes, self._room, self.first, self.after)
        rename_groups(self.nodes, live, self.segments, renamed)

    def recode(self, renamed: Ints) -> None:
        """Renumbers values. The caller guarantees that their order does not change."""
        live, _ = _live(self.nodes, self._room, self.first, self.after)
        rename_values(self.nodes, live, self.values, self.segments, renamed)


# -- loops -----------------------------------------------------------------------------------------------------------


@compiled_loop
def dyadic_cover(starts: Ints, ends: Ints) -> tuple[Ints, Ints, Ints]:
    """The covers of windows: (offsets, levels, indices) of dyadic intervals, oldest first."""
    offsets = np.zeros(starts.shape[0] + 1, np.int64)
    room = 16 * starts.shape[0] + 128
    levels, indices = np.empty(room, np.int64), np.empty(room, np.int64)
    at = 0
    for q in range(starts.shape[0]):
        if at + 128 > room:
            room *= 2
            more_levels, more_indices = np.empty(room, np.int64), np.empty(room, np.int64)
            more_levels[:at], more_indices[:at] = levels[:at], indices[:at]
            levels, indices = more_levels, more_indices
        slice_number, end = starts[q], ends[q]
        while slice_number < end:
            level = 0
            while (slice_number >> level) & 1 == 0 and slice_number + (2 << level) <= end:
                level += 1
            levels[at], indices[at] = level, slice_number >> level
            at += 1
            slice_number += 1 << level
        offsets[q + 1] = at
    return offsets, levels[:at], indices[:at]


@compiled_loop
def _place(room: int, level: int, index: int) -> int:
    """The row of a node. The rows of a level are a ring of room / 2^level rows."""
    level_room = room >> level
    return level_room + (index & (level_room - 1))


@compiled_loop
def _put(
    nodes: Ints, values: Ints, before: Ints, segments: Ints, used: Ints,
    room: int, after: int, lengths: Ints, groups: Ints, new_values: Ints, counts: Ints,
) -> None:  # fmt: skip
    source, level = 0, 0
    for i in range(lengths.shape[0]):
        place = _place(room, level, after + i)
        begin, segment, total = used[0], used[1], 0
        count_segments = 0
        for j in range(lengths[i]):
            if j == 0 or groups[source + j] != groups[source + j - 1]:
                if j:
                    segments[segment + count_segments - 1, 2] = j
                segments[segment + count_segments, 0], segments[segment + count_segments, 1] = groups[source + j], j
                count_segments += 1
            values[begin + j], before[begin + j] = new_values[source + j], total
            total += counts[source + j]
        if count_segments:
            segments[segment + count_segments - 1, 2] = lengths[i]
        values[begin + lengths[i]], before[begin + lengths[i]] = 0, total
        nodes[place, INDEX], nodes[place, BEGIN], nodes[place, LENGTH] = after + i, begin, lengths[i]
        nodes[place, SEGMENT], nodes[place, SEGMENTS] = segment, count_segments
        used[0] += lengths[i] + 1
        used[1] += count_segments
        source += lengths[i]


@compiled_loop
def _covered(
    nodes: Ints, values: Ints, before: Ints, segments: Ints, used: Ints,
    room: int, first: int, after: int, starts: Ints, ends: Ints,
) -> tuple[int, int, Ints, Ints]:  # fmt: skip
    """The covers of windows: (missing values, missing segments, offsets, rows of nodes).

    Makes the nodes if there is room. Otherwise it returns the missing room; -1 if a window exceeds the slices held.
    """
    offsets, levels, indices = dyadic_cover(starts, ends)
    places = np.empty(levels.shape[0], np.int64)
    for q in range(starts.shape[0]):
        if starts[q] < first or ends[q] > after:
            return -1, -1, offsets, places
    lacking, lacking_segments = _made(nodes, values, before, segments, used, room, levels, indices, places)
    return lacking, lacking_segments, offsets, places


@compiled_loop
def _made(
    nodes: Ints, values: Ints, before: Ints, segments: Ints, used: Ints,
    room: int, levels: Ints, indices: Ints, places: Ints,
) -> tuple[int, int]:  # fmt: skip
    """Makes the missing nodes. Returns (0, 0), or the room that the caller must make before it calls again."""
    for n in range(levels.shape[0]):
        places[n] = _place(room, levels[n], indices[n])
        if nodes[places[n], INDEX] == indices[n]:
            continue
        for level in range(1, levels[n] + 1):
            above = levels[n] - level
            for index in range(indices[n] << above, (indices[n] + 1) << above):
                place = _place(room, level, index)
                if nodes[place, INDEX] == index:
                    continue
                left, right = _place(room, level - 1, 2 * index), _place(room, level - 1, 2 * index + 1)
                needed = nodes[left, LENGTH] + nodes[right, LENGTH] + 1
                needed_segments = nodes[left, SEGMENTS] + nodes[right, SEGMENTS]
                if used[0] + needed > values.shape[0] or used[1] + needed_segments > segments.shape[0]:
                    return needed, needed_segments
                _merge_nodes(nodes, values, before, segments, used, left, right, place)
                nodes[place, INDEX] = index
    return 0, 0


@compiled_loop
def _merge_nodes(
    nodes: Ints, values: Ints, before: Ints, segments: Ints, used: Ints, left: int, right: int, place: int
) -> None:
    begin, begin2 = nodes[left, BEGIN], nodes[right, BEGIN]
    i, j = nodes[left, SEGMENT], nodes[right, SEGMENT]
    i_end, j_end = i + nodes[left, SEGMENTS], j + nodes[right, SEGMENTS]
    new, new_segment = used[0], used[1]
    at, total, at_segment = new, 0, new_segment
    while i < i_end or j < j_end:
        first = j == j_end or (i < i_end and segments[i, 0] <= segments[j, 0])
        second = i == i_end or (j < j_end and segments[j, 0] <= segments[i, 0])
        a, a_end, b, b_end = 0, 0, 0, 0
        group = segments[i, 0] if first else segments[j, 0]
        if first:
            a, a_end = begin + segments[i, 1], begin + segments[i, 2]
            i += 1
        if second:
            b, b_end = begin2 + segments[j, 1], begin2 + segments[j, 2]
            j += 1
        segments[at_segment, 0], segments[at_segment, 1] = group, at - new
        while a < a_end and b < b_end:
            # Without branches: which value comes next is random, and a wrong prediction costs more than both steps.
            first_value, second_value = values[a], values[b]
            takes_first, takes_second = int(first_value <= second_value), int(second_value <= first_value)
            values[at], before[at] = min(first_value, second_value), total
            total += takes_first * (before[a + 1] - before[a]) + takes_second * (before[b + 1] - before[b])
            a += takes_first
            b += takes_second
            at += 1
        shift = total - before[a] if a < a_end else 0
        while a < a_end:
            values[at], before[at] = values[a], before[a] + shift
            total = before[a + 1] + shift
            at += 1
            a += 1
        shift = total - before[b] if b < b_end else 0
        while b < b_end:
            values[at], before[at] = values[b], before[b] + shift
            total = before[b + 1] + shift
            at += 1
            b += 1
        segments[at_segment, 2] = at - new
        at_segment += 1
    values[at], before[at] = 0, total
    nodes[place, BEGIN], nodes[place, LENGTH] = new, at - new
    nodes[place, SEGMENT], nodes[place, SEGMENTS] = new_segment, at_segment - new_segment
    used[0], used[1] = at + 1, at_segment


@compiled_loop
def _live(nodes: Ints, room: int, first: int, after: int) -> tuple[Ints, Ints]:
    """The rows and levels of all nodes made within the slices held, by level from the leaves up, oldest first."""
    places, levels = np.empty(2 * room, np.int64), np.empty(2 * room, np.int64)
    found, level = 0, 0
    while room >> level:
        for index in range((first + (1 << level) - 1) >> level, after >> level):
            place = _place(room, level, index)
            if nodes[place, INDEX] == index:
                places[found], levels[found] = place, level
                found += 1
        level += 1
    return places[:found].copy(), levels[:found].copy()


@compiled_loop
def _segment(segments: Ints, begin: int, count: int, group: int) -> int:
    """The segment of a group among the `count` segments of a node from `begin` on, or -1."""
    # In a node with values for every group, the group's number gives its segment.
    if group < count and segments[begin + group, 0] == group:
        return begin + group
    low, high = begin, begin + count
    while low < high:
        middle = (low + high) >> 1
        if segments[middle, 0] < group:
            low = middle + 1
        else:
            high = middle
    return low if low < begin + count and segments[low, 0] == group else -1


@compiled_loop
def _ranges(nodes: Ints, segments: Ints, cover: Ints, places: Ints, groups: Ints) -> tuple[Ints, Ints, Ints]:
    answers, group_count = cover.shape[0] - 1, groups.shape[0]
    offsets = np.zeros(answers * group_count + 1, np.int64)
    lows, highs = np.empty(places.shape[0] * group_count, np.int64), np.empty(places.shape[0] * group_count, np.int64)
    at, entry = 0, 0
    for q in range(answers):
        for g in range(group_count):
            for n in range(cover[q], cover[q + 1]):
                place = places[n]
                s = _segment(segments, nodes[place, SEGMENT], nodes[place, SEGMENTS], groups[g])
                if s >= 0:
                    lows[at], highs[at] = nodes[place, BEGIN] + segments[s, 1], nodes[place, BEGIN] + segments[s, 2]
                    at += 1
            entry += 1
            offsets[entry] = at
    return offsets, lows, highs
