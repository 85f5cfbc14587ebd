"""The numbers of a stream's rows and the event times of the last rows, for families whose axis is row numbers.

    numbers   0 ............. times_from ............. taken
                               times are held from here

Rows are numbered from the beginning of the stream, not of the family. Times are held as far back as windows and the
changes between two reports reach.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from panewise.arrays import Ints


class RowTimes:
    """`taken`: the number of the next row."""

    def __init__(self) -> None:
        self.taken = 0
        self._times: Ints = np.empty(0, np.int64)
        self._times_from = 0

    def begin_at(self, number: int) -> None:
        """The first row has this number."""
        self.taken = self._times_from = number

    def take(self, times: Ints) -> Ints:
        """The numbers of the next rows."""
        first, self.taken = self.taken, self.taken + len(times)
        self._times = np.concatenate([self._times, times])
        return np.arange(first, self.taken, dtype=np.int64)

    def of(self, numbers: Ints) -> Ints:
        """The event times of rows; for older rows, the oldest time held."""
        result: Ints = self._times[np.maximum(numbers, self._times_from) - self._times_from]
        return result

    def forget(self, reach: int) -> None:
        """Drops old times: no window reaches back over more than `reach` rows."""
        gone = len(self._times) - 2 * reach - 1
        if gone > 0:
            self._times, self._times_from = self._times[gone:], self._times_from + gone

    @property
    def bytes_held(self) -> int:
        return self._times.nbytes

    def snapshot(self) -> dict[str, Any]:
        return {"taken": self.taken, "times": self._times, "times_from": self._times_from}

    def restore(self, snapshot: dict[str, Any]) -> None:
        self.taken, self._times, self._times_from = snapshot["taken"], snapshot["times"], snapshot["times_from"]
