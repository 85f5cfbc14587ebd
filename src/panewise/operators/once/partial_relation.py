"""A relation computed in parts: each part has the rows of a stretch of event time, and parts come in any order.

Each part is folded with the same loops that fold all rows at once (`one_time.relation`). Its result is kept separately,
so that a part can be dropped again at no cost. In the end the parts are combined in order of time, whatever the order
in which they were folded: groups are in the order of their first rows, older states are combined first, and rows have
the order of a single read.

    selection                        part: the selected items of its rows        whole: one after the other
    aggregates of a fixed size       part: its groups and their states           whole: states of equal groups combined
    aggregates without a fixed size  part: its rows, the columns that matter     whole: aggregated at once

Sums of floats are combined with their rounding errors (`aggregates.states`), like those of slices.

Many rows, or many expressions over them, make several parts; each is charged to the read's budget.

Cost: O(rows) for a part. The whole is O(groups of all parts), or O(rows) if parts are rows. One thread at a time.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from panewise.aggregates.columns import flags
from panewise.aggregates.matrix import StateMatrix
from panewise.aggregates.user import matrix_of
from panewise.language.expressions import Expression
from panewise.operators.arguments import ArgumentPlan, ranks_of
from panewise.operators.once.one_time import aggregated, answered
from panewise.operators.read_budget import ReadBudget, part_rows
from panewise.operators.row_batch import Rows, concatenated
from panewise.plan.aggregation import Aggregation, Pools, StateKey, aggregation_of
from panewise.plan.blocks import Block
from panewise.plan.expressions.evaluate import compiled
from panewise.plan.expressions.text_sizes import cells_of
from panewise.state.group_table import GroupTable

Part = Any
"""The result of some rows; its type is known only to the relation that made it."""


class PartialRelation:
    """The items of a block over rows that come in parts."""

    def __init__(self, block: Block, budget: ReadBudget) -> None:
        self._budget = budget
        self._where = compiled(block.where) if block.where is not None else None
        computed = [item.expression for item in block.items]
        computed += [] if block.where is None else [block.where]
        self._form: _Items | _States | _Gathered
        if block.aggregate is None:
            self._form = _Items(block)
        else:
            aggregation = aggregation_of(block)
            read = [*aggregation.keys, *(argument for arguments in aggregation.arguments for argument in arguments)]
            computed += read
            form = _Gathered if aggregation.holistic else _States
            self._form = form(aggregation, _columns_of(read), budget)
        self.cells = cells_of(computed)  # number of values that are computed for each row
        self._part_rows = part_rows(self.cells)

    def parts(self, rows: Rows) -> list[Part]:
        """The parts of these rows, all rows of a stretch of time in order of time and arrival."""
        found = []
        for start in range(0, max(1, len(rows)), self._part_rows):
            with self._budget.texts():
                found.append(self._part(rows.slice(start, min(start + self._part_rows, len(rows)))))
            self._budget.take(*self._form.size(found[-1]))
        return found

    def _part(self, rows: Rows) -> Part:
        kept = None if self._where is None else np.flatnonzero(flags(self._where(rows.batch)))
        # Keep at least one column, so that the batch has a number of rows.
        names = [name for name in rows.batch.schema.names if name in self._form.reads] or rows.batch.schema.names[:1]
        if len(names) < rows.batch.num_columns:
            rows = Rows(rows.batch.select(names), rows.times, rows.arrived, rows.ascends)
        return self._form.part(rows if kept is None else rows.take(kept))

    def whole(self, parts: list[Part]) -> pa.Table:
        """The relation of the rows of these parts: one or more, in order of time."""
        with self._budget.texts():
            return self._form.whole(parts)


def relation_in_parts(block: Block, rows: Rows, budget: ReadBudget) -> pa.Table:
    """The items of the block over exactly these rows, the contents of its window, in order."""
    partial = PartialRelation(block, budget)
    return partial.whole(partial.parts(rows))


def _columns_of(expressions: Iterable[Expression]) -> set[str]:
    return {column.name for expression in expressions for column in expression.columns()}


class _Items:
    def __init__(self, block: Block) -> None:
        self._items = [compiled(item.expression) for item in block.items]
        self._schema = pa.schema([(item.name, item.expression.type.to_arrow()) for item in block.items])
        self.reads = _columns_of(item.expression for item in block.items)

    def part(self, rows: Rows) -> pa.Table:
        return pa.Table.from_arrays([item(rows.batch) for item in self._items], schema=self._schema)

    def size(self, part: pa.Table) -> tuple[int, int]:
        return part.num_rows, part.nbytes

    def whole(self, parts: list[pa.Table]) -> pa.Table:
        return pa.concat_tables(parts).combine_chunks()


@dataclass(frozen=True)
class _Groups:
    keys: list[pa.Array]
    count: int
    states: dict[StateKey, StateMatrix]


class _States:
    def __init__(self, aggregation: Aggregation, reads: set[str], budget: ReadBudget) -> None:
        self._aggregation = aggregation
        self.reads = reads
        self._types = tuple(key.type for key in aggregation.keys)
        self._keys = [compiled(key) for key in aggregation.keys]
        self._pools: Pools = {}  # shared by all parts: a code means the same string in each
        self._pooled = 0  # bytes of the pools when they were last measured
        self._arguments = ArgumentPlan(aggregation.states, self._pools)

    def part(self, rows: Rows) -> _Groups:
        table = GroupTable(self._types)
        slots = np.zeros(len(rows), np.int64)
        if self._keys:
            slots = table.ids([key(rows.batch) for key in self._keys])
        arguments = self._arguments.read(rows.batch)
        states = {}
        for key in self._aggregation.states:
            states[key] = matrix_of(key.kind, len(table))
            ranks = ranks_of(key, self._pools)
            states[key].fold(slots, arguments.of(key), rows.times, rows.arrivals, ranks)
        keys = table.keys(np.arange(len(table), dtype=np.int64)) if self._keys else []
        return _Groups(keys, len(table), states)

    def size(self, part: _Groups) -> tuple[int, int]:
        states = sum(state.ints.nbytes + state.floats.nbytes for state in part.states.values())
        before, self._pooled = self._pooled, sum(pool.bytes_held for pool in self._pools.values())
        states += self._pooled - before
        # No rows are charged here: a group is in many parts, but is one row of the answer.
        return 0, states + sum(key.nbytes for key in part.keys)

    def whole(self, parts: list[_Groups]) -> pa.Table:
        table = GroupTable(self._types)
        places = [table.ids(part.keys) if self._keys else np.zeros(part.count, np.int64) for part in parts]
        fields = {}
        for key in self._aggregation.states:
            matrix, ranks = matrix_of(key.kind, len(table)), ranks_of(key, self._pools)
            for slots, part in zip(places, parts, strict=True):
                state = part.states[key]
                matrix.combine_at(slots, state.ints, state.floats, ranks)
            fields[key] = matrix.fields()
        keys = table.keys(np.arange(len(table), dtype=np.int64)) if self._keys else []
        return answered(self._aggregation, keys, fields, self._pools)


class _Gathered:
    def __init__(self, aggregation: Aggregation, reads: set[str], budget: ReadBudget) -> None:
        self._budget = budget
        self._aggregation = aggregation
        self.reads = reads

    def part(self, rows: Rows) -> Rows:
        return rows

    def size(self, part: Rows) -> tuple[int, int]:
        return 0, part.batch.nbytes

    def whole(self, parts: list[Rows]) -> pa.Table:
        return aggregated(self._aggregation, concatenated(parts), self._budget)
