"""What the parts of SELECT mean once bound."""

from __future__ import annotations

from typing import Any

import pytest

from panewise.language.bind.selected_columns import event_time, result_columns
from panewise.language.expressions import AggregateCall, Call, Cast, ColumnRef, Literal
from panewise.language.sql_text import to_sql
from panewise.language.statements import CreateQuery, Emission, Explain, Named, Select, SelectOnce, SetOperation
from panewise.schema import BIGINT, DOUBLE, INT, TIMESTAMP, DataType
from panewise.temporal import DAY, HOUR, MINUTE, SECOND, RowsWindow, TimeWindow
from tests.language.samples import bound


def select(text: str) -> Select:
    statement = bound(text)
    assert isinstance(statement, SelectOnce) and isinstance(statement.query, Select)
    return statement.query


def item(expression: str) -> Any:
    return select(f"SELECT {expression} AS x FROM trades [NOW]").items[0].expression


@pytest.mark.parametrize(
    ("window", "expected"),
    [
        ("[RANGE 5 MINUTES]", TimeWindow(5 * MINUTE)),
        ("[RANGE 5 MINUTES SLIDE 10 s]", TimeWindow(5 * MINUTE, 10 * SECOND)),
        ("[RANGE 1.5 h OFFSET 1 DAY]", TimeWindow(90 * MINUTE, None, DAY)),
        ("[RANGE 1 MINUTE 30 SECONDS SLIDE '2 minutes' INTERNAL]", TimeWindow(90 * SECOND, 2 * MINUTE, internal=True)),
        ("[RANGE 1 W SLIDE 1 W ALIGN '1970-01-05']", TimeWindow(7 * DAY, 7 * DAY, 0, 4 * DAY)),
        ("[NOW]", TimeWindow(1)),
        ("[NOW SLIDE 1 HOUR]", TimeWindow(1, HOUR)),
        ("[UNBOUNDED]", TimeWindow(None)),
        ("[UNBOUNDED SLIDE 1 HOUR INTERNAL]", TimeWindow(None, HOUR, internal=True)),
        ("[ROWS 10]", RowsWindow(10)),
        ("[ROWS 10 SLIDE 3 OFFSET 2 INTERNAL]", RowsWindow(10, 3, 2, (), True)),
        ("[PARTITION BY SYMBOL, day ROWS 10 SLIDE 5]", RowsWindow(10, 5, 0, ("symbol", "day"))),
    ],
)
def test_windows(window: str, expected: TimeWindow | RowsWindow) -> None:
    bound_window = select(f"SELECT size FROM trades {window}").inputs[0].window
    assert bound_window == expected
    assert select(f"SELECT size FROM trades {bound_window}").inputs[0].window == expected


def test_a_stream_without_a_window() -> None:
    assert select("SELECT size FROM trades").inputs[0].window == TimeWindow(None)
    created = bound("CREATE QUERY q AS SELECT size FROM trades")
    assert isinstance(created, CreateQuery) and isinstance(created.query, Select)
    assert created.query.inputs[0].window is None  # the planner refuses it
    assert select("SELECT sector FROM companies").inputs[0].window is None


@pytest.mark.parametrize(
    ("expression", "literal"),
    [
        ("1", Literal(INT, 1)),
        ("2147483648", Literal(BIGINT, 2**31)),
        ("-2147483648", Literal(INT, -(2**31))),
        ("-9223372036854775808", Literal(BIGINT, -(2**63))),
        ("1.5", Literal(DOUBLE, 1.5)),
        ("1e3", Literal(DOUBLE, 1000.0)),
        (".5", Literal(DOUBLE, 0.5)),
        ("TIMESTAMP '1970-01-02 00:00:00'", Literal(TIMESTAMP, DAY)),
        ("DATE '1970-01-02'", Literal(DataType("DATE"), 1)),
        ("TIMESTAMP '1970-01-01 02:00:00+02:00'", Literal(TIMESTAMP, 0)),
    ],
)
def test_literals(expression: str, literal: Literal) -> None:
    assert item(expression) == literal


