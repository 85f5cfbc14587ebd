"""New queries over several inputs, windows of rows, RESTORE and [UNBOUNDED] that begin with archived rows.

Each is compared with the same query in an engine that has had it from the beginning: from its first report on it says
the same, and where everything is archived that first report is the last one that was due.
"""

from __future__ import annotations

import re
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from panewise.engine.engine import Engine
from panewise.errors import NotHeldError, PlanError
from tests.engine.archives.archive_plays import SECOND, kill, listed
from tests.now_or_soak import examples

STREAMS = ("t", "u")
JOINED = (
    (
        "SELECT x.k, x.v, y.v AS w FROM t [RANGE 9 SECONDS SLIDE 4 SECONDS] AS x "
        "JOIN u [RANGE 14 SECONDS SLIDE 4 SECONDS] AS y ON x.k = y.k"
    ),
    (
        "SELECT x.k, COUNT(*) AS c, SUM(y.v) AS s FROM t [RANGE 12 SECONDS SLIDE 4 SECONDS] AS x "
        "JOIN u [RANGE 12 SECONDS SLIDE 4 SECONDS] AS y ON x.k = y.k GROUP BY x.k"
    ),
    (
        "SELECT COUNT(*) AS c FROM t [RANGE 8 SECONDS SLIDE 4 SECONDS] AS x "
        "JOIN u [RANGE 20 SECONDS SLIDE 4 SECONDS] AS y ON x.n = y.n"
    ),
    (
        "SELECT x.v, y.v AS w FROM t [RANGE 7 SECONDS SLIDE 5 SECONDS OFFSET 6 SECONDS] AS x "
        "JOIN t [RANGE 3 SECONDS SLIDE 5 SECONDS] AS y ON x.k = y.k"
    ),
    "SELECT DISTINCT k, n FROM t [RANGE 15 SECONDS SLIDE 5 SECONDS]",
    "SELECT k, n FROM t [RANGE 10 SECONDS SLIDE 5 SECONDS] UNION SELECT k, n FROM u [RANGE 15 SECONDS SLIDE 5 SECONDS]",
    "SELECT k FROM t [RANGE 10 SECONDS SLIDE 5 SECONDS] EXCEPT SELECT k FROM u [RANGE 15 SECONDS SLIDE 5 SECONDS]",
    (
        "SELECT k, v FROM t [RANGE 12 SECONDS SLIDE 4 SECONDS] AS x WHERE NOT EXISTS "
        "(SELECT 1 FROM u [RANGE 9 SECONDS SLIDE 4 SECONDS] AS y WHERE y.k = x.k)"
    ),
    (
        "SELECT ISTREAM RESTORE x.v, y.v AS w FROM t [RANGE 3 SECONDS SLIDE 6 SECONDS] AS x "
        "JOIN u [RANGE 14 SECONDS SLIDE 6 SECONDS] AS y ON x.k = y.k"
    ),
)
RESTORED = (
    "SELECT RSTREAM RESTORE k, COUNT(*) AS c FROM t [RANGE 3 SECONDS SLIDE 6 SECONDS] GROUP BY k",
    "SELECT RSTREAM RESTORE k, v FROM t [RANGE 2 SECONDS SLIDE 6 SECONDS]",
    "SELECT ISTREAM RESTORE k, COUNT(*) AS c FROM t [RANGE 9 SECONDS SLIDE 6 SECONDS] GROUP BY k",
    "SELECT RSTREAM RESTORE COUNT(*) AS c FROM t [RANGE 9 SECONDS SLIDE 3 SECONDS]",
)
ENDLESS = (
    "SELECT k, COUNT(*) AS c, MAX(v) AS most FROM t [UNBOUNDED SLIDE 5 SECONDS] GROUP BY k",
    "SELECT COUNT(*) AS c, SUM(v) AS s FROM t [UNBOUNDED SLIDE 4 SECONDS OFFSET 3 SECONDS]",
    "SELECT k, FIRST(v) AS a, LAST(v) AS z FROM t [UNBOUNDED SLIDE 5 SECONDS] GROUP BY k",
    "SELECT k, v FROM t [UNBOUNDED SLIDE 4 SECONDS] WHERE n > 0",
    (
        "SELECT x.v, y.v AS w FROM t [RANGE 9 SECONDS SLIDE 4 SECONDS] AS x "
        "JOIN u [UNBOUNDED SLIDE 4 SECONDS] AS y ON x.k = y.k"
    ),
)
COUNTED = (
    "SELECT k, SUM(v) AS s FROM t [ROWS 5 SLIDE 3] GROUP BY k",
    "SELECT COUNT(*) AS c, LAST(v) AS z FROM t [ROWS 4 SLIDE 4 OFFSET 2] WHERE n > 0",
    "SELECT k, v FROM t [ROWS 5 SLIDE 3 OFFSET 1]",
    "SELECT k, v FROM t [ROWS 2 SLIDE 4] WHERE n > 0",
)
PARTITIONED = (
    "SELECT n, SUM(v) AS s, COUNT(*) AS c FROM t [PARTITION BY n ROWS 3 SLIDE 2] GROUP BY n",
    "SELECT k, v FROM t [PARTITION BY n ROWS 2 SLIDE 3 OFFSET 1]",
)
CONTINUOUS = (
    "SELECT x.v, y.v AS w FROM t [RANGE 9 SECONDS] AS x JOIN u [RANGE 14 SECONDS] AS y ON x.k = y.k",
    (
        "SELECT x.k, COUNT(*) AS c FROM t [RANGE 9 SECONDS OFFSET 4 SECONDS] AS x "
        "JOIN u [RANGE 5 SECONDS] AS y ON x.k = y.k GROUP BY x.k"
    ),
    "SELECT COUNT(*) AS c FROM t [RANGE 6 SECONDS] AS x JOIN u [RANGE 6 SECONDS] AS y ON x.n = y.n",
    "SELECT DISTINCT k FROM t [RANGE 12 SECONDS]",
    "SELECT k FROM t [RANGE 9 SECONDS] EXCEPT SELECT k FROM u [RANGE 9 SECONDS]",
    "SELECT k, SUM(v) AS s FROM t [UNBOUNDED] GROUP BY k",
    "SELECT COUNT(*) AS c FROM t [UNBOUNDED]",
    "SELECT x.v, y.v AS w FROM t [RANGE 5 SECONDS] AS x JOIN u [UNBOUNDED] AS y ON x.k = y.k",
)
LAST_ROWS = (
    "SELECT k, v FROM t [ROWS 4]",
    "SELECT SUM(v) AS s, COUNT(*) AS c FROM t [ROWS 5 OFFSET 2]",
    "SELECT k, FIRST(v) AS a FROM t [ROWS 6] GROUP BY k",
    "SELECT k, v FROM t [PARTITION BY n ROWS 2 OFFSET 1]",
    "SELECT n, MAX(v) AS most FROM t [PARTITION BY n ROWS 2] GROUP BY n",
    "SELECT x.v, y.v AS w FROM t [ROWS 3] AS x JOIN u [RANGE 9 SECONDS] AS y ON x.k = y.k",
    "SELECT x.v, y.v AS w FROM t [PARTITION BY k ROWS 1] AS x JOIN u [ROWS 4 OFFSET 1] AS y ON x.n = y.n",
)


