"""Recompute: combines every answer from the partials of its slices. The slow and obvious oracle of all techniques.

Insert O(1), evict O(1), answer O(slices) combinations; space: the slices. For any associative state. Any range and any
historical window, by rows or by time; windows share nothing. Source: Arasu and Widom 2004, section 6.1
(materialize-none).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from panewise.aggregates.kernels import combine_run
from panewise.aggregates.matrix import identity
from panewise.aggregates.states import StateKind
from panewise.aggregates.user import combine_of
from panewise.arrays import Floats, Ints


class RecomputeSynopsis:
    """A list of partials."""

    def __init__(self, kind: StateKind, width: int) -> None:
        self.kind = kind
        self.width = width
        self._combine = combine_of(kind) or combine_run
        self.first = 0
        self._slices: list[tuple[Ints, Floats]] = []

    @property
    def after(self) -> int:
        return self.first + len(self._slices)

    @property
    def bytes_held(self) -> int:
        return sum(ints.nbytes + floats.nbytes for ints, floats in self._slices)

    def begin_at(self, number: int) -> None:
        self.first = number

    def insert(self, ints: Ints, floats: Floats, ranks: Ints) -> None:
        for i in range(max(ints.shape[1], floats.shape[1])):
            self._slices.append((ints[:, i].copy(), floats[:, i].copy()))

    def insert_from(self, ints: Ints, floats: Floats, rooms: Ints, ranks: Ints) -> None:
        for room in rooms:
            run = slice(room * self.width, (room + 1) * self.width)
            self._slices.append((ints[:, run].copy(), floats[:, run].copy()))

    def evict(self, before: int) -> None:
        while self.first < before and self._slices:
            self._slices.pop(0)
            self.first += 1

    def answer(
        self, starts: Ints, ends: Ints, ranks: Ints, groups: int | None = None, windows: Ints | None = None
    ) -> tuple[Ints, Floats]:
        count = len(starts)
        ints, floats = identity(self.kind, count * self.width)
        for q in range(count):
            for number in range(int(starts[q]), int(ends[q])):
                held_ints, held_floats = self._slices[number - self.first]
                self._combine(
                    int(self.kind.operation), ints, floats, q * self.width, held_ints, held_floats, 0, self.width, ranks
                )
        shape = count, self.width
        return (
            ints.reshape(self.kind.int_fields, *shape)[:, :, :groups],
            floats.reshape(self.kind.float_fields, *shape)[:, :, :groups],
        )

    def int_arrays(self) -> list[Ints]:
        """The int64 fields of all states held."""
        return [ints for ints, _ in self._slices]

    def drop_window(self, window: int) -> None:
        """Nothing is kept per sliding window."""

    def widen(self, width: int) -> None:
        self._remap(np.arange(self.width), width)

    def regroup(self, kept: Ints, width: int) -> None:
        self._remap(kept, width)

    def _remap(self, kept: Ints, width: int) -> None:
        for i, (ints, floats) in enumerate(self._slices):
            new_ints, new_floats = identity(self.kind, width)
            new_ints[:, : len(kept)] = ints[:, kept]
            new_floats[:, : len(kept)] = floats[:, kept]
            self._slices[i] = new_ints, new_floats
        self.width = width

    def snapshot(self) -> dict[str, Any]:
        slices = range(len(self._slices))
        return {
            "first": self.first,
            "width": self.width,
            "ints": [self._slices[i][0].reshape(-1) for i in slices],
            "floats": [self._slices[i][1].reshape(-1) for i in slices],
        }

    def restore(self, snapshot: dict[str, Any]) -> None:
        self.first, self.width = snapshot["first"], snapshot["width"]
        self._slices = [
            (ints.reshape(-1, self.width).copy(), floats.reshape(-1, self.width).copy())
            for ints, floats in zip(snapshot["ints"], snapshot["floats"], strict=True)
        ]