def test_implicit_conversions_are_explicit() -> None:
    price, size = ColumnRef(DOUBLE, "price"), ColumnRef(BIGINT, "size")
    assert item("price + size") == Call(DOUBLE, "add", (price, Cast(DOUBLE, size)))
    assert item("size + 1") == Call(BIGINT, "add", (size, Literal(BIGINT, 1)))
    assert item("ts > '1970-01-02'").arguments[1] == Literal(TIMESTAMP, DAY)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("price BETWEEN 1 AND 2", "price >= 1 AND price <= 2"),
        ("price NOT BETWEEN 1 AND 2", "NOT (price >= 1 AND price <= 2)"),
        ("ts - INTERVAL 1 MINUTE", "ts - INTERVAL '60' SECONDS"),
        ("ts + INTERVAL 1 HOUR", "INTERVAL 60 MINUTES + ts"),
        ("IF(size > 1, 2, 3)", "CASE WHEN size > 1 THEN 2 ELSE 3 END"),
        ("CASE size WHEN 1 THEN 2 END", "CASE WHEN size = 1 THEN 2 ELSE NULL END"),
        ("size IS NOT DISTINCT FROM 1", "size <=> 1"),
        ("(size > 1) IS NOT TRUE", "(size > 1) IS DISTINCT FROM TRUE"),
        ("symbol NOT LIKE 'a%'", "NOT symbol LIKE 'a%'"),
        ("EXTRACT(HOUR FROM ts)", "hour(ts)"),
        ("NVL(size, 1)", "COALESCE(SIZE, 1)"),
        ("CAST(size AS INT)", "TRY_CAST(size AS INT)"),
        ("size::INT", "CAST(size AS INT)"),
        ("COUNT(1)", "COUNT(*)"),
        ("stddev(price)", "STDDEV_SAMP(price)"),
        ("((size))", "trades.size"),
    ],
)
def test_equal_meanings_are_equal(one: str, other: str) -> None:
    assert item(one) == item(other)


def test_a_difference_of_timestamps_compares_to_an_interval() -> None:
    assert to_sql(item("ts - TIMESTAMP '1970-01-01 00:00:00' > INTERVAL 5 SECONDS")) == (
        "ts - TIMESTAMP '1970-01-01 00:00:00' > 5000000"
    )


def test_names_of_items() -> None:
    text = "SELECT SYMBOL, price AS p, MAX(size), count(*), MAX(price) - MIN(price), symbol || 'x' FROM trades [NOW]"
    names = [item.name for item in select(text + " GROUP BY symbol, price").items]
    assert names == ["symbol", "p", "max(size)", "count(*)", "max(price) - min(price)", "symbol || 'x'"]


def test_star_hides_the_report_columns_of_queries() -> None:
    assert [i.name for i in select("SELECT * FROM momentum [NOW]").items] == ["symbol", "mean", "spread", "n"]
    assert [i.name for i in select("SELECT window_end AS e, m.* FROM momentum m [NOW]").items][:2] == ["e", "symbol"]
    nested = select("SELECT * FROM (SELECT size AS a FROM trades [NOW]) [ROWS 2]")
    assert [i.name for i in nested.items] == ["a"]


def test_group_by_positions_and_aliases() -> None:
    by_position = select("SELECT UPPER(symbol) AS s, COUNT(*) AS n FROM trades [NOW] GROUP BY 1")
    by_alias = select("SELECT UPPER(symbol) AS s, COUNT(*) AS n FROM trades [NOW] GROUP BY s")
    by_expression = select("SELECT UPPER(symbol) AS s, COUNT(*) AS n FROM trades [NOW] GROUP BY UPPER(symbol)")
    assert by_position == by_alias == by_expression
    # A column of the input wins over an alias.
    assert to_sql(select("SELECT COUNT(*) AS size FROM trades [NOW] GROUP BY size").group_by[0]) == "size"