@st.composite
def plays(draw: st.DrawFn, most: int = 10, ties: bool = True) -> list[tuple[str, list[dict[str, Any]]]]:
    """Pushes to two streams that go forward, at their own pace, with rows out of order and late ones."""
    now, number, pushes = {"t": 0, "u": 0}, 0, []
    for _ in range(draw(st.integers(1, most))):
        stream = draw(st.sampled_from(STREAMS))
        now[stream] += draw(st.sampled_from([0, 1, 2, 5, 20])) * SECOND
        batch = []
        for _ in range(draw(st.integers(1, 5))):
            ts = max(0, now[stream] + draw(st.integers(-5, 4)) * SECOND) + (0 if ties else number)
            row = {"k": draw(st.sampled_from("ab")), "n": draw(st.integers(0, 2)), "v": number}
            batch.append({"ts": ts, **row})
            number += 1
        pushes.append((stream, batch))
    return pushes


def some_of(*texts: str) -> st.SearchStrategy[list[str]]:
    return st.lists(st.sampled_from(texts), min_size=3, max_size=6, unique=True)


def declare(engine: Engine, folder: str | None, lifetime: str = "1 hour", retain: str = "") -> None:
    for name in STREAMS:
        columns = "ts TIMESTAMP, k STRING, n INT, v BIGINT, WATERMARK FOR ts AS ts - INTERVAL 3 SECONDS"
        engine.execute(f"CREATE STREAM {name} ({columns}) {retain}")
        if folder is not None and not (retain and name == "u"):
            options = (
                f"path = '{folder}/{name}', key = 'k', lifetime = '{lifetime}', every = '7 seconds', layout = '2x3'"
            )
            engine.execute(f"CREATE ARCHIVE {name}_past FROM {name} WITH ({options})")


