"""CREATE ARCHIVE FROM a stream on Spark: whatever dies and comes again, each row that is not late is archived once."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import panewise as pw
from panewise.archive.archive import Archive
from panewise.errors import ArchiveError, NotHeldError
from panewise.spark.archives import archive_of_stream, archive_staging, archive_writer
from panewise.spark.delivery import batch_writer
from panewise.spark.environment.folder import Folder
from panewise.spark.results.batch_log import forget_older
from panewise.spark.tasks.batch_progress import last_marks
from panewise.state.durable_files import FileSystem
from tests.now_or_soak import soaking
from tests.spark import test_exactly_once as once
from tests.spark.local_run import LocalRun, _Frame
from tests.spark.test_archives_on_spark import EPOCH, FaultyRun, Row, batch_of, content, counted, with_lifetimes
from tests.spark.test_books import pipeline_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DELAY_S = 2
STREAM = f"CREATE STREAM t (ts TIMESTAMP, k STRING, v BIGINT, WATERMARK FOR ts AS ts - INTERVAL {DELAY_S} SECONDS)"
QUERY = "CREATE QUERY summed AS SELECT k, COUNT(*) AS n FROM t [RANGE 10 SECONDS SLIDE 2 SECONDS] GROUP BY k"
Messages = list[list[Row]]  # of one micro-batch


@pytest.fixture(autouse=True)
def _quick_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FileSystem, "sync", lambda *given: None)
    monkeypatch.setattr(FileSystem, "sync_folder", lambda *given: None)


def micro_batches(seed: int, count: int) -> Iterator[Messages]:
    """Of each micro-batch the messages; some rows are late, now and then time leaps or several rows have one time."""
    chance, second = random.Random(seed), 0.0
    for _ in range(count):
        second += chance.choice([0.0] * 12 + [30.0])
        messages = []
        for _ in range(chance.choice([0, 1, 1, 2])):
            rows = []
            for _ in range(chance.choice([1, 5, 20])):
                second += chance.choice([0.0, 0.2, 0.5])
                ts = EPOCH + timedelta(seconds=round(second - chance.choice([0, 0, 1.5, 8]), 1))
                rows.append({"ts": ts, "k": chance.choice("abc"), "v": chance.randrange(100)})
            messages.append(rows)
        yield messages


def on_time(batches: list[Messages]) -> list[Row]:
    """The rows that are not late: not before the watermark that the micro-batch before has left."""
    found, watermark = [], None
    for messages in batches:
        good = [row for rows in messages for row in rows if watermark is None or row["ts"] >= watermark]
        found += good
        newest = max((row["ts"] - timedelta(seconds=DELAY_S) for row in good), default=watermark)
        watermark = newest if watermark is None or newest is None else max(watermark, newest)
    return found


def micros(row: Row) -> int:
    return int((row["ts"] - EPOCH) / timedelta(microseconds=1)) + int(EPOCH.timestamp()) * 1_000_000


def expected(rows: list[Row], now: int, lifetime_s: int, after: int | None = None) -> Counter[str]:
    """The slow and obvious archive at an instant."""
    passed = [row for row in rows if micros(row) <= now and (after is None or micros(row) > after)]
    return counted(with_lifetimes(batch_of(passed).to_pylist(), lifetime_s, now, "ts"))


def archive_of(path: Path, every: str = "5 seconds", lifetime: str = "60 seconds", name: str = "a") -> str:
    options = f"key = 'k', lifetime = '{lifetime}', every = '{every}', layout = '2x2'"
    return f"CREATE ARCHIVE {name} FROM t WITH (path = '{path / name}', {options})"


def run_through(run: LocalRun, batches: list[Messages]) -> None:
    for messages in batches:
        for rows in messages:
            run.push("t", batch_of(rows))
        run.run()


def ended(run: LocalRun, batches: list[Messages]) -> None:
    """An instant at which the watermark has passed every row."""
    run.advance("t", max(micros(row) for messages in batches for rows in messages for row in rows) + 1)
    run.run()


def settled(run: LocalRun) -> None:
    archive_writer.ArchiveWriter(run.reference, 1e9).settle(last_marks(run.folder))


class KilledRun(FaultyRun):
    """Tasks of a micro-batch that comes again stage their rows again, under other names."""

    moments = [
        (Archive, "update"),
        (batch_writer, "write_list"),
        (batch_writer, "write_marks"),
        (archive_writer, "write_archive_starts"),
        (archive_staging.StagedRows, "forget"),
        (archive_staging.StagedRows, "sweep"),
        (Folder, "remove"),
    ]

    def _attempt(self, names: list[str], stores: dict[int, dict[Any, bytes]]) -> list[tuple[Any, ...]]:
        self._given = names, {key: dict(content) for key, content in stores.items()}
        return super()._attempt(names, stores)

    def again(self, frame: _Frame) -> _Frame:
        if self.faults.random() < 0.5:
            return frame
        names, stores = self._given
        return _Frame(super()._attempt(names, {key: dict(content) for key, content in stores.items()}))


@pytest.mark.parametrize("first", soaking(range(8), now=[0, 2, 3, 6, 7]))
def test_each_row_is_archived_once_whatever_dies(
    tmp_path: Path, first: int, soak: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for seed in range(first, 400, 8) if soak else [first]:
        chance = random.Random(seed)
        monkeypatch.setattr(archive_of_stream, "HELD_MAX", chance.choice([5, 60, 10_000]))
        monkeypatch.setattr(archive_of_stream, "FILES_MAX", chance.choice([3, 1_000]))
        monkeypatch.setattr(archive_staging, "STAGED_MAX", chance.choice([3, 10_000]))
        place = tmp_path / str(seed)
        run = KilledRun(place / "checkpoint", chance, monkeypatch)
        run.chance = random.Random(seed)  # tasks fail too
        every = chance.choice(["1 second", "5 seconds", "20 seconds"])
        lifetime_s = chance.choice([20, 60, 3_600])
        run.change(STREAM, *chance.choice([(), (QUERY,)]), archive_of(place, every, f"{lifetime_s} seconds"))
        batches = list(micro_batches(seed, 30))
        for messages in batches:
            run_through(run, [messages])
            if chance.random() < 0.1:
                settled(run)  # as a pipeline does that is stopped
                run.kept = None
        ended(run, batches)
        settled(run)
        found, now = content(place / "a")
        rows = on_time(batches)
        assert run.died and found
        assert len(rows) < sum(len(rows) for messages in batches for rows in messages)
        assert now == max(micros(row) for row in rows)
        assert found == expected(rows, now, lifetime_s)
        archives = archive_writer.ArchiveWriter(run.reference, 1e9)
        archives.write(run.batch - 1, last_marks(run.folder))
        assert run.folder.names("staged") == [], "what is archived is staged no more"


def test_it_holds_what_the_embedded_engine_archives(tmp_path: Path) -> None:
    rows = [row for messages in micro_batches(5, 40) for rows in messages for row in rows]
    punctual = on_time([[[row]] for row in rows])  # whether a row is late within a push is judged row by row there
    batches = [[punctual[at : at + 17]] for at in range(0, len(punctual), 17)]
    engine = pw.Engine()
    engine.execute(f"{STREAM}; {archive_of(tmp_path / 'embedded')}")
    run = LocalRun(tmp_path / "checkpoint")
    run.change(STREAM, archive_of(tmp_path))
    for messages in batches:
        engine.push("t", messages[0])
    run_through(run, batches)
    engine.close()
    settled(run)
    assert content(tmp_path / "a") == content(tmp_path / "embedded" / "a")


def test_an_update_brings_few_rows_however_many_are_staged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One micro-batch of everything, in files that overlap: the driver takes it in parts."""
    monkeypatch.setattr(archive_of_stream, "HELD_MAX", 20)
    monkeypatch.setattr(archive_staging, "STAGED_MAX", 7)
    brought = []
    update = Archive.update

    def counted_update(self: Archive, now: Any, rows: Any = None, number: int | None = None) -> Any:
        brought.append(0 if rows is None else rows.num_rows)
        return update(self, now, rows, number)

    monkeypatch.setattr(Archive, "update", counted_update)
    rows = [row for messages in micro_batches(1, 60) for rows in messages for row in rows]
    random.Random(1).shuffle(rows)
    run = LocalRun(tmp_path / "checkpoint")
    run.change(STREAM, archive_of(tmp_path, "1 minute", "1 hour"))
    run_through(run, [[rows]])
    ended(run, [[rows]])
    settled(run)
    found, now = content(tmp_path / "a")
    assert found == expected(rows, now, 3_600)
    of_one_time = max(Counter(row["ts"] for row in rows).values())
    assert len(brought) >= len(rows) // (20 + of_one_time)
    assert max(brought) < 20 + of_one_time


