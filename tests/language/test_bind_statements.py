"""Definitions, options and rows of tables once bound."""

from __future__ import annotations

from decimal import Decimal

from panewise.catalog import Catalog
from panewise.language.expressions import Literal
from panewise.language.sql_text import to_sql
from panewise.language.statements import (
    AlterStream,
    CreateQuery,
    CreateSink,
    CreateStream,
    CreateTable,
    Delete,
    Drop,
    Insert,
    Show,
    Update,
)
from panewise.schema import DOUBLE, INT, STRING, TIMESTAMP, Column, Schema, decimal
from panewise.temporal import DAY, SECOND
from tests.language.samples import bound


def test_create_stream() -> None:
    statement = bound(
        "CREATE STREAM IF NOT EXISTS s (a INT, Ts TIMESTAMP, d DECIMAL(5, 2), e DECIMAL,"
        " WATERMARK FOR ts AS TS - INTERVAL 5 SECONDS) WITH (Late = 'keep', connector = 'x', other.key = 3, f = TRUE)",
        Catalog(),
    )
    columns = (Column("a", INT), Column("Ts", TIMESTAMP), Column("d", decimal(5, 2)), Column("e", decimal(10, 0)))
    options = (("late", "keep"), ("connector", "x"), ("other.key", 3), ("f", True))
    assert statement == CreateStream("", "s", Schema(columns), "Ts", 5 * SECOND, options, True)


def test_the_event_time_without_a_watermark_is_the_first_timestamp() -> None:
    statement = bound("CREATE STREAM s (a INT, b TIMESTAMP, c TIMESTAMP)")
    assert isinstance(statement, CreateStream)
    assert (statement.timestamp, statement.delay_us) == ("b", 0)
    statement = bound("CREATE STREAM s (a INT, b TIMESTAMP, c TIMESTAMP, WATERMARK FOR c)")
    assert isinstance(statement, CreateStream)
    assert (statement.timestamp, statement.delay_us) == ("c", 0)


def test_create_table() -> None:
    statement = bound("CREATE TABLE t (a STRING PRIMARY KEY, b DOUBLE) NON RETROACTIVE")
    columns = (Column("a", STRING), Column("b", DOUBLE))
    assert statement == CreateTable("", "t", Schema(columns), ("a",), False, ())
    statement = bound("CREATE TABLE t (a STRING, b DOUBLE, PRIMARY KEY (B, a))")
    assert statement == CreateTable("", "t", Schema(columns), ("b", "a"), True, ())


def test_create_query() -> None:
    statement = bound("create query if not exists q with (mode='lookup') as select size from trades[now]")
    assert isinstance(statement, CreateQuery)
    assert statement.text == "CREATE QUERY IF NOT EXISTS q WITH (mode = 'lookup') AS SELECT size FROM trades [NOW]"
    assert (statement.options, statement.if_not_exists) == ((("mode", "lookup"),), True)


def test_names_are_those_of_the_catalog() -> None:
    statement = bound("CREATE SINK s FROM MOMENTUM WITH (connector = 'console')")
    assert statement == CreateSink("", "s", "momentum", (("connector", "console"),))
    assert bound("DROP query Momentum") == Drop("", "query", "momentum")
    assert bound("DROP TABLE IF EXISTS nothing") == Drop("", "table", "nothing", True)
    assert bound("SHOW tables") == Show("", "tables")
    assert bound("ALTER STREAM TRADES SET (idle = '1 m')") == AlterStream("", "trades", (("idle", "1 m"),))


def test_rows_are_converted_to_the_columns() -> None:
    statement = bound(
        "INSERT INTO companies VALUES ('a', NULL, '1970-01-02', 1.250), ('b', 'x', DATE '1969-12-31', -3)"
    )
    assert statement == Insert("", "companies", (("a", None, 1, Decimal("1.250")), ("b", "x", -1, Decimal("-3.000"))))
    assert bound("INSERT INTO companies (worth, SYMBOL) VALUES (123456789.125, 'c')") == Insert(
        "", "companies", (("c", None, None, Decimal("123456789.125")),)
    )


def test_values_of_every_type() -> None:
    from panewise.language.bind.binder import bind_one, parse
    from tests.language.samples import with_created

    catalog = Catalog()
    types = "a BOOLEAN, b INT, c BIGINT, d FLOAT, e DOUBLE, f STRING, g DATE, h TIMESTAMP"
    texts = (
        f"CREATE TABLE every ({types})",
        "INSERT INTO every VALUES (TRUE, -1, 9223372036854775807, 1, -2.5, '', '1970-01-02', DATE '1970-01-02')",
    )
    for text in texts:
        [parsed] = parse(text)
        statement = bind_one(parsed, catalog)
        with_created(catalog, statement)
    assert statement == Insert("", "every", ((True, -1, 2**63 - 1, 1.0, -2.5, "", 1, DAY),))


def test_update_and_delete() -> None:
    statement = bound("UPDATE companies SET worth = 1.5, sector = LOWER(sector), founded = NULL WHERE symbol = 'a'")
    assert isinstance(statement, Update)
    assert [name for name, _ in statement.assignments] == ["worth", "sector", "founded"]
    assert statement.assignments[0][1] == Literal(decimal(12, 3), Decimal("1.500"))
    assert to_sql(statement.assignments[1][1]) == "LOWER(sector)"
    assert statement.where is not None and to_sql(statement.where) == "symbol = 'a'"
    statement = bound("DELETE FROM companies")
    assert statement == Delete("", "companies", None)
