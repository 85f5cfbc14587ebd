"""Starts one query as its physical node says: it makes the query and its consumer, and attaches that to what it reads.

    FamilyQuery   joins the family of its shape
    RowQuery      gets an operator of its own
    DeltaQuery    gets a plan of its own, or joins a core

A query that comes too late for the rows that it needs (`late_queries.py`) is refused, unless archives know those rows.
A query that an earlier panewise accepted is started all the same, and fails with the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from panewise.engine.archives.archive_history import ArchivedHistory, PlanHistory, plan_history
from panewise.engine.channels.channel import Channel
from panewise.engine.channels.hosted_query import HostedQuery
from panewise.engine.consumers.adapting import Change
from panewise.engine.consumers.operator_consumer import OperatorConsumer
from panewise.engine.consumers.plan_consumer import DeltaConsumer, PlanConsumer
from panewise.engine.consumers.query_consumer import QueryConsumer
from panewise.engine.hosting.block_operators import operator_of
from panewise.engine.hosting.history_reader import HistoryReader
from panewise.engine.hosting.late_queries import (
    check_begun,
    check_counts,
    check_numbers,
    check_rows_seen,
    check_source,
    check_versions,
    check_window,
    needs_all,
    whole_from,
)
from panewise.engine.hosting.row_counts import rows_gone
from panewise.engine.hosting.running_cores import RunningCores
from panewise.engine.hosting.running_families import RunningFamilies
from panewise.engine.tables.table import Table
from panewise.errors import PlanError
from panewise.optimize.refusals import check_lengths
from panewise.plan.blocks import Block
from panewise.plan.inputs import table_inputs, windowed_inputs
from panewise.plan.nodes import Emit, Node, WindowOf
from panewise.plan.physical_plan import DeltaQuery, FamilyQuery, PhysicalQuery, RowQuery
from panewise.temporal import RowsWindow

SourceOf = Callable[[str, Node, PhysicalQuery | None], Channel]
NewQuery = Callable[[str, Emit, Block], HostedQuery]
Register = Callable[[HostedQuery, QueryConsumer], None]


@dataclass(frozen=True)
class StartedQuery:
    """What a start has led to.

    `node`: the node that runs, which is not the planner's if the query begins with archived rows and shares with
    nobody. `reads`: the channels that it is attached to. `fails`: why the query is to fail at once.
    """

    query: HostedQuery
    node: PhysicalQuery
    reads: Sequence[Channel]
    fails: str | None


class QueryStarter:
    """Starts the queries of one registry."""

    def __init__(
        self,
        source_of: SourceOf,
        table_of: Callable[[str], Table],
        new_query: NewQuery,
        register: Register,
        families: RunningFamilies,
        cores: RunningCores,
        history: HistoryReader,
        change: Change,
    ) -> None:
        """`source_of`: the channel of an input of a query, by the query's name; it starts queries in parentheses.
        `register` is called before a consumer is attached. `change`: applies a difference to the plan of the host."""
        self._source_of = source_of
        self._table_of = table_of
        self._new_query = new_query
        self._register = register
        self._families = families
        self._cores = cores
        self._history = history
        self._change = change
        self._accepted_before = False

    @property
    def accepted_before(self) -> bool:
        """Whether the queries that are started now were accepted before, perhaps by a version that refused less."""
        return self._accepted_before

    @contextmanager
    def repeating(self, accepted_before: bool) -> Iterator[None]:
        """Sets `accepted_before` until the end of the block."""
        self._accepted_before, outer = accepted_before, self._accepted_before
        try:
            yield
        finally:
            self._accepted_before = outer

    def start(self, name: str, node: PhysicalQuery) -> StartedQuery:
        """Starts a query; PlanError if it comes too late. If this raises, the caller removes what was registered, and
        what has joined a family or a core."""
        match node:
            case FamilyQuery():
                return self._start_member(name, node)
            case RowQuery():
                return self._start_operator(name, node)
            case DeltaQuery():
                return self._start_plan(name, node)

    # -- queries over one input --------------------------------------------------------------------------------------

    def _start_member(self, name: str, node: FamilyQuery) -> StartedQuery:
        """An aggregate over a window with SLIDE."""
        query, channel, history, fails = self._over_one_input(name, node, silent=False)
        held_from = channel.missed_before
        family, runs = self._families.join(query, node, channel, history)
        if not family.begins_as_alone(name) and channel.newest is not None:
            held_from = channel.newest + 1
        if held_from is not None:
            query.count_not_all()
        if not runs.with_past:
            query.begin_whole_from(whole_from(node.block, held_from), held_from is not None and node.shape.counts_rows)
        self._register(query, family)
        return StartedQuery(query, runs, [channel], fails)

    def _start_operator(self, name: str, node: RowQuery) -> StartedQuery:
        """A query whose rows come in order, in an operator of its own."""
        query, channel, history, fails = self._over_one_input(name, node, node.silent)
        block = node.block
        hands_all_on = block.hands_rows_on and not query.is_hidden and channel.counts_all
        if channel.missed_before is not None and not hands_all_on:
            query.count_not_all()
        history = history or self._history.read(block, channel)
        held_from = channel.missed_before if history is None else history.held_from
        if history is None and channel.missed_before is not None:
            by_count = isinstance(block.window, RowsWindow) or channel.is_to_begin
            query.begin_whole_from(whole_from(block, channel.missed_before), by_count)
        consumer = OperatorConsumer(channel, query, node, partial(operator_of, query, node, held_from), history)
        if history is not None and history.begins is not None:
            consumer.operator.begin_at(history.begins - 1)
        elif isinstance(block.window, RowsWindow):
            gone = rows_gone(block.window, channel) if history is None else history.gone
            if gone is not None:
                consumer.operator.begin_after(gone)
        self._register(query, consumer)
        consumer.attach()
        return StartedQuery(query, node, [channel], fails)

    def _over_one_input(
        self, name: str, node: FamilyQuery | RowQuery, silent: bool
    ) -> tuple[HostedQuery, Channel, ArchivedHistory | None, str | None]:
        """A query over one input, what it reads, the archived rows without which it cannot begin, and why it fails."""
        block = node.block
        channel = self._source_of(name, block.source, node.inner)
        history = self._history.read(block, channel) if needs_all(block, channel) else None
        check_source(channel)
        alone = block.rows_stand_alone and not silent
        fails = self._reason_to_fail(partial(_check_block, block, channel, alone, history))
        query = self._new_query(name, node.plan, block)
        query.begin_at(channel.watermark)
        return query, channel, history, fails

    # -- queries over several inputs ---------------------------------------------------------------------------------

    def _start_plan(self, name: str, node: DeltaQuery) -> StartedQuery:
        plan, block = node.plan, node.block
        windows = windowed_inputs(plan)
        channels = []
        for window, inner in zip(windows, node.inner, strict=True):
            channels.append(self._source_of(name, window.input, inner))
            check_source(channels[-1])
        history = plan_history(plan, channels)
        tables = [self._table_of(table.name) for table in table_inputs(plan)]
        fails = self._reason_to_fail(partial(_check_inputs, windows, channels, tables, history))
        query = self._new_query(name, plan, block)
        if any(channel.missed_before is not None for channel in channels):
            query.count_not_all()
        self._history.note(history)
        if history is None:  # Otherwise the query begins where the slowest input is.
            # Inputs of which no row has passed do not count, however far they have come: all their rows are there.
            query.begin_at(max([query.watermark, *(c.watermark for c in channels if c.missed_before is not None)]))
        consumer: DeltaConsumer
        if node.core is None:
            consumer = PlanConsumer(query, node, channels, tables, history, self._change)
        else:
            consumer = self._cores.consumer_of(query, node, channels, history)
        if not query.counts_all and history is None:
            query.begin_whole_from(consumer.plan.begins + block.periodic)  # a report shows the instant before it
        self._register(query, consumer)
        consumer.attach()
        return StartedQuery(query, consumer.node, channels, fails)

    # -- queries that come too late ----------------------------------------------------------------------------------

    def _reason_to_fail(self, check: Callable[[], None]) -> str | None:
        """Runs the checks of a query. What they raise is returned as a reason if the query was accepted before."""
        try:
            check()
        except PlanError as problem:
            if not self._accepted_before:
                raise
            return f"it was accepted when it was created, and is refused now: {problem.message}"
        return None


def _check_block(block: Block, channel: Channel, alone: bool, history: ArchivedHistory | None) -> None:
    check_lengths(block.window)
    check_numbers(block.window, channel)
    check_begun(block.window, channel, alone)
    if history is None:
        check_window(block.window, channel, alone)
        check_counts(block, channel)


def _check_inputs(
    windows: Sequence[WindowOf], channels: Sequence[Channel], tables: Sequence[Table], history: PlanHistory | None
) -> None:
    for window in windows:
        check_lengths(window.window)
    for window, channel in zip(windows, channels, strict=True) if history is None else ():
        check_begun(window.window, channel, alone=False)
        check_window(window.window, channel, alone=False)
        check_rows_seen(window.window, channel)
    for table in tables:
        table.check_known()
        check_versions(table, [window.window for window in windows])
