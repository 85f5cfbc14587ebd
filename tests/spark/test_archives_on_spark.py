"""CREATE ARCHIVE on Spark: whatever fails and comes again, an archive holds each result once, and none that expired."""

from __future__ import annotations

import os
import pickle
import random
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark import cloudpickle

import panewise as pw
from panewise.archive.archive import Archive
from panewise.errors import ArchiveError, CatalogError, PlanError
from panewise.spark.archives import archive_writer
from panewise.spark.delivery import batch_writer
from panewise.spark.delivery.batch_writer import BatchWriter
from panewise.spark.environment.folder import Folder
from panewise.spark.program.identity import identity_of
from panewise.spark.program.reconcile import reconciled
from panewise.spark.tasks.batch_progress import last_marks
from panewise.state.durable_files import FileSystem
from tests.now_or_soak import soaking
from tests.spark import test_exactly_once as once
from tests.spark.local_run import LocalRun, _Frame
from tests.spark.test_books import pipeline_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EPOCH = datetime(2024, 5, 1, tzinfo=UTC)
STREAM = "CREATE STREAM t (ts TIMESTAMP, k STRING, v BIGINT, WATERMARK FOR ts AS ts - INTERVAL 2 SECONDS)"
QUERIES = {
    "summed": "SELECT k, SUM(v) AS s FROM t [RANGE 10 SECONDS SLIDE 2 SECONDS] GROUP BY k",
    "changing": "SELECT k, COUNT(*) AS n FROM t [RANGE 3 SECONDS] WHERE v > 50 GROUP BY k",
    "counted": "SELECT k, SUM(v) AS s FROM t [ROWS 30 SLIDE 10] GROUP BY k",
    "stacked": "SELECT MAX(s) AS most, COUNT(*) AS n FROM summed [RANGE 8 SECONDS SLIDE 4 SECONDS]",
}
KEYS = {"summed": "k", "changing": "k", "counted": "k", "stacked": "most"}
Row = dict[str, Any]


@pytest.fixture(autouse=True)
def _quick_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FileSystem, "sync", lambda *given: None)
    monkeypatch.setattr(FileSystem, "sync_folder", lambda *given: None)


def batches(seed: int, count: int) -> Iterator[list[Row]]:
    """Rows of a micro-batch each, in no order within the delay; some of them have none."""
    chance, second = random.Random(seed), 0.0
    for _ in range(count):
        rows = []
        for _ in range(chance.choice([0, 5, 20, 40])):
            second += chance.random() * 0.4
            late = second - chance.random() * 1.9
            rows.append({"ts": EPOCH + timedelta(seconds=late), "k": chance.choice("abc"), "v": chance.randrange(100)})
        yield rows


def batch_of(rows: list[Row]) -> pa.RecordBatch:
    schema = pa.schema([("ts", pa.timestamp("us", tz="UTC")), ("k", pa.string()), ("v", pa.int64())])
    return pa.RecordBatch.from_pylist(rows, schema)


def archived(path: Path, name: str, every: str = "5 seconds", lifetime: str = "60 seconds") -> str:
    return (
        f"CREATE ARCHIVE {name}_archive FROM {name} WITH (path = '{path / name}', key = '{KEYS[name]}', "
        f"lifetime = '{lifetime}', every = '{every}', layout = '2x2')"
    )


def content(path: Path) -> tuple[Counter[str], int]:
    """The rows of an archive, and the instant of its last update."""
    with Archive.open(path) as archive:
        now = archive.manifest.now_us
        assert now is not None
        assert archive.verify().sound
        return counted(archive.scan().to_pylist()), now


def counted(rows: list[Row]) -> Counter[str]:
    return Counter(repr(sorted(row.items())) for row in rows)


