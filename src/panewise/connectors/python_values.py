"""Converts the Python values of one column, of any types, to one Arrow array.

A column whose values have several types becomes a dense union: one child for the values that fit the column's type, if
it is known, and one for each other type. So a value that does not fit does not affect the others, and each can be
judged alone (`conform.converted`, `engine/ingest/intake`). Cost: one pass, and one more per type if types are mixed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from panewise.connectors.epochs import are_misread
from panewise.schema import STRING, TIMESTAMP, DataType

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Reading:
    """How integers in a TIMESTAMP column are read; see `fitted`."""

    counts: bool = False
    guards: bool = True


_KINDS_MOST = 100  # a union numbers its children with one byte


def fitted(values: list[Any], type_: DataType, *, counts: bool, guards: bool = True) -> pa.Array:
    """An array of the column's type if all values fit, else a union.

    `counts`: integers are microseconds since 1970. With `guards`, integers that probably count seconds or milliseconds
    do not fit.
    """
    reading = Reading(counts, guards)
    array = fitting(values, type_, reading)
    return mixed(values, type_, reading) if array is None else array


def plain(values: list[Any], type_: DataType) -> pa.Array:
    """An array of the values' own type, or a union if they have several. Nothing is converted to the column's type."""
    import pyarrow as pa

    try:
        return mixed(values, type_) if _has_truth_among_others(values) else pa.array(values)
    except unfit():
        return mixed(values, type_)


def _has_truth_among_others(values: list[Any]) -> bool:
    """Whether truth values are mixed with other values. After a fraction, Arrow would read them as 0 and 1."""
    kinds = set(map(type, values)) - {type(None)}
    return bool in kinds and len(kinds) > 1


def fitting(values: list[Any], type_: DataType, reading: Reading) -> pa.Array | None:
    """The values as an array of the column's type, or None if one does not fit."""
    import numpy as np
    import pyarrow as pa

    kinds = set(map(type, values))
    # Arrow would silently cut the fraction off a float. Read as a float, it converts later or is a bad value.
    if not type_.fractional and any(issubclass(kind, float) for kind in kinds):
        return None
    if type_.numeric and (bool in kinds or np.bool_ in kinds):
        return None  # Arrow would read them as 0 and 1 in a column of fractions
    if type_ == TIMESTAMP and any(issubclass(kind, int | np.integer) for kind in kinds):
        if not reading.counts:
            return None
        if reading.guards and are_misread(int(value) for value in values if isinstance(value, int | np.integer)):
            return None
    try:
        array = pa.array(values, type=type_.to_arrow())
    except unfit():
        return None
    return None if type_.name == "FLOAT" and _has_overflowed(array, values) else array


def _has_overflowed(array: pa.Array, values: list[Any]) -> bool:
    """Whether Arrow turned a number that is too large into an infinity."""
    import pyarrow.compute as pc

    infinite = pc.indices_nonzero(pc.is_inf(array)).to_pylist()
    return any(not math.isinf(values[row]) for row in infinite)