def by_report(table: pa.Table) -> dict[int, Counter[tuple[Any, ...]]]:
    found: dict[int, Counter[tuple[Any, ...]]] = {}
    for row in listed(table):
        found.setdefault(row[1], Counter())[row] += 1
    return found


def due(engine: Engine, text: str) -> int:
    """The last report that was due; the least of all instants where the query has not begun."""
    slide = re.search(r"SLIDE (\d+) SECONDS", text)
    assert slide is not None
    reached = come_to(engine, text)
    return reached - reached % (int(slide[1]) * SECOND) if reached > -(2**63) else reached


def come_to(engine: Engine, text: str) -> int:
    """The least watermark of the streams that a query reads."""
    engine.stats()
    return min(engine.streams[name].watermark for name in STREAMS if f"FROM {name} " in text or f"JOIN {name} " in text)


def begun(engine: Engine, text: str) -> bool:
    return come_to(engine, text) > -(2**63)


@examples(7, soak=15)
@given(
    plays(),
    st.data(),
    st.sampled_from(["1 hour", "1 hour", "25 seconds"]),
    st.sampled_from(["memory", "retain", "disk"]),
)
def test_new_periodic_queries_say_what_they_would_have_said(
    pushes: list[tuple[str, list[dict[str, Any]]]], data: st.DataObject, lifetime: str, where: str
) -> None:
    begin = data.draw(st.integers(0, len(pushes)))
    dies = data.draw(st.integers(begin, len(pushes)))
    texts = data.draw(some_of(*JOINED, *RESTORED, *ENDLESS))
    with tempfile.TemporaryDirectory() as folder:
        engine = Engine(f"{folder}/engine", sync="never") if where == "disk" else Engine()
        reference = Engine()
        declare(engine, folder, lifetime, "WITH (retain = '1 hour')" if where == "retain" else "")
        declare(reference, None)
        for number, text in enumerate(texts):
            reference.execute(f"CREATE QUERY q{number} AS {text}")
        said: dict[int, list[pa.Table]] = {}
        dues: dict[int, int] = {}
        for step in range(len(pushes) + 1):
            for number, text in enumerate(texts) if step == begin else ():
                dues[number] = due(engine, text)
                try:
                    engine.execute(f"CREATE QUERY q{number} AS {text}")
                except PlanError:
                    assert "UNBOUNDED" in text and (lifetime != "1 hour" or "FIRST" in text or dues[number] < 0), text
                    continue
                said[number] = [engine.results(f"q{number}")]
            if step == dies and where == "disk":
                kill(engine)
                engine = Engine(f"{folder}/engine", sync="never")
            for each in (engine, reference) if step < len(pushes) else ():
                each.push(*pushes[step])
        engine.flush(), reference.flush()
        for number, tables in said.items():
            text = texts[number]
            expected = by_report(reference.results(f"q{number}"))
            found = by_report(pa.concat_tables([*tables, engine.results(f"q{number}")]))
            first = dues[number]
            if lifetime != "1 hour" or first < 0 or "RESTORE COUNT" in text:
                # Perhaps as without an archive; then RESTORE has not seen what came and went before its first report.
                first = min(found, default=2**62) + ("RESTORE" in text)
                found = {report: rows for report, rows in found.items() if report >= first}
            assert found == {report: rows for report, rows in expected.items() if report >= first}, text


@examples(7, soak=15)
@given(plays(ties=False), st.data(), st.booleans())
def test_new_queries_over_windows_of_rows_count_on(
    pushes: list[tuple[str, list[dict[str, Any]]]], data: st.DataObject, shared: bool
) -> None:
    begin = data.draw(st.integers(0, len(pushes)))
    texts = data.draw(some_of(*COUNTED, *PARTITIONED))
    with tempfile.TemporaryDirectory() as folder:
        engine, reference = Engine(), Engine()
        declare(engine, folder), declare(reference, None)
        for each in (engine, reference) if shared else ():
            each.execute("CREATE QUERY short AS SELECT k, SUM(v) AS s FROM t [ROWS 1 SLIDE 2] GROUP BY k")
        for number, text in enumerate(texts):
            reference.execute(f"CREATE QUERY q{number} AS {text}")
        before: dict[int, pa.Table] = {}
        for step in range(len(pushes) + 1):
            for number, text in enumerate(texts) if step == begin else ():
                before[number] = reference.results(f"q{number}")
                engine.execute(f"CREATE QUERY q{number} AS {text}")
                assert listed(engine.lookup(f"q{number}")) == listed(reference.lookup(f"q{number}")), text
            for each in (engine, reference) if step < len(pushes) else ():
                each.push(*pushes[step])
        for number, text in enumerate(texts):
            found, later = (Counter(listed(each.results(f"q{number}"))) for each in (engine, reference))
            assert found >= later, text
            # What it says of before is the last report, or all of them where it needs all rows there were.
            said = found - later
            assert said == Counter({row: n for row, n in Counter(listed(before[number])).items() if row in said}), text


