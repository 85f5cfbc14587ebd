"""Hosting: queries are started and stopped as their physical nodes say, and attached to what they read.

What runs a query is decided before (`optimize/planner.py`). A `FamilyQuery` joins the family of its shape on its
channel, a `RowQuery` gets an operator of its own (`block_operators.py`), a `DeltaQuery` reads the channels of all its
inputs. A query inside another one's FROM is hosted first, under a name that nobody else can use.

All that runs is one `PhysicalPlan`, and `change` is the one way from one to the next: queries go and come, families are
woven anew, joins reordered. Only the host knows what rows of before a query's time there are: where a query begins with
them and could not share then, the planner's node of it is another one (`alone_with_past`), and that is what runs.
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import pyarrow as pa

from panewise.arrays import INT64_MIN
from panewise.engine.archives.archive_history import ArchivedHistory, PlanHistory, history_of, plan_history
from panewise.engine.channels.channel import Channel
from panewise.engine.channels.hosted_query import HostedQuery, overflow_remark
from panewise.engine.channels.unread_total import UnreadTotal
from panewise.engine.channels.window_ends import cadence_of, last_window
from panewise.engine.consumers.adapting import Change
from panewise.engine.consumers.family_consumer import FamilyConsumer
from panewise.engine.consumers.family_folding import FoldedFamilies
from panewise.engine.consumers.operator_consumer import OperatorConsumer
from panewise.engine.consumers.plan_consumer import DeltaConsumer, PlanConsumer
from panewise.engine.consumers.query_consumer import QueryConsumer
from panewise.engine.consumers.report_diff import CountedFinish, TimedFinish
from panewise.engine.consumers.shared_plan import SharedPlan, SharingConsumer
from panewise.engine.hosting.block_operators import items_of, operator_of
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
from panewise.engine.ingest.shortest_slides import ShortestSlides
from panewise.engine.tables.table import Table
from panewise.errors import NotHeldError, PlanError, SnapshotError, raise_interrupt_behind
from panewise.language.statements import Emission as Emission
from panewise.operators.deltas.series_start import surely_shown
from panewise.operators.joins.ordered_join import OrderedJoin
from panewise.operators.relation_to_stream import RelationToStream
from panewise.optimize.node_of_plan import Sharing, alone_with_past
from panewise.optimize.refusals import check_lengths
from panewise.plan.aggregation import Aggregation, aggregation_of
from panewise.plan.blocks import Block
from panewise.plan.inputs import table_inputs, windowed_inputs
from panewise.plan.nodes import Node, Scan
from panewise.plan.physical_plan import (
    HIDDEN,
    CoreKey,
    DeltaQuery,
    Difference,
    FamilyKey,
    FamilyQuery,
    JoinKey,
    Orders,
    PhysicalPlan,
    PhysicalQuery,
    Planned,
    RowQuery,
    core_key,
    family_key,
    inner_name,
    shown_name,
    with_inner,
)
from panewise.temporal import RowsWindow, TimeWindow, Window

Refused = Callable[[str, PhysicalQuery, PlanError], None]
REMARKS_MAX = 1000  # that wait for somebody to hear them; the oldest go first
STOPPED = "it was dropped while the folder was open with suspended=True"


class QueryRegistry:
    """Queries by name, with the consumers that feed them."""

    def __init__(
        self,
        channel_of: Callable[[str], Channel],
        sharing: str = "weave",
        table_of: Callable[[str], Table] | None = None,
        unread: UnreadTotal | None = None,
    ) -> None:
        """`table_of` None: queries read no tables. `unread`: the limit of results that nobody has read."""
        self._channel_of = channel_of
        self._table_of = table_of
        self._unread = unread
        self.sharing = sharing  # one of `physical.SHARING`
        self.queries: dict[str, HostedQuery] = {}
        self.remarks: deque[Warning] = deque(maxlen=REMARKS_MAX)  # on queries and streams, for who calls the engine
        self.consumers: dict[str, QueryConsumer] = {}  # by query
        # How consumers go to another plan. Weakly: the thread of a queue has its stream, and must not keep the engine.
        self._adapt: Change = partial(_adapted, weakref.ref(self))
        self.plan = PhysicalPlan()  # what runs here, those that were refused or have failed included
        self._nodes: dict[str, PhysicalQuery] = {}  # by query, as they run, those inside others included
        self._families: dict[FamilyKey, FamilyConsumer] = {}
        self._cores: dict[CoreKey, SharedPlan] = {}
        self._hidden: dict[str, list[str]] = {}  # queries inside a query
        self._slides = ShortestSlides()
        self.took_history = False  # whether an archive has had a say in the state of a query
        self.stopped: set[str] = set()  # queries that are hosted and do not run, because they are about to be dropped
        # Statements happen again that were taken once, perhaps by a panewise that refused less.
        self.taken_before = False
        self._too_late: dict[str, str] = {}  # why a query that was taken before fails as soon as it is hosted

    def overflows(self, name: str) -> int:
        """How many answers of SUM of a query, and of the queries inside it, were outside their type."""
        query = self.queries.get(name)  # who shows this takes no turn: it may just have gone
        return 0 if query is None else query.overflows + sum(map(self.overflows, list(self._hidden.get(name, ()))))

    def shown_reason(self, name: str) -> str:
        """Why a query has failed, or what is to be said of its answers; nothing of one that has gone."""
        query = self.queries.get(name)
        return "" if query is None else query.reason or overflow_remark(self.overflows(name))

    def family_of(self, name: str) -> FamilyConsumer | None:
        """The one that a periodic aggregate is in, or was in when it failed; None where it was refused."""
        consumer = self.consumers.get(name)
        return next((family for family in self._families.values() if family is consumer), None)

    def node_of(self, name: str) -> PhysicalQuery:
        """The node of a query as it runs, of one in parentheses too."""
        return self._nodes[name]

    @property
    def families(self) -> list[FamilyConsumer]:
        return [family for family in self._families.values() if not family.torn]

    def change(self, difference: Difference, refused: Refused | None = None) -> None:
        """Goes to another plan, between two batches. A query that comes too late is a PlanError, or `refused`.

        Without `refused` at most one query comes, so that a PlanError leaves the plan as it was.
        """
        assert refused is not None or len(difference.going) + len(difference.coming) <= 1
        for key, woven in difference.woven.items():
            self._families[key].family.become(woven)
        for join, orders in difference.ordered.items():
            self._joins_of(join.of)[join.join, join.layer].reorder(orders)
        if difference.ordered:
            self.plan = self.plan.changed(Difference(ordered=difference.ordered))
        for name in difference.going:
            self._drop(name)
        if difference.going:
            self.plan = self.plan.changed(Difference(difference.going))
        came: dict[str, Planned] = {}
        for name, planned in difference.coming.items():
            node = planned.node
            try:
                self._host(name, node)
                node = self._nodes[name]
            except PlanError as problem:
                if refused is None:
                    raise
                refused(name, node, problem)
            came[name] = Planned(node, planned.created)
        if came:
            self.plan = self.plan.changed(Difference(coming=came))

    def _joins_of(self, of: str | CoreKey) -> Mapping[tuple[int, int], OrderedJoin]:
        """The joins of a query or a core whose orders may change, by number and layer."""
        return self.consumers[of].joins if isinstance(of, str) else self._cores[of].core.adapting

    def _note_orders(self) -> None:
        """Joins that have got their state go on in the orders of that."""
        owners: list[str | CoreKey] = [*self._cores]
        owners += [name for name, consumer in self.consumers.items() if not consumer.torn]
        found: dict[JoinKey, Orders] = {}
        for of in owners:
            for (number, layer), join in self._joins_of(of).items():
                found[JoinKey(of, number, layer)] = join.orders
        begun = {key: orders for key, orders in found.items() if orders != self._first_orders(key)}
        if begun:
            self.plan = self.plan.changed(Difference(ordered=begun))

    def _first_orders(self, key: JoinKey) -> Orders:
        name = key.of if isinstance(key.of, str) else next(iter(self._cores[key.of].members), "")
        node = self._nodes.get(name)
        joins = node.joins if isinstance(node, DeltaQuery) else ()
        return next((one.orders for one in joins if (one.join, one.layer) == (key.join, key.layer)), ())

    def _host(self, name: str, node: PhysicalQuery) -> HostedQuery:
        """Starts a query; PlanError where it comes too late.

        Whatever is raised on the way, nothing has been started then: neither it nor a query inside it. An interrupt
        leaves it in the middle: the engine is broken then, and to take back what is half done may raise again.
        """
        try:
            match node:
                case FamilyQuery():
                    query = self._host_member(name, node)
                case RowQuery():
                    query = self._host_operator(name, node)
                case DeltaQuery():
                    query = self._host_plan(name, node)
            inner = [self._nodes[hidden] for hidden in self._hidden.get(name, ())]
            self._nodes[name] = with_inner(self._nodes.get(name, node), inner)
            self._note_slide(query)
            return query
        except Exception as problem:
            raise_interrupt_behind(problem)
            self._take_back(name)
            raise

    def _host_member(self, name: str, node: FamilyQuery) -> HostedQuery:
        """Starts an aggregate over a window that slides: in the family of its shape, or in one of its own."""
        query, channel, history = self._over_one_input(name, node, silent=False)
        block = node.block
        held_from = channel.held_from
        if held_from is not None:
            query.count_not_all()
        self.consumers[name] = self._join_family(query, node, channel, history)
        if not self._begins_with_past(name, node):
            query.begin_whole_from(whole_from(block, held_from), held_from is not None and node.shape.counts_rows)
        self.queries[name] = query
        return self._begun(query, [channel])

    def _begins_with_past(self, name: str, node: FamilyQuery | DeltaQuery) -> bool:
        """Whether it runs for itself, as rows of before its time are among those that it begins with."""
        return _has_past(self._nodes.get(name, node))

    def _host_operator(self, name: str, node: RowQuery) -> HostedQuery:
        """Starts a query whose rows come in order, in an operator of its own."""
        query, channel, history = self._over_one_input(name, node, node.silent)
        block = node.block
        hands_all_on = block.hands_rows_on and not query.is_hidden and channel.counts_all
        if channel.missed_before is not None and not hands_all_on:
            query.count_not_all()
        history = history or self._read_history(block, channel)
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
        self.consumers[name] = consumer
        consumer.attach()
        self.queries[name] = query
        return self._begun(query, [channel])

    def _over_one_input(
        self, name: str, node: FamilyQuery | RowQuery, silent: bool
    ) -> tuple[HostedQuery, Channel, ArchivedHistory | None]:
        """A query over one input, what it reads, and the archived rows without which it could not begin."""
        block = node.block
        channel = self._source(name, block.source, node.inner)
        history = self._read_history(block, channel) if needs_all(block, channel) else None
        check_source(channel)
        with self._failing_if_taken_before(name):
            alone = block.rows_stand_alone and not silent
            check_lengths(block.window)
            check_numbers(block.window, channel)
            check_begun(block.window, channel, alone)
            if history is None:
                check_window(block.window, channel, alone)
                check_counts(block, channel)
        query = HostedQuery(name, node.plan, block, self._unread)
        query.remark_to(self.remarks)
        query.begin_at(channel.watermark)
        return query, channel, history

    def _begun(self, query: HostedQuery, channels: list[Channel]) -> HostedQuery:
        """A query over one that has failed fails at once: a log may say so, though a statement is refused before."""
        for channel in channels:
            if channel.failure is not None:
                self.consumers[query.name].fail(channel.failure)
        too_late = self._too_late.pop(query.name, None)
        if too_late is not None:
            self._stop(query.name, too_late)
        if query.name in self.stopped:
            self._stop(query.name, STOPPED)
        return query

    @contextmanager
    def _failing_if_taken_before(self, name: str) -> Iterator[None]:
        """What comes too late is refused, but for what was taken before: that is hosted, fails, and says why."""
        try:
            yield
        except PlanError as problem:
            if not self.taken_before:
                raise
            self._too_late[name] = f"this panewise refuses it: {problem.message}"

    def _stop(self, name: str, reason: str) -> None:
        """A query does nothing from now on, and neither do those inside it."""
        for stopped in (*self._hidden.get(name, []), name):
            self._leave(stopped, reason)
            self.queries[stopped].fail(reason)

    def _host_plan(self, name: str, node: DeltaQuery) -> HostedQuery:
        """Starts a query over several inputs."""
        plan, block = node.plan, node.block
        windows = windowed_inputs(plan)
        channels = []
        for window, inner in zip(windows, node.inner, strict=True):
            channels.append(self._source(name, window.input, inner))
            check_source(channels[-1])
        history = plan_history(plan, channels)
        tables = [self._table(table.name) for table in table_inputs(plan)]
        with self._failing_if_taken_before(name):
            for window in windows:
                check_lengths(window.window)
            for window, channel in zip(windows, channels, strict=True) if history is None else ():
                check_begun(window.window, channel, alone=False)
                check_window(window.window, channel, alone=False)
                check_rows_seen(window.window, channel)
            for table in tables:
                table.check_known()
                check_versions(table, [window.window for window in windows])
        query = HostedQuery(name, plan, block, self._unread)
        query.remark_to(self.remarks)
        if any(channel.missed_before is not None for channel in channels):
            query.count_not_all()
        self.took_history = self.took_history or history is not None
        if history is None:  # else it goes on where the slowest input is
            # Where no row has gone by it begins with all of them, however far the fastest input has come.
            query.begin_at(max([query.watermark, *(c.watermark for c in channels if c.missed_before is not None)]))
        consumer: DeltaConsumer
        if node.core is None:
            consumer = PlanConsumer(query, node, channels, tables, history, self._adapt)
        else:
            consumer = self._sharing(query, node, channels, history)
        if not query.counts_all and history is None:
            query.begin_whole_from(consumer.plan.begins + block.periodic)  # a report shows the instant before it
        self.queries[name], self.consumers[name] = query, consumer
        consumer.attach()
        return self._begun(query, channels)

    def _take_back(self, name: str) -> None:
        """A query that could not be started leaves nothing behind, wherever its start has ended."""
        consumer = self.consumers.pop(name, None)
        self.queries.pop(name, None)
        self._nodes.pop(name, None)
        self._too_late.pop(name, None)
        for family in list(self._families.values()):
            family.leave(name)
        for shared in [shared for shared in self._cores.values() if name in shared.members]:
            shared.remove(shared.members[name])
        if consumer is not None:
            consumer.leave(name)
        self._leave_unused()
        for inner in self._hidden.pop(name, []):
            self._drop(inner)

    def _leave_unused(self) -> None:
        """Trees and cores without queries go."""
        # A query that has failed still has its place in its family, which is not begun anew while it is there.
        feeding = {id(consumer) for consumer in self.consumers.values()}
        for family in [f for f in self._families.values() if not f.queries and id(f) not in feeding]:
            family.detach()
            self._families = {key: other for key, other in self._families.items() if other is not family}
        self._cores = {key: shared for key, shared in self._cores.items() if shared.members}

    def _sharing(
        self, query: HostedQuery, node: DeltaQuery, channels: list[Channel], history: PlanHistory | None
    ) -> SharingConsumer:
        """A query over a core that others may have too."""
        key = core_key(query.name, node)
        if key in self._cores and history is not None:
            node = self._alone(query.name, node)  # rows of the past cannot be put below those of others
            key = core_key(query.name, node)
        assert key is not None
        if key not in self._cores or self._cores[key].torn:
            self._cores[key] = SharedPlan(key, node, channels, self._adapt)
        return SharingConsumer(query, node, channels, self._cores[key], history)

    def _alone(self, name: str, node: Sharing) -> Sharing:
        """The node of a query that shares with nobody, because it begins with the past: that is what runs."""
        alone = alone_with_past(node, name)
        self._nodes[name] = alone
        return alone

    def _table(self, name: str) -> Table:
        assert self._table_of is not None, "a host without tables refuses them before"
        return self._table_of(name)

    def _source(self, name: str, source: Node, inner: PhysicalQuery | None) -> Channel:
        """What a query reads: a stream or a query that has a name, or a query inside it, which is started."""
        if inner is None:
            assert isinstance(source, Scan)
            return self._channel_of(source.name)
        hidden = inner_name(name, len(self._hidden.get(name, [])) + 1)
        hosted = self._host(hidden, inner)
        hosted.stand_apart()  # its results are wanted as they come, and are counted
        self._hidden.setdefault(name, []).append(hidden)
        return hosted

    def _join_family(
        self, query: HostedQuery, node: FamilyQuery, channel: Channel, history: ArchivedHistory | None
    ) -> FamilyConsumer:
        block, key = node.block, family_key(query.name, node)
        assert block.window is not None
        aggregation = aggregation_of(block)
        consumer = self._families.get(key)
        if consumer is not None and consumer.torn:
            consumer = None
        if history is None and (consumer is None or not _answers_at_once(consumer, aggregation, block.window)):
            history = self._read_history(block, channel)
        if history is not None and (consumer is not None or history.begins is not None):
            # What others hold begins too late for it, and slices of the past cannot be put below theirs; nor can others
            # use its own, where they hold all the past as if it were of one instant.
            key, consumer = family_key(query.name, self._alone(query.name, node)), None
        fresh, shape = consumer is None, key.shape
        if consumer is None:
            held_from = channel.held_from if history is None else history.held_from
            consumer = self._families[key] = FamilyConsumer(channel, key, held_from, self._adapt)
            if channel.together is None and shape.adapting.fold_together:
                channel.together = FoldedFamilies()
        if fresh and shape.counts_rows:
            # A family of row windows begins at the row that the reorder buffer releases next, or with rows before it.
            first = channel.released_now() if history is None else history.first
            consumer.begin_at(first)
            consumer.family.hold_from(first or None)
        finish, since = self._finish(block, consumer), channel.held_from
        consumer.add(query, aggregation, cadence_of(block.window), finish)
        if fresh and history is not None and history.begins is not None:
            assert isinstance(block.window, TimeWindow)
            consumer.begin_with(history.rows, history.begins - block.window.offset_us)
            consumer.attach()
        elif fresh:
            consumer.attach(None if history is None else history.rows)
        if since is not None and history is None and not aggregation.keys and _has_shown_a_row(block.window, channel):
            consumer.goes_on(query.name, since)
        return consumer

    def _read_history(self, block: Block, channel: Channel) -> ArchivedHistory | None:
        """Archived rows with which a new query can begin at once; None where there are none, or not all of them."""
        history = history_of(block, channel)
        self.took_history = self.took_history or history is not None
        return history

    @staticmethod
    def _finish(block: Block, consumer: FamilyConsumer) -> TimedFinish | CountedFinish | None:
        if block.emission is Emission.RSTREAM:
            return None
        relation = RelationToStream(block.emission, items_of(block))
        window = block.window
        if isinstance(window, TimeWindow):
            return TimedFinish(relation, window)
        assert isinstance(window, RowsWindow) and window.slide is not None
        return CountedFinish(relation, window.rows, window.slide, window.offset, consumer.rows_taken)

    def _drop(self, name: str) -> None:
        """Stops a query; what only it needed goes."""
        self._slides.forget(name)
        del self.queries[name]
        self._nodes.pop(name, None)
        consumer = self.consumers.pop(name, None)
        if consumer is not None:  # else it was refused, and is there to say so
            consumer.leave(name)
            self._leave_unused()
        for inner in self._hidden.pop(name, []):
            self._drop(inner)

    def answer_of(self, name: str) -> pa.Table:
        """What a query answers now; NotHeldError where it has failed."""
        query = self.queries[name.lower()]
        if query.status == "FAILED":
            raise NotHeldError(f"query '{name}' has failed: {query.reason}", hint="drop it and create it anew")
        return self.consumers[query.name].lookup(query.name, None)

    def last_end(self, channel: Channel, newest: int) -> int:
        """When the last window that holds a row of this time, or a result of such a window, has closed."""
        last = max(newest + 1, channel.watermark)
        for consumer in {id(found): found for found in self.consumers.values() if channel in found.waits_for}.values():
            last = max([last, *consumer.ends(channel, newest)])
            for query in consumer.read_queries:
                last = max(last, self.last_end(query, last_window(query.block.window, newest)))
        return last

    def slides(self) -> dict[int, int]:
        """By stream, as its id: the shortest slide of the reports that its rows cause, of queries over queries too."""
        return self._slides.shortest()

    def _note_slide(self, query: HostedQuery) -> None:
        slide_us = query.block.slide_us
        if slide_us is not None:
            self._slides.note(query.name, slide_us, [id(root) for root in self.roots(query)])

    def begun_beside(self, stream: Channel) -> int | None:
        """The oldest row that periodic queries have seen which wait for this stream too: they report from there on."""
        begun = []
        for consumer in self.consumers.values():
            # A family is the consumer of each of its queries: it must not look at all of them for each.
            periodic = [q for q in consumer.fed if q.block.slide_us is not None] if consumer.reads_several else []
            if periodic:
                roots = [root for channel in consumer.waits_for for root in self.roots(channel)]
                if any(root is stream for root in roots):
                    oldest = [root.oldest for root in roots if root is not stream and root.oldest is not None]
                    begun += [max(query.watermark, min(oldest)) for query in periodic] if oldest else []
        return min(begun, default=None)

    def roots(self, channel: Channel) -> list[Channel]:
        """The streams that a channel's rows come from in the end."""
        if not channel.of_query:
            return [channel]
        return [root for source in self.consumers[channel.name].waits_for for root in self.roots(source)]

    def snapshot(self) -> dict[str, Any]:
        """The state of queries and consumers. A consumer that feeds several queries is written once, by number."""
        consumers = {id(consumer): consumer for consumer in self.consumers.values() if not consumer.torn}
        numbers = {key: number for number, key in enumerate(consumers)}
        return {
            "queries": {name: query.snapshot() for name, query in self.queries.items()},
            "consumers": [consumer.snapshot() for consumer in consumers.values()],
            "fed_by": {
                name: numbers[id(consumer)] for name, consumer in self.consumers.items() if id(consumer) in numbers
            },
            "with_history": sorted(name for name, node in self._nodes.items() if _has_past(node)),
        }

    def restore(self, snapshot: dict[str, Any]) -> None:
        """The same queries, hosted afresh, become those of the snapshot, which may hold other things too."""
        for name, query in snapshot["queries"].items():
            # One that was refused where it was hosted has no consumer to leave.
            if query["status"] == "FAILED" and name not in snapshot["fed_by"] and name in self.consumers:
                self._leave(name, query["reason"])
        done: set[int] = set()
        for name, query in snapshot["queries"].items():
            if name.partition(HIDDEN)[0] not in self.queries:
                continue  # earlier versions kept what was left of a query inside one that was refused
            if name not in self.queries:
                raise SnapshotError(f"the snapshot has a query '{shown_name(name)}' that its statements do not make")
            consumer = self.consumers.get(name)
            number = snapshot["fed_by"].get(name)
            if consumer is not None and number is not None and id(consumer) not in done:
                consumer.restore(snapshot["consumers"][number])
                done.add(id(consumer))
            self.queries[name].restore(query)
        self._note_orders()
        for name in self.stopped & set(self.queries):
            self._stop(name, STOPPED)

    def _leave(self, name: str, reason: str) -> None:
        """A query that has failed leaves those that are hosted with it before they get their state."""
        self.consumers[name].fail_query(name, reason)


def _adapted(hosting_of: Callable[[], QueryRegistry | None], difference: Difference) -> None:
    hosting = hosting_of()
    if hosting is not None:
        hosting.change(difference)


def _has_past(node: PhysicalQuery) -> bool:
    return not isinstance(node, RowQuery) and node.with_past


def _answers_at_once(consumer: FamilyConsumer, aggregation: Aggregation, window: Window) -> bool:
    """Whether the slices of a family are enough for the last report of a new query."""
    family = consumer.family
    if family.watermark == INT64_MIN:
        return True  # no rows have come
    if not set(aggregation.states) <= set(family.states):
        return False
    cadence = cadence_of(window)
    if not family.store.has_place(cadence):
        return False  # nobody has kept its place among the slices
    return family.answers_exactly(aggregation, cadence, cadence.next_report(family.watermark) - cadence.slide)


def _has_shown_a_row(window: Window | None, channel: Channel) -> bool:
    """Whether a query with this window that had always been there would have begun, so that empty reports count."""
    if not isinstance(window, TimeWindow) or not channel.rows_seen or channel.missed_before is None:
        return False
    return surely_shown(window.range_us, window)
