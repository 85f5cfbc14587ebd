"""The conditions of a WHERE on the key and the time of archived rows, which limit the files that are read.

Only comparisons with constants that are joined by AND are used; everything else is ignored. All rows that are found
pass the whole WHERE afterwards, so the conditions here are necessary, and need not be sufficient.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

import pyarrow as pa

from panewise.language.expressions import Call, Cast, ColumnRef, Expression
from panewise.plan.expressions.evaluate import compiled
from panewise.schema import BIGINT, INT, TIMESTAMP, DataType, Schema

# The most combinations of key values that are looked up one by one. For a key of one column Arrow takes one list. For
# several columns each combination is a condition of its own, and planning takes the square of their number.
KEYS_MAX, COMBINATIONS_MAX = 1_000, 100
_MIRRORED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "eq": "eq"}
_ORDERED = ("BOOLEAN", "INT", "BIGINT", "DECIMAL", "STRING", "DATE", "TIMESTAMP")  # without NaN, which orders apart


@dataclass(frozen=True)
class SoughtRows:
    """Rows to look for. `keys`: those with one of these keys, a tuple each; if None, those whose first key column is in
    the range `first`. `inserted`: the range of their times, in microseconds. Ranges include both ends; None is open."""

    keys: tuple[tuple[Any, ...], ...] | None = None
    first: tuple[Any, Any] = (None, None)
    inserted: tuple[int | None, int | None] = (None, None)

    @property
    def how(self) -> str:
        """For EXPLAIN."""
        if self.keys is not None:
            return f"probe of {len(self.keys)} {'key' if len(self.keys) == 1 else 'keys'}"
        return "scan" if self.first == (None, None) else "range of keys"


def sought_in(where: Expression | None, schema: Schema, key: tuple[str, ...], timestamp: str) -> SoughtRows:
    """The rows that may pass a WHERE."""
    values: dict[str, list[Any]] = {}
    ends: dict[str, tuple[Any, Any]] = {}
    for column, relation, constants in _comparisons(where):
        type_ = schema[column].type
        if column == timestamp and relation != "in" and type_ == TIMESTAMP:
            ends[column] = _narrowed(ends.get(column, (None, None)), relation, constants[0], step=1)
        elif column in key and relation in ("eq", "in"):
            known = values.get(column)
            values[column] = [value for value in constants if known is None or value in known]
        elif column == key[0] and str(type_).split("(")[0] in _ORDERED:
            ends[column] = _narrowed(ends.get(column, (None, None)), relation, constants[0])
    inserted = ends.get(timestamp, (None, None))
    most = KEYS_MAX if len(key) == 1 else COMBINATIONS_MAX
    if all(column in values for column in key) and math.prod(len(values[column]) for column in key) <= most:
        return SoughtRows(tuple(product(*(values[column] for column in key))), inserted=inserted)
    first = ends.get(key[0], (None, None)) if key[0] != timestamp else (None, None)
    if values.get(key[0]) and str(schema[key[0]].type).split("(")[0] in _ORDERED:
        first = min(values[key[0]]), max(values[key[0]])
    return SoughtRows(None, first, inserted)


def _comparisons(where: Expression | None) -> Iterator[tuple[str, str, list[Any]]]:
    """The conditions that compare a column with constants, as column, relation and constants."""
    if not isinstance(where, Call):
        return
    if where.function == "and":
        for part in where.arguments:
            yield from _comparisons(part)
        return
    if where.function == "in":
        column, *choices = where.arguments
        yield from _related("in", column, choices)
    elif where.function in _MIRRORED:
        left, right = where.arguments
        yield from _related(where.function, left, [right])
        yield from _related(_MIRRORED[where.function], right, [left])


def _related(relation: str, column: Expression, constants: list[Expression]) -> Iterator[tuple[str, str, list[Any]]]:
    # A comparison of INT with BIGINT casts the column, which keeps its values.
    widened = isinstance(column, Cast) and column.type == BIGINT and column.operand.type == INT
    named = column.operand if widened and isinstance(column, Cast) else column
    if not isinstance(named, ColumnRef) or any(constant.columns() or constant.aggregates() for constant in constants):
        return
    values = [_constant(constant) for constant in constants]
    if relation == "in":
        values = [value for value in values if value is not None]  # nothing equals NULL
    if any(value is None or not _fits(value, named.type) for value in values):
        return
    yield named.name, relation, values


def _constant(expression: Expression) -> Any:
    """The value of a constant expression; an instant in microseconds."""
    one_row = pa.RecordBatch.from_pydict({"": pa.nulls(1)})
    value = compiled(expression)(one_row)
    scalar = value[0] if isinstance(value, pa.Array | pa.ChunkedArray) else value
    if expression.type == TIMESTAMP and scalar.is_valid:
        return scalar.value
    return scalar.as_py()


def _fits(value: Any, type_: DataType) -> bool:
    """Whether a column of the type can hold the value; if not, files are not searched for it."""
    if isinstance(value, float) and math.isnan(value):
        return False
    try:
        pa.scalar(value, type_.to_arrow())
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return False
    return True


def _narrowed(ends: tuple[Any, Any], relation: str, value: Any, step: int = 0) -> tuple[Any, Any]:
    """A range, ends included, narrowed by one more comparison. `step`: the least distance of two values, if any."""
    low, high = ends
    if relation in ("gt", "ge", "eq"):
        least = value + step if relation == "gt" and step else value
        low = least if low is None else max(low, least)
    if relation in ("lt", "le", "eq"):
        most = value - step if relation == "lt" and step else value
        high = most if high is None else min(high, most)
    return low, high