@examples(7, soak=15)
@given(plays(ties=False), st.data(), st.sampled_from(["memory", "disk"]))
def test_new_continuous_queries_hold_what_they_would_have_held(
    pushes: list[tuple[str, list[dict[str, Any]]]], data: st.DataObject, where: str
) -> None:
    begin = data.draw(st.integers(0, len(pushes)))
    dies = data.draw(st.integers(begin, len(pushes)))
    texts = data.draw(some_of(*CONTINUOUS, *LAST_ROWS))
    with tempfile.TemporaryDirectory() as folder:
        engine = Engine(f"{folder}/engine", sync="never") if where == "disk" else Engine()
        reference = Engine()
        declare(engine, folder), declare(reference, None)
        for number, text in enumerate(texts):
            reference.execute(f"CREATE QUERY q{number} AS {text}")
        changes: dict[int, Counter[tuple[Any, ...]]] = {}
        for step in range(len(pushes) + 1):
            for number, text in enumerate(texts) if step == begin else ():
                try:
                    engine.execute(f"CREATE QUERY q{number} AS {text}")
                except PlanError:
                    assert not begun(engine, text), text
                if begun(engine, text) or begin == 0:  # else it waits for its first row, as without an archive
                    changes[number] = Counter()
            if step == dies and where == "disk":
                kill(engine)
                engine = Engine(f"{folder}/engine", sync="never")
            for number, change in changes.items():
                held = listed(engine.lookup(f"q{number}"))
                assert held == listed(reference.lookup(f"q{number}")), texts[number]
                for _, count, *row in listed(engine.results(f"q{number}")):
                    change[tuple(row)] += count
                assert sorted(change.elements(), key=repr) == held, texts[number]
            for each in (engine, reference) if step < len(pushes) else ():
                each.push(*pushes[step])
                each.stats()


@examples(7, soak=15)
@given(plays(ties=False), st.data())
def test_lookups_of_the_past_are_the_answers_of_then(
    pushes: list[tuple[str, list[dict[str, Any]]]], data: st.DataObject
) -> None:
    """Each instant is looked up when it has just come, and again when it is long gone."""
    periodic = [text for text in (*JOINED, *ENDLESS) if "RESTORE" not in text]
    texts = data.draw(some_of(*periodic, *CONTINUOUS, *LAST_ROWS))
    with tempfile.TemporaryDirectory() as folder:
        engine = Engine()
        declare(engine, folder)
        for number, text in enumerate(texts):
            engine.execute(f"CREATE QUERY q{number} AS {text}")
        seen: dict[tuple[int, int], list[tuple[Any, ...]]] = {}
        for stream, batch in pushes:
            engine.push(stream, batch)
            for number, text in enumerate(texts):
                if begun(engine, text):
                    at = come_to(engine, text) - 1
                    try:
                        seen[number, at] = listed(engine.lookup(f"q{number}", at=at))
                    except NotHeldError:  # the report before the last one, which is not held any more
                        assert text in periodic, text
        for stream in STREAMS:
            engine.advance(stream, 500 * SECOND)
        found = 0
        for (number, at), answer in seen.items():
            try:
                assert listed(engine.lookup(f"q{number}", at=at)) == answer, (texts[number], at)
                found += 1
            except NotHeldError:
                # FIRST over rows of equal times, or an aggregate of nothing, of which it is not known whether it was.
                assert "FIRST" in texts[number] or ("GROUP" not in texts[number] and not (answer and answer[0][-1]))
        assert found or not any(seen.values())


