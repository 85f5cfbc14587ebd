"""Covers are exact row by row; the six queries of Golab 2006, section 8.3.3; plans fold no more than they must."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from panewise.aggregates.algebra import Algebra, Kind
from panewise.aggregates.states import MAXIMUM, MOMENTS, SUM_INTEGER, Feed
from panewise.language.expressions import ColumnRef, Expression, Literal
from panewise.language.functions import resolve
from panewise.optimize.sharing.selections.covers import Cover, Derived, KeptSelection, find_cover, plan_selections
from panewise.optimize.sharing.selections.selections import NO_ROW, Selection, analysed
from panewise.schema import INT, STRING
from tests.now_or_soak import examples
from tests.optimize.random_predicates import FEW, NUMBERED, kept, predicates

PROTOCOL, USER, PORT = ColumnRef(STRING, "protocol"), ColumnRef(STRING, "user"), ColumnRef(INT, "port")
SUM, MAX, SPREAD = SUM_INTEGER.algebra, MAXIMUM[Feed.INTEGER].algebra, MOMENTS.algebra
ORDERED = Algebra(Kind.ALGEBRAIC, commutative=False)


def either(*operands: Expression) -> Expression:
    return operands[0] if len(operands) == 1 else resolve("or", (operands[0], either(*operands[1:])))


def is_one_of(column: ColumnRef, *values: object) -> Selection:
    return analysed(either(*(resolve("eq", (column, Literal(column.type, value))) for value in values)))  # type: ignore[arg-type]


TCP, UDP, BOTH = is_one_of(PROTOCOL, "TCP"), is_one_of(PROTOCOL, "UDP"), is_one_of(PROTOCOL, "TCP", "UDP")
OF_USER = is_one_of(USER, "U")
TCP_OR_USER = analysed(either(*(resolve("eq", (c, Literal(STRING, v))) for c, v in ((PROTOCOL, "TCP"), (USER, "U")))))


def test_the_queries_of_the_thesis() -> None:
    total = {"invertible": True, "duplicate_insensitive": False}
    greatest = {"invertible": False, "duplicate_insensitive": True}
    assert find_cover(BOTH, [TCP, UDP], **total) == Cover((0, 1))  # Q3 from Q1 and Q2
    assert find_cover(TCP, [BOTH, UDP], **total) == Cover((0,), (1,))  # Q1 from Q3 minus Q2
    assert find_cover(TCP_OR_USER, [TCP, OF_USER], **greatest) == Cover((0, 1))  # Q6 from Q4 and Q5
    assert find_cover(TCP_OR_USER, [TCP, OF_USER], **total) is None  # the terms overlap
    assert find_cover(TCP, [BOTH, UDP], **greatest) is None  # a maximum cannot be taken away
    assert find_cover(BOTH, [TCP], **total) is None  # a subcover is not enough
    assert find_cover(TCP, [BOTH], **total) is None  # nor a supercover


def test_fewest_parts_win() -> None:
    parts = [is_one_of(PORT, n) for n in range(6)]
    halves = [is_one_of(PORT, 0, 1, 2), is_one_of(PORT, 3, 4, 5)]
    overlapping = [is_one_of(PORT, 0, 1, 2, 3), is_one_of(PORT, 3, 4)]
    wanted = is_one_of(PORT, *range(6))
    kept_selections = [*parts, *overlapping, *halves]
    assert find_cover(wanted, kept_selections, invertible=False, duplicate_insensitive=False) == Cover((8, 9))
    assert find_cover(wanted, [*kept_selections, wanted], invertible=True, duplicate_insensitive=True) == Cover((10,))
    assert find_cover(wanted, [*parts, *overlapping], invertible=False, duplicate_insensitive=False) == Cover((4, 5, 6))


def test_what_is_subtracted_is_disjoint() -> None:
    parts = [is_one_of(PORT, 0, 1, 2, 3), is_one_of(PORT, 1, 2), is_one_of(PORT, 2, 3)]
    wanted = is_one_of(PORT, 0)
    assert find_cover(wanted, parts, invertible=True, duplicate_insensitive=False) is None
    parts.append(is_one_of(PORT, 3))
    assert find_cover(wanted, parts, invertible=True, duplicate_insensitive=False) == Cover((0,), (1, 3))


def test_parts_may_narrow_what_the_wanted_leaves_open() -> None:
    three = Literal(INT, 3)
    low, high = resolve("le", (PORT, three)), resolve("gt", (PORT, three))
    of_user = resolve("eq", (USER, Literal(STRING, "U")))
    parts = [analysed(resolve("and", (of_user, part))) for part in (low, high, resolve("is_null", (PORT,)))]
    assert find_cover(OF_USER, parts, invertible=False, duplicate_insensitive=False) == Cover((0, 1, 2))
    assert find_cover(OF_USER, parts[:2], invertible=False, duplicate_insensitive=True) is None  # NULL ports


def test_no_row_needs_no_state() -> None:
    assert find_cover(NO_ROW, [TCP], invertible=False, duplicate_insensitive=False) == Cover(())


def check_exact(wanted: Expression, others: list[Expression], cover: Cover, overlaps_allowed: bool) -> None:
    counts = np.zeros(len(kept(None)), dtype=np.int64)
    for position in cover.added:
        counts += kept(others[position])
    if overlaps_allowed:
        counts = np.minimum(counts, 1)
    for position in cover.subtracted:
        counts -= kept(others[position])
    assert np.array_equal(counts, kept(wanted).astype(np.int64))


@examples(125, soak=250)
@given(
    st.one_of(predicates(FEW, 3), predicates((NUMBERED,), 3)),
    st.lists(predicates(FEW, 3), min_size=1, max_size=7),
    st.booleans(),
    st.booleans(),
)
def test_a_cover_is_exact_row_by_row(
    wanted: Expression, others: list[Expression], invertible: bool, insensitive: bool
) -> None:
    selections = [analysed(other) for other in others]
    cover = find_cover(analysed(wanted), selections, invertible=invertible, duplicate_insensitive=insensitive)
    if cover is not None:
        assert invertible or not cover.subtracted
        check_exact(wanted, others, cover, insensitive)


POINTS = st.sets(st.integers(0, 5), min_size=1, max_size=5)


def smallest_cover(wanted: set[int], others: list[set[int]], invertible: bool, insensitive: bool) -> int | None:
    """Every choice of parts, by their definition; the number of parts of the smallest cover."""
    sizes = []
    for count in range(1, len(others) + 1):
        for parts in itertools.combinations(others, count):
            joined = set().union(*parts)
            if joined == wanted and (insensitive or sum(map(len, parts)) == len(wanted)):
                sizes.append(count)
            if invertible:
                for whole in parts:
                    rest = [part for part in parts if part is not whole]
                    left = set().union(*rest)
                    if rest and whole - left == wanted and left <= whole and sum(map(len, rest)) == len(left):
                        sizes.append(count)
    return min(sizes, default=None)


@examples(100, soak=200)
@given(POINTS, st.lists(POINTS, min_size=1, max_size=6), st.booleans(), st.booleans())
def test_of_single_values_the_smallest_cover_is_found(
    wanted: set[int], others: list[set[int]], invertible: bool, insensitive: bool
) -> None:
    found = find_cover(
        is_one_of(PORT, *wanted),
        [is_one_of(PORT, *other) for other in others],
        invertible=invertible,
        duplicate_insensitive=insensitive,
    )
    assert (None if found is None else found.parts) == smallest_cover(wanted, others, invertible, insensitive)


@examples(75, soak=150)
@given(st.lists(predicates(FEW, 3), min_size=1, max_size=9), st.sampled_from([SUM, MAX, SPREAD, ORDERED]))
def test_a_plan_answers_every_selection_exactly(wheres: list[Expression], algebra: Algebra) -> None:
    plan = plan_selections([analysed(where) for where in wheres], algebra)
    folded = {step.position for step in plan if isinstance(step, KeptSelection)}
    assert [step.position for step in plan] == list(range(len(wheres)))
    for step in plan:
        if isinstance(step, Derived):
            assert {*step.cover.added, *step.cover.subtracted} <= folded
            check_exact(wheres[step.position], wheres, step.cover, algebra.selective)
            assert algebra.commutative or step.cover.parts <= 1


@examples(50, soak=100)
@given(st.lists(POINTS, min_size=1, max_size=7), st.sampled_from([MAX, SUM, SPREAD]))
def test_the_fewest_are_folded(wanted: list[set[int]], algebra: Algebra) -> None:
    """Against every choice of what to fold, with differences where they may be taken."""
    plan = plan_selections([is_one_of(PORT, *points) for points in wanted], algebra)
    distinct = [set(points) for points in {frozenset(points) for points in wanted}]
    fewest = min(
        count
        for count in range(1, len(distinct) + 1)
        for folded in itertools.combinations(distinct, count)
        if all(p in folded or smallest_cover(p, list(folded), algebra.invertible, algebra.selective) for p in distinct)
    )
    assert sum(isinstance(step, KeptSelection) for step in plan) == fewest


@pytest.mark.parametrize(("algebra", "folded"), [(SUM, 2), (MAX, 2), (SPREAD, 2), (ORDERED, 3)])
def test_three_protocols_fold_two(algebra: Algebra, folded: int) -> None:
    plan = plan_selections([BOTH, TCP, UDP, TCP], algebra)
    assert sum(isinstance(step, KeptSelection) for step in plan) == folded
    assert isinstance(plan[3], Derived)


def test_hundreds_of_selections() -> None:
    """400 constants and 200 unions of three: only the constants are folded."""
    constants = [is_one_of(PORT, n) for n in range(400)]
    unions = [is_one_of(PORT, n, (n * 7 + 1) % 400, (n * 13 + 5) % 400) for n in range(200)]
    plan = plan_selections([*unions, *constants], SUM)
    assert [step.position for step in plan if isinstance(step, KeptSelection)] == list(range(200, 600))
