"""Where a PostgreSQL sink writes to, from its options. Secrets are in no message.

A password comes from the option `password`, from the environment variable that `password_env` names, from the URL, or
from libpq's own places (PGPASSWORD, ~/.pgpass).
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field

import pyarrow as pa

from panewise.connectors.options import CONNECTOR, ConnectorOption, boolean, read_options, text
from panewise.connectors.sinks import EXISTING
from panewise.errors import ConnectorError
from panewise.spark.sinks.sink_kind import SinkTarget

_OPTIONS = (
    CONNECTOR,
    ConnectorOption("url", text),
    ConnectorOption("table", text),
    ConnectorOption("user", text, None),
    # Any text is accepted: a message about a wrong value would show it.
    ConnectorOption("password", str, None),
    ConnectorOption("password_env", text, None),
    ConnectorOption("create", boolean, True),
    ConnectorOption("query_column", text, ""),
    ConnectorOption("batches_table", text, "panewise_batches"),
    EXISTING,
)


@dataclass(frozen=True)
class Database:
    """One database, as one user. Sinks with equal databases share a connection and a transaction."""

    connection_text: str = field(repr=False)
    # The table that has the last batch of each sink.
    batches_table: tuple[str, ...]

    def hidden(self, message: object) -> str:
        """The message without the password."""
        from psycopg.conninfo import conninfo_to_dict

        password = conninfo_to_dict(self.connection_text).get("password")
        return str(message).strip().replace(str(password), "***") if password else str(message).strip()


@dataclass(frozen=True)
class Destination:
    """A sink's table and how rows are put there."""

    target: SinkTarget
    database: Database
    table: tuple[str, ...]
    create: bool
    existing: str
    query_column: str

    @property
    def shown(self) -> str:
        return "'" + ".".join(self.table) + "'"

    @property
    def columns(self) -> tuple[tuple[str, str], ...]:
        """Names and PostgreSQL types, in the order in which rows are copied."""
        named = tuple((column.name, column_type(column.type)) for column in self.target.schema)
        return ((self.query_column, "text"), *named) if self.query_column else named

    @property
    def key(self) -> tuple[str, ...]:
        """The columns that identify a row; empty if rows have no key."""
        if not self.target.keyed:
            return ()
        return (self.query_column, *self.target.key_columns) if self.query_column else self.target.key_columns


def destination_of(target: SinkTarget) -> Destination:
    values = read_options(target.owner, target.options, _OPTIONS)
    query_column = str(values["query_column"])
    if query_column in target.schema.names:
        raise ConnectorError(f"the query_column '{query_column}' of {target.owner} is a column of its query already")
    return Destination(
        target,
        Database(_connection_text(target, values), _parts(target, "batches_table", values["batches_table"])),
        _parts(target, "table", values["table"]),
        bool(values["create"]),
        str(values["existing"]),
        query_column,
    )


def column_type(arrow: pa.DataType) -> str:
    """The PostgreSQL type that holds the values of a result column.

    >>> column_type(pa.decimal128(18, 3)), column_type(pa.timestamp("us", tz="UTC"))
    ('numeric(18, 3)', 'timestamp with time zone')
    """
    types = pa.types
    if types.is_dictionary(arrow):
        return column_type(arrow.value_type)
    if types.is_boolean(arrow):
        return "boolean"
    if types.is_int64(arrow):
        return "bigint"
    if types.is_integer(arrow):
        return "integer"
    if types.is_float64(arrow):
        return "double precision"
    if types.is_floating(arrow):
        return "real"
    if types.is_decimal(arrow):
        return f"numeric({arrow.precision}, {arrow.scale})"
    if types.is_date(arrow):
        return "date"
    if types.is_timestamp(arrow):
        return "timestamp with time zone"
    return "text"


def _parts(target: SinkTarget, option: str, written: object) -> tuple[str, ...]:
    parts = tuple(str(written).split("."))
    if len(parts) > 2 or not all(parts):
        raise ConnectorError(f"option '{option}' of {target.owner} is '{written}', expected 'table' or 'schema.table'")
    return parts


def _connection_text(target: SinkTarget, values: dict[str, object]) -> str:
    url = str(values["url"]).removeprefix("jdbc:")
    if not re.match(r"postgres(ql)?://", url):
        scheme = url.partition(":")[0]
        raise ConnectorError(
            f"the url of {target.owner} begins with '{scheme[:20]}:', and only PostgreSQL is written to",
            hint="postgresql://host:5432/database, or the same after 'jdbc:'",
        )
    password = values["password"]
    variable = values["password_env"]
    if password is None and variable is not None:
        password = os.environ.get(str(variable))
        if password is None:
            raise ConnectorError(f"{target.owner} wants the environment variable '{variable}', which is not set")
    try:
        from psycopg import ProgrammingError
        from psycopg.conninfo import make_conninfo
    except ImportError:
        raise ConnectorError(f"{target.owner} needs psycopg", hint="pip install 'panewise[postgres]'") from None
    given = {"user": values["user"], "password": password}
    try:
        return make_conninfo(
            url, application_name="panewise", **{name: str(value) for name, value in given.items() if value is not None}
        )
    except ProgrammingError:
        # The message leaves out libpq's own, which may quote the URL with the password.
        raise ConnectorError(
            f"the url of {target.owner} is not one that libpq understands",
            hint="postgresql://host:5432/database?sslmode=require, user and password as options",
        ) from None
