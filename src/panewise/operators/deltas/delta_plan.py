"""A plan over several inputs while it runs: sources, a tree of operators over deltas, and results.

    rows of each input -> its window -> deltas -> join, negation, DISTINCT, GROUP BY ... -> results

Time goes in steps: a step accounts for the instants from the last watermark to the new one, the least of all inputs.
`plan_builder.py` makes the operators. At every instant the relation equals the answer of the same SQL over the contents
of the windows at that instant (definition 3.1 of Golab 2006).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from panewise.language.statements import Emission as Emission
from panewise.operators.deltas.grouped_relation import GroupedRelation
from panewise.operators.deltas.plan_builder import PlanBuilder
from panewise.operators.deltas.relation_results import RelationResults
from panewise.operators.deltas.table_source import TableSource
from panewise.operators.deltas.windowed_source import WindowedSource
from panewise.operators.joins.ordered_join import OrderedJoin
from panewise.operators.lifetimes import FOREVER, NEVER
from panewise.operators.relation_delta import Delta, DeltaOperator
from panewise.operators.relation_rows import RelationRows
from panewise.operators.relation_to_stream import Restore
from panewise.operators.row_batch import Rows
from panewise.plan.inputs import (
    is_table,
    of_block,
    report_window,
    table_inputs,
    windowed_inputs,
)
from panewise.plan.join_layers import joins_of
from panewise.plan.nodes import (
    Emit,
    Join,
    Node,
    Pattern,
    Scan,
    WindowOf,
)
from panewise.plan.physical_plan import JoinPlan
from panewise.temporal import RowsWindow, TimeWindow


class DeltaPlan:
    """A running plan.

    `held_from[i]`: from which instant on all rows of input i are known; None: all rows are.
    `joins`: the planner's decisions on the joins of the plan.
    `core`: a node of the plan, above all its windows, whose deltas come from outside (`run_core`).
    `tables_held_from[i]`: from which instant on table i is known; None: it has always been as it is now.
    `begins`: the first instant that the plan shows; None: it follows from what is held.
    """

    builder: Callable[..., PlanBuilder] = PlanBuilder

    def __init__(
        self,
        plan: Emit,
        held_from: Sequence[int | None],
        joins: Sequence[JoinPlan],
        core: Node | None = None,
        tables_held_from: Sequence[int | None] = (),
        begins: int | None = None,
    ) -> None:
        inputs = windowed_inputs(plan)
        tables = table_inputs(plan)
        if begins is None:
            begins = max((_whole_from(node, held) for node, held in zip(inputs, held_from, strict=True)), default=NEVER)
            for table, held in zip(tables, tables_held_from, strict=False):
                begins = max(begins, _known_from(table, inputs, held))
        self.begins = begins
        early = _meeting_versions(plan)
        window = report_window(plan)
        # RESTORE also shows rows that are born and die between two reports.
        report = None if plan.restore else window
        self._sources = [
            WindowedSource(node.window, node.schema, held, begins, id(node) in early, report)
            for node, held in zip(inputs, held_from, strict=True)
        ]
        self.tables = [TableSource(node.schema.to_arrow()) for node in tables]
        numbers = {id(node): number for number, node in enumerate([*inputs, *tables])}
        nodes = [id(node) for node, _ in joins_of(plan.input)]
        planned = {(nodes[join.join], join.layer): join for join in joins}
        builder = self.builder(numbers, begins, core, planned)
        self._root = builder.built(plan.input)
        self._operators = self._root.operators()
        # Joins whose orders may change, by number and layer. The join of a core runs elsewhere.
        adapting = {(join.join, join.layer) for join in joins if join.adapting}
        self.adapting: dict[tuple[int, int], OrderedJoin] = {
            key: join for key, join in builder.built_joins.items() if key in adapting
        }
        schema = plan.input.schema
        append_only = plan.input.pattern is Pattern.MONOTONIC
        self._results = RelationResults(schema, plan.emission, window, begins, append_only)
        self._insertions: RelationResults | None = None
        self._restore: Restore | None = None
        if plan.restore:
            assert window is not None
            self._insertions = RelationResults(schema, Emission.ISTREAM, None, begins)
            self._restore = Restore(plan.emission, schema.to_arrow(), window, begins)
            self._results = RelationResults(schema, Emission.RSTREAM, window, begins)
        self._watermark = NEVER + 1

    @property
    def operators(self) -> list[DeltaOperator]:
        return list(self._operators)

    @property
    def results_made(self) -> int:
        """Number of results that its joins have made."""
        return sum(operator.results_made for operator in self._operators)

    @property
    def most_in_report(self) -> int:
        """An upper bound of the rows in a report, apart from rows to come; 0 if reports have only changes."""
        return self._results.most_in_report

    @property
    def takes_parts(self) -> bool:
        """Whether the new rows of one instant may come in several calls of `run_core`: the plan keeps none of them."""
        keeps_nothing = self._restore is None and self._results.takes_parts
        return keeps_nothing and all(operator.takes_parts for operator in self._operators)

    @property
    def relation(self) -> RelationRows:
        """The rows of the answer. In a periodic plan their births and deaths are numbers of reports."""
        return self._results.relation

    @property
    def bytes_held(self) -> int:
        held = self._results.bytes_held + sum(source.bytes_held for source in self._sources)
        held += sum(table.bytes_held for table in self.tables)
        held += sum(operator.bytes_held for operator in self._operators)
        if self._insertions is not None and self._restore is not None:
            held += self._insertions.bytes_held + self._restore.bytes_held
        return held

    # -- running -------------------------------------------------------------------------------------------------

    def process(self, rows: Sequence[Rows], until: int) -> pa.Table:
        """Accounts for all instants below `until`. `rows` are all new rows before it."""
        since, until = self._watermark, max(until, self._watermark)
        deltas = [source.take(part, until) for source, part in zip(self._sources, rows, strict=True)]
        deltas += [table.take(since, until) for table in self.tables]
        starts_at = min((source.starts_at for source in self._sources), default=FOREVER)
        return self._step(deltas, starts_at, until)

    def run_core(self, delta: Delta, starts_at: int, until: int) -> pa.Table:
        """Like `process`, for a plan over a core: `delta` is the change of the core, and `starts_at` the instant from
        which on an ungrouped answer exists."""
        return self._step([delta], starts_at, max(until, self._watermark))

    def _step(self, deltas: list[Delta], starts_at: int, until: int) -> pa.Table:
        for operator in self._operators:
            if isinstance(operator, GroupedRelation):
                operator.start_by(starts_at)
        delta = self._root.run(deltas, self._watermark, until)
        self._watermark = until
        table = self._results.process(delta, until)
        if self._restore is None:
            return table
        assert self._insertions is not None
        return self._restore.process(table, self._insertions.process(delta, until), until)

    def lookup(self, at: int) -> pa.Table:
        return self._results.lookup(at)

    def snapshot(self) -> dict[str, Any]:
        return {
            "sources": [source.snapshot() for source in self._sources],
            "tables": [table.snapshot() for table in self.tables],
            "operators": [operator.snapshot() for operator in self._operators],
            "results": self._results.snapshot(),
            "insertions": self._insertions.snapshot() if self._insertions is not None else None,
            "restore": self._restore.snapshot() if self._restore is not None else None,
            "watermark": self._watermark,
        }

    def restore(self, snapshot: dict[str, Any]) -> None:
        for source, saved in zip(self._sources, snapshot["sources"], strict=True):
            source.restore(saved)
        for table, saved in zip(self.tables, snapshot.get("tables", []), strict=True):
            table.restore(saved)
        for operator, saved in zip(self._operators, snapshot["operators"], strict=True):
            operator.restore(saved)
        self._results.restore(snapshot["results"])
        if self._insertions is not None and self._restore is not None:
            self._insertions.restore(snapshot["insertions"])
            self._restore.restore(snapshot["restore"])
        self._watermark = snapshot["watermark"]


def _whole_from(node: WindowOf, held_from: int | None) -> int:
    """The first instant at which a window that starts in mid-stream holds all rows that it should."""
    window = node.window
    if held_from is None or isinstance(window, RowsWindow) or window.range_us is None:
        return NEVER
    assert isinstance(window, TimeWindow)
    return held_from + window.range_us + window.offset_us - 1


def _known_from(table: Scan, inputs: Sequence[WindowOf], held_from: int | None) -> int:
    """The first instant at which the table's part of the answer is known.

    For a non-retroactive table, all rows in the windows must have met known versions.
    """
    if held_from is None or table.retroactive:
        return NEVER if held_from is None else held_from
    return max([held_from, *(_whole_from(node, held_from) for node in inputs)])


def _meeting_versions(plan: Emit) -> set[int]:
    """The ids of the windows whose rows meet versions of tables."""
    joins = [node for node in of_block(plan.input) if isinstance(node, Join)]
    meeting = [join for join in joins if any(is_table(part) and not part.retroactive for part in join.inputs)]
    below = [node for join in meeting for part in join.inputs for node in of_block(part)]
    return {id(node) for node in below if isinstance(node, WindowOf) and isinstance(node.window, TimeWindow)}
