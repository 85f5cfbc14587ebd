"""Waits between retries: 50 milliseconds, doubled each time up to 2 seconds, and never past a deadline.

Each wait is shortened at random by up to a half, so that clients that lost the same server do not all return at once.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable

FIRST_S = 0.05
LONGEST_S = 2.0


class Backoff:
    """The waits of one request or one lost connection. `pause` sleeps, and may return early."""

    def __init__(self, patience_s: float, pause: Callable[[float], object] = time.sleep) -> None:
        self._deadline = time.monotonic() + patience_s
        self._pause = pause
        self._next_s = FIRST_S

    @property
    def left_s(self) -> float:
        """The seconds until the deadline, at least 0."""
        return max(self._deadline - time.monotonic(), 0.0)

    def wait(self, at_least_s: float = 0.0) -> bool:
        """Waits before the next try and returns True; returns False at once if the deadline would pass first.

        `at_least_s` is the wait that the server has asked for.
        """
        delay_s = max(self._next_s * random.uniform(0.5, 1.0), at_least_s)
        if delay_s >= self.left_s:
            return False
        self._next_s = min(2 * self._next_s, LONGEST_S)
        self._pause(delay_s)
        return True
