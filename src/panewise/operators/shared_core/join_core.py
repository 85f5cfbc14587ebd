"""A join for the windows of many queries, with their aggregates.

Rows probe once (`shared_join.py`). For queries that report aggregates, the pairs are folded once for all queries with
the same groups (`join_aggregates.py`). Every other query gets the changes of the join that its own windows see, with
the columns that it reads. Here a column is named by the number of its input, because queries name inputs differently.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from panewise.errors import QueryFailed
from panewise.language.expressions import ColumnRef, Expression, rewritten
from panewise.operators.joins.ordered_join import OrderedJoin
from panewise.operators.lifetimes import NEVER
from panewise.operators.relation_delta import Delta, no_delta
from panewise.operators.row_batch import Rows
from panewise.operators.shared_core.core_operator import Core
from panewise.operators.shared_core.join_aggregates import JoinAggregates
from panewise.operators.shared_core.shared_join import JoinStep, Narrowing, Ranges, SharedJoin, narrowed_delta
from panewise.plan.aggregation import Aggregation
from panewise.plan.inputs import report_window
from panewise.plan.nodes import Emit, Join, Scan
from panewise.plan.physical_plan import DeltaQuery, JoinPlan
from panewise.plan.shared_core import SharedCore, columns_read, grouped_above
from panewise.schema import Column, Schema

Grouping = tuple[Expression, ...]


@dataclass
class JoinMember:
    """A query over a shared join: its windows, the first instant that it shows, and the columns that it reads."""

    ranges: Ranges
    begins: int
    columns: list[str]  # by their names in the join
    names: list[str]  # the names of the same columns in the query
    grouping: Grouping | None  # the grouping keys if the core folds its aggregates


class JoinCore(Core):
    """The join, the aggregates over it by grouping, and the queries by name."""

    def __init__(self, core: SharedCore, planned: JoinPlan) -> None:
        """`planned`: the plan of the join that was made for the first of its queries."""
        assert isinstance(core.node, Join)
        schemas = [_numbered_schema(number, part.schema).to_arrow() for number, part in enumerate(core.inputs)]
        timestamps = [f"{number}.{_timestamp(part.input)}" for number, part in enumerate(core.inputs)]
        condition = core.node.condition
        own = None if condition is None else _by_number(condition, core)
        self._internal = [part.window.internal for part in core.inputs]
        labels = [part.input.name if isinstance(part.input, Scan) else part.source for part in core.inputs]
        self.shared = SharedJoin(schemas, timestamps, own, labels, self._internal, planned.orders)
        self.adapting = {(planned.join, planned.layer): self.shared.join} if planned.adapting else {}
        self._members: dict[str, JoinMember] = {}
        self._aggregates: dict[Grouping, JoinAggregates] = {}
        self._until = NEVER
        self._arrange()

    # -- queries -----------------------------------------------------------------------------------------------------

    def add(self, name: str, node: DeltaQuery, begins: int, held_from: Sequence[int | None]) -> None:
        plan, core = node.plan, node.core
        assert core is not None
        read, numbers = columns_read(plan, core), _numbers(core)
        columns = [f"{numbers[column.source or '']}.{column.name}" for column in read]
        names = [f"{column.source}.{column.name}" for column in read]
        grouping = None
        if node.folds:
            aggregation, window = _aggregation(plan, core), report_window(plan)
            assert window is not None and window.slide_us is not None, "a folded query reports"
            grouping = aggregation.keys
            folded = self._aggregates.setdefault(grouping, JoinAggregates(grouping, len(core.inputs), self._until))
            since = NEVER if begins == NEVER else begins + 1 - max(core.ranges)
            folded.add(name, aggregation, core.ranges, window.slide_us, window.align_us, since)
        self._members[name] = JoinMember(core.ranges, begins, columns, names, grouping)
        self._arrange()

    def remove(self, name: str) -> None:
        grouping = self._members.pop(name).grouping
        if grouping is not None:
            if name not in self._aggregates[grouping].failed:
                self._aggregates[grouping].remove(name)
            if all(member.grouping != grouping for member in self._members.values()):
                del self._aggregates[grouping]
        self._arrange()

    def _arrange(self) -> None:
        members = self._members.values()
        all_ranges = [member.ranges for member in members]
        own = [member.ranges for member in members if member.grouping is None]
        self.shared.fit(all_ranges)
        self._narrowing = Narrowing(own, self._internal)
        late = any(self._internal) and any(member.begins != NEVER for member in members)
        timed = late or len(own) < len(members)
        self.shared.show({column for member in members for column in member.columns}, all_ranges, timed)

    # -- running -----------------------------------------------------------------------------------------------------

    def process(
        self, rows: Sequence[Rows], since: int, until: int, starts: dict[str, int]
    ) -> dict[str, Delta | pa.Table]:
        return self._outcome(self.shared.process(rows, since, until), until, starts)

    def in_parts(
        self, rows: Sequence[Rows], since: int, until: int, starts: dict[str, int]
    ) -> Iterator[dict[str, Delta | pa.Table]]:
        """At most two parts are held at a time, even if all rows have the same instant."""
        part: JoinStep | None = None
        for following in self.shared.in_parts(rows, since, until):
            if part is not None and len(part.results):
                # No later pair is born before the last one of this part: the reports up to its birth are complete.
                yield self._outcome(part, int(part.results.births[-1]), starts)
            part = following
        assert part is not None
        yield self._outcome(part, until, starts)

    def _outcome(self, step: JoinStep, until: int, starts: dict[str, int]) -> dict[str, Delta | pa.Table]:
        """The changes and results of all queries up to an instant, from a part's pairs."""
        self._until = until
        found: dict[str, Delta | pa.Table] = dict(self._changes(step))
        for folded in self._aggregates.values():
            found.update(folded.process(step.results.batch, step.results.births, step.times, until, starts))
        return found

    def _changes(self, step: JoinStep) -> dict[str, Delta]:
        narrowed = self._narrowing.of(step)
        made: dict[tuple[Ranges, int, tuple[str, ...]], Delta] = {}
        found = {}
        for name, member in self._members.items():
            if member.grouping is not None:
                continue
            key = member.ranges, member.begins, tuple(member.columns)
            if key not in made:
                made[key] = narrowed_delta(step.results, narrowed[member.ranges], member.begins, member.columns)
            found[name] = made[key].with_batch(made[key].batch.rename_columns(member.names))
        return found

    def nothing(self, name: str) -> Delta:
        member = self._members[name]
        empty = no_delta(pa.schema([self.shared.join.schema.field(column) for column in member.columns]))
        return empty.with_batch(empty.batch.rename_columns(member.names))

    def folds(self, name: str) -> bool:
        """Whether the query is given results of `JoinAggregates` instead of changes."""
        return self._members[name].grouping is not None

    def most_in_report(self, name: str) -> int:
        grouping = self._members[name].grouping
        return 0 if grouping is None else self._aggregates[grouping].group_count

    def lookup(self, name: str, at: int) -> pa.Table:
        grouping = self._members[name].grouping
        assert grouping is not None
        return self._aggregates[grouping].lookup(name, at)

    def failure(self, name: str) -> QueryFailed | None:
        grouping = self._members[name].grouping
        return None if grouping is None else self._aggregates[grouping].failed.get(name)

    def take_overflows(self, name: str) -> int:
        grouping = self._members[name].grouping
        return 0 if grouping is None else self._aggregates[grouping].overflows.pop(name, 0)

    # -- what it is --------------------------------------------------------------------------------------------------

    def operators_of(self, name: str) -> list[OrderedJoin | JoinAggregates]:
        grouping = self._members[name].grouping
        return [self.shared.join, *([] if grouping is None else [self._aggregates[grouping]])]

    @property
    def results_made(self) -> int:
        return self.shared.join.results_made

    @property
    def described(self) -> str:
        ranges = len({member.ranges for member in self._members.values()})
        windows = "1 set of windows" if ranges == 1 else f"{ranges} sets of windows"
        return f"JOIN {', '.join(self.shared.join.names)} FOR {windows.upper()}"

    @property
    def bytes_held(self) -> int:
        return self.shared.bytes_held + sum(folded.bytes_held for folded in self._aggregates.values())

    def snapshot(self) -> dict[str, Any]:
        return {
            "join": self.shared.snapshot(),
            "until": self._until,
            "begins": {name: member.begins for name, member in self._members.items()},
            "aggregates": {self._first_of(keys): folded.snapshot() for keys, folded in self._aggregates.items()},
        }

    def _first_of(self, grouping: Grouping) -> str:
        """The name of the first query of a grouping. Snapshots identify groupings by it."""
        return next(name for name, member in self._members.items() if member.grouping == grouping)

    def restore(self, snapshot: dict[str, Any]) -> None:
        self.shared.restore(snapshot["join"])
        self._until = snapshot["until"]
        for name, member in self._members.items():
            member.begins = snapshot["begins"].get(name, member.begins)
        for name, saved in snapshot["aggregates"].items():
            grouping = self._members[name].grouping
            assert grouping is not None
            self._aggregates[grouping].restore(saved)
        self._arrange()


