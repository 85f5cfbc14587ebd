"""What a one-time query reads, pinned in one turn, so that the answer is computed outside all turns.

    stream, or results of a query      the retained pieces, which never change (`Channel.pinned`)
    its past, if it has an archive     a version of the archive's files, and the rows that are not in files yet
    answer of another query            the answer
    table                              a copy of its rows
    archive                            a version of its files, which are read when they are needed

Cost inside the turn: the answers, the rows of tables and O(pieces).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from panewise.catalog import TableDefinition
from panewise.engine.archives.archive_keeper import Keeper
from panewise.engine.archives.archived_past import ArchivedPast
from panewise.engine.books.books import Books
from panewise.engine.channels.channel import Channel
from panewise.engine.reads.archive_reads import ArchiveTable
from panewise.engine.reads.one_time_inputs import until_of
from panewise.engine.reads.one_time_query import needs_archive
from panewise.engine.reads.read_isolation import SourceGone
from panewise.engine.tables.table import Table
from panewise.errors import ArchiveError
from panewise.operators.row_batch import Rows
from panewise.plan.inputs import of_block, reads_answer, table_inputs, windowed_inputs
from panewise.plan.nodes import Emit, Join, Scan

if TYPE_CHECKING:
    from panewise.archive.snapshot import Snapshot

MANY_ROWS = 1 << 60  # The number of rows in files is not known before they are read.


class PinnedPast:
    """What an archive knows of the past of its channel, in one version of its files."""

    def __init__(self, keeper: Keeper, channel: Channel, each: Callable[[Any], None]) -> None:
        """`channel`: the pinned channel. `each` is called with every batch that is read from files."""
        self.held_from = keeper.held_from
        self._known: ArchivedPast | None = None
        self._snapshot: Snapshot | None = None
        if keeper.archive is None:
            return
        try:
            self._snapshot = snapshot = keeper.archive.snapshot()
        except ArchiveError:
            return  # nothing is known
        held = keeper.held(snapshot.manifest.now_us)
        self._known = keeper.past(channel, lambda: nullcontext(snapshot), lambda written_to: held, each)

    def rows_between(self, start: int, end: int) -> Rows | None:
        return None if self._known is None else self._known.rows_between(start, end)

    def close(self) -> None:
        if self._snapshot is not None:
            self._snapshot.close()


@dataclass(frozen=True)
class PinnedTable:
    """The rows of a table. `changes`: the stream that changes it, also pinned."""

    name: str
    definition: TableDefinition
    changes: Channel | None
    last_change: int | None
    rows: pa.RecordBatch

    def batch(self) -> pa.RecordBatch:
        return self.rows


class PinnedSources:
    """The sources of one plan. Made inside a turn; `close` releases the files of archives."""

    def __init__(self, plan: Emit, books: Books, watermark: int | None, each: Callable[[Any], None]) -> None:
        """`watermark`: the watermark of what is read."""
        self.watermark = watermark
        self._plan = plan
        self._books = books
        self._channels: dict[str, Channel] = {}  # the channels of the books, by lower-case name
        self._tables: dict[str, Table] = {}
        self._versions: dict[str, object] = {}  # of tables and answers, by name
        self._pinned: dict[str, Channel] = {}
        self._pinned_tables: dict[str, PinnedTable | ArchiveTable] = {}
        self._answers: dict[str, pa.Table] = {}
        self._closing: list[Callable[[], None]] = []
        try:
            self._pin_tables(each)
            self._pin_windows(each)
        except BaseException:
            self.close()
            raise

    def _pin_tables(self, each: Callable[[Any], None]) -> None:
        for name in {node.name.lower() for node in table_inputs(self._plan)}:
            keeper = self._books.archives.find(name)
            if keeper is not None:
                archive = ArchiveTable(keeper, each)
                self._closing.append(archive.close)
                self._pinned_tables[name] = archive
                continue
            table = self._books.table(name)
            changes = None if table.changes is None else table.changes.pinned()
            pinned = PinnedTable(table.name, table.definition, changes, table.last_change, table.batch())
            self._tables[name], self._versions[name], self._pinned_tables[name] = table, table.moment, pinned

    def _pin_windows(self, each: Callable[[Any], None]) -> None:
        windows = [node for node in windowed_inputs(self._plan) if isinstance(node.input, Scan)]
        for node in windows:
            assert isinstance(node.input, Scan)
            name = node.input.name.lower()
            if reads_answer(node):
                self._answers[name] = self._books.hosting.answer_of(name)
                self._versions[name] = self._answer_version(name)
            else:
                self._channels[name] = self._books.channel(name)
                self._pinned[name] = self._channels[name].pinned()
        until = until_of(self._plan, self._clocks())
        for node in windows:
            assert isinstance(node.input, Scan)
            channel = self._channels.get(node.input.name.lower())
            if channel is not None and needs_archive(node.window, channel, until):
                self._pin_past(node.input.name.lower(), channel, each)

    def _pin_past(self, name: str, channel: Channel, each: Callable[[Any], None]) -> None:
        pinned = self._pinned[name]
        if not pinned.past:
            for keeper in self._books.archives.knowing_past_of(channel):
                past = PinnedPast(keeper, pinned, each)
                self._closing.append(past.close)
                pinned.past.append(past)

    # -- reading -------------------------------------------------------------------------------------------------------

    def channel_of(self, name: str) -> Channel:
        return self._pinned[name.lower()]

    def answer_of(self, name: str) -> pa.Table:
        return self._answers[name.lower()]

    def table_of(self, name: str) -> PinnedTable | ArchiveTable:
        return self._pinned_tables[name.lower()]

    def work(self) -> int:
        """About how many rows are read or made at most; joins may make all combinations."""
        if self._closing:
            return MANY_ROWS
        names = [node.input.name.lower() for node in windowed_inputs(self._plan) if isinstance(node.input, Scan)]
        rows = [self._answers[n].num_rows if n in self._answers else self._pinned[n].retained_rows for n in names]
        rows += [self._pinned_tables[node.name.lower()].batch().num_rows for node in table_inputs(self._plan)]
        joins = any(isinstance(node, Join) for node in of_block(self._plan.input))
        return prod(max(1, count) for count in rows) if joins else sum(rows)

    # -- the end of a read ---------------------------------------------------------------------------------------------

    def moved(self) -> bool:
        """Inside a turn: whether the plan would read something else now; SourceGone if a source was dropped."""
        books = self._books
        for name, channel in self._channels.items():
            if books.find_channel(name) is not channel:
                raise SourceGone
        for name, table in self._tables.items():
            if books.tables.get(name) is not table:
                raise SourceGone
        for name in self._answers:
            if name not in books.hosting.queries:
                raise SourceGone
        versions = {name: self._version(name) for name in self._versions}
        return versions != self._versions or until_of(self._plan, self._clocks()) != until_of(
            self._plan, self._pinned_clocks()
        )

    def close(self) -> None:
        closing, self._closing = self._closing, []
        for close in closing:
            close()

    def _clocks(self) -> list[Channel]:
        """The channels whose watermarks determine the instant of the answer."""
        changes = (table.changes for table in self._tables.values())
        return [*self._channels.values(), *(channel for channel in changes if channel is not None)]

    def _pinned_clocks(self) -> list[Channel]:
        changes = (table.changes for table in self._pinned_tables.values())
        return [*self._pinned.values(), *(channel for channel in changes if channel is not None)]

    def _version(self, name: str) -> object:
        return self._tables[name].moment if name in self._tables else self._answer_version(name)

    def _answer_version(self, name: str) -> object:
        hosting = self._books.hosting
        return id(hosting.queries[name]), hosting.consumers[name].watermark
