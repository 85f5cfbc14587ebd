"""Published answers: many readers look them up while rows arrive, without waiting for the thread that writes.

Isolation. Answers are *latest-window-serializable* (Golab 2006, section 7.3.2): each is the whole state after some
window move, never a mixture of two. It is never older than a move that was committed before the lookup began, whichever
query showed that move. A window move is what happens between two publications: rows are processed, the watermark moves,
and then the answers that readers keep asking for are replaced all at once. The replacement is the commit. The writer
computes the answers just before it, where no other move can come. So no lookup is aborted, and there is no order of
sub-windows to choose (TTU, section 7.4.2). One-time queries scan outside the writer's turns, and do choose one:
`window_reads`.

    rows      ----push----push----push----push----push----push---->
    moves     [ portion ][ portion ][ portion ][ portion ]           each by the writer, inside its turn
    answers   0         |1         |2         |3         |4          replaced at |
    lookups       ^0  ^0    ^1  ^1    ^2                             microseconds each, outside all turns

What a lookup sees of rows whose push has returned:

- all of them, if they are the caller's own, or if no other thread is inside a push, an advance or a statement, or
  inside any call with unprocessed rows of its own. The answer of a periodic query changes only with its next report:
  until rows come that complete that report, nothing has to be processed;
- otherwise those of the committed moves. The answers are then at most STALE_S behind, or 2 / SHARE times as long as it
  takes to compute them, if that is more. A lookup that finds older answers takes its turn.

Cost. The writer computes an answer again only if it was asked for within HOT_S, and spends at most SHARE of its time on
all of them: if answers are expensive (a continuous window is scanned), moves become longer. A lookup that finds its
answer costs 1 to 2 microseconds. Another one waits for its turn, at most as long as a portion of rows takes.

Order of reading and writing. A reader looks at `unseen` first and then at the answers; a publication replaces the
answers first and then clears `unseen`. So a reader that finds nothing unseen has answers that cover everything.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from threading import get_ident
from time import monotonic, sleep
from typing import NamedTuple

import pyarrow as pa

from panewise.engine.channels.turns import Turns
from panewise.plan.blocks import Block

STALE_S = 0.05  # how far behind an answer may be while others write
HOT_S = 0.1  # how long after a lookup its answer is kept up to date
READING_S = 1.0  # how long after a lookup rows are processed in portions
PACE_S = 0.005  # between two moves that readers cause, or 1 / SHARE times what answers cost, up to STALE_S
BACK_S = 0.002  # the time between two calls of a writer that pushes without a pause
POLL_S = 0.002  # how often a waiting reader looks for its answer
SHARE = 0.02  # of the writer's time, for answers
WATERMARK = b"panewise.watermark_us"


class PublishedAnswer(NamedTuple):
    """The answer of a query, and its block, by which a group is found.

    `holds`: says whether the answer stays the same when all pushed rows have been processed; None if nobody can tell
    before.
    """

    name: str
    block: Block
    table: pa.Table
    holds: Callable[[], bool] | None = None


def watermark_us(table: pa.Table) -> int | None:
    """The watermark of the state that answered a lookup; None before there were rows."""
    found = (table.schema.metadata or {}).get(WATERMARK)
    return None if found is None else int(found)


def with_watermark(table: pa.Table, watermark: int | None) -> pa.Table:
    """The table with its watermark in the metadata of its schema."""
    if watermark is None:
        return table
    return table.replace_schema_metadata({**(table.schema.metadata or {}), WATERMARK: str(watermark).encode()})


class PublishedAnswers:
    """The answers of one engine, by the name of the query as readers write it.

    All methods except `find`, `wait_for` and `queued` are called inside a turn.
    """

    def __init__(self, turns: Turns, compute: Callable[[str], PublishedAnswer], waiting: Callable[[], bool]) -> None:
        """`waiting`: whether there are pending rows."""
        self._turns = turns
        self._compute = compute
        self._waiting = waiting
        self._unseen: set[int] = set()  # threads with changes that the answers do not cover
        self._unseen_since = 0.0
        self._unseen_lock = threading.Lock()  # between pushes into queues, outside all turns, and a publication
        self._moved = False  # whether the state has changed since the answers were published
        self._answers: dict[str, PublishedAnswer] = {}  # replaced as a whole; grows while the state is the same
        self._used: dict[str, float] = {}  # by query, when its answer was last looked up
        self._costs: dict[str, float] = {}  # by query, seconds to compute its answer
        self._published = 0.0  # when answers were last published
        self._cost = 0.0  # seconds to compute all answers that are kept up to date
        self._read = 0.0  # when a lookup last found changes that the answers do not cover

    # -- readers -------------------------------------------------------------------------------------------------

    def find(self, query: str) -> PublishedAnswer | None:
        """The published answer, outside all turns; None if the caller must take its turn."""
        if self._turns.refused is not None:
            raise self._turns.refused
        now, clean = monotonic(), not self._unseen
        found = None if self._turns.broken else self._answers.get(query)
        if not clean:
            me = get_ident()
            if me in self._unseen or me in self._turns.writers:
                return None
            if found is None or found.holds is None or not found.holds():
                self._read = now
                if not self._may_be_behind(me, now):
                    return None
        if found is not None:
            self._used[query] = now
        return found

    def wait_for(self, query: str) -> PublishedAnswer | None:
        """The published answer, after a short wait if rows of others are pending and no writer is inside.

        Otherwise many readers would make the engine process a writer's rows in small pieces. Often the writer is back
        within the wait.
        """
        found, until = self.find(query), monotonic() + STALE_S
        while found is None and self._unseen and not self._writing and get_ident() not in self._unseen:
            pace = min(max(PACE_S, self._cost / SHARE), STALE_S)
            left = min(max(self._published + pace, self._turns.left + BACK_S), until) - monotonic()
            if left <= 0:
                return None
            sleep(min(left, POLL_S))
            found = self.find(query)
        return found

    @property
    def _writing(self) -> bool:
        """Whether a thread is inside that changes or has changed something, so that a reader would have to wait."""
        return bool(self._turns.writers) or self._turns.owner in self._unseen

    def _may_be_behind(self, me: int, now: float) -> bool:
        """Whether this thread may get answers that do not cover all pushed rows."""
        if me in self._unseen or not self._writing:
            return False
        return now - self._unseen_since <= max(STALE_S, 2 * self._cost / SHARE)

    def settle(self, process: Callable[[], None]) -> None:
        """Brings the state to one that the caller may read. `process` processes all pending rows."""
        now = monotonic()
        if self._unseen and not self._may_be_behind(self._turns.owner, now):
            process()
            self._moved = True
        if self._moved:
            self._publish(self._hot(now))

    def answer(self, query: str) -> PublishedAnswer:
        """The answer in the present state, after `settle`."""
        found = self._answers.get(query)
        if found is None:
            found = self._answers[query] = self._timed(query)
        self._used[query] = monotonic()
        return found

    # -- writers -------------------------------------------------------------------------------------------------

    def change(self) -> None:
        """The caller is going to change something. Called first in its turn."""
        me = self._turns.owner
        self._turns.writers.add(me)
        self._moved = True
        if me not in self._unseen:
            self._note(me)

    def queued(self) -> None:
        """The caller has put rows into a queue, outside all turns, for another thread to process."""
        with self._unseen_lock:
            self._note(get_ident())

    def _note(self, thread: int) -> None:
        if not self._unseen:
            self._unseen_since = monotonic()
        self._unseen.add(thread)

    def moved(self) -> None:
        """Rows have been processed."""
        self._moved = True

    def forget(self) -> None:
        """The set of queries has changed: all answers are dropped."""
        self._answers, self._used, self._costs, self._moved = {}, {}, {}, True

    @property
    def wanted(self) -> bool:
        """Whether other threads read while this one writes, so that the writer should commit often."""
        if self._read and monotonic() - self._read > READING_S:
            self._read = 0.0
        return self._read > 0

    def commit(self) -> bool:
        """Publishes answers after a portion of rows, unless they have taken their share of the time already."""
        self._moved = True
        now = monotonic()
        hot = self._hot(now)
        if sum(self._costs.get(query, 0.0) for query in hot) > SHARE * (now - self._published):
            return False
        self._publish(hot)
        return True

    def _hot(self, now: float) -> list[str]:
        return [query for query, used in list(self._used.items()) if now - used < HOT_S]

    def _publish(self, queries: list[str]) -> None:
        """Publishes answers of these queries in the present state."""
        answers: dict[str, PublishedAnswer] = {}
        for query in queries:
            try:
                answers[query] = self._timed(query)
            except Exception:  # noqa: BLE001 - the next lookup raises it again
                continue
        self._answers, self._moved = answers, False
        self._cost = sum(self._costs.get(query, 0.0) for query in queries)
        self._published = monotonic()
        with self._unseen_lock:
            if self._waiting():
                self._unseen_since = self._published
            else:
                self._unseen.clear()

    def _timed(self, query: str) -> PublishedAnswer:
        start = monotonic()
        answer = self._compute(query)
        self._costs[query] = monotonic() - start
        return answer
