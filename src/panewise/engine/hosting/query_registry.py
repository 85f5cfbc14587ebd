"""The queries that a host runs, with the consumers that feed them. All of them are one `PhysicalPlan`.

`change` is the only way from one plan to the next: queries come and go, families are woven anew, joins reordered. What
runs a query is decided before (`optimize/planner.py`); `query_starter.py` starts it. A query inside another one's FROM
is hosted first, under a name that nobody else can use.

Only the host knows which rows arrived before a query was created. If a query starts from such rows and therefore cannot
share, the host runs the node `alone_with_past` instead of the planner's.
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Set
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any

import pyarrow as pa

from panewise.engine.channels.channel import Channel
from panewise.engine.channels.hosted_query import HostedQuery, overflow_remark
from panewise.engine.channels.unread_total import UnreadTotal
from panewise.engine.consumers.adapting import Change
from panewise.engine.consumers.family_consumer import FamilyConsumer
from panewise.engine.consumers.query_consumer import QueryConsumer
from panewise.engine.hosting.history_reader import HistoryReader
from panewise.engine.hosting.query_starter import QueryStarter, StartedQuery
from panewise.engine.hosting.read_graph import ReadGraph
from panewise.engine.hosting.running_cores import RunningCores
from panewise.engine.hosting.running_families import RunningFamilies
from panewise.engine.tables.table import Table
from panewise.errors import NotHeldError, PlanError, SnapshotError, raise_interrupt_behind
from panewise.operators.joins.ordered_join import OrderedJoin
from panewise.plan.blocks import Block
from panewise.plan.nodes import Emit, Node, Scan
from panewise.plan.physical_plan import (
    HIDDEN,
    CoreKey,
    DeltaQuery,
    Difference,
    JoinKey,
    Orders,
    PhysicalPlan,
    PhysicalQuery,
    Planned,
    RowQuery,
    inner_name,
    shown_name,
    with_inner,
)

Refused = Callable[[str, PhysicalQuery, PlanError], HostedQuery]
REMARKS_MAX = 1000  # Remarks that nobody has heard yet; the oldest are dropped.
STOPPED = "it was dropped while the folder was open with suspended=True"


class QueryRegistry:
    """Queries by lower-case name, and the plan that they follow."""

    def __init__(
        self,
        channel_of: Callable[[str], Channel],
        sharing: str = "weave",
        table_of: Callable[[str], Table] | None = None,
        unread: UnreadTotal | None = None,
    ) -> None:
        """`table_of` None: queries read no tables. `unread`: the limit of results that nobody has read."""
        self._channel_of = channel_of
        self._unread = unread
        self.sharing = sharing  # one of `physical_plan.SHARING`
        self.queries: dict[str, HostedQuery] = {}
        self.remarks: deque[Warning] = deque(maxlen=REMARKS_MAX)  # on queries and streams, for the engine's callers
        self.consumers: dict[str, QueryConsumer] = {}  # by query
        self.graph = ReadGraph(self.consumers)
        self.history = HistoryReader()
        self.plan = PhysicalPlan()  # what runs here, queries that were refused or have failed included
        self._nodes: dict[str, PhysicalQuery] = {}  # as they run, by query, those in parentheses included
        self._hidden: dict[str, list[str]] = {}  # names of queries in parentheses, by the query around them
        self._stopped: Set[str] = frozenset()  # queries that are hosted and do not run
        # Consumers hold the registry weakly: the thread of a queue has its stream, and must not keep the engine alive.
        change: Change = partial(_change, weakref.ref(self))
        self._families = RunningFamilies(self.history, change)
        self._cores = RunningCores(change)
        self._starter = QueryStarter(
            self._source, table_of or _no_tables, self._new_query, self._register,
            self._families, self._cores, self.history, change,
        )  # fmt: skip

    # -- what runs ---------------------------------------------------------------------------------------------------

    @property
    def families(self) -> list[FamilyConsumer]:
        """The families that have not failed."""
        return self._families.sound

    def family_of(self, name: str) -> FamilyConsumer | None:
        """The family that a periodic aggregate is in, or was in when it failed; None if it was refused."""
        return self._families.find(self.consumers.get(name))

    def node_of(self, name: str) -> PhysicalQuery:
        """The node of a query as it runs; a query in parentheses has one too."""
        return self._nodes[name]

    def overflows(self, name: str) -> int:
        """How many answers of SUM were outside their type, in a query and in those in parentheses inside it."""
        query = self.queries.get(name)  # who shows this takes no turn: it may just have gone
        return 0 if query is None else query.overflows + sum(map(self.overflows, list(self._hidden.get(name, ()))))

    def shown_reason(self, name: str) -> str:
        """Why a query has failed, or a remark on its answers; empty for a query that has gone."""
        query = self.queries.get(name)
        return "" if query is None else query.reason or overflow_remark(self.overflows(name))

    def answer_of(self, name: str) -> pa.Table:
        """What a query answers now; NotHeldError if it has failed."""
        query = self.queries[name.lower()]
        if query.status == "FAILED":
            raise NotHeldError(f"query '{name}' has failed: {query.reason}", hint="drop it and create it anew")
        return self.consumers[query.name].lookup(query.name, None)

    # -- from one plan to the next -----------------------------------------------------------------------------------

    def change(self, difference: Difference, refused: Refused | None = None) -> None:
        """Goes to another plan, between two batches. PlanError if a query comes too late.

        `refused`: makes a FAILED query, which takes the place of one that comes too late. Without it at most one query
        comes or goes, so that a PlanError leaves the plan as it was.
        """
        assert refused is not None or len(difference.going) + len(difference.coming) <= 1
        for key, woven in difference.woven.items():
            self._families.weave(key, woven)
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
                self.queries[name] = refused(name, node, problem)
            came[name] = Planned(node, planned.created)
        if came:
            self.plan = self.plan.changed(Difference(coming=came))

    def _joins_of(self, of: str | CoreKey) -> Mapping[tuple[int, int], OrderedJoin]:
        """The joins of a query or a core whose orders may change, by number and layer."""
        return self.consumers[of].joins if isinstance(of, str) else self._cores.joins(of)

    @property
    def accepted_before(self) -> bool:
        """Whether statements are repeated that were accepted before, perhaps by a version that refused less."""
        return self._starter.accepted_before

    def repeating(self, accepted_before: bool = True) -> AbstractContextManager[None]:
        """Until the end of the block a query that comes too late is not refused: it is hosted, and fails."""
        return self._starter.repeating(accepted_before)

    @contextmanager
    def stopping(self, names: Set[str]) -> Iterator[None]:
        """Queries of these names that are hosted or restored in the block do not run: they are about to be dropped."""
        self._stopped, outer = names, self._stopped
        try:
            yield
        finally:
            self._stopped = outer

    # -- queries come ------------------------------------------------------------------------------------------------

    def _host(self, name: str, node: PhysicalQuery) -> HostedQuery:
        """Starts a query; PlanError if it comes too late.

        Whatever it raises, nothing has been started then: neither the query nor one inside it. After an interrupt the
        engine is broken: to take back what is half done might raise again.
        """
        try:
            started = self._starter.start(name, node)
            self._fail_at_once(started)
            inner = [self._nodes[hidden] for hidden in self._hidden.get(name, ())]
            self._nodes[name] = with_inner(started.node, inner)
            self.graph.note(started.query)
            return started.query
        except Exception as problem:
            raise_interrupt_behind(problem)
            self._take_back(name)
            raise

    def _source(self, name: str, source: Node, inner: PhysicalQuery | None) -> Channel:
        """What a query reads: a stream or a query that has a name, or a query in parentheses, which is started."""
        if inner is None:
            assert isinstance(source, Scan)
            return self._channel_of(source.name)
        hidden = inner_name(name, len(self._hidden.get(name, [])) + 1)
        hosted = self._host(hidden, inner)
        hosted.detach_from_ledger()  # its results are wanted as they come, and are counted
        self._hidden.setdefault(name, []).append(hidden)
        return hosted

    def _new_query(self, name: str, plan: Emit, block: Block) -> HostedQuery:
        query = HostedQuery(name, plan, block, self._unread)
        query.remark_to(self.remarks)
        return query

    def _register(self, query: HostedQuery, consumer: QueryConsumer) -> None:
        self.queries[query.name], self.consumers[query.name] = query, consumer

    def _fail_at_once(self, started: StartedQuery) -> None:
        """A query over one that has failed fails too: a log may create one, though a statement is refused before."""
        name = started.query.name
        for channel in started.reads:
            if channel.failure is not None:
                self.consumers[name].fail(channel.failure)
        if started.fails is not None:
            self._stop(name, started.fails)
        if name in self._stopped:
            self._stop(name, STOPPED)

    def _take_back(self, name: str) -> None:
        """Removes all traces of a query that could not be started, wherever its start has ended."""
        consumer = self.consumers.pop(name, None)
        self.queries.pop(name, None)
        self._nodes.pop(name, None)
        self._families.leave(name)
        self._cores.leave(name)
        if consumer is not None:
            consumer.leave(name)
        self._drop_unused()
        for inner in self._hidden.pop(name, []):
            self._drop(inner)

    # -- queries go --------------------------------------------------------------------------------------------------

    def _drop(self, name: str) -> None:
        """Removes a query, and everything that only this query needed."""
        self.graph.forget(name)
        del self.queries[name]
        self._nodes.pop(name, None)
        consumer = self.consumers.pop(name, None)
        if consumer is not None:  # else it was refused, and is there to say so
            consumer.leave(name)
            self._drop_unused()
        for inner in self._hidden.pop(name, []):
            self._drop(inner)

    def _drop_unused(self) -> None:
        self._families.drop_unused({id(consumer) for consumer in self.consumers.values()})
        self._cores.drop_unused()

    def _stop(self, name: str, reason: str) -> None:
        """A query, and those inside it, leave what they share and are FAILED."""
        for stopped in (*self._hidden.get(name, []), name):
            self.consumers[stopped].fail_query(stopped, reason)
            self.queries[stopped].fail(reason)

    # -- state -------------------------------------------------------------------------------------------------------

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
        """Gives queries that have just been hosted their state. The snapshot may hold other things too."""
        for name, query in snapshot["queries"].items():
            # A query that had failed leaves its family or core before that gets its state. A query that was refused
            # when it was hosted has no consumer.
            if query["status"] == "FAILED" and name not in snapshot["fed_by"] and name in self.consumers:
                self.consumers[name].fail_query(name, query["reason"])
        done: set[int] = set()
        for name, query in snapshot["queries"].items():
            if name.partition(HIDDEN)[0] not in self.queries:
                continue  # earlier versions kept what was left of a query inside one that was refused
            if name not in self.queries:
                raise SnapshotError(f"the snapshot has a query '{shown_name(name)}' that its statements do not create")
            consumer = self.consumers.get(name)
            number = snapshot["fed_by"].get(name)
            if consumer is not None and number is not None and id(consumer) not in done:
                consumer.restore(snapshot["consumers"][number])
                done.add(id(consumer))
            self.queries[name].restore(query)
        self._note_orders()
        for name in self._stopped & set(self.queries):
            self._stop(name, STOPPED)

    def _note_orders(self) -> None:
        """Brings the orders that joins were restored with into the plan."""
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
        """The orders with which a join began."""
        name = key.of if isinstance(key.of, str) else self._cores.first_member(key.of)
        node = None if name is None else self._nodes.get(name)
        joins = node.joins if isinstance(node, DeltaQuery) else ()
        return next((one.orders for one in joins if (one.join, one.layer) == (key.join, key.layer)), ())


def _change(registry: Callable[[], QueryRegistry | None], difference: Difference) -> None:
    hosting = registry()
    if hosting is not None:
        hosting.change(difference)


def _has_past(node: PhysicalQuery) -> bool:
    return not isinstance(node, RowQuery) and node.with_past


def _no_tables(name: str) -> Table:
    raise AssertionError("a host without tables refuses a query over one before")
