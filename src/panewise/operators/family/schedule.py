"""The schedule of a family: windows and marks of its members as columns, so that thousands are asked about at once.

A member is *easy* while nothing about it needs a closer look: its window has a beginning, its reports have begun, every
window to come is whole. Its reports are then those instants of its slide that the watermark has reached, and one array
expression finds them for all easy members. The others are looked at one by one, until they have become easy.

A member is a row here, and knows its number (`member.py`). Rows have no gaps: the last one takes the place of one that
goes.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from panewise.arrays import INT64_MAX, INT64_MIN, Ints
from panewise.slicing.pairs import Cadence

COLUMNS = ("slide", "align", "offset", "range", "reported", "number", "shape", "tree")


class MemberSchedule:
    """Columns over the members of a family; `range` is 0 where the window has no beginning."""

    def __init__(self) -> None:
        self._count = 0
        self._columns: Ints = np.zeros((len(COLUMNS), 8), np.int64)
        self._easy: NDArray[np.bool_] = np.zeros(8, np.bool_)

    def __len__(self) -> int:
        return self._count

    def column(self, name: str) -> Ints:
        """A view: what is written to it holds."""
        return self._columns[COLUMNS.index(name), : self._count]

    @property
    def easy(self) -> NDArray[np.bool_]:
        return self._easy[: self._count]

    @property
    def reach(self) -> int:
        """The longest distance from the beginning of a window to its report, over windows that have a beginning."""
        return int((self.column("range") + self.column("offset")).max()) if self._count else 0

    def add(self, cadence: Cadence, reported: int, number: int, shape: int) -> int:
        """A row for a member that is not easy and in no tree of its own; its number."""
        row = self._count
        if row == self._columns.shape[1]:
            self._columns = np.concatenate([self._columns, np.zeros_like(self._columns)], axis=1)
            self._easy = np.concatenate([self._easy, np.zeros_like(self._easy)])
        window = cadence.slide, cadence.align, cadence.offset, cadence.range or 0
        self._columns[:, row] = (*window, reported, number, shape, 0)
        self._easy[row] = False
        self._count += 1
        return row

    def remove(self, row: int) -> None:
        """The last row takes the place of the one that goes."""
        self._count -= 1
        self._columns[:, row] = self._columns[:, self._count]
        self._easy[row] = self._easy[self._count]

    def reported(self, row: int) -> int:
        return int(self._columns[4, row])

    def set_reported(self, row: int, point: int) -> None:
        self._columns[4, row] = point

    def set_easy(self, row: int, easy: bool) -> None:
        self._easy[row] = easy

    def look_closer(self) -> None:
        """Marks have been set from outside: nobody is easy until it has been looked at again."""
        self._easy[:] = False

    def next_reports(self, after: Ints) -> Ints:
        """The least report of each member strictly after a point of its own."""
        slide = self.column("slide")
        result: Ints = after - (after - self.column("align")) % slide + slide
        return result

    def come_to(self, watermark: int) -> None:
        """Reports up to the watermark are out."""
        reported = self.column("reported")
        np.maximum(reported, watermark, out=reported)

    def due_count(self, after: int, upto: int, span: tuple[int, int] | None = None) -> int:
        """How many reports are due after one point, up to another one. Of windows that have a beginning only those
        count which rows in the span can be in, where one is given."""
        if not self._count:
            return 0
        reported = np.maximum(self.column("reported"), after)
        last: Ints | int = upto
        if span is not None:
            bounded = self.column("range") > 0
            reported = np.where(bounded | (reported == INT64_MIN), np.maximum(reported, span[0]), reported)
            last = np.where(bounded, np.minimum(upto, span[1] + self.column("range") + self.column("offset")), upto)
        counts: Ints = (last - self.next_reports(reported)) // self.column("slide") + 1
        return int(np.maximum(counts, 0).sum())

    def next_due(self, watermark: int) -> int:
        """The first point at which a report will be due."""
        if not self._count:
            return INT64_MAX
        return int(self.next_reports(np.maximum(self.column("reported"), watermark)).min())
