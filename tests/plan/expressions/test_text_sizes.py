"""Texts that expressions make: refused before they are made where they are too long for what asks for them."""

from __future__ import annotations

import pyarrow as pa
import pytest

import panewise as pw
from panewise.errors import DataError, ReadLimitError
from panewise.language.expressions import Call, ColumnRef, Expression, Literal
from panewise.plan.expressions.evaluate import compiled
from panewise.plan.expressions.text_sizes import cells_of
from panewise.schema import INT, STRING

TEXT = ColumnRef(STRING, "s")
LONG = "LPAD(s, 10000, 'a')"
SQUARED = f"REPLACE({LONG}, 'a', {LONG})"  # 100 MB of one row
CUBED = f"REPLACE({SQUARED}, 'a', {LONG})"  # a terabyte
CONSTANT = CUBED.replace("(s,", "('a',")
WINDOW = "t [RANGE 1 HOUR]"


def call(function: str, *arguments: Expression) -> Call:
    return Call(STRING, function, arguments)


def engine_of(rows: int, **limits: int) -> pw.Engine:
    engine = pw.Engine(**limits)
    engine.execute("CREATE STREAM t (ts TIMESTAMP, s STRING, v BIGINT) WITH (retain = '1 hour')")
    engine.push("t", [{"ts": i, "s": "a", "v": i} for i in range(rows)])
    engine.advance("t", rows)
    return engine


@pytest.mark.parametrize(
    "select",
    [
        f"SELECT LENGTH({SQUARED}) AS n FROM {WINDOW}",
        f"SELECT LENGTH({CUBED}) AS n FROM {WINDOW}",
        f"SELECT v FROM {WINDOW} WHERE LENGTH({CUBED}) > 0",
        f"SELECT MAX({CUBED}) AS n FROM {WINDOW}",
        f"SELECT COUNT(DISTINCT {CUBED}) AS n FROM {WINDOW}",
        f"SELECT DISTINCT {CUBED} AS n FROM {WINDOW}",
        f"SELECT a.v FROM {WINDOW} AS a, {WINDOW} AS b WHERE a.v = b.v AND LENGTH({CUBED.replace('(s,', '(a.s,')}) > 0",
    ],
)
def test_a_read_makes_no_text_that_is_longer_than_its_budget(select: str) -> None:
    engine = engine_of(1, read_bytes=1 << 20)
    with pytest.raises(ReadLimitError, match="more than 1,048,576 bytes"):
        engine.execute(select)
    assert engine.execute(f"SELECT v FROM {WINDOW}").num_rows == 1


def test_many_long_texts_are_computed_in_parts_that_fit() -> None:
    engine = engine_of(8_000, read_bytes=48 << 20)  # 80 MB in all, of which nothing is kept
    assert engine.execute(f"SELECT SUM(LENGTH({LONG})) AS n FROM {WINDOW}")["n"].to_pylist() == [80_000_000]


def test_texts_that_an_aggregate_keeps_count() -> None:
    engine = engine_of(2_000, read_bytes=4 << 20)
    longest = f"SELECT MAX(CONCAT({LONG}, CAST(v AS STRING))) AS n FROM {WINDOW}"
    with pytest.raises(ReadLimitError, match="bytes"):
        engine.execute(longest)


def test_a_constant_that_is_too_long_is_refused() -> None:
    engine = engine_of(1)
    with pytest.raises(DataError, match="a constant expression makes a text of more than"):
        engine.execute(f"SELECT LENGTH({CONSTANT}) AS n FROM {WINDOW}")


def test_what_no_array_can_hold_is_refused_in_words() -> None:
    long = call("lpad", TEXT, Literal(INT, 10_000), Literal(STRING, "a"))
    squared = call("replace", long, Literal(STRING, "a"), long)
    with pytest.raises(DataError, match="2,147,483,647 bytes"):
        compiled(call("replace", squared, Literal(STRING, "a"), long))(pa.record_batch({"s": ["a"]}))


def test_cells_grow_with_the_texts() -> None:
    replaced: Expression = TEXT
    for _ in range(5):
        replaced = call("replace", replaced, Literal(STRING, "a"), Literal(STRING, "b" * 16))
    assert cells_of([replaced]) > 500
    assert cells_of([call("lpad", TEXT, Literal(INT, 8_000), Literal(STRING, "a"))]) > 1_000
