"""Tables that a connector fills: all rows of the files, read at once.

`read_table` returns the rows in the declared columns and types, or raises an error that says what is missing or does
not fit: unlike a stream, a table cannot skip bad rows. A table is held in memory, so it has at most TABLE_ROWS_MAX
rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from panewise.catalog import StreamDefinition, TableDefinition
from panewise.connectors.by_name import SOURCES
from panewise.connectors.conform import conform, converted, is_mixed
from panewise.connectors.epochs import advice
from panewise.connectors.files import ENDINGS, files_of
from panewise.connectors.options import (
    CONNECTOR,
    EPOCH,
    STREAM_OPTIONS,
    ConnectorOption,
    read_options,
    text,
    written_option,
)
from panewise.errors import ConnectorError, did_you_mean
from panewise.schema import TIMESTAMP, Column

if TYPE_CHECKING:
    import pyarrow as pa

TABLE_ROWS_MAX = 1_000_000
TABLE_CONNECTORS = (*ENDINGS, "delta")
_UNCONNECTED = (CONNECTOR, ConnectorOption("changes", text, None), ConnectorOption("operation", text, None))


def table_connector(table: TableDefinition) -> str | None:
    """The name of the table's connector in lower case, or None if statements change the table."""
    written = written_option(table.options, "connector")
    return None if written is None else str(written).lower()


def check_table(table: TableDefinition) -> dict[str, Any]:
    """The values of all options. Raises ConnectorError if an option is wrong or the table is RETROACTIVE."""
    owner, connector = f"table '{table.name}'", table_connector(table)
    if connector is None or connector not in TABLE_CONNECTORS:
        raise ConnectorError(
            f"{owner} wants an unknown connector '{connector}'", hint=did_you_mean(str(connector), TABLE_CONNECTORS)
        )
    if table.retroactive:
        raise ConnectorError(
            f"{owner} has a connector and must therefore be NON RETROACTIVE",
            hint="write NON RETROACTIVE before WITH",
        )
    return read_options(owner, table.options, _options(connector))


def check_options(table: TableDefinition) -> None:
    """Raises ConnectorError if a table, with or without a connector, has a wrong option."""
    if table_connector(table) is not None:
        check_table(table)
    else:
        read_options(f"table '{table.name}' without a connector", table.options, _UNCONNECTED)


def check_changeable(table: TableDefinition) -> None:
    """Raises ConnectorError if the rows of a table come from a connector."""
    if table_connector(table) is not None:
        raise ConnectorError(
            f"the rows of table '{table.name}' come from its connector, and no statement changes them",
            hint=f"change the files that it reads: {written_option(table.options, 'path')}",
        )


def _options(connector: str) -> tuple[ConnectorOption, ...]:
    if connector == "delta":
        return CONNECTOR, ConnectorOption("path", text)
    of_streams = {option.name for option in STREAM_OPTIONS}
    known: tuple[ConnectorOption, ...] = SOURCES[connector].options  # type: ignore[attr-defined]
    return (CONNECTOR, EPOCH, *(option for option in known if option.name not in of_streams))


def read_table(table: TableDefinition) -> pa.RecordBatch:
    """All rows of the table's files on this machine."""
    owner, connector = f"table '{table.name}'", table_connector(table)
    path = str(check_table(table)["path"])
    if connector not in ENDINGS:
        raise ConnectorError(
            f"{owner} wants the connector '{connector}', which only Spark has",
            hint=f"the embedded engine has {', '.join(ENDINGS)}",
        )
    files_of(path, ENDINGS[connector], owner)  # first, so that the error for missing files names the table
    # Files are read like those of a stream. Options of streams are not allowed, so the event time is never used.
    stream = StreamDefinition(table.name, table.schema, table.schema.names[0], 0, table.options)
    parts, rows = [], 0
    for piece in SOURCES[connector](stream).batches():
        assert not isinstance(piece, list), "only a stream skips texts that are not rows"
        parts.append(declared(piece, table, rows))
        rows += len(piece)
        check_size(table, rows)
    return whole(parts, table)


def no_rows(table: TableDefinition) -> pa.RecordBatch:
    """An empty table, for a caller that gets the rows from elsewhere than `read_table`."""
    return whole([], table)


def check_size(table: TableDefinition, rows: int) -> None:
    if rows > TABLE_ROWS_MAX:
        raise ConnectorError(
            f"table '{table.name}' has more than {TABLE_ROWS_MAX:,} rows, and all of them are held in memory",
            hint="join a table of this size as a stream, or keep the rows that queries need in a smaller one",
        )


def whole(parts: list[pa.RecordBatch], table: TableDefinition) -> pa.RecordBatch:
    """All rows as one batch of the table's columns."""
    import pyarrow as pa

    schema = table.schema.to_arrow()
    batches = pa.Table.from_batches(parts, schema).combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema)


def declared(batch: pa.RecordBatch, table: TableDefinition, before: int = 0) -> pa.RecordBatch:
    """The batch with the table's columns in their types. Raises ConnectorError if a value does not fit.

    `before`: the number of rows before this batch, for the message.
    """
    import pyarrow as pa

    batch = conform(batch, table.schema, f"what table '{table.name}' reads")
    arrow = table.schema.to_arrow()
    columns = []
    for column, values, field in zip(table.schema, batch.columns, arrow, strict=True):
        if pa.types.is_dictionary(values.type) and values.type.value_type == field.type:
            values = values.dictionary_decode()
        if values.type != field.type:
            raise _unfitting(table, column, values, before)
        columns.append(values)
    return pa.RecordBatch.from_arrays(columns, schema=arrow)


def _unfitting(table: TableDefinition, column: Column, values: pa.Array, before: int) -> ConnectorError:
    """The error for a column that does not convert, with its first bad value and the row."""
    first, end = 0, len(values)
    while end - first > 1:
        middle = (first + end) // 2
        fits = converted(values.slice(first, middle - first), column.type).type == column.type.to_arrow()
        first, end = (middle, end) if fits else (first, middle)
    shown = repr(values[first].as_py()) if len(values) else "nothing"
    found = (
        f"a row has {shown} there"
        if is_mixed(values.type)
        else f"what it reads has {values.type} values there that do not all convert"
    )
    unit = advice(column.name, shown, f"TABLE {table.name}", has_connector=True) if column.type == TIMESTAMP else None
    return ConnectorError(
        f"column '{column.name}' of table '{table.name}' is declared {column.type}, and {found}",
        hint=f"the first is {shown}, in row {before + first}" + ("" if unit is None else f"; {unit}"),
    )