def test_what_expired_before_it_was_written_is_not_sought_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its staged file is gone, while its list is not: another file of that has rows that wait."""
    rows = [{"ts": EPOCH + timedelta(seconds=second), "k": "a", "v": second} for second in (4, 17)]
    run = LocalRun(tmp_path / "checkpoint")
    run.change(STREAM, archive_of(tmp_path, "10 seconds", "10 seconds"))
    with monkeypatch.context() as patch:
        patch.setattr(
            archive_of_stream, "HELD_MAX", 0
        )  # written up to the watermark, which is past the end of the slot
        run_through(run, [[rows[:1], rows[1:]]])
    assert len(run.folder.names("staged")) == 2
    run_through(run, [[]])
    ended(run, [[rows]])
    settled(run)
    found, now = content(tmp_path / "a")
    assert found == expected(rows, now, 10) and len(found) == 1


def test_rows_wait_until_their_slot_is_over(tmp_path: Path) -> None:
    batches = list(micro_batches(2, 40))
    run = LocalRun(tmp_path / "checkpoint")
    run.change(STREAM, archive_of(tmp_path, "1 minute", "1 hour"))
    run_through(run, batches)
    with Archive.open(tmp_path / "a") as archive:
        manifest = archive.manifest
    assert manifest.now_us is not None and manifest.now_us % 60_000_000 == 0
    times = [micros(row) for row in on_time(batches)]
    assert 2 <= manifest.version - 1 <= (max(times) - min(times)) // 60_000_000 + 1 < run.batch
    assert run.folder.names("staged")
    found, now = content(tmp_path / "a")
    assert found == expected(on_time(batches), now, 3_600)


def test_archives_of_one_stream_share_what_is_staged_and_the_next_one_goes_on_in_a_folder(tmp_path: Path) -> None:
    batches = list(micro_batches(3, 45))
    run = LocalRun(tmp_path / "checkpoint")
    run.change(STREAM, QUERY)
    run_through(run, batches[:10])
    begun = on_time(batches[:10])
    watermark = max(micros(row) for row in begun) - DELAY_S * 1_000_000
    run.change(archive_of(tmp_path, "1 minute", "1 day"), archive_of(tmp_path, "3 seconds", "1 day", "b"))
    run_through(run, batches[10:25])
    run.change("DROP ARCHIVE a", archive_of(tmp_path, "7 seconds", "1 day"))
    run_through(run, batches[25:])
    run.change("ALTER ARCHIVE a SET (layout = '3x2')", "DROP ARCHIVE b")
    ended(run, batches)
    settled(run)
    rows = on_time(batches)[len(begun) :]
    found, now = content(tmp_path / "a")
    assert found == expected(rows, now, 86_400) and now == max(micros(row) for row in rows)
    assert found == expected(rows, now, 86_400, after=watermark - 1)
    shorter, stopped = content(tmp_path / "b")
    last = max(micros(row) for row in on_time(batches)) - DELAY_S * 1_000_000
    assert stopped == last - 1
    assert shorter == expected(rows, stopped, 86_400)
    run.change("DROP ARCHIVE a")
    run_through(run, [[]])
    assert run.folder.names("staged") == []


def test_updates_of_somebody_else_are_noticed(tmp_path: Path) -> None:
    batches = list(micro_batches(4, 40))
    run = FaultyRun(tmp_path / "checkpoint", random.Random(0), pytest.MonkeyPatch())
    run.moments = []
    run.faults.choice = lambda given: 0  # type: ignore[method-assign, assignment, misc]
    run.change(STREAM, archive_of(tmp_path, "1 second"))
    run_through(run, batches[:20])
    with Archive.open(tmp_path / "a") as archive:
        archive.update(archive.manifest.now_us or 0, None, number=archive.manifest.update + 1)
    with pytest.raises(ArchiveError, match="updates that are not of this pipeline"):
        run_through(run, batches[20:])


def test_a_pipeline_reads_an_archive_of_a_stream(tmp_path: Path) -> None:
    run = LocalRun(tmp_path / "checkpoint")
    run.change(STREAM, archive_of(tmp_path, "1 second", "1 day"))
    run_through(run, list(micro_batches(6, 20)))
    pipeline = pipeline_of(STREAM, archive_of(tmp_path, "1 second", "1 day"))
    found = pipeline.execute("SELECT ts, k, v FROM a WHERE k = 'b'")
    with Archive.open(tmp_path / "a") as archive:
        kept = archive.probe("b", columns=["ts", "k", "v"])
    assert found is not None and kept.num_rows
    assert counted(found.to_pylist()) == counted(kept.to_pylist())


# -- Spark itself ------------------------------------------------------------------------------------------------------


class StreamScene(once.Scene):
    """Archives of a stream, one of them beside a query that needs few columns."""

    @property
    def statements(self) -> str:
        source = f"connector = 'parquet', path = '{self.folder}/input', max_files_per_trigger = 1"
        texts = [f"CREATE STREAM t ({once.STREAM}) WITH ({source})"]
        texts.append("CREATE QUERY counted AS SELECT COUNT(*) AS n FROM t [RANGE 10 SECONDS SLIDE 2 SECONDS]")
        for name, lifetime_s in LIFETIMES.items():
            options = f"path = '{self.folder}/{name}', key = 'k', lifetime = '{lifetime_s} seconds', layout = '2x3'"
            texts.append(f"CREATE ARCHIVE {name} FROM t WITH ({options}, every = '4 seconds')")
        return ";\n".join(texts)


LIFETIMES = {"short": 20, "long": 1_000}


@pytest.mark.spark
@pytest.mark.soak  # every run kills a driver with other sinks (test_exactly_once), and archives wherever they write
def test_a_killed_driver_leaves_archives_that_the_next_one_completes(tmp_path: Path) -> None:
    scene = StreamScene(tmp_path, None, "", random.Random(8))  # type: ignore[arg-type]
    files = once.files_of(8, 40)
    once.write_files(tmp_path / "input", files)
    once.kill_drivers_and_finish(scene, 6)
    rows = [row for rows in files for row in rows]
    for name, lifetime_s in LIFETIMES.items():
        found, now = content(tmp_path / name)
        arrow = pa.Table.from_pylist(rows, pa.schema([*batch_of([]).schema, ("w", pa.string())])).to_pylist()
        assert found == counted(with_lifetimes(arrow, lifetime_s, now, "ts"))
        assert sum(found.values()) > (len(rows) - 1 if name == "long" else 10)
    assert list((tmp_path / "checkpoint" / "staged").glob("[0-9]*.json")) == []


@pytest.mark.spark
def test_a_report_that_the_log_has_lost_comes_from_an_archive(spark: SparkSession, tmp_path: Path) -> None:
    pipeline = pw.SparkPipeline(spark, str(tmp_path / "checkpoint"), name="looking back", partitions=2)
    options = f"WITH (path = '{tmp_path}/past', key = 'k', lifetime = '1 day', every = '10 seconds')"
    unarchived = QUERY.replace("summed", "unarchived")
    pipeline.execute(f"{STREAM}; {QUERY}; {unarchived}; CREATE ARCHIVE past FROM summed {options}")
    pipeline.execute(archive_of(tmp_path, "10 seconds", "1 day"))
    handle = pipeline.start()
    rows = [{"ts": EPOCH + timedelta(seconds=second), "k": "ab"[second % 2], "v": second} for second in range(60)]
    try:
        pipeline.push("t", batch_of(rows[:30]))
        handle.process_all()
        pipeline.push("t", batch_of(rows[30:]))
        handle.process_all()
    finally:
        handle.stop()
    moments = [EPOCH + timedelta(seconds=second) for second in (4, 21, 40, 57)]
    known = [handle.lookup("summed", at=moment) for moment in moments]
    assert all(table.num_rows == 2 for table in known)
    newest = handle.lookup("summed")
    forget_older(handle.folder, time.time() + 10, handle.marks())
    assert [counted(handle.lookup("summed", at=moment).to_pylist()) for moment in moments] == [
        counted(table.to_pylist()) for table in known
    ]
    assert handle.lookup("summed", at=moments[1], key="a")["n"].to_pylist() == [5]
    assert counted(handle.lookup("summed").to_pylist()) == counted(newest.to_pylist())
    chosen = pipeline.execute("SELECT SUM(n) AS n FROM summed")
    assert chosen is not None and chosen["n"].to_pylist() == [sum(newest["n"].to_pylist())]
    for at in (moments[1], None):
        with pytest.raises(NotHeldError, match="is not in the log"):
            handle.lookup("unarchived", at=at)
    with pytest.raises(NotHeldError, match="no report at"):
        handle.lookup("summed", at=EPOCH + timedelta(seconds=90))
    found, now = content(tmp_path / "a")
    assert found == expected(rows, now, 86_400)
    assert len(found) == 57  # the watermark is at the second 57
