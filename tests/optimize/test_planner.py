"""The planner: all logical plans and statistics to one physical plan, and what was decided to the same plan again."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import panewise as pw
from panewise.errors import PanewiseError, SnapshotError
from panewise.language.bind.binder import bind_one, parse
from panewise.language.statements import CreateQuery
from panewise.optimize import node_of_plan as physical
from panewise.optimize.explained_node import explained_node
from panewise.optimize.joins import reordering
from panewise.optimize.joins.join_graph import JoinEdge, JoinInput
from panewise.optimize.joins.reordering import JoinLoad, next_orders
from panewise.optimize.planner import LogicalQuery, Planner
from panewise.optimize.refusals import LACKS, HostKind, check_host, check_query
from panewise.optimize.rewrites import rewriting
from panewise.optimize.rewrites.rewriting import Rewritten
from panewise.optimize.rewrites.statistics import Statistics
from panewise.plan.build import build
from panewise.plan.decided import Decided, decided_on
from panewise.plan.physical_plan import (
    CoreOperator,
    DeltaQuery,
    Difference,
    PhysicalPlan,
    inner_queries,
)

STREAMS = "; ".join(f"CREATE STREAM {name} (ts TIMESTAMP, k BIGINT, v BIGINT, w STRING)" for name in "abc")
SLOW, FAST = 1.0, 1e5
MIDDLE_FAST, MIDDLE_SLOW = (SLOW, FAST, SLOW), (FAST, SLOW, FAST)  # the rates of a, b, c
DISTINCT = "SELECT DISTINCT a.k, b.v FROM a [RANGE {r} SECONDS], b [RANGE 5 SECONDS] WHERE a.k = b.k"
THREE = (
    "SELECT a.k, b.v FROM a [RANGE 10 SECONDS], b [RANGE 5 SECONDS], c [RANGE 1 MINUTE] "
    "WHERE a.k = b.k AND b.w = c.w AND a.v = c.v"
)
SUMS = "SELECT k, SUM(v) AS s FROM a [RANGE {r} SECONDS SLIDE {s} SECONDS] WHERE v > 1 GROUP BY k"
PAIR_SUMS = (
    "SELECT a.k, SUM(b.v) AS s FROM a [RANGE {r} SECONDS SLIDE 1 SECOND], b [RANGE 5 SECONDS SLIDE 1 SECOND] "
    "WHERE a.k = b.k GROUP BY a.k"
)


def rates(a: float, b: float, c: float) -> Statistics:
    return Statistics(rates={"a": a, "b": b, "c": c})


def logical(name: str, text: str, options: str = "") -> LogicalQuery:
    engine = pw.Engine()
    engine.execute(STREAMS)
    (parsed,) = parse(f"CREATE QUERY {name}{options} AS {text}")
    statement = bind_one(parsed, engine.catalog, engine.find_aggregate, list)
    assert isinstance(statement, CreateQuery)
    return LogicalQuery(name, build(statement.query, engine.find_aggregate), statement.options)


def planned(*queries: LogicalQuery, planner: Planner | None = None, running: PhysicalPlan | None = None) -> Any:
    plan = running or PhysicalPlan()
    for query in queries:
        plan = (planner or Planner()).planned(plan, query)
    return plan


def node_of(query: LogicalQuery, statistics: Statistics) -> Any:
    return Planner(statistics=statistics).node(PhysicalPlan(), query)


def node(plan: PhysicalPlan, name: str) -> Any:
    return plan.queries[name].node


# -- what a plan shows -----------------------------------------------------------------------------------------------


def test_a_plan_shows_which_queries_share_a_family_and_a_core() -> None:
    plan = planned(
        logical("p", SUMS.format(r=9, s=1)),
        logical("q", SUMS.format(r=8, s=2)),
        logical("other", SUMS.format(r=8, s=2).replace("v > 1", "v > 2")),
        logical("j", PAIR_SUMS.format(r=3)),
        logical("l", PAIR_SUMS.format(r=4)),
    )
    assert list(plan.families.values()) == [("p", "q"), ("other",)]
    assert list(plan.cores.values()) == [("j", "l")]
    (family, _), (core,) = plan.families, plan.cores
    assert (family.source, core.sources) == ("a", ("a", "b"))


def test_where_nothing_is_shared_everybody_is_alone() -> None:
    texts = [SUMS.format(r=9, s=1), SUMS.format(r=8, s=2), PAIR_SUMS.format(r=3), PAIR_SUMS.format(r=4)]
    plan = planned(*(logical(f"q{n}", text) for n, text in enumerate(texts)), planner=Planner("none"))
    assert [*plan.families.values(), *plan.cores.values()] == [("q0",), ("q1",), ("q2",), ("q3",)]


def test_families_of_queries_in_parentheses_are_shown_by_the_name_of_where_they_are() -> None:
    inside = f"SELECT MAX(s) AS m FROM ({SUMS.format(r=9, s=1)}) [RANGE 5 SECONDS SLIDE 1 SECOND]"
    plan = planned(logical("q", inside), logical("p", SUMS.format(r=8, s=2)))
    assert sorted(plan.families.values()) == [("q",), ("q\x001", "p")]
    assert {key.source for key, names in plan.families.items() if names == ("q",)} == {"q\x001"}


def test_the_difference_that_the_planner_has_made_is_known() -> None:
    running = planned(logical("p", SUMS.format(r=9, s=1)))
    wanted = planned(logical("q", SUMS.format(r=8, s=2)), running=running)
    assert wanted.difference(running) is wanted.difference(running)
    assert wanted.difference(running) == PhysicalPlan(dict(wanted.queries)).difference(running)
    assert wanted.difference(running) == Difference(coming={"q": wanted.queries["q"]})
    without = Planner().without(wanted, "p")
    assert without.difference(wanted) == Difference(("p",))
    assert Planner().without(without, "p") is without


def test_cores_are_known_to_the_plans_that_are_made_of_a_plan() -> None:
    plan = planned(logical("j", PAIR_SUMS.format(r=3)), logical("l", PAIR_SUMS.format(r=4)))
    assert list(plan.cores.values()) == [("j", "l")]
    more = planned(logical("m", PAIR_SUMS.format(r=5)), running=plan)
    less = Planner().without(more, "j")
    for each in (more, less, Planner().without(Planner().without(less, "l"), "m")):
        assert each.cores == PhysicalPlan(dict(each.queries)).cores


# -- what is chosen, and by what -------------------------------------------------------------------------------------


def test_opposite_statistics_give_different_plans() -> None:
    several, slow, fast = logical("q", DISTINCT.format(r=5)), rates(SLOW, SLOW, SLOW), rates(FAST, FAST, FAST)
    assert [step.name for step in node_of(several, fast).rewrites] == ["push down distinct"]
    assert node_of(several, slow).rewrites == ()
    orders = [node_of(logical("q", THREE), rates(*each)).joins[0].orders for each in (MIDDLE_FAST, MIDDLE_SLOW)]
    assert orders == [((2, 1), (0, 2), (0, 1)), ((1, 2), (0, 2), (1, 0))]


def test_without_measurements_orders_follow_equalities() -> None:
    (join,) = node(planned(logical("q", THREE)), "q").joins
    assert (join.names, join.orders, join.adapting) == (("a", "b", "c"), ((1, 2), (0, 2), (0, 1)), True)
    assert Planner(statistics=Statistics(rates={"elsewhere": 5.0})).node(PhysicalPlan(), logical("q", THREE)) == node(
        planned(logical("q", THREE)), "q"
    )


def test_a_core_that_runs_is_kept_where_a_rewritten_plan_would_cost_more_than_what_is_left() -> None:
    plan, fast = logical("q", DISTINCT.format(r=5)).plan, rates(FAST, FAST, FAST)
    (step,) = rewriting.rewrite_unless_shared(plan, fast).applied
    for left, kept in ((step.cost_after - 1, True), (step.cost_after + 1, False)):
        rewritten = rewriting.rewrite_unless_shared(plan, fast, paid=step.cost_before - left)
        assert (rewritten.plan is plan) is kept


def test_what_a_core_costs_is_paid_where_it_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    paid: list[float] = []
    monkeypatch.setattr(physical, "rewrite_unless_shared", lambda plan, _, price: paid.append(price) or Rewritten(plan))
    running = planned(logical("p", DISTINCT.format(r=5)))
    for beside in (PhysicalPlan(), running):
        planned(logical("q", DISTINCT.format(r=6)), running=beside)
    assert paid[:2] == [0.0, 0.0] and paid[2] > 0


def test_a_core_that_runs_keeps_the_orders_in_which_it_began() -> None:
    longer = logical("q", THREE.replace("10 SECONDS", "20 SECONDS"))
    running = planned(logical("p", THREE), planner=Planner(statistics=rates(*MIDDLE_FAST)))
    opposite = Planner(statistics=rates(*MIDDLE_SLOW))
    both = opposite.planned(running, longer)
    assert list(both.cores.values()) == [("p", "q")]
    assert node(both, "q").joins == node(running, "p").joins
    assert node_of(longer, rates(*MIDDLE_SLOW)).joins != node(running, "p").joins


def test_the_node_says_what_runs_the_core_and_whether_it_folds() -> None:
    plan = planned(
        logical("folded", PAIR_SUMS.format(r=3)),
        logical("told", PAIR_SUMS.format(r=3).replace("SUM", "LAST")),
        logical("once", "SELECT DISTINCT k FROM a [RANGE 5 SECONDS]"),
    )
    found = {name: (node(plan, name).core_operator, node(plan, name).folds) for name in plan.queries}
    assert found == {
        "folded": (CoreOperator.JOIN, True),
        "told": (CoreOperator.JOIN, False),
        "once": (CoreOperator.DISTINCT, False),
    }


def test_a_slide_that_is_an_upper_bound_goes_by_what_runs_and_stands_in_the_node() -> None:
    seven = logical("q", SUMS.format(r=20, s=7), " WITH (refresh = 'at_most')")
    running = planned(logical("p", SUMS.format(r=20, s=2)))
    assert node(planned(seven), "q").slide_got == 7_000_000
    beside = Planner().planned(running, seven)
    assert node(beside, "q").slide_got == node(beside, "q").block.window.slide_us == 6_000_000
    again = Planner().planned(PhysicalPlan(), seven, decided_on(node(beside, "q")))
    assert node(again, "q") == node(beside, "q")


# -- what was decided is carried out ---------------------------------------------------------------------------------


ABSENT = (
    "SELECT a.k, b.v FROM a [RANGE 5 SECONDS], b [RANGE 5 SECONDS] WHERE a.k = b.k AND NOT EXISTS "
    "(SELECT 1 FROM c [RANGE 5 SECONDS] WHERE c.k = a.k)"
)
INSIDE = DISTINCT.format(r=5).replace("DISTINCT", "ISTREAM DISTINCT")
NESTED = (
    f"SELECT MAX(n) AS m FROM (SELECT ISTREAM COUNT(*) AS n FROM ({INSIDE}) [RANGE 9 SECONDS]) "
    "[RANGE 5 SECONDS SLIDE 1 SECOND]"
)
ANY = [SUMS.format(r=9, s=2), THREE, DISTINCT.format(r=5), PAIR_SUMS.format(r=3), ABSENT, NESTED]


@pytest.mark.parametrize("text", ANY)
@pytest.mark.parametrize("then", [(SLOW, SLOW, SLOW), (FAST, SLOW, FAST), (SLOW, FAST, SLOW), (FAST, FAST, FAST)])
def test_what_was_decided_gives_the_same_node_under_any_statistics(text: str, then: tuple[float, float, float]) -> None:
    query = logical("q", text)
    first = Planner(statistics=rates(*then)).node(PhysicalPlan(), query)
    written = decided_on(first).to_dict()
    for now in (Statistics(), rates(SLOW, FAST, SLOW), rates(FAST, FAST, FAST)):
        assert Planner(statistics=now).node(PhysicalPlan(), query, Decided.of_dict(written)) == first


@pytest.mark.parametrize("text", ANY)
def test_what_nobody_wrote_down_is_planned_by_assumptions(text: str) -> None:
    query = logical("q", text)
    older = Planner(statistics=rates(SLOW, FAST, SLOW)).node(PhysicalPlan(), query, Decided())
    assert older == Planner().node(PhysicalPlan(), query)


def rewritten_plan() -> tuple[LogicalQuery, Decided]:
    query = logical("q", DISTINCT.format(r=5))
    decided = decided_on(Planner(statistics=rates(FAST, FAST, FAST)).node(PhysicalPlan(), query))
    assert decided.rewrites
    return query, decided


def test_a_rule_that_is_gone_is_refused_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    query, decided = rewritten_plan()
    kept = {rule: name for rule, name in rewriting.NAMES.items() if name != "push down distinct"}
    monkeypatch.setattr(rewriting, "NAMES", kept)
    with pytest.raises(SnapshotError, match=r"'q' .* rewrite 1, 'push down distinct'.* no such rule"):
        Planner().node(PhysicalPlan(), query, decided)


def test_a_place_that_does_not_match_is_refused_in_words() -> None:
    query, decided = rewritten_plan()
    assert decided.rewrites is not None
    (step,) = decided.rewrites
    for other in (replace(step, place=(*step.place, 0, 0)), replace(step, variant=9)):
        with pytest.raises(SnapshotError, match="no longer applies at its place"):
            Planner().node(PhysicalPlan(), query, replace(decided, rewrites=(other,)))
    with pytest.raises(SnapshotError, match="now leads to another plan"):
        Planner().node(PhysicalPlan(), query, replace(decided, gives="emit(distinct(window a))"))


def test_orders_of_other_joins_are_refused_in_words() -> None:
    query = logical("q", THREE)
    decided = decided_on(Planner().node(PhysicalPlan(), query))
    assert decided.orders is not None
    for orders in ((), (*decided.orders, ((1,), (0,))), (((1,), (0,)),), (((1, 1), (0, 2), (0, 1)),)):
        with pytest.raises(SnapshotError, match="joins that this version of panewise does not make"):
            Planner().node(PhysicalPlan(), query, replace(decided, orders=orders))


@pytest.mark.parametrize(
    "written",
    [{"rewrites": [{"rule": "x"}]}, {"orders": 7}, {"inner": [7]}, {"rewrites": [["x"]]}, {"orders": [["a"]]}],
)
def test_what_no_planner_has_decided_is_refused_in_words(written: dict[str, Any]) -> None:
    with pytest.raises(SnapshotError, match="stored plan of a query is not valid"):
        Decided.of_dict(written)


def test_the_names_of_rules_that_are_written_down_stay() -> None:
    assert sorted(rewriting.NAMES.values()) == [
        "infer selections",
        "pull up negation",
        "push down distinct",
        "push down negation",
        "push down selections",
        "remove distinct",
    ]
    assert set(rewriting.NAMES) == set(rewriting.RULES)


# -- what EXPLAIN says of a node -------------------------------------------------------------------------------------


def cost(text: str, name: str) -> int:
    return int(text.split(f"{name}: ")[1].split(",")[0].split(">")[0])


def test_explain_of_a_member_says_its_family_and_how_its_rows_are_spread() -> None:
    plan = planned(
        logical("p", SUMS.format(r=9, s=1)),
        logical("q", SUMS.format(r=8, s=2)),
        logical("t", SUMS.format(r=8, s=2), " WITH (technique = 'two_stacks')"),
    )
    text = str(explained_node(plan, "q", Statistics()))
    assert "tree: shared with 1 other query, family: BY k WHERE 1 < v, spread: folded" in text
    assert "technique: two_stacks" in str(explained_node(plan, "t", Statistics()))


def test_a_shared_core_is_priced_once() -> None:
    one = planned(logical("p", PAIR_SUMS.format(r=3)))
    two = planned(logical("q", PAIR_SUMS.format(r=3)), running=one)
    alone, shared = (str(explained_node(plan, "p", Statistics())) for plan in (one, two))
    assert "core: alone" in alone and "cost of the core" not in alone
    assert "core: shared with 1 other query" in shared and "shared by 2 queries" in shared
    core = cost(shared, "cost of the core")
    assert core > 0
    assert abs(cost(alone, "cost of all") - cost(shared, "cost of all") - core / 2) <= 1


# -- joins that run --------------------------------------------------------------------------------------------------


class Measured:
    """A join of three, as it says of itself."""

    orders = ((1, 2), (0, 2), (1, 0))

    def __init__(self, come: int, held: int, sizes: tuple[float, float, float]) -> None:
        self.rows_come, self.rows_held = come, [held, 0, 0]
        self._sizes = sizes
        self.looks = 0

    def look(self) -> JoinLoad:
        self.looks += 1
        edges = [JoinEdge(a, b, hashed=True, attribute="k") for a, b in ((0, 1), (1, 2))]
        return JoinLoad([JoinInput(1.0, size, 50.0) for size in self._sizes], edges)


def test_a_join_is_looked_at_when_as_many_rows_have_come_as_it_holds() -> None:
    for come, held, looks in ((reordering.LOOK_FROM - 1, 0, 0), (reordering.LOOK_FROM, 10**6, 0), (10**6, 10**6, 1)):
        join = Measured(come, held, (10.0, 10.0, 10.0))
        next_orders(join)
        assert join.looks == looks


def test_orders_are_changed_where_others_are_much_cheaper() -> None:
    assert next_orders(Measured(10**6, 0, (100.0, 100.0, 9000.0))) is None
    assert next_orders(Measured(10**6, 0, (100.0, 9000.0, 100.0))) == ((2, 1), (0, 2), (0, 1))


# -- refusals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "options", "said"),
    [
        ("SELECT k FROM a [RANGE 5 SECONDS]", " WITH (refresh = 'at_most')", "at_most"),
        ("SELECT k FROM a [RANGE 5 SECONDS]", " WITH (technique = 'panes')", "aggregates over sliding windows"),
        (SUMS.format(r=9, s=1), " WITH (mode = 'lookup')", "a query with SLIDE makes reports"),
        ("SELECT a.k FROM a [RANGE 5 SECONDS] LEFT JOIN b [RANGE 5 SECONDS] ON a.k = b.k", "", "LEFT JOIN"),
    ],
)
def test_what_cannot_be_planned_is_refused_by_the_planner(text: str, options: str, said: str) -> None:
    query = logical("q", text, options)
    with pytest.raises(PanewiseError, match=said):
        check_query(query.plan, query.options)


def test_what_spark_lacks_is_a_table() -> None:
    engine = pw.Engine()
    engine.execute(STREAMS)
    at_most = f"CREATE QUERY q WITH (refresh = 'at_most') AS {SUMS.format(r=9, s=1)}"
    changed = "CREATE TABLE t (k BIGINT PRIMARY KEY, v BIGINT) WITH (changes = 'a')"
    for text, said in ((at_most, "on Spark every slide is exact"), (changed, "by a stream on Spark yet")):
        (parsed,) = parse(text)
        statement = bind_one(parsed, engine.catalog, engine.find_aggregate, list)
        check_host(statement, HostKind.EMBEDDED)
        with pytest.raises(PanewiseError, match=said):
            check_host(statement, HostKind.SPARK)
    assert set(LACKS) == set(HostKind)


def test_queries_in_parentheses_have_nodes_and_decisions_too() -> None:
    (middle,) = inner_queries(node(planned(logical("q", NESTED)), "q"))
    (inner,) = inner_queries(middle)
    assert isinstance(inner, DeltaQuery)
    fast = node_of(logical("q", NESTED), rates(FAST, FAST, FAST))
    decided = decided_on(fast).inner[0].inner[0]
    assert decided.rewrites is not None
    assert [step.name for step in decided.rewrites] == ["push down distinct"]
