"""Rows exchanged by key, in the stages of the Spark pipeline without Spark: the answers of the embedded engine.

    a: (k) ---+--> bucket of hash(k): joins, negates, removes duplicates among the rows of its keys alone
    b: (k) ---+

Every bucket hears of every stream's time in every micro-batch, with or without rows for it.
"""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest

import panewise as pw
from panewise.spark.environment.folder import Folder
from panewise.spark.folder_reader import last_stats
from tests.engine.random_relations import CREATE, SECOND, STREAMS, QueryWriter, random_rows
from tests.now_or_soak import soaking
from tests.spark.both_hosts import BUCKETS, Both, Row
from tests.spark.local_run import LocalRun


def play(seed: int, place: Path) -> tuple[int, int]:
    """Random queries over random rows: how many of the queries were exchanged by key, and how many results agreed."""
    chance = Random(seed)
    queries = {f"q{number}": QueryWriter(chance).query() for number in range(3)}
    both = Both(place, seed=seed if seed % 3 else None, forgetful=seed % 3 == 0)
    both.execute(*(CREATE.format(stream) for stream in STREAMS))
    both.execute(*(f"CREATE QUERY {name} AS {query.cql}" for name, query in queries.items()))
    left = {stream: list(parts) for stream, parts in random_rows(chance, 16).items()}
    while any(left.values()):
        stream = chance.choice([name for name, parts in left.items() if parts])
        both.push(stream, left[stream].pop(0))
    both.advance(60 * SECOND)
    return sum(both.buckets_of(name) == BUCKETS for name in queries), sum(map(both.compare, queries))


@pytest.mark.parametrize("seed", soaking(range(700, 704), now=[700, 701]))  # others need more that is compiled
def test_as_the_engine_says(seed: int, tmp_path: Path) -> None:
    play(seed, tmp_path)


def test_much_is_exchanged(tmp_path: Path) -> None:
    played = [play(seed, tmp_path / str(seed)) for seed in range(1000, 1010)]
    assert sum(exchanged for exchanged, _ in played) >= 10
    assert sum(results for _, results in played) > 150


# -- types -----------------------------------------------------------------------------------------------------------

TYPED = pa.schema(
    [
        ("ts", pa.timestamp("us", tz="UTC")),
        ("i", pa.int32()),
        ("k", pa.int64()),
        ("x", pa.float64()),
        ("f", pa.float32()),
        ("d", pa.decimal128(5, 2)),
        ("e", pa.decimal128(9, 4)),
        ("w", pa.string()),
        ("o", pa.bool_()),
    ]
)
CREATE_TYPED = (
    "CREATE STREAM {} (ts TIMESTAMP, i INT, k BIGINT, x DOUBLE, f FLOAT, d DECIMAL(5, 2), e DECIMAL(9, 4), "
    "w STRING, o BOOLEAN)"
)
EQUALITIES = ("a.i = b.k", "a.x = b.f", "a.x = b.k", "a.d = b.e", "a.k = b.d", "a.o = b.o", "a.w = b.w", "a.i = b.e")


def typed_rows(chance: Random, count: int) -> list[Row]:
    number = (0, 1, 2, -3, None)
    return [
        {
            "ts": step * SECOND // 4,
            "i": chance.choice(number),
            "k": chance.choice(number),
            "x": chance.choice((0.0, -0.0, 1.0, -3.0, 0.5, float("nan"), None)),
            "f": chance.choice((0.0, -0.0, 1.0, -3.0, 0.5, float("nan"), None)),
            "d": chance.choice((Decimal("1.00"), Decimal("0.00"), Decimal("-3.00"), None)),
            "e": chance.choice((Decimal("1.0000"), Decimal("0.0000"), Decimal("-3.0000"), None)),
            "w": chance.choice(("", "p", "a longer text", None)),
            "o": chance.choice((True, False, None)),
        }
        for step in range(count)
    ]


