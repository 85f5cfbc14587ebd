"""A query says beside others what it says alone: a few of the scripts that `make soak MINUTES=n` plays by thousands."""

from __future__ import annotations

import pytest

import panewise as pw
from tests.now_or_soak import soaking
from tests.soak.beside_and_alone import play, problem_of
from tests.soak.life_scripts import ScriptWriter, shrunk, told
from tests.soak.life_windows import SECOND
from tests.soak.lives import Query, Script, Step

STREAM = "CREATE STREAM t (ts TIMESTAMP, k STRING, i INT, v BIGINT, x DOUBLE, w STRING, b BOOLEAN)"
REST = {"i": 1, "x": 0.5, "w": "p", "b": True}
ROWS = tuple({"ts": at * SECOND, "k": "abc"[at % 3], "v": at} | REST for at in range(40))
INNER = "SELECT COUNT(*) AS n FROM t [RANGE 1 SECOND SLIDE 1 SECOND]"
# Queries that are there before the first row, and those that come after ten.
LATE = {
    "everything beside a window": (
        ["SUM(v) AS s FROM t [RANGE 10 SECONDS SLIDE 10 SECONDS]", "SUM(v) AS s FROM t [UNBOUNDED SLIDE 10 SECONDS]"],
        [],
    ),
    "a short window beside a long one": (
        ["SUM(v) AS s FROM t [RANGE 1 DAY SLIDE 1 DAY]"],
        ["SUM(v) AS s FROM t [RANGE 3 SECONDS SLIDE 1 SECOND]"],
    ),
    "INTERNAL over a subquery": ([f"n FROM ({INNER}) [RANGE 4 SECONDS SLIDE 2 SECONDS INTERNAL]"], []),
    "rows by count": ([], ["v FROM t [ROWS 3 SLIDE 4]"]),
    "aggregates by count in partitions": ([], ["k, SUM(v) AS s FROM t [PARTITION BY k ROWS 2 SLIDE 2] GROUP BY k"]),
    "RESTORE": ([], ["RSTREAM RESTORE v FROM t [RANGE 6 SECONDS SLIDE 3 SECONDS]"]),
}


@pytest.mark.parametrize("seed", soaking(range(40), now=range(20)))
def test_scripts(seed: int) -> None:
    assert play(seed) == 1


@pytest.mark.parametrize("name", LATE)
def test_what_was_wrong_once(name: str) -> None:
    assert problem_of(script_of(*LATE[name])) is None


def test_restore_of_a_total_in_mid_stream_knows_the_report_before_its_first() -> None:
    """A row that is in no window: nobody who comes late knows whether the total had begun."""
    text = "SELECT RSTREAM RESTORE MIN(v) AS m FROM t [RANGE 1 SECOND SLIDE 2 SECONDS]"
    rows = tuple({"ts": ts, "k": "a", "v": 1} | REST for ts in (7_500_003, 10_000_005))
    steps: tuple[Step, ...] = (("push", "t", rows), ("create", "q"), ("advance", "t", 20 * SECOND))
    delayed = STREAM.replace("b BOOLEAN)", "b BOOLEAN, WATERMARK FOR ts AS ts - INTERVAL 2 SECONDS)")
    assert problem_of(Script(setup={"t": delayed}, queries={"q": Query("q", text, ("t",))}, steps=steps)) is None


def test_restore_of_a_total_with_having_begins_as_early_as_it_can() -> None:
    """HAVING drops most reports, of which the first that is left says nothing."""
    engine = pw.Engine()
    engine.execute("CREATE STREAM t (ts TIMESTAMP, v BIGINT) WITH (epoch = 'microseconds')")
    text = "SELECT RSTREAM RESTORE SUM(v) AS s FROM t [RANGE 2 SECONDS SLIDE 2 SECONDS] HAVING SUM(v) > 10"
    engine.execute(f"CREATE QUERY early AS {text}")
    engine.push("t", [{"ts": at * SECOND, "v": 1} for at in range(5)])
    engine.execute(f"CREATE QUERY late AS {text}")
    # Sums above 10 come and go between two reports, none of which shows one.
    engine.push("t", [{"ts": at * SECOND + offset, "v": v} for at in range(5, 20) for offset, v in ((0, 20), (9, -20))])
    engine.advance("t", 30 * SECOND)
    early, late = (engine.results(name).to_pylist() for name in ("early", "late"))
    assert late
    assert late == [row for row in early if row["window_end"] >= late[0]["window_end"]]
    assert late[0]["window_end"].timestamp() <= 10


