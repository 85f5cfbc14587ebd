"""The consumer of a plan over several inputs: it reads several channels and goes as far as the slowest of them.

Each input has a port on its channel. Rows wait at their port until the watermarks of all inputs have passed them.
Tables that statements change hold nothing up: their changes are there when the plan takes its next step. For a table
that a stream changes the plan has a clock on that stream's channel, and waits for it as for its inputs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from panewise.aggregates.overflows import Overflows
from panewise.errors import NotHeldError, QueryFailed
from panewise.operators.delta_plan import DeltaPlan
from panewise.operators.deltas import NONE, Described, Ints
from panewise.operators.ordered_join import OrderedJoin
from panewise.operators.relation_rows import RelationRows
from panewise.operators.reports import Piece
from panewise.operators.rows import Rows, concatenated
from panewise.operators.table_source import TableSource
from panewise.optimize.rewrites.explained import explained
from panewise.optimize.rewrites.statistics import Statistics
from panewise.plan.explain import Explanation
from panewise.plan.inputs import windowed_inputs
from panewise.plan.physical import DeltaQuery
from panewise.runtime.adapting import Change, orders_changed
from panewise.runtime.archive_history import PlanHistory
from panewise.runtime.bounded_steps import BoundedSteps, InReport
from panewise.runtime.channel import INT64_MIN, Channel, Consumer
from panewise.runtime.hosted_query import HostedQuery
from panewise.runtime.query_consumer import QueryConsumer
from panewise.runtime.table import Table
from panewise.runtime.window_ends import last_window, reports_by_time
from panewise.temporal import SECOND


class Owner(Protocol):
    """Who is told when a port has come further, or what it reads has failed."""

    def go_on(self) -> None: ...

    def fail(self, reason: str) -> None: ...

    def explained(self) -> Explanation: ...

    @property
    def running(self) -> list[str]: ...


class Port(Consumer):
    """One input of the plan, as its channel sees it."""

    ordered = True

    def __init__(self, owner: Owner, channel: Channel) -> None:
        self.owner = owner
        self.channel = channel
        self.watermark = INT64_MIN
        self._waiting: list[Rows] = []
        self._rows, self._first, self._last = 0, 0, 0  # how many rows have come since, and between which times

    def next_due(self) -> int:
        return INT64_MIN

    def take(self, rows: Rows, watermark: int) -> None:
        if len(rows):
            self._waiting.append(rows)
            self._first = self._first if self._rows else int(rows.times[0])
            self._rows, self._last = self._rows + len(rows), int(rows.times[-1])
        self.watermark = max(self.watermark, watermark)
        self.owner.go_on()

    def fail(self, reason: str) -> None:
        self.owner.fail(reason)

    def explained(self) -> Explanation:
        return self.owner.explained()

    @property
    def running(self) -> list[str]:
        return self.owner.running

    def forget(self) -> None:
        """Nothing waits any more."""
        self._waiting = []

    def first_times(self, count: int) -> Ints:
        """Of the rows that wait, which are in order."""
        found, left = [NONE], count
        for rows in self._waiting:
            found.append(rows.times[:left])
            left -= len(found[-1])
        return np.concatenate(found)

    def released(self, until: int) -> Rows:
        """The rows below an instant, which are in order."""
        if not self._waiting:
            return self.channel.empty_rows()
        rows = concatenated(self._waiting)
        cut = int(np.searchsorted(rows.times, until, side="left"))
        self._waiting = [rows.slice(cut, len(rows))] if cut < len(rows) else []
        return rows.slice(0, cut)

    @property
    def rate(self) -> float | None:
        """Rows a second of event time since it began or was restored; None before there are two times."""
        return self._rows * SECOND / (self._last - self._first) if self._last > self._first else None

    @property
    def bytes_held(self) -> int:
        return sum(int(rows.batch.nbytes) for rows in self._waiting)

    def snapshot(self) -> dict[str, Any]:
        rows = concatenated(self._waiting) if self._waiting else self.channel.empty_rows()
        waiting = {"batch": rows.batch, "times": rows.times, "arrivals": rows.arrivals}
        return {"watermark": self.watermark, "waiting": waiting}

    def restore(self, snapshot: dict[str, Any]) -> None:
        waiting = snapshot["waiting"]
        rows = Rows(waiting["batch"], waiting["times"], waiting["arrivals"])
        self.watermark, self._waiting = snapshot["watermark"], [rows] if len(rows) else []


class Clock(Consumer):
    """How far the stream has come that changes a table of the plan. The table itself has read its rows before."""

    ordered = True

    def __init__(self, owner: Owner, channel: Channel) -> None:
        self.owner = owner
        self.channel = channel
        self.watermark = INT64_MIN

    def next_due(self) -> int:
        return INT64_MIN

    def take(self, rows: Rows, watermark: int) -> None:
        self.watermark = max(self.watermark, watermark)
        self.owner.go_on()

    def fail(self, reason: str) -> None:
        self.owner.fail(reason)

    def explained(self) -> Explanation:
        return self.owner.explained()

    @property
    def running(self) -> list[str]:
        return self.owner.running


class PlanConsumer(QueryConsumer):
    """A plan, its ports and its query."""

    reads_several = True

    clocks: Sequence[Clock] = ()

    def __init__(
        self,
        query: HostedQuery,
        node: DeltaQuery,
        channels: list[Channel],
        tables: Sequence[Table],
        history: PlanHistory | None,
        change: Change,
    ) -> None:
        """`history`: what it begins with; no tables then. `change`: goes from one plan of the host to another."""
        self.query = query
        self._change = change
        self.node = node
        self.ports = [Port(self, channel) for channel in channels]
        self.channel = channels[0]
        self._make = partial(
            DeltaPlan,
            query.plan,
            missed_before(channels, history),
            node.joins,
            tables_held_from=[table.held_from for table in tables],
            begins=None if history is None else history.begins,
        )
        self.plan = self._make()
        self._history = history
        self._tables = tables
        changing = {id(table.changes): table.changes for table in tables if table.changes is not None}
        self.clocks = [Clock(self, channel) for channel in changing.values()]
        self._watermark = INT64_MIN
        self._steps = BoundedSteps()
        self._cadence = reports_by_time(query.plan, query.block)

    @property
    def operators(self) -> Sequence[Described]:
        """Those with state, from the inputs up."""
        return self.plan.operators

    @property
    def fed(self) -> list[HostedQuery]:
        return [self.query]

    def explained(self) -> Explanation:
        return Explanation(f"QUERY {self.query.shown}", self._said)

    def explained_query(self, query: HostedQuery) -> Explanation:
        rates = {port.channel.name: port.rate for port in self.ports if port.rate is not None}
        statistics = Statistics(rates=rates)
        return explained(self.node, statistics, self._said, self.folded, self.sharing)

    @property
    def sharing(self) -> int:
        """How many queries run its core, itself among them."""
        return 1

    @property
    def _said(self) -> dict[str, str]:
        """The operators with state, from the inputs up, and what each has to say."""
        found = {"operators": ", ".join(operator.name for operator in self.operators)}
        if self.clocks:
            found["waits for the changes of"] = ", ".join(clock.channel.name for clock in self.clocks)
        for operator in self.operators:
            found.update(operator.said)
        return found

    @property
    def folded(self) -> bool:
        """Whether others fold its groups with their own."""
        return False

    @property
    def joins(self) -> Mapping[tuple[int, int], OrderedJoin]:
        return self.plan.adapting

    @property
    def inputs(self) -> list[Channel]:
        return [port.channel for port in self.ports]

    @property
    def tables(self) -> Sequence[TableSource]:
        return self.plan.tables

    @property
    def begins(self) -> int | None:
        return self.plan.begins

    def leave(self, name: str) -> None:
        self.detach()

    def let_go(self, name: str) -> None:
        """It takes nothing in any more for a query that has failed."""

    def ends(self, channel: Channel, newest: int) -> list[int]:
        """When the windows of all inputs have let their last rows go: a plan goes as far as the slowest of them."""
        windows = [node.window for node in windowed_inputs(self.query.plan)]
        ends = []
        for window, read in zip(windows, self.inputs, strict=True):
            last = newest if read is channel else read.newest
            ends += [] if last is None else [last_window(window, last)]
        return ends

    @property
    def _waiting(self) -> list[Port | Clock]:
        return [*self.ports, *self.clocks]

    @property
    def waits_for(self) -> list[Channel]:
        return [waiting.channel for waiting in self._waiting]

    def attach(self) -> None:
        for table, source in zip(self._tables, self.plan.tables, strict=True):
            table.attach(source)
        attach_ports(self.ports, self._history)
        for clock in self.clocks:
            clock.channel.attach(clock)
        self._history = None

    def detach(self) -> None:
        for waiting in self._waiting:
            waiting.channel.detach(waiting)
        self._leave_tables()

    def _leave_tables(self) -> None:
        for table, source in zip(self._tables, self.plan.tables, strict=False):
            table.detach(source)

    def go_on(self) -> None:
        """As far as all inputs have come; what a table that has failed still lets be known comes out before that."""
        until = min(waiting.watermark for waiting in self._waiting)
        known = min([until, *(table.known_until for table in self.plan.tables)])
        for reached in (known, until):
            while reached > self._watermark and self.query.status != "FAILED":
                self._step(self._steps.next(self.ports, self._watermark, reached, self.in_report))

    @property
    def in_report(self) -> list[InReport]:
        """When its query reports, and how many rows a report has at most."""
        return [] if self._cadence is None else [(self._cadence, self.plan.most_in_report)]

    def _step(self, until: int) -> None:
        self._watermark = until
        made, rows = self.plan.results_made, [port.released(until) for port in self.ports]
        try:
            with Overflows() as found:
                table = self.plan.process(rows, until)
            self.query.overflowed(found.count)
        except QueryFailed as problem:
            self.fail(problem.message)
            return
        self._steps.made(sum(map(len, rows)), self.plan.results_made - made)
        adapted = orders_changed(self.query.name, self.plan.adapting)
        if adapted.ordered:
            self._change(adapted)
        self._tell(table, until)

    def fail(self, reason: str) -> None:
        self.torn = True
        self.detach()
        for port in self.ports:
            port.forget()
        self.plan, self._tables = self._make(), ()
        self.query.fail(reason)

    def _tell(self, table: pa.Table, until: int) -> None:
        pieces: list[Piece] = list(table.to_batches()) if table.num_rows else []
        self.query.receive(pieces, until)

    @property
    def relation(self) -> RelationRows:
        """The answer."""
        return self.plan.relation

    @property
    def come_to(self) -> int:
        """That of the slowest input."""
        return self._watermark

    def lookup(self, name: str, at: int | None) -> pa.Table:
        """The relation now or then; of a periodic query the last report."""
        periodic = self.query.block.periodic
        if self._watermark == INT64_MIN:
            names = self.query.arrow.names if periodic else [item.name for item in self.query.block.items]
            return self.query.arrow.empty_table().select(names)
        if at is not None and at > self._watermark:
            slowest = min(self.waits_for, key=lambda channel: channel.watermark)
            raise NotHeldError(f"'{name}' has not come so far yet", hint=f"it waits for '{slowest.name}'")
        if at is None:
            at = self._watermark if periodic else self._watermark - 1
        return self._answer(at)

    def _answer(self, at: int) -> pa.Table:
        return self.plan.lookup(at)

    @property
    def bytes_held(self) -> int:
        return self.plan.bytes_held + sum(port.bytes_held for port in self.ports)

    def snapshot(self) -> dict[str, Any]:
        return {
            "plan": self.plan.snapshot(),
            "ports": [port.snapshot() for port in self.ports],
            "clocks": [clock.watermark for clock in self.clocks],
            "watermark": self._watermark,
        }

    def restore(self, snapshot: dict[str, Any]) -> None:
        self.plan.restore(snapshot["plan"])
        for port, saved in zip(self.ports, snapshot["ports"], strict=True):
            port.restore(saved)
        for clock, reached in zip(self.clocks, snapshot["clocks"], strict=True):
            clock.watermark = reached
        self._watermark = snapshot["watermark"]
        if snapshot.get("failed"):  # as snapshots were once written
            self.fail("")


def missed_before(channels: list[Channel], history: PlanHistory | None) -> list[int | None]:
    """Rows before these instants are not seen by a plan that begins now; None where there were none."""
    if history is not None:
        return history.held_from
    # Results of a query may be missing though none has come.
    begun = [channel.rows_seen > 0 or channel.whole_from is not None for channel in channels]
    return [channel.missed_before if has_begun else None for channel, has_begun in zip(channels, begun, strict=True)]


def attach_ports(ports: list[Port], history: PlanHistory | None) -> None:
    """The last one that is attached makes the plan go on, with the rows of all."""
    for number, port in enumerate(ports):
        port.channel.attach(port, None if history is None else history.rows[number])
