"""Sources: files of three formats and the generator, converted to a stream's schema."""

from __future__ import annotations

import gzip
import json
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from panewise.catalog import StreamDefinition
from panewise.connectors.by_name import open_source
from panewise.errors import ConnectorError
from panewise.schema import BIGINT, DOUBLE, STRING, TIMESTAMP, Column, Schema

SCHEMA = Schema((Column("ts", TIMESTAMP), Column("symbol", STRING), Column("price", DOUBLE), Column("size", BIGINT)))
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def stream(schema: Schema = SCHEMA, **options: object) -> StreamDefinition:
    return StreamDefinition("trades", schema, "ts", 0, tuple(options.items()))


def rows_of(definition: StreamDefinition) -> list[dict[str, Any]]:
    source = open_source(definition)
    assert source is not None
    rows: list[dict[str, Any]] = []
    for batch in source.batches():
        rows.extend(batch if isinstance(batch, list) else batch.to_pylist())
    return rows


def test_csv_columns_are_found_by_name_and_converted(tmp_path: Path) -> None:
    (tmp_path / "b.csv").write_text("extra,SIZE,price,symbol,ts\n1,7,1.5,B,2026-01-01T12:00:00Z\n")
    (tmp_path / "a.csv").write_text('ts,symbol,price,size\n2026-01-01 12:00:00,"",,3\n')
    assert rows_of(stream(connector="csv", path=str(tmp_path))) == [
        {"ts": NOON, "symbol": "", "price": None, "size": 3},
        {"ts": NOON, "symbol": "B", "price": 1.5, "size": 7},
    ]


def test_csv_options_and_compression(tmp_path: Path) -> None:
    with gzip.open(tmp_path / "a.tsv.gz", "wt") as file:
        file.write("ts\tsymbol\tprice\tsize\n1767268800.25\tA\t-\t3\n")
    definition = stream(connector="csv", path=str(tmp_path), delimiter="\\t", null="-", epoch="seconds")
    assert rows_of(definition) == [
        {"ts": NOON.replace(microsecond=250_000), "symbol": "A", "price": None, "size": 3},
    ]


