"""Hosts of roll-ups: what may be a host, which is the cheapest, and that following hosts ends at folded rows."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from panewise.aggregates.algebra import Algebra, Kind
from panewise.aggregates.states import MAXIMUM, MOMENTS, Feed
from panewise.language.expressions import ColumnRef, Expression, Literal
from panewise.language.functions import resolve
from panewise.optimize.sharing.roll_up import Grouping, RollUp, combines, estimated_groups, finest, may_roll_up
from panewise.schema import INT

A, B, C = (ColumnRef(INT, name) for name in "abc")
SUM = frozenset({"sum"})


def test_a_chain_of_groupings() -> None:
    groupings = [
        Grouping((A,), SUM, 10),
        Grouping((A, B), SUM, 100),
        Grouping((B, C, A), SUM, 1000),
        Grouping((), SUM, 1),
    ]
    assert finest(groupings, rows=50_000) == [
        RollUp(1, 100, (0,)),
        RollUp(2, 1000, (2, 0)),
        RollUp(None, 50_000),
        RollUp(0, 10, ()),
    ]


def test_rows_fewer_than_groups_are_folded() -> None:
    groupings = [Grouping((A,), SUM, 10), Grouping((A, B), SUM, 100)]
    assert [choice.host for choice in finest(groupings, rows=100)] == [None, None]
    assert [choice.host for choice in finest(groupings, rows=101)] == [1, None]


def test_what_a_host_must_hold() -> None:
    host = Grouping((A, B), SUM, 100)
    assert may_roll_up(Grouping((B,), SUM, 10), host)
    assert not may_roll_up(Grouping((C,), SUM, 10), host)
    assert not may_roll_up(Grouping((B,), frozenset({"max"}), 10), host)
    assert not may_roll_up(Grouping((B,), SUM, 10, combines=False), host)
    assert not may_roll_up(host, Grouping((B,), SUM, 10))


def test_keys_are_expressions() -> None:
    three = Literal(INT, 3)
    one, same = resolve("add", (A, three)), resolve("add", (three, A))
    choice = finest([Grouping((one,), SUM, 10), Grouping((B, same), SUM, 90)], rows=1000)[0]
    assert choice == RollUp(1, 90, (1,))
    assert finest([Grouping((A,), SUM, 10), Grouping((B, same), SUM, 90)], rows=1000)[0].host is None


def test_the_order_of_rows_forbids_it() -> None:
    assert combines(MOMENTS.algebra) and combines(MAXIMUM[Feed.INTEGER].algebra)
    assert not combines(Algebra(Kind.ALGEBRAIC, commutative=False))


KEYS = st.sets(st.sampled_from([A, B, C])).map(lambda keys: tuple(sorted(keys, key=repr)))
STATES = st.sets(st.sampled_from(["sum", "max"]), min_size=1).map(frozenset)


@given(st.lists(st.builds(Grouping, KEYS, STATES, st.integers(1, 50).map(float)), min_size=1, max_size=7))
def test_the_choice_is_the_cheapest_and_has_no_circle(groupings: list[Grouping]) -> None:
    choices = finest(groupings, rows=25.0)
    for position, choice in enumerate(choices):
        strict = [
            host.groups
            for host in groupings
            if may_roll_up(groupings[position], host) and not may_roll_up(host, groupings[position])
        ]
        assert choice.cost <= min([25.0, *strict])
        seen = set()
        at: int | None = position
        while at is not None:
            assert at not in seen
            seen.add(at)
            at = choices[at].host


@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2), st.integers(0, 1)), max_size=30),
    st.lists(KEYS, min_size=1, max_size=5),
)
def test_counts_rolled_up_are_the_counts_of_the_rows(
    rows: list[tuple[int, ...]], keys: list[tuple[Expression, ...]]
) -> None:
    columns = {"a": 0, "b": 1, "c": 2}

    def folded(by: tuple[Expression, ...]) -> Counter[tuple[int, ...]]:
        return Counter(tuple(row[columns[key.name]] for key in by) for row in rows)  # type: ignore[attr-defined]

    choices = finest([Grouping(by, SUM, float(len(folded(by)))) for by in keys], float(len(rows) + 1))
    for by, choice in zip(keys, choices, strict=True):
        if choice.host is not None:
            merged: Counter[tuple[int, ...]] = Counter()
            for group, count in folded(keys[choice.host]).items():
                merged[tuple(group[place] for place in choice.places)] += count
            assert merged == folded(by)


@given(st.lists(st.floats(1, 1000), max_size=3), st.floats(0, 10_000))
def test_estimates_stay_within_what_is_possible(counts: list[float], rows: float) -> None:
    groups = estimated_groups(counts, rows)
    assert 0 <= groups <= rows
    product = 1.0
    for count in counts:
        product *= count
    assert groups <= product * (1 + 1e-9)