def test_having_sees_items_groups_and_columns_inside_aggregates() -> None:
    having = select("SELECT symbol, AVG(price) AS price FROM trades [NOW] GROUP BY symbol HAVING price > 1").having
    assert having is not None and to_sql(having) == "AVG(price) > 1.0"
    having = select("SELECT AVG(price) AS price FROM trades [NOW] GROUP BY symbol HAVING MAX(price) > 1").having
    assert having is not None and to_sql(having) == "MAX(price) > 1.0"
    having = select("SELECT symbol, COUNT(*) AS n FROM trades [NOW] GROUP BY symbol HAVING symbol > 'a'").having
    assert having is not None and to_sql(having) == "symbol > 'a'"


def test_joins_name_their_inputs_and_conditions_are_part_of_where() -> None:
    query = select(
        "SELECT t.price, c.sector, bid FROM trades t [NOW] JOIN quotes [NOW] USING (symbol)"
        " LEFT JOIN companies c ON t.symbol = c.symbol WHERE size > 1"
    )
    assert [entry.alias for entry in query.inputs] == ["t", "quotes", "c"]
    assert query.outer == ("INNER", "LEFT")
    assert query.where is not None
    assert to_sql(query.where) == "t.symbol = quotes.symbol AND t.symbol = c.symbol AND t.size > 1"
    assert isinstance(query.inputs[2].relation, Named) and query.inputs[2].relation.timestamp is None


def test_using_makes_one_column() -> None:
    query = select("SELECT * FROM quotes [NOW] JOIN companies USING (symbol)")
    assert [i.name for i in query.items] == ["at", "symbol", "bid", "ok", "sector", "founded", "worth"]


def test_exists_is_a_conjunct_and_tells_its_sides_apart() -> None:
    query = select(
        "SELECT symbol FROM trades t [NOW] WHERE price > 1 AND NOT EXISTS"
        " (SELECT * FROM quotes q [NOW] WHERE q.symbol = t.symbol AND bid > price)"
    )
    [exists] = query.exists
    assert exists.negated
    assert exists.select.where is not None
    assert to_sql(exists.select.where) == "q.symbol = t.symbol AND q.bid > t.price"
    assert query.where is not None and to_sql(query.where) == "price > 1.0"
    assert [
        e.negated for e in select("SELECT size FROM trades t WHERE NOT (NOT (EXISTS (SELECT * FROM quotes)))").exists
    ] == [False]


def test_set_operations_agree_on_types() -> None:
    statement = bound(
        "SELECT size FROM trades [NOW] UNION ALL SELECT bid FROM quotes [NOW] EXCEPT SELECT NULL FROM trades"
    )
    assert isinstance(statement, SelectOnce)
    query = statement.query
    assert isinstance(query, SetOperation) and query.kind == "EXCEPT"
    assert isinstance(query.left, SetOperation) and query.left.kind == "UNION ALL"
    assert result_columns(query)["size"].type == DOUBLE
    assert isinstance(query.left.left, Select)
    assert query.left.left.items[0].expression == Cast(DOUBLE, ColumnRef(BIGINT, "size"))


def test_intersect_binds_more_tightly() -> None:
    statement = bound(
        "SELECT symbol FROM trades EXCEPT SELECT symbol FROM quotes INTERSECT ALL SELECT symbol FROM companies"
    )
    assert isinstance(statement, SelectOnce) and isinstance(statement.query, SetOperation)
    assert isinstance(statement.query.right, SetOperation) and statement.query.right.kind == "INTERSECT ALL"


@pytest.mark.parametrize(
    ("text", "columns", "time"),
    [
        ("SELECT size FROM trades [RANGE 1 s SLIDE 1 s]", ("window_start", "window_end", "size"), "window_end"),
        ("SELECT size FROM trades [RANGE 1 s]", ("instant", "change", "size"), "instant"),
        ("SELECT ISTREAM size FROM trades [RANGE 1 s]", ("instant", "size"), "instant"),
        ("SELECT SUM(size) FROM trades [RANGE 1 s INTERNAL]", ("instant", "sum(size)"), "instant"),
        ("SELECT sector FROM companies", ("sector",), None),
        (
            "SELECT a FROM (SELECT size AS a FROM trades [ROWS 2 SLIDE 2]) x",
            ("window_start", "window_end", "a"),
            "window_end",
        ),
    ],
)
def test_result_columns(text: str, columns: tuple[str, ...], time: str | None) -> None:
    query = select(text)
    assert result_columns(query).names == columns
    assert event_time(query) == time


