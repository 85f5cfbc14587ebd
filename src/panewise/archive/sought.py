"""Conditions of reads as Arrow expressions, which prune row groups by their ranges and then filter rows."""

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

_ALTERNATIVES_MAX = 32  # With more values than this, row groups are pruned by the range of all values only.
_TUPLES_MAX = 1_000  # Arrow plans alternatives recursively and in quadratic time.


def moment(instant: Instant) -> Any:
    try:
        return pa.scalar(instant_us(instant), pa.int64()).cast(TIME)
    except OverflowError:
        raise ArchiveError(f"{instant} is not a valid instant", hint="microseconds since 1970 have 64 bits") from None


def visible_at(instant: Instant) -> Any:
    """Rows that are alive at an instant: `inserted <= t < expires`."""
    return (pc.field(INSERTED) <= moment(instant)) & (pc.field(EXPIRES) > moment(instant))


def within(column: str, span: Span) -> Any:
    """Rows whose column lies between two instants, both included; None leaves an end open."""
    low, high = (None if end is None else moment(end) for end in span)
    return _between(column, low, high)


def all_of(conditions: Sequence[Any]) -> Any:
    """The conjunction of the conditions that are not None; None if there is none."""
    given = [condition for condition in conditions if condition is not None]
    return reduce(and_, given) if given else None


@dataclass(frozen=True)
class KeySought:
    """A condition on the key: as an expression for rows, and as ranges of the first key column for the directories.
    None: no condition."""

    condition: Any = None
    spans: Sequence[KeySpan] | None = None


ANY_KEY = KeySought()


class KeyColumns:
    """Makes conditions on the key columns of an archive."""

    def __init__(self, schema: Schema, key: tuple[str, ...]) -> None:
        types = {column.name: column.type for column in schema}
        self.columns = [(name, types[name].to_arrow()) for name in key]

    def equal_to(self, keys: Sequence[Any]) -> KeySought:
        """Rows with one of the keys. A key is a value, or a tuple with a value for each key column; None finds NULL."""
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
                f"{len(tuples)} keys of several columns are too many for one read", hint=f"at most {_TUPLES_MAX} keys"
            )
        return of_each & reduce(or_, map(self._same_tuple, tuples))

    def _value_of(self, number: int, values: Sequence[Any]) -> Any:
        """Rows with one of the values in a key column."""
        column, kind = self.columns[number]
        known = [self._scalar(value, number) for value in values if value is not None]
        nulls = [pc.field(column).is_null()] if len(known) < len(values) else []
        if len(known) <= _ALTERNATIVES_MAX:
            return reduce(or_, [*(pc.field(column) == value for value in known), *nulls])
        listed = pa.array(known, kind)
        ends = pc.min_max(listed)
        if pa.types.is_floating(kind) and pc.any(pc.equal(listed, 0)).as_py():
            # `isin` hashes, and the two zeros are equal but have different hashes.
            listed = pa.concat_arrays([listed, pa.array([0.0, -0.0], kind)])
        return reduce(or_, [pc.field(column).isin(listed) & _between(column, ends["min"], ends["max"]), *nulls])

    def between(self, low: Any, high: Any) -> KeySought:
        """Rows whose first key column is between two values, both included; None leaves an end open."""
        if low is None and high is None:
            return ANY_KEY
        least, greatest = (None if value is None else self._scalar(value, 0) for value in (low, high))
        span = None if least is None else _comparable(least), None if greatest is None else _comparable(greatest)
        return KeySought(_between(self.columns[0][0], least, greatest), [span])

    def _checked(self, key: Any) -> tuple[Any, ...]:
        if not isinstance(key, tuple) or len(key) != len(self.columns):
            names = ", ".join(name for name, _ in self.columns)
            raise ArchiveError(f"{key!r} is not a key of this archive", hint=f"give a tuple of values for ({names})")
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
        raise ArchiveError(f"{value!r} is not a value of the key column '{name}', which is {kind}")


def _between(column: str, low: Any, high: Any) -> Any:
    field = pc.field(column)
    return all_of([None if low is None else field >= low, None if high is None else field <= high])


def _comparable(scalar: Any) -> Any:
    """The value as in the key directories: an instant is a number."""
    return scalar.value if pa.types.is_temporal(scalar.type) else scalar.as_py()
