"""What archived rows know of the past: new queries, lookups and one-time queries against engines that saw it all."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from panewise.engine.engine import Engine
from panewise.errors import NotHeldError
from tests.engine.archives.archive_plays import SECOND, STREAM, kill, listed, pushes
from tests.now_or_soak import examples

PERIODIC = (
    "SELECT k, SUM(v) AS total, MIN(n) AS least FROM t [RANGE 20 SECONDS SLIDE 4 SECONDS] GROUP BY k",
    "SELECT k, COUNT(*) AS c FROM t [RANGE 13 SECONDS SLIDE 5 SECONDS] WHERE n > 0 GROUP BY k HAVING COUNT(*) > 1",
    "SELECT COUNT(*) AS c, SUM(v) AS total FROM t [RANGE 30 SECONDS SLIDE 10 SECONDS]",
    "SELECT k, MAX(v) AS most FROM t [RANGE 10 SECONDS SLIDE 5 SECONDS OFFSET 12 SECONDS] GROUP BY k",
    "SELECT k, FIRST(v) AS first FROM t [RANGE 20 SECONDS SLIDE 4 SECONDS] GROUP BY k",
    "SELECT k, v FROM t [RANGE 12 SECONDS SLIDE 4 SECONDS]",
    "SELECT k, MEDIAN(v) AS mid FROM t [RANGE 12 SECONDS SLIDE 4 SECONDS] GROUP BY k",
)
CONTINUOUS = (
    "SELECT k, SUM(v) AS total FROM t [RANGE 20 SECONDS] GROUP BY k",
    "SELECT COUNT(*) AS c FROM t [RANGE 15 SECONDS OFFSET 5 SECONDS]",
    "SELECT k, v FROM t [RANGE 12 SECONDS]",
)
SHORT = "CREATE QUERY short AS SELECT k, SUM(v) AS total FROM t [RANGE 4 SECONDS SLIDE 4 SECONDS] GROUP BY k"


def archive_at(path: Path | str, lifetime: str = "1 hour") -> str:
    options = f"path = '{path}', key = 'k', lifetime = '{lifetime}', every = '7 seconds', layout = '2x3'"
    return f"CREATE ARCHIVE a FROM t WITH ({options})"


def by_report(table: pa.Table) -> dict[int, Counter[tuple[Any, ...]]]:
    found: dict[int, Counter[tuple[Any, ...]]] = {}
    for row in listed(table):
        found.setdefault(row[1], Counter())[row] += 1
    return found


@examples(7, soak=15)
@given(pushes(14), st.data(), st.sampled_from(["1 hour", "25 seconds"]), st.booleans(), st.booleans())
def test_new_queries_say_what_they_would_have_said(
    batches: list[list[dict[str, Any]]], data: st.DataObject, lifetime: str, shared: bool, durable: bool
) -> None:
    """Against an engine that has had them from the beginning: from the first report on that they give."""
    begin = data.draw(st.integers(0, len(batches)))
    dies = data.draw(st.integers(begin, len(batches)))
    with tempfile.TemporaryDirectory() as folder:
        engine = Engine(f"{folder}/engine", sync="never") if durable else Engine()
        reference = Engine()
        for each in (engine, reference):
            each.execute(STREAM)
            if shared:
                each.execute(SHORT)
        engine.execute(archive_at(f"{folder}/archive", lifetime))
        for number, text in enumerate(PERIODIC):
            reference.execute(f"CREATE QUERY q{number} AS {text}")
        said: dict[int, list[pa.Table]] = {number: [] for number in range(len(PERIODIC))}
        for step in range(len(batches) + 1):
            if step == begin:
                watermark = engine.stream("t").stats()["watermark"]
                for number, text in enumerate(PERIODIC):
                    engine.execute(f"CREATE QUERY q{number} AS {text}")
                    said[number].append(engine.results(f"q{number}"))
            if step == dies and durable:
                kill(engine)
                engine = Engine(f"{folder}/engine", sync="never")
            for each in (engine, reference) if step < len(batches) else ():
                each.push("t", batches[step])
        engine.flush(), reference.flush()
        for number, text in enumerate(PERIODIC):
            expected = by_report(reference.results(f"q{number}"))
            found = by_report(pa.concat_tables([*said[number], engine.results(f"q{number}")]))
            first = min(found, default=2**62)
            assert found == {report: rows for report, rows in expected.items() if report >= first}, text
            if lifetime == "1 hour" and "FIRST" not in text and watermark is not None:
                # All rows are archived: nothing that is due when it comes, or later, is left out.
                at = int(pa.scalar(watermark).cast(pa.timestamp("us")).value)
                late = [report for report, rows in expected.items() if report > at and "COUNT(*) AS c," not in text]
                assert set(late) <= set(found), text


@examples(7, soak=15)
@given(pushes(12), st.data(), st.booleans())
def test_new_continuous_queries_hold_what_they_would_have_held(
    batches: list[list[dict[str, Any]]], data: st.DataObject, silent: bool
) -> None:
    begin = data.draw(st.integers(0, len(batches)))
    mode = "WITH (mode = 'lookup') " if silent else ""
    with tempfile.TemporaryDirectory() as folder:
        engine, reference = Engine(), Engine()
        engine.execute(STREAM), reference.execute(STREAM)
        engine.execute(archive_at(f"{folder}/archive"))
        for number, text in enumerate(CONTINUOUS):
            reference.execute(f"CREATE QUERY q{number} {mode}AS {text}")
        changes: dict[int, Counter[tuple[Any, ...]]] = {number: Counter() for number in range(len(CONTINUOUS))}
        for step in range(len(batches) + 1):
            if step == begin:
                for number, text in enumerate(CONTINUOUS):
                    engine.execute(f"CREATE QUERY q{number} {mode}AS {text}")
            if step >= begin:
                for number, text in enumerate(CONTINUOUS):
                    try:
                        held = listed(engine.lookup(f"q{number}"))
                    except NotHeldError:
                        # None of the rows that are archived is in the window, and it may not have begun.
                        assert "GROUP" not in text and "COUNT" in text
                        continue
                    assert held == listed(reference.lookup(f"q{number}")), text
                    for _, change, *row in listed(engine.results(f"q{number}")):
                        changes[number][tuple(row)] += change
                    if not silent:
                        assert sorted(changes[number].elements(), key=repr) == held, text
            for each in (engine, reference) if step < len(batches) else ():
                each.push("t", batches[step])


def test_the_first_right_answer_comes_at_once_with_the_archive_and_after_a_whole_window_without(tmp_path: Path) -> None:
    query = "CREATE QUERY q AS SELECT k, SUM(v) AS total FROM t [RANGE 60 SECONDS SLIDE 10 SECONDS] GROUP BY k"
    firsts = {}
    for archived in (True, False):
        engine = Engine()
        engine.execute("CREATE STREAM t (ts TIMESTAMP, k STRING, v BIGINT)")
        if archived:
            engine.execute(archive_at(tmp_path))
        for second in range(201):
            if second == 105:
                engine.execute(query)
                at_once = engine.results("q")
                assert at_once.num_rows == (2 if archived else 0)
                if archived:  # the last report that was due: rows of [40, 100)
                    total = sum(range(40, 100, 2))
                    assert listed(at_once) == [
                        (40 * SECOND, 100 * SECOND, "a", total),
                        (40 * SECOND, 100 * SECOND, "b", total + 30),
                    ]
            engine.push("t", {"ts": second * SECOND, "k": "ab"[second % 2], "v": second})
        results = pa.concat_tables([at_once, engine.results("q")])
        ends = results["window_end"].cast(pa.int64()).to_pylist()
        firsts[archived] = min(ends) // SECOND
        assert sorted(set(ends)) == [end * SECOND for end in range(firsts[archived], 201, 10)]
    assert firsts == {True: 100, False: 170}


@settings(max_examples=10, deadline=None)
@given(pushes(12), st.data())
def test_lookups_of_the_past_are_the_reports_of_then(batches: list[list[dict[str, Any]]], data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        engine = Engine()
        engine.execute(STREAM)
        engine.execute(archive_at(f"{folder}/archive"))
        for number, text in enumerate(PERIODIC):
            engine.execute(f"CREATE QUERY q{number} AS {text}")
        for batch in batches:
            engine.push("t", batch)
        engine.advance("t", max(row["ts"] for batch in batches for row in batch) + 60 * SECOND)
        for number, text in enumerate(PERIODIC):
            for report, rows in by_report(engine.results(f"q{number}")).items():
                try:
                    found = listed(engine.lookup(f"q{number}", at=report + data.draw(st.sampled_from([0, 1, SECOND]))))
                except NotHeldError:
                    # An aggregate that minds the order of equal times, or a window that held no row.
                    assert "FIRST" in text or all(row[2] == 0 for row in rows), text
                    continue
                assert found == sorted(rows.elements(), key=repr), text


def test_a_lookup_finds_reports_that_were_archived(tmp_path: Path) -> None:
    engine = Engine()
    engine.execute("CREATE STREAM t (ts TIMESTAMP, k STRING, v BIGINT)")
    engine.execute("CREATE QUERY q AS SELECT k, SUM(v) AS total FROM t [RANGE 10 SECONDS SLIDE 10 SECONDS] GROUP BY k")
    engine.execute(f"CREATE ARCHIVE a FROM q WITH (path = '{tmp_path}', key = 'k', lifetime = '2 minutes')")
    for second in range(500):
        engine.push("t", {"ts": second * SECOND, "k": "a", "v": second})
    assert engine.lookup("q", at=405 * SECOND)["total"].to_pylist() == [sum(range(390, 400))]
    with pytest.raises(NotHeldError):
        engine.lookup("q", at=105 * SECOND)  # expired
    with pytest.raises(NotHeldError):
        engine.lookup("q", at=900 * SECOND)  # yet to come
    # A query over the archived one begins with its reports.
    engine.execute("CREATE QUERY over AS SELECT SUM(total) AS s FROM q [RANGE 60 SECONDS SLIDE 30 SECONDS]")
    assert engine.results("over")["s"].to_pylist() == [sum(range(410, 470))]


@examples(7, soak=15)
@given(pushes(14), st.integers(0, 30), st.integers(1, 30))
def test_one_time_windows_reach_back_into_the_archive(
    batches: list[list[dict[str, Any]]], offset: int, reach: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        engine, reference = Engine(), Engine()
        engine.execute(STREAM.replace(")", ")", 1) + " WITH (retain = '5 seconds')")
        reference.execute(STREAM + " WITH (retain = '1 day')")
        engine.execute(archive_at(f"{folder}/archive"))
        for batch in batches:
            engine.push("t", batch)
            reference.push("t", batch)
        text = f"SELECT k, COUNT(*) AS c, SUM(v) AS s FROM t [RANGE {reach} SECONDS OFFSET {offset} SECONDS] GROUP BY k"
        assert listed(engine.execute(text)) == listed(reference.execute(text))
        joined = f"SELECT x.v, y.v AS w FROM t [RANGE {reach} SECONDS] AS x JOIN t [RANGE 20 SECONDS] AS y ON x.k = y.k"
        assert listed(engine.execute(joined)) == listed(reference.execute(joined))


def test_new_queries_beside_a_tree_of_many_groups(tmp_path: Path) -> None:
    """Such a tree keeps its slices in another form, which holds a place for each range that somebody has."""
    engine, reference = Engine(), Engine()
    queries = {
        f"q{number}": f"SELECT n, COUNT(*) AS c FROM t [RANGE {reach} SECONDS SLIDE {slide} SECONDS] GROUP BY n"
        for number, (reach, slide) in enumerate([(4, 2), (8, 2), (2, 4), (4, 3)])
    }
    engine.execute(STREAM), reference.execute(STREAM)
    engine.execute(archive_at(tmp_path))
    engine.execute(f"CREATE QUERY q0 AS {queries['q0']}")
    for name, query in queries.items():
        reference.execute(f"CREATE QUERY {name} AS {query}")
    for second in range(40):
        if second == 27:
            for name in list(queries)[1:]:
                engine.execute(f"CREATE QUERY {name} AS {queries[name]}")
        rows = [{"ts": second * SECOND, "k": "a", "n": n, "v": 0} for n in range(second % 3, 5000, 3)]
        engine.push("t", rows), reference.push("t", rows)
    for name in queries:
        found, expected = by_report(engine.results(name)), by_report(reference.results(name))
        first = min(found)
        assert first <= 24 * SECOND and found == {end: rows for end, rows in expected.items() if end >= first}, name
