"""The watermark of a stream, which moves row by row, and the rows that are late for it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from panewise.arrays import INT64_MIN, Ints
from panewise.loops import compiled_loop


@compiled_loop
def _judge(times: Ints, greatest: int, delay: int, floor: int, late: NDArray[np.uint8]) -> tuple[int, int, int]:
    """Marks late rows; returns their number, the greatest timestamp, and how far late rows were behind it at most."""
    count = 0
    behind = 0
    watermark = max(floor, greatest - delay) if greatest != INT64_MIN else floor
    for i in range(times.shape[0]):
        time = times[i]
        if time < watermark:
            late[i] = 1
            count += 1
            if greatest != INT64_MIN:
                behind = max(behind, greatest - time)
        elif time > greatest:
            greatest = time
            watermark = max(floor, time - delay)
    return count, greatest, behind


@compiled_loop
def survey(times: Ints) -> tuple[int, int, bool]:
    """The least and the greatest of times, and whether they ascend; there is at least one."""
    least = greatest = times[0]
    ascends = True
    for i in range(1, times.shape[0]):
        least = min(least, times[i])
        greatest = max(greatest, times[i])
        ascends &= times[i] >= times[i - 1]
    return least, greatest, ascends


class Watermark:
    """The greatest timestamp so far minus the delay, or the instant of a punctuation if that is later.

    >>> watermark = Watermark(10)
    >>> watermark.judge(np.array([100, 95, 80])), watermark.value
    (array([False, False,  True]), 90)
    """

    def __init__(self, delay: int) -> None:
        self.delay = delay
        self.greatest = INT64_MIN
        self.floor = INT64_MIN
        self.behind = 0  # How far a late row was behind the greatest timestamp before it, at most.
        self.ascends = False  # Whether the times that were judged last ascend.

    @property
    def value(self) -> int:
        return self.floor if self.greatest == INT64_MIN else max(self.floor, self.greatest - self.delay)

    def judge(self, times: Ints) -> NDArray[np.bool_] | None:
        """Marks late rows; None if there are none. The watermark moves with the rows."""
        least, greatest, ascends = survey(times)
        self.ascends = bool(ascends)
        if least >= self.value and (ascends or greatest - least <= self.delay):
            self.greatest = max(self.greatest, int(greatest))
            return None
        late = np.zeros(len(times), np.uint8)
        count, greatest, behind = _judge(times, self.greatest, self.delay, self.floor, late)
        self.greatest, self.behind = int(greatest), max(self.behind, int(behind))
        return late.view(np.bool_) if count else None

    def see(self, time: int) -> None:
        """Rows up to this time have come, the last of which were shed."""
        self.greatest = max(self.greatest, time)

    def advance(self, until: int) -> None:
        """No row before `until` will come."""
        self.floor = max(self.floor, until)

    def after(self, greatest: int | None) -> Watermark:
        """A copy whose greatest timestamp is this one; None: it has seen no row."""
        after = Watermark(self.delay)
        after.floor, after.greatest = self.floor, INT64_MIN if greatest is None else greatest
        return after

    def snapshot(self) -> dict[str, Any]:
        return {"delay": self.delay, "greatest": self.greatest, "floor": self.floor, "behind": self.behind}

    def restore(self, snapshot: dict[str, Any]) -> None:
        self.delay, self.greatest, self.floor = snapshot["delay"], snapshot["greatest"], snapshot["floor"]
        self.behind = snapshot.get("behind", 0)
