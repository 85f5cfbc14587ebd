"""What tests of the engine share: a stream `t`, two queries over it, its rows by their second, answers as tuples."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

import panewise as pw

SECOND = 1_000_000
STREAM = "CREATE STREAM t (ts TIMESTAMP, k STRING, v BIGINT, x DOUBLE)"
SUMS = "CREATE QUERY q AS SELECT k, SUM(v) AS s FROM t [RANGE 2 SECONDS SLIDE 1 SECOND] GROUP BY k"
COUNTS = "CREATE QUERY c AS SELECT COUNT(*) AS n FROM t [RANGE 2 SECONDS SLIDE 1 SECOND]"


def engine_of(*statements: str) -> pw.Engine:
    engine = pw.Engine()
    for statement in statements:
        engine.execute(statement)
    return engine


def row(second: float, k: str | None = "a", v: int | None = 1, x: float | None = 1.0) -> dict[str, Any]:
    return {"ts": int(second * SECOND), "k": k, "v": v, "x": x}


def rows(*seconds: float, k: str = "a", v: int = 1) -> list[dict[str, Any]]:
    return [row(second, k, v) for second in seconds]


def tuples(table: pa.Table) -> list[tuple[Any, ...]]:
    """Rows without window_start; instants in seconds."""
    if "window_start" in table.column_names:
        table = table.drop_columns("window_start")
    columns = []
    for column in table.columns:
        stamped = pa.types.is_timestamp(column.type)
        columns.append([v / SECOND for v in column.cast(pa.int64()).to_pylist()] if stamped else column.to_pylist())
    return list(zip(*columns, strict=True))


def statuses(engine: pw.Engine) -> dict[str, str]:
    shown = engine.execute("SHOW QUERIES")
    assert shown is not None
    return dict(zip(shown["name"].to_pylist(), shown["status"].to_pylist(), strict=True))
