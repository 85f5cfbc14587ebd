"""Archives whose rows live for as long as they are in the answer: equal to its definition, at any instant."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from panewise.archive.archive import Archive
from panewise.engine.archives import archive_keeper
from panewise.engine.engine import Engine
from panewise.errors import BindError, NotHeldError, PlanError
from tests.engine.archives.archive_plays import SECOND, STREAM, die_in_an_update, kill, listed, pushes
from tests.engine.reads.answer_plays import JOIN, OTHER, QUERIES, Play, Row
from tests.now_or_soak import examples


def archive_at(path: Path | str, name: str = "a", **options: str) -> str:
    given = {"path": str(path), "key": "k", "lifetime": "own", "every": "5 seconds", "layout": "2x3", **options}
    return f"CREATE ARCHIVE {name} FROM q WITH ({', '.join(f'''{key} = '{value}' ''' for key, value in given.items())})"


@examples(20, soak=40)
@given(pushes(), st.data(), st.sampled_from(sorted(QUERIES)))
def test_rows_are_the_answer_at_every_instant(batches: list[list[Row]], data: st.DataObject, name: str) -> None:
    every, layout = data.draw(st.sampled_from([1, 7, 20])), data.draw(st.sampled_from(["2x3", "4x5", "by cost"]))
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(archive_keeper, "HELD_MAX", data.draw(st.sampled_from([3, 262_144])))
        play = Play(Engine(), name)
        mode = data.draw(st.sampled_from(["", "WITH (mode = 'lookup')"])) if name == "selection" else ""
        play.define(data.draw(st.booleans()), mode)
        later = data.draw(st.integers(0, len(batches)))
        for number, batch in enumerate(batches):
            if number == later:
                play.engine.execute(archive_at(folder, every=f"{every} seconds", layout=layout))
            play.push(data.draw(st.sampled_from(["t", "t", "u"])), batch)
            if number >= later:
                assert play.archived() == play.answer(play.now)
            if later == 0:
                check_last_update(play)
        if later == len(batches):
            play.engine.execute(archive_at(folder))
            assert play.archived() == play.answer(play.now)
        assert play.engine.stats()["archives"]["a"]["status"] == "RUNNING"
        assert play.archived() == listed(play.engine.lookup("q"))
        play.engine.close()
        check_files(play, folder, data.draw(st.integers(0, 12)) * SECOND)


def check_last_update(play: Play) -> None:
    """The files alone are the answer at the instant of their last update."""
    archive = play.engine.archives["a"].archive
    assert archive is not None
    at = archive.manifest.now_us
    if at is not None:
        assert values_of(archive.scan(at=at)) == play.answer(at)


def check_files(play: Play, folder: Path | str, further: int) -> None:
    """What the closed archive says of now and, where nothing comes, of an instant after it, with the rows' times."""
    with Archive.open(folder) as archive:
        assert archive.verify().sound
        if archive.manifest.now_us is None:
            assert not play.answer(play.now)
            return
        assert values_of(archive.scan(at=play.now)) == play.answer(play.now)
        if not play.once:
            at = play.now + further
            coming = [life for life in play.alive(at) if life[0] <= play.now]
            found = archive.scan(at=at)
            assert values_of(found) == sorted((values for _, _, values in coming), key=repr)
            times = zip(*(found[name].cast(pa.int64()).to_pylist() for name in ("_inserted", "_expires")), strict=True)
            assert sorted(times) == sorted((birth, death) for birth, death, _ in coming)


def values_of(table: pa.Table) -> list[tuple[Any, ...]]:
    return listed(table.drop_columns(["instant", "_inserted", "_expires"]))


WHAT_HAPPENS = ("go on", "die", "close", "checkpoint", "look and die", "die in an update")


@examples(10, soak=20)
@given(pushes(), st.data(), st.sampled_from(sorted(QUERIES)), st.sampled_from([3, 262_144]))
def test_a_durable_engine_that_dies_has_the_answer_all_the_same(
    batches: list[list[Row]], data: st.DataObject, name: str, held_max: int
) -> None:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(archive_keeper, "HELD_MAX", held_max)
        place = Path(folder)
        play = Play(Engine(place / "engine", sync="never"), name)
        play.define(data.draw(st.booleans()))
        later = data.draw(st.integers(0, len(batches) - 1))
        for number, batch in enumerate(batches):
            if number == later:
                play.engine.execute(archive_at(place / "answer"))
            play.push(data.draw(st.sampled_from(["t", "t", "u"])), batch)
            what = data.draw(st.sampled_from(WHAT_HAPPENS))
            if what == "checkpoint":
                play.engine.checkpoint()
            elif what == "close":
                play.engine.close()
            elif what == "look and die":
                play.engine.stats()
                kill(play.engine)
            elif what == "die in an update":
                die_in_an_update(play.engine, committed=data.draw(st.booleans()))
                kill(play.engine)
            elif what == "die":
                kill(play.engine)
            if what not in ("go on", "checkpoint"):
                play.engine = Engine(place / "engine", sync="never")
            if number >= later:
                assert play.archived() == play.answer(play.now)
        play.engine.close()
        check_files(play, place / "answer", data.draw(st.integers(0, 12)) * SECOND)


