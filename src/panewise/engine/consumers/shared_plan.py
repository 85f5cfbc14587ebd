"""Queries over a shared core: one set of ports, one core, and for each query the rest of its plan.

A core is a join, or a DISTINCT, over windows of time (`plan/shared_core.py`). It runs over the windows of all its
queries at once, and gives each query the changes that its own windows see. A query that joins later begins when its
windows are whole, as it would alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import pyarrow as pa

from panewise.arrays import INT64_MIN
from panewise.engine.archives.archive_history import PlanHistory
from panewise.engine.channels.channel import Channel
from panewise.engine.channels.failures import guarded
from panewise.engine.channels.hosted_query import HostedQuery
from panewise.engine.channels.readers import PortOwner
from panewise.engine.consumers.adapting import Change, orders_changed
from panewise.engine.consumers.bounded_steps import InReport
from panewise.engine.consumers.plan_consumer import DeltaConsumer, missed_before
from panewise.engine.consumers.ports import Port, attach_ports
from panewise.engine.consumers.stepping import Stepping
from panewise.operators.deltas.delta_plan import DeltaPlan
from panewise.operators.deltas.series_start import first_of_inputs, surely_shown
from panewise.operators.lifetimes import NEVER
from panewise.operators.relation_delta import FOREVER, Delta, Described
from panewise.operators.row_batch import Rows
from panewise.operators.shared_core.core_operator import Core
from panewise.operators.shared_core.distinct_core import DistinctCore
from panewise.operators.shared_core.join_core import JoinCore
from panewise.plan.explanation import Explanation, shared_with
from panewise.plan.inputs import report_window
from panewise.plan.physical_plan import CoreKey, CoreOperator, DeltaQuery


def core_operator(node: DeltaQuery) -> Core:
    """The operator of a core, as planned for its first query."""
    assert node.core is not None
    if node.core_operator is CoreOperator.DISTINCT:
        return DistinctCore(node.core)
    planned = node.core_join
    assert planned is not None
    return JoinCore(node.core, planned)


class SharedPlan(PortOwner):
    """The ports, the core and the queries that share it. `change` applies a difference to the host's plan."""

    def __init__(self, key: CoreKey, node: DeltaQuery, channels: list[Channel], change: Change) -> None:
        self._key = key
        self._node = node
        self._change = change
        self.core = core_operator(node)
        self.ports = [Port(self, channel) for channel in channels]
        self.members: dict[str, SharingConsumer] = {}
        self._stepping = Stepping(self.ports, self._step)
        self._starts: dict[str, int] = {}  # By query, when its series begins; for ungrouped answers.
        self.torn = False  # Whether all queries have failed, and it holds nothing.

    def add(self, member: SharingConsumer, history: PlanHistory | None) -> None:
        """A query joins. `history`: the rows to begin with, for the first query only."""
        name = member.query.name
        self.core.add(name, member.node, member.plan.begins, member.held_from)
        self.members[name], self._starts[name] = member, NEVER if member.begun else FOREVER
        if len(self.members) == 1:
            attach_ports(self.ports, None if history is None else history.rows)
        elif self._stepping.watermark != INT64_MIN:
            # It begins when its windows are whole. That is after the present watermark, so no report is due yet.
            nothing = None if self.core.folds(name) else self.core.nothing(name)
            watermark = self._stepping.watermark
            member.step(nothing, self._starts[name], watermark, watermark)

    def remove(self, member: SharingConsumer) -> None:
        name = member.query.name
        if self.members.pop(name, None) is None:
            return  # It has failed.
        del self._starts[name]
        self.core.remove(name)
        if not self.members:
            for port in self.ports:
                port.channel.detach(port)

    def advance(self) -> None:
        """Goes as far as all inputs have come."""
        self._stepping.go_to(self._stepping.reached, lambda: not self.torn, self._in_report)

    def _in_report(self) -> list[InReport]:
        return [report for member in self.members.values() for report in member.in_report()]

    def _step(self, rows: list[Rows], since: int, until: int) -> int:
        self._note_starts(rows)
        before = self.core.results_made
        arguments = rows, since + 1 if since == INT64_MIN else since, until, self._starts
        if all(member.takes_parts for member in self.members.values()):
            parts = self.core.in_parts(*arguments)
        else:
            parts = iter((self.core.process(*arguments),))
        part = next(parts)
        for following in parts:
            self._hand_on(part, until, since)
            part = following
        adapted = orders_changed(self._key, self.core.adapting)
        if adapted.ordered:
            self._change(adapted)
        self._hand_on(part, until, until)
        return self.core.results_made - before

    def _hand_on(self, found: dict[str, Delta | pa.Table], until: int, watermark: int) -> None:
        """Hands the changes of a step to `until` to the queries. Their watermark is earlier if more parts follow."""
        for name, member in list(self.members.items()):
            guarded(member, partial(member.step, found.get(name), self._starts[name], until, watermark))

    def fail(self, reason: str) -> None:
        """The core is torn, or a query that it reads has failed: all its queries fail."""
        self.torn = True
        members, self.members, self._starts = list(self.members.values()), {}, {}
        for port in self.ports:
            port.channel.detach(port)
        self._stepping.forget()
        self.core = core_operator(self._node)
        for member in members:
            member.fail(reason)

    def explained(self) -> Explanation:
        """The core, and its queries below it."""
        queries = tuple(member.explained() for member in self.members.values())
        return Explanation(self.core.described, {"queries": len(queries)}, queries)

    @property
    def running(self) -> list[str]:
        return [name for member in self.members.values() for name in member.running]

    def has_begun(self, name: str) -> None:
        """The series of a query has begun: it goes on as soon as its windows are whole."""
        self._starts[name] = NEVER

    def _note_starts(self, rows: list[Rows]) -> None:
        """Notes when series begin that have not begun: with the first rows that a report shows. Queries that report
        alike are searched for once."""
        found: dict[object, int] = {}
        for name, start in self._starts.items():
            if start == FOREVER:
                member = self.members[name]
                alike = member.core.ranges, member.report
                if alike not in found:
                    found[alike] = first_of_inputs(rows, *alike)
                self._starts[name] = found[alike]

    @property
    def bytes_held(self) -> int:
        return self.core.bytes_held + self._stepping.bytes_held

    def snapshot(self) -> dict[str, Any]:
        return {
            "core": self.core.snapshot(),
            "ports": [port.snapshot() for port in self.ports],
            "watermark": self._stepping.watermark,
            "starts": self._starts,
        }

    def restore(self, snapshot: dict[str, Any]) -> None:
        self.core.restore(snapshot["core"])
        for port, saved in zip(self.ports, snapshot["ports"], strict=True):
            port.restore(saved)
        self._stepping.go_on_from(snapshot["watermark"])
        # An earlier panewise wrote one beginning for all queries.
        starts = snapshot["starts"] if "starts" in snapshot else dict.fromkeys(self._starts, snapshot["starts_at"])
        self._starts.update((name, start) for name, start in starts.items() if name in self._starts)


