"""The same plan executed in three ways: by update pattern (UPA), by negative rows (NT), and directly (DIRECT).

| execution | rows of a window   | state of operators                          | result                               |
| --------- | ------------------ | ------------------------------------------- | ------------------------------------ |
| UPA       | carry their deaths | the engine's; DISTINCT is delta-star        | calendar queue; by key for query 4   |
| NT        | end by another row | found by key; an end visits every operator  | by key                               |
| DIRECT    | carry their deaths | DISTINCT: lists of its input and its output | a list, scanned for what has expired |

Joins and negations are those of the engine, told by the patterns of their inputs which of these ways to go; the
DISTINCTs of the baselines are in `kept_input_distinct`. Time is counted in steps of a few rows: a step is an
instant, at which first everything expires that has to and then its rows come, so that results are maintained eagerly.
Golab 2006, sections 3.2.2, 3.5.2 and 3.6.1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from panewise.aggregates.columns import wrapped
from panewise.arrays import Ints
from panewise.language.expressions import ColumnRef
from panewise.language.functions import resolve
from panewise.operators.deltas.delta_nodes import DeltaNode, OperatorNode, SourceNode
from panewise.operators.deltas.distinct import DistinctOperator
from panewise.operators.deltas.negation import Negation
from panewise.operators.deltas.negation_storage import BY_EXPIRATION, BY_KEY
from panewise.operators.joins.window_join import WindowJoin
from panewise.operators.relation_delta import FOREVER, NONE, Delta, DeltaOperator
from panewise.schema import BIGINT, Schema
from panewise.state.calendar_queue import CalendarQueue
from panewise.state.expiring import Expiring
from panewise.state.fifo_queue import FifoQueue
from papers.golab2006.kept_input_distinct import KeyedDistinct, ListedDistinct, spread
from papers.golab2006.keyed_store import KeyedStore
from papers.golab2006.list_store import ListStore

UPA, NT, DIRECT = "UPA", "NT", "DIRECT"
FEW, MANY = 10, 50  # partitions of a calendar queue
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Trace:
    """Connections in the order of time: small integers for sources, for pairs of source and destination port, and the
    port itself, by which the trace is broken up into links; and the protocols."""

    sources: Ints
    pairs: Ints
    ports: Ints
    protocols: NDArray[np.str_]

    def __len__(self) -> int:
        return len(self.sources)

    def repeated(self, times: int) -> Trace:
        sources, pairs, ports = (np.tile(column, times) for column in (self.sources, self.pairs, self.ports))
        return Trace(sources, pairs, ports, np.tile(self.protocols, times))


class LinkWindow:
    """The window over one link: all rows of the last `lifetime` instants, those that are `chosen` shown.

    With `negative` it keeps its rows and follows each with its end, which is selected like the row itself.
    """

    def __init__(
        self, rows: Ints, columns: dict[str, Ints], chosen: Mask | None, lifetime: int, negative: bool
    ) -> None:
        self._rows, self._columns, self._chosen, self._lifetime = rows, columns, chosen, lifetime
        self._queue = FifoQueue() if negative else None
        self.schema = pa.schema([(name, pa.int64()) for name in columns])

    @property
    def bytes_held(self) -> int:
        return 0 if self._queue is None else self._queue.bytes_held

    def step(self, instant: int, first: int, last: int) -> Delta:
        """The rows first .. last of the trace come at this instant."""
        begin, end = np.searchsorted(self._rows, (first, last))
        rows, ended, ended_at = self._rows[begin:end], NONE, NONE
        if self._queue is not None:
            ended, ended_at = self._queue.expire(instant + 1)
            self._queue.insert(rows, np.full(len(rows), instant + self._lifetime))
        if self._chosen is not None:
            rows = rows[self._chosen[rows]]
            kept = self._chosen[ended]
            ended, ended_at = ended[kept], ended_at[kept]
        batch = pa.RecordBatch.from_arrays(
            [wrapped(values[rows]) for values in self._columns.values()], schema=self.schema
        )
        births = np.full(len(rows), instant)
        deaths = births + self._lifetime if self._queue is None else np.full(len(rows), FOREVER)
        return Delta(batch, rows, births, deaths, ended, ended_at)


# ---- the result ------------------------------------------------------------------------------------------------------


class KeptRelation(Protocol):
    """The result of a plan, maintained by its deltas."""

    def take(self, delta: Delta, until: int) -> None: ...

    def ids(self) -> Ints: ...

    @property
    def bytes_held(self) -> int: ...


class KeptByExpiration:
    """Results leave when they die; an end before that is looked for wherever the structure may hold it."""

    def __init__(self, store: Expiring) -> None:
        self._store = store

    @property
    def bytes_held(self) -> int:
        return self._store.bytes_held

    def take(self, delta: Delta, until: int) -> None:
        self._store.expire(until)
        if len(delta.ended):
            self._store.remove(delta.ended)
        self._store.insert(delta.sequences, delta.deaths)

    def ids(self) -> Ints:
        held: Ints = self._store.snapshot()["ids"]
        return held


class KeptByKey:
    """Results leave only by their ends."""

    def __init__(self, sources: Ints) -> None:
        self._sources = sources
        self._store = KeyedStore()

    @property
    def bytes_held(self) -> int:
        return self._store.bytes_held

    def take(self, delta: Delta, until: int) -> None:
        if len(delta.ended):
            self._store.remove(delta.ended)
        if len(delta):
            keys = self._sources[delta.batch.column("l.row").to_numpy()]
            self._store.insert(keys, delta.sequences, np.full(len(delta), FOREVER))

    def ids(self) -> Ints:
        held: Ints = self._store.snapshot()["ids"]
        return held


# ---- plans -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Execution:
    """A plan that runs; `kept` is None where the last operator keeps the result itself."""

    windows: Sequence[LinkWindow]
    plan: DeltaNode
    kept: KeptRelation | None
    negation: Negation | None = None

    @property
    def bytes_held(self) -> int:
        result = 0 if self.kept is None else self.kept.bytes_held
        below = sum(operator.bytes_held for operator in self.plan.operators())
        return sum(window.bytes_held for window in self.windows) + below + result


Build = Callable[[Trace, int], Execution]  # of a window of so many instants


def _windows(
    trace: Trace, lifetime: int, negative: bool, names: str, protocols: Sequence[str | None]
) -> list[LinkWindow]:
    """One link for each letter of `names`, of which one protocol may be selected."""
    result, sources = [], spread(trace.sources)
    for link, (name, protocol) in enumerate(zip(names, protocols, strict=True)):
        rows = np.flatnonzero(trace.ports % len(names) == link)
        columns = {f"{name}.row": np.arange(len(trace)), f"{name}.source": sources}
        chosen = None if protocol is None else trace.protocols == protocol
        result.append(LinkWindow(rows, columns, chosen, lifetime, negative))
    return result


def _joined(left: pa.Schema, right: pa.Schema, strict: bool) -> WindowJoin:
    equal = resolve("eq", (ColumnRef(BIGINT, "l.source"), ColumnRef(BIGINT, "r.source")))
    return WindowJoin([left, right], equal, strict=[strict, strict], columns=["l.row", "l.source", "r.row"])


def _negated(left: pa.Schema, storage: str, left_queue: Callable[[], Expiring]) -> Negation:
    keys = (ColumnRef(BIGINT, "l.source"),), (ColumnRef(BIGINT, "n.source"),)
    return Negation("NOT EXISTS", Schema.from_arrow(left), *keys, storage, left_queue, FifoQueue)


def _calendar(partitions: int) -> CalendarQueue:
    return CalendarQueue(partitions=partitions)


def join(execution: str, protocol: str, partitions: int = FEW) -> Build:
    """Query 1: rows of two links with the same source and this protocol."""

    def build(trace: Trace, lifetime: int) -> Execution:
        windows = _windows(trace, lifetime, execution == NT, "lr", (protocol, protocol))
        operator = _joined(windows[0].schema, windows[1].schema, strict=execution == NT)
        by_expiration = ListStore() if execution == DIRECT else _calendar(partitions)
        kept = KeptByKey(trace.sources) if execution == NT else KeptByExpiration(by_expiration)
        return Execution(windows, OperatorNode(operator, [SourceNode(0), SourceNode(1)]), kept)

    return build


def distinct(execution: str, pairs: bool) -> Build:
    """Query 2: the different sources, or pairs of source and destination port, of one link."""

    def build(trace: Trace, lifetime: int) -> Execution:
        value_of = trace.pairs if pairs else trace.sources
        rows = np.flatnonzero(trace.ports % 2 == 0)
        window = LinkWindow(rows, {"value": spread(value_of)}, None, lifetime, execution == NT)
        schema = Schema.from_arrow(window.schema)
        operator: DeltaOperator
        if execution == UPA:
            operator = DistinctOperator(schema, strict=False, results=lambda: _calendar(FEW))
        else:
            operator = KeyedDistinct(value_of) if execution == NT else ListedDistinct(value_of)
        return Execution([window], OperatorNode(operator, [SourceNode(0)]), None)

    return build


def negation(execution: str, partitions: int = FEW) -> Build:
    """Query 3: rows of one link whose source is not on the other."""

    def build(trace: Trace, lifetime: int) -> Execution:
        windows = _windows(trace, lifetime, execution == NT, "ln", (None, None))
        storage = BY_KEY if execution == NT else BY_EXPIRATION
        operator = _negated(windows[0].schema, storage, FifoQueue)
        kept = KeptByKey(trace.sources) if execution == NT else KeptByExpiration(_calendar(partitions))
        return Execution(windows, OperatorNode(operator, [SourceNode(0), SourceNode(1)]), kept, operator)

    return build


def negated_join(execution: str, protocol: str, join_up: bool = False) -> Build:
    """Query 4: rows of two links with the same source, which is not on a third; with `join_up` the negation is below
    the join. Either way the result, which is STRICT, is kept by key."""

    def build(trace: Trace, lifetime: int) -> Execution:
        windows = _windows(trace, lifetime, execution == NT, "lrn", (None, protocol, None))
        left, right, without = (SourceNode(number) for number in range(3))
        if join_up:
            below = _negated(windows[0].schema, BY_KEY, FifoQueue)
            above = _joined(windows[0].schema, windows[1].schema, strict=True)
            plan = OperatorNode(above, [OperatorNode(below, [left, without]), right])
            return Execution(windows, plan, KeptByKey(trace.sources), below)
        pairs = _joined(windows[0].schema, windows[1].schema, strict=execution == NT)
        top = _negated(pairs.schema, BY_KEY, lambda: _calendar(FEW))
        plan = OperatorNode(top, [OperatorNode(pairs, [left, right]), without])
        return Execution(windows, plan, KeptByKey(trace.sources), top)

    return build