REPORTS = {
    "SELECT k, COUNT(*) AS c FROM t [RANGE 10 SECONDS SLIDE 3 SECONDS] GROUP BY k": (10, 3),
    "SELECT k, v FROM t [RANGE 6 SECONDS SLIDE 4 SECONDS]": (6, 4),
}


@examples(10, soak=20)
@given(pushes(), st.sampled_from(sorted(REPORTS)), st.sampled_from([2, 3, 50]), st.booleans())
def test_a_report_lives_until_the_next_one(batches: list[list[Row]], query: str, every: int, closes: bool) -> None:
    seconds, slide = (part * SECOND for part in REPORTS[query])
    with tempfile.TemporaryDirectory() as folder:
        play = Play(Engine(), "selection")
        play.query = query
        play.define(beside=False)
        play.engine.execute(archive_at(folder, every=f"{every} seconds"))
        for batch in batches:
            play.push("t", batch)
            if closes:
                play.engine.archives["a"].settle()
            watermark = play.plain["t"].watermark
            end = watermark - watermark % slide
            ks = [row["k"] for row in play.plain["t"].rows if end - seconds <= row["ts"] < end]
            found = play.engine.execute("SELECT * FROM a")
            assert listed(found) == listed(play.engine.lookup("q"))
            assert found is not None and {end} >= set(found["window_end"].cast(pa.int64()).to_pylist())
            counted = {k: ks.count(k) for k in set(ks)} if "COUNT" in query else None
            if counted is None:
                assert sorted(found["k"].to_pylist(), key=repr) == sorted(ks, key=repr)
            else:
                assert dict(zip(found["k"].to_pylist(), found["c"].to_pylist(), strict=True)) == counted


def filled(engine: Engine, seconds: range) -> None:
    for second in seconds:
        engine.push("t", {"ts": second * SECOND, "k": "abc"[second % 3], "n": 0, "v": second})


def test_key_and_time_conditions_reach_the_files(tmp_path: Path) -> None:
    play = Play(Engine(), "selection")
    play.define(beside=False)
    play.engine.execute(archive_at(tmp_path, every="2 seconds"))
    filled(play.engine, range(40))
    where = "k = 'b' AND instant >= TIMESTAMP '1970-01-01 00:00:33'"
    assert listed(play.engine.execute(f"SELECT v FROM a WHERE {where}")) == [(34,)]
    [*_, shown] = play.engine.execute(f"EXPLAIN SELECT v FROM a WHERE {where}")["plan"].to_pylist()  # type: ignore[index]
    assert "reads: probe of 1 key" in shown
    play.engine.flush()
    assert play.archived() == []


def test_archives_of_one_query_come_and_go(tmp_path: Path) -> None:
    play = Play(Engine(), "distinct")
    play.define(beside=False)
    engine = play.engine
    engine.execute(archive_at(tmp_path / "a"))
    filled(engine, range(20))
    engine.execute(archive_at(tmp_path / "b", "b", key="k, instant", layout="1x1"))
    filled(engine, range(20, 24))
    assert play.archived("a") == play.archived("b") == [("a",), ("b",), ("c",)]
    plan = engine.execute("EXPLAIN PLAN")["plan"].to_pylist()  # type: ignore[index]
    assert sum("ARCHIVE" in line for line in plan) == 2
    engine.execute("DROP ARCHIVE a; ALTER ARCHIVE b SET (layout = '3x2')")
    filled(engine, range(24, 40))
    engine.execute(archive_at(tmp_path / "a"))  # the files stayed, and what has come since is not in them
    assert play.archived("a") == play.archived("b") == [("a",), ("b",), ("c",)]
    assert engine.stats()["archives"]["b"]["layout"] == "Rebuild3x2"
    engine.execute("DROP ARCHIVE a; DROP ARCHIVE b")
    consumer = engine.hosting.consumers["q"]
    assert engine.hosting.queries["q"].entering is None and not consumer.relation.followed  # type: ignore[union-attr]
    # The query gives its change log as if nothing had been archived.
    assert listed(engine.results("q").select(["change", "k"])) == [(1, "a"), (1, "b"), (1, "c")]