def expected(files: list[list[Row]], name: str, now: int, lifetime_s: int) -> Counter[str]:
    """The slow and obvious archive: all that the embedded engine says, with lives, without what has expired."""
    engine = pw.Engine()
    engine.execute(STREAM)
    for query, text in QUERIES.items():
        engine.execute(f"CREATE QUERY {query} AS {text}")
    for rows in files:
        engine.push("t", rows)
    engine.advance("t", over(files))
    timestamp = engine.catalog.get(name, "query").timestamp  # type: ignore[union-attr]
    return counted(with_lifetimes(engine.results(name).to_pylist(), lifetime_s, now, timestamp))


def with_lifetimes(rows: list[Row], lifetime_s: int, now: int, timestamp: str = "window_end") -> list[Row]:
    found = []
    for row in rows:
        lives = {"_inserted": row[timestamp], "_expires": row[timestamp] + timedelta(seconds=lifetime_s)}
        if lives["_expires"] > datetime.fromtimestamp(now / 1e6, UTC):
            found.append(row | lives)
    return found


def over(files: list[list[Row]]) -> int:
    """An instant at which every window with rows has been closed."""
    newest = max(row["ts"] for rows in files for row in rows)
    return int((newest + timedelta(seconds=24)).timestamp() * 1_000_000)


class Killed(BaseException):
    """Nothing catches it, as nothing catches a kill."""


class FaultyRun(LocalRun):
    """The foreachBatch dies now and then, at a moment of its work with archives, and another process does it again."""

    moments: list[tuple[Any, str]] = [
        (Archive, "update"),
        (batch_writer, "write_marks"),
        (archive_writer, "write_archive_starts"),
    ]

    def __init__(self, place: Path, chance: random.Random, patch: pytest.MonkeyPatch) -> None:
        super().__init__(place)
        self.faults, self.patch, self.died = chance, patch, 0
        self.kept: archive_writer.ArchiveWriter | None = None

    def change(self, *statements: str) -> None:
        super().change(*statements)
        self.kept = None

    def deliver(self, writer: BatchWriter, frame: _Frame) -> None:
        writer.archives = self.kept = self.kept or self._new_archives()
        for _ in range(self.faults.choice([0, 0, 0, 1, 2])):
            with self.patch.context() as patch:
                where, name = self.faults.choice(self.moments)
                patch.setattr(where, name, self._dying(getattr(where, name), self.faults.random() < 0.5))
                try:
                    writer(frame, self.batch)  # type: ignore[arg-type]
                except Killed:
                    self.died += 1
                else:
                    return
            writer.archives = self.kept = pickle.loads(cloudpickle.dumps(self._new_archives()))
            frame = self.again(frame)
        writer(frame, self.batch)  # type: ignore[arg-type]

    def again(self, frame: _Frame) -> _Frame:
        """What the tasks of a micro-batch that comes again say."""
        return frame

    def _dying(self, step: Callable[..., Any], afterwards: bool) -> Callable[..., Any]:
        def dying(*given: Any, **named: Any) -> Any:
            if afterwards:
                step(*given, **named)
            raise Killed

        return dying

    def _new_archives(self) -> archive_writer.ArchiveWriter:
        made = archive_writer.ArchiveWriter(self.reference, 1e9)
        made.prepare()
        return made


