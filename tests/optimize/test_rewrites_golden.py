"""Plans before and after: as text in tests/golden/rewrites, and executed, with equal answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from random import Random

import pytest

from panewise.language.expressions import ColumnRef, Expression, Literal
from panewise.language.functions import resolve
from panewise.optimize.rewrites.plan_costs import Costed, costed
from panewise.optimize.rewrites.push_down_negation import push_down_negation
from panewise.optimize.rewrites.rewriting import rewrite
from panewise.optimize.rewrites.statistics import Statistics
from panewise.plan.explanation import Explanation, explain
from panewise.plan.nodes import Emit, Filter, Project
from panewise.schema import BIGINT
from tests import places
from tests.optimize.rewritten_plans import answers, plan_of, random_streams

GOLDEN = places.GOLDEN / "rewrites"


def few_values(count: float) -> Statistics:
    return Statistics(distinct_counts={(stream, column): count for stream in "abcd" for column in "kvwx"})


def above(column: str, least: int) -> Callable[[Emit], Emit]:
    """A selection on top of the plan of a text."""
    predicate: Expression = resolve("gt", (ColumnRef(BIGINT, column), Literal(BIGINT, least)))
    return lambda plan: replace(plan, input=Filter(plan.input, predicate))


def negation_below(plan: Emit) -> Emit:
    """The negation above a join on one of its inputs, as no text has it."""
    project = plan.input
    assert isinstance(project, Project)
    (below,) = push_down_negation(project.input)
    return replace(plan, input=replace(project, input=below))


@dataclass(frozen=True)
class Pair:
    """`shaped` makes of the text's plan one that no text gives."""

    text: str
    statistics: Statistics = field(default_factory=Statistics)
    shaped: Callable[[Emit], Emit] | None = None

    @property
    def plan(self) -> Emit:
        plan = plan_of(self.text)
        return plan if self.shaped is None else self.shaped(plan)


A, B, C = (f"{name} [RANGE 5 SECONDS]" for name in "abc")
ABSENT = f"NOT EXISTS (SELECT 1 FROM {C} WHERE c.k = a.k)"
PAIRS = {
    "selection_below_items": Pair(f"SELECT a.k + 1 AS k, b.v FROM {A}, {B} WHERE a.k = b.k", shaped=above("k", 1)),
    "selection_below_distinct": Pair(f"SELECT DISTINCT k, v FROM {A}", shaped=above("v", 1)),
    "selection_below_union": Pair(f"SELECT k FROM {A} UNION SELECT v FROM {B}", shaped=above("k", 1)),
    "selection_below_except": Pair(f"SELECT k FROM {A} EXCEPT ALL SELECT v FROM {B}", shaped=above("k", 1)),
    "selection_below_negation": Pair(f"SELECT k, v FROM {A} WHERE {ABSENT}", shaped=above("v", 1)),
    "selection_below_groups": Pair(
        f"SELECT a.k, COUNT(*) AS n FROM {A}, {B} WHERE a.k = b.k GROUP BY a.k HAVING a.k > 1 AND COUNT(*) > 1"
    ),
    "selection_on_equal_columns": Pair(f"SELECT a.v, b.v AS u FROM {A}, {B} WHERE a.k = b.k AND a.k = 1"),
    "selection_on_keys_of_negation": Pair(f"SELECT k, v FROM {A} WHERE k > 1 AND {ABSENT}"),
    "selection_on_both_sides_of_except": Pair(f"SELECT k FROM {A} WHERE k > 1 EXCEPT SELECT v FROM {B}"),
    "distinct_below_join": Pair(f"SELECT DISTINCT a.k, b.v FROM {A}, {B} WHERE a.k = b.k AND a.v > 1"),
    "distinct_below_one_side": Pair(
        f"SELECT DISTINCT a.k FROM {A}, {B} WHERE a.k = b.k",
        Statistics(distinct_counts={("a", "k"): 10, ("b", "k"): 1e6}),
    ),
    "distinct_below_cross_join": Pair(f"SELECT DISTINCT a.k FROM {A}, {B}"),
    "distinct_below_negation": Pair(f"SELECT DISTINCT k FROM {A} WHERE {ABSENT}", few_values(10)),
    "distinct_stays": Pair(f"SELECT DISTINCT a.k, b.v FROM {A}, {B} WHERE a.k = b.k", few_values(1e6)),
    "distinct_over_groups": Pair(f"SELECT DISTINCT k, COUNT(*) AS n FROM {A} GROUP BY k"),
    "distinct_of_differences": Pair(f"SELECT DISTINCT k FROM {A} EXCEPT SELECT DISTINCT k FROM {B}", few_values(1e6)),
    "negation_up": Pair(f"SELECT a.k, b.v FROM {A}, {B} WHERE a.k = b.k AND {ABSENT}", few_values(1e6), negation_below),
    "negation_down": Pair(f"SELECT a.k, b.v FROM {A}, {B} WHERE a.k = b.k AND {ABSENT}", few_values(1e3)),
    "all_together": Pair(f"SELECT DISTINCT a.k FROM {A}, {B} WHERE a.k = b.k AND a.k > 1 AND {ABSENT}"),
}


def with_costs(explanation: Explanation, costs: Costed) -> Explanation:
    pairs = zip(explanation.inputs, costs.inputs, strict=True)
    properties = explanation.properties | {"cost": round(costs.own)}
    return replace(explanation, properties=properties, inputs=tuple(with_costs(*pair) for pair in pairs))


def text_of(pair: Pair) -> str:
    before, rewritten = pair.plan, rewrite(pair.plan, pair.statistics)
    steps = [str(step) for step in rewritten.applied] or ["nothing"]
    shown = [with_costs(explain(plan), costed(plan, pair.statistics)) for plan in (before, rewritten.plan)]
    return "\n".join([pair.text, "", "before", str(shown[0]), "", *steps, "", "after", str(shown[1]), ""])


@pytest.mark.parametrize("name", PAIRS)
def test_the_text_of_a_pair(name: str) -> None:
    assert text_of(PAIRS[name]) == (GOLDEN / f"{name}.txt").read_text(encoding="utf-8")


def test_every_text_has_a_pair() -> None:
    assert {path.stem for path in GOLDEN.glob("*.txt")} == set(PAIRS)


@pytest.mark.parametrize("name", PAIRS)
def test_both_plans_of_a_pair_answer_the_same(name: str) -> None:
    pair = PAIRS[name]
    plan = pair.plan
    rewritten = rewrite(plan, pair.statistics).plan
    said = 0
    for seed in range(4):
        streams = random_streams(Random(seed), 20)
        found = answers(plan, streams, Random(seed))
        assert found == answers(rewritten, streams, Random(seed + 100))
        said += sum(found.values())
    assert said