def test_the_files_are_the_answer_at_their_last_update_however_far_a_push_goes(tmp_path: Path) -> None:
    play = Play(Engine(), "selection")
    play.define(beside=False)
    play.engine.execute(archive_at(tmp_path, every="20 seconds"))
    play.push("t", [{"ts": second * SECOND, "k": "a", "n": 0, "v": second} for second in range(60)])
    assert play.archived() == play.answer(play.now)
    check_last_update(play)
    assert play.engine.archives["a"].archive.scan(at=40 * SECOND).num_rows == 7  # type: ignore[union-attr]


def test_a_query_that_is_suspended_has_an_answer_all_the_same(tmp_path: Path) -> None:
    play = Play(Engine(), "selection")
    play.define(beside=False)
    play.engine.execute(archive_at(tmp_path))
    for second in range(60):
        if second == 20:
            play.engine.execute("SUSPEND QUERY q")
        if second == 40:
            play.engine.execute("RESUME QUERY q")
        play.push("t", [{"ts": second * SECOND, "k": "a", "n": 0, "v": second}])
        assert play.archived() == play.answer(play.now)


LONGEST = {
    "selection": 10, "the past": 6, "join": 4, "internal": 10, "union all": 10, "distinct": 10, "union": 10,
    "distinct join": 4, "table": 10,
}  # fmt: skip


@pytest.mark.parametrize("name", LONGEST)
def test_the_windows_of_a_query_say_how_long_its_rows_live_at_most(tmp_path: Path, name: str) -> None:
    play = Play(Engine(), name)
    play.define(beside=False)
    play.engine.execute(archive_at(tmp_path / "a", every="1 second"))
    assert play.engine.archives["a"].layout.lifetime_us == LONGEST[name] * SECOND
    play.engine.execute(archive_at(tmp_path / "b", "b", every="1 hour"))
    assert play.engine.archives["b"].layout.lifetime_us == 3600 * SECOND


def test_a_snapshot_of_an_engine_brings_what_is_held(tmp_path: Path) -> None:
    play = Play(Engine(), "join")
    play.define(beside=True)
    play.engine.execute(archive_at(tmp_path))
    for second in range(0, 30, 2):
        play.push("t", [{"ts": second * SECOND, "k": "a", "n": 0, "v": second}])
        play.push("u", [{"ts": second * SECOND, "k": "a", "n": 0, "v": second}])
    snapshot = play.engine.snapshot()
    play.engine.archives["a"].archive.close()  # type: ignore[union-attr]
    play.engine = Engine.restore(snapshot)
    assert play.archived() == play.answer(play.now)
    play.push("t", [{"ts": 31 * SECOND, "k": "a", "n": 0, "v": 31}])
    play.push("u", [{"ts": 31 * SECOND, "k": "a", "n": 0, "v": 31}])
    assert play.archived() == play.answer(play.now)


@pytest.mark.parametrize("name", ["selection", "the past", "join", "distinct"])
def test_a_query_that_comes_in_mid_stream_is_archived_when_its_window_is_whole(tmp_path: Path, name: str) -> None:
    play = Play(Engine(), name)
    play.engine.execute(f"{STREAM}; {OTHER}")
    times = [{"ts": second * SECOND, "k": "abc"[second % 3], "n": 0, "v": second} for second in range(50)]
    for row in times[:20]:
        play.push("t", [row])
        play.push("u", [row])
    play.engine.execute(f"CREATE QUERY q AS {play.query}")
    play.engine.execute(archive_at(tmp_path))
    whole = 0
    for row in times[20:]:
        play.push("t", [row])
        play.push("u", [row])
        try:
            play.engine.lookup("q")
        except NotHeldError:
            assert play.archived() == [] and not whole
        else:
            assert play.archived() == play.answer(play.now)
            whole += 1
    assert 20 < whole < 30


