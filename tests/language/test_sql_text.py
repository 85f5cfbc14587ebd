"""Typed expressions as text: readable, and with the meaning of the expression."""

from __future__ import annotations

import pytest

from panewise.language.expressions import Call, ColumnRef, Expression, Literal
from panewise.language.sql_text import to_sql
from panewise.language.statements import Select, SelectOnce
from panewise.schema import BIGINT, DOUBLE
from tests.language.samples import bound


def typed(text: str) -> Expression:
    statement = bound(f"SELECT {text} AS x FROM trades [NOW]")
    assert isinstance(statement, SelectOnce) and isinstance(statement.query, Select)
    return statement.query.items[0].expression


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("(price + 1) * 2", "(price + 1.0) * 2.0"),
        ("price - (1 - price) - 2", "price - (1.0 - price) - 2.0"),
        ("size % 3 DIV 2", "size % 3 DIV 2"),
        ("- -price", "- -price"),
        ("-(price + 1)", "-(price + 1.0)"),
        ("NOT (size > 1 AND size < 2 OR size = 3)", "NOT (size > 1 AND size < 2 OR size = 3)"),
        ("size > 1 AND (size < 2 OR size = 3)", "size > 1 AND (size < 2 OR size = 3)"),
        ("(size IS NULL) = (price IS NOT NULL)", "size IS NULL = price IS NOT NULL"),
        ("symbol IN ('a', 'it''s')", "symbol IN ('a', 'it''s')"),
        ("symbol || '!' LIKE 'a%'", "CONCAT(symbol, '!') LIKE 'a%'"),
        ("size IS DISTINCT FROM 3", "size IS DISTINCT FROM 3"),
        ("CASE WHEN size > 1 THEN 'a' ELSE 'b' END", "CASE WHEN size > 1 THEN 'a' ELSE 'b' END"),
        ("CASE WHEN size > 1 THEN 'a' END", "CASE WHEN size > 1 THEN 'a' END"),
        ("CAST(size AS DECIMAL(5, 2))", "CAST(size AS DECIMAL(5, 2))"),
        ("ts - INTERVAL 90 SECONDS", "ts - INTERVAL 90 SECONDS"),
        ("ts > TIMESTAMP '2026-01-31 12:00:00'", "ts > TIMESTAMP '2026-01-31 12:00:00'"),
        ("day = DATE '2026-01-31'", "day = DATE '2026-01-31'"),
        ("COUNT(*) + SUM(DISTINCT size)", "COUNT(*) + SUM(DISTINCT size)"),
        ("COALESCE(price, 1e300)", "COALESCE(price, 1e+300)"),
        ("TRUE AND NULL", "TRUE AND NULL"),
        ("size & 1 | ~size", "size & 1 | ~size"),
        ("DATE_TRUNC('hour', ts)", "DATE_TRUNC('HOUR', ts)"),
    ],
)
def test_to_sql(text: str, printed: str) -> None:
    expression = typed(text)
    assert to_sql(expression) == printed
    assert typed(printed) == expression


def test_names_are_quoted_where_they_must_be() -> None:
    assert to_sql(ColumnRef(DOUBLE, "max(price)", "from")) == '"from"."max(price)"'
    assert to_sql(ColumnRef(DOUBLE, 'a"b')) == '"a""b"'
    assert to_sql(ColumnRef(DOUBLE, "istream")) == '"istream"'


def test_infinity_has_a_text() -> None:
    assert to_sql(Literal(DOUBLE, float("-inf"))) == "CAST('-inf' AS DOUBLE)"
    assert to_sql(Call(BIGINT, "sub", (Literal(BIGINT, 1), Literal(BIGINT, -1)))) == "1 - -1"