class SharingConsumer(DeltaConsumer):
    """A query over a shared core."""

    def __init__(
        self,
        query: HostedQuery,
        node: DeltaQuery,
        channels: list[Channel],
        shared: SharedPlan,
        history: PlanHistory | None = None,
    ) -> None:
        assert node.core is not None
        self.core = core = node.core
        self.held_from = missed_before(channels, history)
        self._make = partial(DeltaPlan, query.plan, self.held_from, node.joins, core.node)
        super().__init__(query, node, channels, self._make())
        self.report = None if query.plan.restore else report_window(query.plan)
        self.shared = shared
        self.ports = self.shared.ports
        # Whether a report would surely have shown a row before the query joined.
        self.begun = any(
            instant is not None and surely_shown(range_, self.report)
            for instant, range_ in zip(self.held_from, core.ranges, strict=True)
        )
        self._watermark = INT64_MIN
        self._history = history

    def attach(self) -> None:
        self.shared.add(self, self._history)
        self._history = None

    def detach(self) -> None:
        self.shared.remove(self)

    def advance(self) -> None:
        """All queries of the core advance together."""
        self.shared.advance()

    @property
    def takes_parts(self) -> bool:
        """Whether the changes of a step may come in parts."""
        return self.folded or self.plan.takes_parts

    def step(self, found: Delta | pa.Table | None, starts_at: int, until: int, watermark: int) -> None:
        """Takes the changes of the core until an instant, or their results; None: there are none. `watermark`: the
        watermark of the query then, which is earlier than `until` if more parts of the step follow."""
        if not self.goes_on:
            return
        self._watermark = watermark
        core, name = self.shared.core, self.query.name
        failure = core.failure(name)
        if self.run_step(lambda: self._results(found, starts_at, until), watermark) is None:
            return
        self.query.overflowed(core.take_overflows(name))
        if failure is not None:
            self.fail(failure.message)

    def _begin_anew(self) -> None:
        self.plan = self._make()

    @property
    def watermark(self) -> int:
        return self._watermark

    def _results(self, found: Delta | pa.Table | None, starts_at: int, until: int) -> pa.Table:
        if isinstance(found, Delta):
            return self.plan.run_core(found, max(starts_at, self.plan.begins), until)
        return self.query.arrow.empty_table() if found is None else found

    def _answer(self, at: int) -> pa.Table:
        core = self.shared.core
        return core.lookup(self.query.name, at) if self.folded else self.plan.lookup(at)

    @property
    def _most_in_report(self) -> int:
        return self.shared.core.most_in_report(self.query.name) if self.folded else super()._most_in_report

    @property
    def folded(self) -> bool:
        """Whether the core folds its groups, together with queries that have the same groups."""
        return not self.torn and self.shared.core.folds(self.query.name)

    @property
    def sharing(self) -> int:
        return max(1, len(self.shared.members))  # All may have failed.

    @property
    def _explained_fields(self) -> dict[str, str]:
        found = super()._explained_fields
        return {"operators": found.pop("operators"), "core": shared_with(len(self.shared.members) - 1), **found}

    @property
    def operators(self) -> Sequence[Described]:
        own = [] if self.folded else self.plan.operators
        if self.torn:
            return own
        return [*self.shared.core.operators_of(self.query.name), *own]

    @property
    def _first(self) -> bool:
        """Whether it is the first query of the core, which accounts for the core's bytes and snapshot."""
        return next(iter(self.shared.members.values()), self) is self

    @property
    def bytes_held(self) -> int:
        return self.plan.bytes_held + (self.shared.bytes_held if self._first and not self.torn else 0)

    def snapshot(self) -> dict[str, Any]:
        return {
            "plan": self.plan.snapshot(),
            "begins": self.plan.begins,
            "watermark": self._watermark,
            "shared": self.shared.snapshot() if self._first else None,
        }

    def restore(self, snapshot: dict[str, Any]) -> None:
        self.plan.restore(snapshot["plan"])
        self.plan.begins = snapshot["begins"]
        self._watermark = snapshot["watermark"]
        if snapshot["shared"] is not None:
            self.shared.restore(snapshot["shared"])
        if snapshot.get("begun"):  # Written by an earlier panewise.
            self.shared.has_begun(self.query.name)
