"""What a query asks of an archive, as one Arrow expression: it prunes row groups by their ranges, then filters rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import reduce
from math import prod
from operator import and_, or_
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from panewise.archive.key_directory import KeySpan
from panewise.errors import ArchiveError
from panewise.schema import Schema
from panewise.temporal import instant_us

INSERTED = "_inserted"
EXPIRES = "_expires"
TIME = pa.timestamp("us", tz="UTC")
Instant = int | str | datetime
Span = tuple[Instant | None, Instant | None]

_ALTERNATIVES_MAX = 32  # row groups are pruned by each of so many values, past it by the range of all
_TUPLES_MAX = 1_000  # Arrow plans a condition of as many alternatives in quadratic time and by recursion


def moment(instant: Instant) -> Any:
    try:
        return pa.scalar(instant_us(instant), pa.int64()).cast(TIME)
    except OverflowError:
        raise ArchiveError(f"{instant} is no instant", hint="microseconds since 1970 have 64 bits") from None


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


@dataclass(frozen=True)
class KeySought:
    """What is asked of the key: of every row, and of the first column alone, for the directories (None: anything)."""

    condition: Any = None
    spans: Sequence[KeySpan] | None = None


ANY_KEY = KeySought()


class KeyColumns:
    """The key of an archive: conditions on its columns."""

    def __init__(self, schema: Schema, key: tuple[str, ...]) -> None:
        types = {column.name: column.type for column in schema}
        self.columns = [(name, types[name].to_arrow()) for name in key]

    def equal_to(self, keys: Sequence[Any]) -> KeySought:
        """One of the keys: a value each, or a tuple of as many values as the key has columns; None finds NULL."""
        condition = self._one_of(keys)
        first = [key[0] if isinstance(key, tuple) else key for key in keys]
        if None in first:
            return KeySought(condition)
        values = [_comparable(self._scalar(value, 0)) for value in first]
        return KeySought(condition, [(value, value) for value in values])

    def _one_of(self, keys: Sequence[Any]) -> Any:
        if not keys:
            return pc.scalar(False)
        if len(self.columns) == 1:
            return self._value_of(0, [key[0] if isinstance(key, tuple) and len(key) == 1 else key for key in keys])
        tuples = list(dict.fromkeys(map(self._checked, keys)))
        choices = [list(dict.fromkeys(values)) for values in zip(*tuples, strict=True)]
        of_each = all_of([self._value_of(number, values) for number, values in enumerate(choices)])
        if len(tuples) == prod(map(len, choices)):
            return of_each
        if len(tuples) > _TUPLES_MAX:
            raise ArchiveError(
                f"{len(tuples)} keys of several columns are too many at once", hint=f"ask for at most {_TUPLES_MAX}"
            )
        return of_each & reduce(or_, map(self._same_tuple, tuples))

    def _value_of(self, number: int, values: Sequence[Any]) -> Any:
        """A column of the key has one of the values."""
        column, kind = self.columns[number]
        known = [self._scalar(value, number) for value in values if value is not None]
        nulls = [pc.field(column).is_null()] if len(known) < len(values) else []
        if len(known) <= _ALTERNATIVES_MAX:
            return reduce(or_, [*(pc.field(column) == value for value in known), *nulls])
        listed = pa.array(known, kind)
        ends = pc.min_max(listed)
        if pa.types.is_floating(kind) and pc.any(pc.equal(listed, 0)).as_py():
            # Zeros of both signs are equal, and have different hashes.
            listed = pa.concat_arrays([listed, pa.array([0.0, -0.0], kind)])
        return reduce(or_, [pc.field(column).isin(listed) & _between(column, ends["min"], ends["max"]), *nulls])

    def between(self, low: Any, high: Any) -> KeySought:
        """The first column of the key between two values, both included; None leaves an end open."""
        if low is None and high is None:
            return ANY_KEY
        least, greatest = (None if value is None else self._scalar(value, 0) for value in (low, high))
        span = None if least is None else _comparable(least), None if greatest is None else _comparable(greatest)
        return KeySought(_between(self.columns[0][0], least, greatest), [span])

    def _checked(self, key: Any) -> tuple[Any, ...]:
        if not isinstance(key, tuple) or len(key) != len(self.columns):
            names = ", ".join(name for name, _ in self.columns)
            raise ArchiveError(f"{key!r} is no key of this archive", hint=f"give a tuple of values for ({names})")
        return key

    def _same_tuple(self, key: tuple[Any, ...]) -> Any:
        return reduce(and_, [self._value_of(number, [value]) for number, value in enumerate(key)])

    def _scalar(self, value: Any, number: int) -> Any:
        name, kind = self.columns[number]
        if pa.types.is_timestamp(kind) and isinstance(value, int | str | datetime):
            return moment(value)
        try:
            if not (pa.types.is_integer(kind) and isinstance(value, float) and not value.is_integer()):
                return pa.scalar(value, kind)
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            pass
        raise ArchiveError(f"{value!r} is no value of the key column '{name}', which is {kind}")


def _between(column: str, low: Any, high: Any) -> Any:
    field = pc.field(column)
    return all_of([None if low is None else field >= low, None if high is None else field <= high])


def _comparable(scalar: Any) -> Any:
    """As the directories have it: an instant as its number."""
    return scalar.value if pa.types.is_temporal(scalar.type) else scalar.as_py()
