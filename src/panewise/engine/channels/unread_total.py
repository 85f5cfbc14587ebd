"""One limit for the results that nobody has read, of all queries of an engine together.

Results wait for their readers in ledgers and in queries that stand apart. Each has a limit of its own, in rows; here is
that of all, in bytes. Whoever takes results in says how many bytes they have. When an eighth of the limit has come, or
the limit may be reached, all holders are counted, and where they hold too much the oldest results of whichever holds
most are given up, down to seven eighths. So counting costs O(holders) for every eighth of the limit, and nothing else.
The newest results of each holder stay. What is given up is counted by its holder (`results_unread_dropped`).
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import Protocol
from weakref import WeakSet

from panewise.errors import PlanError

UNREAD_BYTES_MAX = 1 << 30


class Holder(Protocol):
    """Somebody who holds results until they are read."""

    @property
    def unread_bytes(self) -> int:
        """Of all that it holds."""

    def give_up_oldest(self) -> bool:
        """Gives up the oldest of its results, unless they are the newest too; whether there were some."""

    def __hash__(self) -> int: ...


class UnreadTotal:
    """The limit of one engine; `most` None: there is none."""

    def __init__(self, most: int | None = UNREAD_BYTES_MAX) -> None:
        if most is not None and (isinstance(most, bool) or not isinstance(most, int) or most < 1):
            raise PlanError(f"unread_bytes is a whole number of at least 1, and not {most!r}", hint="None: no limit")
        self.most = most
        self._holders: WeakSet[Holder] = WeakSet()
        self._counted = 0  # bytes when holders were counted
        self._come = 0  # bytes since then
        self.taken = 0  # bytes in all

    def join(self, holder: Holder) -> None:
        """It is counted as long as it lives."""
        self._holders.add(holder)

    def is_pressing(self, since: int) -> bool:
        """Whether who has read at `since`, of `taken`, should read again, lest results are given up before it does."""
        if self.most is None:
            return False
        return 16 * (self.taken - since) > self.most or 4 * (self._counted + self._come) > 3 * self.most

    def take(self, size: int) -> None:
        """So many bytes have come to one of the holders."""
        self._come += size
        self.taken += size
        if self.most is not None and (self._counted + self._come > self.most or 8 * self._come > self.most):
            self._limit(self.most)

    def _limit(self, most: int) -> None:
        held = [(-holder.unread_bytes, number, holder) for number, holder in enumerate(self._holders)]
        total = -sum(size for size, _, _ in held)
        if total > most:
            heapify(held)
            while held and 8 * total > 7 * most:
                size, number, holder = heappop(held)
                if holder.give_up_oldest():
                    left = holder.unread_bytes
                    total += size + left
                    heappush(held, (-left, number, holder))
        self._counted, self._come = total, 0
