"""States without a fixed size in a store of slices: the values of every group, from rows to answers.

Dense and sparse stores each own a `HeldValues`. An open slice has a room, which collects pairs of group and value. When
there are many pairs, the room sorts and counts them, so that its size is bounded by its distinct values. When the slice
closes, its room becomes one run:

    rows -> room: pairs ... -> run -- the watermark passes --> closed_values.py -> fields of answers
                    |  ^
                    v  |          drain, absorb: between families, as lists in `partials.py`

Cost: O(log pairs) a row, amortised, for sorting.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from panewise.aggregates.holistic import HeldKind, StatisticKind
from panewise.aggregates.matrix import Encoded
from panewise.aggregates.states import Feed
from panewise.arrays import Ints
from panewise.operators.arguments import Arguments
from panewise.operators.held.closed_values import ClosedValues, Fields, closed_values, recoded, regrouped
from panewise.plan.aggregation import Pools, StateKey
from panewise.synopses.values.runs import Run, empty_run, merged, ordered_of, run_of

COMPACT_FROM = 65_536  # pairs in a room from which on it is compacted before its slice closes
NO_COUNTS: Ints = np.empty(0, np.int64)  # every pair counts once


@dataclass
class Room:
    """The values of one open slice: a run, and pending pairs with counts (an empty array: each counts once)."""

    run: Run = field(default_factory=empty_run)
    pairs: list[tuple[Ints, Ints, Ints]] = field(default_factory=list)
    waiting: int = 0

    @property
    def bytes_held(self) -> int:
        return self.run.bytes_held + sum(array.nbytes for pair in self.pairs for array in pair)

    def add(self, groups: Ints, values: Ints, counts: Ints) -> None:
        self.pairs.append((groups, values, counts))
        self.waiting += len(values)
        if self.waiting >= max(COMPACT_FROM, len(self.run)):
            self.compacted()

    def compacted(self) -> Run:
        """The run, after all pending pairs have been merged into it."""
        if self.pairs:
            single = [pair for pair in self.pairs if not len(pair[2])]
            counted = [pair for pair in self.pairs if len(pair[2])]
            new = [run_of(*(np.concatenate(parts) for parts in list(zip(*single, strict=True))[:2]))] if single else []
            new += [run_of(*(np.concatenate(parts) for parts in zip(*counted, strict=True)))] if counted else []
            self.run = merged([self.run, *new])
            self.pairs, self.waiting = [], 0
        return self.run


@dataclass
class DrainedLists:
    """A list of values and of counts per drained (slice, group): row i has entries offsets[i] to offsets[i + 1]."""

    offsets: Ints
    values: Ints
    counts: Ints


class HeldValues:
    """The states without a fixed size of one store. A store that does not answer keeps open slices only."""

    def __init__(self, pools: Pools, answers: bool) -> None:
        self._pools = pools
        self._answering = answers
        self.rooms: dict[StateKey, dict[int, Room]] = {}
        self._closed: dict[StateKey, ClosedValues] = {}

    @property
    def keys(self) -> list[StateKey]:
        return list(self.rooms)

    @property
    def bytes_held(self) -> int:
        rooms = sum(room.bytes_held for rooms in self.rooms.values() for room in rooms.values())
        return rooms + sum(closed.bytes_held for closed in self._closed.values())

    def add(self, key: StateKey, first: int, starts: Ints) -> None:
        """Adds a state, which is empty in the closed slices from number `first` on."""
        assert isinstance(key.kind, HeldKind)
        self.rooms[key] = {}
        if self._answering:
            self._closed[key] = closed_values(key.kind, key.arguments[0], self._pools, first)
            self._closed[key].insert([empty_run() for _ in starts], starts)

    def drop(self, key: StateKey) -> None:
        del self.rooms[key]
        self._closed.pop(key, None)

    # -- rows and partials -----------------------------------------------------------------------------------------

    def fold(self, rooms: Ints, groups: Ints, arguments: Arguments) -> None:
        """Adds rows to the rooms of their slices."""
        for key in self.rooms:
            self._add(key, rooms, groups, *_present(arguments.of(key)[0], len(rooms), key.kind.feeds[0]))

    def absorb(self, key: StateKey, rooms: Ints, groups: Ints, values: Ints, counts: Ints) -> None:
        """Adds pairs with their counts to rooms."""
        self._add(key, rooms, groups, values, None, counts)

    def _add(
        self, key: StateKey, rooms: Ints, groups: Ints, values: Ints, kept: Ints | None, counts: Ints = NO_COUNTS
    ) -> None:
        if kept is not None:
            rooms, groups = rooms[kept], groups[kept]
        if not len(values):
            return
        held = self.rooms[key]
        if int(rooms.min()) == int(rooms.max()):
            held.setdefault(int(rooms[0]), Room()).add(groups, values, counts)
            return
        order = np.argsort(rooms, kind="stable")
        rooms, groups, values = rooms[order], groups[order], values[order]
        counts = counts[order] if len(counts) else counts
        cuts = np.append(np.append(0, np.flatnonzero(np.diff(rooms)) + 1), len(rooms)).tolist()
        for begin, end in pairwise(cuts):
            part = slice(begin, end)
            held.setdefault(int(rooms[begin]), Room()).add(groups[part], values[part], counts[part])

    def drain(self, begins: Ints, rooms: Ints, starts: Ints, groups: Ints) -> dict[StateKey, DrainedLists]:
        """Empties all rooms into lists, one per drained row, by state.

        Room rooms[i] belongs to the slice that begins at begins[i]. Row j belongs to the slice that begins at starts[j]
        and to group groups[j]; rows of a slice are adjacent.
        """
        result = {}
        lows, highs = np.searchsorted(starts, begins, side="left"), np.searchsorted(starts, begins, side="right")
        for key, held in self.rooms.items():
            rows, values, counts = [], [], []
            for low, high, room in zip(lows.tolist(), highs.tolist(), rooms.tolist(), strict=True):
                if room not in held:
                    continue
                run = held[room].compacted()
                order = np.argsort(groups[low:high])
                rows.append(low + order[np.searchsorted(groups[low:high], run.groups, sorter=order)])
                values.append(run.values)
                counts.append(run.counts)
            result[key] = _listed(rows, values, counts, len(starts))
            self.rooms[key] = {}
        return result

    def move_rooms(self, old: Ints, new: Ints) -> None:
        """Renumbers the rooms."""
        numbers = dict(zip(old.tolist(), new.tolist(), strict=True))
        for key, held in self.rooms.items():
            self.rooms[key] = {numbers[room]: values for room, values in held.items()}

    # -- closed slices -----------------------------------------------------------------------------------------------

    def close(self, rooms: Ints, starts: Ints) -> None:
        """Closes the slices in these rooms, oldest first."""
        for key, held in self.rooms.items():
            runs = [held.pop(room).compacted() if room in held else empty_run() for room in rooms.tolist()]
            self._closed[key].insert(runs, starts)

    def evict(self, before: int) -> None:
        for closed in self._closed.values():
            closed.evict(before)

    def answer(
        self, key: StateKey, starts: Ints, ends: Ints, groups: Ints, chosen: NDArray[np.bool_] | None = None
    ) -> Fields:
        """The fields of a statistic over windows of slice numbers, each of shape (windows, groups).

        `chosen`: only these windows are needed; the values for other windows mean nothing.
        """
        assert isinstance(key.kind, StatisticKind)
        ends = np.maximum(starts, ends)  # a window before all slices held is empty
        groups = np.ascontiguousarray(groups, np.int64)
        if chosen is None or chosen.all():
            return self._closed[key.held].answer(key.kind, starts, ends, groups)
        some, others = self._closed[key.held].answer(key.kind, starts[chosen], ends[chosen], groups)
        places = np.maximum(np.cumsum(chosen) - 1, 0)  # any place for windows that are not chosen
        return np.take(some, places, axis=1), np.take(others, places, axis=1) if len(others) else others

    # -- renumbering ------------------------------------------------------------------------------------------------

    def regroup(self, renamed: Ints) -> None:
        """Renumbers the groups, without changing their order."""
        for held in self.rooms.values():
            for room in held.values():
                room.run = regrouped(room.compacted(), renamed)
        for closed in self._closed.values():
            closed.regroup(renamed)

    def codes(self, key: StateKey) -> list[Ints]:
        """The codes of the strings that a state holds."""
        closed = self._closed[key].codes() if key in self._closed else []
        return [*(room.compacted().values for room in self.rooms[key].values()), *closed]

    def recode(self, key: StateKey, renamed: Ints) -> None:
        """Gives the strings of a state new codes."""
        for room in self.rooms[key].values():
            room.run = recoded(room.compacted(), renamed)
        if key in self._closed:
            self._closed[key].recode(renamed)

    # -- snapshots ---------------------------------------------------------------------------------------------------

    def snapshot(self) -> dict[str, Any]:
        return {
            key.written: {
                "rooms": [
                    [number, run.groups, run.values, run.counts]
                    for number, run in ((number, room.compacted()) for number, room in held.items())
                ],
                "closed": self._closed[key].snapshot() if key in self._closed else None,
            }
            for key, held in self.rooms.items()
        }

    def restore(self, snapshot: dict[str, Any]) -> None:
        """The states must have been added already."""
        for key in self.rooms:
            saved = snapshot[key.written]
            self.rooms[key] = {
                number: Room(Run(groups.copy(), values.copy(), counts.copy()))
                for number, groups, values, counts in saved["rooms"]
            }
            if key in self._closed:
                self._closed[key].restore(saved["closed"])


def _present(argument: Encoded, rows: int, feed: Feed) -> tuple[Ints, Ints | None]:
    """The values that are not NULL, as keys with the same order, and their positions (None: all rows).

    They are copies, because the batch belongs to the caller.
    """
    kept = np.flatnonzero(argument.valid[:rows]) if len(argument.valid) else None
    values = argument.values[:rows] if kept is None else argument.values[:rows][kept]
    if feed is Feed.FLOAT:
        return ordered_of(values), kept
    return values.copy() if kept is None else values, kept


def _listed(rows: list[Ints], values: list[Ints], counts: list[Ints], total: int) -> DrainedLists:
    if not rows:
        return DrainedLists(np.zeros(total + 1, np.int64), NO_COUNTS, NO_COUNTS)
    owners = np.concatenate(rows)
    order = np.argsort(owners, kind="stable")
    offsets = np.zeros(total + 1, np.int64)
    np.cumsum(np.bincount(owners, minlength=total), out=offsets[1:])
    return DrainedLists(offsets, np.concatenate(values)[order], np.concatenate(counts)[order])
