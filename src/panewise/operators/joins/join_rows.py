"""The rows of all inputs of a join as its loops see them: deaths, key numbers and chains, in a few flat arrays.

    deaths   | input 0 ..room.. | input 1 ..room.. |            base[i]: where the rows of input i begin
    keys     | slot 0  ..room.. | slot 1  ..room.. | ...        key_base[s]; a slot is one class of one input
    links    | as keys: the next older row with that key
    heads    | slot 0: one per key | slot 1 ... |               head_base[s]; -1 where there is no row

The arrays are flat, so that one compiled loop serves any number of inputs. An input that outgrows its room gets twice
what it needs, and all arrays are laid out anew: O(1) a row, amortised.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from panewise.arrays import Ints, Small
from panewise.operators.joins.join_loops import HeldRows, chain_rows

ROOM_MIN = 1024


def _laid_out(rooms: Sequence[int]) -> tuple[Ints, int]:
    """Where regions of these sizes begin, and their total size."""
    ends = np.cumsum(np.array([0, *rooms], np.int64))
    return ends[:-1].copy(), int(ends[-1])


def _moved(flat: NDArray[Any], bases: Ints, new_bases: Ints, total: int, counts: Sequence[int]) -> NDArray[Any]:
    result = np.full(total, -1, flat.dtype)
    for old, new, count in zip(bases, new_bases, counts, strict=True):
        result[new : new + count] = flat[old : old + count]
    return result


class JoinRows:
    """The rows, at first none. `slot_inputs[s]` is the input of slot s; `linked[s]`: its rows have chains."""

    def __init__(self, inputs: int, slot_inputs: Small, linked: NDArray[np.bool_]) -> None:
        slots = len(slot_inputs)
        self.counts = [0] * inputs
        self._slot_inputs = slot_inputs
        self._linked = linked
        self._rooms = [0] * inputs
        self._base: Ints = np.zeros(inputs, np.int64)
        self._deaths: Ints = np.empty(0, np.int64)
        self._key_base: Ints = np.zeros(slots, np.int64)
        self._keys: Small = np.empty(0, np.int32)
        self._links: Small = np.empty(0, np.int32)
        self._head_counts = [0] * slots
        self._head_base: Ints = np.zeros(slots, np.int64)
        self._heads: Small = np.empty(0, np.int32)

    @property
    def arrays(self) -> HeldRows:
        """The arrays, for the loops."""
        return self._base, self._deaths, self._key_base, self._keys, self._links, self._head_base, self._heads

    @property
    def bytes_held(self) -> int:
        return self._deaths.nbytes + self._keys.nbytes + self._links.nbytes + self._heads.nbytes

    def slots_of(self, i: int) -> list[int]:
        return np.flatnonzero(self._slot_inputs == i).tolist()

    def deaths_of(self, i: int) -> Ints:
        return self._deaths[self._base[i] : self._base[i] + self.counts[i]]

    def keys_of(self, slot: int) -> Small:
        begin = self._key_base[slot]
        return self._keys[begin : begin + self.counts[self._slot_inputs[slot]]]

    def append(self, i: int, deaths: Ints, keys: Sequence[NDArray[Any]]) -> None:
        """Adds rows to an input, with their keys by slot. They are in no chain yet."""
        count, new = self.counts[i], len(deaths)
        if count + new > self._rooms[i]:
            self._lay_out(i, max(ROOM_MIN, 2 * (count + new)))
        self.counts[i] = count + new
        self.deaths_of(i)[count:] = deaths
        for slot, numbers in zip(self.slots_of(i), keys, strict=True):
            self.keys_of(slot)[count:] = numbers

    def _lay_out(self, i: int, room: int) -> None:
        self._rooms[i] = room
        counts, inputs = self.counts, self._slot_inputs.tolist()
        bases, total = _laid_out(self._rooms)
        self._deaths = _moved(self._deaths, self._base, bases, total, counts)
        self._base = bases
        bases, total = _laid_out([self._rooms[owner] for owner in inputs])
        slot_counts = [counts[owner] for owner in inputs]
        self._keys = _moved(self._keys, self._key_base, bases, total, slot_counts)
        self._links = _moved(self._links, self._key_base, bases, total, slot_counts)
        self._key_base = bases

    def reserve_heads(self, keys: Sequence[int]) -> None:
        """Makes room for this many keys by slot."""
        if all(need <= held for need, held in zip(keys, self._head_counts, strict=True)):
            return
        grown = [
            held if need <= held else max(ROOM_MIN, 2 * need)
            for need, held in zip(keys, self._head_counts, strict=True)
        ]
        bases, total = _laid_out(grown)
        self._heads = _moved(self._heads, self._head_base, bases, total, self._head_counts)
        self._head_base, self._head_counts = bases, grown

    def reset_heads(self, keys: Sequence[int]) -> None:
        """Empties all chains after keys were renumbered, and makes room for this many keys by slot. `chain` follows."""
        self._head_counts = [max(ROOM_MIN, 2 * need) for need in keys]
        self._head_base, total = _laid_out(self._head_counts)
        self._heads = np.full(total, -1, np.int32)

    def keep(self, i: int, places: Ints) -> None:
        """Keeps only the rows of an input at these places. `chain` must follow."""
        count = len(places)
        self.deaths_of(i)[:count] = self.deaths_of(i)[places]
        for slot in self.slots_of(i):
            self.keys_of(slot)[:count] = self.keys_of(slot)[places]
        self.counts[i] = count
        if self._rooms[i] > max(ROOM_MIN, 8 * count):
            self._lay_out(i, max(ROOM_MIN, 2 * count))

    def chain(self, i: int, alive_after: int) -> None:
        """Rebuilds the chains of an input from the rows that die after an instant."""
        for slot in self.slots_of(i):
            begin = self._head_base[slot]
            heads = self._heads[begin : begin + self._head_counts[slot]]
            heads[:] = -1
            if self._linked[slot]:
                links = self._links[self._key_base[slot] :][: self.counts[i]]
                chain_rows(self.deaths_of(i), self.keys_of(slot), links, heads, alive_after)