def test_emit_and_restore() -> None:
    query = select("SELECT ISTREAM RESTORE DISTINCT symbol FROM trades [RANGE 5 s SLIDE 1 s]")
    assert (query.emit, query.restore, query.distinct) == (Emission.ISTREAM, True, True)
    assert select("SELECT symbol FROM trades [RANGE 5 s SLIDE 1 s]").emit is None


def test_explain() -> None:
    explained = bound("EXPLAIN SELECT size FROM trades [NOW]")
    assert isinstance(explained, Explain) and explained.name is None and isinstance(explained.query, Select)
    assert bound("EXPLAIN QUERY Momentum") == Explain("", "momentum")
    assert bound("EXPLAIN PLAN") == Explain("")


# ---- WSTREAM -------------------------------------------------------------------------------------------------------


def test_wstream_of_the_whole_list() -> None:
    one = select("SELECT WSTREAM(*)[ROWS 10] FROM trades [RANGE 1 MINUTE] WHERE size > 1")
    other = select("SELECT * FROM (SELECT ISTREAM * FROM trades [RANGE 1 MINUTE INTERNAL] WHERE size > 1) [ROWS 10]")
    assert one == other


def test_wstream_inside_an_aggregate() -> None:
    one = select("SELECT SUM(WSTREAM(SUM(size))[ROWS 10]) AS s FROM trades [RANGE 6 s SLIDE 6 s]")
    other = select(
        "SELECT SUM(wstream_1) AS s FROM"
        " (SELECT SUM(size) AS wstream_1 FROM trades [RANGE 6 s SLIDE 6 s INTERNAL]) [ROWS 10]"
    )
    assert one == other


def test_wstream_groups_on_both_levels() -> None:
    one = select(
        "SELECT UPPER(symbol) AS u, day, MAX(WSTREAM(SUM(size))[ROWS 3]) - MIN(WSTREAM(AVG(price))[ROWS 3]) AS d"
        " FROM trades [RANGE 6 s SLIDE 6 s] WHERE size > 1 GROUP BY u, day HAVING COUNT(*) > 2"
    )
    other = select(
        "SELECT group_1 AS u, day, MAX(wstream_1) - MIN(wstream_2) AS d FROM"
        " (SELECT UPPER(symbol) AS group_1, day, SUM(size) AS wstream_1, AVG(price) AS wstream_2"
        "  FROM trades [RANGE 6 s SLIDE 6 s INTERNAL] WHERE size > 1 GROUP BY UPPER(symbol), day) [ROWS 3]"
        " GROUP BY group_1, day HAVING COUNT(*) > 2"
    )
    assert one == other


def test_wstream_of_an_aggregated_list_keeps_having_inside() -> None:
    one = select(
        "SELECT WSTREAM(symbol, SUM(size) AS s)[RANGE 1 h] FROM trades [RANGE 6 s SLIDE 6 s]"
        " GROUP BY symbol HAVING s > 1"
    )
    other = select(
        "SELECT * FROM (SELECT symbol, SUM(size) AS s FROM trades [RANGE 6 s SLIDE 6 s INTERNAL]"
        " GROUP BY symbol HAVING s > 1) [RANGE 1 h]"
    )
    assert one == other


def test_an_aggregate_of_a_user() -> None:
    class Range:
        name = "SPREAD"

        def result_type(self, types: tuple[DataType, ...], constants: tuple[object, ...]) -> DataType:
            return types[0]

    from panewise.language.bind.binder import bind_one, parse
    from tests.language.samples import sample_catalog

    [parsed] = parse("SELECT spread(price) FROM trades [NOW]")
    statement = bind_one(
        parsed, sample_catalog(), lambda name: Range() if name == "SPREAD" else None, lambda: ["SPREAD"]
    )
    assert isinstance(statement, SelectOnce) and isinstance(statement.query, Select)
    assert statement.query.items[0].expression == AggregateCall(DOUBLE, "SPREAD", (ColumnRef(DOUBLE, "price"),))
