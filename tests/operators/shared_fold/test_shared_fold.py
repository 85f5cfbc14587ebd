"""Rows folded once for several trees: the same states as if each had folded its own, and only where that pays."""

from __future__ import annotations

import gc
import weakref
from random import Random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import panewise as pw
from panewise.aggregates.columns import flags
from panewise.engine.consumers.family_folding import FoldedFamilies
from panewise.language.expressions import Expression
from panewise.operators.family.family import Family
from panewise.operators.family.timeline import common_edges
from panewise.operators.row_batch import Rows
from panewise.operators.shared_fold import fold_prices, selection_classes, shared_fold
from panewise.operators.shared_fold.selection_classes import ChosenRows, SelectionClasses
from panewise.operators.shared_fold.shared_fold import Host, SharedFold
from panewise.plan.expressions.evaluate import evaluate

SECOND = 1_000_000
CLAUSES = [
    "v > 5", "v <= 5", "v > 5 OR v <= 5", "v IN (1, 2, 3)", "v IS NULL", "k = 'a'", "k <> 'a'", "k LIKE 'b%'",
    "k = 'a' AND v > 2", "x > 0.5", "x < CAST('NaN' AS DOUBLE)", "CAST(x AS STRING) = '-0.0'", "v > x",
]  # fmt: skip


def clause(text: str) -> Expression:
    """The WHERE of a query, as the engine has it."""
    engine = engine_with([f"SELECT COUNT(*) AS n FROM t [RANGE 1 SECOND SLIDE 1 SECOND] WHERE {text}"])
    where = engine.hosting.families[0].family.where
    assert where is not None
    return where


def engine_with(queries: list[str], sharing: str = "weave") -> pw.Engine:
    engine = pw.Engine(sharing=sharing)
    engine.execute("CREATE STREAM t (ts TIMESTAMP, k STRING, v BIGINT, x DOUBLE, WATERMARK FOR ts AS ts)")
    for number, text in enumerate(queries):
        engine.execute(f"CREATE QUERY q{number} AS {text}")
    return engine


def host_of(together: FoldedFamilies, family: Family) -> Host | None:
    """Who may fold the family's rows with those of others."""
    return next((host for host in together.shared_fold._hosts if family in host.guests), None)


