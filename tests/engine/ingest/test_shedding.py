"""Load shedding: what is dropped, what is kept, what the rest stands for, and how results say so."""

from __future__ import annotations

import math
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import panewise as pw
from panewise.catalog import StreamDefinition
from panewise.engine.ingest.shedding import SHARE_LEAST, Shedder, refuse_overload_options
from panewise.plan.scale_sampled import EXCESS
from panewise.schema import BIGINT, TIMESTAMP, Column, Schema
from tests.engine.ingest.test_input_monitor import Clock
from tests.engine.small_engine import SECOND, engine_of, tuples

COLUMNS = "ts TIMESTAMP, k STRING, v BIGINT, x DOUBLE, i INT, d DECIMAL(10, 2)"
SHEDS = f"CREATE STREAM t ({COLUMNS}) WITH (shedding = 'random', max_rate = 1000)"
SECONDS = "FROM t [RANGE 1 SECOND SLIDE 1 SECOND]"
ARROW = {
    "ts": pa.timestamp("us", tz="UTC"), "k": pa.string(), "v": pa.int64(), "x": pa.float64(), "i": pa.int32(),
    "d": pa.decimal128(10, 2),
}  # fmt: skip


def batch(times_us: Any, **columns: Any) -> pa.RecordBatch:
    """Rows at these times; columns that are not given are 1, or 'a'."""
    count = len(times_us)
    plain = {"k": ["a"] * count, "v": [1] * count, "x": [1.0] * count, "i": [1] * count, "d": [Decimal(1)] * count}
    values = {"ts": times_us} | plain | columns
    return pa.record_batch({name: pa.array(values[name], type_) for name, type_ in ARROW.items()})


class Scripted(Shedder):
    """Takes the rows that it is told to, with the excess that it is told; None drops a row."""

    def __init__(self, script: list[float | None]) -> None:
        super().__init__(definition("t", shedding="random", max_rate=1))
        self.script = list(script)

    def shed(
        self, batch: pa.RecordBatch, now: float, full: float = 0.0, sustainable: float | None = None
    ) -> tuple[pa.RecordBatch, str | None]:
        script, self.script = self.script[: batch.num_rows], self.script[batch.num_rows :]
        taken = batch.filter(pa.array([excess is not None for excess in script]))
        kept = pa.array([excess for excess in script if excess is not None], pa.float64())
        return pa.RecordBatch.from_arrays([*taken.columns, kept], names=[*batch.schema.names, EXCESS]), "max_rate"


def scripted(script: list[float | None], *statements: str) -> pw.Engine:
    engine = engine_of(SHEDS, *statements)
    engine.streams["t"].judge.shedder = Scripted(script)
    return engine


# -- what is dropped ---------------------------------------------------------------------------------------------


@settings(max_examples=40)
@given(st.lists(st.tuples(st.integers(0, 400), st.floats(0, 0.5)), min_size=1, max_size=30))
def test_taken_and_dropped_rows_are_the_pushed_ones(pushes: list[tuple[int, float]]) -> None:
    engine = engine_of(SHEDS, f"CREATE QUERY q AS SELECT COUNT(*) AS n, MAX(v) AS most {SECONDS}")
    clock = engine.streams["t"].monitor.clock = Clock()
    for number, (count, elapsed) in enumerate(pushes):
        clock.now += elapsed
        engine.push("t", batch([number * SECOND] * count))
    engine.flush()
    stats = engine.stats()["streams"]["t"]
    assert stats["taken_rows"] + stats["shed_rows"] == stats["rows"] == sum(count for count, _ in pushes)
    assert stats["shed"] == {"max_rate": stats["shed_rows"], "queue": 0}
    results = engine.results("q")
    taken = sum(n * sampled for _, n, _, sampled in tuples(results) if sampled is not None)
    assert taken == pytest.approx(stats["taken_rows"], abs=0.51 * len(pushes))  # a count is rounded


