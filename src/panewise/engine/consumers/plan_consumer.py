"""The consumer of a plan over several inputs: it reads several channels, and its watermark is that of the slowest.

Each input has a port on its channel. The plan does not wait for tables that statements change: it sees their changes in
its next step. For a table that a stream changes, it has a clock on that stream's channel, and waits for it as for an
input.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import pyarrow as pa

from panewise.arrays import INT64_MIN
from panewise.engine.archives.archive_history import PlanHistory
from panewise.engine.channels.channel import Channel
from panewise.engine.channels.hosted_query import HostedQuery
from panewise.engine.channels.window_ends import last_window
from panewise.engine.consumers.adapting import Change, orders_changed
from panewise.engine.consumers.one_query import OneQueryConsumer
from panewise.engine.consumers.ports import Clock, Port, attach_ports
from panewise.engine.consumers.stepping import Stepping
from panewise.engine.tables.table import Table
from panewise.errors import NotHeldError
from panewise.operators.deltas.delta_plan import DeltaPlan
from panewise.operators.deltas.table_source import TableSource
from panewise.operators.joins.ordered_join import OrderedJoin
from panewise.operators.relation_delta import Described
from panewise.operators.relation_rows import RelationRows
from panewise.operators.row_batch import Rows
from panewise.optimize.rewrites.explained import explained
from panewise.optimize.rewrites.statistics import Statistics
from panewise.plan.explanation import Explanation
from panewise.plan.inputs import windowed_inputs
from panewise.plan.physical_plan import DeltaQuery


class DeltaConsumer(OneQueryConsumer):
    """A plan over deltas and its query: the base of plans that run alone and of plans over a shared core."""

    reads_several = True

    def __init__(self, query: HostedQuery, node: DeltaQuery, channels: Sequence[Channel], plan: DeltaPlan) -> None:
        super().__init__(query, channels)
        self.node = node
        self.plan = plan

    @property
    @abstractmethod
    def operators(self) -> Sequence[Described]:
        """The operators with state, from the inputs up."""

    @property
    def folded(self) -> bool:
        """Whether a shared core folds its groups together with those of other queries."""
        return False

    def explained_query(self, query: HostedQuery) -> Explanation:
        rates = {port.channel.name: port.rate for port in self.ports if port.rate is not None}
        statistics = Statistics(rates=rates)
        return explained(self.node, statistics, self._explained_fields, self.folded, self.sharing)

    @property
    def sharing(self) -> int:
        """Number of queries that share its core, itself included."""
        return 1

    @property
    def _explained_fields(self) -> dict[str, str]:
        """The operators with state, from the inputs up, and the fields of each."""
        found = {"operators": ", ".join(operator.name for operator in self.operators)}
        for operator in self.operators:
            found.update(operator.said)
        return found

    @property
    def joins(self) -> Mapping[tuple[int, int], OrderedJoin]:
        return self.plan.adapting

    @property
    def begins(self) -> int | None:
        return self.plan.begins

    def ends(self, channel: Channel, newest: int) -> list[int]:
        """When the windows of each input have let their last row go: the plan waits for the slowest input."""
        windows = [node.window for node in windowed_inputs(self.query.plan)]
        ends = []
        for window, read in zip(windows, self.inputs, strict=True):
            last = newest if read is channel else read.newest
            ends += [] if last is None else [last_window(window, last)]
        return ends

    @property
    def _most_in_report(self) -> int:
        return self.plan.most_in_report

    @property
    def relation(self) -> RelationRows:
        """The answer as a relation of rows."""
        return self.plan.relation

    def _check_held(self, name: str, at: int) -> None:
        if INT64_MIN < self.watermark < at:
            slowest = min(self.waits_for, key=lambda channel: channel.watermark)
            raise NotHeldError(f"'{name}' has not come to that instant yet", hint=f"it waits for '{slowest.name}'")

    def _answer(self, at: int) -> pa.Table:
        return self.plan.lookup(at)


class PlanConsumer(DeltaConsumer):
    """A plan that shares no core, its ports, its clocks and the tables that it reads."""

    def __init__(
        self,
        query: HostedQuery,
        node: DeltaQuery,
        channels: list[Channel],
        tables: Sequence[Table],
        history: PlanHistory | None,
        change: Change,
    ) -> None:
        """`history`: the rows that it begins with; only without tables. `change`: applies a difference to the host's
        plan."""
        self._change = change
        self._make = partial(
            DeltaPlan,
            query.plan,
            missed_before(channels, history),
            node.joins,
            tables_held_from=[table.held_from for table in tables],
            begins=None if history is None else history.begins,
        )
        super().__init__(query, node, channels, self._make())
        self.ports = [Port(self, channel) for channel in channels]
        self._stepping = Stepping(self.ports, self._step)
        changing = {id(table.changes): table.changes for table in tables if table.changes is not None}
        self.clocks = [Clock(self, channel) for channel in changing.values()]
        self._history = history
        self._tables = tables

    @property
    def operators(self) -> Sequence[Described]:
        return self.plan.operators

    @property
    def _explained_fields(self) -> dict[str, str]:
        found = super()._explained_fields
        if not self.clocks:
            return found
        waits = ", ".join(clock.channel.name for clock in self.clocks)
        return {"operators": found.pop("operators"), "waits for the changes of": waits, **found}

    @property
    def tables(self) -> Sequence[TableSource]:
        return self.plan.tables

    @property
    def waits_for(self) -> list[Channel]:
        return [waiting.channel for waiting in (*self.ports, *self.clocks)]

    def attach(self) -> None:
        for table, source in zip(self._tables, self.plan.tables, strict=True):
            table.attach(source)
        attach_ports(self.ports, None if self._history is None else self._history.rows)
        for clock in self.clocks:
            clock.channel.attach(clock)
        self._history = None

    def detach(self) -> None:
        for waiting in (*self.ports, *self.clocks):
            waiting.channel.detach(waiting)
        for table, source in zip(self._tables, self.plan.tables, strict=False):
            table.detach(source)

    def advance(self) -> None:
        """Goes first to where failed tables are still known, so that earlier results leave before the query fails."""
        if not self.goes_on:
            self._stepping.forget()
            return
        until = min([self._stepping.reached, *(clock.watermark for clock in self.clocks)])
        known = min([until, *(table.known_until for table in self.plan.tables)])
        for upto in (known, until):
            self._stepping.go_to(upto, lambda: self.goes_on, self.in_report)

    def _step(self, rows: list[Rows], since: int, until: int) -> int:
        made = self.plan.results_made
        self.run_step(lambda: self.plan.process(rows, until), until)
        adapted = orders_changed(self.query.name, self.plan.adapting)
        if adapted.ordered:
            self._change(adapted)
        return self.plan.results_made - made

    def _begin_anew(self) -> None:
        self._stepping.forget()
        self.plan, self._tables = self._make(), ()

    @property
    def watermark(self) -> int:
        """The watermark of the slowest input."""
        return self._stepping.watermark

    @property
    def bytes_held(self) -> int:
        return self.plan.bytes_held + self._stepping.bytes_held

    def snapshot(self) -> dict[str, Any]:
        return {
            "plan": self.plan.snapshot(),
            "ports": [port.snapshot() for port in self.ports],
            "clocks": [clock.watermark for clock in self.clocks],
            "watermark": self._stepping.watermark,
        }

    def restore(self, snapshot: dict[str, Any]) -> None:
        self.plan.restore(snapshot["plan"])
        for port, saved in zip(self.ports, snapshot["ports"], strict=True):
            port.restore(saved)
        for clock, reached in zip(self.clocks, snapshot["clocks"], strict=True):
            clock.move_to(reached)
        self._stepping.go_on_from(snapshot["watermark"])
        if snapshot.get("failed"):  # Snapshots of an earlier panewise say so.
            self.fail("")


def missed_before(channels: Sequence[Channel], history: PlanHistory | None) -> list[int | None]:
    """For each input, the instant before which a plan that begins now misses rows; None if it misses none."""
    if history is not None:
        return history.held_from
    # Results of a query may be missing even before the first one.
    begun = [channel.rows_seen > 0 or channel.whole_from is not None for channel in channels]
    return [channel.missed_before if has_begun else None for channel, has_begun in zip(channels, begun, strict=True)]
