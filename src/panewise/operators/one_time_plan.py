"""A plan over several inputs, computed once: the relation of all rows that are given, at one instant.

The operators are those of a running plan (`delta_plan`), which take one step. Only groups are computed as other
one-time queries compute them: at once, from the rows that are there in the end, so that every aggregate has an
operator, no sum of a part of the rows is asked for, and without GROUP BY there is always a row.

Cost: that of one step with all rows; nothing is kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from panewise.operators.aggregation import Aggregation
from panewise.operators.delta_plan import DeltaPlan
from panewise.operators.deltas import FOREVER, Delta, DeltaOperator
from panewise.operators.one_time import aggregated
from panewise.operators.plan_builder import PlanBuilder
from panewise.operators.rows import Rows
from panewise.plan.nodes import Aggregate, Emit


class GroupsOnce:
    """GROUP BY of a plan that takes one step: the groups at its last instant."""

    bytes_held = 0

    def __init__(self, aggregation: Aggregation) -> None:
        self._aggregation = aggregation

    def process(self, inputs: list[Delta], since: int, until: int) -> Delta:
        delta = inputs[0].settled()
        assert not len(delta.ended), "one step has all rows"
        alive = delta.take(delta.deaths >= until)
        table = aggregated(self._aggregation, Rows(alive.batch, alive.births, alive.sequences))
        numbers = np.arange(table.num_rows, dtype=np.int64)
        births = np.full(len(numbers), until - 1, np.int64)
        batches = table.combine_chunks().to_batches()
        batch = batches[0] if batches else pa.RecordBatch.from_pylist([], table.schema)
        return Delta(batch, numbers, births, np.full(len(numbers), FOREVER, np.int64))

    def snapshot(self) -> dict[str, Any]:
        return {}

    def restore(self, snapshot: dict[str, Any]) -> None: ...


class _Builder(PlanBuilder):
    def _group_operator(self, aggregation: Aggregation, node: Aggregate) -> DeltaOperator:
        return GroupsOnce(aggregation)


class _Plan(DeltaPlan):
    builder = _Builder


def relation_at_end(plan: Emit, rows: Sequence[Rows], until: int) -> pa.Table:
    """The relation of a continuous plan just before `until`, over these rows of its inputs, in order of time."""
    assert not plan.periodic
    once = _Plan(plan, [None] * len(rows))
    once.process(rows, until)
    return once.lookup(until - 1)
