"""The answer of a plan over several inputs at one instant, computed once from given rows.

The operators of a running plan (`delta_plan`) take one step. Only groups are computed as in other one-time queries: at
once, from the rows that are alive in the end. Every aggregate is then possible, no sum over a part of the rows is
computed, and without GROUP BY there is always a row.

Cost: that of one step with all rows; nothing is kept. Results of joins and of other operators are charged to the read's
budget, if it has one, as they are made.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from panewise.language.statements import SelectItem
from panewise.operators.deltas.delta_nodes import DeltaNode, ValuesNode
from panewise.operators.deltas.delta_plan import DeltaPlan
from panewise.operators.deltas.plan_builder import PlanBuilder
from panewise.operators.joins.versioned_join import VersionedJoin
from panewise.operators.joins.window_join import WindowJoin
from panewise.operators.once.one_time import aggregated
from panewise.operators.read_budget import ReadBudget
from panewise.operators.relation_delta import FOREVER, Delta, DeltaOperator
from panewise.operators.row_batch import Rows
from panewise.plan.aggregation import Aggregation
from panewise.plan.nodes import Aggregate, Emit, Join, Node, Project, Scan, WindowOf
from panewise.plan.physical_plan import JoinPlan


class GroupsOnce(DeltaOperator):
    """GROUP BY of a plan that takes one step: the groups at its last instant."""

    name = "GroupsOnce"
    bytes_held = 0

    def __init__(self, aggregation: Aggregation, budget: ReadBudget | None) -> None:
        self._aggregation = aggregation
        self._budget = budget

    def process(self, inputs: list[Delta], since: int, until: int) -> Delta:
        delta = inputs[0].settled()
        assert not len(delta.ended), "in a single step no row of an earlier step ends"
        alive = delta.take(delta.deaths >= until)
        table = aggregated(self._aggregation, Rows(alive.batch, alive.births, alive.sequences), self._budget)
        numbers = np.arange(table.num_rows, dtype=np.int64)
        births = np.full(len(numbers), until - 1, np.int64)
        batches = table.combine_chunks().to_batches()
        batch = batches[0] if batches else pa.RecordBatch.from_pylist([], table.schema)
        return Delta(batch, numbers, births, np.full(len(numbers), FOREVER, np.int64))

    def snapshot(self) -> dict[str, Any]:
        return {}

    def restore(self, snapshot: dict[str, Any]) -> None: ...


class _Counted:
    """A node whose changes are charged to the budget."""

    def __init__(self, node: DeltaNode, budget: ReadBudget) -> None:
        self._node = node
        self._budget = budget

    def run(self, sources: Sequence[Delta], since: int, until: int) -> Delta:
        delta = self._node.run(sources, since, until)
        self._budget.take(size=delta.batch.nbytes)
        return delta

    def operators(self) -> list[DeltaOperator]:
        return self._node.operators()


@dataclass(frozen=True)
class _Builder(PlanBuilder):
    budget: ReadBudget | None = None

    def built(self, node: Node) -> DeltaNode:
        built = super().built(node)
        # Rows of sources exist already; joins and selected values are charged by their own nodes.
        if self.budget is None or isinstance(node, WindowOf | Scan | Join | Project):
            return built
        return _Counted(built, self.budget)

    def _values(self, items: tuple[SelectItem, ...], below: DeltaNode) -> DeltaNode:
        return ValuesNode(items, below, self.budget)

    def _group_operator(self, aggregation: Aggregation, node: Aggregate) -> DeltaOperator:
        return GroupsOnce(aggregation, self.budget)


class _Plan(DeltaPlan):
    def __init__(self, plan: Emit, inputs: int, joins: Sequence[JoinPlan], budget: ReadBudget | None) -> None:
        self.builder = partial(_Builder, budget=budget)
        super().__init__(plan, [None] * inputs, joins)
        for operator in self.operators:
            if isinstance(operator, WindowJoin | VersionedJoin):
                operator.spend(budget)


def relation_at_end(
    plan: Emit, rows: Sequence[Rows], until: int, joins: Sequence[JoinPlan], budget: ReadBudget | None = None
) -> pa.Table:
    """The relation of a continuous plan just before `until`, over these rows of its inputs, in order of time."""
    assert not plan.periodic
    with nullcontext() if budget is None else budget.texts():
        once = _Plan(plan, len(rows), joins, budget)
        once.process(rows, until)
        return once.lookup(until - 1)
