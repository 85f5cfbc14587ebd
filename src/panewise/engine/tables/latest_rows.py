"""The rows of a changed table by key, latest first: which row a change adds, and which it removes.

    key -> number in `GroupTable` -> latest slot -> the row's number; equal rows of a table without a key form a chain

A change costs O(1) amortised, in a compiled loop. State: a key and a slot for each row of the table, and for about as
many removed rows at most.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from panewise.arrays import INT64_MIN, Ints
from panewise.loops import compiled_loop
from panewise.operators.relation_delta import NONE
from panewise.schema import DataType
from panewise.state.group_table import GroupTable

OPERATIONS = ("upsert", "insert", "update", "delete")
UPSERT, INSERT, UPDATE, DELETE = range(4)
NULL_KEY, UNKNOWN, NO_KEY, TAKEN, MISSING, RETIRED = range(1, 7)  # The problems of a change; 0: none.
ROOM_MIN = 1024


@compiled_loop
def _settle(
    keys: Ints, operations: Ints, times: Ints, keyed: bool, versioned: bool, stops: bool, latest: Ints,
    retired_at: Ints, slot_numbers: Ints, slot_before: Ints, slots: int, number: int, born: Ints, ended: Ints,
    problems: Ints,
) -> tuple[int, int, int]:  # fmt: skip
    """Fills `born` and `ended`: the numbers of the row that each change adds and of the row that it removes.

    Returns how many changes were handled (all, or, if `stops`, those before the first bad one), and the next slot and
    number.
    """
    for i in range(keys.shape[0]):
        key, operation, slot = keys[i], operations[i], latest[keys[i]]
        if problems[i] == 0 and keyed:
            if operation == INSERT and slot >= 0:
                problems[i] = TAKEN
            elif operation == UPDATE and slot < 0:
                problems[i] = MISSING
            elif operation != DELETE and slot < 0 and versioned and retired_at[key] == times[i]:
                problems[i] = RETIRED
        if problems[i] != 0:
            if stops:
                return i, slots, number
            continue
        if slot >= 0 and (keyed or operation == DELETE):
            ended[i] = slot_numbers[slot]
            latest[key] = slot_before[slot]
            if operation == DELETE:
                retired_at[key] = times[i]
        if operation == DELETE:
            continue
        slot_numbers[slots], slot_before[slots] = number, latest[key]
        latest[key] = slots
        born[i] = number
        slots += 1
        number += 1
    return keys.shape[0], slots, number


@dataclass(frozen=True)
class Settled:
    """The effects of changes. `born` and `ended`: the numbers of the row that each change adds and of the row that it
    removes, -1 for none; `done`: how many changes were handled; `next_number`: the number of the next row."""

    born: Ints
    ended: Ints
    done: int
    next_number: int


class LatestRows:
    """`keyed`: rows are found by a primary key, and a key has at most one row; `versioned`: a deleted key cannot be
    added again at the same instant."""

    def __init__(self, types: Sequence[DataType], keyed: bool, versioned: bool) -> None:
        self._types = tuple(types)
        self._keyed = keyed
        self._versioned = versioned
        self._keys = GroupTable(self._types)
        self._latest: Ints = NONE  # By key: the slot of its latest row.
        self._retired_at: Ints = NONE  # By key: when it was last deleted.
        self._slot_numbers: Ints = NONE
        self._slot_before: Ints = NONE
        self._slots = 0

    @property
    def bytes_held(self) -> int:
        arrays = self._latest, self._retired_at, self._slot_numbers, self._slot_before
        return self._keys.bytes_held + sum(array.nbytes for array in arrays)

    def settle(
        self, columns: list[pa.Array], operations: Ints, times: Ints, problems: Ints, stops: bool, number: int
    ) -> Settled:
        """Handles changes in order of time. `columns`: their keys; `number`: the number of the next row.

        Changes with a problem have no effect; problems that are found here are put into `problems`. `stops`: the first
        change with a problem ends the work.
        """
        keys = self._keys.ids(columns)
        self._make_room(len(times))
        born, ended = np.full(len(times), -1, np.int64), np.full(len(times), -1, np.int64)
        done, self._slots, next_number = _settle(
            keys, operations, times, self._keyed, self._versioned, stops, self._latest, self._retired_at,
            self._slot_numbers, self._slot_before, self._slots, number, born, ended, problems,
        )  # fmt: skip
        return Settled(born, ended, done, next_number)

    def has_outgrown(self, rows: int) -> bool:
        """Whether most of its entries are of removed rows, if the table has this many rows."""
        return self._slots > 2 * rows + ROOM_MIN or len(self._keys) > 2 * rows + ROOM_MIN

    def begin_anew(self, columns: list[pa.Array], numbers: Ints) -> None:
        """Forgets everything, and indexes these rows."""
        self._keys = GroupTable(self._types)
        self._latest, self._retired_at, self._slot_numbers, self._slot_before = NONE, NONE, NONE, NONE
        self._slots = 0
        keys = self._keys.ids(columns)
        self._make_room(len(numbers))
        self._slot_numbers[: len(numbers)] = numbers
        # Each slot points to the slot before it with the same key.
        order = np.argsort(keys, kind="stable")
        same = keys[order][1:] == keys[order][:-1]
        self._slot_before[order[1:][same]] = order[:-1][same]
        self._latest[keys] = np.arange(len(numbers))
        self._slots = len(numbers)

    def _make_room(self, changes: int) -> None:
        keys, slots = len(self._keys), self._slots + changes
        self._latest, self._retired_at = _grown(self._latest, keys, -1), _grown(self._retired_at, keys, INT64_MIN)
        self._slot_numbers = _grown(self._slot_numbers, slots, -1)
        self._slot_before = _grown(self._slot_before, slots, -1)


def _grown(array: Ints, count: int, filled: int) -> Ints:
    if len(array) >= count:
        return array
    return np.concatenate([array, np.full(max(count, 2 * len(array), ROOM_MIN) - len(array), filled, np.int64)])
