"""Which joins of a plan run as operators: every one that is planned is built, under its number and its layer."""

from __future__ import annotations

import pytest

import panewise as pw
from panewise.language.bind.binder import bind_one, parse
from panewise.language.statements import CreateQuery
from panewise.operators.deltas.delta_plan import DeltaPlan
from panewise.optimize.first_orders import joins_planned
from panewise.plan.build import build
from panewise.plan.inputs import windowed_inputs
from panewise.plan.join_layers import AMONG_STREAMS, WITH_CHANGES
from panewise.plan.nodes import Emit

DEFINED = (
    "CREATE STREAM a (ts TIMESTAMP, k BIGINT, v BIGINT); CREATE STREAM b (ts TIMESTAMP, k BIGINT, v BIGINT);"
    "CREATE STREAM c (ts TIMESTAMP, k BIGINT, v BIGINT);"
    "CREATE TABLE kept (k BIGINT PRIMARY KEY, w BIGINT) NON RETROACTIVE;"
    "CREATE TABLE t (w BIGINT PRIMARY KEY, z BIGINT)"
)
W = "[RANGE 5 SECONDS]"
THREE = f"a {W}, b {W}, c {W}"


def plan_of(text: str) -> Emit:
    engine = pw.Engine()
    engine.execute(DEFINED)
    (parsed,) = parse(f"CREATE QUERY q AS {text}")
    statement = bind_one(parsed, engine.catalog, engine.find_aggregate, list)
    assert isinstance(statement, CreateQuery)
    return build(statement.query, engine.find_aggregate)


FIRST = (0, AMONG_STREAMS)
CASES = {
    f"SELECT a.k FROM a {W}, b {W} WHERE a.k = b.k": {FIRST: ("a", "b")},
    f"SELECT a.k FROM {THREE} WHERE a.k = b.k AND b.v = c.v": {FIRST: ("a", "b", "c")},
    f"SELECT a.k FROM a {W}, kept WHERE a.k = kept.k": {},
    f"SELECT a.k FROM a {W}, t WHERE a.k = t.w": {FIRST: ("a", "t")},
    f"SELECT a.k FROM a {W}, kept, t WHERE a.k = kept.k AND kept.w = t.w": {(0, WITH_CHANGES): ("a, kept", "t")},
    f"SELECT a.k FROM a {W}, b {W}, kept, t WHERE a.k = b.k AND a.k = kept.k AND kept.w = t.w": {
        FIRST: ("a", "b"),
        (0, WITH_CHANGES): ("a, b, kept", "t"),
    },
    f"SELECT a.k FROM a {W} WHERE EXISTS (SELECT 1 FROM b {W}, c {W} WHERE b.k = a.k AND b.v = c.v)": {
        FIRST: ("b", "c")
    },
    f"SELECT a.k FROM {THREE} WHERE a.k = b.k AND b.v = c.v UNION SELECT a.k FROM {THREE} WHERE a.v = c.v": {
        FIRST: ("a", "b", "c"),
        (1, AMONG_STREAMS): ("a", "b", "c"),
    },
}


@pytest.mark.parametrize("text", CASES)
def test_every_planned_join_is_built(text: str) -> None:
    plan = plan_of(text)
    planned = joins_planned(plan)
    assert {(join.join, join.layer): join.names for join in planned} == CASES[text]
    running = DeltaPlan(plan, [None] * len(windowed_inputs(plan)), planned, tables_held_from=[None, None])
    built = [operator for operator in running.operators if operator.name == "OrderedJoin"]
    assert len(built) == len(planned)
    adapting = {(join.join, join.layer): join for join in planned if join.adapting}
    assert {key: (join.names, join.orders) for key, join in running.adapting.items()} == {
        key: (join.names, join.orders) for key, join in adapting.items()
    }


def test_equal_joins_in_one_plan_may_begin_in_different_orders() -> None:
    """They are told apart by their numbers: one follows b, the other knows no equality with it."""
    union = joins_planned(plan_of(list(CASES)[-1]))
    assert [join.orders for join in union] == [((1, 2), (0, 2), (1, 0)), ((2, 1), (0, 2), (0, 1))]
