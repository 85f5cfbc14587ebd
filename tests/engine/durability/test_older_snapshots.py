"""Snapshots of an earlier panewise: they are restored, or refused in words."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import panewise as pw
from panewise.engine.hosting import query_starter
from panewise.optimize import refusals
from panewise.state.snapshot_format import dumped, loaded

QUERIES = {
    "joined": "SELECT x.k, x.v, y.v AS w FROM s [RANGE 4 SECONDS] x JOIN r [RANGE 4 SECONDS] y ON x.k = y.k",
    "counted": "SELECT COUNT(*) AS n FROM s [RANGE 4 SECONDS SLIDE 2 SECONDS] x "
    "JOIN r [RANGE 4 SECONDS SLIDE 2 SECONDS] y ON x.k = y.k",
    "last": "SELECT k, v FROM s [ROWS 3]",
    "every_other": "SELECT k, v FROM s [PARTITION BY k ROWS 4 SLIDE 2]",
    "summed": "SELECT k, SUM(v) AS t FROM s [PARTITION BY k ROWS 4 SLIDE 2] GROUP BY k",
    "periodic": "SELECT k, SUM(v) AS t FROM s [RANGE 4 SECONDS SLIDE 2 SECONDS] GROUP BY k",
}
Tree = dict[str, Any]


def push(engine: pw.Engine, *seconds: int) -> None:
    for second in seconds:
        for stream in ("s", "r"):
            engine.push(stream, [{"ts": second * 1_000_000, "k": "ab"[second % 3 % 2], "v": second}])


def played(*rows_before: int) -> pw.Engine:
    engine = pw.Engine()
    for stream in ("s", "r"):
        engine.execute(f"CREATE STREAM {stream} (ts TIMESTAMP, k STRING, v BIGINT) WITH (retain = '1 minute')")
    push(engine, *rows_before)
    for name, query in QUERIES.items():
        engine.execute(f"CREATE QUERY {name} AS {query}")
    push(engine, *range(10, 20))
    return engine


def dicts(value: Any) -> Iterator[Tree]:
    if isinstance(value, dict):
        yield value
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from dicts(item)


def as_before(tree: Tree) -> Tree:
    """The tree as it was written before rows that a query has not seen were counted."""
    for part in dicts(tree):
        if "counts" in part and "missed" in part:
            del part["counts"], part["missed"], part["held_from"]
        if "wait" in part:
            part["whole_at"] = 3 if part.pop("wait") else 0
        part.pop("first_shown", None)
        if "starts" in part and isinstance(part["starts"], dict):
            part["starts_at"] = min(part.pop("starts").values())
    return tree


def test_what_an_earlier_panewise_wrote_goes_on() -> None:
    engine = played()
    tree = as_before(loaded(engine.snapshot()))
    again = pw.Engine.restore(dumped(tree))
    for each in (engine, again):
        push(each, *range(20, 40))
    for name in QUERIES:
        assert again.results(name) == engine.results(name)
        assert again.lookup(name) == engine.lookup(name)


def test_a_series_that_had_begun_when_its_query_came_goes_on() -> None:
    """An earlier panewise wrote that with the query, and no beginning with what the queries share."""
    engine = pw.Engine()
    for stream in ("s", "r"):
        engine.execute(f"CREATE STREAM {stream} (ts TIMESTAMP, k STRING, v BIGINT)")
    push(engine, 1, 2, 3)
    engine.execute(f"CREATE QUERY counted AS {QUERIES['counted']}")
    tree = loaded(engine.snapshot())
    for part in dicts(tree):
        if "starts" in part and isinstance(part["starts"], dict):
            part["starts"] = dict.fromkeys(part["starts"], 2**63 - 1)
        if "begins" in part and "shared" in part:
            part["begun"] = True
    again = pw.Engine.restore(dumped(tree))
    for each in (engine, again):
        for stream in ("s", "r"):
            each.advance(stream, 20_000_000)
    assert again.results("counted") == engine.results("counted") and again.lookup("counted").num_rows == 1


def test_rows_that_were_counted_from_mid_stream_are_refused() -> None:
    tree = as_before(loaded(played(1, 2, 3).snapshot()))
    for part in dicts(tree):
        if "tail" in part and "emitter" in part:
            part["wait"] = True
    with pytest.raises(pw.SnapshotError, match="numbered from there instead of from the beginning"):
        pw.Engine.restore(dumped(tree))


RUNNING, FAILED = "RUNNING", "FAILED"
ENDLESS = "CREATE QUERY q AS SELECT k FROM s [UNBOUNDED SLIDE 1 SECOND]"
MODE = "CREATE QUERY q WITH (mode = 'lookup') AS SELECT COUNT(*) AS n FROM s [RANGE 2 SECONDS SLIDE 1 SECOND]"
COUNTED = (
    "CREATE QUERY q AS SELECT n FROM (SELECT COUNT(*) AS n FROM s [RANGE 2 SECONDS SLIDE 1 SECOND]) [ROWS 2 SLIDE 2]"
)


@pytest.fixture
def refuses_less(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Engines are of an earlier panewise until it is called."""
    with monkeypatch.context() as earlier:
        for name in ("check_window", "check_counts", "check_numbers"):
            earlier.setattr(query_starter, name, lambda *arguments, **named: None)
        earlier.setattr(refusals, "_check_lookup_mode", lambda plan: None)
        yield earlier.undo


