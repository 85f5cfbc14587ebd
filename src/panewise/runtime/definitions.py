"""Definitions as statements again: what a snapshot keeps of the catalog."""

from __future__ import annotations

from panewise.catalog import Definition, Options, QueryDefinition, SinkDefinition, StreamDefinition
from panewise.language.sql_text import name_to_sql
from panewise.schema import Column
from panewise.temporal import format_duration


def statement_of(definition: Definition) -> str:
    """A statement that creates the definition."""
    name = name_to_sql(definition.name)
    match definition:
        case QueryDefinition():
            return definition.text
        case SinkDefinition():
            return f"CREATE SINK {name} FROM {name_to_sql(definition.source)}{_with(definition.options)}"
        case StreamDefinition():
            time = name_to_sql(definition.timestamp)
            delay = f" AS {time} - INTERVAL {format_duration(definition.delay_us)}" if definition.delay_us else ""
            columns = ", ".join(_column(column) for column in definition.schema)
            return f"CREATE STREAM {name} ({columns}, WATERMARK FOR {time}{delay}){_with(definition.options)}"
        case _:
            columns = ", ".join(_column(column) for column in definition.schema)
            keys = ", ".join(map(name_to_sql, definition.primary_key))
            primary = f", PRIMARY KEY ({keys})" if keys else ""
            kind = "" if definition.retroactive else " NON RETROACTIVE"
            return f"CREATE TABLE {name} ({columns}{primary}){kind}{_with(definition.options)}"


def _column(column: Column) -> str:
    return f"{name_to_sql(column.name)} {column.type}"


def _with(options: Options) -> str:
    if not options:
        return ""
    return " WITH (" + ", ".join(f"{key} = {_literal(value)}" for key, value in options) + ")"


def _literal(value: object) -> str:
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, int | float):
        return str(value)
    return "'" + str(value).replace("'", "''") + "'"
