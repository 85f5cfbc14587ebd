"""A stream and a query on a durable engine, small enough to know every answer by heart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

import panewise as pw

SECOND_US = 1_000_000
STREAM = "CREATE STREAM s (ts TIMESTAMP, k STRING, v BIGINT)"
QUERY = "CREATE QUERY q AS SELECT SUM(v) AS total FROM s [RANGE 2 SECONDS SLIDE 1 SECOND]"


def row(second: float, v: int = 1, k: str = "a") -> dict[str, Any]:
    return {"ts": int(second * SECOND_US), "k": k, "v": v}


def table(*rows: dict[str, Any]) -> pa.Table:
    times = pa.timestamp("us", tz="UTC")
    return pa.Table.from_pylist(list(rows), pa.schema([("ts", times), ("k", pa.string()), ("v", pa.int64())]))


def begun(folder: Path, **options: Any) -> pw.Engine:
    engine = pw.Engine(folder, **options)
    engine.execute(f"{STREAM}; {QUERY}")
    return engine


def totals(engine: pw.Engine) -> list[int]:
    return engine.results("q")["total"].to_pylist()


def log_of(folder: Path) -> Path:
    return max(folder.glob("log-*"))
