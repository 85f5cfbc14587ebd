"""A batch as a file holds it, to a stream's columns and types, without judging single rows.

Columns are found by name in any case and ordered as declared. A column whose values do not all convert is handed on
unconverted: whether one bad row fails its batch or is set aside is the stream's `on_bad_row`, and the engine's to say.
What is judged here is what no row can repair: a column that is not there at all. Cost: one pass per column that is
not already of its type.
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
    """For each column of the schema, its name in the file; ConnectorError where there is none."""
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
    """The batch with the schema's columns, each converted where all its values convert."""
    import pyarrow as pa

    names = matching_names(batch.schema.names, schema, place)
    arrays = [
        converted(batch.column(batch.schema.get_field_index(name)), column.type, epoch)
        for name, column in zip(names, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, names=list(schema.names))


def converted(values: pa.Array, wanted: DataType, epoch: str | None = None) -> pa.Array:
    """The values in the wanted type, or unchanged where one of them does not convert."""
    import pyarrow as pa

    target = wanted.to_arrow()
    if values.type == target:
        return values
    if is_mixed(values.type):
        parts = [converted(part, wanted, epoch) for part, _ in parts_of(values)]
        return put_together(values, parts) if all(part.type == target for part in parts) else values
    if pa.types.is_dictionary(values.type) and values.type.value_type == target:
        return values  # the engine reads dictionaries as they are, and faster
    if not _related(values.type, wanted):
        return values
    try:
        if wanted == TIMESTAMP:
            return _instants(values, epoch)
        if wanted.name == "DECIMAL" and pa.types.is_integer(values.type):
            # Arrow wants room for every value of the integer's type, and only then looks at those that are there.
            return values.cast(pa.decimal128(38, wanted.scale)).cast(target)
        if wanted.name == "FLOAT":
            return _narrowed(values, target)
        return values.cast(target)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return values


def _narrowed(values: pa.Array, target: pa.DataType) -> pa.Array:
    """As 32-bit floats; unchanged where a number is too large, of which Arrow would make an infinity."""
    import pyarrow as pa
    import pyarrow.compute as pc

    result = values.cast(target)
    infinite = pc.is_inf(result)
    if pc.any(infinite).as_py() and not pc.all(pc.is_inf(values.filter(infinite).cast(pa.float64()))).as_py():
        return values
    return result


def is_mixed(type_: pa.DataType) -> bool:
    """Whether it is that of a column whose values are of several types: a dense union."""
    import pyarrow as pa

    return bool(pa.types.is_union(type_)) and type_.mode == "dense"


def references_of(values: pa.Array) -> list[tuple[pa.Array, pa.Array, Ints]]:
    """Of a union: each child that is referred to, the places in it that are, and at which rows."""
    import numpy as np
    import pyarrow as pa

    # The properties of a slice of a union are those of the whole one.
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
    """Of a union: the values of each child, and at which rows they are."""
    return [(child.take(places), rows) for child, places, rows in references_of(values)]


def put_together(values: pa.Array, parts: list[pa.Array]) -> pa.Array:
    """Parts of a union, which are of one type now, in the order of its rows."""
    import numpy as np
    import pyarrow as pa

    rows = [rows for _, rows in parts_of(values)]
    if not rows:
        return values
    places = np.empty(len(values), np.int64)
    places[np.concatenate(rows)] = np.arange(len(values))
    return pa.concat_arrays(parts).take(pa.array(places))


def _related(found: pa.DataType, wanted: DataType) -> bool:
    """Whether values of a type may stand for another: texts are read, numbers stay numbers, nothing becomes a text."""
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
    """Texts, dates, numbers and timestamps of any unit as UTC microseconds; finer parts are floored."""
    import pyarrow as pa
    import pyarrow.compute as pc

    types = pa.types
    if types.is_dictionary(values.type):
        values = values.dictionary_decode()
    if types.is_string(values.type) or types.is_large_string(values.type) or types.is_string_view(values.type):
        values = _parsed(values) if epoch is None else _counted_or_parsed(values, epoch)
    elif types.is_integer(values.type) or types.is_floating(values.type) or types.is_decimal(values.type):
        if epoch is None:
            return values  # a number alone does not say what it counts
        values = _counted(values, epoch)
    if types.is_timestamp(values.type) and values.type.unit == "ns":
        values = pc.floor_temporal(values, unit="microsecond")
    return values.cast(TIMESTAMP.to_arrow())


def _parsed(values: pa.Array) -> pa.Array:
    """ISO texts; without a zone they are UTC."""
    import pyarrow as pa

    for unit in ("us", "ns"):
        for zone in (None, "UTC"):
            try:
                return values.cast(pa.timestamp(unit, tz=zone))
            except pa.ArrowInvalid:
                continue
    raise pa.ArrowInvalid("not all texts are instants")


def _counted_or_parsed(values: pa.Array, epoch: str) -> pa.Array:
    """Texts of numbers, of whole ones with all their digits, or ISO texts."""
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
        # Rounded, not floored: 0.1 s as a double lies a little beside 100,000 us.
        values = pc.round(pc.multiply(values.cast(pa.float64()), 1_000_000 / per_second)).cast(pa.int64())
        unit = "us"
    return values.cast(pa.int64()).cast(pa.timestamp(unit))
