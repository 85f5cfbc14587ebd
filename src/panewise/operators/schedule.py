"""The schedule of a tree: windows and marks of its members as columns, so that thousands are asked about at once.

A member is *easy* while nothing about it needs a closer look: its window has a beginning, its reports have begun, every
window to come is whole. Its reports are then those instants of its slide that the watermark has reached, and one array
expression finds them for all easy members. The others are looked at one by one, until they have become easy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from panewise.operators.members import Member

Ints = NDArray[np.int64]
COLUMNS = ("slide", "align", "offset", "range", "reported", "number", "shape", "tree")
INT64_MAX = 2**63 - 1


class Schedule:
    """`members[i]` has row i of every column; `range` is 0 where the window has no beginning."""

    def __init__(self) -> None:
        self.members: list[Member] = []
        self._columns: Ints = np.zeros((len(COLUMNS), 8), np.int64)
        self._easy: NDArray[np.bool_] = np.zeros(8, np.bool_)

    def __len__(self) -> int:
        return len(self.members)

    def column(self, name: str) -> Ints:
        """A view: what is written to it holds."""
        return self._columns[COLUMNS.index(name), : len(self.members)]

    @property
    def easy(self) -> NDArray[np.bool_]:
        return self._easy[: len(self.members)]

    def add(self, member: Member) -> None:
        row = len(self.members)
        if row == self._columns.shape[1]:
            self._columns = np.concatenate([self._columns, np.zeros_like(self._columns)], axis=1)
            self._easy = np.concatenate([self._easy, np.zeros_like(self._easy)])
        self.members.append(member)
        cadence = member.cadence
        reported = member.reported
        member.schedule, member.row = self, row
        window = cadence.slide, cadence.align, cadence.offset, cadence.range or 0
        self._columns[:, row] = (*window, reported, member.window, member.shape, 0)
        self._easy[row] = False

    def remove(self, member: Member) -> None:
        """The last row takes the place of the one that goes."""
        row, last = member.row, self.members[-1]
        self._columns[:, row] = self._columns[:, last.row]
        self._easy[row] = self._easy[last.row]
        self.members[row] = last
        last.row = row
        self.members.pop()

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

    def next_due(self, watermark: int) -> int:
        """The first point at which a report will be due."""
        if not self.members:
            return INT64_MAX
        return int(self.next_reports(np.maximum(self.column("reported"), watermark)).min())
