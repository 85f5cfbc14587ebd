"""Archives in the engine: equal to a plain list of rows, whatever comes, and written once whatever happens."""

from __future__ import annotations

import tempfile
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from panewise.archive.archive import Archive
from panewise.archive.manifest import Manifest, Manifests
from panewise.engine.archives import archive_keeper
from panewise.engine.engine import Engine
from panewise.errors import ArchiveError, BindError, CatalogError, DurabilityError, DurabilityWarning
from panewise.serve.cli.explain import explain_file
from tests.engine.archives.archive_plays import SECOND, STREAM, Plain, as_rows, die_in_an_update, kill, listed, pushes
from tests.now_or_soak import examples

LAYOUTS = ("1x1", "2x3", "chronological 2x2", "wave by insertion 3", "wave by expiration 2", "by cost")


def archive_at(path: Path | str, source: str = "t", **options: str) -> str:
    given = {"key": "k", "lifetime": "60 seconds", "every": "10 seconds", "layout": "2x3", **options}
    listed_options = ", ".join(f"{name} = '{value}'" for name, value in {"path": str(path), **given}.items())
    return f"CREATE ARCHIVE a FROM {source} WITH ({listed_options})"


@examples(20, soak=40)
@given(
    pushes(), st.sampled_from(LAYOUTS), st.sampled_from(["rebuild", "no_rebuild"]), st.sampled_from([20, 60]),
    st.sampled_from([1, 7, 20]), st.sampled_from([3, 262_144]),
)  # fmt: skip
def test_rows_are_those_of_a_plain_table(
    batches: list[list[dict[str, Any]]], layout: str, update: str, lifetime: int, every: int, held_max: int
) -> None:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(archive_keeper, "HELD_MAX", held_max)
        engine, plain = Engine(), Plain()
        engine.execute(STREAM)
        options = {"lifetime": f"{lifetime} seconds", "every": f"{every} seconds", "layout": layout, "update": update}
        engine.execute(archive_at(folder, **options))
        for batch in batches:
            engine.push("t", batch)
            plain.push(batch)
            assert listed(engine.execute("SELECT * FROM a")) == as_rows(plain.archived(lifetime * SECOND))
        assert engine.stats()["archives"]["a"]["status"] == "RUNNING"
        engine.close()
        keeper = engine.archives["a"]
        assert keeper.archive is not None and keeper.archive.verify().sound
        held = keeper.archive.scan(columns=["ts", "k", "n", "v"], expires=(plain.watermark, None))
        assert listed(held) == as_rows(plain.archived(lifetime * SECOND))


CONDITIONS = (
    "k = 'a'", "k IN ('a', 'c')", "k = 'b' AND ts >= TIMESTAMP '1970-01-01 00:00:07'", "k > 'a' AND k <= 'c'",
    "k IS NULL", "k = NULL", "k = 'a' OR n = 1", "k = 'a' AND n = 1", "k = 'a' AND k = 'b'", "'b' = k AND v > 3",
    "ts BETWEEN TIMESTAMP '1970-01-01 00:00:02' AND TIMESTAMP '1970-01-01 00:00:08'",
    "ts < TIMESTAMP '1970-01-01 00:00:05'", "TIMESTAMP '1970-01-01 00:00:05' <= ts AND n > 0", "v + 1 = 4",
    "n = 1", "n = 3000000000", "n IN (1, 2) AND k = 'c'", "k = 'a' AND n = 1 AND ts = TIMESTAMP '1970-01-01 00:00:03'",
    "NOT (k = 'a')", "k = UPPER('a')", "k LIKE 'a%'",
)  # fmt: skip