def _aggregation(plan: Emit, core: SharedCore) -> Aggregation:
    """The aggregation of a query that the planner has found can be folded with others, over the join's columns."""
    found = grouped_above(plan, core)
    assert found is not None
    aggregate, having, items = found
    return Aggregation(
        tuple(_by_number(key, core) for key in aggregate.keys),
        tuple(aggregated.bound for aggregated in aggregate.aggregates),
        tuple(tuple(_by_number(a, core) for a in aggregated.arguments) for aggregated in aggregate.aggregates),
        items,
        having,
    )


def _by_number(expression: Expression, core: SharedCore) -> Expression:
    numbers = _numbers(core)

    def change(part: Expression) -> Expression | None:
        if isinstance(part, ColumnRef) and part.source is not None:
            return ColumnRef(part.type, f"{numbers[part.source]}.{part.name}")
        return None

    return rewritten(expression, change)


def _numbers(core: SharedCore) -> dict[str, int]:
    return {part.source: number for number, part in enumerate(core.inputs)}


def _numbered_schema(number: int, schema: Schema) -> Schema:
    return Schema(tuple(Column(f"{number}.{column.name}", column.type) for column in schema))


def _timestamp(source: object) -> str:
    assert isinstance(source, Scan | Emit) and source.timestamp is not None
    return source.timestamp
