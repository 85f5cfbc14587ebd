"""One-time queries while batches arrive: which of them run outside the engine's turns, and at which level of isolation.

    isolation           scheduler of each read                            a SELECT answers as of   pushes wait for
    latest (default)    LatestWindowScheduler, youngest first (TTU)       its commit               a few milliseconds
    latest-in-order     LatestWindowScheduler, by sub-window (LWS)        its commit               a few milliseconds
    window              WindowScheduler (WS)                              its begin                nothing
    serial              SerialScheduler                                   both: one turn           the whole query

Who has to look at, or might make, more than about `rows_inside` rows runs outside: over one stream and a window of time
step by step (`stepwise_read`), everything else as a whole (`whole_read`), from what was pinned in the turn that has
bound it (`pinned_sources`). Archives are always read outside. What is short is answered inside, and so are the slices
of a registered query, a SELECT among several statements of one text, and one whose caller is inside the engine already.
Every read has a budget of rows, bytes and seconds (`read_budget`), wherever it runs.
See Golab 2006, sections 7.4 and 7.5.1.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from panewise.errors import PlanError, did_you_mean
from panewise.language.statements import WINDOWLESS
from panewise.operators.read_budget import ReadBudget, ReadLimits, weight_of
from panewise.plan.blocks import Block, block_of
from panewise.plan.inputs import has_several_inputs, is_answer, of_block
from panewise.plan.nodes import Emit, Scan
from panewise.plan.supported import check_supported
from panewise.plan.text_sizes import cells_of
from panewise.runtime.answers import with_watermark
from panewise.runtime.archive_reads import ArchiveRead
from panewise.runtime.ask import ask_once, asks_archive, from_tree, last_report, named_answer, rows_for
from panewise.runtime.ask_inputs import Sources, expressions_of
from panewise.runtime.channel import INT64_MIN, Channel
from panewise.runtime.pinned_sources import PinnedSources
from panewise.runtime.stepwise_read import StepwiseRead
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

    `limits`: the budget of each. `sub_window_rows`: about how many rows are scanned in a step. `rows_inside`: how many
    may be scanned inside a turn. Both are those of a short SELECT, and fewer where a row takes longer. `inside_s`: how
    long a read may take there that others have overtaken again and again. `tries`: how often a read asks for its commit
    before it scans all that is left inside the turn. `look_every_s`: how often it asks for moves between steps.
    """

    def __init__(self, engine: Engine, turns: Turns, level: str, limits: ReadLimits) -> None:
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
        self.limits = limits
        self.sub_window_rows = 65_536
        self.rows_inside = 65_536
        self.inside_s = 0.05
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
        begun = self._begun(plan, ReadBudget(self.limits))
        if isinstance(begun, Read):
            return begun.finished() if self._inside else begun
        self.committed(inside=True)
        return with_watermark(begun, self._come_to(plan))

    @property
    def _inside(self) -> bool:
        """Whether the read that begins now has to end in the same turn."""
        return self.turns.nested or self.level == "serial"

    def _begun(self, plan: Emit, budget: ReadBudget) -> pa.Table | Read:
        several = has_several_inputs(plan)
        if several or named_answer(plan) is None:
            check_supported(plan, once=True)
        if not several:
            begun = self._of_block(block_of(plan), budget)
            if begun is not None:
                return begun
        return self._of_whole(plan, budget)

    def _of_block(self, block: Block, budget: ReadBudget) -> pa.Table | Read | None:
        """What has a way of its own: an archive, the slices of a registered query, many rows of a window of time."""
        if not isinstance(block.source, Scan):
            return None
        if block.source.kind == "archive":
            return ArchiveRead(self, block, self._engine.archives[block.source.name], budget)
        if block.source.kind == "table" or block.window is None:
            return None
        name = block.source.name
        if block.source.kind == "query" and is_answer(block.window):
            return None
        channel = self._engine.channel(name)
        shared = from_tree(block, channel, self._engine.hosting)
        if shared is not None or channel.retained_rows <= self.rows_inside:
            return shared
        if asks_archive(block.window, channel, last_report(block.window, channel.watermark)):
            return None
        if not isinstance(block.window, TimeWindow):
            return None
        return StepwiseRead(self, block, channel, lambda: self._find(name), self._inside, budget)

    def _of_whole(self, plan: Emit, budget: ReadBudget) -> pa.Table | WholeRead:
        """Everything else: what it reads is pinned now, and computed now where that is little."""

        def pin() -> PinnedSources:
            return PinnedSources(plan, self._engine, self._come_to(plan), budget.take_batch)

        def compute(pinned: PinnedSources) -> pa.Table:
            sources = Sources(pinned.channel_of, pinned.answer_of, pinned.table_of, rows_for(plan))
            return ask_once(plan, sources, budget)

        pinned = pin()
        if not self._inside and pinned.work() * _weight(plan) > self.rows_inside:
            return WholeRead(self, pinned, pin, compute, budget)
        try:
            return compute(pinned)
        finally:
            pinned.close()

    def _find(self, name: str) -> Channel | None:
        stream = self._engine.streams.get(name.lower())
        return stream if stream is not None else self._engine.hosting.queries.get(name.lower())

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


def _weight(plan: Emit) -> int:
    """How much more a row costs than in a short SELECT."""
    return weight_of(cells_of(part for node in of_block(plan.input) for part in expressions_of(node)))
