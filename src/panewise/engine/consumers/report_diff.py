"""The last step of periodic queries with ISTREAM, DSTREAM or RESTORE: the changes between reports."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from panewise.arrays import Ints
from panewise.operators.family.family import Family
from panewise.operators.relation_to_stream import CountedReports, RelationToStream, Restore
from panewise.operators.row_batch import Rows
from panewise.operators.row_operator import RowOperator
from panewise.temporal import TimeWindow


class Finish(ABC):
    """The last step of a query: makes its results from its reports."""

    @abstractmethod
    def process(self, reports: pa.Table, points: Ints, upto: int, times: Callable[[Ints], Ints]) -> pa.Table:
        """The results of the rows of all reports that have come due up to a point. `points`: the report of each row, on
        the axis of the family; `times`: the event times of row numbers."""

    @abstractmethod
    def snapshot(self) -> dict[str, Any]: ...

    @abstractmethod
    def restore(self, snapshot: dict[str, Any]) -> None: ...


class TimedFinish(Finish):
    """Reports of a time window, compared one with the next."""

    def __init__(self, relation: RelationToStream, window: TimeWindow) -> None:
        self._relation = relation
        self._window = window

    def process(self, reports: pa.Table, points: Ints, upto: int, times: Callable[[Ints], Ints]) -> pa.Table:
        return self._relation.process(reports, self._window, upto)

    def snapshot(self) -> dict[str, Any]:
        return self._relation.snapshot()

    def restore(self, snapshot: dict[str, Any]) -> None:
        self._relation.restore(snapshot)


class CountedFinish(Finish):
    """Reports of a row window: `points` are their row numbers, `times` maps row numbers to event times."""

    def __init__(self, relation: RelationToStream, rows: int, slide: int, offset: int, last: int) -> None:
        self._relation = relation
        self._rows, self._slide, self._offset = rows, slide, offset
        self._last = last // slide  # The number of the last report.

    def process(self, reports: pa.Table, points: Ints, upto: int, times: Callable[[Ints], Ints]) -> pa.Table:
        first, after = self._last + 1, upto // self._slide + 1
        ends = np.arange(first, after, dtype=np.int64) * self._slide - self._offset
        self._last = max(self._last, after - 1)
        if not len(ends):
            return reports.slice(0, 0)
        starts = times(np.maximum(ends - self._rows, 0))
        values = reports.select(reports.schema.names[2:])
        counted = CountedReports(first, starts, times(np.maximum(ends - 1, 0)), points // self._slide, values)
        return self._relation.process_counted(counted)

    def snapshot(self) -> dict[str, Any]:
        return {"relation": self._relation.snapshot(), "last": self._last}

    def restore(self, snapshot: dict[str, Any]) -> None:
        self._relation.restore(snapshot["relation"])
        self._last = snapshot["last"]


class RestoredOperator(RowOperator):
    """RESTORE: a continuous operator beside the periodic one, and the reports of both together."""

    answers_past = False

    def __init__(self, continuous: RowOperator, periodic: RowOperator, restore: Restore, schema: pa.Schema) -> None:
        self._continuous = continuous
        self._periodic = periodic
        self._restore = restore
        self._last: pa.Table = schema.empty_table()  # The last report with rows.

    @property
    def bytes_held(self) -> int:
        parts = (self._continuous, self._periodic, self._restore)
        return sum(part.bytes_held for part in parts)

    def process(self, rows: Rows, watermark: int) -> pa.Table:
        insertions = self._continuous.process(rows, watermark)
        reports = self._periodic.process(rows, watermark)
        table = self._restore.process(reports, insertions, watermark)
        if table.num_rows:
            ends = table.column("window_end")
            self._last = table.filter(pc.equal(ends, ends[-1]))
        return table

    @property
    def most_in_report(self) -> int:
        return self._periodic.most_in_report

    def lookup(self, at: int) -> pa.Table:
        return self._last

    def snapshot(self) -> dict[str, Any]:
        return {
            "continuous": self._continuous.snapshot(),
            "periodic": self._periodic.snapshot(),
            "restore": self._restore.snapshot(),
            "last": self._last,
        }

    def restore(self, snapshot: dict[str, Any]) -> None:
        self._last = snapshot.get("last", self._last)
        self._continuous.restore(snapshot["continuous"])
        self._periodic.restore(snapshot["periodic"])
        self._restore.restore(snapshot["restore"])


class SoleFamily(RowOperator):
    """A family of one query as an operator; RESTORE runs a continuous operator beside it."""

    def __init__(self, family: Family, name: str, schema: pa.Schema) -> None:
        self._family = family
        self._name = name
        self._schema = schema

    @property
    def bytes_held(self) -> int:
        return self._family.bytes_held

    @property
    def most_in_report(self) -> int:
        return self._family.group_count

    def process(self, rows: Rows, watermark: int) -> pa.Table:
        batches = []
        pieces = self._family.process(rows, rows.times, watermark)
        for piece in pieces.get(self._name, []):
            if not isinstance(piece, pa.RecordBatch):
                ends = piece.first + piece.slide * np.arange(piece.count, dtype=np.int64)
                piece = self._family.empty_batch(self._family.members[self._name], ends)
                if piece is None:
                    continue
            stamps = [piece.column(i).view(pa.timestamp("us", tz="UTC")) for i in range(2)]
            batches.append(pa.RecordBatch.from_arrays([*stamps, *piece.columns[2:]], schema=self._schema))
        return pa.Table.from_batches(batches, schema=self._schema)

    def lookup(self, at: int) -> pa.Table:
        raise AssertionError("RESTORE keeps the last report of both operators")

    def snapshot(self) -> dict[str, Any]:
        return self._family.snapshot()

    def restore(self, snapshot: dict[str, Any]) -> None:
        self._family.restore(snapshot)