def written(place: Path, statement: str, *more: str) -> pw.Engine:
    engine = pw.Engine(place)
    engine.execute("CREATE STREAM s (ts TIMESTAMP, k STRING)")
    engine.execute("CREATE QUERY fine AS SELECT k, COUNT(*) AS n FROM s [RANGE 2 SECONDS SLIDE 1 SECOND] GROUP BY k")
    engine.push("s", [{"ts": second * 1_000_000, "k": "a"} for second in range(5)])
    for text in (statement, *more):
        engine.execute(text)
    return engine


@pytest.mark.parametrize(("statement", "status"), [(ENDLESS, FAILED), (COUNTED, FAILED), (MODE, RUNNING)])
@pytest.mark.parametrize("snapshot", [False, True])
def test_a_statement_that_an_earlier_panewise_took_keeps_no_folder_from_opening(
    statement: str, status: str, snapshot: bool, tmp_path: Path, refuses_less: Any
) -> None:
    engine = written(tmp_path / "kept", statement, "SUSPEND QUERY q", "RESUME QUERY q")
    engine.push("s", {"ts": 9_000_000, "k": "a"})
    engine.results("q")
    engine.push("s", {"ts": 12_000_000, "k": "a"})
    engine.execute("CREATE QUERY r AS SELECT COUNT(*) AS c FROM q [RANGE 2 SECONDS SLIDE 2 SECONDS]")
    engine.push("s", [{"ts": second * 1_000_000, "k": "a"} for second in (14, 15)])
    engine.close(snapshot=snapshot)
    refuses_less()
    for _ in range(2):
        with pw.Engine(tmp_path / "kept") as engine:
            queries = engine.stats()["queries"]
            wanted = RUNNING if snapshot else status  # what runs from a snapshot goes on as it was
            assert [queries[name]["status"] for name in ("q", "r", "fine")] == [wanted, wanted, RUNNING]
            reason = engine.execute("SHOW QUERIES").to_pylist()
            assert ("is refused now" in str(reason)) == (wanted == FAILED)
            assert engine.lookup("fine")["n"].to_pylist() == [1]
    with pw.Engine(tmp_path / "kept") as engine:
        engine.execute("DROP QUERY r; DROP QUERY q")


def test_where_it_is_the_last_of_a_log_it_is_left_out_in_words(tmp_path: Path, refuses_less: Any) -> None:
    written(tmp_path / "kept", ENDLESS).close(snapshot=False)
    refuses_less()
    with pytest.warns(pw.DurabilityWarning, match="is ignored, because its call failed .CREATE QUERY q"):
        engine = pw.Engine(tmp_path / "kept")
    assert list(engine.stats()["queries"]) == ["fine"]
    engine.close()


def test_a_field_that_is_missing_is_refused_in_words(soak: bool, caplog: pytest.LogCaptureFixture) -> None:
    data = played().snapshot()
    places = {field: number for number, part in enumerate(dicts(loaded(data))) for field in part}
    refused = 0
    for field, number in list(places.items())[:: 1 if soak else 3]:
        tree = loaded(data)
        del list(dicts(tree))[number][field]
        try:
            pw.Engine.restore(dumped(tree))
        except pw.SnapshotError:
            refused += 1
    # What may be a mistake of ours is not hidden by the words.
    assert refused and len(caplog.records) == refused
    assert all(record.exc_info and record.name == "panewise.engine" for record in caplog.records)
