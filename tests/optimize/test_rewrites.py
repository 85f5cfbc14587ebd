"""Rewrites: every rule at every place keeps every answer, and the cost decides which are made."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

import panewise as pw
from panewise.language.expressions import ColumnRef, Expression, Literal
from panewise.language.functions import resolve
from panewise.operators.deltas.delta_plan import DeltaPlan
from panewise.optimize.first_orders import joins_planned
from panewise.optimize.rewrites.plan_costs import costed
from panewise.optimize.rewrites.rewriting import RULES, everywhere, rewrite
from panewise.optimize.rewrites.statistics import Statistics
from panewise.plan.explanation import explain
from panewise.plan.inputs import windowed_inputs
from panewise.plan.nodes import Emit, Filter, Node, Pattern
from panewise.schema import BIGINT
from tests.optimize.rewritten_plans import STREAMS, TextWriter, answers, plan_of, random_streams
from tests.places import DOCS


def selected_above(plan: Emit, chance: Random) -> Emit:
    """A selection at the very top, which no text puts there."""
    column = chance.choice(list(plan.input.schema))
    if column.type != BIGINT:
        return plan
    predicate: Expression = resolve("gt", (ColumnRef(BIGINT, column.name), Literal(BIGINT, chance.choice((0, 1)))))
    return replace(plan, input=Filter(plan.input, predicate))


def check_same(plan: Emit, other: Emit, seed: int) -> None:
    assert other.schema == plan.schema
    assert {id(node) for node in windowed_inputs(other)} == {id(node) for node in windowed_inputs(plan)}
    streams = random_streams(Random(seed), 12)
    assert answers(plan, streams, Random(seed)) == answers(other, streams, Random(seed + 1))


def check_every_rule(seed: int) -> set[str]:
    """Some steps by chance, whatever they cost; which rules were applied."""
    chance = Random(seed)
    plan = plan_of(TextWriter(chance).text())
    if chance.random() < 0.4:
        plan = selected_above(plan, chance)
    changed, used = plan, set()
    for _ in range(3):
        candidates = [(rule.__name__, below) for rule in RULES for _, _, below in everywhere(changed.input, rule)]
        if candidates:
            name, below = chance.choice(candidates)
            changed = replace(changed, input=below)
            used.add(name)
    if used:
        check_same(plan, changed, seed)
    return used


@given(st.integers(0, 2**32))
def test_every_rule_keeps_every_answer(seed: int) -> None:
    check_every_rule(seed)


def test_all_rules_are_used() -> None:
    used: set[str] = set()
    for seed in range(40):
        used |= check_every_rule(seed)
    assert used == {rule.__name__ for rule in RULES}


@pytest.mark.soak
def test_very_many_plans() -> None:
    for seed in range(1_000_000, 1_020_000):
        try:
            check_every_rule(seed)
        except Exception as problem:
            raise AssertionError(f"seed {seed}") from problem


def random_statistics(chance: Random) -> Statistics:
    return Statistics(
        rates={stream: 10 ** chance.uniform(0, 5) for stream in STREAMS},
        distinct_counts={(stream, column): 10 ** chance.uniform(0, 6) for stream in STREAMS for column in "kvwx"},
    )


@given(st.integers(0, 2**32))
def test_what_the_cost_chooses_keeps_every_answer(seed: int) -> None:
    chance = Random(seed)
    plan = selected_above(plan_of(TextWriter(chance).text()), chance)
    statistics = random_statistics(chance)
    rewritten = rewrite(plan, statistics)
    assert rewritten == rewrite(plan, statistics)
    costs = [costed(plan, statistics).total, *(step.cost_after for step in rewritten.applied)]
    assert costs == sorted(costs, reverse=True) and len(set(costs)) == len(costs)
    assert costs[-1] == costed(rewritten.plan, statistics).total
    if rewritten.applied:
        check_same(plan, rewritten.plan, seed)


@given(st.integers(0, 2**32))
def test_estimates_are_never_negative(seed: int) -> None:
    chance = Random(seed)
    plan = plan_of(TextWriter(chance).text())
    stack = [costed(plan, random_statistics(chance))]
    while stack:
        found = stack.pop()
        assert found.own >= 0 and found.edge.births >= 0 and found.edge.alive >= 0 and found.edge.ends >= 0, found.node
        assert found.edge.ends == 0 or found.node.pattern is Pattern.STRICT or isinstance(found.node, Emit)
        stack.extend(found.inputs)


WINDOWS = "a [RANGE 10 SECONDS], b [RANGE 10 SECONDS]"
NEGATED = (
    f"SELECT a.k FROM {WINDOWS} WHERE a.k = b.k AND NOT EXISTS (SELECT 1 FROM c [RANGE 10 SECONDS] WHERE c.k = a.k)"
)


def keys(**counts: float) -> Statistics:
    return Statistics(distinct_counts={(stream, "k"): count for stream, count in counts.items()})


def names_of(plan: Emit, statistics: Statistics) -> list[str]:
    return [step.name for step in rewrite(plan, statistics).applied]


def test_a_negation_goes_where_it_costs_least() -> None:
    """Figure 3.5 of Golab 2006: down where it leaves few rows to a join of many results, up where rows match seldom."""
    plan = plan_of(NEGATED)
    many, few = keys(a=1000, b=1000, c=1000), keys(a=1_000_000, b=1_000_000, c=1_000_000)
    assert names_of(plan, many) == ["push down negation"]
    assert names_of(plan, few) == []
    pushed = rewrite(plan, many).plan
    assert names_of(pushed, many) == []
    assert names_of(pushed, few) == ["pull up negation"]
    assert rewrite(pushed, few).plan == plan


def pattern_of_join(node: Node) -> Pattern:
    return next(part.pattern for part in node.walk() if type(part).__name__ == "Join")


def test_a_pulled_up_negation_leaves_a_weak_join() -> None:
    plan = plan_of(NEGATED)
    pushed = rewrite(plan, keys(a=1000, b=1000, c=1000)).plan
    assert (pattern_of_join(plan), pattern_of_join(pushed)) == (Pattern.WEAK, Pattern.STRICT)


def test_distinct_goes_down_where_values_repeat() -> None:
    plan = plan_of(f"SELECT DISTINCT a.k FROM {WINDOWS} WHERE a.k = b.k")
    assert names_of(plan, keys(a=100, b=100)) == ["push down distinct"]
    assert names_of(plan, keys(a=1_000_000, b=1_000_000)) == []
    only_left = rewrite(plan, keys(a=100, b=1_000_000)).plan
    running = DeltaPlan(only_left, [None, None], joins_planned(only_left))
    assert [type(operator).__name__ for operator in running.operators] == [
        "DistinctOperator",
        "OrderedJoin",
        "DistinctOperator",
    ]


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("SELECT DISTINCT 1 / a.x AS c FROM {w} WHERE a.k = b.k", True),
        ("SELECT DISTINCT a.x AS c FROM {w} WHERE a.k = b.k", False),
        ("SELECT DISTINCT a.k AS c FROM {w} WHERE a.k = b.k AND 1 / a.x < b.x", True),
        ("SELECT DISTINCT a.k AS c FROM {w} WHERE a.k = b.k AND a.x < b.x", False),
    ],
)
def test_equal_zeros_that_differ_stay_apart(text: str, kept: bool) -> None:
    """0.0 and -0.0 are one value for DISTINCT and two for 1 / x."""
    plan = plan_of(text.format(w=WINDOWS))
    candidates = [
        below for rule in RULES if rule.__name__ == "push_down_distinct" for _, _, below in everywhere(plan.input, rule)
    ]
    below_a = [node for node in candidates if "SELECT a." in _below_join(node)]
    assert bool(below_a) != kept


def _below_join(node: Node) -> str:
    text = str(explain(node))
    return text[text.index("JOIN") :]


def test_versions_of_tables_are_met_when_rows_come() -> None:
    """DISTINCT hands a value on to a later row, which would meet a later version: it stays above."""
    engine = pw.Engine()
    engine.execute("CREATE STREAM a (ts TIMESTAMP, k BIGINT, WATERMARK FOR ts AS ts)")
    engine.execute("CREATE TABLE t (k BIGINT PRIMARY KEY, v BIGINT) NON RETROACTIVE")
    engine.execute("CREATE TABLE r (k BIGINT PRIMARY KEY, v BIGINT)")
    for table, operators in (("t", "VersionedJoin"), ("r", "Distinct, OrderedJoin, Distinct")):
        engine.execute(
            f"CREATE QUERY q{table} AS SELECT DISTINCT {table}.v FROM a [RANGE 1 DAY], {table} WHERE a.k = {table}.k"
        )
        assert f"operators: {operators}" in str(engine.explain(f"q{table}"))


def test_the_page_shows_what_explain_says() -> None:
    page = (DOCS / "joins.md").read_text(encoding="utf-8")
    statement, shown = page[page.index("EXPLAIN SELECT") :].split("\n```")[0].split("\n\n")
    engine = pw.Engine()
    engine.execute("CREATE STREAM orders (ts TIMESTAMP, customer BIGINT, amount DOUBLE, WATERMARK FOR ts AS ts)")
    engine.execute("CREATE STREAM payments (ts TIMESTAMP, customer BIGINT, method STRING, WATERMARK FOR ts AS ts)")
    table = engine.execute(statement)
    assert table is not None
    assert "\n".join(table["plan"].to_pylist()) == shown


def test_a_restored_query_runs_the_same_plan() -> None:
    engine = pw.Engine()
    for stream in "abc":
        engine.execute(f"CREATE STREAM {stream} (ts TIMESTAMP, k BIGINT, WATERMARK FOR ts AS ts)")
    engine.execute(f"CREATE QUERY q AS {NEGATED.replace('SELECT a.k', 'SELECT DISTINCT a.k')}")
    engine.push("a", [{"ts": i, "k": i % 3} for i in range(10)])
    restored = pw.Engine.restore(engine.snapshot())
    for host in (engine, restored):
        host.push("b", [{"ts": i, "k": i % 2} for i in range(10)])
        for stream in "abc":
            host.advance(stream, 100)
    assert restored.hosting.queries["q"].plan == engine.hosting.queries["q"].plan != plan_of(NEGATED)
    assert restored.results("q").to_pylist() == engine.results("q").to_pylist() != []