def test_one_time_windows_of_rows_and_without_end(tmp_path: Path) -> None:
    engine, reference = Engine(), Engine()
    declare(engine, str(tmp_path)), declare(reference, None, retain="WITH (retain = '1 day')")
    texts = ["SELECT k, v FROM t [ROWS 7 OFFSET 3]", "SELECT n, v FROM t [PARTITION BY n ROWS 2]"]
    texts += ["SELECT k, COUNT(*) AS c, LAST(v) AS z FROM t [UNBOUNDED] GROUP BY k"]
    for second in range(100):
        rows = [{"ts": second * SECOND + i, "k": "ab"[i], "n": second % 3, "v": 2 * second + i} for i in (0, 1)]
        engine.push("t", rows), reference.push("t", rows)
    for text in texts:
        assert listed(engine.execute(text)) == listed(reference.execute(text)), text
    for each in (engine, reference):  # the next row has the time of another: which of them came first?
        each.push("t", [{"ts": 100 * SECOND, "k": "a", "n": 0, "v": v} for v in (-1, -2)])
        each.advance("t", 101 * SECOND)
    for text in ("SELECT v FROM t [ROWS 1]", texts[2]):
        with pytest.raises(NotHeldError):
            engine.execute(text)
    assert listed(engine.execute("SELECT v FROM t [ROWS 2]")) == [(-1,), (-2,)]


def test_the_first_pairs_come_at_once_with_archives_and_after_a_whole_window_without(tmp_path: Path) -> None:
    """Beside a join of the same streams that runs already, and is left alone."""
    window = "[RANGE {} SECONDS SLIDE 10 SECONDS]"
    join = f"SELECT COUNT(*) AS c FROM t {window} AS x JOIN u {window} AS y ON x.v = y.v"
    firsts = {}
    for archived in (True, False):
        engine = Engine()
        declare(engine, str(tmp_path) if archived else None)
        engine.execute(f"CREATE QUERY short AS {join.format(10, 10)}")
        for second in range(301):
            if second == 134:
                engine.execute(f"CREATE QUERY q AS {join.format(60, 60)}")
                at_once = engine.results("q")
            for name in STREAMS:
                engine.push(name, {"ts": second * SECOND, "k": "a", "n": 0, "v": second})
        found = by_report(pa.concat_tables([at_once, engine.results("q")]))
        assert all(row[2] == 60 for rows in found.values() for row in rows), found
        firsts[archived] = min(found) // SECOND
        short = [row[2] for row in listed(engine.results("short"))]
        assert short == [10] * len(short) and len(short) == 29
    assert firsts == {True: 130, False: 190}


def test_a_join_that_began_with_history_survives_its_archives(tmp_path: Path) -> None:
    """What they said is in the snapshot, and so is that it shares its join with nobody. Rows of u meet those of t that
    are 8 seconds older."""
    join = "SELECT x.v FROM t [RANGE {} SECONDS] AS x JOIN u [RANGE 9 SECONDS] AS y ON x.v = y.n"

    def push(engine: Engine, second: int) -> None:
        for name in STREAMS:
            engine.push(name, {"ts": second * SECOND, "k": "a", "n": second - 8, "v": second})

    engine = Engine(tmp_path / "engine", sync="never")
    declare(engine, str(tmp_path), lifetime="40 seconds")
    engine.execute(f"CREATE QUERY first AS {join.format(20)}")
    for second in range(102):
        if second == 100:
            engine.execute(f"CREATE QUERY long AS {join.format(30)}")
            engine.execute(f"CREATE QUERY short AS {join.format(3)}")
        push(engine, second)
    assert engine.durability is not None and engine.durability.stats()["snapshots"] == 2
    kill(engine)
    again = Engine(tmp_path / "engine", sync="never")
    changes = again.results("long").to_pylist()
    assert sum(row["change"] for row in changes) == 9
    assert all(row["instant"].timestamp() >= 95 for row in changes)
    for second in range(102, 120):
        for name in ("first", "long"):
            assert sorted(listed(again.lookup(name))) == [(v,) for v in range(second - 21, second - 12)], name
        assert not again.lookup("short").num_rows
        push(again, second)
    again.close()


