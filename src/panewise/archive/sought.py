"""What a query asks of an archive, as one Arrow expression: it prunes row groups by their ranges, then filters rows."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import reduce
from operator import and_, or_
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from panewise.errors import ArchiveError
from panewise.schema import Schema
from panewise.temporal import instant_us

INSERTED = "_inserted"
EXPIRES = "_expires"
TIME = pa.timestamp("us", tz="UTC")
Instant = int | str | datetime
Span = tuple[Instant | None, Instant | None]

_ALTERNATIVES_MAX = 32  # row groups are pruned by each of so many values, past it by the range of all


def moment(instant: Instant) -> Any:
    return pa.scalar(instant_us(instant), pa.int64()).cast(TIME)


def visible_at(instant: Instant) -> Any:
    """Rows whose life covers an instant: `inserted <= t < expires`."""
    return (pc.field(INSERTED) <= moment(instant)) & (pc.field(EXPIRES) > moment(instant))


def within(column: str, span: Span) -> Any:
    """Between two instants, both included; None leaves an end open."""
    low, high = (None if end is None else moment(end) for end in span)
    return _between(column, low, high)


def all_of(conditions: Sequence[Any]) -> Any:
    """None where there is no condition."""
    given = [condition for condition in conditions if condition is not None]
    return reduce(and_, given) if given else None


class KeyColumns:
    """The key of an archive: conditions on its columns."""

    def __init__(self, schema: Schema, key: tuple[str, ...]) -> None:
        types = {column.name: column.type for column in schema}
        self.columns = [(name, types[name].to_arrow()) for name in key]

    def equal_to(self, keys: Sequence[Any]) -> Any:
        """One of the keys: a value each, or a tuple of as many values as the key has columns; None finds NULL."""
        if not keys:
            return pc.scalar(False)
        if len(self.columns) == 1:
            column, kind = self.columns[0]
            values = [key[0] if isinstance(key, tuple) and len(key) == 1 else key for key in keys]
            if len(values) > _ALTERNATIVES_MAX and None not in values:
                listed = pa.array([self._scalar(value, 0).as_py() for value in values], kind)
                ends = pc.min_max(listed)
                return pc.field(column).isin(listed) & _between(column, ends["min"], ends["max"])
            return reduce(or_, [self._same(0, value) for value in values])
        return reduce(or_, [self._tuple(key) for key in keys])

    def between(self, low: Any, high: Any) -> Any:
        """The first column of the key between two values, both included; None leaves an end open."""
        column = self.columns[0][0]
        return _between(
            column,
            None if low is None else self._scalar(low, 0),
            None if high is None else self._scalar(high, 0),
        )

    def _tuple(self, key: Any) -> Any:
        if not isinstance(key, tuple) or len(key) != len(self.columns):
            names = ", ".join(name for name, _ in self.columns)
            raise ArchiveError(f"{key!r} is no key of this archive", hint=f"give a tuple of values for ({names})")
        return reduce(and_, [self._same(number, value) for number, value in enumerate(key)])

    def _same(self, number: int, value: Any) -> Any:
        field = pc.field(self.columns[number][0])
        return field.is_null() if value is None else field == self._scalar(value, number)

    def _scalar(self, value: Any, number: int) -> Any:
        name, kind = self.columns[number]
        if pa.types.is_timestamp(kind) and isinstance(value, int | str | datetime):
            return moment(value)
        try:
            return pa.scalar(value, kind)
        except (pa.ArrowException, TypeError, ValueError) as problem:
            raise ArchiveError(f"{value!r} is no value of the key column '{name}', which is {kind}") from problem


def _between(column: str, low: Any, high: Any) -> Any:
    field = pc.field(column)
    return all_of([None if low is None else field >= low, None if high is None else field <= high])
