"""One-time queries while batches arrive: which of them run outside the engine's turns, at its level of `isolation`.

Who has to look at, or might make, more than about `rows_inside` rows runs outside: over one stream and a window of time
step by step (`stepwise_read`), everything else as a whole (`whole_read`), from what was pinned in the turn that has
bound it (`pinned_sources`). Archives are always read outside. What is short is answered inside, and so are the slices
of a registered query, a SELECT among several statements of one text, and one whose caller is inside the engine already.
Every read has a budget of rows, bytes and seconds (`read_budget`), wherever it runs.
"""

from __future__ import annotations

from functools import partial

import pyarrow as pa

from panewise.language.statements import WINDOWLESS
from panewise.operators.read_budget import ReadBudget, ReadLimits, weight_of
from panewise.optimize.physical import physical_once
from panewise.plan.inputs import named_answer, of_block
from panewise.plan.nodes import Emit, Scan
from panewise.plan.physical import Once, OnceQuery
from panewise.plan.supported import check_supported
from panewise.plan.text_sizes import cells_of
from panewise.runtime.answers import with_watermark
from panewise.runtime.archive_reads import ArchiveRead
from panewise.runtime.ask import ask_once, asks_archive, from_tree, last_report, rows_for
from panewise.runtime.ask_inputs import Sources, expressions_of
from panewise.runtime.books import Books
from panewise.runtime.channel import INT64_MIN
from panewise.runtime.isolation import Isolation
from panewise.runtime.pinned_sources import PinnedSources
from panewise.runtime.stepwise_read import StepwiseRead
from panewise.runtime.whole_read import WholeRead
from panewise.temporal import TimeWindow

Read = StepwiseRead | WholeRead | ArchiveRead


class WindowReads:
    """The one-time queries of one engine. `limits`: the budget of each."""

    def __init__(self, books: Books, isolation: Isolation, limits: ReadLimits) -> None:
        self._books = books
        self.isolation = isolation
        self.limits = limits

    def begin(self, plan: Emit) -> pa.Table | Read:
        """Inside a turn: the answer, or a read to be finished outside all turns."""
        self.isolation.begun()
        begun = self._begun(plan, ReadBudget(self.limits))
        if isinstance(begun, Read):
            return begun.finished() if self.isolation.ends_inside else begun
        self.isolation.committed(inside=True)
        return with_watermark(begun, self._come_to(plan))

    def _begun(self, plan: Emit, budget: ReadBudget) -> pa.Table | Read:
        if named_answer(plan) is None:
            check_supported(plan, once=True)
        node = physical_once(plan)
        if node.way is Once.ARCHIVE:
            return self._of_archive(node, budget)
        begun = self._of_window(node, budget) if node.way is Once.WINDOW else None
        return self._of_whole(plan, budget) if begun is None else begun

    def _of_archive(self, node: OnceQuery, budget: ReadBudget) -> ArchiveRead:
        assert node.block is not None
        assert isinstance(node.block.source, Scan)
        return ArchiveRead(self.isolation, node.block, self._books.archives[node.block.source.name], budget)

    def _of_window(self, node: OnceQuery, budget: ReadBudget) -> pa.Table | Read | None:
        """From the slices of a registered query, or in steps over many rows of a window of time; else None."""
        block = node.block
        assert block is not None
        assert isinstance(block.source, Scan)
        assert block.window is not None
        name = block.source.name
        channel = self._books.channel(name)
        shared = from_tree(block, channel, self._books.hosting.families)
        if shared is not None or channel.retained_rows <= self.isolation.rows_inside:
            return shared
        if asks_archive(block.window, channel, last_report(block.window, channel.watermark)):
            return None
        if not isinstance(block.window, TimeWindow):
            return None
        find, inside = partial(self._books.find_channel, name), self.isolation.ends_inside
        return StepwiseRead(self.isolation, block, channel, find, inside, budget)

    def _of_whole(self, plan: Emit, budget: ReadBudget) -> pa.Table | WholeRead:
        """Everything else: what it reads is pinned now, and computed now where that is little."""

        def pin() -> PinnedSources:
            return PinnedSources(plan, self._books, self._come_to(plan), budget.take_batch)

        def compute(pinned: PinnedSources) -> pa.Table:
            sources = Sources(pinned.channel_of, pinned.answer_of, pinned.table_of, rows_for(plan))
            return ask_once(plan, sources, budget)

        pinned = pin()
        if not self.isolation.ends_inside and pinned.work() * _weight(plan) > self.isolation.rows_inside:
            return WholeRead(self.isolation, pinned, pin, compute, budget)
        try:
            return compute(pinned)
        finally:
            pinned.close()

    def _come_to(self, plan: Emit) -> int | None:
        """How far what a plan reads had come; None where that has no watermark, or has not begun."""
        reached = []
        for node in plan.walk():
            if isinstance(node, Scan) and node.kind not in WINDOWLESS:
                answers = self._books.hosting.consumers.get(node.name.lower())
                reached.append(answers.come_to if answers is not None else self._books.channel(node.name).watermark)
        least = min(reached, default=INT64_MIN)
        return None if least == INT64_MIN else least


def _weight(plan: Emit) -> int:
    """How much more a row costs than in a short SELECT."""
    return weight_of(cells_of(part for node in of_block(plan.input) for part in expressions_of(node)))