@settings(max_examples=30)
@given(st.lists(st.integers(1, 990), min_size=1, max_size=20), st.floats(1.0, 3.0))
def test_below_the_rate_nothing_is_dropped_and_nothing_changes(counts: list[int], slack: float) -> None:
    """Pushes of any size, each after the time that the rate gives its rows."""
    select = f"SELECT k, COUNT(*) AS n, SUM(v) AS s, SUM(x) AS f, AVG(i) AS a, SUM(d) AS d {SECONDS} GROUP BY k"
    engine = engine_of(SHEDS, f"CREATE QUERY q AS {select}")
    whole = engine_of(f"CREATE STREAM t ({COLUMNS})", f"CREATE QUERY q AS {select}")
    clock = engine.streams["t"].monitor.clock = Clock()
    for number, count in enumerate(counts):
        clock.now += count / 1000 * slack
        some = batch([number * SECOND // 4] * count, k=["ab"[i % 2] for i in range(count)], v=[2**50 + 1] * count)
        engine.push("t", some)
        whole.push("t", some)
    engine.flush()
    whole.flush()
    results = engine.results("q")
    assert set(results["sampled"].to_pylist()) <= {1.0}
    assert results.drop_columns(["sampled"]).equals(whole.results("q"))
    assert engine.stats()["streams"]["t"]["shed_rows"] == 0


def test_one_push_far_above_the_rate_is_sampled_to_it() -> None:
    engine = engine_of(SHEDS)
    engine.push("t", batch([0] * 50_000))
    taken = engine.stats()["streams"]["t"]["taken_rows"]
    assert abs(taken - 1000) < 3 * math.sqrt(1000)


def test_a_minute_at_twice_the_rate() -> None:
    """COUNT and SUM of every second lie within three standard errors; unscaled they are far off."""
    engine = engine_of(
        SHEDS.replace("1000", "5000"),
        f"CREATE QUERY q AS SELECT COUNT(*) AS n, SUM(v) AS s, SUM(x) AS f, AVG(v) AS a {SECONDS}",
    )
    clock = engine.streams["t"].monitor.clock = Clock()
    random = np.random.default_rng(7)
    truth = []
    for second in range(60):
        amounts = random.integers(-50, 100, 10_000)
        truth.append(amounts)
        for part in range(20):
            clock.now += 0.05
            mine = amounts[part * 500 : (part + 1) * 500]
            times = [second * SECOND + part * 50_000] * 500
            engine.push("t", batch(times, v=mine, x=mine / 4))
    engine.flush()
    stats = engine.stats()["streams"]["t"]
    assert stats["taken_rows"] + stats["shed_rows"] == stats["rows"] == 600_000
    assert stats["taken_rows"] == pytest.approx(5000 * 61, rel=0.02)  # the rate, and a burst of a second
    errors = []
    for (_, n, s, f, a, sampled), amounts in zip(tuples(engine.results("q"))[2:], truth[2:], strict=True):
        assert sampled == pytest.approx(0.5, abs=0.1)
        factor = 1 / sampled - 1  # the variance of a sum is that of each row's weight times its square
        errors.append((n - len(amounts)) / math.sqrt(factor * len(amounts)))
        errors.append((s - amounts.sum()) / math.sqrt(factor * (amounts**2).sum()))
        assert f == pytest.approx(s / 4, abs=0.2) and a == pytest.approx(s / n, abs=0.01)
        assert abs(n * sampled - len(amounts)) > 20 * math.sqrt(factor * len(amounts))
    assert max(map(abs, errors)) < 3.5  # of 116 standard normal ones
    assert sum(abs(error) < 3 for error in errors) >= len(errors) - 1
    assert 0.7 < np.std(errors) < 1.3


def definition(name: str, **options: Any) -> StreamDefinition:
    return StreamDefinition(
        name, Schema((Column("ts", TIMESTAMP), Column("v", BIGINT))), "ts", 0, tuple(options.items())
    )


def test_estimates_are_unbiased_while_the_rate_changes() -> None:
    """Over many generators: the mean of the estimates is the truth, for pushes that were sampled differently."""
    pushes = [(800, 0.1), (3000, 0.1), (100, 0.4), (5000, 0.01), (10, 0.3)]
    estimates = []
    for number in range(200):
        shedder = Shedder(definition(f"s{number}", shedding="random", max_rate=1000))
        now, total, shares = 0.0, 0.0, set()
        for count, elapsed in pushes:
            now += elapsed
            rows = pa.record_batch({"ts": pa.array([0] * count), "v": pa.array(range(count))})
            taken, _ = shedder.shed(rows, now)
            weights = 1 + taken[EXCESS].to_numpy()
            total += float((weights * taken["v"].to_numpy()).sum())
            shares.add(shedder.share)
        estimates.append(total)
        assert len(shares) >= 3
    truth = sum(count * (count - 1) // 2 for count, _ in pushes)
    assert abs(np.mean(estimates) - truth) < 3 * np.std(estimates) / math.sqrt(len(estimates))


# -- semantic ----------------------------------------------------------------------------------------------------

SEMANTIC = f"CREATE STREAM t ({COLUMNS}) WITH (shedding = 'semantic', keep = 'v >= 90 OR k = ''b''', max_rate = 1000)"


def test_rows_to_keep_are_kept_and_stand_for_themselves() -> None:
    engine = engine_of(
        SEMANTIC,
        f"CREATE QUERY kept AS SELECT COUNT(*) AS n, SUM(v) AS s {SECONDS} WHERE v >= 90",
        f"CREATE QUERY whole AS SELECT COUNT(*) AS n {SECONDS}",
    )
    random = np.random.default_rng(3)
    amounts = random.integers(0, 100, 5000)
    engine.push("t", batch([0] * 5000, v=amounts, k=pa.array([None] * 5000, pa.string())))
    engine.flush()
    high = amounts[amounts >= 90]
    ((_, n, s, sampled),) = tuples(engine.results("kept"))
    assert (n, s, sampled) == (len(high), high.sum(), 1.0)
    ((_, n, sampled),) = tuples(engine.results("whole"))
    others = 5000 - len(high)
    share = (1000 - len(high)) / others
    assert abs(n - 5000) < 3 * math.sqrt(others * (1 / share - 1)) and sampled == pytest.approx(0.2, abs=0.03)


def test_a_flood_of_rows_to_keep_passes_and_leaves_the_others_a_share() -> None:
    engine = engine_of(SEMANTIC, f"CREATE QUERY q AS SELECT v, COUNT(*) AS n {SECONDS} GROUP BY v")
    engine.push("t", batch([0] * 60_000, v=[95] * 10_000 + [5] * 50_000))
    engine.flush()
    counts = {v: (n, sampled) for _, v, n, sampled in tuples(engine.results("q"))}
    assert counts[95] == (10_000, 1.0)
    assert counts[5][1] == pytest.approx(SHARE_LEAST)
    assert abs(counts[5][0] - 50_000) < 3 * math.sqrt(50_000 / SHARE_LEAST)


# -- what the rest stands for ------------------------------------------------------------------------------------

rows_of = st.lists(
    st.tuples(
        st.sampled_from(["a", "b"]),
        st.one_of(st.none(), st.integers(-1000, 1000)),
        st.one_of(st.none(), st.sampled_from([0.0, 1.0, 3.0, 1.5])),
    ),
    min_size=1,
    max_size=30,
)


@settings(max_examples=60)
@given(rows_of)
def test_aggregates_are_the_weighted_ones(found: list[tuple[str, int | None, float | None]]) -> None:
    engine = scripted(
        [excess for _, _, excess in found],
        f"""CREATE QUERY q AS SELECT k, COUNT(*) AS n, COUNT(v) AS c, SUM(v) AS s, SUM(x) AS f, AVG(i) AS a,
            SUM(d) AS d, MIN(v) AS least, COUNT(DISTINCT v) AS kinds, 2 * COUNT(*) + 1 AS odd {SECONDS} GROUP BY k
            HAVING COUNT(*) >= 2""",
    )
    amounts = [v for _, v, _ in found]
    engine.push(
        "t",
        batch(
            [0] * len(found), k=[k for k, _, _ in found], v=amounts, i=amounts,
            x=[None if v is None else v / 8 for v in amounts],
            d=[None if v is None else Decimal(v) / 100 for v in amounts],
        ),
    )  # fmt: skip
    engine.flush()
    expected, decimals = [], []
    for key in sorted({k for k, _, _ in found}):
        mine = [(v, 1 + excess) for k, v, excess in found if k == key and excess is not None]
        present = [(v, w) for v, w in mine if v is not None]
        weight = sum(w for _, w in mine)
        if not mine or half_up(weight) < 2:
            continue
        some = bool(present)
        count, total = sum(w for _, w in present), sum(v * w for v, w in present)
        plain = sum(v for v, _ in present)
        whole = plain + half_up(total - plain)  # the part that was taken is exact
        expected.append(
            (1.0, key, half_up(weight), half_up(count), whole if some else None, total / 8 if some else None,
             pytest.approx(total / count) if some else None, min((v for v, _ in present), default=None),
             len({v for v, _ in present}), 2 * half_up(weight) + 1, pytest.approx(len(mine) / weight))
        )  # fmt: skip
        decimals.append(Decimal(total) / 100 if some else None)
    results = engine.results("q")
    assert sorted(tuples(results.drop_columns(["d"]))) == expected
    for found_decimal, decimal in zip(results.sort_by("k")["d"].to_pylist(), decimals, strict=True):
        assert found_decimal == (None if decimal is None else pytest.approx(decimal, abs=Decimal("0.01")))


def half_up(number: float) -> int:
    """The nearest whole number, halves away from zero."""
    return int(math.copysign(math.floor(abs(number) + 0.5), number))


def test_infinities_stay_what_they_are() -> None:
    engine = scripted([0.0, 0.0, 2.0], f"CREATE QUERY q AS SELECT SUM(x) AS f {SECONDS}")
    engine.push("t", batch([0, 0, SECOND], x=[math.inf, 1.0, 2.0]))
    engine.flush()
    assert tuples(engine.results("q")) == [(1.0, math.inf, 1.0), (2.0, 6.0, pytest.approx(1 / 3))]


def test_marks_of_rows_queries_over_queries_and_unions() -> None:
    engine = scripted(
        [1.0, None, 0.0, 3.0],
        "CREATE QUERY raw AS SELECT ISTREAM v FROM t [NOW]",
        f"CREATE QUERY counts AS SELECT k, COUNT(*) AS n {SECONDS} GROUP BY k",
        "CREATE QUERY over AS SELECT SUM(n) AS n FROM counts [RANGE 2 SECONDS SLIDE 2 SECONDS]",
        "CREATE QUERY inside AS SELECT MAX(n) AS m FROM (SELECT COUNT(*) AS n FROM t [RANGE 1 SECOND SLIDE 1 SECOND]) "
        "[RANGE 2 SECONDS SLIDE 2 SECONDS]",
        "CREATE QUERY last AS SELECT COUNT(*) AS n FROM t [ROWS 2 SLIDE 1]",
        "CREATE STREAM u (ts TIMESTAMP, v BIGINT)",
        "CREATE QUERY both AS SELECT v FROM t [RANGE 1 SECOND SLIDE 1 SECOND] UNION ALL "
        "SELECT v FROM u [RANGE 1 SECOND SLIDE 1 SECOND]",
    )
    engine.push("u", [{"ts": 0, "v": 8}])
    engine.push("t", batch([0, 0, SECOND, SECOND], v=[1, 2, 3, 4]))
    engine.flush()
    assert sorted(tuples(engine.results("both"))) == [(1.0, 1, 0.5), (1.0, 8, 1.0), (2.0, 3, 1.0), (2.0, 4, 0.25)]
    assert [result[1:] for result in tuples(engine.results("raw"))] == [(1, 0.5), (3, 1.0), (4, 0.25)]
    assert tuples(engine.results("counts")) == [(1.0, "a", 2, 0.5), (2.0, "a", 5, 0.4)]
    # The report at 2 s itself belongs to the next window, which ends at 4 s.
    assert tuples(engine.results("over")) == [(2.0, 2, 0.5), (4.0, 5, 0.4)]
    assert [result[1:] for result in tuples(engine.results("inside"))] == [(2, 0.5), (5, 0.4)]
    # A window of two rows holds two of those that were taken: not scaled, and marked.
    assert [result[1:] for result in tuples(engine.results("last"))] == [(1, 0.5), (2, 2 / 3), (2, 0.4)]


def test_the_weights_are_nobodys_column() -> None:
    engine = scripted([2.0], "CREATE QUERY q AS SELECT ISTREAM * FROM t [NOW]")
    engine.push("t", batch([0]))
    engine.advance("t", 1)
    assert engine.results("q").column_names == ["instant", *ARROW, "sampled"]
    with pytest.raises(pw.BindError, match=f"there is no column '{EXCESS}'"):
        engine.execute(f"SELECT {EXCESS} FROM t")


def test_a_join_weighs_by_the_product() -> None:
    other = "CREATE STREAM u (ts TIMESTAMP, k STRING, w BIGINT) WITH (shedding = 'random', max_rate = 10)"
    engine = engine_of(
        SHEDS,
        other,
        "CREATE QUERY q AS SELECT COUNT(*) AS n, SUM(t.v * u.w) AS s FROM t [RANGE 1 SECOND SLIDE 1 SECOND] "
        "JOIN u [RANGE 1 SECOND SLIDE 1 SECOND] ON t.k = u.k",
    )
    engine.streams["t"].judge.shedder = Scripted([1.0, 0.0, None])
    engine.streams["u"].judge.shedder = Scripted([3.0, 0.0])
    engine.push("t", batch([0, 0, 0], k=["a", "b", "a"], v=[5, 7, 9]))
    engine.push("u", [{"ts": 0, "k": "a", "w": 10}, {"ts": 0, "k": "b", "w": 100}])
    engine.flush()
    # The pair of a's stands for 2 * 4 pairs, that of b's for itself.
    assert tuples(engine.results("q")) == [(1.0, 9, 8 * 50 + 700, pytest.approx(2 / 9))]


def test_a_join_with_itself_is_marked_only() -> None:
    engine = scripted(
        [1.0, 0.0],
        "CREATE QUERY q AS SELECT COUNT(*) AS n FROM t [RANGE 1 SECOND SLIDE 1 SECOND] AS a "
        "JOIN t [RANGE 1 SECOND SLIDE 1 SECOND] AS b ON a.k = b.k",
    )
    engine.push("t", batch([0, 0]))
    engine.flush()
    ((_, pairs, sampled),) = tuples(engine.results("q"))
    assert pairs == 4 and 0 < sampled < 1


def test_one_time_queries_and_lookups_are_scaled_too() -> None:
    engine = scripted([1.0, None, 0.5], "CREATE QUERY q AS SELECT k, SUM(v) AS s FROM t [RANGE 1 MINUTE] GROUP BY k")
    engine.execute("ALTER STREAM t SET (retain = '1 hour')")
    engine.streams["t"].judge.shedder = Scripted([1.0, None, 0.5])
    engine.push("t", batch([0, 1, 2], v=[10, 20, 40]))
    engine.advance("t", SECOND)
    found = engine.execute("SELECT COUNT(*) AS n, SUM(v) AS s FROM t")
    assert found is not None and found.to_pylist() == [{"n": 4, "s": 80, "sampled": pytest.approx(2 / 3.5)}]
    (looked_up,) = engine.lookup("q").to_pylist()
    assert (looked_up["s"], looked_up["sampled"]) == (80, pytest.approx(2 / 3.5))


# -- time, late rows, snapshots ----------------------------------------------------------------------------------


def test_dropped_rows_move_the_watermark() -> None:
    engine = scripted([0.0, None, None, 0.0], f"CREATE QUERY q AS SELECT COUNT(*) AS n {SECONDS}")
    engine.push("t", batch([0, 3 * SECOND]))
    assert [n for _, n, _ in tuples(engine.results("q"))] == [1, 0, 0]
    engine.push("t", batch([4 * SECOND]))  # a push of which nothing is taken
    assert tuples(engine.results("q")) == [(4.0, 0, None)]
    engine.push("t", batch([2 * SECOND]))
    assert engine.stats()["streams"]["t"]["late_rows"] == 1


def test_late_rows_are_as_they_were_pushed() -> None:
    engine = scripted([0.0, 0.0])
    engine.execute("ALTER STREAM t SET (late = 'keep')")
    engine.streams["t"].judge.shedder = Scripted([0.0, 0.0])
    engine.push("t", batch([5 * SECOND, 1 * SECOND], v=[1, 2]))
    late = engine.late_rows("t")
    assert late.column_names == list(ARROW) and late["v"].to_pylist() == [2]


def test_a_snapshot_keeps_counts_and_draws() -> None:
    engine = engine_of(SHEDS, f"CREATE QUERY q AS SELECT COUNT(*) AS n, SUM(v) AS s {SECONDS}")
    clock = engine.streams["t"].monitor.clock = Clock()
    engine.push("t", batch([0] * 5000, v=range(5000)))
    again = pw.Engine.restore(engine.snapshot())
    again.streams["t"].monitor.clock = clock
    before = engine.stats()["streams"]["t"]["shed"]
    assert before["max_rate"] > 3000 and again.stats()["streams"]["t"]["shed"] == before
    clock.now += 1000  # rates begin anew in the one that was restored
    for each in (engine, again):
        each.push("t", batch([SECOND] * 5000, v=range(5000)))
        each.flush()
    assert again.results("q").equals(engine.results("q"))
    assert again.stats()["streams"]["t"]["shed"] == engine.stats()["streams"]["t"]["shed"] != before


def test_an_engine_with_a_path_drops_nothing_anew(tmp_path: Path) -> None:
    """What was taken is logged, with its weights: a restart answers the same whatever its clock says."""
    statements = [
        SHEDS.replace("max_rate", "queue = 500, max_rate"),
        f"CREATE QUERY q AS SELECT COUNT(*) AS n, SUM(v) AS s {SECONDS}",
        "CREATE QUERY now AS SELECT COUNT(*) AS n, SUM(v) AS s FROM t [RANGE 1 MINUTE]",
    ]
    with pw.Engine(path=tmp_path) as engine:
        for statement in statements:
            engine.execute(statement)
        engine.push("t", batch([0] * 5000, v=range(5000)))
        engine.push("t", batch([SECOND // 2] * 100))
        engine.push("t", {"ts": SECOND // 2, "k": "a", "v": 1, "x": 1.0, "i": 1, "d": Decimal(1)})
        shed = engine.stats()["streams"]["t"]["shed"]
        looked_up = engine.lookup("now")
    with pw.Engine(path=tmp_path) as again:
        assert again.stats()["streams"]["t"]["shed"] == shed and shed["max_rate"] > 3000
        assert again.lookup("now").to_pylist() == looked_up.to_pylist() != []
        again.flush()
        _, n, _, sampled = tuples(again.results("q"))[0]
        assert abs(n - 5101) < 3 * math.sqrt(5101 * 4) and 0.1 < sampled < 0.3
        stats = again.stats()["streams"]["t"]
        assert stats["taken_rows"] + stats["shed_rows"] == stats["rows"] == 5101


def test_a_queue_that_fills_sheds_to_what_is_processed() -> None:
    """By the queue alone: nothing below half, the sustainable rate above it, ever less as it fills."""
    shedder = Shedder(definition("s", shedding="random", queue=1000))
    rows = pa.record_batch({"ts": pa.array([0] * 1000), "v": pa.array([1] * 1000)})
    now, shares = 0.0, []
    for full in (0.0, 0.5, 0.51, 0.75, 0.9, 1.0):
        for _ in range(60):  # ten thousand rows a second, of which five thousand can be processed
            now += 0.1
            _, reason = shedder.shed(rows, now, full, 5000.0)
        shares.append(shedder.share)
        assert reason == (None if full <= 0.5 else "queue")
    assert shares[:2] == [1.0, 1.0] and shares[2] == pytest.approx(0.5, abs=0.05)
    assert shares[3] == pytest.approx(shares[2] * 0.25 / 0.49) and shares[4] < shares[3]
    assert shares[5] == SHARE_LEAST


# -- statements --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("shedding = 'random'", "shedding = 'random' needs to know when to begin"),
        ("shedding = 'semantic', max_rate = 5", "needs to know which rows to keep"),
        ("shedding = 'random', max_rate = 5, keep = 'v > 1'", "cannot prefer some rows"),
        ("max_rate = 5", "'max_rate' says what to shed, and stream 's' sheds nothing"),
        ("keep = 'v > 1'", "'keep' says what to shed"),
        ("shedding = 'semantic', max_rate = 5, keep = 'w > 1'", "is no condition on a row: there is no column 'w'"),
        ("shedding = 'semantic', max_rate = 5, keep = 'v + 1'", "is no condition on a row"),
        ("shedding = 'semantic', max_rate = 5, keep = 'v > 1) OR (COUNT(*) > 1'", "is no condition on a row"),
        ("shedding = 'semantic', max_rate = 5, keep = 'v > 1); SELECT * FROM s WHERE (v > 1'", "is no condition"),
        ("shedding = 'semantic', max_rate = 5, keep = 'v > 1) GROUP BY (v'", "is no condition on a row"),
        ("shedding = 'often', max_rate = 5", "'shedding' takes 'none', 'random' or 'semantic'"),
        ("shedding = 'random', max_rate = 0", "'max_rate' takes a number of rows, at least 1"),
    ],
)  # fmt: skip
def test_options_that_do_not_fit(options: str, message: str) -> None:
    engine = pw.Engine()
    with pytest.raises(pw.QueryError) as raised:
        engine.execute(f"CREATE STREAM s (ts TIMESTAMP, v BIGINT) WITH ({options})")
    assert message in str(raised.value)
    assert not list(engine.catalog)


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE QUERY q AS SELECT DISTINCT v FROM t [RANGE 1 SECOND]",
        "CREATE QUERY q AS SELECT v FROM t [NOW] WHERE NOT EXISTS (SELECT * FROM u [NOW] WHERE u.v = t.v)",
        "CREATE QUERY q AS SELECT v FROM u [NOW] WHERE NOT EXISTS (SELECT * FROM t [NOW] WHERE u.v = t.v)",
        "CREATE QUERY q AS SELECT v FROM t [RANGE 1 SECOND] EXCEPT SELECT v FROM u [RANGE 1 SECOND]",
        "CREATE QUERY q AS SELECT COUNT(*) AS sampled FROM t [RANGE 1 SECOND]",
        "CREATE TABLE c (v BIGINT PRIMARY KEY) WITH (changes = 't')",
        "CREATE STREAM w (ts TIMESTAMP, sampled BIGINT) WITH (shedding = 'none')",
        "ALTER STREAM u SET (shedding = 'random', max_rate = 5)",
    ],
)
def test_what_a_sample_cannot_answer_is_refused(statement: str) -> None:
    engine = engine_of(SHEDS, "CREATE STREAM u (ts TIMESTAMP, v BIGINT)")
    before = list(engine.catalog)
    with pytest.raises(pw.PlanError):
        engine.execute(statement)
    assert list(engine.catalog) == before


def test_spark_refuses_what_only_the_engine_does() -> None:
    refuse_overload_options("t", (("late", "drop"),))
    for name in ("shedding", "max_rate", "keep", "queue"):
        with pytest.raises(pw.PlanError, match=f"'{name}' of stream 't' is for the embedded engine"):
            refuse_overload_options("t", (("late", "drop"), (name, 1)))


def test_alter_begins_and_ends_shedding() -> None:
    engine = engine_of(f"CREATE STREAM t ({COLUMNS}) WITH (shedding = 'none')")
    clock = engine.streams["t"].monitor.clock = Clock()
    engine.push("t", batch([0] * 5000))
    engine.execute("ALTER STREAM t SET (shedding = 'random', max_rate = 1000)")
    clock.now += 100
    engine.push("t", batch([0] * 5000))
    shed = engine.stats()["streams"]["t"]["shed_rows"]
    assert 3500 < shed < 4500
    engine = pw.Engine.restore(engine.snapshot())
    engine.execute("ALTER STREAM t SET (shedding = 'none')")
    engine.push("t", batch([0] * 5000))
    stats = engine.stats()["streams"]["t"]
    assert stats["shed_rows"] == shed and stats["taken_rows"] == 15_000 - shed


def test_streams_without_shedding_are_as_ever() -> None:
    engine = engine_of(f"CREATE STREAM t ({COLUMNS})", f"CREATE QUERY q AS SELECT COUNT(*) AS n {SECONDS}")
    assert engine.streams["t"].schema.names == tuple(ARROW)
    assert engine.streams["t"].judge.shedder is None and "shed_rows" not in engine.stats()["streams"]["t"]
    assert engine.results("q").column_names == ["window_start", "window_end", "n"]
    assert "excess" not in str(engine.explain("q"))


@pytest.mark.parametrize("shedding", ["shedding = 'random'", "shedding = 'semantic', keep = 'v < 0'"])
@pytest.mark.parametrize("steps_per_s", [50, 400])
def test_rows_pushed_one_by_one_are_sampled_too(shedding: str, steps_per_s: int) -> None:
    engine = engine_of(
        f"CREATE STREAM t (ts TIMESTAMP, v BIGINT) WITH ({shedding}, max_rate = 100)",
        f"CREATE QUERY q AS SELECT COUNT(*) AS n {SECONDS}",
    )
    clock = engine.streams["t"].monitor.clock = Clock()
    for number in range(10 * steps_per_s):
        clock.now += 1 / steps_per_s
        engine.push("t", {"ts": number * SECOND // steps_per_s, "v": number})
    engine.flush()
    stats = engine.stats()["streams"]["t"]
    assert stats["taken_rows"] + stats["shed_rows"] == stats["rows"] == 10 * steps_per_s
    counts = [(n, sampled) for _, n, sampled in tuples(engine.results("q"))]
    if steps_per_s < 100:
        assert counts == [(steps_per_s, 1.0)] * 10
        return
    assert stats["taken_rows"] == pytest.approx(1100, abs=3 * math.sqrt(1000))  # ten seconds and the burst
    for n, sampled in counts[3:]:
        assert abs(n - steps_per_s) < 3.5 * math.sqrt(steps_per_s * (1 / sampled - 1))
