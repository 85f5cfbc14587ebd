"""One-time queries while batches arrive: which of them run outside the engine's turns, and at which level of isolation.

    isolation           scheduler of each read                            a SELECT answers as of   pushes wait for
    latest (default)    LatestWindowScheduler, youngest first (TTU)       its commit               a few milliseconds
    latest-in-order     LatestWindowScheduler, by sub-window (LWS)        its commit               a few milliseconds
    window              WindowScheduler (WS)                              its begin                nothing
    serial              SerialScheduler                                   both: one turn           the whole query

Who reads a stream that retains more than `rows_inside` rows runs outside: over one stream and a window of time step by
step (`stepwise_read`), over several streams or windows of rows as a whole (`whole_read`). Everything else is short, and
is answered inside the turn that has bound it: few rows, another query's answer, the slices of a registered query, and
tables, which statements change and no window moves. So is a SELECT among several statements of one text, and one whose
caller is inside the engine already. An archive is read outside all turns, from a version of its files.
See Golab 2006, sections 7.4 and 7.5.1.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from panewise.errors import PlanError, did_you_mean
from panewise.language.statements import WINDOWLESS
from panewise.operators.one_time import relation
from panewise.plan.blocks import Block, block_of
from panewise.plan.inputs import has_several_inputs, reads_answer, table_inputs, windowed_inputs
from panewise.plan.nodes import Emit, Scan
from panewise.plan.supported import check_supported
from panewise.runtime.answers import with_watermark
from panewise.runtime.archive_reads import ArchiveRead, ArchiveTable
from panewise.runtime.ask import ask_once, asks_archive, from_tree, last_report, named_answer, rows_in
from panewise.runtime.ask_inputs import Sources, ask_inputs, until_of
from panewise.runtime.channel import INT64_MIN, Channel
from panewise.runtime.stepwise_read import StepwiseRead
from panewise.runtime.table import Table
from panewise.runtime.turns import Turns
from panewise.runtime.whole_read import WholeRead
from panewise.schedule.recorded_scheduler import RecordedScheduler
from panewise.schedule.scheduler_names import SCHEDULERS
from panewise.schedule.schedulers import Scheduler
from panewise.temporal import TimeWindow

if TYPE_CHECKING:
    from panewise.runtime.engine import Engine

LEVELS = {"latest": "TTU", "latest-in-order": "LWS", "window": "WS", "serial": "Serial"}
"""The scheduler of each, by its name in `SCHEDULERS`."""

Read = StepwiseRead | WholeRead | ArchiveRead


class WindowReads:
    """The one-time queries of one engine.

    `sub_window_rows`: about how many rows are scanned in a step. `rows_inside`: how many may be scanned inside a turn.
    `tries`: how often a read asks for its commit before it scans all that is left inside the turn. `look_every_s`: how
    often it asks for moves between steps.
    """

    def __init__(self, engine: Engine, turns: Turns, level: str) -> None:
        if not isinstance(level, str):
            raise PlanError(f"the name of an isolation is a text, not a {type(level).__name__}")
        if level not in LEVELS:
            raise PlanError(
                f"there is no isolation '{level}'",
                hint=did_you_mean(level, LEVELS) or f"it is {', '.join(list(LEVELS)[:-1])} or {list(LEVELS)[-1]}",
            )
        self._engine = engine
        self.turns = turns
        self.level = level
        self.sub_window_rows = 65_536
        self.rows_inside = 65_536
        self.tries = 8
        self.look_every_s = 0.02
        self.between_steps: Callable[[], None] | None = None  # called outside all turns, before each step
        self.recorded: list[RecordedScheduler] | None = None  # what schedulers have decided, where somebody wants it
        self._counts = {"begun": 0, "committed": 0, "aborted": 0, "inside_the_turn": 0}
        self._counts_lock = threading.Lock()

    # -- one-time queries ----------------------------------------------------------------------------------------------

    def begin(self, plan: Emit) -> pa.Table | Read:
        """Inside a turn: the answer, or a read to be finished outside all turns."""
        self._count("begun")
        begun = self._begun(plan)
        if isinstance(begun, Read):
            return begun.finished() if self._inside else begun
        if begun is None:
            begun = ask_once(plan, self._engine.channel, self._engine.hosting, self._table)
        self.committed(inside=True)
        return with_watermark(begun, self._come_to(plan))

    @property
    def _inside(self) -> bool:
        """Whether the read that begins now has to end in the same turn."""
        return self.turns.nested or self.level == "serial"

    def _begun(self, plan: Emit) -> pa.Table | Read | None:
        several = has_several_inputs(plan)
        if named_answer(plan) is not None and not several:
            return None
        check_supported(plan, once=True)
        if several:
            return self._of_several(plan)
        block = block_of(plan)
        if isinstance(block.source, Scan) and block.source.kind == "archive":
            return ArchiveRead(self, block, self._engine.archives[block.source.name])
        if not isinstance(block.source, Scan) or block.source.kind == "table":
            return None
        name, channel = block.source.name, self._engine.channel(block.source.name)
        shared = from_tree(block, channel, self._engine.hosting)
        if shared is not None or self._is_short([channel]):
            return shared
        assert block.window is not None
        if asks_archive(block.window, channel, last_report(block.window, channel.watermark)):
            return None  # which is asked inside, or it is refused
        if isinstance(block.window, TimeWindow):
            return StepwiseRead(self, block, channel, lambda: self._find(name), self._inside)
        return None if self._inside else self._of_rows(block, name)

    def _of_rows(self, block: Block, name: str) -> WholeRead:
        def compute(channel_of: Callable[[str], Channel]) -> pa.Table:
            channel = channel_of(name)
            assert block.window is not None
            return relation(block, rows_in(block.window, channel, channel.watermark))

        return WholeRead(self, [name], self._find, compute, lambda channels: channels[0].watermark)

    def _of_several(self, plan: Emit) -> WholeRead | None:
        inputs = windowed_inputs(plan)
        if table_inputs(plan) or any(reads_answer(node) or not isinstance(node.input, Scan) for node in inputs):
            return None
        names = list(dict.fromkeys(node.input.name for node in inputs if isinstance(node.input, Scan)))
        channels = {name: self._engine.channel(name) for name in names}
        until = until_of(plan, list(channels.values()))
        read = [(node.window, channels[node.input.name]) for node in inputs if isinstance(node.input, Scan)]
        if self._inside or self._is_short(list(channels.values())) or any(asks_archive(*part, until) for part in read):
            return None

        def compute(channel_of: Callable[[str], Channel]) -> pa.Table:
            return ask_inputs(plan, Sources(channel_of, _no_answer, self._engine.table, rows_in))

        return WholeRead(self, names, self._find, compute, lambda channels: until_of(plan, channels))

    def _is_short(self, channels: list[Channel]) -> bool:
        return sum(len(rows) for channel in channels for rows in channel.retained_pieces()) <= self.rows_inside

    def _find(self, name: str) -> Channel | None:
        stream = self._engine.streams.get(name.lower())
        return stream if stream is not None else self._engine.hosting.queries.get(name.lower())

    def _table(self, name: str) -> Table:
        archive = self._engine.archives.find(name)
        return self._engine.table(name) if archive is None else ArchiveTable(archive)  # type: ignore[return-value]

    def _come_to(self, plan: Emit) -> int | None:
        """How far what a plan reads had come; None where that has no watermark, or has not begun."""
        reached = []
        for node in plan.walk():
            if isinstance(node, Scan) and node.kind not in WINDOWLESS:
                answers = self._engine.hosting.consumers.get(node.name.lower())
                reached.append(answers.come_to if answers is not None else self._engine.channel(node.name).watermark)
        least = min(reached, default=INT64_MIN)
        return None if least == INT64_MIN else least

    # -- what reads ask for --------------------------------------------------------------------------------------------

    @property
    def latest(self) -> bool:
        """Whether reads answer as of their commit."""
        return self.level.startswith("latest")

    @property
    def recording(self) -> bool:
        return self.recorded is not None

    def scheduler(self, sub_windows: int) -> Scheduler | RecordedScheduler:
        """Of one read."""
        scheduler = SCHEDULERS[LEVELS[self.level]].make(sub_windows)
        if self.recorded is None:
            return scheduler
        self.recorded.append(RecordedScheduler(scheduler))
        return self.recorded[-1]

    def pause(self) -> None:
        """A read is between two steps, outside all turns."""
        if self.between_steps is not None:
            self.between_steps()

    def numbered(self) -> int:
        """Of a read that has begun."""
        return self._counts["begun"]

    def committed(self, inside: bool) -> None:
        self._count("committed")
        if inside:
            self._count("inside_the_turn")

    def aborted(self) -> None:
        self._count("aborted")

    def _count(self, what: str) -> None:
        with self._counts_lock:
            self._counts[what] += 1

    def stats(self) -> dict[str, Any]:
        """How many reads have begun and been committed, how often one was aborted, and how many of those that were
        committed ran, or had to end, inside the turn."""
        return {"isolation": self.level, **self._counts}


def _no_answer(name: str) -> pa.Table:
    raise AssertionError(f"'{name}' is read as a stream")