@pytest.mark.parametrize("equality", EQUALITIES)
def test_equal_values_of_different_types_meet(equality: str, tmp_path: Path) -> None:
    both = Both(tmp_path)
    both.execute(CREATE_TYPED.format("a"), CREATE_TYPED.format("b"))
    left, right = (side.split(".")[1] for side in equality.split(" = "))
    windows = "a [RANGE 5 SECONDS SLIDE 1 SECOND], b [RANGE 5 SECONDS SLIDE 1 SECOND]"
    first, second = windows.split(", ")
    both.execute(
        f"CREATE QUERY j AS SELECT a.{left} AS p, b.{right} AS q FROM {windows} WHERE {equality}",
        f"CREATE QUERY n AS SELECT a.{left} AS p FROM {first} "
        f"WHERE NOT EXISTS (SELECT 1 FROM {second} WHERE {equality})",
        f"CREATE QUERY u AS SELECT {left} AS p FROM {first} UNION SELECT {right} FROM {second}",
        f"CREATE QUERY e AS SELECT {left} AS p FROM {first} EXCEPT SELECT {right} FROM {second}",
    )
    chance = Random(equality)
    rows = {stream: typed_rows(chance, 40) for stream in "ab"}
    for begin in range(0, 40, 13):
        for stream in "ab":
            both.push(stream, rows[stream][begin : begin + 13], TYPED)
    both.advance(60 * SECOND, ("a", "b"))
    assert {both.buckets_of(name) for name in "jnue"} == {BUCKETS}
    assert all(both.compare(name) for name in "jnue")


# -- buckets that get little, and late -------------------------------------------------------------------------------


def test_a_bucket_without_rows_hears_of_the_time(tmp_path: Path) -> None:
    """The row of key 1 leaves its window when rows of key 2 say so, wherever those go."""
    both = Both(tmp_path, buckets=7)
    both.execute(*(CREATE.format(stream) for stream in STREAMS))
    both.execute("CREATE QUERY q AS SELECT k FROM a [RANGE 5 SECONDS] EXCEPT SELECT k FROM b [RANGE 5 SECONDS]")
    both.push("a", [{"ts": 0, "k": 1}])
    both.push("b", [{"ts": 0, "k": 5}])
    both.push("a", [{"ts": 20 * SECOND, "k": 2}])
    assert "q" not in both.found
    both.push("b", [{"ts": 20 * SECOND, "k": 6}])
    assert [row["change"] for row in both.found["q"][0].to_pylist()] == [1, -1]
    both.compare("q")


def test_equal_values_of_different_keys_cancel_out(tmp_path: Path) -> None:
    """The pairs of each key leave when those of the next come, with the same value: nothing changes in between."""
    both = Both(tmp_path)
    both.execute(*(CREATE.format(stream).replace(" - INTERVAL 2 SECONDS", "") for stream in STREAMS))
    windows = "a [RANGE 1 SECOND] AS x, b [RANGE 1 SECOND] AS y"
    both.execute(f"CREATE QUERY q AS SELECT x.v FROM {windows} WHERE x.k = y.k")
    for key in range(9):
        for stream in "ab":
            both.push(stream, [{"ts": key * SECOND, "k": key, "v": 1}])
    both.advance(60 * SECOND)
    assert both.compare("q") == 2


QUERIES = {
    "j": "SELECT x.k, y.v FROM a [RANGE 3 SECONDS] AS x, b [RANGE 2 SECONDS] AS y WHERE x.k = y.k",
    "s": "SELECT x.k, y.v AS v FROM a [RANGE 3 SECONDS] AS x, a [RANGE 1 SECOND] AS y WHERE x.k = y.k",
    "n": "SELECT k, v FROM a [RANGE 3 SECONDS] WHERE NOT EXISTS (SELECT 1 FROM b [RANGE 4 SECONDS] WHERE b.k = a.k)",
    "d": "SELECT DISTINCT k, w FROM b [RANGE 4 SECONDS SLIDE 1 SECOND]",
    "g": "SELECT x.k, COUNT(*) AS n FROM a [RANGE 3 S] AS x, b [RANGE 3 S] AS y WHERE x.k = y.k GROUP BY x.k",
}


