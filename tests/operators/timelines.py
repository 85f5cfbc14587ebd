"""What the tests of ordered operators share: a small stream, queries over it, and the slow, obvious way to answer them.

A row is `(ts, k, g, n, x)`: its event time in microseconds, two STRING columns, a BIGINT and a DOUBLE, all but the
first may be None. Rows are listed in (time, arrival) order.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from panewise.aggregates.builtin import find
from panewise.language.expressions import ColumnRef, Expression, Literal
from panewise.language.functions import resolve
from panewise.language.statements import SelectItem
from panewise.operators.row_batch import Rows
from panewise.plan.aggregation import Aggregation
from panewise.schema import BIGINT, DOUBLE, STRING, TIMESTAMP, Column, Schema
from panewise.temporal import RowsWindow, TimeWindow, Window

Row = tuple[int, str | None, str | None, int | None, float | None]
Values = tuple[Any, ...]
SCHEMA = Schema(
    (Column("ts", TIMESTAMP), Column("k", STRING), Column("g", STRING), Column("n", BIGINT), Column("x", DOUBLE))
)
TS, K, G, N, X = (ColumnRef(column.type, column.name) for column in SCHEMA)
POSITIVE = resolve("gt", (N, Literal(BIGINT, 0)))


def rows_of(rows: Sequence[Row], first_arrival: int = 0) -> Rows:
    columns = list(zip(*rows, strict=True)) if rows else [()] * 5
    arrays = [pa.array(list(values), field.type) for values, field in zip(columns, SCHEMA.to_arrow(), strict=True)]
    batch = pa.RecordBatch.from_arrays(arrays, schema=SCHEMA.to_arrow())
    times = np.array(columns[0], np.int64)
    return Rows(batch, times, np.arange(first_arrival, first_arrival + len(rows)))


class Query:
    """An aggregation as an operator takes it and as `answer` computes it."""

    def __init__(self, keys: Sequence[str], aggregates: Sequence[tuple[str, str | None]], shown: bool = True) -> None:
        self.keys = list(keys)
        self.aggregates = list(aggregates)
        self.shown = shown
        self.having = False

    def with_having(self) -> Query:
        """HAVING COUNT(*) > 1; the first aggregate is COUNT(*)."""
        self.having = True
        return self

    def aggregation(self) -> Aggregation:
        columns = {"k": K, "g": G, "n": N, "x": X}
        arguments = [() if name is None else (columns[name],) for _, name in self.aggregates]
        bound = []
        for (function, _), given in zip(self.aggregates, arguments, strict=True):
            found = find(function)
            assert found is not None
            bound.append(found.bound(tuple(argument.type for argument in given)))
        items = [SelectItem(name, ColumnRef(STRING, f"key_{i}")) for i, name in enumerate(self.keys) if self.shown]
        items += [SelectItem(f"a{i}", ColumnRef(b.result_type, f"aggregate_{i}")) for i, b in enumerate(bound)]
        having: Expression | None = None
        if self.having:
            having = resolve("gt", (ColumnRef(BIGINT, "aggregate_0"), Literal(BIGINT, 1)))
        keys: tuple[Expression, ...] = tuple(columns[name] for name in self.keys)
        return Aggregation(keys, tuple(bound), tuple(arguments), tuple(items), having)

    def answer(self, rows: Iterable[Row]) -> list[Values]:
        """The relation of the rows of a window."""
        groups: dict[Values, list[Row]] = {} if self.keys else {(): []}
        for row in rows:
            groups.setdefault(tuple(field(row, name) for name in self.keys), []).append(row)
        found = []
        for key, members in groups.items():
            if self.having and len(members) <= 1:
                continue
            folded = tuple(fold(function, name, members) for function, name in self.aggregates)
            found.append((*(key if self.shown else ()), *folded))
        return found


def field(row: Row, name: str) -> Any:
    return row["ts k g n x".split().index(name)]


def fold(function: str, name: str | None, rows: list[Row]) -> Any:
    if name is None:
        return len(rows)
    values = [field(row, name) for row in rows if field(row, name) is not None]
    if function == "COUNT":
        return len(values)
    if not values:
        return None
    pick: dict[str, Callable[[list[Any]], Any]] = {
        "SUM": sum,
        "MIN": min,
        "MAX": max,
        "FIRST": lambda v: v[0],
        "LAST": lambda v: v[-1],
        "AVG": lambda v: sum(v) / len(v),
    }
    return pick[function](values)


def passes(row: Row, where: bool) -> bool:
    return not where or (row[3] is not None and row[3] > 0)


def partition_of(window: RowsWindow, row: Row) -> Values:
    return tuple(field(row, name) for name in window.partition_by)


def in_window(window: Window, rows: Sequence[Row], at: int) -> list[Row]:
    """The rows in a continuous window at an instant."""
    if isinstance(window, TimeWindow):
        born = [row for row in rows if row[0] + window.offset_us <= at]
        return [row for row in born if window.range_us is None or at < row[0] + window.offset_us + window.range_us]
    seen: dict[Values, list[int]] = {}
    for position, row in enumerate(rows):
        if row[0] <= at:
            seen.setdefault(partition_of(window, row), []).append(position)
    kept: list[int] = []
    for positions in seen.values():
        end = max(0, len(positions) - window.offset)
        kept += positions[max(0, end - window.rows) : end]
    return [rows[position] for position in sorted(kept)]


def identity(value: Any) -> Any:
    """Equal for what a multiset takes for the same."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    return value


def multiset(values: Iterable[Values]) -> Counter[Values]:
    return Counter(tuple(identity(value) for value in row) for row in values)


def table_rows(table: pa.Table) -> list[Values]:
    """The rows of a result, with timestamps as microseconds."""
    columns = []
    for column in table.columns:
        if pa.types.is_timestamp(column.type):
            column = column.cast(pa.int64())
        columns.append(column.to_pylist())
    return list(zip(*columns, strict=True))


def through_ipc(value: Any) -> Any:
    """A snapshot as it comes back from storage: arrays read-only, everything else equal."""
    if isinstance(value, dict):
        return {name: through_ipc(part) for name, part in value.items()}
    if isinstance(value, list):
        return [through_ipc(part) for part in value]
    if isinstance(value, np.ndarray):
        assert value.ndim == 1, "snapshots hold flat arrays"
        copy = value.copy()
        copy.flags.writeable = False
        return copy
    assert value is None or isinstance(value, (int, float, str, bool, pa.RecordBatch, pa.Table)), type(value)
    return value
