"""Checks the rows of an update: the columns of the archive, and when each row was inserted and expires."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from panewise.archive.sought import EXPIRES, INSERTED, TIME
from panewise.errors import ArchiveError, did_you_mean
from panewise.schema import Column, Schema, from_arrow
from panewise.temporal import INSTANT_MAX, INSTANT_MIN, INSTANT_NEVER, format_instant


def checked_schema(schema: Any, key: str | list[str] | tuple[str, ...]) -> tuple[Schema, tuple[str, ...]]:
    """The schema and key of a new archive, checked; an Arrow schema is converted."""
    if not isinstance(schema, Schema):
        columns = []
        for field in schema:
            kind = from_arrow(field.type)
            if kind is None:
                raise ArchiveError(
                    f"column '{field.name}' is {field.type}, which an archive cannot hold", hint="see docs/archive.md"
                )
            columns.append(Column(field.name, kind))
        schema = Schema(tuple(columns))
    taken = [name for name in schema.names if name in _ARROWS_OWN]
    if taken:
        raise ArchiveError(f"the name of column '{taken[0]}' is reserved by Arrow", hint="rename the column")
    names = [name.lower() for name in schema.names]
    for name in names:
        if name in (INSERTED, EXPIRES) or names.count(name) > 1:
            raise ArchiveError(f"an archive cannot have two columns '{name}'", hint=f"it always has {_OWN}")
    keys = (key,) if isinstance(key, str) else tuple(key)
    if not keys:
        raise ArchiveError("an archive needs a key", hint="name one or more of its columns: " + ", ".join(schema.names))
    for name in keys:
        if name not in schema.names or keys.count(name) > 1:
            raise ArchiveError(f"'{name}' cannot be in the key", hint=did_you_mean(name, schema.names))
    return schema, keys


def checked_rows(rows: Any, stored: Any) -> Any:
    """The rows as a table with exactly the columns of the files. ArchiveError if they do not fit."""
    table = pa.Table.from_batches([rows]) if isinstance(rows, pa.RecordBatch) else rows
    if not isinstance(table, pa.Table):
        raise ArchiveError(f"rows must be an Arrow table or batch, not {type(rows).__name__}")
    missing = [name for name in stored.names if name not in table.column_names]
    surplus = [name for name in table.column_names if name not in stored.names]
    if missing or surplus or table.num_columns != len(stored):
        raise ArchiveError(
            f"the rows do not fit the archive: missing {missing or 'nothing'}, not in it {surplus or 'nothing'}",
            hint=f"the columns of the archive, and {_OWN} of each row",
        )
    try:
        table = pa.table([_converted(table[name], stored.field(name).type) for name in stored.names], schema=stored)
    except (pa.ArrowException, ValueError) as problem:
        raise ArchiveError(f"the rows do not fit the archive: {problem}") from problem
    _check_lives(table)
    return table.combine_chunks()


_OWN = f"{INSERTED} and {EXPIRES}"
_ARROWS_OWN = ("__fragment_index", "__batch_index", "__last_in_fragment", "__filename")


def _converted(column: Any, kind: Any) -> Any:
    # Integers are microseconds. A time zone only affects how an instant is shown.
    if pa.types.is_timestamp(column.type) and pa.types.is_timestamp(kind):
        if column.type.unit == "ns":  # Rounds down, also before 1970.
            column = pc.floor_temporal(column.cast(pa.timestamp("ns")), unit="microsecond")
        return column.cast(pa.timestamp("us", tz=column.type.tz)).cast(kind)
    return column.cast(kind)


def _check_lives(table: Any) -> None:
    for name in (INSERTED, EXPIRES):
        if table[name].null_count:
            raise ArchiveError(f"{table[name].null_count} rows have no {name}", hint="each row has its own lifetime")
        ends = pc.min_max(table[name].cast(pa.int64()))
        last = INSTANT_NEVER if name == EXPIRES else INSTANT_MAX
        if table.num_rows and not INSTANT_MIN <= ends["min"].as_py() <= ends["max"].as_py() <= last:
            raise ArchiveError(f"a row's {name} is outside the years 1 to 9999")
    backward = pc.less_equal(table[EXPIRES], table[INSERTED])
    if pc.any(backward).as_py():
        row = table.slice(pc.index(backward, True).as_py(), 1)
        inserted, expires = (row[name].cast(pa.int64())[0].as_py() for name in (INSERTED, EXPIRES))
        raise ArchiveError(
            f"a row inserted at {format_instant(inserted)} expires at {format_instant(expires)}: {row.to_pylist()}",
            hint="a row is visible from `inserted` up to, but not including, `expires`",
        )
    assert table.schema.field(INSERTED).type == TIME
