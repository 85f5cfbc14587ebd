"""The live rows of one input, each with a small integer as its key, and when they leave.

    slot        0    1    2    3    4          rows stand in order of arrival, so that a negative row finds its row by
    sequence    3    4    7    8   11          binary search
    key         0    2    0    1    2
    alive       -    x    -    x    x          dead rows are compacted away when they are more than half

A row leaves when it dies, which an expiration queue tells, or when it ends before. Every row leaves once: the end of a
row that has left is ignored, and so is the death of a row that has ended. O(1) a row, amortised, and O(log held) for an
end. Golab 2006, section 3.5.2.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from panewise.arrays import Ints
from panewise.operators.relation_delta import FOREVER, Delta
from panewise.state.expiring import Expiring, room_for, widened

Mask = NDArray[np.bool_]
MakeQueue = Callable[[], Expiring]
_SPARE = 1024  # Up to this many dead rows are never worth a compaction.


@dataclass(frozen=True)
class Arrived:
    """The new rows of a delta that are alive at some instant: their positions in the batch, and their lifetimes."""

    positions: Ints
    sequences: Ints
    births: Ints
    deaths: Ints
    whole: bool  # whether these are all of the delta's new rows

    def __len__(self) -> int:
        return len(self.positions)


def arrived(delta: Delta) -> Arrived:
    """The new rows of a delta that are alive at some instant. A row that ends in its first step gets this death."""
    deaths = delta.deaths
    if len(delta.ended) and len(delta):
        own = delta.ended >= delta.sequences[0]
        places = np.searchsorted(delta.sequences, delta.ended[own])
        found = delta.sequences[np.minimum(places, len(delta) - 1)] == delta.ended[own]
        deaths = deaths.copy()
        deaths[places[found]] = np.minimum(deaths[places[found]], delta.ended_at[own][found])
    shows = delta.births < deaths
    if shows.all():
        return Arrived(np.arange(len(delta)), delta.sequences, delta.births, deaths, True)
    chosen = np.flatnonzero(shows)
    return Arrived(chosen, delta.sequences[chosen], delta.births[chosen], deaths[chosen], False)


@dataclass(frozen=True)
class Left:
    """The rows that leave, by instant: slots, instants, and whether the row ends early (1) or dies (0)."""

    slots: Ints
    instants: Ints
    premature: Ints


class KeyedRows:
    """The rows by slot; `queue` makes the expiration queue that suits the input's update pattern."""

    def __init__(self, queue: MakeQueue) -> None:
        self._make_queue = queue
        self._clear()

    def _clear(self) -> None:
        self._queue = self._make_queue()
        self._sequences: Ints = np.empty(_SPARE, np.int64)
        self._keys: Ints = np.empty(_SPARE, np.int64)
        self._deaths: Ints = np.empty(_SPARE, np.int64)
        self._alive: Mask = np.empty(_SPARE, np.bool_)
        self.size = 0  # slots in use
        self.living = 0

    @property
    def bytes_held(self) -> int:
        return 3 * self._sequences.nbytes + self._alive.nbytes + self._queue.bytes_held

    @property
    def keys(self) -> Ints:
        return self._keys[: self.size]

    @property
    def deaths(self) -> Ints:
        return self._deaths[: self.size]

    @property
    def room(self) -> int:
        return len(self._keys)

    def append(self, sequences: Ints, keys: Ints, deaths: Ints) -> int:
        """Puts new rows into the next slots. Returns the first of these."""
        first, size = self.size, self.size + len(sequences)
        if size > self.room:
            room = room_for(size)
            self._sequences, self._keys = widened(self._sequences, room), widened(self._keys, room)
            self._deaths, self._alive = widened(self._deaths, room), widened(self._alive, room)
        self._sequences[first:size], self._keys[first:size] = sequences, keys
        self._deaths[first:size], self._alive[first:size] = deaths, True
        self.size, self.living = size, self.living + len(sequences)
        self._schedule(np.arange(first, size), deaths)
        return first

    def _schedule(self, slots: Ints, deaths: Ints) -> None:
        mortal = deaths != FOREVER
        if mortal.all():
            self._queue.insert(slots, deaths)
        elif mortal.any():
            self._queue.insert(slots[mortal], deaths[mortal])

    def leave(self, ended: Ints, ended_at: Ints, until: int) -> Left:
        """Removes and returns the rows that end, and those that die before `until`."""
        end_slots, end_instants = self._ends(ended, ended_at)
        self._alive[end_slots] = False
        slots, deaths = self._queue.expire(until)
        alive = self._alive[slots]
        if not alive.all():
            slots, deaths = slots[alive], deaths[alive]
        self._alive[slots] = False
        self.living -= len(slots) + len(end_slots)
        if not len(end_slots):
            return Left(slots, deaths, np.zeros(len(slots), np.int64))
        instants = np.concatenate([deaths, end_instants])
        order = np.argsort(instants, kind="stable")
        premature = np.zeros(len(instants), np.int64)
        premature[len(slots) :] = 1
        return Left(np.concatenate([slots, end_slots])[order], instants[order], premature[order])

    def _ends(self, ended: Ints, ended_at: Ints) -> tuple[Ints, Ints]:
        """Slots and instants of the ends that concern a live row and come before its death."""
        if not len(ended) or not self.size:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        slots = np.searchsorted(self._sequences[: self.size], ended)
        slots = np.minimum(slots, self.size - 1)
        new = (self._sequences[slots] == ended) & self._alive[slots] & (ended_at < self._deaths[slots])
        return slots[new], ended_at[new]

    def sparse(self) -> bool:
        """Whether `close_up` is worth its cost."""
        return self.size > 2 * self.living + _SPARE

    def close_up(self) -> Ints:
        """Compacts: live rows take the first slots. Returns their old slots."""
        kept = np.flatnonzero(self._alive[: self.size])
        self._load(self._sequences[kept], self._keys[kept], self._deaths[kept])
        return kept

    def rename(self, keys: Ints) -> None:
        """Renumbers the keys: `keys` are the new ones by old ones. `close_up` must have removed the dead rows."""
        assert self.size == self.living
        self._keys[: self.size] = keys[self.keys]

    def _load(self, sequences: Ints, keys: Ints, deaths: Ints) -> None:
        self._clear()
        self.append(sequences, keys, deaths)

    def snapshot(self) -> dict[str, Any]:
        """The live rows. `close_up` must have removed the dead ones."""
        assert self.size == self.living
        return {
            "sequences": self._sequences[: self.size].copy(),
            "keys": self.keys.copy(),
            "deaths": self.deaths.copy(),
        }

    def restore(self, snapshot: dict[str, Any]) -> None:
        self._load(snapshot["sequences"], snapshot["keys"], snapshot["deaths"])
