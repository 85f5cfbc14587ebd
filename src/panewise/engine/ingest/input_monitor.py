"""The input monitor of a stream: how fast rows come and are processed, and how far answers trail them.

Rates are averages over about the last `WINDOW_S` seconds of the clock, with exponentially fading weights. The rows of a
push count as having come evenly since the push before, so that the average does not depend on the sizes of pushes:

    rate(now) = rate(before) * fade + rows / elapsed * (1 - fade),   fade = exp(-elapsed / WINDOW_S)

Cost: one reading of the clock per push; rows that are pushed one by one are counted when they become a batch. Answers
do not depend on the monitor. After the input monitor of Golab 2006, section 1.1.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

WINDOW_S = 5.0
_DAY_US = 86_400_000_000


class RateMeter:
    """Events per second, faded over `window_s` seconds; `at` never goes back.

    >>> meter = RateMeter(5.0)
    >>> for second in range(60):
    ...     meter.note(100, second)
    >>> round(meter.rate(59))
    100
    """

    def __init__(self, window_s: float) -> None:
        self.window_s = window_s
        self._rate = 0.0
        self._at: float | None = None

    def note(self, count: float, at: float) -> None:
        elapsed = 0.0 if self._at is None else max(at - self._at, 0.0)
        fade = math.exp(-elapsed / self.window_s)
        # For events that come at once, the limit of (1 - fade) / elapsed.
        share = (1 - fade) / elapsed if elapsed > 1e-9 else 1 / self.window_s
        self._rate = self._rate * fade + count * share
        self._at = at

    def rate(self, at: float) -> float:
        return 0.0 if self._at is None else self._rate * math.exp(-max(at - self._at, 0.0) / self.window_s)


class InputMonitor:
    """The measurements of one stream."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, wall: Callable[[], float] = time.time) -> None:
        self.clock = clock
        self.wall = wall
        self.arrivals = RateMeter(WINDOW_S)
        self._rows_processed = 0.0  # Faded.
        self._seconds_busy = 0.0  # Seconds of processing them, faded.
        self._processed_at: float | None = None

    def arrived(self, rows: int) -> None:
        """A push of this many rows has come; some of them may be shed."""
        self.arrivals.note(rows, self.clock())

    def processed(self, rows: int, since: float) -> None:
        """This many rows were processed between an instant of the clock and now."""
        now = self.clock()
        fade = 1.0 if self._processed_at is None else math.exp(-(now - self._processed_at) / WINDOW_S)
        self._rows_processed = self._rows_processed * fade + rows
        self._seconds_busy = self._seconds_busy * fade + (now - since)
        self._processed_at = now

    @property
    def sustainable(self) -> float | None:
        """Rows per second that can be processed, measured while rows are processed; None before the first rows."""
        return self._rows_processed / self._seconds_busy if self._seconds_busy > 0 and self._rows_processed else None

    def stats(self, newest: int | None, watermark: int | None) -> dict[str, Any]:
        """Rates in rows per second, lags in seconds; None if not known.

        `lag`: how far the watermark trails the newest row. `age`: how far that row trails the wall clock, if they are
        less than a day apart.
        """
        age = None if newest is None else self.wall() * 1e6 - newest
        sustainable = self.sustainable
        return {
            "rate": self.arrivals.rate(self.clock()),
            "sustainable_rate": sustainable,
            "lag": None if newest is None or watermark is None else max(newest - watermark, 0) / 1e6,
            "age": None if age is None or abs(age) > _DAY_US else age / 1e6,
        }
