"""Readers see one committed version each, while updates, a migration and removals go on; other tools read the files."""

from __future__ import annotations

import json
import random
import threading
from itertools import pairwise
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from panewise.archive.archive import Archive
from panewise.archive.layout import Layout
from panewise.archive.sought import EXPIRES, INSERTED
from panewise.archive.storage import VanishedFile
from tests.archive.plain_table import EVERY, LAYOUTS, LIFETIME, SCHEMA, PlainTable, random_rows, rows_of, table_of


def generation_rows(number: int, now: int) -> list[tuple[int | None, str, int, int]]:
    """All rows of an update have its number, and live for two updates."""
    lives = 2 * EVERY - EVERY // 2
    return [(key, f"{number}", now - key % EVERY, now - key % EVERY + lives) for key in range(40)]


@pytest.mark.parametrize("same_object", [True, False])
def test_each_answer_is_of_one_version(same_object: bool, tmp_path: Path, soak: bool) -> None:
    writer = Archive.create(tmp_path, SCHEMA, key="key", layout=Layout(2, 2, EVERY, LIFETIME), grace_s=0)
    updates, done, problems, answers = 300 if soak else 60, threading.Event(), [], [0, 0]
    expected: dict[int, list[object]] = {0: []}
    plain = PlainTable()
    for number in range(1, updates + 1):
        plain.update(number * EVERY, generation_rows(number, number * EVERY))
        expected[number] = list(plain.select())

    def read(own: int) -> None:
        archive = writer if same_object else Archive.open(tmp_path)
        while not done.is_set():
            try:
                with archive.snapshot() as snapshot:
                    for _ in range(2):
                        assert rows_of(snapshot.scan()) == expected[snapshot.manifest.update]
                        probed = [row for row in expected[snapshot.manifest.update] if row[0] == 7]  # type: ignore[index]
                        assert rows_of(snapshot.probe(7)) == probed
                assert rows_of(archive.scan()) in expected.values()
                answers[own] += 1
            except BaseException as problem:  # noqa: BLE001
                problems.append(problem)
                return

    threads = [threading.Thread(target=read, args=(own,)) for own in range(2)]
    for thread in threads:
        thread.start()
    for number in range(1, updates + 1):
        writer.update(number * EVERY, table_of(generation_rows(number, number * EVERY)))  # type: ignore[arg-type]
        if number == updates // 2:
            writer.migrate(Layout(3, 2, EVERY, LIFETIME, style="no_rebuild"))
    done.set()
    for thread in threads:
        thread.join()
    assert not problems
    assert min(answers) > 3
    # Nobody holds an old version any more: the next update removes them all.
    writer.update(updates * EVERY, table_of([]))
    assert writer.describe()["versions"] == [writer.version]


def test_a_migration_loses_no_update_of_another_thread(tmp_path: Path) -> None:
    chance, plain = random.Random(2), PlainTable()
    archive = Archive.create(tmp_path, SCHEMA, key="key", layout=LAYOUTS[2], grace_s=0)
    for now in range(EVERY, LIFETIME, EVERY):
        rows = random_rows(chance, now, 30)
        archive.update(now, table_of(rows))
        plain.update(now, rows)
    turns = {"moved": 0}
    settle_one = archive._settle_one

    def settle_then_update(merge_all: bool) -> bool:
        """As another thread would: between any two steps there is an update."""
        nonlocal now
        more = settle_one(merge_all)
        if turns["moved"] < 8:
            turns["moved"] += 1
            now += EVERY
            rows = random_rows(chance, now, 10)
            archive.update(now, table_of(rows))
            plain.update(now, rows)
            assert rows_of(archive.scan()) == plain.select()
        return more

    archive._settle_one = settle_then_update  # type: ignore[method-assign]
    archive.migrate(LAYOUTS[0])
    assert turns["moved"] == 8
    assert rows_of(archive.scan()) == plain.select()
    assert archive.layout == LAYOUTS[0] and not archive.manifest.moving and archive.verify().sound


def test_a_snapshot_keeps_its_files(tmp_path: Path) -> None:
    archive = Archive.create(tmp_path, SCHEMA, key="key", layout=LAYOUTS[0], grace_s=0)
    archive.update(10, table_of([(1, "a", 1, 50)]))
    other = Archive.open(tmp_path)
    snapshot = other.snapshot()
    archive.update(60, table_of([(2, "b", 55, 90)]))
    archive.update(70, table_of([]))
    assert snapshot.probe(1)["text"].to_pylist() == ["a"]
    assert snapshot.version == 2 and archive.describe()["versions"] == [2, 4]
    snapshot.close()
    snapshot.close()
    archive.update(80, table_of([]))
    assert archive.describe()["versions"] == [5]


