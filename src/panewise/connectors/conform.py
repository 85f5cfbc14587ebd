"""Converts a batch read from a file to a stream's columns and types, without judging single rows.

Columns are found by name in any case, and ordered as declared. If some values of a column do not convert, the column is
passed on unconverted: the engine decides by the stream's `on_bad_row` whether a bad row fails its batch or is skipped.
An error is raised only for a missing column. Cost: one pass per column that is not yet of its type.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from panewise.connectors.epochs import EPOCH_UNITS
from panewise.errors import ConnectorError, did_you_mean
from panewise.schema import DATE, TIMESTAMP, DataType, Schema

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]


def matching_names(found: Iterable[str], schema: Schema, place: str) -> list[str]:
    """The name in the file of each column of the schema. Raises ConnectorError if a column is missing."""
    spelled = {name.lower(): name for name in reversed(list(found))}
    names = []
    for column in schema:
        name = spelled.get(column.name.lower())
        if name is None:
            raise ConnectorError(
                f"{place} has no column '{column.name}'", hint=did_you_mean(column.name, spelled.values())
            )
        names.append(name)
    return names


def conform(batch: pa.RecordBatch, schema: Schema, place: str, epoch: str | None = None) -> pa.RecordBatch:
    """The batch with the schema's columns. A column is converted if all its values convert."""
    import pyarrow as pa

    names = matching_names(batch.schema.names, schema, place)
    arrays = [
        converted(batch.column(batch.schema.get_field_index(name)), column.type, epoch)
        for name, column in zip(names, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, names=list(schema.names))


def converted(values: pa.Array, wanted: DataType, epoch: str | None = None) -> pa.Array:
    """The values in the wanted type, or unchanged if one of them does not convert."""
    import pyarrow as pa

    target = wanted.to_arrow()
    if values.type == target:
        return values
    if is_mixed(values.type):
        parts = [converted(part, wanted, epoch) for part, _ in parts_of(values)]
        return put_together(values, parts) if all(part.type == target for part in parts) else values
    if pa.types.is_dictionary(values.type) and values.type.value_type == target:
        return values  # the engine reads dictionaries directly, which is faster
    if not _related(values.type, wanted):
        return values
    try:
        if wanted == TIMESTAMP:
            return _instants(values, epoch)
        if wanted.name == "DECIMAL" and pa.types.is_integer(values.type):
            # Arrow first requires a precision that holds every value of the integer type, whatever the values are.
            return values.cast(pa.decimal128(38, wanted.scale)).cast(target)
        if wanted.name == "FLOAT":
            return _narrowed(values, target)
        return values.cast(target)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return values


def _narrowed(values: pa.Array, target: pa.DataType) -> pa.Array:
    """The values as 32-bit floats. Unchanged if a number is too large: Arrow would turn it into an infinity."""
    import pyarrow as pa
    import pyarrow.compute as pc

    result = values.cast(target)
    infinite = pc.is_inf(result)
    if pc.any(infinite).as_py() and not pc.all(pc.is_inf(values.filter(infinite).cast(pa.float64()))).as_py():
        return values
    return result


def is_mixed(type_: pa.DataType) -> bool:
    """Whether a column of this type has values of several types, that is, whether it is a dense union."""
    import pyarrow as pa

    return bool(pa.types.is_union(type_)) and type_.mode == "dense"


def references_of(values: pa.Array) -> list[tuple[pa.Array, pa.Array, Ints]]:
    """For each child of a union that is referred to: the child, the places in it, and the rows that refer to them."""
    import numpy as np
    import pyarrow as pa

    # The properties of a slice of a union describe the whole union, so its buffers are read instead.
    _, codes, offsets, *_ = values.buffers()
    here = slice(values.offset, values.offset + len(values))
    code_of, offset_of = np.frombuffer(codes, np.int8)[here], np.frombuffer(offsets, np.int32)[here]
    found = []
    for number, code in enumerate(values.type.type_codes):
        rows = np.flatnonzero(code_of == code)
        if len(rows):
            found.append((values.field(number), pa.array(offset_of[rows]), rows))
    return found


def parts_of(values: pa.Array) -> list[tuple[pa.Array, Ints]]:
    """For each child of a union that is referred to: its values and their rows."""
    return [(child.take(places), rows) for child, places, rows in references_of(values)]


def put_together(values: pa.Array, parts: list[pa.Array]) -> pa.Array:
    """Joins parts of a union, now all of one type, in the order of the union's rows."""
    import numpy as np
    import pyarrow as pa

    rows = [rows for _, rows in parts_of(values)]
    if not rows:
        return values
    places = np.empty(len(values), np.int64)
    places[np.concatenate(rows)] = np.arange(len(values))
    return pa.concat_arrays(parts).take(pa.array(places))


def _related(found: pa.DataType, wanted: DataType) -> bool:
    """Whether a conversion is allowed: texts are parsed, numbers stay numbers, nothing becomes a text."""
    import pyarrow as pa

    types = pa.types
    if types.is_dictionary(found):
        return _related(found.value_type, wanted)
    if types.is_null(found) or types.is_string(found) or types.is_large_string(found) or types.is_string_view(found):
        return True
    if types.is_integer(found) or types.is_floating(found) or types.is_decimal(found):
        return wanted.numeric or wanted == TIMESTAMP
    if types.is_date(found) or types.is_timestamp(found):
        return wanted in (DATE, TIMESTAMP)
    return False


def _instants(values: pa.Array, epoch: str | None) -> pa.Array:
    """Texts, dates, numbers and timestamps of any unit as UTC microseconds. Nanoseconds are floored."""
    import pyarrow as pa
    import pyarrow.compute as pc

    types = pa.types
    if types.is_dictionary(values.type):
        values = values.dictionary_decode()
    if types.is_string(values.type) or types.is_large_string(values.type) or types.is_string_view(values.type):
        values = _parsed(values) if epoch is None else _counted_or_parsed(values, epoch)
    elif types.is_integer(values.type) or types.is_floating(values.type) or types.is_decimal(values.type):
        if epoch is None:
            return values  # without an epoch, a number has no unit
        values = _counted(values, epoch)
    if types.is_timestamp(values.type) and values.type.unit == "ns":
        values = pc.floor_temporal(values, unit="microsecond")
    return values.cast(TIMESTAMP.to_arrow())


def _parsed(values: pa.Array) -> pa.Array:
    """Instants of ISO texts. A text without a zone is UTC."""
    import pyarrow as pa

    for unit in ("us", "ns"):
        for zone in (None, "UTC"):
            try:
                return values.cast(pa.timestamp(unit, tz=zone))
            except pa.ArrowInvalid:
                continue
    raise pa.ArrowInvalid("not all texts are instants")


def _counted_or_parsed(values: pa.Array, epoch: str) -> pa.Array:
    """Instants of texts that are all whole numbers, all numbers, or all ISO texts."""
    import pyarrow as pa

    for number in (pa.int64(), pa.float64()):
        try:
            return _counted(values.cast(number), epoch)
        except pa.ArrowInvalid:
            continue
    return _parsed(values)


def _counted(values: pa.Array, epoch: str) -> pa.Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    unit = EPOCH_UNITS[epoch]
    if not pa.types.is_integer(values.type):
        per_second = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}[unit]
        # Rounded, not floored, because 0.1 s as a double is not exactly 100,000 us.
        values = pc.round(pc.multiply(values.cast(pa.float64()), 1_000_000 / per_second)).cast(pa.int64())
        unit = "us"
    return values.cast(pa.int64()).cast(pa.timestamp(unit))
