"""The answer of a block over given rows, computed once, for lookups and one-time queries."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from panewise.aggregates.columns import flags, wrapped
from panewise.aggregates.holistic import HeldKind, StatisticKind
from panewise.aggregates.user import matrix_of
from panewise.arrays import Ints
from panewise.operators.arguments import ArgumentPlan, Arguments, ranks_of
from panewise.operators.held.held_values import HeldValues
from panewise.operators.read_budget import ReadBudget
from panewise.operators.row_batch import Rows
from panewise.plan.aggregation import ROW_COUNT, Aggregation, Fields, Pools, StateKey, aggregation_of
from panewise.plan.blocks import Block
from panewise.plan.expressions.evaluate import compiled
from panewise.state.group_table import GroupTable


def relation(block: Block, rows: Rows) -> pa.Table:
    """The items of the block over exactly these rows, the contents of its window. Cost: O(rows)."""
    if block.where is not None:
        kept = flags(compiled(block.where)(rows.batch))
        rows = rows.take(kept)
    if block.aggregate is None:
        columns = [compiled(item.expression)(rows.batch) for item in block.items]
        schema = pa.schema([(item.name, item.expression.type.to_arrow()) for item in block.items])
        return pa.Table.from_arrays(columns, schema=schema)
    return aggregated(aggregation_of(block), rows)


def aggregated(aggregation: Aggregation, rows: Rows, budget: ReadBudget | None = None) -> pa.Table:
    """The selected items of all groups of these rows. Charges the budget before anything is computed."""
    if budget is not None:
        budget.take(size=8 * len(rows) * len(aggregation.states))
    table = GroupTable(tuple(key.type for key in aggregation.keys))
    slots = np.zeros(len(rows), np.int64)
    if aggregation.keys:
        slots = table.ids([compiled(key)(rows.batch) for key in aggregation.keys])
    pools: Pools = {}
    arguments = ArgumentPlan(aggregation.states, pools).read(rows.batch)
    fields = {}
    for key in aggregation.asked:
        if isinstance(key.kind, StatisticKind):
            fields[key] = _held_fields(key, slots, len(table), arguments, rows, pools)
            continue
        matrix = matrix_of(key.kind, len(table))
        matrix.fold(slots, arguments.of(key), rows.times, rows.arrivals, ranks_of(key, pools))
        fields[key] = matrix.fields()
    assert len(fields[ROW_COUNT][0]) == len(table)
    keys = table.keys(np.arange(len(table), dtype=np.int64)) if aggregation.keys else []
    return answered(aggregation, keys, fields, pools)


def answered(aggregation: Aggregation, keys: list[pa.Array], fields: dict[StateKey, Fields], pools: Pools) -> pa.Table:
    """The selected items of groups, from their keys and the fields of their states."""
    answers = aggregation.answer_batch(keys, fields, pools)
    passing = aggregation.passing(answers)
    if passing is not None:
        answers = answers.filter(wrapped(passing))
    return pa.Table.from_arrays(aggregation.selected(answers), schema=aggregation.item_schema)


def _held_fields(key: StateKey, groups: Ints, count: int, arguments: Arguments, rows: Rows, pools: Pools) -> Fields:
    """The fields of an aggregate whose state has no fixed size. All rows are one window, in one slice or in several
    sub-windows."""
    kind = key.held.kind
    assert isinstance(kind, HeldKind)
    held = HeldValues(pools, answers=True)
    held.add(key.held, 0, np.empty(0, np.int64))
    starts, slices = np.zeros(1, np.int64), np.zeros(len(rows), np.int64)
    if kind.sub_windows is not None:
        starts, slices = np.unique(kind.sub_windows.starts_of(rows.times), return_inverse=True)
    held.fold(slices.reshape(-1), groups, arguments)
    held.close(np.arange(len(starts)), starts)
    some, others = held.answer(key, np.array([0]), np.array([len(starts)]), np.arange(count, dtype=np.int64))
    return [field[0] for field in (*some, *others)]
