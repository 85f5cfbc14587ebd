"""Sinks: what they write, where, and what they do with results of an earlier run."""

from __future__ import annotations

import json
import math
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from panewise.catalog import SinkDefinition
from panewise.connectors.by_name import open_sink
from panewise.connectors.sinks import Sink, json_lines
from panewise.errors import ConnectorError

TABLE = pa.table({"n": [1, 2]})


def sink(**options: object) -> Sink:
    return open_sink(SinkDefinition("alerts", "momentum", tuple(options.items())), lambda *_: None)


def test_a_parquet_folder_has_a_part_per_write(tmp_path: Path) -> None:
    for _ in range(2):
        out = sink(connector="parquet", path=str(tmp_path / "out"))
        out.write(TABLE)
        out.write(TABLE.slice(0, 0))
        out.close()
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == ["part-00000.parquet", "part-00001.parquet"]
    assert pq.read_table(tmp_path / "out")["n"].to_pylist() == [1, 2, 1, 2]


def test_one_parquet_file_appears_when_it_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "out.parquet"
    out = sink(connector="parquet", path=str(path))
    out.write(TABLE)
    out.write(TABLE)
    assert not path.exists()
    out.close()
    assert pq.read_table(path)["n"].to_pylist() == [1, 2, 1, 2]
    assert [p.name for p in path.parent.iterdir()] == ["out.parquet"]


@pytest.mark.parametrize("connector", ["parquet", "json"])
def test_results_of_an_earlier_run(tmp_path: Path, connector: str) -> None:
    path = str(tmp_path / "out")
    for existing in ("append", "append", "replace"):
        out = sink(connector=connector, path=path, existing=existing)
        out.write(TABLE)
        out.close()
    if connector == "json":
        assert Path(path).read_text() == '{"n": 1}\n{"n": 2}\n'
    else:
        assert pq.read_table(path).num_rows == 2
    with pytest.raises(ConnectorError, match="exists already"):
        sink(connector=connector, path=path, existing="fail")


def test_json_has_a_text_for_every_value() -> None:
    table = pa.table(
        {
            "instant": pa.array([datetime(2026, 1, 1, 12, 0, 0, 5, tzinfo=UTC)], pa.timestamp("us", tz="UTC")),
            "day": [date(2026, 1, 1)],
            "nan": [math.nan],
            "infinity": [-math.inf],
            "exact": pa.array([Decimal("123456789012345.678")], pa.decimal128(18, 3)),
            "text": ['a "b" \n ü'],
            "nothing": pa.nulls(1, pa.int64()),
            "yes": [True],
        }
    )
    (line,) = json_lines(table)
    assert line.count("\n") == 1
    assert '"exact": 123456789012345.678' in line
    assert json.loads(line) | {"exact": None} == {
        "instant": "2026-01-01T12:00:00.000005Z",
        "day": "2026-01-01",
        "nan": "NaN",
        "infinity": "-Infinity",
        "exact": None,
        "text": 'a "b" \n ü',
        "nothing": None,
        "yes": True,
    }


def test_the_console_prints_what_is_new() -> None:
    printed: list[tuple[str, int, int]] = []
    options = (("connector", "console"), ("rows", 5))
    out = open_sink(
        SinkDefinition("c", "momentum", options), lambda t, table, n: printed.append((t, table.num_rows, n))
    )
    out.write(TABLE)
    out.write(TABLE.slice(0, 0))
    out.close()
    assert printed == [("momentum", 2, 5)]


def test_sinks_by_name(tmp_path: Path) -> None:
    with pytest.raises(ConnectorError, match="sink 'alerts' needs the option 'connector'"):
        sink(path="x")
    with pytest.raises(ConnectorError, match=r"unknown connector 'jason'\nhint: did you mean json?"):
        sink(connector="jason")
    with pytest.raises(ConnectorError, match="only Spark has"):
        sink(connector="delta")
    with pytest.raises(ConnectorError, match="has no option 'row'"):
        sink(connector="console", row=3)
    (tmp_path / "file").write_text("")
    with pytest.raises(ConnectorError, match="cannot be made"):
        sink(connector="parquet", path=str(tmp_path / "file" / "out"))


def test_replace_touches_parts_of_sinks_only(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    out = sink(connector="parquet", path=str(folder))
    out.write(TABLE)
    out.close()
    (folder / "README.txt").write_text("mine")
    sink(connector="parquet", path=str(folder), existing="replace").write(TABLE)
    assert sorted(p.name for p in folder.iterdir()) == ["README.txt", "part-00000.parquet"]
    spark_own = "part-00000-0f6e8a5c-91a8-4a1a-8a59-1b1f0f5c9d33-c000.snappy.parquet"
    for name in ("part-of-mine.parquet", "sales.parquet", spark_own):
        (folder / name).write_bytes(b"mine")
        with pytest.raises(ConnectorError, match=f"'{name}' was not written by a sink of panewise"):
            sink(connector="parquet", path=str(folder), existing="replace")
        assert (folder / "part-00000.parquet").exists()
        assert (folder / name).read_bytes() == b"mine"
        (folder / name).unlink()


def test_one_parquet_file_keeps_the_rows_that_it_had(tmp_path: Path) -> None:
    path = tmp_path / "out.parquet"
    for expected in ([1, 2], [1, 2, 1, 2]):
        out = sink(connector="parquet", path=str(path))
        out.write(TABLE)
        out.close()
        assert pq.read_table(path)["n"].to_pylist() == expected
    other = sink(connector="parquet", path=str(path))
    with pytest.raises(ConnectorError, match="has other columns than the results"):
        other.write(pa.table({"m": [1]}))
    replaced = sink(connector="parquet", path=str(path), existing="replace")
    replaced.write(TABLE)
    replaced.close()
    assert pq.read_table(path)["n"].to_pylist() == [1, 2]
    path.write_text("a letter")
    with pytest.raises(ConnectorError, match="is not a Parquet file that rows can be added to"):
        sink(connector="parquet", path=str(path))
    assert path.read_text() == "a letter"
