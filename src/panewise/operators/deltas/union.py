"""UNION ALL: the rows of both inputs in order of birth, with new numbers.

At one instant the left rows come first. The only state is for STRICT inputs: the new numbers of their live rows, by
which negative rows are translated. O(1) a row, O(log held) for an end. Golab 2006, section 3.5.1.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from panewise.aggregates.columns import wrapped
from panewise.arrays import Ints
from panewise.operators.joins.keyed_rows import Arrived, KeyedRows, arrived
from panewise.operators.relation_delta import NONE, Delta, DeltaOperator
from panewise.schema import Schema
from panewise.state.calendar_queue import CalendarQueue


class UnionAll(DeltaOperator):
    """The union of two inputs; `strict` says which of them are STRICT. `schema` is that of the left input.

    >>> from panewise.schema import BIGINT, Column
    >>> union = UnionAll(Schema((Column("a", BIGINT),)), strict=(False, False))
    >>> left = Delta(pa.record_batch({"a": [1, 2]}), np.array([5, 8]), np.array([0, 4]), np.array([9, 9]))
    >>> right = Delta(pa.record_batch({"b": [3]}), np.array([5]), np.array([2]), np.array([7]))
    >>> result = union.process([left, right], 0, 10)
    >>> result.batch.to_pydict(), result.sequences.tolist(), result.deaths.tolist()
    ({'a': [1, 3, 2]}, [0, 1, 2], [9, 7, 9])
    """

    name = "UnionAll"

    def __init__(self, schema: Schema, strict: tuple[bool, bool]) -> None:
        self._schema = schema.to_arrow()
        # A row's key is its new number.
        self._rows = [KeyedRows(CalendarQueue) if is_strict else None for is_strict in strict]
        self._next = 0

    @property
    def bytes_held(self) -> int:
        return sum(rows.bytes_held for rows in self._rows if rows is not None)

    def process(self, inputs: list[Delta], since: int, until: int) -> Delta:
        sides = [arrived(delta) for delta in inputs]
        births = np.concatenate([side.births for side in sides])
        order = np.argsort(births, kind="stable")
        numbers = np.empty(len(order), np.int64)
        numbers[order] = np.arange(self._next, self._next + len(order))
        self._next += len(order)
        parts = [self._part(delta, side) for delta, side in zip(inputs, sides, strict=True)]
        batch = pa.concat_batches([part for part in parts if len(part)] or parts[:1])
        if len(sides[0]) and len(sides[1]):
            batch = batch.take(wrapped(order))
        deaths = np.concatenate([side.deaths for side in sides])[order]
        split = len(sides[0])
        ends = [
            self._ends(rows, delta, side, own, until)
            for rows, delta, side, own in zip(
                self._rows, inputs, sides, (numbers[:split], numbers[split:]), strict=True
            )
        ]
        ended, ended_at = (np.concatenate(column) for column in zip(*ends, strict=True))
        by_instant = np.argsort(ended_at, kind="stable")
        sequences = np.arange(self._next - len(order), self._next)
        return Delta(batch, sequences, births[order], deaths, ended[by_instant], ended_at[by_instant])

    def _part(self, delta: Delta, side: Arrived) -> pa.RecordBatch:
        batch = delta.batch if side.whole else delta.batch.take(wrapped(side.positions))
        return pa.RecordBatch.from_arrays(batch.columns, schema=self._schema)

    def _ends(
        self, rows: KeyedRows | None, delta: Delta, side: Arrived, numbers: Ints, until: int
    ) -> tuple[Ints, Ints]:
        """The new numbers of the rows that end, and when."""
        if rows is None:
            assert not len(delta.ended), "rows of an input that is not STRICT end before their death"
            return NONE, NONE
        rows.append(side.sequences, numbers, side.deaths)
        left = rows.leave(delta.ended, delta.ended_at, until)
        ended = left.premature == 1
        result = rows.keys[left.slots[ended]], left.instants[ended]
        if rows.sparse():
            rows.close_up()
        return result

    def snapshot(self) -> dict[str, Any]:
        for rows in self._rows:
            if rows is not None:
                rows.close_up()
        return {"rows": [None if rows is None else rows.snapshot() for rows in self._rows], "next": self._next}

    def restore(self, snapshot: dict[str, Any]) -> None:
        for rows, held in zip(self._rows, snapshot["rows"], strict=True):
            if rows is not None:
                rows.restore(held)
        self._next = snapshot["next"]
