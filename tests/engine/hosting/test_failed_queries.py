"""An error in an operator is that of the queries whose state it tore: all others go on, here and when a log is read."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import panewise as pw
from panewise.engine.durability.suspended_folder import GO_ON
from panewise.engine.engine import Engine
from panewise.operators.continuous.continuous import ContinuousAggregate
from panewise.operators.family.family import Family
from panewise.operators.joins.window_join import WindowJoin
from panewise.operators.shared_fold.shared_fold import Host
from tests.engine.hosting.frail_aggregate import REASON, register

STREAM = "CREATE STREAM s (ts TIMESTAMP, k STRING, v BIGINT)"
QUERIES = {
    "sums": "SELECT k, SUM(v) AS s FROM s [RANGE 4 SECONDS SLIDE 1 SECOND] GROUP BY k",
    "longer": "SELECT k, SUM(v) AS s FROM s [RANGE 8 SECONDS SLIDE 2 SECONDS] GROUP BY k",
    "most": "SELECT MAX(v) AS m FROM s [RANGE 4 SECONDS SLIDE 1 SECOND] WHERE v > 3",
    "now": "SELECT ISTREAM k, SUM(v) AS n FROM s [RANGE 3 SECONDS] GROUP BY k",
    "pairs": "SELECT a.v AS v, b.k AS k FROM s [RANGE 1 SECOND] AS a JOIN s [RANGE 2 SECONDS] AS b ON a.v = b.v",
    "few": "SELECT a.v AS v, b.k AS k FROM s [RANGE 1 SECOND] AS a JOIN s [RANGE 1 SECOND] AS b ON a.v = b.v",
    "above": "SELECT MAX(n) AS most FROM now [RANGE 3 SECONDS SLIDE 1 SECOND]",
}
# Where an error comes from, and the queries that it tears.
TORN = {
    "a family": ((Family, "fold"), {"sums", "longer"}),
    "the reports of a family": ((Family, "advance"), {"sums", "longer"}),
    "a continuous query, and who reads it": ((ContinuousAggregate, "process"), {"now", "above"}),
    "a shared join": ((WindowJoin, "process"), {"pairs", "few"}),
}
ERRORS = (MemoryError("of 3 GB"), pa.ArrowMemoryError("of 4 GB"), AssertionError("ours"), ValueError("a bad value"))


def rows(count: int, start: int = 0) -> list[dict[str, Any]]:
    return [{"ts": (start + i) * 250_000, "k": "abc"[i % 3], "v": i % 7} for i in range(count)]


def made(engine: Engine) -> Engine:
    engine.execute(STREAM)
    for name, text in QUERIES.items():
        engine.execute(f"CREATE QUERY {name} AS {text}")
    return engine


def failing(
    monkeypatch: pytest.MonkeyPatch, place: tuple[type, str], error: BaseException, only: Callable[[Any], bool]
) -> list[bool]:
    """The method raises, from the moment that the list holds True on."""
    armed = [False]
    method = getattr(*place)

    def raising(self: Any, *arguments: Any) -> Any:
        if armed[0] and only(self):
            raise error
        return method(self, *arguments)

    monkeypatch.setattr(*place, raising)
    return armed


def is_torn(operator: Any) -> bool:
    """Of the trees that of `sums` and `longer` only; other operators have one instance that is meant."""
    return not isinstance(operator, Family) or (bool(operator.keys) and operator.where is None and operator.timed)


def answers(engine: Engine) -> dict[str, Any]:
    status = {row["name"]: row["status"] for row in engine.execute("SHOW QUERIES").to_pylist()}
    return {name: engine.results(name).to_pylist() for name in QUERIES if status[name] == "RUNNING"}


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("torn", TORN)
def test_only_those_fail_whose_state_was_torn(torn: str, error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    place, names = TORN[torn]
    armed = failing(monkeypatch, place, error, is_torn)
    engine, undisturbed = made(Engine()), made(Engine())
    for each in (engine, undisturbed):
        each.push("s", rows(40))
        answers(each)
    armed[0] = True
    engine.push("s", rows(40, 40))
    found = answers(engine)
    armed[0] = False
    undisturbed.push("s", rows(40, 40))
    expected = answers(undisturbed)
    assert found == {name: value for name, value in expected.items() if name not in names}
    shown = {row["name"]: row for row in engine.execute("SHOW QUERIES").to_pylist()}
    for name in names:
        assert shown[name]["status"] == "FAILED" and str(error) in shown[name]["reason"]
    assert "which it reads, has failed" in shown["above"]["reason"] or "above" not in names
    # They hold nothing any more; the others go on, also through a snapshot; and all can be made anew.
    engine.stats(), engine.explain(), engine.sharing_report(), [engine.explain(name) for name in QUERIES]
    again = Engine.restore(engine.snapshot())
    for each in (engine, undisturbed, again):
        each.push("s", rows(40, 80))
    expected = {name: value for name, value in answers(undisturbed).items() if name not in names}
    assert answers(engine) == answers(again) == expected
    for each in (engine, again):
        for name in reversed(QUERIES):
            if name in names:
                each.execute(f"DROP QUERY {name}")
        for name in QUERIES:
            if name in names:
                each.execute(f"CREATE QUERY {name} AS {QUERIES[name]}")
        each.push("s", rows(80, 120))
        assert all(len(part) for part in answers(each).values())
    whole = Engine.restore(engine.snapshot())
    for each in (engine, whole):
        each.push("s", rows(40, 200))
    assert answers(engine) == answers(whole)


@pytest.mark.parametrize("sharing", ["weave", "none"])
def test_a_family_of_failed_queries_takes_no_rows_after_a_snapshot(
    sharing: str, caplog: pytest.LogCaptureFixture
) -> None:
    engine = register(Engine(sharing=sharing))
    engine.execute("CREATE STREAM s (ts TIMESTAMP, k STRING, v BIGINT)")
    query = "CREATE QUERY {} AS SELECT k, FRAIL(v) AS total FROM s [RANGE 2 SECONDS SLIDE 1 SECOND] GROUP BY k"
    engine.execute(query.format("q"))
    engine.push("s", [{"ts": 0, "k": "a", "v": 2**63 - 1}, {"ts": 1, "k": "a", "v": 1}, {"ts": 1_000_000, "k": "a"}])
    engine.results("q")
    engine = Engine.restore(engine.snapshot(), register(Engine(sharing=sharing)))
    for second in range(2, 6):
        engine.push("s", [{"ts": second * 1_000_000, "k": "a", "v": 1}] * 200)
    engine.stats()
    assert not caplog.records
    assert engine.execute("SHOW QUERIES")["reason"].to_pylist() == [REASON]
    engine.execute(query.format("anew"))
    engine.push("s", [{"ts": 9_000_000, "k": "a", "v": 1}] * 200)
    assert engine.results("anew")["total"].to_pylist() == [200]


def shown(engine: Engine) -> dict[str, tuple[str, str]]:
    """The status of each query, and the reason."""
    return {row["name"]: (row["status"], row["reason"]) for row in engine.execute("SHOW QUERIES").to_pylist()}


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("sharing", ["weave", "full"])
def test_a_query_that_fails_while_it_joins_a_family(sharing: str, grouped: bool, tmp_path: Path) -> None:
    """Its first report is of slices that others hold, at once: the statement is done, and the query is FAILED."""
    key, by = ("k, ", " GROUP BY k") if grouped else ("", "")
    others = {
        "longer": f"SELECT {key}FRAIL(v) AS f FROM s [RANGE 1 HOUR SLIDE 1 HOUR]{by}",
        "counts": f"SELECT {key}COUNT(*) AS n FROM s [RANGE 10 SECONDS SLIDE 5 SECONDS]{by}",
    }
    query = f"CREATE QUERY q AS SELECT {key}FRAIL(v) AS f FROM s [RANGE 10 SECONDS SLIDE 5 SECONDS]{by}"
    engine, alone = (register(Engine(sharing=sharing)) for _ in range(2))
    for each in (engine, alone):
        each.execute("CREATE STREAM s (ts TIMESTAMP, k STRING, v DOUBLE)")
        for name, text in others.items():
            each.execute(f"CREATE QUERY {name} AS {text}")
        each.push("s", [{"ts": second * 1_000_000, "k": "a", "v": 4e17} for second in range(1, 22)])
    engine.execute(query)
    expected = {"longer": ("RUNNING", ""), "counts": ("RUNNING", ""), "q": ("FAILED", REASON)}
    assert shown(engine) == expected
    with pytest.raises(pw.PanewiseError, match="has failed"):
        engine.lookup("q")
    assert not engine.results("q").num_rows
    str(engine.explain("q")), str(engine.explain()), engine.stats()
    again = Engine.restore(engine.snapshot(), register(Engine(sharing=sharing)))
    assert shown(again) == expected
    for each in (engine, again, alone):
        each.push("s", [{"ts": second * 1_000_000, "k": "a", "v": 1.0} for second in range(22, 60)])
    found, expected_counts = [each.results("counts") for each in (engine, again)], alone.results("counts")
    assert len(expected_counts) == 11 and all(counts.equals(expected_counts) for counts in found)
    for each in (engine, again):
        each.execute(f"DROP QUERY q; {query}")
        assert shown(each)["q"] == ("RUNNING", "")


def test_a_query_that_fails_on_the_rows_that_it_is_shown_first() -> None:
    """Those that the watermark has not passed; nobody is in its family beside it."""
    engine = Engine()

    def lift(value: float) -> tuple[float]:
        if value < 0:
            raise ValueError("less than nothing")
        return (value,)

    engine.register_aggregate(
        "ROOTS", lift=lift, combine=lambda a, b: (a[0] + b[0],), lower=lambda a: a[0], identity=(0.0,)
    )
    engine.execute("CREATE STREAM s (ts TIMESTAMP, v DOUBLE, WATERMARK FOR ts AS ts - INTERVAL 5 SECONDS)")
    engine.execute("CREATE QUERY n AS SELECT COUNT(*) AS n FROM s [RANGE 1 SECOND SLIDE 1 SECOND] WHERE v < 9")
    engine.push("s", [{"ts": second * 1_000_000, "v": 1.0 if second < 20 else -1.0} for second in range(22)])
    engine.execute("CREATE QUERY q AS SELECT ROOTS(v) AS r FROM s [RANGE 10 SECONDS SLIDE 5 SECONDS]")
    assert shown(engine)["n"] == ("RUNNING", "")
    status, reason = shown(engine)["q"]
    assert status == "FAILED" and "less than nothing" in reason
    engine.push("s", [{"ts": second * 1_000_000, "v": 1.0} for second in range(22, 40)])
    assert engine.results("n")["n"].to_pylist() == [1] * 34


def test_a_host_that_folds_for_several_families_fails_its_guests(monkeypatch: pytest.MonkeyPatch) -> None:
    armed = failing(monkeypatch, (Host, "fold"), MemoryError(), lambda host: True)
    engine, alone = Engine(), Engine()
    for each in (engine, alone):
        each.execute(STREAM)
    for limit in range(8):
        text = f"SELECT SUM(v) AS s FROM s [RANGE 4 SECONDS SLIDE 1 SECOND] WHERE v > {limit}"
        engine.execute(f"CREATE QUERY q{limit} AS {text}")
    now = "CREATE QUERY now AS SELECT COUNT(*) AS n FROM s [RANGE 3 SECONDS]"
    engine.execute(now), alone.execute(now)
    count = 20_000
    times = pa.array(np.arange(count) * 1000, pa.timestamp("us", tz="UTC"))
    batch = pa.table({"ts": times, "k": ["a"] * count, "v": np.arange(count) % 10})
    armed[0] = True
    engine.push("s", batch), alone.push("s", batch)
    status = [row["status"] for row in engine.execute("SHOW QUERIES").to_pylist()]
    assert status.count("FAILED") == 8
    assert engine.results("now").equals(alone.results("now"))


@pytest.mark.parametrize("torn", TORN)
def test_in_the_log_too(torn: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What fails while a log is read fails alone. What failed only then, not now, goes on: nothing of it is lost."""
    place, names = TORN[torn]
    armed = failing(monkeypatch, place, MemoryError(), is_torn)
    undisturbed = made(Engine())
    undisturbed.push("s", rows(40))
    undisturbed.push("s", rows(40, 40))
    expected = answers(undisturbed)
    engine = made(Engine(tmp_path / "now"))
    engine.push("s", rows(40))
    first = answers(engine)
    armed[0] = True
    engine.push("s", rows(40, 40))
    second = answers(engine)
    engine.close(snapshot=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pw.DurabilityWarning)
        engine = Engine(tmp_path / "now")  # it fails at the first rows now
        shown = {row["name"]: row["status"] for row in engine.execute("SHOW QUERIES").to_pylist()}
        assert {name for name, status in shown.items() if status == "FAILED"} == names
        engine.close(snapshot=False)
        armed[0] = False
        engine = Engine(tmp_path / "now")
    third = answers(engine)
    for name in QUERIES:
        handed = [*first[name], *second.get(name, []), *third[name]]
        assert handed == expected[name], name
    engine.close()


