"""Periodic queries on real streams, where their files are at hand: the engine gives what Spark's batch windows give.

The files are in `shared/data` beside the repository; without them these tests are skipped. Each is cut to what a test
may take; the long run takes more.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd
import pyarrow as pa
import pytest

from tests.engine.spark_windows import SECOND, WindowQuery, compare, engine_answers, same, spark_answers
from tests.places import ROOT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DATA = ROOT.resolve().parent / "shared" / "data"
MINUTE, HOUR = 60 * SECOND, 3600 * SECOND

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(not DATA.is_dir(), reason=f"the real streams are not there: no folder {DATA}"),
]


@dataclass(frozen=True)
class RealStream:
    """A file as a stream `t`: how to read so many of its rows, its statement, and queries over it."""

    name: str
    read: Callable[[int], pa.Table]
    statement: str
    queries: tuple[WindowQuery, ...]
    rows: int
    rows_soak: int


def instants(microseconds: pd.Series) -> pa.Array:
    return pa.array(microseconds.to_numpy("int64"), pa.timestamp("us", tz="UTC"))


def trades(count: int) -> pa.Table:
    frame = pd.read_csv(DATA / "us_equity_trades_20131007_20131011.csv.zst", nrows=count)
    # pandas may count these instants in coarser units than nanoseconds: go through microseconds explicitly.
    days = pd.to_datetime(frame["date"].astype(str), utc=True).dt.as_unit("us").astype("int64")
    return pa.table(
        {
            "ts": instants(days + frame["time_ms"] * 1000),
            "symbol": pa.array(frame["symbol"], pa.string()),
            "price": pa.array(frame["price_e4"] / 1e4, pa.float64()),
            "size": pa.array(frame["size"], pa.int64()),
            "exchange": pa.array(frame["exchange"].astype(str), pa.string()),
        }
    )


def connections(count: int) -> pa.Table:
    frame = pd.read_csv(
        DATA / "zeek_conn_20240419_20240421.tsv.zst", sep="\t", nrows=count, na_values="-", dtype={"ts": str}
    )
    seconds = frame["ts"].str.split(".", expand=True)
    times = seconds[0].astype("int64") * SECOND + seconds[1].fillna("0").str.ljust(6, "0").str[:6].astype("int64")
    return pa.table(
        {
            "ts": instants(times),
            "proto": pa.array(frame["proto"], pa.string()),
            "service": pa.array(frame["service"], pa.string(), from_pandas=True),
            "duration": pa.array(frame["duration"], pa.float64(), from_pandas=True),
            "bytes": pa.array(frame["orig_bytes"], pa.int64(), from_pandas=True),
        }
    )


def power(count: int) -> pa.Table:
    names = ["seconds", "value", "property", "plug", "household", "house"]
    frame = pd.read_csv(DATA / "debs2014_smartgrid_small.txt.zst", sep=r"\s+", names=names, nrows=count)
    return pa.table(
        {
            "ts": instants(frame["seconds"] * SECOND),
            "value": pa.array(frame["value"], pa.float64()),
            "property": pa.array(frame["property"], pa.int32()),
            "house": pa.array(frame["house"], pa.int64()),
        }
    )


def sensors(count: int) -> pa.Table:
    frame = pd.read_csv(DATA / "debs2012_small.tsv.zst", sep="\t", header=None, nrows=count)
    # 100 ns digits: floored to microseconds, as the engine floors nanoseconds.
    times = pd.to_datetime(frame[0], utc=True).dt.floor("us").dt.as_unit("us").astype("int64")
    return pa.table(
        {
            "ts": instants(times),
            "mf01": pa.array(frame[2], pa.int32()),
            "mf02": pa.array(frame[3], pa.int32()),
            "bm05": pa.array(frame[12] == 1, pa.bool_()),
        }
    )


def cars(count: int) -> pa.Table:
    names = ["seconds", "vehicle", "speed", "highway", "lane", "direction", "position"]
    frame = pd.read_csv(DATA / "linear_road_small.txt.zst", sep=r"\s+", names=names, nrows=count)
    return pa.table(
        {
            "ts": instants(frame["seconds"] * SECOND),
            "vehicle": pa.array(frame["vehicle"], pa.int64()),
            "speed": pa.array(frame["speed"], pa.float64()),
            "direction": pa.array(frame["direction"], pa.int32()),
        }
    )


PRICES = same("AVG(price)", "MIN(price)", "MAX(price)", "SUM(size)", "STDDEV_SAMP(price)", "VAR_POP(size)", "COUNT(*)")

STREAMS = (
    RealStream(
        "trades",
        trades,
        "CREATE STREAM t (ts TIMESTAMP, symbol STRING, price DOUBLE, size BIGINT, exchange STRING)",
        (
            WindowQuery(5 * MINUTE, MINUTE, ("symbol",), PRICES),
            WindowQuery(7 * MINUTE, 3 * MINUTE, ("symbol", "exchange"), PRICES),
            WindowQuery(10 * SECOND, 10 * SECOND, (), PRICES, where="size >= 100"),
        ),
        100_000,
        2_793_812,
    ),
    RealStream(
        "connections",
        connections,
        "CREATE STREAM t (ts TIMESTAMP, proto STRING, service STRING, duration DOUBLE, bytes BIGINT, "
        "WATERMARK FOR ts AS ts - INTERVAL 70 MINUTES)",
        (
            WindowQuery(HOUR, 10 * MINUTE, ("proto", "service"), same("COUNT(*)", "SUM(bytes)", "AVG(duration)")),
            WindowQuery(50 * MINUTE, 15 * MINUTE, ("proto",), same("MAX(bytes)", "MIN(duration)", "COUNT(service)")),
        ),
        105_918,
        105_918,
    ),
    RealStream(
        "power",
        power,
        "CREATE STREAM t (ts TIMESTAMP, value DOUBLE, property INT, house BIGINT)",
        (
            WindowQuery(10 * SECOND, SECOND, ("house",), same("SUM(value)", "MAX(value)", "STDDEV_POP(value)")),
            WindowQuery(7 * SECOND, 2 * SECOND, (), same("AVG(value)", "COUNT(*)"), where="property = 1"),
        ),
        33_627,
        33_627,
    ),
    RealStream(
        "sensors",
        sensors,
        "CREATE STREAM t (ts TIMESTAMP, mf01 INT, mf02 INT, bm05 BOOLEAN)",
        (WindowQuery(SECOND, 300_000, ("bm05",), same("AVG(mf01)", "SUM(mf02)", "MIN(mf01)", "VAR_SAMP(mf02)")),),
        17_000,
        17_000,
    ),
    RealStream(
        "cars",
        cars,
        "CREATE STREAM t (ts TIMESTAMP, vehicle BIGINT, speed DOUBLE, direction INT)",
        (WindowQuery(MINUTE, 25 * SECOND, ("direction",), same("AVG(speed)", "MAX(vehicle)", "COUNT(*)")),),
        16_384,
        16_384,
    ),
)


@pytest.mark.parametrize("real", STREAMS, ids=lambda real: real.name)
def test_real_streams(spark: SparkSession, tmp_path: Path, soak: bool, real: RealStream) -> None:
    rows = real.read(real.rows_soak if soak else real.rows)
    found = engine_answers(real.statement, rows, real.queries)
    expected = spark_answers(spark, tmp_path, rows, real.queries)
    for query, ours, theirs in zip(real.queries, found, expected, strict=True):
        assert compare(query, ours, theirs) > 0
