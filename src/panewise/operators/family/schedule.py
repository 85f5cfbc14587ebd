"""The schedule of a family: windows and marks of its members as columns, for thousands of members at once.

A member is *easy* if its window has a beginning, its reports have begun, and all its windows to come are whole. Its due
reports are then all instants of its slide that the watermark has reached. One array expression finds them for all easy
members. The other members are handled one by one until they are easy.

Each member knows the number of its row (`member.py`). Rows have no gaps: when a member is removed, the last row takes
its place.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from panewise.arrays import INT64_MAX, INT64_MIN, Ints
from panewise.slicing.pairs import Cadence

COLUMNS = ("slide", "align", "offset", "range", "reported", "number", "shape", "tree")


class MemberSchedule:
    """Columns over the members of a family; `range` is 0 if the window has no beginning."""

    def __init__(self) -> None:
        self._count = 0
        self._columns: Ints = np.zeros((len(COLUMNS), 8), np.int64)
        self._easy: NDArray[np.bool_] = np.zeros(8, np.bool_)

    def __len__(self) -> int:
        return self._count

    def column(self, name: str) -> Ints:
        """A view of a column, which may be written to."""
        return self._columns[COLUMNS.index(name), : self._count]

    @property
    def easy(self) -> NDArray[np.bool_]:
        return self._easy[: self._count]

    @property
    def reach(self) -> int:
        """The longest distance from the beginning of a window to its report, over windows that have a beginning."""
        return int((self.column("range") + self.column("offset")).max()) if self._count else 0

    def add(self, cadence: Cadence, reported: int, number: int, shape: int) -> int:
        """Adds a row for a member in tree 0 that is not easy; returns its number."""
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
        """Removes a row; the last row takes its place."""
        self._count -= 1
        self._columns[:, row] = self._columns[:, self._count]
        self._easy[row] = self._easy[self._count]

    def reported(self, row: int) -> int:
        return int(self._columns[4, row])

    def set_reported(self, row: int, point: int) -> None:
        self._columns[4, row] = point

    def set_easy(self, row: int, easy: bool) -> None:
        self._easy[row] = easy

    def unsettle_all(self) -> None:
        """Marks were restored: no member is easy until it has been handled by itself."""
        self._easy[:] = False

    def next_reports(self, after: Ints) -> Ints:
        """The least report of each member strictly after a point of its own."""
        slide = self.column("slide")
        result: Ints = after - (after - self.column("align")) % slide + slide
        return result

    def move_to(self, watermark: int) -> None:
        """Reports up to the watermark are out."""
        reported = self.column("reported")
        np.maximum(reported, watermark, out=reported)

    def due_count(self, after: int, upto: int, span: tuple[int, int] | None = None) -> int:
        """The number of reports after one point, up to another.

        `span`: where rows lie. Windows that have a beginning and lie outside the span are then not counted.
        """
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