def test_a_value_that_does_not_convert_reaches_the_engine_as_it_stands(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("ts,symbol,price,size\n2026-01-01 12:00:00,A,cheap,3\n")
    assert rows_of(stream(connector="csv", path=str(tmp_path / "a.csv")))[0]["price"] == "cheap"


def test_a_csv_line_with_too_many_fields(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("ts,symbol,price,size\n2026-01-01 12:00:00,A,1,3,4,5\n2026-01-01 12:00:00,A,1,3\n")
    with pytest.raises(ConnectorError, match=r"a\.csv' cannot be read.*6"):
        rows_of(stream(connector="csv", path=str(tmp_path)))
    skipping = rows_of(stream(connector="csv", path=str(tmp_path), on_bad_row="skip"))
    assert [row["ts"] for row in skipping] == [NOON, "2026-01-01 12:00:00,A,1,3,4,5"]


def test_json_lines(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(
        '{"ts": "2026-01-01T12:00:00", "symbol": "A", "price": 1, "Size": 2, "more": [1]}\n'
        "\n"
        '{"ts": "2026-01-01T12:00:00Z", "symbol": null, "price": 2.5}\n'
    )
    rows = rows_of(stream(connector="json", path=str(tmp_path / "a.json")))
    assert [(row["symbol"], row["price"], row["size"]) for row in rows] == [("A", 1.0, 2), (None, 2.5, None)]


def test_a_broken_line_of_json(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(
        '{"ts": "2026-01-01T12:00:00", "symbol": "A", "price": 1, "size": 2}\n{"ts": \n[1]\n'
    )
    with pytest.raises(ConnectorError, match=r"line 2 of .*a\.json' is not a JSON object"):
        rows_of(stream(connector="json", path=str(tmp_path)))
    skipping = rows_of(stream(connector="json", path=str(tmp_path), on_bad_row="skip"))
    assert [row["ts"] for row in skipping] == [NOON, '{"ts": ', "[1]"]


def test_json_of_mixed_types_is_handed_on_as_rows(tmp_path: Path) -> None:
    lines = [{"ts": "2026-01-01 12:00:00", "symbol": "A", "price": price, "size": 1} for price in (1, "x")]
    (tmp_path / "a.json").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert [row["price"] for row in rows_of(stream(connector="json", path=str(tmp_path)))] == [1, "x"]


def test_parquet_reads_folders_globs_and_finer_instants(tmp_path: Path) -> None:
    for name, nanoseconds in (("b", 1_999), ("a", -1)):
        table = pa.table(
            {
                "size": pa.array([1], pa.int32()),
                "symbol": pa.array(["A"]).dictionary_encode(),
                "price": pa.array([2], pa.float32()),
                "ts": pa.array([nanoseconds], pa.timestamp("ns")),
            }
        )
        pq.write_table(table, tmp_path / f"{name}.parquet")
    (tmp_path / "_SUCCESS").write_text("")
    for path in (tmp_path, tmp_path / "*.parquet"):
        definition = stream(connector="parquet", path=str(path))
        source = open_source(definition)
        assert source is not None
        assert source.rows_total == 2
        epoch = datetime(1970, 1, 1, tzinfo=UTC)
        microseconds = [round((row["ts"] - epoch).total_seconds() * 1e6) for row in rows_of(definition)]
        assert microseconds == [-1, 1]


def test_what_is_missing_is_said(tmp_path: Path) -> None:
    with pytest.raises(ConnectorError, match=r"the path '.*absent.csv' of stream 'trades' does not exist"):
        open_source(stream(connector="csv", path=str(tmp_path / "absent.csv")))
    with pytest.raises(ConnectorError, match="no file matches"):
        open_source(stream(connector="csv", path=str(tmp_path / "*.csv")))
    with pytest.raises(ConnectorError, match=r"holds no .parquet files"):
        open_source(stream(connector="parquet", path=str(tmp_path)))
    (tmp_path / "a.csv").write_text("ts,symbol,prize,size\n")
    with pytest.raises(ConnectorError, match=r"has no column 'price'\nhint: did you mean prize?"):
        rows_of(stream(connector="csv", path=str(tmp_path)))
    (tmp_path / "a.parquet").write_bytes(b"nonsense")
    with pytest.raises(ConnectorError, match=r"a\.parquet' cannot be read"):
        open_source(stream(connector="parquet", path=str(tmp_path / "a.parquet")))
    with pytest.raises(ConnectorError, match="needs the option 'path'"):
        open_source(stream(connector="csv"))


def test_connectors_by_name() -> None:
    assert open_source(stream()) is None
    with pytest.raises(ConnectorError, match=r"unknown connector 'parket'\nhint: did you mean parquet?"):
        open_source(stream(connector="parket"))
    with pytest.raises(ConnectorError, match=r"'kafka', which only Spark has\nhint: the embedded engine has parquet"):
        open_source(stream(connector="kafka"))


def test_the_generator_depends_on_its_seed_only() -> None:
    short = rows_of(stream(connector="generator", rows=1_000, seed=7))
    long = rows_of(stream(connector="generator", rows=70_000, seed=7))
    assert len(short) == 1_000
    assert len(long) == 70_000
    assert long[:1_000] == short
    assert rows_of(stream(connector="generator", rows=1_000, seed=8)) != short


def test_the_generator_keeps_its_promises() -> None:
    rows = rows_of(stream(connector="generator", rows=70_000, rate=1_000, symbols=30, start="2026-01-01 12:00:00"))
    instants = [row["ts"] for row in rows]
    assert instants == sorted(instants)
    assert instants[0] >= NOON
    assert 65 < (instants[-1] - NOON).total_seconds() < 75
    assert len({row["symbol"] for row in rows}) == 30
    assert all(row["price"] > 0 and row["size"] > 0 for row in rows)
    steps = [b["price"] / a["price"] for a, b in _successive(rows, "ALFA")]
    assert 0.99 < min(steps) <= max(steps) < 1.01, "a walk, also across batches"


def test_the_generator_disorder_is_bounded() -> None:
    rows = rows_of(stream(connector="generator", rows=20_000, disorder="2 seconds"))
    greatest, behind = rows[0]["ts"], 0.0
    for row in rows:
        greatest = max(greatest, row["ts"])
        behind = max(behind, (greatest - row["ts"]).total_seconds())
    assert 1 < behind <= 2


def test_the_generator_has_four_columns() -> None:
    schema = Schema((Column("ts", TIMESTAMP), Column("venue", STRING)))
    with pytest.raises(ConnectorError, match="the generated trade stream has no column 'venue'"):
        open_source(stream(schema, connector="generator"))


def _successive(rows: list[dict[str, Any]], symbol: str) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    chosen = [row for row in rows if row["symbol"] == symbol]
    return list(pairwise(chosen))


def test_csv_without_a_header_has_the_columns_as_declared(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("2026-01-01 12:00:00,A,1.5,3\n2026-01-01 12:00:00,B,,4\n")
    for written in (False, "false"):
        rows = rows_of(stream(connector="csv", path=str(tmp_path), header=written))
        assert [(row["symbol"], row["price"], row["size"]) for row in rows] == [("A", 1.5, 3), ("B", None, 4)]
    (tmp_path / "a.csv").write_text("2026-01-01 12:00:00,A\n")
    with pytest.raises(ConnectorError, match="cannot be read"):
        rows_of(stream(connector="csv", path=str(tmp_path), header=False))


def test_an_array_of_json_is_told_how_to_become_lines(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('[{"ts": "2026-01-01T12:00:00"}]\n')
    with pytest.raises(ConnectorError, match=r"line 1 of .*is not a JSON object(?s:.*)hint: .*jq -c '\.\[\]'"):
        rows_of(stream(connector="json", path=str(tmp_path)))
    (tmp_path / "a.json").write_text("5\n")
    with pytest.raises(ConnectorError, match="it is not an object in braces"):
        rows_of(stream(connector="json", path=str(tmp_path)))