def test_what_the_disk_has_refused_or_lost_is_made_good(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive_keeper, "LOST_FROM", 2)
    place = tmp_path / "answer"
    play = Play(Engine(tmp_path / "engine"), "selection")
    play.define(beside=False)
    play.engine.execute(archive_at(place))
    rows = [{"ts": second * SECOND, "k": "abc"[second % 3], "n": 0, "v": second} for second in range(40)]
    play.push("t", rows[:20])
    play.engine.stats()
    play.engine.archives["a"].fail("gone")
    for row in rows[20:26]:
        play.push("t", [row])
        play.engine.stats()
    assert play.engine.stats()["archives"]["a"]["lost_rows"] > 0
    play.engine.execute("ALTER ARCHIVE a SET (layout = '2x3')")
    assert play.archived() == play.answer(play.now) != []
    play.push("t", rows[26:35])
    assert play.archived() == play.answer(play.now)
    play.engine.close()
    shutil.rmtree(place)
    play.engine = Engine(tmp_path / "engine")
    assert play.archived() == play.answer(play.now) != []
    play.push("t", rows[35:])
    assert play.archived() == play.answer(play.now)
    play.engine.close()
    check_files(play, place, 2 * SECOND)


def test_an_archive_with_lifetimes_of_its_own_says_nothing_of_the_past(tmp_path: Path) -> None:
    play = Play(Engine(), "selection")
    play.query = "SELECT k, COUNT(*) AS c FROM t [RANGE 10 SECONDS SLIDE 5 SECONDS] GROUP BY k"
    play.define(beside=False)
    play.engine.execute(archive_at(tmp_path))
    filled(play.engine, range(60))
    play.engine.execute("CREATE QUERY over AS SELECT SUM(c) AS s FROM q [RANGE 20 SECONDS SLIDE 5 SECONDS]")
    assert play.engine.results("over").num_rows == 0
    assert play.engine.stats()["archives"]["a"]["held_from"] is None


REFUSED = {
    "SELECT k, v FROM t [ROWS 5]": "the window .ROWS 5. ends rows",
    "SELECT k, COUNT(*) AS c FROM t [RANGE 5 SECONDS] GROUP BY k": "GROUP BY ends rows",
    "SELECT MAX(k) AS k FROM t [RANGE 5 SECONDS]": "an aggregate ends rows",
    "SELECT k FROM t [RANGE 9 SECONDS] EXCEPT SELECT k FROM u [RANGE 4 SECONDS]": "EXCEPT ends rows",
    "SELECT k FROM t [RANGE 9 SECONDS] AS a WHERE NOT EXISTS (SELECT * FROM u [RANGE 4 SECONDS] AS b WHERE a.k = b.k)":
        "NOT EXISTS ends rows",
    "SELECT t.k, name FROM t [RANGE 9 SECONDS] JOIN changing ON t.k = changing.k": "'changing' ends rows",
    "SELECT k, v FROM t [UNBOUNDED]": "live for ever",
    "SELECT k, v FROM t [RANGE 5 SECONDS] UNION ALL SELECT k, v FROM u [UNBOUNDED]": "live for ever",
    "SELECT DISTINCT k FROM t [UNBOUNDED]": "live for ever",
    f"SELECT a.k FROM {JOIN.replace('SECONDS', 'SECONDS INTERNAL')}": "live for ever",
    "SELECT DSTREAM k, v FROM t [RANGE 5 SECONDS]": "rows that have ended",
    "SELECT k, COUNT(*) AS c FROM t [ROWS 5 SLIDE 2] GROUP BY k": "number of rows decides",
    "SELECT ISTREAM k, v FROM t [RANGE 5 SECONDS SLIDE 5 SECONDS]": "what has changed",
}  # fmt: skip


@pytest.mark.parametrize("query", REFUSED)
def test_queries_without_lifetimes_of_their_own_are_refused(tmp_path: Path, query: str) -> None:
    play = Play(Engine(), "selection")
    play.query = query
    play.define(beside=False)
    statement = archive_at(tmp_path / "a")
    with pytest.raises(PlanError, match=REFUSED[query]) as refusal:
        play.engine.execute(statement)
    assert "lifetime = '1 day'" in str(refusal.value)
    assert not (tmp_path / "a").exists()
    play.engine.execute(statement.replace("'own'", "'1 day'"))


def test_streams_and_keys_that_are_not_in_the_answer_are_refused(tmp_path: Path) -> None:
    play = Play(Engine(), "selection")
    play.define(beside=False)
    with pytest.raises(BindError, match="rows of a stream have no lifetimes of their own"):
        play.engine.execute(archive_at(tmp_path).replace("FROM q", "FROM t"))
    with pytest.raises(PlanError, match="'change' is not a column of the answer"):
        play.engine.execute(archive_at(tmp_path, key="change"))
    with pytest.raises(BindError, match="not a duration"):
        play.engine.execute(archive_at(tmp_path, lifetime="owned"))