def test_statements_on_what_fails_while_a_log_is_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """They worked when they were logged, and must not keep the folder from being opened."""
    armed = failing(monkeypatch, (ContinuousAggregate, "process"), MemoryError(), lambda _: True)
    engine = made(Engine(tmp_path / "e"))
    engine.push("s", rows(40))
    engine.execute("SUSPEND QUERY now")
    engine.execute("RESUME QUERY now")
    engine.execute("CREATE QUERY later AS SELECT MIN(n) AS least FROM now [RANGE 3 SECONDS SLIDE 1 SECOND]")
    engine.close(snapshot=False)
    armed[0] = True
    with Engine(tmp_path / "e") as engine:
        shown = {row["name"]: row for row in engine.execute("SHOW QUERIES").to_pylist()}
        assert {name for name, row in shown.items() if row["status"] == "FAILED"} == {"now", "above", "later"}
        with pytest.raises(pw.PanewiseError, match="has failed"):
            engine.execute("CREATE QUERY latest AS SELECT MIN(n) AS least FROM now [RANGE 3 SECONDS SLIDE 1 SECOND]")
        with pytest.raises(pw.PanewiseError, match="has failed"):
            engine.execute("RESUME QUERY now")
    with Engine(tmp_path / "e") as engine:
        assert {row["name"] for row in engine.execute("SHOW QUERIES").to_pylist() if row["status"] == "FAILED"} == {
            "now", "above", "later"
        }  # fmt: skip


