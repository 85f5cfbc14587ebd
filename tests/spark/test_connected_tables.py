"""Tables that a connector fills: what is read, which version a micro-batch sees, and what is refused, on both hosts."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import panewise as pw
from panewise.connectors import tables
from panewise.errors import ConnectorError, PanewiseError, PlanError
from tests.spark.local_tables import JOIN, NAMES, TRADES, TableRun, lines, names_at


def connected(path: Path, connector: str = "parquet") -> str:
    return f"{NAMES} WITH (connector = '{connector}', path = '{path}')"


def write(path: Path, **names: str) -> None:
    table = pa.table({"name": list(names.values()), "k": list(names), "further": [1] * len(names)})
    part = path.with_suffix(".part")
    pq.write_table(table, part)
    part.rename(path)


def test_files_that_change_are_seen_by_the_next_micro_batch(tmp_path: Path) -> None:
    files = tmp_path / "files"
    files.mkdir()
    write(files / "1.parquet", a="Anna", b="Ben")
    run = TableRun(tmp_path / "run")
    for text in (TRADES, connected(files), JOIN):
        run.execute(text)
    assert names_at(run, 1, "a", "b", "c") == ["Anna", "Ben"]
    assert names_at(run, 2, "a", "b", "c") == ["Anna", "Ben"]
    assert run.handle.table_stats()["names"]["version"] == 1
    write(files / "2.parquet", c="Carl")
    write(files / "1.parquet", a="Anne", b="Ben")
    assert names_at(run, 3, "a", "b", "c") == ["Anne", "Ben", "Carl"]
    run.start()
    assert run.execute("SELECT name FROM names").num_rows == 3
    run.pins().pin(run.batch, None)
    (files / "2.parquet").unlink()
    run.start()
    assert names_at(run, 4, "a", "b", "c") == ["Anne", "Ben", "Carl"]  # it had been handed over
    assert names_at(run, 5, "a", "b", "c") == ["Anne", "Ben"]
    stats = run.handle.table_stats()["names"]
    assert (stats["version"], stats["rows"], stats["changes"]) == (3, 2, "parquet")
    assert run.execute("SELECT name FROM names ").to_pylist() == [{"name": "Ben"}, {"name": "Anne"}]


def test_content_that_is_no_table_is_not_seen_and_that_is_said(tmp_path: Path) -> None:
    files = tmp_path / "files"
    files.mkdir()
    write(files / "1.parquet", a="Anna")
    run = TableRun(tmp_path / "run")
    for text in (TRADES, connected(files), JOIN):
        run.execute(text)
    assert names_at(run, 1, "a") == ["Anna"]
    write(files / "2.parquet", a="Ada")
    assert names_at(run, 2, "a") == ["Anna"]
    assert run.handle.table_stats()["names"]["problem"] == "two rows of 'names' would have the key k = 'a'"
    assert "a later one cannot be read: two rows of 'names'" in "\n".join(lines(run, "q"))
    (files / "2.parquet").write_bytes(b"no file")
    assert names_at(run, 3, "a") == ["Anna"]
    assert "cannot be read" in run.handle.table_stats()["names"]["problem"]
    (files / "2.parquet").unlink()
    (files / "1.parquet").unlink()
    assert names_at(run, 4, "a") == ["Anna"]
    assert "holds no .parquet files" in run.handle.table_stats()["names"]["problem"]
    write(files / "2.parquet", a="Ada")
    assert names_at(run, 5, "a") == ["Ada"]
    assert run.handle.table_stats()["names"]["problem"] == ""


def test_csv_and_json(tmp_path: Path) -> None:
    (tmp_path / "names.csv").write_text("k,name\na,Anna\nb,\n")
    (tmp_path / "names.json").write_text('{"k": "a", "name": "Anna"}\n{"k": "b"}\n')
    for connector in ("csv", "json"):
        for host in (pw.Engine(), TableRun(tmp_path / connector)):
            host.execute(connected(tmp_path / f"names.{connector}", connector))
            assert [tuple(row.values()) for row in host.execute("SELECT * FROM names").to_pylist()] == [
                ("a", "Anna"),
                ("b", None),
            ]
            with pytest.raises(ConnectorError, match="rows of table 'names' come from its connector, and no statement"):
                host.execute("INSERT INTO names VALUES ('c', 'Carl')")
            with pytest.raises(ConnectorError, match="come from its connector"):
                host.execute("DELETE FROM names")


def test_an_engine_is_restored_without_the_files(tmp_path: Path) -> None:
    write(tmp_path / "names.parquet", a="Anna")
    engine = pw.Engine()
    engine.execute(connected(tmp_path / "names.parquet"))
    (tmp_path / "names.parquet").unlink()
    restored = pw.Engine.restore(engine.snapshot())
    assert restored.execute("SELECT name FROM names").to_pylist() == [{"name": "Anna"}]


REFUSED = {
    "CREATE TABLE n (k STRING) WITH (connector = 'parquet', path = '{0}/good.parquet')": "write NON RETROACTIVE",
    "CREATE TABLE n (k STRING) NON RETROACTIVE WITH (connector = 'parket', path = 'x')": "unknown connector 'parket'",
    "CREATE TABLE n (k STRING) WITH (path = 'x')": "table 'n' without a connector has no option 'path'",
    "CREATE TABLE n (k STRING) NON RETROACTIVE WITH (connector = 'csv', path = 'x', late = 'keep')": (
        "table 'n' has no option 'late'"
    ),
    "CREATE TABLE n (k STRING) NON RETROACTIVE WITH (connector = 'parquet')": "table 'n' needs the option 'path'",
    "CREATE TABLE n (k STRING) NON RETROACTIVE WITH (connector = 'parquet', path = '{0}/no.parquet')": (
        "the path '{0}/no.parquet' of table 'n' does not exist"
    ),
    "CREATE TABLE n (q STRING) NON RETROACTIVE WITH (connector = 'parquet', path = '{0}/good.parquet')": (
        "has no column 'q'"
    ),
    "CREATE TABLE n (name BIGINT) NON RETROACTIVE WITH (connector = 'parquet', path = '{0}/good.parquet')": (
        "column 'name' of table 'n' is declared BIGINT, and what it reads has string values there that do not all "
        "convert\nhint: the first is 'Anna'"
    ),
    "CREATE TABLE n (further STRING) NON RETROACTIVE WITH (connector = 'parquet', path = '{0}/good.parquet')": (
        "column 'further' of table 'n' is declared STRING, and what it reads has int64 values there"
    ),
    "CREATE TABLE n (k BIGINT) NON RETROACTIVE WITH (connector = 'json', path = '{0}/mixed.json')": (
        "column 'k' of table 'n' is declared BIGINT, and a row has 'x' there"
    ),
    "CREATE TABLE n (further BIGINT PRIMARY KEY) NON RETROACTIVE WITH "
    "(connector = 'parquet', path = '{0}/good.parquet')": "two rows of 'n' would have the key further = 1",
    "CREATE TABLE n (k STRING PRIMARY KEY) NON RETROACTIVE WITH (connector = 'csv', path = '{0}/null.csv')": (
        "'k' is part of the primary key of 'n' and cannot be NULL"
    ),
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_cannot_be_a_table_is_refused_in_words(text: str, tmp_path: Path) -> None:
    write(tmp_path / "good.parquet", a="Anna", b="Ben")
    (tmp_path / "mixed.json").write_text('{"k": 1}\n{"k": "x"}\n')
    (tmp_path / "null.csv").write_text("k,v\n,1\n")
    for host in (pw.Engine(), TableRun(tmp_path / "run")):
        with pytest.raises(PanewiseError) as refused:
            host.execute(text.format(tmp_path))
        assert REFUSED[text].format(tmp_path) in str(refused.value)
        assert host.execute("SHOW TABLES").num_rows == 0


def test_large_tables_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "names.parquet", a="Anna", b="Ben", c="Carl")
    monkeypatch.setattr(tables, "TABLE_ROWS_MAX", 2)
    with pytest.raises(ConnectorError, match="table 'names' has more than 2 rows, and all of them are held in memory"):
        pw.Engine().execute(connected(tmp_path / "names.parquet"))


class StandIn:
    """As much of a session as a Delta table asks for: its history, and its rows as of a version."""

    version = "4.3.0"

    def __init__(self, contents: list[pa.Table] | None) -> None:
        self.contents = contents
        self.read = self
        self.asked: list[str] = []

    def format(self, name: str) -> StandIn:
        assert name == "delta"
        return self

    def option(self, name: str, value: str) -> StandIn:
        assert name == "versionAsOf"
        self.wanted = int(value)
        return self

    def load(self, path: str) -> StandIn:
        if self.contents is None:
            raise ValueError("[DATA_SOURCE_NOT_FOUND] Failed to find the data source: delta.")
        return self

    @property
    def schema(self) -> None:
        raise ValueError("[DELTA_TABLE_NOT_FOUND]")

    def sql(self, text: str) -> StandIn:
        self.asked.append(text)
        return self

    def collect(self) -> list[dict[str, int]]:
        assert self.contents is not None
        return [{"version": len(self.contents) - 1}]

    def limit(self, rows: int) -> StandIn:
        return self

    def toArrow(self) -> pa.Table:  # noqa: N802
        assert self.contents is not None
        return self.contents[self.wanted]


def test_a_delta_table_is_read_at_its_own_version(tmp_path: Path) -> None:
    run = TableRun(tmp_path)
    session = StandIn([pa.table({"name": ["Anna"], "k": ["a"]})])
    run.session = run.pipeline.spark = session
    for text in (TRADES, connected(Path("/lake/names"), "delta"), JOIN):
        run.execute(text)
    assert session.asked == ["DESCRIBE HISTORY delta.`/lake/names` LIMIT 1"]
    assert names_at(run, 1, "a", "b") == ["Anna"]
    assert session.contents is not None
    session.contents.append(pa.table({"name": ["Ben", "Anna"], "k": ["b", "a"]}))
    assert names_at(run, 2, "a", "b") == ["Anna", "Ben"]
    session.contents.append(pa.table({"name": ["Ben"], "k": ["b"], "more": [1]}))
    assert names_at(run, 3, "a", "b") == ["Ben"]
    session.contents.append(pa.table({"nothing": ["of", "this"]}))
    assert names_at(run, 4, "a", "b") == ["Ben"]
    assert "has no column 'k'" in run.handle.table_stats()["names"]["problem"]


def test_without_delta_lake_a_delta_table_is_refused_in_words(tmp_path: Path) -> None:
    pipeline = pw.SparkPipeline(StandIn(None))  # type: ignore[arg-type]
    with pytest.raises(ConnectorError, match="table 'names' needs Delta Lake, which this session does not have"):
        pipeline.execute(connected(Path("/lake/names"), "delta"))
    with pytest.raises(ConnectorError, match="wants the connector 'delta', which only Spark has"):
        pw.Engine().execute(connected(Path("/lake/names"), "delta"))


def test_a_table_that_a_stream_changes_is_refused(tmp_path: Path) -> None:
    run = TableRun(tmp_path)
    run.execute("CREATE STREAM c (ts TIMESTAMP, k STRING, name STRING)")
    with pytest.raises(PlanError, match="cannot be changed by a stream on Spark yet"):
        run.execute("CREATE TABLE names (k STRING PRIMARY KEY, name STRING) WITH (changes = 'c')")