@pytest.mark.parametrize("seed", soaking(range(2), now=[0]))
def test_queries_that_come_in_mid_stream(seed: int, tmp_path: Path) -> None:
    """From when their windows are whole on they say what the engine's say, also from buckets whose rows come late."""
    chance = Random(seed)
    both = Both(tmp_path, seed=seed)
    both.execute(*(CREATE.format(stream).replace(" - INTERVAL 2 SECONDS", "") for stream in STREAMS))
    time, created = 0, {}
    waiting = list(QUERIES)
    for step in range(50):
        if step % 8 == 0 and waiting:
            name = waiting.pop(chance.randrange(len(waiting)))
            both.execute(f"CREATE QUERY {name} AS {QUERIES[name]}")
            created[name] = time
        # Keys come up one after the other: most buckets see their first rows late.
        keys = (None, *range(1 + step // 6))
        for stream in chance.sample("ab", 2):
            row = {"k": chance.choice(keys), "v": chance.choice((1, 2)), "w": chance.choice("pq")}
            both.push(stream, [{"ts": time, **row}], runs=False)
        if step % 2:
            both.go_on()
        time += chance.choice((0, SECOND // 4, SECOND // 2))
    both.advance(time + 20 * SECOND)
    assert {both.buckets_of(name) for name in QUERIES} == {BUCKETS}
    # The engine still has the rows of the last instant, a new bucket has not: its windows are whole a little later.
    assert sum(both.compare(name, created[name] + 5 * SECOND) for name in QUERIES) > 50


def test_queries_by_the_same_keys_share_a_fragment(tmp_path: Path) -> None:
    run = LocalRun(tmp_path, partitions=BUCKETS)
    run.change(*(CREATE.format(stream) for stream in STREAMS))
    windows = "a [RANGE 9 SECONDS] AS x, b [RANGE 9 SECONDS] AS y"
    run.change(f"CREATE QUERY p AS SELECT x.k, y.v FROM {windows} WHERE x.k = y.k")
    run.change(f"CREATE QUERY q AS SELECT x.k, x.v FROM {windows} WHERE x.k = y.k AND x.v > y.v")
    run.change(f"CREATE QUERY r AS SELECT x.w, x.v FROM {windows} WHERE x.w = y.w")
    run.change(f"CREATE QUERY s AS SELECT ISTREAM x.k, y.v FROM {windows} WHERE x.k = y.k")
    run.change("CREATE QUERY o AS SELECT DISTINCT v FROM s [RANGE 3 SECONDS]")
    queries = run.program.newest.queries
    fragments = {name: run.program.fragments[query.fragment] for name, query in queries.items()}
    assert fragments["p"] is fragments["q"] is fragments["s"] is not fragments["r"]
    assert [fragments[name].buckets for name in "pro"] == [BUCKETS, BUCKETS, 1]
    # The query that another one reads is computed once more beside it, where all its results are.
    assert list(run.program.newest.hosted(fragments["o"])) == ["s", "o"]


def test_explained() -> None:
    windows = "a [RANGE 9 SECONDS] AS x, b [RANGE 9 SECONDS] AS y"
    pipeline = pw.SparkPipeline(type("Session", (), {"version": "4.3.0"})(), partitions=4)
    for statement in (
        *(CREATE.format(stream) for stream in STREAMS),
        f"CREATE QUERY p AS SELECT x.k FROM {windows} WHERE x.k = y.v",
        f"CREATE QUERY q AS SELECT x.v, COUNT(*) AS n FROM {windows} WHERE x.k = y.k GROUP BY x.v",
    ):
        pipeline.execute(statement)
    explained = pipeline.explain()
    assert "fragment 1 over a, b answers p" in explained
    assert "    rows are exchanged whole, in order, by a.`k` = b.`v` into 4 buckets" in explained
    assert "in order, into one bucket: GROUP BY does not contain the key" in explained


def test_overflows_are_counted_once_however_often_a_bucket_is_made_anew(tmp_path: Path) -> None:
    both = Both(tmp_path, forgetful=True)
    both.execute(
        "CREATE STREAM s (ts TIMESTAMP, k BIGINT, v BIGINT, w STRING)",
        "CREATE QUERY rows AS SELECT SUM(v) AS total FROM s [ROWS 2 SLIDE 2]",
        "CREATE QUERY now AS SELECT SUM(v) AS total FROM s [RANGE 1 SECOND]",
    )
    for second in range(5):
        value = 2**63 - 1 if second == 0 else 1
        both.push("s", [{"ts": second * 2_000_000 + i, "k": 1, "v": value, "w": ""} for i in range(2)])
    counted = last_stats(Folder(str(tmp_path)))["overflows"]
    said = both.engine.stats()["queries"]
    assert {name.partition("@")[0]: count for name, count in counted.items()} == {
        name: said[name]["overflows"] for name in ("rows", "now")
    }
    assert said["rows"]["overflows"] == 1
