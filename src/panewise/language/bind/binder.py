"""Binds parsed statements to the catalog: finds names, resolves types, checks windows and options.

`bind_one` takes one parsed statement at a time, so that a statement sees what earlier ones created. It reads the
catalog and changes nothing. Every mistake is a BindError that underlines its place in the given text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from sqlglot import exp

from panewise.aggregates import builtin as registry
from panewise.catalog import Catalog, QueryDefinition, StreamDefinition
from panewise.errors import BindError, ParseError, did_you_mean
from panewise.language.bind.bind_archives import bind_archive_options
from panewise.language.bind.bind_options import bind_alteration, bind_options
from panewise.language.bind.bind_rows import bind_delete, bind_insert, bind_update
from panewise.language.bind.bind_select import bind_query
from panewise.language.bind.bind_types import bind_type
from panewise.language.bind.bind_windows import bind_duration
from panewise.language.bind.binding import Binding, KnownAggregate
from panewise.language.parse import syntax as nodes
from panewise.language.parse.dialect import ParsedStatement, parse, print_node
from panewise.language.parse.parse_expressions import NESTING_MAX
from panewise.language.statements import (
    AlterArchive,
    AlterStream,
    CreateArchive,
    CreateQuery,
    CreateSink,
    CreateStream,
    CreateTable,
    Drop,
    Explain,
    ResumeQuery,
    SelectOnce,
    Show,
    Statement,
    SuspendQuery,
)
from panewise.schema import TIMESTAMP, Column, Schema
from panewise.temporal import TimeWindow

__all__ = ["ParsedStatement", "bind_one", "parse"]


def bind_one(
    parsed: ParsedStatement,
    catalog: Catalog,
    find_aggregate: Callable[[str], KnownAggregate | None] = registry.find,
    aggregate_names: Callable[[], Iterable[str]] = registry.names,
) -> Statement:
    """The typed statement. `find_aggregate` and `aggregate_names` let an engine add aggregates of its own.

    >>> [statement] = parse("CREATE STREAM s (ts TIMESTAMP, price DOUBLE)")
    >>> bind_one(statement, Catalog()).schema.names
    ('ts', 'price')
    """
    binding = Binding(catalog, parsed.text, find_aggregate, aggregate_names)
    try:
        handler = _HANDLERS.get(type(parsed.node), _select_once)
        statement = handler(parsed.node, print_node(parsed.node), binding)
    except RecursionError:
        raise BindError("the statement is nested too deeply", text=parsed.text, span=parsed.span) from None
    _check_readable(statement, parsed)
    return statement


def _check_readable(statement: Statement, parsed: ParsedStatement) -> None:
    """Refuses a statement whose canonical text, which is what is kept, is nested too deeply to be parsed again.

    It may be nested more deeply than the text that the user wrote, for example of `a::INT::INT`.
    """
    text = statement.text
    if sum(map(text.count, ("(", "CASE ", "NOT ", "-"))) < NESTING_MAX // 2:
        return
    try:
        parse(text)
    except ParseError as error:
        raise BindError(
            f"the canonical text of the statement cannot be parsed: {error.message}",
            text=parsed.text,
            span=parsed.span,
            hint="nest it less deeply",
        ) from None


# ---- definitions ---------------------------------------------------------------------------------------------------


def _columns(node: exp.Expr, binding: Binding) -> Schema:
    columns: list[Column] = []
    for declaration in node.expressions:
        name = declaration.this.name
        if any(column.name.lower() == name.lower() for column in columns):
            raise binding.error(f"two columns are called '{name}'", declaration.this)
        columns.append(Column(name, bind_type(declaration.args["kind"], binding)))
    return Schema(tuple(columns))


def _declared(schema: Schema, name: exp.Identifier, binding: Binding) -> Column:
    column = schema.find(name.name)
    if column is None:
        raise binding.error(f"there is no column '{name.name}'", name, did_you_mean(name.name, schema.names))
    return column


def _create_stream(node: nodes.CreateStreamNode, text: str, binding: Binding) -> Statement:
    exists = bool(node.args.get("exists"))
    binding.refuse_taken(node.this, "stream", exists)
    schema = _columns(node, binding)
    for declaration in node.expressions:
        if declaration.args.get("primary_key"):
            raise binding.error("a stream has no PRIMARY KEY", declaration, "only a table can have one: CREATE TABLE")
    timestamp, delay_us = _event_time(node, schema, binding)
    options = bind_options(node.args.get("options"), "stream", binding)
    return CreateStream(text, node.this.name, schema, timestamp, delay_us, options, exists)


def _event_time(node: nodes.CreateStreamNode, schema: Schema, binding: Binding) -> tuple[str, int]:
    """The event-time column and the delay of WATERMARK. Without WATERMARK, the first TIMESTAMP column and 0."""
    watermark: nodes.WatermarkNode | None = node.args.get("watermark")
    if watermark is None:
        first = next((column for column in schema if column.type == TIMESTAMP), None)
        if first is None:
            raise binding.error("a stream needs a TIMESTAMP column", node.this, "it holds the event time of the rows")
        return first.name, 0
    column = _declared(schema, watermark.this, binding)
    if column.type != TIMESTAMP:
        raise binding.error(f"WATERMARK needs a TIMESTAMP column, '{column.name}' is {column.type}", watermark.this)
    again = watermark.expression
    if again is not None and _declared(schema, again, binding) != column:
        raise binding.error(f"WATERMARK FOR {column.name} AS ... must name {column.name} again", again)
    delay = watermark.args.get("delay")
    return column.name, bind_duration(delay, binding) if delay is not None else 0


def _create_table(node: nodes.CreateTableNode, text: str, binding: Binding) -> Statement:
    exists = bool(node.args.get("exists"))
    binding.refuse_taken(node.this, "table", exists)
    schema = _columns(node, binding)
    keys = [declaration.this for declaration in node.expressions if declaration.args.get("primary_key")]
    listed = node.args.get("primary_key") or []
    if (keys and listed) or len(keys) > 1:
        raise binding.error("a table has one PRIMARY KEY", [*keys, *listed][1], "write PRIMARY KEY (a, b)")
    primary_key: list[str] = []
    for key in keys or listed:
        column = _declared(schema, key, binding)
        if column.name in primary_key:
            raise binding.error(f"column '{column.name}' is in PRIMARY KEY twice", key)
        primary_key.append(column.name)
    options = bind_options(node.args.get("options"), "table", binding)
    retroactive = not node.args.get("non_retroactive")
    return CreateTable(text, node.this.name, schema, tuple(primary_key), retroactive, options, exists)


def _create_query(node: nodes.CreateQueryNode, text: str, binding: Binding) -> Statement:
    exists = bool(node.args.get("exists"))
    binding.refuse_taken(node.this, "query", exists)
    options = bind_options(node.args.get("options"), "query", binding)
    query = bind_query(node.expression, replace(binding, registered=True))
    return CreateQuery(text, node.this.name, query, options, exists)


def _create_sink(node: nodes.CreateSinkNode, text: str, binding: Binding) -> Statement:
    exists = bool(node.args.get("exists"))
    binding.refuse_taken(node.this, "sink", exists)
    source = binding.definition(node.args["source"], "query")
    options = bind_options(node.args.get("options"), "sink", binding)
    if not any(name == "connector" for name, _ in options):
        raise binding.error("a sink needs a connector", node.this, "WITH (connector = 'parquet', path = '...')")
    return CreateSink(text, node.this.name, source.name, options, exists)


def _create_archive(node: nodes.CreateArchiveNode, text: str, binding: Binding) -> Statement:
    exists = bool(node.args.get("exists"))
    binding.refuse_taken(node.this, "archive", exists)
    source = binding.definition(node.args["source"], "query", "stream")
    assert isinstance(source, QueryDefinition | StreamDefinition)
    options = bind_archive_options(node, source, binding)
    return CreateArchive(text, node.this.name, source.name, source.schema, source.timestamp, options, exists)


def _drop(node: nodes.DropDefinition, text: str, binding: Binding) -> Statement:
    kind, if_exists = node.args["kind"].lower(), bool(node.args.get("exists"))
    if if_exists and binding.catalog.find(node.this.name) is None:
        return Drop(text, kind, node.this.name, if_exists)
    return Drop(text, kind, binding.definition(node.this, kind).name, if_exists)


def _suspend(node: nodes.SuspendQueryNode, text: str, binding: Binding) -> Statement:
    return SuspendQuery(text, binding.definition(node.this, "query").name)


def _resume(node: nodes.ResumeQueryNode, text: str, binding: Binding) -> Statement:
    return ResumeQuery(text, binding.definition(node.this, "query").name)


def _alter_stream(node: nodes.AlterStreamNode, text: str, binding: Binding) -> Statement:
    stream = binding.definition(node.this, "stream")
    return AlterStream(text, stream.name, bind_alteration(node.args["options"], "stream", binding))


def _alter_archive(node: nodes.AlterArchiveNode, text: str, binding: Binding) -> Statement:
    archive = binding.definition(node.this, "archive")
    return AlterArchive(text, archive.name, bind_alteration(node.args["options"], "archive", binding))


# ---- questions -----------------------------------------------------------------------------------------------------


def _show(node: nodes.ShowDefinitions, text: str, binding: Binding) -> Statement:
    return Show(text, node.args["kind"].lower())


def _explain(node: nodes.ExplainStatement, text: str, binding: Binding) -> Statement:
    if node.this is not None:
        return Explain(text, binding.definition(node.this, "query").name)
    query = bind_query(node.expression, binding) if node.expression is not None else None
    return Explain(text, None, query)


def _select_once(node: exp.Expr, text: str, binding: Binding) -> Statement:
    # A one-time query reads all held rows of a stream that has no window.
    return SelectOnce(text, bind_query(node, replace(binding, default_window=TimeWindow(None))))


_HANDLERS: dict[type[exp.Expr], Callable[..., Statement]] = {
    nodes.CreateStreamNode: _create_stream,
    nodes.CreateTableNode: _create_table,
    nodes.CreateQueryNode: _create_query,
    nodes.CreateSinkNode: _create_sink,
    nodes.CreateArchiveNode: _create_archive,
    nodes.DropDefinition: _drop,
    nodes.SuspendQueryNode: _suspend,
    nodes.ResumeQueryNode: _resume,
    nodes.AlterStreamNode: _alter_stream,
    nodes.AlterArchiveNode: _alter_archive,
    nodes.ShowDefinitions: _show,
    nodes.ExplainStatement: _explain,
    nodes.InsertRows: bind_insert,
    nodes.UpdateRows: bind_update,
    nodes.DeleteRows: bind_delete,
}
