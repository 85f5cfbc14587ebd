"""One limit for the unread results of all queries of an engine together.

Results wait for their readers in ledgers and in queries that stand apart. Each of these *holders* has a limit in rows;
this is the limit of all, in bytes. A holder reports the bytes of new results. When an eighth of the limit has come
since the last count, or the limit may be exceeded, the bytes of all holders are counted. If they exceed the limit, the
holder with most bytes gives up its oldest results, repeatedly, down to seven eighths of the limit. So counting costs
O(holders) for every eighth of the limit. The newest results of each holder stay. Holders count the results that they
give up (`results_unread_dropped`).
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import Protocol
from weakref import WeakSet

from panewise.errors import PlanError

UNREAD_BYTES_MAX = 1 << 30


class Holder(Protocol):
    """An object that holds results until they are read."""

    @property
    def unread_bytes(self) -> int:
        """The bytes of its unread results."""

    def give_up_oldest(self) -> bool:
        """Drops its oldest results, unless they are also the newest; returns whether some were dropped."""

    def __hash__(self) -> int: ...


class UnreadTotal:
    """The limit of one engine, in bytes; `most` None: no limit."""

    def __init__(self, most: int | None = UNREAD_BYTES_MAX) -> None:
        if most is not None and (isinstance(most, bool) or not isinstance(most, int) or most < 1):
            raise PlanError(f"unread_bytes is a whole number of at least 1, and not {most!r}", hint="None: no limit")
        self.most = most
        self._holders: WeakSet[Holder] = WeakSet()
        self._counted = 0  # Bytes held at the last count.
        self._come = 0  # Bytes that have come since then.
        self.taken = 0  # Bytes that have ever come.

    def join(self, holder: Holder) -> None:
        """A holder is counted as long as it lives."""
        self._holders.add(holder)

    def is_pressing(self, since: int) -> bool:
        """Whether a reader should read now, or its results may be given up. `since`: `taken` at its last read."""
        if self.most is None:
            return False
        return 16 * (self.taken - since) > self.most or 4 * (self._counted + self._come) > 3 * self.most

    def take(self, size: int) -> None:
        """This many bytes have come to a holder."""
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