@settings(max_examples=12, deadline=None)
@given(pushes(), st.sampled_from(["k", "n", "n, k", "ts", "v"]))
def test_conditions_give_what_they_give_over_a_table(batches: list[list[dict[str, Any]]], key: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        engine = Engine()
        engine.execute(STREAM)
        engine.execute("CREATE TABLE plain (ts TIMESTAMP, k STRING, n INT, v BIGINT)")
        engine.execute(archive_at(folder, key=key, lifetime="1 hour"))
        plain = Plain()
        for batch in batches:
            engine.push("t", batch)
            plain.push(batch)
        for row in plain.archived(3600 * SECOND):
            text = "NULL" if row["k"] is None else f"'{row['k']}'"
            engine.execute(f"INSERT INTO plain VALUES ('{_instant(row['ts'])}', {text}, {row['n']}, {row['v']})")
        for where in CONDITIONS:
            expected = listed(engine.execute(f"SELECT * FROM plain WHERE {where}"))
            assert listed(engine.execute(f"SELECT * FROM a WHERE {where}")) == expected, where
            grouped = "SELECT k, COUNT(*) AS rows_in, SUM(v) AS total FROM {} WHERE {} GROUP BY k HAVING COUNT(*) > 1"
            expected = listed(engine.execute(grouped.format("plain", where)))
            assert listed(engine.execute(grouped.format("a", where))) == expected, where


def _instant(ts: int) -> str:
    return f"1970-01-01 00:{ts // SECOND // 60:02}:{ts // SECOND % 60:02}.{ts % SECOND:06}"


QUERIES = (
    "SELECT k, SUM(v) AS total FROM t [RANGE 10 SECONDS SLIDE 4 SECONDS] GROUP BY k",
    "SELECT COUNT(*) AS total, MAX(k) AS k FROM t [RANGE 6 SECONDS SLIDE 6 SECONDS]",
    "SELECT ISTREAM k, v FROM t [RANGE 5 SECONDS]",
    "SELECT k, COUNT(*) AS c FROM t [RANGE 5 SECONDS] GROUP BY k",
    "SELECT MAX(v) AS k FROM t [ROWS 3 SLIDE 2]",
)


@examples(10, soak=20)
@given(pushes(), st.sampled_from(QUERIES), st.booleans())
def test_an_archive_of_a_query_keeps_its_results(batches: list[list[dict[str, Any]]], query: str, end: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        engine = Engine()
        engine.execute(STREAM)
        engine.execute(f"CREATE QUERY q AS {query}")
        engine.execute(archive_at(folder, "q", lifetime="1 day"))
        for batch in batches:
            engine.push("t", batch)
        if end:
            engine.flush()
        said = listed(engine.results("q"))
        assert listed(engine.execute("SELECT * FROM a")) == said
        engine.close()
        archive = engine.archives["a"].archive
        assert archive is not None and listed(archive.scan().drop_columns(["_inserted", "_expires"])) == said
        with pytest.raises(DurabilityError, match="has been closed"):  # nothing that comes now would be archived
            engine.push("t", {"ts": 10_000 * SECOND, "k": "a", "n": 0, "v": 0})
        assert listed(engine.execute("SELECT * FROM a")) == said


WHAT_HAPPENS = ("go on", "die", "close", "checkpoint", "flush and die", "die in an update")


@examples(12, soak=25)
@given(pushes(), st.data(), st.sampled_from([3, 262_144]))
def test_a_durable_engine_that_dies_writes_every_row_once(
    batches: list[list[dict[str, Any]]], data: st.DataObject, held_max: int
) -> None:
    """It dies where it has written any of its updates, and any part of the log."""
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(archive_keeper, "HELD_MAX", held_max)
        place, plain = Path(folder), Plain()
        engine = Engine(place / "engine", sync="never")
        engine.execute(STREAM)
        engine.execute(
            "CREATE QUERY q AS SELECT k, SUM(v) AS total FROM t [RANGE 9 SECONDS SLIDE 3 SECONDS] GROUP BY k"
        )
        engine.execute(archive_at(place / "rows", lifetime="1 hour", every="5 seconds"))
        results = archive_at(place / "results", "q", lifetime="1 hour", every="7 seconds")
        engine.execute(results.replace("ARCHIVE a", "ARCHIVE r"))
        said: list[tuple[Any, ...]] = []
        for batch in batches:
            engine.push("t", batch)
            plain.push(batch)
            what = data.draw(
                st.sampled_from(["go on", "die", "close", "checkpoint", "flush and die", "die in an update"])
            )
            if what == "checkpoint":
                engine.checkpoint()
            elif what == "close":
                engine.close()
            elif what == "flush and die":
                engine.stats()
                kill(engine)
            elif what == "die in an update":
                die_in_an_update(engine, committed=data.draw(st.booleans()))
                kill(engine)
            elif what == "die":
                kill(engine)
            if what not in ("go on", "checkpoint"):
                engine = Engine(place / "engine", sync="never")
            said += listed(engine.results("q"))
        assert listed(engine.execute("SELECT * FROM a")) == as_rows(plain.archived(3600 * SECOND))
        assert listed(engine.execute("SELECT * FROM r")) == sorted(said, key=repr)
        engine.close()
        with Archive.open(place / "rows") as archive:
            assert archive.verify().sound
            assert listed(archive.scan(columns=["ts", "k", "n", "v"])) == as_rows(plain.archived(3600 * SECOND))


def filled(engine: Engine, seconds: range) -> None:
    for second in seconds:
        engine.push("t", {"ts": second * SECOND, "k": "abc"[second % 3], "n": 0, "v": second})
    engine.stats()


def count(engine: Engine) -> int:
    table = engine.execute("SELECT COUNT(*) AS n FROM a")
    assert table is not None
    return int(table["n"][0].as_py())


def test_a_disk_that_refuses_makes_the_archive_fail_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = Engine()
    engine.execute(STREAM)
    engine.execute("CREATE QUERY q AS SELECT COUNT(*) AS n FROM t [RANGE 10 SECONDS SLIDE 10 SECONDS]")
    engine.execute(archive_at(tmp_path, lifetime="1 hour"))
    filled(engine, range(40))

    def full(*_: Any, **__: Any) -> Any:
        raise ArchiveError("no space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Archive, "update", full)
        filled(engine, range(40, 80))
    [shown] = engine.execute("SHOW ARCHIVES").to_pylist()  # type: ignore[union-attr]
    assert (shown["status"], shown["reason"]) == ("FAILED", "no space left on device")
    assert engine.stats()["archives"]["a"]["status"] == "FAILED"
    assert engine.results("q")["n"].to_pylist() == [10] * 7  # queries go on
    assert count(engine) == 76  # what could not be written is held
    engine.execute("ALTER ARCHIVE a SET (update = 'rebuild')")
    filled(engine, range(80, 90))
    assert (engine.stats()["archives"]["a"]["status"], count(engine)) == ("RUNNING", 86)
    engine.close()
    assert Archive.open(tmp_path).scan().num_rows == 86


def test_an_update_that_fails_when_it_is_committed_is_not_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = Engine()
    engine.execute(STREAM)
    engine.execute(archive_at(tmp_path, lifetime="1 hour"))
    filled(engine, range(40))
    publish = Manifests.publish

    def committed(manifests: Manifests, manifest: Manifest) -> None:
        publish(manifests, manifest)
        raise ArchiveError("the folder cannot be brought to the disk")

    with monkeypatch.context() as patch:
        patch.setattr(Manifests, "publish", committed)
        filled(engine, range(40, 80))
    # What was committed is held as well, and is seen once.
    assert (engine.stats()["archives"]["a"]["status"], count(engine)) == ("FAILED", 76)
    engine.execute("CREATE QUERY late AS SELECT COUNT(*) AS c FROM t [RANGE 50 SECONDS SLIDE 1 SECOND]")
    assert engine.results("late")["c"].to_pylist() == [50]
    engine.execute("DROP QUERY late")
    engine.execute("ALTER ARCHIVE a SET (layout = '2x3')")
    filled(engine, range(80, 100))
    assert (engine.stats()["archives"]["a"]["status"], count(engine)) == ("RUNNING", 96)


def test_strings_may_come_as_dictionaries(tmp_path: Path) -> None:
    engine = Engine()
    engine.execute(STREAM)
    engine.execute(archive_at(tmp_path, lifetime="1 hour"))
    for start in range(0, 60, 6):
        seconds = list(range(start, start + 6))
        times = pa.array([second * SECOND for second in seconds]).cast(pa.timestamp("us", "UTC"))
        texts = pa.array(["abc"[second % 3] for second in seconds])
        strings = texts.dictionary_encode() if start % 12 else texts
        engine.push("t", pa.table({"ts": times, "k": strings, "n": seconds, "v": seconds}))
        engine.stats()
    assert listed(engine.execute("SELECT k, COUNT(*) AS c FROM a GROUP BY k")) == [("a", 19), ("b", 19), ("c", 18)]
    engine.execute("CREATE QUERY q AS SELECT k, COUNT(*) AS c FROM t [RANGE 30 SECONDS SLIDE 10 SECONDS] GROUP BY k")
    assert engine.results("q")["c"].to_pylist() == [10, 10, 10]


def test_rows_are_given_up_where_too_many_wait_for_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive_keeper, "LOST_FROM", 20)
    engine = Engine()
    engine.execute(STREAM)
    engine.execute(archive_at(tmp_path, lifetime="1 hour"))
    filled(engine, range(40))
    engine.archives["a"].fail("gone")
    for start in range(40, 90, 10):
        filled(engine, range(start, start + 10))
    engine.execute("ALTER ARCHIVE a SET (layout = '2x3')")
    filled(engine, range(90, 100))
    stats = engine.stats()["archives"]["a"]
    assert stats["lost_rows"] > 0 and count(engine) == 96 - stats["lost_rows"]
    # What is there no longer counts as everything: a new query waits for rows of its own.
    engine.execute("CREATE QUERY q AS SELECT COUNT(*) AS n FROM t [RANGE 50 SECONDS SLIDE 10 SECONDS]")
    assert engine.results("q").num_rows == 0


def test_a_folder_that_is_gone_does_not_keep_a_durable_engine_from_opening(tmp_path: Path) -> None:
    place = tmp_path / "archive"
    with Engine(tmp_path / "engine") as engine:
        engine.execute(STREAM)
        engine.execute(archive_at(place, lifetime="1 hour"))
        filled(engine, range(40))
    for file in sorted(place.rglob("*"), reverse=True):
        file.rmdir() if file.is_dir() else file.unlink()
    place.rmdir()
    place.write_text("a file")
    with Engine(tmp_path / "engine") as engine:
        [shown] = engine.execute("SHOW ARCHIVES").to_pylist()  # type: ignore[union-attr]
        assert shown["status"] == "FAILED" and "archive" in shown["reason"]
        filled(engine, range(40, 60))
        place.unlink()
        with pytest.warns(DurabilityWarning, match="'a' had rows up to .* has none"):
            engine.execute("ALTER ARCHIVE a SET (update = 'rebuild')")
        assert engine.stats()["archives"]["a"]["status"] == "RUNNING"
        assert count(engine) == 20  # the files are gone, and what has come since is there


def test_files_that_are_not_where_they_were_are_missed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A relative path means the folder that the process is in, and the next process may be in another one."""
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    with Engine(tmp_path / "engine") as engine:
        engine.execute(STREAM)
        engine.execute(archive_at(Path("archive"), lifetime="1 hour"))
        filled(engine, range(40))
    monkeypatch.chdir(tmp_path / "elsewhere")
    with pytest.warns(DurabilityWarning, match="'a' had rows up to .*elsewhere/archive' has none.* relative"):
        Engine(tmp_path / "engine").close()


def test_migration_while_in_use_and_the_layout_that_costs_least(tmp_path: Path) -> None:
    engine = Engine()
    engine.execute(STREAM)
    engine.execute(archive_at(tmp_path, lifetime="1 hour", layout="4x5"))
    filled(engine, range(60))
    for layout in ("chronological 3x3", "wave by insertion 4", "by cost"):
        engine.execute(f"ALTER ARCHIVE a SET (layout = '{layout}')")
        stats = engine.stats()["archives"]["a"]
        assert (stats["migrating"], count(engine)) == (False, 56)
    assert stats["layout"] in ("Rebuild1x1", "NoRebuild1x1")
    filled(engine, range(60, 120))
    assert count(engine) == 116
    assert engine.archives["a"].archive.verify().sound  # type: ignore[union-attr]


def test_explain_says_what_a_select_touches(tmp_path: Path) -> None:
    engine = Engine()
    engine.execute(STREAM)
    engine.execute(archive_at(tmp_path, lifetime="1 hour", layout="2x3"))
    filled(engine, range(120))
    plans = {}
    for where in ("k = 'a'", "k > 'a'", "n = 1", "k = 'zebra'", "ts < TIMESTAMP '1970-01-01 00:00:10'"):
        table = engine.execute(f"EXPLAIN SELECT v FROM a WHERE {where}")
        assert table is not None
        plans[where] = table["plan"].to_pylist()[-1].strip()
    assert "reads: probe of 1 key, sub-indices: 6 of 6, files: 6 of 6" in plans["k = 'a'"]
    assert "reads: range of keys" in plans["k > 'a'"] and "reads: scan" in plans["n = 1"]
    assert "sub-indices: 0 of 6, files: 0 of 6, row groups: 0" in plans["k = 'zebra'"]
    assert "sub-indices: 2 of 6, files: 2 of 6" in plans["ts < TIMESTAMP '1970-01-01 00:00:10'"]


def test_statements_come_and_go(tmp_path: Path) -> None:
    engine = Engine()
    engine.execute(STREAM)
    engine.execute(archive_at(tmp_path / "a"))
    engine.execute(archive_at(tmp_path / "other").replace("ARCHIVE a", "ARCHIVE IF NOT EXISTS a"))
    assert not (tmp_path / "other").exists()
    with pytest.raises(CatalogError, match=r"is in .* already"):
        engine.execute(archive_at(tmp_path / "a").replace("ARCHIVE a", "ARCHIVE b"))
    with pytest.raises(CatalogError, match="still read by archive a"):
        engine.execute("DROP STREAM t")
    filled(engine, range(30))
    engine.execute("DROP ARCHIVE a; DROP ARCHIVE IF EXISTS a; DROP STREAM t")
    with pytest.raises(BindError, match="there is no"):
        engine.execute("SELECT * FROM a")
    assert Archive.open(tmp_path / "a").scan().num_rows == 26  # the files stay
    engine.execute("CREATE STREAM t (ts TIMESTAMP, k STRING, w BIGINT)")
    with pytest.raises(ArchiveError, match="has other columns"):
        engine.execute(archive_at(tmp_path / "a"))
    assert engine.execute("SHOW ARCHIVES").num_rows == 0  # type: ignore[union-attr]


def test_a_new_engine_goes_on_with_the_files_of_another(tmp_path: Path) -> None:
    for seconds in (range(25), range(10, 45)):
        with Engine() as engine:
            engine.execute(STREAM)
            engine.execute(archive_at(tmp_path, lifetime="1 hour"))
            filled(engine, seconds)
            stats = engine.stats()["archives"]["a"]
    # The rows up to where the first engine had come are there, and are not taken again.
    assert (count(engine), stats["passed_over_rows"]) == (41, 11)


def test_a_snapshot_of_an_engine_brings_what_is_held(tmp_path: Path) -> None:
    engine = Engine()
    engine.execute(STREAM)
    engine.execute(archive_at(tmp_path, lifetime="1 hour"))
    filled(engine, range(27))
    snapshot = engine.snapshot()
    engine.archives["a"].archive.close()  # type: ignore[union-attr]
    again = Engine.restore(snapshot)
    assert again.archives["a"].held(None).times.tolist() == engine.archives["a"].held(None).times.tolist()
    filled(again, range(27, 57))
    assert (count(again), again.stats()["archives"]["a"]["status"]) == (53, "RUNNING")


def test_an_archive_joins_other_inputs_once(tmp_path: Path) -> None:
    engine = Engine()
    engine.execute(STREAM)
    engine.execute("CREATE TABLE names (k STRING PRIMARY KEY, name STRING)")
    engine.execute("INSERT INTO names VALUES ('a', 'anna'), ('b', 'berta')")
    engine.execute(archive_at(tmp_path, lifetime="1 hour"))
    filled(engine, range(33))
    joined = "SELECT name, COUNT(*) AS c FROM a JOIN names AS m ON a.k = m.k GROUP BY name"
    assert listed(engine.execute(joined)) == [("anna", 10), ("berta", 10)]


def test_readers_and_a_migration_beside_pushes_see_whole_batches(tmp_path: Path) -> None:
    engine = Engine()
    engine.execute("CREATE STREAM t (ts TIMESTAMP, k STRING, n INT, v BIGINT)")
    engine.execute(archive_at(tmp_path, lifetime="1 hour", every="1 second", layout="2x3"))
    problems: list[object] = []
    ended = threading.Event()

    def read() -> None:
        seen = 0
        while not ended.is_set():
            [row] = engine.execute("SELECT COUNT(*) AS c, SUM(v) AS s FROM a").to_pylist()  # type: ignore[union-attr]
            if row["s"] not in (0, None) or row["c"] < seen:
                problems.append(row)
            seen = row["c"]

    def migrate() -> None:
        for layout in ("1x1", "chronological 3x2", "4x5") * 3:
            engine.execute(f"ALTER ARCHIVE a SET (layout = '{layout}')")

    threads = [threading.Thread(target=target) for target in (read, read, migrate)]
    for thread in threads:
        thread.start()
    for second in range(150):
        times = {"ts": second * SECOND, "k": "abc"[second % 3], "n": 0}
        engine.push("t", [{**times, "v": second}, {**times, "v": -second}])
        engine.stats()
    threads[2].join()
    ended.set()
    for thread in threads:
        thread.join()
    assert not problems and count(engine) == 298
    assert engine.archives["a"].archive.verify().sound  # type: ignore[union-attr]


def test_plans_and_books_touch_no_files(tmp_path: Path) -> None:
    file = tmp_path / "file.cql"
    file.write_text(f"{STREAM}; {archive_at(tmp_path / 'a')}; SELECT * FROM a; EXPLAIN SELECT v FROM a WHERE k = 'b';")
    assert "ARCHIVE a  <key: k, layout: Rebuild2x3>" in explain_file(file, query=None, as_json=False)
    assert not (tmp_path / "a").exists()
