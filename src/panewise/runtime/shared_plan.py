"""Queries over the same core: one set of ports, one core, and for each query the rest of its plan.

A core is a join, or a DISTINCT, over windows of time (`plan/shared_core.py`). It runs over the windows of all its
queries at once and gives each the changes that its own windows see. A query that comes later begins, as if it ran
alone, when its windows are whole.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Protocol

import pyarrow as pa

from panewise.aggregates.overflows import Overflows
from panewise.errors import QueryFailed
from panewise.operators.delta_plan import DeltaPlan
from panewise.operators.deltas import FOREVER, Delta, Described
from panewise.operators.distinct_core import DistinctCore
from panewise.operators.join_core import JoinCore
from panewise.operators.lifetimes import NEVER
from panewise.operators.ordered_join import OrderedJoin
from panewise.operators.rows import Rows
from panewise.operators.series_start import first_of_inputs, surely_shown
from panewise.plan.explain import Explanation, shared_with
from panewise.plan.inputs import report_window
from panewise.plan.physical import CoreKey, CoreOperator, DeltaQuery
from panewise.runtime.adapting import Change, orders_changed
from panewise.runtime.archive_history import PlanHistory
from panewise.runtime.bounded_steps import BoundedSteps, InReport
from panewise.runtime.channel import INT64_MIN, Channel
from panewise.runtime.failures import guarded
from panewise.runtime.hosted_query import HostedQuery
from panewise.runtime.plan_consumer import PlanConsumer, Port, attach_ports, missed_before
from panewise.runtime.window_ends import reports_by_time


class Core(Protocol):
    """What runs once for many windows."""

    @property
    def described(self) -> str: ...

    @property
    def results_made(self) -> int:
        """How many results its join has made."""

    def operators_of(self, name: str) -> Sequence[Described]:
        """Those of a query."""

    @property
    def adapting(self) -> Mapping[tuple[int, int], OrderedJoin]:
        """The joins whose orders may change, by the number of the join and its layer."""

    def add(self, name: str, node: DeltaQuery, begins: int, held_from: Sequence[int | None]) -> None:
        """A query that accounts for the instants from `begins` on; rows before `held_from` were not all seen."""

    def remove(self, name: str) -> None: ...

    def process(
        self, rows: Sequence[Rows], since: int, until: int, starts: dict[str, int]
    ) -> dict[str, Delta | pa.Table]:
        """The changes that each query sees, or, if there are any, its results; `starts`: when its series begins."""

    def folds(self, name: str) -> bool:
        """Whether a query is given results, which `lookup` finds then."""

    def most_in_report(self, name: str) -> int:
        """How many rows a report of such a query has at most, besides those to come."""

    def lookup(self, name: str, at: int) -> pa.Table: ...

    def failure(self, name: str) -> QueryFailed | None:
        """Why a query cannot be answered any more."""

    def take_overflows(self, name: str) -> int:
        """How many answers of a query, since this was last asked, are outside their type."""

    def nothing(self, name: str) -> Delta:
        """No changes for a query."""

    @property
    def bytes_held(self) -> int: ...

    def snapshot(self) -> dict[str, Any]: ...

    def restore(self, snapshot: dict[str, Any]) -> None: ...


def core_operator(node: DeltaQuery) -> Core:
    """The operator of a core, as the node of its first query says."""
    assert node.core is not None
    if node.core_operator is CoreOperator.DISTINCT:
        return DistinctCore(node.core)
    planned = node.core_join
    assert planned is not None
    return JoinCore(node.core, planned)


class SharedPlan:
    """The ports and the core of queries that have it in common.

    `change` goes from one plan of the host to another, as far as the core is concerned.
    """

    def __init__(self, key: CoreKey, node: DeltaQuery, channels: list[Channel], change: Change) -> None:
        self._key = key
        self._node = node
        self._change = change
        self.core = core_operator(node)
        self.ports = [Port(self, channel) for channel in channels]
        self.members: dict[str, SharingConsumer] = {}
        self._watermark = INT64_MIN
        self._starts: dict[str, int] = {}  # by query, when the series of an ungrouped answer begins
        self._steps = BoundedSteps()
        self.torn = False  # whether all have failed, and it holds nothing

    def add(self, member: SharingConsumer, history: PlanHistory | None) -> None:
        """`history`: what it begins with, if it is the first."""
        name = member.query.name
        self.core.add(name, member.node, member.plan.begins, member.held_from)
        self.members[name], self._starts[name] = member, NEVER if member.begun else FOREVER
        if len(self.members) == 1:
            attach_ports(self.ports, history)
        elif self._watermark != INT64_MIN:
            nothing = None if self.core.folds(name) else self.core.nothing(name)
            member.step(nothing, self._starts[name], self._watermark)

    def remove(self, member: SharingConsumer) -> None:
        name = member.query.name
        if self.members.pop(name, None) is None:
            return  # it has failed
        del self._starts[name]
        self.core.remove(name)
        if not self.members:
            for port in self.ports:
                port.channel.detach(port)

    def go_on(self) -> None:
        """As far as all inputs have come."""
        until = min(port.watermark for port in self.ports)
        while until > self._watermark and not self.torn:
            reports = [report for member in self.members.values() for report in member.in_report]
            self._step(self._steps.next(self.ports, self._watermark, until, reports))

    def _step(self, until: int) -> None:
        since, self._watermark = self._watermark, until
        rows = [port.released(until) for port in self.ports]
        self._note_starts(rows)
        made = self.core.results_made
        found = self.core.process(rows, since + 1 if since == INT64_MIN else since, until, self._starts)
        self._steps.made(sum(map(len, rows)), self.core.results_made - made)
        adapted = orders_changed(self._key, self.core.adapting)
        if adapted.ordered:
            self._change(adapted)
        for name, member in list(self.members.items()):
            guarded(member, partial(member.step, found.get(name), self._starts[name], until))

    def fail(self, reason: str) -> None:
        """The core is torn, or the query that it reads has failed."""
        self.torn = True
        members, self.members, self._starts = list(self.members.values()), {}, {}
        for port in self.ports:
            port.channel.detach(port)
            port.forget()
        self.core = core_operator(self._node)
        for member in members:
            member.fail(reason)

    def explained(self) -> Explanation:
        """What its queries have in common, and each of them."""
        queries = tuple(member.explained() for member in self.members.values())
        return Explanation(self.core.described, {"queries": len(queries)}, queries)

    @property
    def running(self) -> list[str]:
        return [name for member in self.members.values() for name in member.running]

    def has_begun(self, name: str) -> None:
        """The series of a query goes on as soon as its windows are whole."""
        self._starts[name] = NEVER

    def _note_starts(self, rows: list[Rows]) -> None:
        """Looks for the first rows that reports of the queries show, once for those that report alike."""
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
        return self.core.bytes_held + sum(port.bytes_held for port in self.ports)

    def snapshot(self) -> dict[str, Any]:
        return {
            "core": self.core.snapshot(),
            "ports": [port.snapshot() for port in self.ports],
            "watermark": self._watermark,
            "starts": self._starts,
        }

    def restore(self, snapshot: dict[str, Any]) -> None:
        self.core.restore(snapshot["core"])
        for port, saved in zip(self.ports, snapshot["ports"], strict=True):
            port.restore(saved)
        self._watermark = snapshot["watermark"]
        # An earlier panewise had one beginning for all.
        starts = snapshot["starts"] if "starts" in snapshot else dict.fromkeys(self._starts, snapshot["starts_at"])
        self._starts.update((name, start) for name, start in starts.items() if name in self._starts)


class SharingConsumer(PlanConsumer):
    """A query whose core others have too."""

    def __init__(
        self,
        query: HostedQuery,
        node: DeltaQuery,
        channels: list[Channel],
        shared: SharedPlan,
        history: PlanHistory | None = None,
    ) -> None:
        assert node.core is not None
        self.query = query
        self.node = node
        self.core = core = node.core
        self.held_from = missed_before(channels, history)
        self._make = partial(DeltaPlan, query.plan, self.held_from, node.joins, core.node)
        self.plan = self._make()
        self.report = None if query.plan.restore else report_window(query.plan)
        self.shared = shared
        self.ports = self.shared.ports
        self.channel = channels[0]
        # Whether a row that a report has shown came before it did.
        self.begun = any(
            instant is not None and surely_shown(range_, self.report)
            for instant, range_ in zip(self.held_from, core.ranges, strict=True)
        )
        self._tables = ()
        self._watermark = INT64_MIN
        self._cadence = reports_by_time(query.plan, query.block)
        self._history = history

    def attach(self) -> None:
        self.shared.add(self, self._history)
        self._history = None

    def detach(self) -> None:
        self.shared.remove(self)

    def step(self, found: Delta | pa.Table | None, starts_at: int, until: int) -> None:
        """What changes in the core until an instant, or what comes of it; None: nothing."""
        if self.query.status == "FAILED":
            return
        self._watermark = until
        failure = self.shared.core.failure(self.query.name)
        try:
            with Overflows() as own:
                table = self._results(found, starts_at, until)
            self.query.overflowed(own.count + self.shared.core.take_overflows(self.query.name))
        except QueryFailed as problem:
            failure = problem
        else:
            self._tell(table, until)
        if failure is not None:
            self.fail(failure.message)

    def fail(self, reason: str) -> None:
        self.torn = True
        self.shared.remove(self)
        self.plan = self._make()
        self.query.fail(reason)

    def _results(self, found: Delta | pa.Table | None, starts_at: int, until: int) -> pa.Table:
        if isinstance(found, Delta):
            return self.plan.run_core(found, max(starts_at, self.plan.begins), until)
        return self.query.arrow.empty_table() if found is None else found

    def _answer(self, at: int) -> pa.Table:
        core = self.shared.core
        return core.lookup(self.query.name, at) if self.folded else self.plan.lookup(at)

    @property
    def in_report(self) -> list[InReport]:
        if self._cadence is None or not self.folded:
            return super().in_report
        return [(self._cadence, self.shared.core.most_in_report(self.query.name))]

    @property
    def folded(self) -> bool:
        """Whether the core answers it, with others that have the same groups."""
        return not self.torn and self.shared.core.folds(self.query.name)

    @property
    def sharing(self) -> int:
        return max(1, len(self.shared.members))  # none where all have failed

    @property
    def _said(self) -> dict[str, str]:
        found = super()._said
        return {"operators": found.pop("operators"), "core": shared_with(len(self.shared.members) - 1), **found}

    @property
    def operators(self) -> Sequence[Described]:
        own = [] if self.folded else self.plan.operators
        if self.torn:
            return own
        return [*self.shared.core.operators_of(self.query.name), *own]

    @property
    def _first(self) -> bool:
        """Whether it is the one of those that share that answers for what they share."""
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
        if snapshot.get("begun"):  # as an earlier panewise wrote it
            self.shared.has_begun(self.query.name)
