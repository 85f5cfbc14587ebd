"""How queries share, as the session wants it and as EXPLAIN PLAN tells it."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest

import panewise as pw
from panewise.errors import PlanError, SnapshotError
from panewise.operators.family.family import Family
from tests.engine.hosting.random_weaves import SECOND, woven_at_random
from tests.engine.small_engine import STREAM, rows, tuples

QUERIES = {
    "a": "SELECT k, SUM(v) AS s FROM t [RANGE 6 SECONDS SLIDE 2 SECONDS] GROUP BY k",
    "b": "SELECT k, MAX(x) AS m FROM t [RANGE 9 SECONDS SLIDE 3 SECONDS] GROUP BY k",
    "c": "SELECT k, SUM(v) AS s FROM t [RANGE 6 SECONDS SLIDE 2 SECONDS] GROUP BY k",
    "d": "SELECT k, AVG(v) AS s FROM t [RANGE 1 MINUTE SLIDE 1 SECOND] GROUP BY k",
}


def engine_of(sharing: str) -> pw.Engine:
    engine = pw.Engine(sharing=sharing)
    engine.execute(STREAM)
    for name, text in QUERIES.items():
        engine.execute(f"CREATE QUERY {name} AS {text}")
    engine.push("t", [row for second in range(20) for row in rows(second, k="ab"[second % 2])])
    return engine


def plan(engine: pw.Engine) -> list[str]:
    table = engine.execute("EXPLAIN PLAN")
    assert table is not None
    return [str(line).strip() for line in table["plan"].to_pylist()]


@pytest.mark.parametrize("sharing", ["", "some", "Weave", "WEAVE "])
def test_other_words_are_refused(sharing: str) -> None:
    with pytest.raises(PlanError, match=f"there is no sharing '{sharing}'") as refused:
        pw.Engine(sharing=sharing)
    assert "weave, full or none" in str(refused.value)


def test_full_is_one_tree_and_none_as_many_as_queries() -> None:
    engines = {sharing: engine_of(sharing) for sharing in ("weave", "full", "none")}
    trees = {sharing: engine.sharing_report().tree_count for sharing, engine in engines.items()}
    assert trees == {"weave": 1, "full": 1, "none": len(QUERIES)}
    for sharing, engine in engines.items():
        lines = plan(engine)
        assert lines[0].startswith(f"PLAN  <sharing: {sharing}, queries: {len(QUERIES)}, trees: {trees[sharing]}")
        assert sum(line.startswith("TREE ") for line in lines) == trees[sharing]
        assert sum(line.startswith("FAMILY BY k") for line in lines) == (len(QUERIES) if sharing == "none" else 1)
        assert {line.split()[1] for line in lines if line.startswith("QUERY ")} == set(QUERIES)
    for name in QUERIES:
        expected = sorted(tuples(engines["none"].results(name)))
        assert len(expected) > 5
        assert sorted(tuples(engines["full"].results(name))) == expected
        assert sorted(tuples(engines["weave"].results(name))) == expected


def test_costs_are_compared_with_the_best_of_other_plans() -> None:
    """What is compared with is kept by the best techniques, what runs here by the default ones."""
    alone, together = engine_of("none").sharing_report(), engine_of("full").sharing_report()
    assert alone.cost_alone <= alone.cost
    assert together.cost_full <= together.cost
    assert 0 < together.cost_full < together.cost_alone


def test_a_report_of_woven_trees_is_data() -> None:
    with woven_at_random(Random(4), often=1.0) as done:
        engine = engine_of("weave")
        report = engine.sharing_report()
    assert done.weaves and report.tree_count > 1
    data: dict[str, Any] = json.loads(json.dumps(report.to_dict()))
    assert (data["sharing"], data["queries"], data["trees"]) == ("weave", len(QUERIES), report.tree_count)
    (family,) = data["families"]
    members = sorted(member["query"] for tree in family["trees"] for member in tree["members"])
    assert members == sorted(QUERIES)
    assert (family["stream"], family["grouping"], family["groups"]) == ("t", "k", 2)
    assert family["rows_per_second"] == pytest.approx(20 / 19)
    assert all(tree["edges_per_second"] > 0 for tree in family["trees"])
    assert family["trees"][0]["slices_held"] > 10
    assert sum(line.startswith("TREE ") for line in plan(engine)) == report.tree_count


def test_a_tree_of_too_many_groups_is_one_again() -> None:
    with woven_at_random(Random(3), dense_groups=4, often=1.0) as done:
        engine = engine_of("weave")
        assert engine.sharing_report().tree_count > 1
        engine.push("t", [row for n in range(8) for row in rows(20 + n, k=f"more{n}")])
        (family,) = engine.sharing_report().families
    assert done.weaves
    assert (len(family.trees), family.groups) == (1, 10)
    assert set(family.trees[0].technique.values()) == {"sparse_two_stacks"}
    assert next(line for line in plan(engine) if line.startswith("TREE ")).startswith("TREE 1 ")


@pytest.mark.parametrize("before", ["weave", "full", "none"])
def test_a_snapshot_is_restored_as_it_was_shared(before: str) -> None:
    engine = engine_of(before)
    again = pw.Engine.restore(engine.snapshot())
    assert again.sharing_report().sharing == before
    assert len(again.hosting.families) == len(engine.hosting.families)
    for one in (engine, again):
        one.push("t", rows(*range(20, 30), k="b"))
    for name in QUERIES:
        assert sorted(tuples(again.results(name))) == sorted(tuples(engine.results(name)))


def test_a_snapshot_goes_into_an_engine_that_shares_like_it() -> None:
    saved = {sharing: engine_of(sharing).snapshot() for sharing in ("weave", "full", "none")}
    for of, into in (("weave", "full"), ("full", "weave")):
        assert len(pw.Engine.restore(saved[of], pw.Engine(sharing=into)).results("a")) > 5
    for of, into in (("none", "weave"), ("full", "none")):
        with pytest.raises(SnapshotError, match=f"sharing '{of}', this one has '{into}'"):
            pw.Engine.restore(saved[of], pw.Engine(sharing=into))


def test_queries_that_are_alike_and_come_in_mid_stream_have_the_same_history() -> None:
    engine = pw.Engine()
    engine.execute("CREATE STREAM t (ts TIMESTAMP, v BIGINT)")
    engine.execute("CREATE QUERY older AS SELECT COUNT(*) AS n FROM t [RANGE 4 SECONDS SLIDE 1 SECOND]")
    engine.push("t", [{"ts": second * 1_000_000, "v": second} for second in range(11)])
    like = "AS SELECT COUNT(*) AS n FROM t [RANGE 2 SECONDS SLIDE 1 SECOND]"
    engine.execute(f"CREATE QUERY a {like}; CREATE QUERY b {like}")
    first = engine.results("a").to_pylist()
    engine.execute(f"CREATE QUERY c {like}")  # after a has read, before anything has come
    assert len(first) == 1
    assert engine.results("b").to_pylist() == first == engine.results("c").to_pylist()
    engine.push("t", [{"ts": second * 1_000_000, "v": second} for second in range(11, 14)])
    assert [engine.results(name)["n"].to_pylist() for name in "abc"] == [[2, 2, 2]] * 3
    assert {name: query["results"] for name, query in engine.stats()["queries"].items() if name != "older"} == {
        "a": 4,
        "b": 4,
        "c": 4,
    }


def test_states_without_a_fixed_size_have_their_price() -> None:
    """A median costs more than a sum beside the same count, and the more the longer its window is."""
    costs = []
    for item, length in (("SUM(x)", 9), ("MEDIAN(x)", 9), ("MEDIAN(x)", 900)):
        engine = pw.Engine()
        engine.execute(STREAM)
        engine.execute(
            f"CREATE QUERY q AS SELECT k, {item} AS a FROM t [RANGE {length} SECONDS SLIDE 3 SECONDS] GROUP BY k"
        )
        (family,) = engine.sharing_report().families
        assert family.cost == pytest.approx(family.cost_alone, 0.05) == pytest.approx(family.cost_full, 0.05)
        costs.append(family.cost)
    assert 1.1 * costs[0] < costs[1] < costs[2]


def test_rows_that_are_folded_together_are_paid_for_once() -> None:
    """Families that differ in WHERE: each pays a part of the fold, and what it merges of it."""
    folds = []
    for sharing in ("weave", "none"):
        engine = pw.Engine(sharing=sharing)
        engine.execute("CREATE STREAM t (ts TIMESTAMP, k BIGINT, v BIGINT)")
        for number in range(6):
            window = "[RANGE 10 SECONDS SLIDE 10 SECONDS]"
            engine.execute(
                f"CREATE QUERY q{number} AS SELECT k, SUM(v) AS s FROM t {window} WHERE v < {number + 4} GROUP BY k"
            )
        for second in range(0, 40, 10):
            engine.push("t", [{"ts": second * SECOND + n * 400, "k": n % 3, "v": n % 10} for n in range(20_000)])
        engine.flush()
        report = engine.sharing_report()
        together = [family.folded_with for family in report.families]
        assert all(together) if sharing == "weave" else not any(together)
        folds.append(sum(family.fold_cost for family in report.families))
    assert folds[0] < folds[1] / 2


def test_what_queries_cost_alone_is_counted_by_query() -> None:
    """Nine queries that are alike are one member: each of them alone would cost as much as it."""
    cheap, dear = "RANGE 6 SECONDS SLIDE 6 SECONDS", "RANGE 600 SECONDS SLIDE 1 SECOND"
    costs = {}
    for many in (cheap, dear):
        engine = engine_of_windows(*[many] * 9, cheap if many is dear else dear)
        costs[many] = engine.sharing_report().cost_alone
    one_of_each = engine_of_windows(cheap, dear).sharing_report().cost_alone
    assert costs[cheap] < costs[dear]
    assert costs[cheap] + costs[dear] == pytest.approx(10 * one_of_each, 0.01)


def test_a_family_with_few_windows_makes_no_plan_of_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """To make one takes as long as it has members, and pushes may be of one row."""
    engine = engine_of_windows(*[f"RANGE {n} SECONDS SLIDE 1 SECOND" for n in range(1, 6)])
    made: list[int] = []
    plan_of = Family.plan.fget
    assert plan_of is not None
    monkeypatch.setattr(Family, "plan", property(lambda family: made.append(1) or plan_of(family)))
    for second in range(100, 120):
        engine.push("t", rows(second))
    assert not made
    for n in range(6, 20):
        engine.execute(f"CREATE QUERY w{n} AS SELECT SUM(v) AS s FROM t [RANGE {n} SECONDS SLIDE 1 SECOND]")
    engine.push("t", rows(130))
    assert made


def engine_of_windows(*windows: str) -> pw.Engine:
    engine = pw.Engine()
    engine.execute(STREAM)
    for number, window in enumerate(windows):
        engine.execute(f"CREATE QUERY q{number} AS SELECT SUM(v) AS s FROM t [{window}]")
    engine.push("t", rows(*range(20)))
    return engine


def test_one_tree_costs_what_one_tree_for_all_costs() -> None:
    """Two queries have equal windows, and call their columns otherwise."""
    engine = pw.Engine()
    engine.execute("CREATE STREAM u (ts TIMESTAMP, k STRING)")
    windows = [("n", "1 MINUTE"), ("n", "1 HOUR"), ("m", "1 MINUTE")]
    for number, (name, length) in enumerate(windows):
        text = f"SELECT k, COUNT(*) AS {name} FROM u [RANGE {length} SLIDE 10 SECONDS] GROUP BY k"
        engine.execute(f"CREATE QUERY q{number} AS {text}")
    (family,) = engine.sharing_report().families
    assert len(family.trees) == 1
    assert family.cost_full == pytest.approx(family.cost)
    assert "as cheap as one tree for all" in str(engine.explain())
