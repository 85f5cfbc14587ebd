"""A one-time query as a transaction over sub-windows, which it scans one by one while the window moves on.

The window is a stretch of event time that ends at the watermark of its stream. It is cut into sub-windows with about as
many rows each. A move of the window adds a sub-window, from the old end to the new end, and removes what has become too
old. Rows below the watermark are complete and pieces are immutable, so a sub-window never changes once it is scanned.
Only the set of sub-windows that are in the window may change until the read commits.

    begun      [ s0 | s1 | s2 | s3 | s4 ]                 start and end of the window at the begin
    scanned              2    1    0                      youngest first (TTU), outside all turns
    moved        .. edge | s2 | s3 | s4 | s5 ]            s5 is new; s1 is partly in the window: the edge
    commit                                                s5, and then exactly what is left of s1, inside the turn

The scheduler (`schedule.isolation`) says what to scan next, and is told of moves between steps. If a sub-window that
was scanned leaves the window, even in part, that is a conflict: the read is aborted and begins again. It keeps the
results of the sub-windows that are still in the window (`partial_relation` has each by itself, so that nothing has to
be subtracted).

Turns. The reader takes a turn to begin, to look for moves between two steps if nobody else is inside, and to commit. It
commits when at most `rows_inside` rows are left to scan, and scans them inside. So a push waits for that many rows at
most. A read that has failed to commit `tries` times scans all that is left inside, so that it ends.
"""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic
from typing import NamedTuple

import pyarrow as pa

from panewise.arrays import INT64_MIN
from panewise.engine.channels.channel import Channel
from panewise.engine.reads.one_time_query import last_report, require_held, stretch_of
from panewise.engine.reads.pinned_rows import PinnedRows
from panewise.engine.reads.published_answers import with_watermark
from panewise.engine.reads.read_isolation import ReadIsolation, SourceGone
from panewise.operators.once.partial_relation import Part, PartialRelation
from panewise.operators.read_budget import ReadBudget, weight_of
from panewise.plan.blocks import Block
from panewise.schedule.isolation.schedulers import Step
from panewise.schedule.isolation.transactions import Priority, WindowRead
from panewise.temporal import TimeWindow

MOVES_MAX = 64  # Moves that a read takes notice of between steps. With more, scanning new rows first might never end.
SUB_WINDOWS_MAX = 4096


class Stretch(NamedTuple):
    """Instants from `start` to before `end`."""

    start: int
    end: int


