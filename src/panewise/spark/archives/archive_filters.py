"""Filters that Spark pushes down, as conditions on an archive. Only those are taken that Arrow decides as Spark does.

Arrow's expression prunes row groups by their minima and maxima and then filters rows. The ranges of `_inserted` and
`_expires` choose files by the manifest alone. Spark does not evaluate a filter again that is taken here. So these are
taken, because they mean the same in both:

    =, <=>, IN, <, <=, IS NULL, IS NOT NULL    on every type
    >, >=                                      on every type but FLOAT and DOUBLE: in Spark NaN is above all numbers

All other filters are left to Spark, and so are these with NaN or with a value that the column's type does not have.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from panewise.archive.sought import EXPIRES, INSERTED, Span, all_of
from panewise.temporal import instant_us

if TYPE_CHECKING:
    from pyspark.sql.datasource import Filter

_WHOLE: Span = (None, None)


@dataclass(frozen=True)
class PushedFilters:
    """The conjunction of the filters that were taken; instants in microseconds, both ends included."""

    condition: Any = None
    inserted: Span = _WHOLE
    expires: Span = _WHOLE

    def narrowed(self, filter: Filter, kinds: Mapping[str, Any]) -> PushedFilters | None:
        """With one more filter; None if Spark must evaluate it. `kinds` has the Arrow types of the columns."""
        name = _column(filter, kinds)
        if name is None:
            return None
        condition = _condition(filter, name, kinds[name])
        if condition is None:
            return None
        spans = {INSERTED: self.inserted, EXPIRES: self.expires}
        if name in spans:
            spans[name] = _common(spans[name], _span(filter))
        return PushedFilters(all_of([self.condition, condition]), spans[INSERTED], spans[EXPIRES])


def _column(filter: Filter, kinds: Mapping[str, Any]) -> str | None:
    """The column of a filter; None if it is not one of `kinds`."""
    path: tuple[str, ...] = getattr(filter, "attribute", ())
    return path[0] if len(path) == 1 and path[0] in kinds else None


def _condition(filter: Filter, name: str, kind: Any) -> Any:
    from pyspark.sql import datasource as spark

    field, fractional = pc.field(name), pa.types.is_floating(kind)
    match filter:
        case spark.IsNull():
            return field.is_null()
        case spark.IsNotNull():
            return field.is_valid()
        case spark.EqualNullSafe(value=None):
            return field.is_null()
        case spark.In():
            return _one_of(name, kind, filter.value)
        case spark.EqualTo() | spark.EqualNullSafe():
            value = _scalar(filter.value, kind)
            return None if value is None else field == value
        case spark.LessThan():
            value = _scalar(filter.value, kind)
            return None if value is None else field < value
        case spark.LessThanOrEqual():
            value = _scalar(filter.value, kind)
            return None if value is None else field <= value
        case spark.GreaterThan() if not fractional:
            value = _scalar(filter.value, kind)
            return None if value is None else field > value
        case spark.GreaterThanOrEqual() if not fractional:
            value = _scalar(filter.value, kind)
            return None if value is None else field >= value
    return None


def _one_of(name: str, kind: Any, values: Iterable[Any]) -> Any:
    # `a IN (1, NULL)` is true where a = 1, and unknown elsewhere.
    scalars = [_scalar(value, kind) for value in values if value is not None]
    if any(scalar is None for scalar in scalars):
        return None
    if not scalars:
        return pc.scalar(False)
    listed = pa.array([scalar.as_py() for scalar in scalars], kind)
    if pa.types.is_boolean(kind):
        return pc.field(name).isin(listed)
    ends = pc.min_max(listed)
    # The range is there to prune row groups.
    return pc.field(name).isin(listed) & (pc.field(name) >= ends["min"]) & (pc.field(name) <= ends["max"])


def _scalar(value: Any, kind: Any) -> Any:
    """The value as one of the column's type; None if the conversion changes it."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    try:
        scalar = pa.scalar(value, kind)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return None
    return scalar if scalar.as_py() == value else None


def _span(filter: Filter) -> Span:
    """The instants that pass a filter on a column of time."""
    from pyspark.sql import datasource as spark

    match filter:
        case spark.EqualTo() | spark.EqualNullSafe() if filter.value is not None:
            return instant_us(filter.value), instant_us(filter.value)
        case spark.In():
            instants = [instant_us(value) for value in filter.value if value is not None]
            return (min(instants), max(instants)) if instants else _WHOLE
        case spark.LessThan():
            return None, instant_us(filter.value) - 1
        case spark.LessThanOrEqual():
            return None, instant_us(filter.value)
        case spark.GreaterThan():
            return instant_us(filter.value) + 1, None
        case spark.GreaterThanOrEqual():
            return instant_us(filter.value), None
    return _WHOLE


def _common(one: Span, other: Span) -> Span:
    lows = [instant_us(end) for end in (one[0], other[0]) if end is not None]
    highs = [instant_us(end) for end in (one[1], other[1]) if end is not None]
    return max(lows, default=None), min(highs, default=None)