def test_a_query_over_a_join_that_began_with_history(tmp_path: Path) -> None:
    """One input is far ahead: results of the join are yet to come of times that the other one has passed."""
    window = "[RANGE {} SECONDS SLIDE 5 SECONDS]"
    join = f"SELECT x.v FROM t {window.format(20)} AS x JOIN u {window.format(9)} AS y ON x.n = y.n"
    queries = f"CREATE QUERY pairs AS {join}; CREATE QUERY over AS SELECT COUNT(*) AS c FROM pairs {window.format(10)}"
    said = []
    for archived in (True, False):
        engine = Engine()
        declare(engine, str(tmp_path) if archived else None)
        if not archived:
            engine.execute(queries)
        for second in range(200):
            engine.push("t", {"ts": second * SECOND, "k": "a", "n": second % 7, "v": second})
        for second in range(200):
            if second == 60 and archived:
                engine.execute(queries)
            engine.push("u", {"ts": second * SECOND, "k": "a", "n": second % 7, "v": second})
        said.append(by_report(engine.results("over")))
    assert said[0] == {report: rows for report, rows in said[1].items() if report >= min(said[0])}
    assert min(said[0]) <= 70 * SECOND


def test_what_an_archive_does_not_know_is_not_told(tmp_path: Path) -> None:
    engine = Engine()
    declare(engine, str(tmp_path), lifetime="60 seconds")
    rows = [{"ts": second * SECOND // 2, "k": "a", "n": 0, "v": second} for second in range(20)]
    engine.push("t", rows)
    engine.push("t", [{"ts": 20 * SECOND, "k": "a", "n": 0, "v": v} for v in range(3)])
    for name in STREAMS:
        engine.advance(name, 21 * SECOND)
    engine.execute("CREATE QUERY every AS SELECT COUNT(*) AS c FROM t [UNBOUNDED]")
    assert listed(engine.lookup("every")) == [(23,)]
    for size in (2, 3, 5):  # which of the last three goes first?
        engine.execute(f"CREATE QUERY last{size} AS SELECT v FROM t [ROWS {size}]")
        with pytest.raises(NotHeldError):
            engine.lookup(f"last{size}")
    with pytest.raises(PlanError, match="mid-stream"):
        engine.execute(
            "CREATE QUERY pairs AS SELECT x.v FROM t [ROWS 2] AS x JOIN u [RANGE 1 MINUTE] AS y ON x.v = y.v"
        )
    engine.push("t", [{"ts": (22 + second) * SECOND, "k": "a", "n": 0, "v": second} for second in range(5)])
    engine.execute("CREATE QUERY last1 AS SELECT v FROM t [ROWS 1]")
    assert listed(engine.lookup("last1")) == [(0,)]
    engine.push("t", {"ts": 200 * SECOND, "k": "a", "n": 0, "v": 0})
    assert listed(engine.lookup("every")) == [(28,)]
    with pytest.raises(PlanError, match="had rows already"):  # the first ones have expired
        engine.execute("CREATE QUERY late AS SELECT COUNT(*) AS c FROM t [UNBOUNDED]")


def test_long_streams(tmp_path: Path) -> None:
    """Windows that need a small part of what was: the numbers of rows go on, and nothing is said of long ago."""
    restored = JOINED[-1]
    counted = [*COUNTED, *PARTITIONED, "SELECT k, v FROM t [ROWS 7 SLIDE 5]"]
    last = "SELECT COUNT(*) AS c, MIN(v) AS least FROM t [ROWS 6]"
    behind = "SELECT COUNT(*) AS c, MIN(v) AS least FROM t [ROWS 4 OFFSET 9]"
    texts = [restored, last, *counted, behind]
    engine, reference = Engine(), Engine()
    declare(engine, str(tmp_path)), declare(reference, None)
    for number, text in enumerate(texts):
        reference.execute(f"CREATE QUERY q{number} AS {text}")
    for second in range(200):
        if second == 157:
            now = come_to(engine, restored)
            before = [reference.results(f"q{number}") for number in range(len(texts))]
            for number, text in enumerate(texts):
                engine.execute(f"CREATE QUERY q{number} AS {text}")
            ends = engine.results("q0")["window_end"].cast(pa.int64()).to_pylist()
            assert ends and set(ends) == {due(engine, restored)}
            assert listed(engine.lookup("q1", at=now - 9 * SECOND)) == [(6, now // SECOND - 14)]
            assert listed(engine.lookup(f"q{len(texts) - 1}")) == [(4, now // SECOND - 13)]
            engine.results("q1"), engine.results(f"q{len(texts) - 1}")
        for each in (engine, reference):
            for stream in STREAMS:
                row = {"ts": second * SECOND, "k": "ab"[second % 2], "n": second % 3, "v": second}
                each.push(stream, row)
    for number, text in enumerate(texts):
        found, later = (Counter(listed(each.results(f"q{number}"))) for each in (engine, reference))
        assert found >= later, text
        said = found - later
        assert said <= Counter(listed(before[number])) and len(said) <= 9, text
