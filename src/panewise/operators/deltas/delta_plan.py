"""A plan over several inputs while it runs: sources, a tree of operators over deltas, and results.

    rows of each input -> its window -> deltas -> join, negation, DISTINCT, GROUP BY ... -> results

Time goes in steps: a step accounts for the instants from the last watermark up to the least of the inputs' new ones.
`plan_builder.py` makes the operators. At every instant the relation is the one-time answer of the same SQL over what
the windows then hold (definition 3.1 of Golab 2006).
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
    """`held_from[i]`: rows of input i before that instant were not all seen; None: all were.

    `joins`: how the planner has planned the joins of the plan.
    `core`: a node of the plan, with all its windows below it, whose deltas somebody else makes (`run_core`).
    `tables_held_from[i]`: what table i was before that instant is not known; None: as it is now.
    `begins`: the first instant that it accounts for, where the rows say more than `held_from` does.
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
        self.begins = begins  # the first instant that it accounts for
        early = _meeting_versions(plan)
        window = report_window(plan)
        # RESTORE shows what came and went between two reports too.
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
        # Those whose orders may change, by the number of the join and its layer. The core's runs elsewhere.
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
        """How many results its joins have made."""
        return sum(operator.results_made for operator in self._operators)

    @property
    def most_in_report(self) -> int:
        """How many rows a report has at most, besides those to come; 0 where only changes are reported."""
        return self._results.most_in_report

    @property
    def takes_parts(self) -> bool:
        """Whether what is new in a core at one instant may come in several steps to its end (`run_core`): nothing is
        kept of it."""
        keeps_nothing = self._restore is None and self._results.takes_parts
        return keeps_nothing and all(operator.takes_parts for operator in self._operators)

    @property
    def relation(self) -> RelationRows:
        """The answer; of a periodic plan by the numbers of reports."""
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
        """Accounts for all instants below `until`; the rows are all those below it that have not come yet."""
        since, until = self._watermark, max(until, self._watermark)
        deltas = [source.take(part, until) for source, part in zip(self._sources, rows, strict=True)]
        deltas += [table.take(since, until) for table in self.tables]
        starts_at = min((source.starts_at for source in self._sources), default=FOREVER)
        return self._step(deltas, starts_at, until)

    def run_core(self, delta: Delta, starts_at: int, until: int) -> pa.Table:
        """The same where the core's changes are known, and from when on there is an ungrouped answer."""
        return self._step([delta], starts_at, max(until, self._watermark))

    def _step(self, deltas: list[Delta], starts_at: int, until: int) -> pa.Table:
        for operator in self._operators:
            if isinstance(operator, GroupedRelation):
                operator.starts_at = min(operator.starts_at, starts_at)
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
    """The first instant at which a window that begins in mid-stream holds all that it should."""
    window = node.window
    if held_from is None or isinstance(window, RowsWindow) or window.range_us is None:
        return NEVER
    assert isinstance(window, TimeWindow)
    return held_from + window.range_us + window.offset_us - 1


def _known_from(table: Scan, inputs: Sequence[WindowOf], held_from: int | None) -> int:
    """The first instant at which all that a table has to do with is known, where it is known from an instant on.

    Of a table that keeps no versions, what the rows in the windows have met.
    """
    if held_from is None or table.retroactive:
        return NEVER if held_from is None else held_from
    return max([held_from, *(_whole_from(node, held_from) for node in inputs)])


def _meeting_versions(plan: Emit) -> set[int]:
    """The windows, by id, whose rows meet versions of tables."""
    joins = [node for node in of_block(plan.input) if isinstance(node, Join)]
    meeting = [join for join in joins if any(is_table(part) and not part.retroactive for part in join.inputs)]
    below = [node for join in meeting for part in join.inputs for node in of_block(part)]
    return {id(node) for node in below if isinstance(node, WindowOf) and isinstance(node.window, TimeWindow)}
