"""`evaluate` on Arrow and `to_spark_sql` on Spark give the same values, in either ANSI mode and any time zone."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from panewise.language.expressions import Call, Expression
from panewise.plan.expressions.evaluate import evaluate
from panewise.plan.expressions.spark_sql import to_spark_sql
from tests.plan.expression_samples import APPROXIMATE, listed_expressions, nasty_table, random_expressions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

# Many expressions a job keep the run short; too many make one generated class too long to compile.
BUNDLE = 60


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> Iterator[SparkSession]:
    """A session of its own, so that no other test sees its zone and mode."""
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", "Asia/Kolkata")
    # Compiling whole stages for 150 rows would take most of the time.
    session.conf.set("spark.sql.codegen.wholeStage", "false")
    return session


@pytest.fixture(scope="module")
def batch() -> pa.RecordBatch:
    return nasty_table()


@pytest.fixture(scope="module")
def frame(session: SparkSession, batch: pa.RecordBatch, tmp_path_factory: pytest.TempPathFactory) -> DataFrame:
    path: Path = tmp_path_factory.mktemp("nasty") / "rows.parquet"
    pq.write_table(pa.Table.from_batches([batch]), path)
    return session.read.parquet(str(path)).coalesce(1)


@pytest.mark.parametrize("ansi", ["true", "false"])
def test_listed_expressions_agree(
    session: SparkSession, frame: DataFrame, batch: pa.RecordBatch, ansi: str, soak: bool
) -> None:
    expressions = listed_expressions()
    if not soak:
        # The compiled form takes three times as long: every run has a fifth of the list with it, and half without.
        expressions = expressions[::5] if ansi == "true" else expressions[::2]
    _assert_agreement(session, frame, batch, expressions, ansi)


@pytest.mark.parametrize(("ansi", "seed"), [("true", 1), ("false", 2)])
def test_random_expressions_agree(
    session: SparkSession, frame: DataFrame, batch: pa.RecordBatch, ansi: str, seed: int, soak: bool
) -> None:
    _assert_agreement(session, frame, batch, random_expressions(5_000 if soak else 100, seed), ansi)


def _assert_agreement(
    session: SparkSession, frame: DataFrame, batch: pa.RecordBatch, expressions: list[Expression], ansi: str
) -> None:
    session.conf.set("spark.sql.ansi.enabled", ansi)
    # Spark has two implementations of every expression; each mode tests one.
    session.conf.set("spark.sql.codegen.factoryMode", "CODEGEN_ONLY" if ansi == "true" else "NO_CODEGEN")
    differences: list[str] = []
    for start in range(0, len(expressions), BUNDLE):
        bundle = expressions[start : start + BUNDLE]
        answers = _on_spark(frame, [to_spark_sql(expression) for expression in bundle])
        for expression, theirs in zip(bundle, answers, strict=True):
            ours = evaluate(expression, batch)
            assert ours.type == expression.type.to_arrow(), (ours.type, expression)
            difference = theirs if isinstance(theirs, str) else _difference(expression, ours, theirs)
            if difference is not None:
                differences.append(f"{to_spark_sql(expression)}\n    {difference}")
    assert not differences, f"{len(differences)} of {len(expressions)}:\n" + "\n".join(differences[:40])


def _on_spark(frame: DataFrame, texts: list[str]) -> list[pa.ChunkedArray | str]:
    """A column per text, or the message of the error; a bundle that fails is split until the culprit is alone."""
    from pyspark.errors import PySparkException

    named = [f"{text} AS column_{index}" for index, text in enumerate(texts)]
    try:
        return list(frame.selectExpr(*named).toArrow().columns)
    except PySparkException as error:
        if len(texts) == 1:
            return [str(error)[:300]]
        middle = len(texts) // 2
        return _on_spark(frame, texts[:middle]) + _on_spark(frame, texts[middle:])


def _difference(expression: Expression, ours: pa.Array, theirs: pa.ChunkedArray) -> str | None:
    """The first row that differs, in words."""
    wanted = ours.type
    if theirs.type != wanted:
        same_kind = pa.types.is_timestamp(theirs.type) and pa.types.is_timestamp(wanted)
        same_kind |= pa.types.is_large_string(theirs.type)
        if not same_kind:
            return f"Arrow has the type {wanted}, Spark {theirs.type}"
        theirs = theirs.cast(wanted)
    approximate = any(isinstance(node, Call) and node.function in APPROXIMATE for node in expression.walk())
    if pa.types.is_timestamp(wanted):
        ours, theirs = ours.cast(pa.int64()), theirs.cast(pa.int64())
    elif pa.types.is_date(wanted):
        ours, theirs = ours.cast(pa.int32()), theirs.cast(pa.int32())
    for row, (mine, yours) in enumerate(zip(ours.to_pylist(), theirs.to_pylist(), strict=True)):
        if not _same(mine, yours, approximate):
            return f"row {row}: Arrow says {mine!r}, Spark says {yours!r}"
    return None


def _same(mine: Any, yours: Any, approximate: bool) -> bool:
    if isinstance(mine, float) and isinstance(yours, float):
        if math.isnan(mine) or math.isnan(yours):
            return math.isnan(mine) and math.isnan(yours)
        return mine == yours or (approximate and math.isclose(mine, yours, rel_tol=1e-14))
    return bool(mine == yours)