def batch_of(chance: Random, count: int, values: int = 12) -> pa.RecordBatch:
    floats = [0.0, -0.0, 0.25, 0.75, float("nan"), None]
    return pa.record_batch(
        {
            "ts": pa.array([n * SECOND // 100 for n in range(count)], pa.timestamp("us", tz="UTC")),
            "k": pa.array([chance.choice(["a", "b", "bb", "c", None]) for _ in range(count)]),
            "v": pa.array([chance.choice([None, *range(values)]) for _ in range(count)], pa.int64()),
            "x": pa.array([chance.choice(floats) for _ in range(count)], pa.float64()),
        }
    )


# -- classes ---------------------------------------------------------------------------------------------------------


@given(st.lists(st.sampled_from(CLAUSES), min_size=1, max_size=8), st.integers(0, 2**32), st.sampled_from([3, 10_000]))
def test_classes_say_what_each_clause_says(texts: list[str], seed: int, values: int) -> None:
    chance = Random(seed)
    clauses = [clause(text) for text in texts]
    classes = SelectionClasses(clauses)
    for count in (3, 40, 300):
        batch = batch_of(chance, count, values)
        known = chance.sample(clauses, chance.choice((0, 0, 1)))
        masks = {where: flags(evaluate(where, batch)) for where in known}
        found = classes.of(batch, masks)
        chosen = ChosenRows(batch, [classes], dict(masks))
        for where in clauses:
            expected = flags(evaluate(where, batch))
            assert (classes.kept_by(where)[found] == expected).all()
            rows = chosen.by(where)
            positions = np.flatnonzero(rows) if rows.dtype == np.bool_ else rows
            assert positions.tolist() == np.flatnonzero(expected).tolist()


def test_few_values_are_judged_once_and_many_row_by_row(monkeypatch: pytest.MonkeyPatch) -> None:
    clauses = [clause(f"v > {limit}") for limit in (3, 5)]
    few = SelectionClasses(clauses)
    few.of(batch_of(Random(1), 200), {})
    assert few.by_value
    monkeypatch.setattr(selection_classes, "VALUES_MAX", 20)
    many = SelectionClasses(clauses)
    many.of(batch_of(Random(1), 200, values=1000), {})
    assert not many.by_value


def test_more_clauses_than_a_word_has_bits() -> None:
    clauses = [clause(f"v > {limit} AND x > 0.0") for limit in range(130)]
    classes = SelectionClasses(clauses)
    batch = batch_of(Random(2), 500, values=140)
    found = classes.of(batch, {})
    assert not classes.by_value  # x is a floating number
    for where in clauses:
        assert (classes.kept_by(where)[found] == flags(evaluate(where, batch))).all()


def test_what_others_keep_together_is_not_evaluated(monkeypatch: pytest.MonkeyPatch) -> None:
    whole, small, large = (clause(f"x > 0.0 AND {rest}") for rest in ("(v > 5 OR v <= 5)", "v <= 5", "v > 5"))
    classes = SelectionClasses([whole, small, large])
    evaluated = []
    for place, where in enumerate(classes.clauses):
        plain = classes._evaluators[place]
        classes._evaluators[place] = lambda batch, w=where, e=plain: (evaluated.append(w), e(batch))[1]
    batch = batch_of(Random(3), 100)
    found = classes.of(batch, {})
    assert evaluated == [small, large]
    assert (classes.kept_by(whole)[found] == flags(evaluate(whole, batch))).all()


# -- folding ---------------------------------------------------------------------------------------------------------


QUERIES = [
    "SELECT k, MAX(v) AS m, SUM(v) AS s, COUNT(x) AS c FROM t [RANGE 7 SECONDS SLIDE 2 SECONDS] WHERE v > 3 GROUP BY k",
    "SELECT k, MIN(x) AS m, FIRST(v) AS f FROM t [RANGE 5 SECONDS SLIDE 3 SECONDS] WHERE v <= 3 GROUP BY k",
    "SELECT MAX(v) AS m, LAST(k) AS l, MIN(k) AS s FROM t [RANGE 4 SECONDS SLIDE 1 SECOND]",
    "SELECT k, v, COUNT(*) AS n FROM t [RANGE 6 SECONDS SLIDE 6 SECONDS] GROUP BY k, v",
    "SELECT v, k, AVG(x) AS a FROM t [RANGE 9 SECONDS SLIDE 3 SECONDS OFFSET 1 SECOND] WHERE k = 'a' GROUP BY v, k",
    "SELECT k, MEDIAN(x) AS a FROM t [RANGE 4 SECONDS SLIDE 2 SECONDS] WHERE v > 4 GROUP BY k",
]


def results(engine: pw.Engine) -> list[list[str]]:
    """Which of two equal zeros is the least is nobody's promise."""
    tables = [engine.results(name).to_pylist() for name in engine.hosting.queries]
    return [sorted(repr(row).replace("-0.0", "0.0") for row in rows) for rows in tables]


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever it costs."""
    monkeypatch.setattr(shared_fold, "ROWS_LEAST", 1)
    monkeypatch.setattr(fold_prices, "MERGE_NS", -1e9)


@pytest.mark.usefixtures("always")
def test_folded_together_as_alone() -> None:
    engine, alone = engine_with(QUERIES), engine_with(QUERIES, "none")
    batch = batch_of(Random(4), 6000)
    for begin in range(0, 6000, 500):
        for one in (engine, alone):
            one.push("t", batch.slice(begin, 500))
        assert results(engine) == results(alone)
    together = engine.hosting.families[0].channel.together
    assert isinstance(together, FoldedFamilies)
    hosts = [host_of(together, consumer.family) for consumer in engine.hosting.families]
    assert [host is None for host in hosts] == [False] * 5 + [True]  # a median is folded by its own tree
    assert len({id(host) for host in hosts[:5]}) == 1
    assert hosts[0] is not None and len(hosts[0].active) == 5
    assert "together with: 4 other families by k, v by which of 3 selections keep a row" in str(engine.explain())


@pytest.mark.usefixtures("always")
def test_nothing_stays_in_the_host() -> None:
    """Rows that move no watermark, and rows that are all late, are in a snapshot too."""
    engine, alone = engine_with(QUERIES), engine_with(QUERIES, "none")
    batch = batch_of(Random(5), 3000)
    for one in (engine, alone):
        one.push("t", batch.slice(0, 2000))
        one.push("t", batch.slice(1999, 1))
        one.stats()
        one.push("t", batch.slice(0, 100))
    restored = pw.Engine.restore(engine.snapshot())
    for one in (restored, alone):
        one.push("t", batch.slice(2000, 1000))
    assert results(restored) == results(alone)


def test_a_host_that_does_not_pay_is_left() -> None:
    """Where partials are as many as rows each tree folds for itself, but for a trial now and then."""
    selections = ["v > 3", "v <= 3", "v > 6"]
    queries = [
        f"SELECT k, v, SUM(v) AS s FROM t [RANGE 2 SECONDS SLIDE 10 MS] WHERE {where} GROUP BY k, v"
        for where in selections
    ]
    engine = engine_with(queries)
    batch = batch_of(Random(6), 40_000)
    engine.push("t", batch)
    engine.stats()
    together = engine.hosting.families[0].channel.together
    assert isinstance(together, FoldedFamilies)
    host = host_of(together, engine.hosting.families[0].family)
    assert host is not None and not host.active and not host.untried


def test_a_host_that_pays_stays() -> None:
    queries = [f"SELECT MAX(v) AS m FROM t [RANGE 20 SECONDS SLIDE 5 SECONDS] WHERE x > 0.{n}" for n in range(9)]
    engine = engine_with(queries)
    batch = batch_of(Random(7), 80_000)
    engine.push("t", batch)
    engine.stats()
    together = engine.hosting.families[0].channel.together
    assert isinstance(together, FoldedFamilies)
    host = host_of(together, engine.hosting.families[0].family)
    assert host is not None and len(host.active) == 9


SELECTIONS = [
    f"SELECT k, SUM(v) AS s FROM t [RANGE 4 SECONDS SLIDE 2 SECONDS] WHERE {where} GROUP BY k"
    for where in ("v > 3", "v <= 3", "v > 6")
]


@pytest.fixture
def from_100_rows(always: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Smaller batches are folded by each family for itself."""
    monkeypatch.setattr(shared_fold, "ROWS_LEAST", 100)


def families_of(engine: pw.Engine) -> list[Family]:
    return [consumer.family for consumer in engine.hosting.families]


def parts_of(batch: pa.RecordBatch, counts: tuple[int, ...]) -> pa.Table:
    """A batch that is taken in several parts, which belong together."""
    begins = [sum(counts[:i]) for i in range(len(counts))]
    return pa.Table.from_batches([batch.slice(begin, count) for begin, count in zip(begins, counts, strict=True)])


@pytest.mark.usefixtures("from_100_rows")
def test_nothing_is_said_to_be_folded_together_that_was_not() -> None:
    """What is said is true of the last batch; rows that are put together are one batch."""
    engine, batch = engine_with(SELECTIONS), batch_of(Random(9), 2000)
    engine.push("t", batch.slice(0, 1000))
    assert "together with: 2 other families" in str(engine.explain())
    assert all(family.folded_with for family in engine.sharing_report().families)
    engine.push("t", batch.slice(1000, 50))
    assert "together with" not in str(engine.explain())
    assert not any(family.folded_with for family in engine.sharing_report().families)
    engine.push("t", batch.slice(1050, 500))
    engine.execute("DROP QUERY q2")
    assert "together with" not in str(engine.explain())
    engine.push("t", batch.slice(1550, 400))
    assert "together with: 1 other family" in str(engine.explain())
    engine.execute("DROP QUERY q1")
    engine.push("t", batch.slice(1950, 50))
    assert "together with" not in str(engine.explain())


@pytest.mark.usefixtures("from_100_rows")
def test_parts_of_a_batch_that_are_small_say_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("panewise.engine.ingest.pending_rows.BATCH_ROWS", 1)
    engine, alone = engine_with(SELECTIONS), engine_with(SELECTIONS, "none")
    batch = batch_of(Random(10), 500)
    for one in (engine, alone):
        one.push("t", parts_of(batch, (50, 200, 200, 50)))
        one.flush()
    assert "together with: 2 other families" in str(engine.explain())
    assert results(engine) == results(alone)


@pytest.mark.usefixtures("from_100_rows")
def test_a_family_that_goes_is_let_go() -> None:
    """Whether rows come after it or not."""
    engine, batch = engine_with(SELECTIONS), batch_of(Random(11), 1000)
    engine.push("t", batch)
    engine.flush()
    gone = weakref.ref(families_of(engine)[2])
    engine.execute("DROP QUERY q2")
    gc.collect()
    assert gone() is None
    fold, families = SharedFold(), [family.like() for family in families_of(engine)]
    rows = Rows(batch, np.arange(1000) * SECOND, 0)
    fold.fold(rows, families)
    fold.settle()
    assert fold.folded_with(families[0]) is not None
    gone = weakref.ref(families.pop())
    fold.fold(rows.slice(0, 1), families)
    gc.collect()
    assert gone() is None and fold.folded_with(families[0]) is None


@pytest.mark.usefixtures("always")
def test_what_was_folded_for_a_family_is_there_when_others_go() -> None:
    """Also where it was not handed over yet, because more rows belong together with it."""
    batch = batch_of(Random(12), 1000)
    times = np.arange(1000) * SECOND // 100
    engine = engine_with(SELECTIONS)
    together, alone = ([family.like() for family in families_of(engine)] for _ in range(2))
    fold = SharedFold()
    for number, begin in enumerate(range(0, 1000, 250)):
        rows = Rows(batch.slice(begin, 250), times[begin : begin + 250], begin)
        here = together[: 3 - min(number, 2)]  # the last one goes, then another one
        fold.leave(together[-1])
        fold.fold(rows, here)
        for family in alone[: len(here)]:
            family.fold(rows)
    fold.settle()
    for one, other in zip(together, alone, strict=True):
        found, expected = one.take_partials(), other.take_partials()
        assert found is not None and expected is not None
        assert sorted(found.to_pylist(), key=repr) == sorted(expected.to_pylist(), key=repr)


@pytest.mark.usefixtures("always")
def test_a_family_that_is_torn_between_parts_takes_nothing_of_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """The host of the others has rows that it has not handed over yet."""
    monkeypatch.setattr("panewise.engine.ingest.pending_rows.BATCH_ROWS", 1)
    queries = [*SELECTIONS, "SELECT k, MEDIAN(v) AS m FROM t [RANGE 4 SECONDS SLIDE 2 SECONDS] GROUP BY k"]
    engine, alone = engine_with(queries), engine_with(queries, "none")
    batch = batch_of(Random(13), 1000)

    def failing(*_: object) -> None:
        raise MemoryError("of one family")

    monkeypatch.setattr(families_of(engine)[3], "fold", failing)
    for one in (engine, alone):
        one.push("t", parts_of(batch, (250, 250, 250, 250)))
        one.flush()
    assert engine.hosting.queries["q3"].status == "FAILED"
    assert results(engine)[:3] == results(alone)[:3]


def test_common_edges_are_cut_wherever_one_is() -> None:
    chance = Random(8)
    for _ in range(50):
        made = []
        for _ in range(3):
            epochs = [-(2**63), *sorted(chance.sample(range(100), chance.randint(0, 3)))]
            classes = [[(chance.randint(2, 9), 0)] for _ in epochs]
            firsts = list(range(len(epochs) + 1))
            made.append(
                {
                    "epochs": epochs,
                    "firsts": firsts,
                    "slides": [c[0][0] for c in classes],
                    "phases": [c[0][1] for c in classes],
                }
            )
        common = common_edges(made)
        cuts = [_cuts(one) for one in made]
        assert _cuts(common) == set().union(*cuts)


def _cuts(edges: dict[str, list[int]]) -> set[int]:
    """The instants below 120 at which a slice begins."""
    found = set()
    for point in range(120):
        place = max(i for i, epoch in enumerate(edges["epochs"]) if epoch <= point)
        held = range(edges["firsts"][place], edges["firsts"][place + 1])
        if point == edges["epochs"][place] or any((point - edges["phases"][c]) % edges["slides"][c] == 0 for c in held):
            found.add(point)
    return found
