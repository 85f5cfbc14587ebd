"""Channels: what queries read. A stream is a channel, and so is every query.

A channel hands batches of rows and its watermark to its readers (`readers.py`). Readers that fold rows in any order get
them as they come. Readers that need event-time order share one reorder buffer, which rows leave when the watermark has
passed them.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from panewise.aggregates.columns import empty_batch
from panewise.arrays import INT64_MIN, Ints
from panewise.engine.channels.failures import guarded
from panewise.engine.channels.readers import FamilyFolding, Folding, Past, Postponed, Reader
from panewise.operators.reorder import ReorderBuffer
from panewise.operators.row_batch import Rows, concatenated
from panewise.schema import Schema

SMALL_ROWS = 1024  # Retained pieces of fewer rows are put together.
SMALL_PIECES = 64  # About this many small pieces are put together at a time.


class Channel:
    """Rows and a watermark on their way to readers. `retain_us`: how long rows are retained for one-time queries."""

    of_query = False  # Whether its rows are the results of a query.
    # For results: whether they are counted from the first one on. False if the query was created in mid-stream, so that
    # rows held by others decided on its first result, or if some results were handed on without being counted here.
    counts_all = True
    # For results of a query that was created in mid-stream: results before this instant are missing, or exist only
    # because other queries held rows.
    whole_from: int | None = None

    def __init__(self, name: str, schema: Schema, timestamp: str) -> None:
        self.name = name
        self.schema = schema
        self.timestamp = timestamp
        self.consumers: list[Reader] = []
        self.watermark = INT64_MIN
        self.rows_seen = 0
        self.released = 0  # Number of rows that left the reorder buffer, or came before there was one.
        self.retain_us = 0
        # Rows before this instant may not be retained any more; INT64_MIN: all are. It follows from the rows and the
        # watermark alone, not from the pieces in which rows come and leave.
        self.retained_from = INT64_MIN
        self._least: int | None = None  # The least time of a row.
        # Where the edges of new windows begin to hold, if the host decides that; None: families find the point.
        self.cut: int | None = None
        self.begun_at: int | None = None  # Rows before this instant may have passed before the channel existed.
        self.folds_only = False  # Partials are taken out of its families, and nothing is answered here.
        self.together: FamilyFolding | None = None
        self.may_postpone = False  # Whether reports that can wait are postponed.
        self.postponed: dict[Postponed, None] = {}  # Readers with postponed reports, in order.
        self.past: list[Past] = []
        self._reorder: ReorderBuffer | None = None
        self._recent: deque[tuple[int, Rows]] = deque()  # (greatest time, rows) that the watermark has not passed.
        self._retained: deque[tuple[int, Rows]] = deque()
        self._retained_count = 0  # Number of pieces that were ever retained.

    # -- what its readers ask ------------------------------------------------------------------------------------

    @property
    def called(self) -> str:
        """Its name in messages."""
        return f"'{self.name}'"

    @property
    def readers(self) -> list[Reader]:
        """The readers of its rows; for a query, also the readers of the rows of its answer."""
        return list(self.consumers)

    @property
    def failure(self) -> str | None:
        """Why the queries that read it fail; None if it has not failed."""
        return None

    @property
    def is_to_begin(self) -> bool:
        """Whether it, or a partition of it, may still wait for enough rows to begin."""
        return False

    @property
    def comes_late(self) -> bool:
        """Whether rows may be older than the watermark when they come."""
        return False

    def waited(self, report: int, answered: float | None) -> float | None:
        """Seconds that the rows of a report had waited when it was answered by the clock, or, if `answered` is None,
        when they were processed; None if that is not known."""
        return None

    def is_pushed_short_of(self, instant: int) -> Callable[[], bool] | None:
        """A function that tells, also outside turns, whether the watermark is before an instant even after all pushed
        rows; None if that cannot be told."""
        return None

    # -- rows and the watermark ----------------------------------------------------------------------------------

    def empty_rows(self) -> Rows:
        nothing = np.empty(0, np.int64)
        return Rows(empty_batch(self.schema.to_arrow()), nothing, nothing)

    def flow(self, rows: Rows, watermark: int, more: bool = False) -> None:
        """Hands on rows that are not late, and the watermark after them. `more`: other rows follow at once."""
        moved = watermark > self.watermark
        if not len(rows) and not moved:
            if self.together is not None:
                self.together.take([], rows, more)
            return
        self.watermark = max(self.watermark, watermark)
        self.rows_seen += len(rows)
        self._remember(rows)
        if self._reorder is not None:
            self._reorder.insert(rows)
        ordered: list[Reader] = []
        folding: list[Folding] = []
        for reader in self.consumers:
            if (folds := reader.folding) is None:
                ordered.append(reader)
            else:
                folding.append(folds)
        if self.together is not None:
            self.together.take(folding, rows, more)
        else:
            for reader in folding:
                guarded(reader, partial(reader.take, rows, self.watermark))
        if ordered:
            assert self._reorder is not None
            in_order = self._reorder.release(self.watermark)
            self.released += len(in_order)
            for reader in ordered:
                guarded(reader, partial(reader.take, in_order, self.watermark))

    def postpone(self, reader: Postponed) -> None:
        """A reader answers its due reports later."""
        self.postponed[reader] = None

    def end_postponement(self, reader: Postponed) -> None:
        """A reader answers its due reports now, or never because it has failed."""
        self.postponed.pop(reader, None)

    def catch_up(self) -> None:
        """Answers all postponed reports."""
        while self.postponed:
            next(iter(self.postponed)).catch_up()

    def clock(self) -> float:
        return time.monotonic()

    def _remember(self, rows: Rows) -> None:
        if len(rows):
            latest, least = rows.latest, int(rows.times.min())
            self._least = least if self._least is None else min(self._least, least)
            if latest >= self.watermark:
                self._recent.append((latest, rows))
            if self.retain_us:
                self._retained.append((latest, rows))
                self._retained_count += 1
                if self._retained_count % SMALL_PIECES == 0:
                    self._merge_small()
        while self._recent and self._recent[0][0] < self.watermark:
            self._recent.popleft()
        self._let_go()

    def _let_go(self) -> None:
        """Drops retained rows whose time is over."""
        since = self.watermark - self.retain_us
        if self._least is not None and self._least < since:
            self.retained_from = max(self.retained_from, since)
        while self._retained and self._retained[0][0] < since:
            self._retained.popleft()

    def recent(self) -> Rows:
        """The rows that the watermark has not passed. A new reader sees all of them."""
        kept = [rows.take(rows.times >= self.watermark) for _, rows in self._recent]
        return concatenated(kept) if kept else self.empty_rows()

    def recent_times(self) -> Ints:
        """The times of these rows, without the rows."""
        kept = [rows.times[rows.times >= self.watermark] for _, rows in self._recent]
        return np.concatenate(kept) if kept else np.empty(0, np.int64)

    def retain(self, duration: int) -> None:
        """Retains rows for this long from now on. Earlier rows that were not retained stay missing."""
        if not self.retain_us and duration and self.rows_seen:
            self.retained_from = max(self.retained_from, self.watermark)
            if len(recent := self.recent()):
                self._retained.append((recent.latest, recent))
        self.retain_us = duration
        if self.watermark != INT64_MIN:
            self._let_go()
        if not duration:
            self._retained.clear()

    def retains(self, start: int | None) -> bool:
        """Whether all rows from an instant on are retained; None: all rows that ever came."""
        return not self.rows_seen or (
            self.retain_us > 0
            and (self.retained_from == INT64_MIN or (start is not None and start >= self.retained_from))
        )

    def retained(self) -> Rows:
        """All rows from `retained_from` on."""
        if not self._retained:
            return self.empty_rows()
        rows = concatenated([rows for _, rows in self._retained])
        return rows.take(rows.times >= self.retained_from) if self.retained_from != INT64_MIN else rows

    @property
    def retained_rows(self) -> int:
        """Number of retained rows, with a few whose time may be over."""
        return sum(len(rows) for _, rows in self._retained)

    def retained_pieces(self, after: int = -1) -> list[Rows]:
        """The retained pieces in order of arrival, which are immutable. `after`: only of rows that arrived after the
        one with this number."""
        pieces: list[Rows] = []
        for _, rows in reversed(self._retained):
            if rows.last_arrived <= after:
                break
            pieces.append(rows if rows.first_arrived > after else rows.take(rows.arrivals > after))
        return pieces[::-1]

    def _merge_small(self) -> None:
        """Puts the last small pieces together. Pushes that alternate with reads make tiny pieces."""
        small: list[tuple[int, Rows]] = []
        while self._retained and len(self._retained[-1][1]) < SMALL_ROWS:
            small.append(self._retained.pop())
        if small:
            latest = max(time for time, _ in small)
            self._retained.append((latest, concatenated([rows for _, rows in reversed(small)])))

    def pinned(self) -> Channel:
        """A copy of the channel as it is now, with its retained rows and without readers."""
        pinned = Channel(self.name, self.schema, self.timestamp)
        for name in ("watermark", "rows_seen", "retain_us", "retained_from", "of_query"):
            setattr(pinned, name, getattr(self, name))
        pinned._retained = self._retained.copy()
        return pinned

    @property
    def held_from(self) -> int | None:
        """A new reader does not see rows before this instant; None if there were none."""
        return self.watermark if self.rows_seen else None

    @property
    def missed_before(self) -> int | None:
        """A new reader misses rows before this instant; None if the watermark has passed no row, so that it sees
        all."""
        return None if self.begun_at is None and not self.released_now() else self.held_from

    @property
    def oldest(self) -> int | None:
        """The least time of a row; None before there is a row, and for channels that do not need it."""
        return None

    @property
    def newest(self) -> int | None:
        """The greatest time of a row, as far as it is known; None before there is a row."""
        return None if self.watermark == INT64_MIN else self.watermark

    @property
    def moment(self) -> object:
        """Equal for two calls if nothing came between them: a reader that begins at either sees the same rows."""
        return self.rows_seen, self.watermark

    def released_now(self) -> int:
        """Number of rows that the watermark has passed, which is the number of the row that is released next."""
        return self.released if self._reorder is not None else self.rows_seen - len(self.recent())

    def history(self, start: int, end: int) -> Rows | None:
        """All rows from `start` (INT64_MIN: all rows that ever came) to before `end`, in order of time, from an
        archive; None if no archive has them all."""
        return next((rows for past in self.past if (rows := past.rows_between(start, end)) is not None), None)

    def attach(self, reader: Reader, history: Rows | None = None) -> None:
        """Adds a reader. It gets its history, then the rows that the watermark has not passed."""
        ordered = reader.folding is None
        if ordered and self._reorder is None:
            self._reorder = ReorderBuffer(self.schema)
            recent = self.recent()
            self.released = self.rows_seen - len(recent)
            self._reorder.insert(recent)
        self.consumers.append(reader)
        if (self.rows_seen or self.watermark != INT64_MIN) and not self.folds_only:
            rows = self.empty_rows() if ordered else self.recent()
            reader.take(rows if history is None else concatenated([history, rows]), self.watermark)

    def detach(self, reader: Reader) -> None:
        """Removes a reader; does nothing if it does not read this channel."""
        self.consumers = [other for other in self.consumers if other is not reader]
        if self.together is not None and (folding := reader.folding) is not None:
            self.together.leave(folding)
        if all(other.folding is not None for other in self.consumers):
            self._reorder = None

    @property
    def bytes_held(self) -> int:
        """Bytes of the reorder buffer and of retained rows; recent rows are the caller's batches."""
        held = self._reorder.bytes_held if self._reorder is not None else 0
        return int(held + sum(rows.batch.nbytes for _, rows in self._retained))

    def snapshot(self) -> dict[str, Any]:
        return {
            "watermark": self.watermark,
            "rows_seen": self.rows_seen,
            "released": self.released,
            "retain_us": self.retain_us,
            "retained_from": self.retained_from,
            "least": self._least,
            "recent": _packed(self.recent()) if self._recent else None,
            "retained": _packed(self.retained()) if self._retained else None,
            "reorder": self._reorder.snapshot() if self._reorder is not None else None,
        }

    def restore(self, snapshot: dict[str, Any]) -> None:
        for name in ("watermark", "rows_seen", "released", "retain_us", "retained_from"):
            setattr(self, name, snapshot[name])
        self._least = snapshot.get("least", self.watermark if self.rows_seen else None)
        for kept, queue in (("recent", self._recent), ("retained", self._retained)):
            queue.clear()
            if snapshot[kept] is not None and len(rows := _unpacked(snapshot[kept])):
                queue.append((int(rows.times.max()), rows))
        if snapshot["reorder"] is not None:
            if self._reorder is None:
                self._reorder = ReorderBuffer(self.schema)
            self._reorder.restore(snapshot["reorder"])


def _packed(rows: Rows) -> dict[str, Any]:
    return {"batch": rows.batch, "times": rows.times, "arrivals": rows.arrivals}


def _unpacked(packed: dict[str, Any]) -> Rows:
    return Rows(packed["batch"], packed["times"], packed["arrivals"])