@pytest.mark.parametrize("snapshot", [False, True])
def test_a_query_of_a_suspended_folder_is_dropped_and_never_runs_again(
    snapshot: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    armed = failing(monkeypatch, (WindowJoin, "process"), SystemExit("no memory: the process ends"), lambda _: True)
    engine, undisturbed = made(Engine(tmp_path / "e")), made(Engine())
    for each in (engine, undisturbed):
        each.push("s", rows(40))
    if snapshot:
        engine.checkpoint()
    for each in (engine, undisturbed):
        each.push("s", rows(40, 40))
    engine.execute("CREATE SINK out FROM pairs WITH (connector = 'console')")
    engine.close(snapshot=False)
    armed[0] = True
    with pytest.raises(SystemExit):
        Engine(tmp_path / "e")
    with Engine(tmp_path / "e", suspended=True) as engine:
        shown = engine.execute("SHOW QUERIES").to_pylist()
        assert {row["name"] for row in shown} == set(QUERIES)
        assert {row["status"] for row in shown} == {"SUSPENDED"}
        refused: list[Callable[[], Any]] = [
            lambda: engine.push("s", rows(1)),
            lambda: engine.execute("RESUME QUERY sums"),
            lambda: engine.execute("SELECT SUM(v) FROM s [RANGE 1 SECOND]"),
            lambda: engine.execute("DROP STREAM s"),
            lambda: engine.lookup("sums"),
            lambda: engine.advance("s", 10**9),
            lambda: engine.execute("DROP QUERY pairs"),  # a sink reads it
            lambda: engine.results("sums"),
            lambda: engine.hand_over("sums", lambda table, first: None),
            lambda: engine.hand_over_all(lambda read: None),
            lambda: engine.subscribe("sums", lambda batch: None),
            lambda: engine.last_sequence("s", "p"),
            lambda: engine.late_rows("s"),
            lambda: engine.bad_rows("s"),
            lambda: engine.push("s", []),
            engine.flush,
            lambda: engine.flush(["s"]),
            engine.checkpoint,
            engine.snapshot,
        ]
        for call in refused:
            with pytest.raises(pw.PanewiseError) as refusal:
                call()
            assert "still read by sink" in str(refusal.value) or refusal.value.hint == GO_ON
        for text in ("DROP SINK out", "DROP QUERY pairs", "DROP QUERY few"):
            engine.execute(text)
    for _ in range(2):
        with Engine(tmp_path / "e") as engine:
            assert not (tmp_path / "e" / "DROPPED").exists()
            left = set(QUERIES) - {"pairs", "few"}
            assert {row["name"] for row in engine.execute("SHOW QUERIES").to_pylist()} == left
    armed[0] = False
    with Engine(tmp_path / "e") as engine:
        for each in (engine, undisturbed):
            each.push("s", rows(40, 80))
        for name in left:
            assert engine.results(name).equals(undisturbed.results(name)), name


def test_only_a_folder_can_be_suspended(tmp_path: Path) -> None:
    with pytest.raises(pw.PlanError, match="path"):
        Engine(suspended=True)
    (tmp_path / "empty").mkdir()
    for name in ("typo", "empty"):
        with pytest.raises(pw.DurabilityError, match=f"there is no engine in '.*{name}'"):
            Engine(tmp_path / name, suspended=True)
    assert [file.name for file in tmp_path.rglob("*")] == ["empty"]


@pytest.mark.parametrize("snapshot", [False, True])
def test_a_suspended_folder_claims_no_figure(snapshot: bool, tmp_path: Path) -> None:
    engine = made(Engine(tmp_path / "e"))
    engine.execute("CREATE TABLE w (v BIGINT)")
    engine.execute("INSERT INTO w VALUES (1)")
    engine.execute(
        f"CREATE ARCHIVE a FROM sums WITH (path = '{tmp_path}/a', key = 'k', every = '1 second', lifetime = '1 day')"
    )
    for number in range(1, 7):
        engine.push("s", rows(40, 40 * number), producer="p", sequence=number)
    size = engine.stats()["durability"]["log_bytes"]
    engine.close(snapshot=snapshot)
    with Engine(tmp_path / "e", suspended=True) as engine:
        stats = engine.stats()
        figures = [stats["streams"]["s"], stats["tables"]["w"], stats["archives"]["a"], *stats["trees"]]
        for part in [*figures, *stats["queries"].values()]:
            known = {name for name, value in part.items() if value is not None}
            assert known <= {"status", "reason", "source", "path", "queries", "changes"}
        assert {query["status"] for query in stats["queries"].values()} == {"SUSPENDED"}
        assert set(stats["streams"]["s"]) >= {"rows", "late_rows", "watermark", "bytes", "waiting_rows"}
        assert stats["durability"]["log_bytes"] == (0 if snapshot else size)
        assert bool(stats["durability"]["snapshot_bytes"]) == snapshot
        (shown,) = engine.execute("SHOW ARCHIVES").to_pylist()
        assert (shown["status"], shown["rows"], shown["written_to"]) == ("SUSPENDED", "", "")
        assert "suspended=True" in shown["reason"]
    with Engine(tmp_path / "e") as engine:
        assert engine.last_sequence("s", "p") == 6
        (shown,) = engine.execute("SHOW ARCHIVES").to_pylist()
        assert shown["status"] == "RUNNING" and int(shown["rows"]) > 0


def test_what_was_dropped_suspended_never_runs_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not while its log is read a second time either, after a process that died before it wrote a snapshot."""
    armed = failing(monkeypatch, (WindowJoin, "process"), SystemExit("killed"), lambda _: True)
    engine = made(Engine(tmp_path / "e"))
    engine.push("s", rows(40))
    engine.close(snapshot=False)
    armed[0] = True
    with Engine(tmp_path / "e", suspended=True) as engine:
        engine.execute("DROP QUERY pairs")
        engine.execute("DROP QUERY few")
    noted = (tmp_path / "e" / "DROPPED").read_bytes()
    for died_before_it_was_removed in (False, False, True):
        if died_before_it_was_removed:
            (tmp_path / "e" / "DROPPED").write_bytes(noted)
        engine = Engine(tmp_path / "e")
        assert not (tmp_path / "e" / "DROPPED").exists()
        assert {row["name"] for row in engine.execute("SHOW QUERIES").to_pylist()} == set(QUERIES) - {"pairs", "few"}
        engine.close(snapshot=False)


def test_what_was_dropped_suspended_is_gone_when_the_folder_is_suspended_again(tmp_path: Path) -> None:
    made(Engine(tmp_path / "e")).close(snapshot=False)
    left = set(QUERIES)
    for name in ("above", "now"):  # the second is refused as long as the first one reads it
        with Engine(tmp_path / "e", suspended=True) as engine:
            assert {row["name"] for row in engine.execute("SHOW QUERIES").to_pylist()} == left
            engine.execute(f"DROP QUERY {name}")
        left -= {name}
    with Engine(tmp_path / "e") as engine:
        assert {row["name"] for row in engine.execute("SHOW QUERIES").to_pylist()} == left


def test_a_family_that_was_begun_anew_has_its_place_in_explain_plan_after_a_reopening(tmp_path: Path) -> None:
    def plan(engine: Engine) -> str:
        return "\n".join(engine.execute("EXPLAIN PLAN").column("plan").to_pylist())

    with pw.Engine(tmp_path / "kept", prepare=register) as engine:
        engine.execute(
            """CREATE STREAM s (ts TIMESTAMP, k STRING, a BIGINT);
               CREATE QUERY sums AS SELECT k, FRAIL(a) AS a FROM s [RANGE 5 SECONDS SLIDE 1 SECOND] GROUP BY k;
               CREATE QUERY log AS SELECT k, a FROM s [RANGE 3 SECONDS]"""
        )
        largest = {"ts": 1_000_000, "k": "a", "a": 2**63 - 1}
        engine.push("s", [largest, largest, {"ts": 5_000_000, "k": "a", "a": 1}])
        assert engine.stats()["queries"]["sums"]["status"] == "FAILED"
        engine.execute("CREATE QUERY n AS SELECT k, COUNT(*) AS n FROM s [RANGE 5 SECONDS SLIDE 1 SECOND] GROUP BY k")
        before = plan(engine)
        assert before.index("QUERY log") < before.index("QUERY n ")
    with pw.Engine(tmp_path / "kept", prepare=register) as engine:
        assert plan(engine) == before