def mixed(values: list[Any], type_: DataType | None = None, reading: Reading | None = None) -> pa.Array:
    """A dense union of the values, or an ordinary array if one type is enough.

    `type_`: the type of the column, if known. With a `reading`, values that fit the type are converted to it.
    """
    import numpy as np
    import pyarrow as pa

    rows_by_kind: dict[type, list[int]] = {}
    missing: list[int] = []
    for row, value in enumerate(values):
        if value is None:
            missing.append(row)
        else:
            rows_by_kind.setdefault(type(value), []).append(row)
    children: list[pa.Array] = []
    places: list[list[int]] = []
    for rows in list(rows_by_kind.values())[: _KINDS_MOST // 3]:
        own = [values[row] for row in rows]
        for array, at in _of_kind(own, rows, type_, reading):
            children.append(array)
            places.append(at)
    rest = [row for rows in list(rows_by_kind.values())[_KINDS_MOST // 3 :] for row in rows]
    if rest:
        children.append(_shown([values[row] for row in rest], type_))
        places.append(rest)
    if missing:
        children.append(pa.nulls(len(missing), pa.string()))
        places.append(missing)
    if len(children) == 1:
        return children[0]
    codes, offsets = np.empty(len(values), np.int8), np.empty(len(values), np.int32)
    for number, rows in enumerate(places):
        codes[rows], offsets[rows] = number, np.arange(len(rows))
    names = [str(number) for number in range(len(children))]
    return pa.UnionArray.from_dense(pa.array(codes), pa.array(offsets), children, names)


def _of_kind(
    values: list[Any], rows: list[int], type_: DataType | None, reading: Reading | None
) -> Iterator[tuple[pa.Array, list[int]]]:
    """Divides values of one Python type: those that fit the column, others that Arrow has a type for, and the rest."""
    if type_ is not None and reading is not None and not _never_fits(values[0], type_, reading):
        fit, others = _divided(values, rows, lambda part: fitting(part, type_, reading) is not None)
        if fit[0]:
            array = fitting(fit[0], type_, reading)
            assert array is not None
            yield array, fit[1]
        values, rows = others
    typed, others = _divided(values, rows, _has_type)
    if typed[0]:
        import pyarrow as pa

        yield pa.array(typed[0]), typed[1]
    if others[0]:
        yield _shown(others[0], type_), others[1]


def _never_fits(value: Any, type_: DataType, reading: Reading) -> bool:
    """Whether no value of this Python type fits: a text in a column of another type, or a number that is not a time."""
    if isinstance(value, str):
        return type_ != STRING
    return type_ == TIMESTAMP and isinstance(value, int) and not reading.counts


_Part = tuple[list[Any], list[int]]


def _divided(values: list[Any], rows: list[int], passes: Callable[[list[Any]], bool]) -> tuple[_Part, _Part]:
    """The values that pass and those that do not, with their rows. None passes if they pass alone but not together."""
    if not values or passes(values):
        return (values, rows), ([], [])
    good = _each(values, passes)
    chosen = [value for value, is_good in zip(values, good, strict=True) if is_good]
    if chosen and not passes(chosen):  # each has a type, but they have no common one, as lists of different types
        good = [False] * len(values)
    parts: tuple[_Part, _Part] = (([], []), ([], []))
    for value, row, is_good in zip(values, rows, good, strict=True):
        own = parts[0] if is_good else parts[1]
        own[0].append(value)
        own[1].append(row)
    return parts


def _each(values: list[Any], passes: Callable[[list[Any]], bool]) -> list[bool]:
    """Which values pass. Found by halving, because usually few do not pass."""
    if passes(values):
        return [True] * len(values)
    if len(values) == 1:
        return [False]
    middle = len(values) // 2
    return _each(values[:middle], passes) + _each(values[middle:], passes)


def _has_type(values: list[Any]) -> bool:
    import pyarrow as pa

    try:
        pa.array(values)
    except unfit():
        return False
    return True


def _shown(values: list[Any], type_: DataType | None) -> pa.Array:
    """Values that Arrow has no type for, such as a number beyond 64 bits, as texts to show in the error message."""
    import pyarrow as pa

    texts = [str(value) for value in values]
    if type_ not in (None, STRING) and all(map(is_unicode, texts)):
        return pa.array(texts, pa.string())
    # A binary value is a bad value in a column of any type.
    return pa.array([text.encode(errors="surrogatepass") for text in texts], pa.binary())


def is_unicode(text: str) -> bool:
    """Whether a text can be encoded as UTF-8, which half of a surrogate pair cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def unfit() -> tuple[type[Exception], ...]:
    """The exceptions that Arrow raises for a value that does not fit the requested type."""
    import pyarrow as pa

    return pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError, TypeError, ValueError


def table_of_frame(frame: Any) -> pa.Table:
    """A pandas frame as an Arrow table. A column that mixes types becomes a union."""
    import pyarrow as pa

    if frame.columns.has_duplicates or not _mixes(frame):
        try:
            return pa.Table.from_pandas(frame, preserve_index=False)
        except unfit():
            if frame.columns.has_duplicates:
                raise
    return pa.table({str(name): _of_series(frame[name]) for name in frame.columns})


def _mixes(frame: Any) -> bool:
    """Whether a column of the frame has values of several types."""
    from pandas.api.types import infer_dtype

    objects = (frame[name] for name, dtype in frame.dtypes.items() if dtype.name == "object")
    return any(infer_dtype(column, skipna=True) == "mixed" for column in objects)


def _of_series(series: Any) -> pa.Array:
    import pyarrow as pa

    values = None
    if series.dtype.name == "object":
        missing = series.isna().tolist()
        values = [None if gone else value for value, gone in zip(series.tolist(), missing, strict=True)]
    try:
        return pa.array(series, from_pandas=True) if values is None else _inferred(values)
    except unfit():
        return mixed(series.tolist() if values is None else values)


def _inferred(values: list[Any]) -> pa.Array:
    import pyarrow as pa

    return mixed(values) if _has_truth_among_others(values) else pa.array(values, from_pandas=True)
