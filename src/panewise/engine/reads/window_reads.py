"""Decides where one-time queries run while batches arrive: inside a turn, or outside at a level of `isolation`.

A query that reads, or might make, more than about `rows_inside` rows runs outside: step by step over a window of time
of one stream (`stepwise_read`), otherwise as a whole (`single_step_read`), from what was pinned in the turn that has
bound it (`pinned_sources`). Archives are always read outside. Inside run short queries, queries that the slices of a
registered query answer, a SELECT among several statements of one text, and queries of a caller that is inside already.
Every read has a budget of rows, bytes and seconds (`read_budget`), wherever it runs.
"""

from __future__ import annotations

from functools import partial

import pyarrow as pa

from panewise.arrays import INT64_MIN
from panewise.engine.books.books import Books
from panewise.engine.channels.channel import Channel
from panewise.engine.reads.archive_reads import ArchiveRead
from panewise.engine.reads.one_time_inputs import Sources, expressions_of
from panewise.engine.reads.one_time_query import answer_once, from_slices, last_report, needs_archive, rows_for
from panewise.engine.reads.pinned_sources import PinnedSources
from panewise.engine.reads.published_answers import with_watermark
from panewise.engine.reads.read_isolation import ReadIsolation
from panewise.engine.reads.single_step_read import SingleStepRead
from panewise.engine.reads.stepwise_read import StepwiseRead
from panewise.language.statements import WINDOWLESS
from panewise.operators.read_budget import ReadBudget, ReadLimits, weight_of
from panewise.optimize.node_of_plan import physical_once
from panewise.optimize.refusals import check_once
from panewise.plan.blocks import Block
from panewise.plan.expressions.text_sizes import cells_of
from panewise.plan.inputs import of_block
from panewise.plan.nodes import Emit, Scan
from panewise.plan.once import Once, OnceQuery
from panewise.temporal import TimeWindow

Read = StepwiseRead | SingleStepRead | ArchiveRead


class WindowReads:
    """Runs the one-time queries of one engine."""

    def __init__(self, books: Books, isolation: ReadIsolation, limits: ReadLimits) -> None:
        self._books = books
        self.isolation = isolation
        self._limits = limits

    @property
    def limits(self) -> ReadLimits:
        """The budget of each query."""
        return self._limits

    def limit(self, limits: ReadLimits) -> None:
        """Gives queries that begin from now on another budget."""
        self._limits = limits

    def begin(self, plan: Emit) -> pa.Table | Read:
        """Called inside a turn. Returns the answer, or a read to be finished outside all turns."""
        self.isolation.begun()
        begun = self._begun(plan, ReadBudget(self._limits))
        if isinstance(begun, Read):
            return begun.finish() if self.isolation.ends_inside else begun
        self.isolation.committed(inside=True)
        return with_watermark(begun, self._watermark_of(plan))

    def _begun(self, plan: Emit, budget: ReadBudget) -> pa.Table | Read:
        check_once(plan)
        node = physical_once(plan)
        match node.way:
            case Once.ARCHIVE:
                return self._of_archive(node, budget)
            case Once.SLICES:
                begun = self._of_slices(node)
                begun = self._in_steps(node, budget) if begun is None else begun
            case Once.WINDOW:
                begun = self._in_steps(node, budget)
            case Once.ANSWER | Once.TABLE | Once.COUNTED | Once.INPUTS:
                begun = None
        return self._as_a_whole(node, budget) if begun is None else begun

    def _of_archive(self, node: OnceQuery, budget: ReadBudget) -> ArchiveRead:
        assert node.block is not None
        assert isinstance(node.block.source, Scan)
        return ArchiveRead(self.isolation, node.block, self._books.archives[node.block.source.name], budget)

    def _of_slices(self, node: OnceQuery) -> pa.Table | None:
        """The answer from the slices of a family that hold the last report; None if no family holds it."""
        block, channel = self._over(node)
        return from_slices(block, channel, self._books.hosting.families)

    def _in_steps(self, node: OnceQuery, budget: ReadBudget) -> StepwiseRead | None:
        """A read in steps, over a window of time; None if few rows are held, or if an archive has to be read."""
        block, channel = self._over(node)
        window = block.window
        assert isinstance(window, TimeWindow)
        few = channel.retained_rows <= self.isolation.rows_inside
        if few or needs_archive(window, channel, last_report(window, channel.watermark)):
            return None
        find, inside = partial(self._books.find_channel, channel.name), self.isolation.ends_inside
        return StepwiseRead(self.isolation, block, channel, find, inside, budget)

    def _over(self, node: OnceQuery) -> tuple[Block, Channel]:
        block = node.block
        assert block is not None
        assert isinstance(block.source, Scan)
        return block, self._books.channel(block.source.name)

    def _as_a_whole(self, node: OnceQuery, budget: ReadBudget) -> pa.Table | SingleStepRead:
        """Pins what a query reads. Returns the answer if that is little to read, else a read as a whole."""
        plan = node.plan

        def pin() -> PinnedSources:
            return PinnedSources(plan, self._books, self._watermark_of(plan), budget.take_batch)

        def compute(pinned: PinnedSources) -> pa.Table:
            sources = Sources(pinned.channel_of, pinned.answer_of, pinned.table_of, rows_for(plan))
            return answer_once(node, sources, budget)

        pinned = pin()
        if not self.isolation.ends_inside and pinned.work() * _weight(plan) > self.isolation.rows_inside:
            return SingleStepRead(self.isolation, pinned, pin, compute, budget)
        try:
            return compute(pinned)
        finally:
            pinned.close()

    def _watermark_of(self, plan: Emit) -> int | None:
        """The least watermark of what a plan reads; None if that has no watermark, or no rows yet."""
        reached = []
        for node in plan.walk():
            if isinstance(node, Scan) and node.kind not in WINDOWLESS:
                answers = self._books.hosting.consumers.get(node.name.lower())
                reached.append(answers.watermark if answers is not None else self._books.channel(node.name).watermark)
        least = min(reached, default=INT64_MIN)
        return None if least == INT64_MIN else least


def _weight(plan: Emit) -> int:
    """How many times as much a row costs as in a short SELECT."""
    return weight_of(cells_of(part for node in of_block(plan.input) for part in expressions_of(node)))
