"""Makes definitions from CREATE statements, and statements from definitions: so a snapshot holds the catalog."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from panewise.aggregates.aggregate_functions import AggregateFunction
from panewise.catalog import (
    ArchiveDefinition,
    Definition,
    Options,
    QueryDefinition,
    SinkDefinition,
    StreamDefinition,
    TableDefinition,
)
from panewise.credentials import masked_option
from panewise.language import statements as s
from panewise.language.sql_text import name_to_sql
from panewise.optimize.refusals import check_query
from panewise.plan.build import build
from panewise.plan.nodes import Emit, Scan
from panewise.schema import Column
from panewise.temporal import format_duration

Created = s.CreateStream | s.CreateTable | s.CreateQuery | s.CreateSink | s.CreateArchive
FindAggregate = Callable[[str], AggregateFunction | None]


def definition_of(
    statement: Created, find_aggregate: FindAggregate, accepted_before: bool = False
) -> tuple[Definition, Emit | None]:
    """What a bound CREATE statement defines, and the plan if that is a query; PlanError if no operator fits.

    `accepted_before`: the statement was accepted, perhaps by a version that ignored a mode without meaning.
    """
    match statement:
        case s.CreateStream():
            of_stream = statement.name, statement.schema, statement.timestamp, statement.delay_us, statement.options
            return StreamDefinition(*of_stream), None
        case s.CreateTable():
            of_table = statement.name, statement.schema, statement.primary_key, statement.retroactive, statement.options
            return TableDefinition(*of_table), None
        case s.CreateSink():
            return SinkDefinition(statement.name, statement.source, statement.options), None
        case s.CreateArchive():
            of_archive = statement.name, statement.source, statement.schema, statement.timestamp, statement.options
            return ArchiveDefinition(*of_archive), None
    plan = build(statement.query, find_aggregate)
    check_query(plan, statement.options, accepted_before)
    inputs = tuple(dict.fromkeys(node.name for node in plan.walk() if isinstance(node, Scan)))
    definition = QueryDefinition(statement.name, plan.schema, plan.timestamp, statement.text, inputs, statement.options)
    return definition, plan


def shown_statement_of(definition: Definition) -> str:
    """The statement that creates a definition, without passwords and without the credentials in URIs."""
    return statement_of(replace(definition, options=tuple((k, masked_option(k, v)) for k, v in definition.options)))


def statement_of(definition: Definition) -> str:
    """The statement that creates a definition."""
    name = name_to_sql(definition.name)
    match definition:
        case QueryDefinition():
            return definition.text
        case SinkDefinition():
            return f"CREATE SINK {name} FROM {name_to_sql(definition.source)}{_with(definition.options)}"
        case ArchiveDefinition():
            return f"CREATE ARCHIVE {name} FROM {name_to_sql(definition.source)}{_with(definition.options)}"
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


def alteration_of(name: str, options: Options, kind: str = "stream") -> str:
    """The statement that sets options of a stream or an archive."""
    return f"ALTER {kind.upper()} {name_to_sql(name)} SET ({_listed(options)})"


def _with(options: Options) -> str:
    return f" WITH ({_listed(options)})" if options else ""


def _listed(options: Options) -> str:
    return ", ".join(f"{key} = {_literal(value)}" for key, value in options)


def _literal(value: object) -> str:
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, int | float):
        return str(value)
    return "'" + str(value).replace("'", "''") + "'"