def test_rows_older_than_all_present_ones_may_still_come() -> None:
    engine = pw.Engine()
    engine.execute(
        "CREATE STREAM t (ts TIMESTAMP, v BIGINT, WATERMARK FOR ts AS ts - INTERVAL 30 SECONDS) "
        "WITH (epoch = 'microseconds')"
    )
    engine.execute("CREATE QUERY a AS SELECT SUM(v) AS s FROM t [RANGE 5 SECONDS SLIDE 3 SECONDS]")
    engine.push("t", {"ts": SECOND, "v": 8})
    engine.stats()
    engine.execute("CREATE QUERY b AS SELECT SUM(v) AS s FROM t [RANGE 2 SECONDS SLIDE 1 SECOND]")
    engine.push("t", {"ts": 0, "v": 7})
    engine.advance("t", 5 * SECOND)
    assert engine.results("b")["s"].to_pylist()[:3] == [7, 15, 8]


def script_of(before: list[str], later: list[str]) -> Script:
    queries = {f"q{at}": Query(f"q{at}", f"SELECT {text}", ("t",)) for at, text in enumerate(before + later)}
    queries = {
        name: query if INNER not in query.text else Query(name, query.text, ("t",), inline=INNER)
        for name, query in queries.items()
    }
    created: list[Step] = [("create", name) for name in queries]
    pushed: list[Step] = [("push", "t", ROWS[:10])]
    for row in ROWS[10:]:
        pushed += [("push", "t", (row,)), ("fetch", "q0")]
    steps = (*created[: len(before)], pushed[0], *created[len(before) :], *pushed[1:])
    return Script(setup={"t": STREAM}, queries=queries, steps=steps)


def test_every_kind_of_query_and_step_is_drawn() -> None:
    scripts = [ScriptWriter(seed).script() for seed in range(400)]
    texts = "\n".join(query.statement for script in scripts for query in script.queries.values())
    words = "SLIDE, OFFSET, ALIGN, UNBOUNDED, NOW, [ROWS, PARTITION BY, INTERNAL, RESTORE, ISTREAM, DSTREAM, DISTINCT"
    words += ", EXCEPT, UNION, NOT EXISTS, tab AS r, fixed AS r, FROM (SELECT, FROM q, HAVING, technique"
    words += ", mode = 'lookup', MEDIAN, FREQUENT, APPROX_TOP, VAR_POP, ARG_MAX, BOOL_AND, GEOMEAN"
    words += ", COUNT(DISTINCT, PERCENTILE_CONT, QUANTILE, TOP"
    assert [word for word in words.split(", ") if word not in texts] == []
    verbs = {step[0] for script in scripts for step in script.steps}
    assert verbs >= {"create", "drop", "suspend", "resume", "push", "advance", "execute", "lookup", "fetch", "flush"}
    assert verbs >= {"restore", "reopen", "replay"}


def test_a_failing_script_becomes_small_and_is_told() -> None:
    """What is left is what fails: here, a script that fails as long as it has a row of 'c' and one query."""
    text = "COUNT(*) AS n FROM t [RANGE 2 SECONDS SLIDE 1 SECOND]"
    script = script_of([text], [text])
    assert problem_of(script) is None

    def fails(candidate: Script) -> bool:
        pushed = [row for step in candidate.steps if step[0] == "push" for row in step[2]]
        return bool(candidate.queries) and any(row["k"] == "c" for row in pushed)

    smaller = shrunk(script, fails)
    assert len(smaller.queries) == 1 and [len(step[2]) for step in smaller.steps if step[0] == "push"] == [1]
    assert "engine.push('t', [{" in told(smaller) and "CREATE QUERY" in told(smaller)
