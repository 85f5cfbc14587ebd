"""Arrow rows as JSON: a list of lists, one for each row.

    BOOLEAN, INT, BIGINT     unchanged, all 64 bits            TIMESTAMP   "2026-01-31T12:00:00.000000Z"
    FLOAT, DOUBLE            shortest text that reads back;    DATE        "2026-01-31"
                             "NaN", "Infinity", "-Infinity"    DECIMAL     "12.30", never with an exponent
    STRING                   text                              NULL        null

Each column is converted as a whole to a list of Python objects, and orjson writes the rows. A hundred rows of five
columns take some tens of microseconds (`python -m panewise.serve.http.results.row_json` measures it). Instants and
dates are formatted once for each distinct value, because all groups of a window share them.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from panewise.schema import from_arrow

_OPTIONS = orjson.OPT_SERIALIZE_NUMPY


def json_rows(table: pa.Table) -> bytes:
    """The rows as JSON.

    >>> json_rows(pa.table({"symbol": ["IBM", None], "mean": [101.5, float("nan")]}))
    b'[["IBM",101.5],[null,"NaN"]]'
    """
    if not table.num_rows:
        return b"[]"
    if not table.num_columns:
        return orjson.dumps([[]] * table.num_rows)
    return orjson.dumps(list(zip(*map(_cells, table.itercolumns()), strict=True)), option=_OPTIONS)


def json_columns(schema: pa.Schema) -> list[dict[str, str]]:
    """The names and CQL types of the columns of a table."""
    return [{"name": column.name, "type": str(from_arrow(column.type) or column.type)} for column in schema]


def _cells(column: pa.ChunkedArray) -> list[Any]:
    """The values of a column as objects that orjson writes in the form above."""
    array = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    if isinstance(array, pa.ChunkedArray):
        return [cell for chunk in array.chunks for cell in _cells(pa.chunked_array([chunk]))]
    kind = array.type
    if pa.types.is_dictionary(kind):
        return _by_index(_cells(pa.chunked_array([array.dictionary])), array.indices)
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        return _numbers(array)
    if pa.types.is_floating(kind):
        return _floats(array)
    if pa.types.is_timestamp(kind):
        return _instants(array if kind.unit == "us" else array.cast(pa.timestamp("us", tz=kind.tz), safe=False))
    if pa.types.is_date32(kind):
        encoded = array.dictionary_encode()
        days = encoded.dictionary.view(pa.int32()).to_numpy().astype("M8[D]")
        return _by_index(np.datetime_as_string(days, unit="D").tolist(), encoded.indices)
    if pa.types.is_decimal(kind):
        return [text and _plain(text) for text in array.cast(pa.string()).to_pylist()]
    return array.to_pylist()  # type: ignore[no-any-return]


def _numbers(array: pa.Array) -> list[Any]:
    if not array.null_count:
        return array.to_numpy(zero_copy_only=False).tolist()  # type: ignore[no-any-return]
    # With NULLs, NumPy would convert integers to floats, which cannot represent all of them.
    cells: list[Any] = (
        array.fill_null(False if pa.types.is_boolean(array.type) else 0).to_numpy(zero_copy_only=False).tolist()
    )
    return _with_nulls(cells, array)


def _floats(array: pa.Array) -> list[Any]:
    values = array.to_numpy(zero_copy_only=False)
    # Keep 32-bit floats: their shortest text is shorter than that of the equal 64-bit float.
    cells: list[Any] = values.tolist() if values.dtype == np.float64 else list(values.astype(np.float32))
    if not np.isfinite(values).all():
        for index in np.flatnonzero(~np.isfinite(values)).tolist():
            value = values[index]
            cells[index] = "NaN" if np.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return _with_nulls(cells, array)


def _with_nulls(cells: list[Any], array: pa.Array) -> list[Any]:
    if array.null_count:
        for index in np.flatnonzero(array.is_null().to_numpy(zero_copy_only=False)).tolist():
            cells[index] = None
    return cells


def _instants(array: pa.Array) -> list[Any]:
    if not array.null_count:
        values = array.view(pa.int64()).to_numpy()
        if values[0] == values[-1] and (values == values[0]).all():
            return _instant_texts(values[:1]) * len(values)
    encoded = array.dictionary_encode()
    return _by_index(_instant_texts(encoded.dictionary.view(pa.int64()).to_numpy()), encoded.indices)


def _instant_texts(microseconds: npt.NDArray[np.int64]) -> list[Any]:
    texts: list[Any] = np.datetime_as_string(microseconds.view("M8[us]"), unit="us", timezone="UTC").tolist()
    return texts


def _by_index(values: list[Any], indices: pa.Array) -> list[Any]:
    if indices.null_count:
        indices = pc.fill_null(indices, len(values))
    return list(map([*values, None].__getitem__, indices.to_numpy(zero_copy_only=False).tolist()))


def _plain(text: str) -> str:
    return format(Decimal(text), "f") if "E" in text else text


def _measure() -> None:
    import timeit

    rows = 100
    table = pa.table(
        {
            "window_start": pa.array([0] * rows, pa.timestamp("us", tz="UTC")),
            "window_end": pa.array([60_000_000] * rows, pa.timestamp("us", tz="UTC")),
            "symbol": [f"S{index}" for index in range(rows)],
            "mean": np.random.default_rng(1).random(rows),
            "n": list(range(rows)),
        }
    )
    seconds = min(timeit.repeat(lambda: json_rows(table), number=200, repeat=5)) / 200
    print(f"{rows} rows of {table.num_columns} columns: {1e6 * seconds:.1f} us, {len(json_rows(table))} bytes")  # noqa: T201


if __name__ == "__main__":
    _measure()