def test_a_reader_that_meets_a_vanished_file_reads_the_newest_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a reader in another process, of which the writer knows nothing."""
    archive = Archive.create(tmp_path, SCHEMA, key="key", layout=LAYOUTS[0], grace_s=0)
    archive.update(10, table_of([(1, "a", 1, 50)]))
    reader = Archive.open(tmp_path)
    monkeypatch.setattr(type(archive._pins), "holds", lambda pins, version: False)
    with reader.snapshot() as snapshot:
        archive.update(20, table_of([(1, "b", 1, 50)]))
        archive.update(21, table_of([]))
        with pytest.raises(VanishedFile, match="open the archive again"):
            snapshot.scan()

    versions = iter([snapshot.version])
    newest = reader._newest
    monkeypatch.setattr(reader, "_newest", lambda: next(versions, None) or newest())
    assert sorted(reader.scan()["text"].to_pylist()) == ["a", "b"]


def test_old_versions_stay_for_the_grace_period(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [1000.0]
    monkeypatch.setattr("time.time", lambda: clock[0])
    archive = Archive.create(tmp_path, SCHEMA, key="key", layout=LAYOUTS[0], grace_s=30)
    for number in range(6):
        clock[0] += 10
        archive.update(number, table_of([]))
    assert archive.describe()["versions"] == [4, 5, 6, 7]
    clock[0] += 1000
    archive.compact()
    assert archive.describe()["versions"] == [7]


@pytest.mark.parametrize("layout", LAYOUTS[:5], ids=lambda layout: layout.name)
def test_duckdb_reads_the_files_to_the_same_answer(layout: Layout, tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    chance, plain = random.Random(4), PlainTable()
    archive = Archive.create(tmp_path, SCHEMA, key="key", layout=layout)
    for now in range(EVERY, 2 * LIFETIME, EVERY):
        rows = random_rows(chance, now, 40)
        archive.update(now, table_of(rows))
        plain.update(now, rows)
    database = duckdb.connect()
    database.execute("SET TimeZone = 'UTC'")
    # The newest manifest names the files; nothing of panewise is needed.
    manifest = max((tmp_path / "manifests").iterdir())
    database.execute(
        f"""SET VARIABLE files = (
              SELECT list('{tmp_path}/' || file.name)
              FROM (SELECT unnest(files) AS file FROM read_json('{manifest}', maximum_object_size = 100000000)))"""
    )
    at = now + 3
    query = f"""SELECT key, text, epoch_us({INSERTED}), epoch_us({EXPIRES}) FROM read_parquet(getvariable('files'))
                WHERE key = 5 AND {INSERTED} <= make_timestamptz({at}) AND {EXPIRES} > make_timestamptz({at})"""
    found = database.execute(query).fetchall()
    assert sorted(found) == plain.select(lambda row: row[0] == 5 and row[2] <= at < row[3])
    assert sorted(found) == rows_of(archive.probe(5, at=at)) and found


def test_files_are_plain_parquet_with_directories(tmp_path: Path) -> None:
    archive = Archive.create(tmp_path, SCHEMA, key="key", layout=Layout(1, 1, EVERY, LIFETIME))
    archive.update(1, table_of([(key % 50, "x" * 300, 1, 9) for key in range(20_000)]))
    (file,) = archive.manifest.files
    metadata = pq.read_metadata(tmp_path / file.name)
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    assert metadata.num_rows == 20_000 and len(groups) > 3
    ranges = [(group.column(0).statistics.min, group.column(0).statistics.max) for group in groups]
    assert ranges == sorted(ranges) and ranges[0][0] == 0 and ranges[-1][1] == 49
    for group in groups:
        assert [column.column_index for column in group.sorting_columns] == [0, 3, 2]
        assert group.column(0).has_column_index and group.column(0).has_offset_index
        assert group.column(0).bloom_filter_length and not group.column(1).is_stats_set
    assert [str(field.type) for field in pq.read_schema(tmp_path / file.name)][2:] == ["timestamp[us, tz=UTC]"] * 2
    # Row groups end where keys end: a probe reads no row of another key but those it shares a group with.
    assert all(before[1] < after[0] for before, after in pairwise(ranges))
    with archive.snapshot() as snapshot:
        assert snapshot.touched(snapshot.sought([7])).row_groups == 1
    assert json.loads(max((tmp_path / "manifests").iterdir()).read_text())["layout"]["order"] == "round_robin"