class StepwiseRead:
    """One SELECT over a window of time of one stream. It begins inside the turn in which it is made."""

    def __init__(
        self,
        isolation: ReadIsolation,
        block: Block,
        channel: Channel,
        find: Callable[[], Channel | None],
        inside: bool,
        budget: ReadBudget,
    ) -> None:
        """`find`: the channel that has the name now. `inside`: the read runs inside the turn, as if it were serial."""
        assert isinstance(block.window, TimeWindow)
        self._isolation = isolation
        self._window = block.window
        self._channel = channel
        self._find = find
        self._inside = inside
        self._relation = PartialRelation(block, budget)
        self._parts: dict[Stretch, list[Part]] = {}
        weight = weight_of(self._relation.cells)
        self._rows_inside = isolation.rows_inside // weight
        self._pinned = PinnedRows(channel.empty_rows(), max(1, isolation.sub_window_rows // weight))
        self._pieces = channel.retained_pieces()  # pieces that are not in `_pinned` yet
        self._last_arrived = self._pieces[-1].last_arrived if self._pieces else -1
        self._stretch = self._seen_now()
        self._watermark = channel.watermark
        self._number = isolation.numbered()
        self._attempt = 0
        self._looked = monotonic()
        self._moves = 0  # number of moves noticed since the begin
        self._noted = last_report(self._window, channel.watermark)  # end of the window after the last recorded move

    # -- the transaction ---------------------------------------------------------------------------------------------

    def finish(self) -> pa.Table:
        """The answer. Called outside all turns; inside a turn only if the read was made to run `inside`."""
        self._pin()
        self._begin(self._pinned.edges(*self._stretch, SUB_WINDOWS_MAX))
        if self._inside or not self._isolation.latest:
            self._scan_all()
            self._commit()
        else:
            tries = 1
            while not self._committed(last_try=tries >= self._isolation.tries):
                tries += 1
        parts = [part for stretch in self._stretches() for part in self._parts[stretch]]
        answer = self._relation.whole(parts)
        return with_watermark(answer, None if self._watermark == INT64_MIN else self._watermark)

    def give_up(self) -> None:
        """The answer is not wanted any more. There is nothing to release but memory."""

    def _committed(self, last_try: bool) -> bool:
        """Scans until little is left, and commits in a turn. False if moves have brought too many rows."""
        while self._left() > self._rows_inside:
            step = self._next_step()
            if step is None:
                break
            self._scan(step)
        with self._isolation.turns:
            self._look()
            self._pin()
            inside = self._left() > self._rows_inside
            if inside and not last_try:
                return False
            while (step := self._scheduler.next_step(self._name)) is not None:
                self._scan(step)
            self._scan_edge()
            self._commit(inside)
        return True

    def _begin(self, edges: list[int]) -> None:
        """Begins, or begins again, with the sub-windows between these edges."""
        self._attempt += 1
        self._name = f"Q{self._number}_{self._attempt}"
        self._scheduler = self._isolation.scheduler(len(edges) - 1 + MOVES_MAX)
        self._scheduler.begin(WindowRead(self._name, len(edges) - 1, Priority.ONE_TIME))
        first = self._scheduler.last_move + 2 - len(edges)
        # The sub-windows that are wholly in the window, oldest first, by the number of their copy.
        self._copies = {first + i: Stretch(edges[i], edges[i + 1]) for i in range(len(edges) - 1)}

    def _scan_all(self) -> None:
        while (step := self._next_step()) is not None:
            self._scan(step)

    def _next_step(self) -> Step | None:
        """The next step. Looks for moves first, if that takes no waiting."""
        if not self._inside:
            self._isolation.pause()
            if self._may_look():
                with self._isolation.turns:
                    self._look()
                self._pin()
        return self._scheduler.next_step(self._name)

    def _may_look(self) -> bool:
        if not (self._isolation.latest or self._isolation.recording) or self._moves >= MOVES_MAX:
            return False
        return monotonic() - self._looked >= self._isolation.look_every_s and self._isolation.turns.free

    def _scan(self, step: Step) -> None:
        self._read(self._copies[step.copy])

    def _scan_edge(self) -> None:
        """Scans what is left of a sub-window that is partly out of the window, as of now."""
        edge = self._edge()
        if edge is not None:
            self._read(edge)

    def _read(self, stretch: Stretch) -> None:
        if stretch not in self._parts:
            self._parts[stretch] = self._relation.parts(self._pinned.between(*stretch))

    def _commit(self, inside: bool = False) -> None:
        self._scheduler.commit(self._name)
        self._isolation.committed(inside or self._inside)

    # -- moves ---------------------------------------------------------------------------------------------------------

    def _look(self) -> None:
        """Inside a turn: takes notice of the moves since the last look, as if they were one move."""
        self._looked = monotonic()
        if not self._isolation.latest:
            self._note_move()
            return
        if self._find() is not self._channel:
            raise SourceGone
        now = self._seen_now()
        self._watermark = self._channel.watermark
        if now == self._stretch:
            return
        self._pieces.extend(self._channel.retained_pieces(self._last_arrived))
        if self._pieces:
            self._last_arrived = self._pieces[-1].last_arrived
        new = Stretch(max(now.start, self._stretch.end), now.end)
        self._stretch = now
        self._moves += 1
        kept = {number: copy for number, copy in self._copies.items() if copy.start >= now.start}
        if len(kept) == self._scheduler.sub_windows:
            self._scheduler.abort(self._name)
            self._begin_again([*kept.values(), new])
            return
        moved = self._scheduler.move(lengths={self._name: len(kept) + 1})
        assert moved is not None
        if self._name in moved.aborted:
            self._begin_again([*kept.values(), new])
        else:
            self._copies = {**kept, moved.move.number: new}

    def _note_move(self) -> None:
        """Tells the scheduler of a move, though the read answers as of its begin; for recorded histories."""
        end = last_report(self._window, self._channel.watermark)
        if self._parts and end != self._noted:
            self._noted = end
            self._moves += 1
            self._scheduler.move()

    def _begin_again(self, copies: list[Stretch]) -> None:
        self._isolation.aborted()
        start = self._stretch.start
        edges = [start, *(copy.start for copy in copies if copy.start > start), self._stretch.end]
        self._begin(edges)
        self._parts = {stretch: part for stretch, part in self._parts.items() if stretch.start >= start}

    def _seen_now(self) -> Stretch:
        """The window as of now; NotHeldError if the channel does not hold all of it."""
        until = last_report(self._window, self._channel.watermark)
        start, end = stretch_of(self._window, until)
        require_held(self._channel, start, self._window)
        return Stretch(INT64_MIN if start is None else max(start, INT64_MIN), max(end, INT64_MIN))

    # -- sub-windows -----------------------------------------------------------------------------------------------

    def _pin(self) -> None:
        """Pins new pieces, which takes a pass over their times."""
        if self._pieces:
            pieces, self._pieces = self._pieces, []
            self._pinned.add(pieces)

    def _edge(self) -> Stretch | None:
        first = next(iter(self._copies.values())).start
        return Stretch(self._stretch.start, first) if first > self._stretch.start else None

    def _stretches(self) -> list[Stretch]:
        """The edge, if any, and the sub-windows, oldest first."""
        edge = self._edge()
        return [*([] if edge is None else [edge]), *self._copies.values()]

    def _left(self) -> int:
        """How many rows are left to scan; counted only until there are more than `rows_inside`."""
        left = 0
        for stretch in reversed(self._stretches()):
            if stretch not in self._parts:
                left += self._pinned.count(*stretch)
                if left > self._rows_inside:
                    break
        return left