@pytest.mark.parametrize("seed", soaking(range(6), now=range(3)))
def test_each_result_is_archived_once_whatever_dies(tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(seed)
    run = FaultyRun(tmp_path / "checkpoint", chance, monkeypatch)
    run.change(STREAM, *(f"CREATE QUERY {name} AS {text}" for name, text in QUERIES.items()))
    every = chance.choice(["1 second", "5 seconds", "20 seconds"])
    run.change(*(archived(tmp_path, name, every) for name in QUERIES))
    files = list(batches(seed, 25))
    for rows in files:
        if rows:
            run.push("t", batch_of(rows))
        run.run()
    run.advance("t", over(files))
    run.run()
    assert run.died
    for name in QUERIES:
        found, now = content(tmp_path / name)
        assert found == expected(files, name, now, 60)
        assert found, name


def run_through(run: LocalRun, files: list[list[Row]]) -> int:
    """How many rows the query `summed` has delivered."""
    delivered = 0
    for rows in files:
        if rows:
            run.push("t", batch_of(rows))
        delivered += run.run().get("summed", pa.table({})).num_rows
    return delivered


def begun(place: Path, *statements: str) -> LocalRun:
    run = LocalRun(place)
    run.change(STREAM, *(f"CREATE QUERY {name} AS {text}" for name, text in QUERIES.items()))
    run.change(*statements)
    return run


def test_an_archive_is_updated_once_a_slot_and_rows_wait_in_the_log(tmp_path: Path) -> None:
    files = list(batches(3, 29))
    run = begun(tmp_path / "checkpoint", archived(tmp_path, "summed", "1 minute", "1 hour"))
    delivered = run_through(run, files)
    with Archive.open(tmp_path / "summed") as archive:
        manifest = archive.manifest
    slots = manifest.layout.slot(manifest.now_us or 0) - manifest.layout.slot(int(EPOCH.timestamp()) * 1_000_000)
    assert 2 <= manifest.version - 1 <= slots + 2 < run.batch
    assert sum(content(tmp_path / "summed")[0].values()) < delivered
    archive_writer.ArchiveWriter(run.reference, 1e9).settle(last_marks(run.folder))
    assert sum(content(tmp_path / "summed")[0].values()) == delivered
    run.advance("t", over(files))
    run.run()
    found, now = content(tmp_path / "summed")
    assert found == expected(files, "summed", now, 3600)


def test_rows_are_archived_before_the_log_forgets_them(tmp_path: Path) -> None:
    run = begun(tmp_path / "checkpoint", archived(tmp_path, "summed", "1 hour", "1 day"))
    run_through(run, list(batches(3, 10)))
    before, _ = content(tmp_path / "summed")
    for name in run.folder.names("results"):
        os.utime(tmp_path / "checkpoint" / "results" / name, (1, 1))
    run_through(run, [[]])
    after, _ = content(tmp_path / "summed")
    assert sum(after.values()) > sum(before.values())


def test_a_dropped_archive_gets_what_it_is_owed_and_another_goes_on_in_its_folder(tmp_path: Path) -> None:
    files = list(batches(4, 30))
    run = begun(tmp_path / "checkpoint", archived(tmp_path, "summed", "1 hour", "1 day"))
    delivered = run_through(run, files[:15])
    run.change("DROP ARCHIVE summed_archive", archived(tmp_path, "summed", "1 hour", "1 day"))
    delivered += run_through(run, files[15:])
    run.change("DROP ARCHIVE summed_archive")
    run.advance("t", over(files))
    run.run()
    found, now = content(tmp_path / "summed")
    assert found <= expected(files, "summed", now, 86_400)
    # What came with the punctuation came after it had been dropped.
    assert sum(found.values()) == delivered


def test_updates_of_somebody_else_are_noticed(tmp_path: Path) -> None:
    files = list(batches(5, 12))
    run = begun(tmp_path / "checkpoint", archived(tmp_path, "summed", "1 second"))
    run_through(run, files[:8])
    with Archive.open(tmp_path / "summed") as archive:
        now = archive.manifest.now_us
        assert now is not None
        archive.update(now, None, number=archive.manifest.update + 1_000)
    with pytest.raises(ArchiveError, match="updates that are not of this pipeline"):
        run_through(run, files[8:])


def test_what_a_pipeline_refuses(tmp_path: Path) -> None:
    pipeline = pipeline_of(STREAM, f"CREATE QUERY summed AS {QUERIES['summed']}")
    options = f"WITH (path = '{tmp_path}/a', key = 'k', lifetime = '1 day')"
    pipeline.execute(f"CREATE ARCHIVE a FROM summed {options}")
    assert not (tmp_path / "a").exists()
    with pytest.raises(PlanError, match="cannot be chosen by cost"):
        pipeline.execute("ALTER ARCHIVE a SET (layout = 'by cost')")
    with pytest.raises(ArchiveError, match="there is no archive"):
        pipeline.execute("SELECT * FROM a")
    assert pipeline.execute("SHOW ARCHIVES").to_pylist()[0]["name"] == "a"  # type: ignore[union-attr]


def test_a_pipeline_reads_what_its_micro_batches_have_archived(tmp_path: Path) -> None:
    files = list(batches(6, 12))
    run = begun(tmp_path / "checkpoint", archived(tmp_path, "summed", "1 second", "1 day"))
    run_through(run, files)
    query = f"CREATE QUERY summed AS {QUERIES['summed']}"
    pipeline = pipeline_of(STREAM, query, archived(tmp_path, "summed", "1 second", "1 day"))
    found = pipeline.execute("SELECT k, s, window_end FROM summed_archive WHERE k = 'b'")
    assert found is not None
    with Archive.open(tmp_path / "summed") as archive:
        kept = archive.probe("b", columns=["k", "s", "window_end"])
    assert counted(found.to_pylist()) == counted(kept.to_pylist())
    assert kept.num_rows
    (shown,) = pipeline.execute("SHOW ARCHIVES").to_pylist()  # type: ignore[union-attr]
    assert int(shown["rows"]) == sum(content(tmp_path / "summed")[0].values())


def test_an_archive_gets_another_layout_between_two_micro_batches(tmp_path: Path) -> None:
    files = list(batches(8, 20))
    run = begun(tmp_path / "checkpoint", archived(tmp_path, "summed", "2 seconds", "1 day"))
    run_through(run, files[:10])
    run.change("ALTER ARCHIVE summed_archive SET (layout = 'chronological 3x2', update = 'no_rebuild')")
    run_through(run, files[10:])
    run.advance("t", over(files))
    run.run()
    found, now = content(tmp_path / "summed")
    assert found == expected(files, "summed", now, 86_400)
    with Archive.open(tmp_path / "summed") as archive:
        assert archive.layout.name == "NoRebuild3x2chr"
        assert not archive.manifest.moving


def test_a_restart_with_another_layout_alters_and_with_another_key_is_refused(tmp_path: Path) -> None:
    run = begun(tmp_path / "checkpoint", archived(tmp_path, "summed"))
    statements = [STREAM, *(f"CREATE QUERY {name} AS {text}" for name, text in QUERIES.items())]
    same = pipeline_of(*statements, archived(tmp_path, "summed"))
    assert reconciled(same.books, run.program, False) == []
    other = pipeline_of(*statements, archived(tmp_path, "summed").replace("2x2", "3x2"))
    (altered,) = reconciled(other.books, run.program, False)
    assert altered.text == "ALTER ARCHIVE summed_archive SET (layout = '3x2')"
    keyed = pipeline_of(*statements, archived(tmp_path, "summed").replace("key = 'k'", "key = 's'"))
    with pytest.raises(CatalogError, match="other definitions of archive summed_archive"):
        reconciled(keyed.books, run.program, False)
    fewer = pipeline_of(*statements)
    assert reconciled(fewer.books, run.program, False) == []
    assert fewer.books.catalog.find("summed_archive") is not None


# -- Spark itself ------------------------------------------------------------------------------------------------------


class ArchiveScene(once.Scene):
    """Archives instead of sinks."""

    @property
    def statements(self) -> str:
        path = f"connector = 'parquet', path = '{self.folder}/input', max_files_per_trigger = 1"
        texts = [f"CREATE STREAM t ({once.STREAM}) WITH ({path})"]
        for name, lifetime in LIFETIMES.items():
            texts.append(f"CREATE QUERY {name} AS {once.QUERIES[name]}")
            texts.append(
                f"CREATE ARCHIVE {name}_archive FROM {name} WITH (path = '{self.folder}/{name}', key = 's', "
                f"lifetime = '{lifetime} seconds', every = '4 seconds', layout = '2x2')"
            )
        return ";\n".join(texts)


LIFETIMES = {"grouped": 30, "counted": 1_000}


@pytest.mark.soak  # every run kills a driver with other sinks (test_exactly_once), and archives wherever they write
@pytest.mark.spark
def test_a_killed_driver_leaves_archives_that_the_next_one_completes(tmp_path: Path) -> None:
    chance = random.Random(7)
    scene = ArchiveScene(tmp_path, None, "", chance)  # type: ignore[arg-type]
    files = once.files_of(7, 40)
    once.write_files(tmp_path / "input", files)
    once.kill_drivers_and_finish(scene, 6)
    undisturbed = once.undisturbed(files)
    for name, lifetime in LIFETIMES.items():
        found, now = content(tmp_path / name)
        assert sum(found.values()) > 10
        assert found == counted(with_lifetimes(undisturbed[name], lifetime, now))


@pytest.mark.spark
def test_an_archive_comes_and_goes_while_the_pipeline_runs(spark: SparkSession, tmp_path: Path) -> None:
    pipeline = pw.SparkPipeline(spark, str(tmp_path / "checkpoint"), name="archiving", partitions=2)
    pipeline.execute(f"{STREAM}; CREATE QUERY summed AS {QUERIES['summed']}")
    handle = pipeline.start()
    try:
        (tmp_path / "summed").write_text("in the way")
        with pytest.raises(ArchiveError):
            pipeline.execute(archived(tmp_path, "summed", "1 hour", "1 day"))
        assert pipeline.books.catalog.find("summed_archive") is None
        (tmp_path / "summed").unlink()
        pipeline.execute(archived(tmp_path, "summed", "1 hour", "1 day"))
        files = list(batches(9, 4))
        for rows in files:
            pipeline.push("t", batch_of(rows))
        handle.process_all()
        assert pipeline.execute("SHOW ARCHIVES").to_pylist()[0]["name"] == "summed_archive"  # type: ignore[union-attr]
    finally:
        handle.stop()
    delivered = counted(with_lifetimes(handle.fetch("summed").to_pylist(), 86_400, 0))
    assert delivered
    assert content(tmp_path / "summed")[0] == delivered
    chosen = pipeline.execute("SELECT COUNT(*) AS n FROM summed_archive WHERE k = 'a'")
    read = pw.read_archive(spark, tmp_path / "summed")
    assert chosen is not None and chosen["n"].to_pylist() == [read.where("k = 'a'").count()]
    assert counted(read.toArrow().to_pylist()) == delivered


def test_folders_of_others_are_refused_and_untouched(tmp_path: Path) -> None:
    (tmp_path / "mine" / "data").mkdir(parents=True)
    (tmp_path / "mine" / "data" / "sales.parquet").write_bytes(b"mine")
    pipeline = pipeline_of(STREAM)
    options = "key = 'k', lifetime = '1 hour'"
    with pytest.raises(ArchiveError, match=r"cannot become an archive: it holds 'data/sales.parquet'"):
        pipeline.execute(f"CREATE ARCHIVE a FROM t WITH (path = '{tmp_path}/mine', {options})")
    assert pipeline.execute("SHOW ARCHIVES").num_rows == 0  # type: ignore[union-attr]
    pipeline.execute(f"CREATE ARCHIVE a FROM t WITH (path = '{tmp_path}/archive', {options})")
    with pytest.raises(CatalogError, match="lies inside the folder of the archive 'a'"):
        pipeline.execute(f"CREATE ARCHIVE b FROM t WITH (path = '{tmp_path}/archive/data/b', {options})")
    results = tmp_path / "checkpoint" / "results"
    results.mkdir(parents=True)
    (results / "thesis.txt").write_text("mine")
    folder = Folder(str(tmp_path / "checkpoint"))
    with pytest.raises(CatalogError, match=r"cannot become a checkpoint: .* there is something in 'results'"):
        identity_of(pipeline, folder)
    assert [path.name for path in (tmp_path / "checkpoint").iterdir()] == ["results"]
    assert folder.older("results", than=1e12) == []
