"""Claims about selections are judged row by row by the evaluator."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from panewise.language.expressions import ColumnRef, Expression, Literal
from panewise.language.functions import resolve
from panewise.optimize.sharing.selections.regions import region_masks
from panewise.optimize.sharing.selections.selections import (
    EVERY_ROW,
    NO_ROW,
    Selection,
    analysed,
    disjoint,
    equal,
    implies,
)
from panewise.optimize.sharing.selections.value_sets import compared, domain_of, one_of
from panewise.schema import BIGINT, DOUBLE, FLOAT, INT, STRING
from tests.now_or_soak import examples
from tests.optimize.random_predicates import COLUMNS, COMPARISONS, FEW, NUMBERED, ROWS, kept, predicates


def held(selection: Selection) -> np.ndarray:
    """The rows of a selection, by the values of its subjects: whether the analysis lost or added a row."""
    from panewise.plan.expressions.evaluate import compiled

    total = np.zeros(len(ROWS), dtype=bool)
    for term in selection.terms:
        mask = np.ones(len(ROWS), dtype=bool)
        for subject, values in term.atoms:
            array = compiled(subject.expression)(ROWS)
            type = subject.expression.type
            if type.name in ("DATE", "TIMESTAMP"):
                array = array.cast("int32" if type.name == "DATE" else "int64")
            domain = domain_of(type)
            mask &= [
                values.null if value is None else compared(domain, "eq", value) <= values for value in array.to_pylist()
            ]
        total |= mask
    return total


@examples(30, soak=60)
@given(predicates())
def test_the_terms_keep_the_rows_that_the_predicate_keeps(where: Expression) -> None:
    assert np.array_equal(held(analysed(where)), kept(where))


@examples(75, soak=150)
@given(predicates(), predicates())
def test_claims_hold_for_every_row(first: Expression, second: Expression) -> None:
    one, other = analysed(first), analysed(second)
    rows, others = kept(first), kept(second)
    if disjoint(one, other):
        assert not (rows & others).any()
    if implies(one, other):
        assert not (rows & ~others).any()
    if equal(one, other):
        assert np.array_equal(rows, others)


@examples(75, soak=150)
@given(predicates((NUMBERED,), 4), predicates((NUMBERED,), 4))
def test_of_one_column_everything_is_seen(first: Expression, second: Expression) -> None:
    """Rows hold every value that constants tell apart; other subjects (a pair of columns, a flag) are left out."""
    one, other = analysed(first), analysed(second)
    if any(subject.expression != NUMBERED for subject in one.subjects | other.subjects):
        return
    rows, others = kept(first), kept(second)
    assert disjoint(one, other) == (not (rows & others).any())
    assert implies(one, other) == (not (rows & ~others).any())
    assert (one == other) == np.array_equal(rows, others)


@examples(50, soak=100)
@given(st.lists(predicates(FEW, 4), min_size=2, max_size=5))
def test_masks_of_regions_say_the_same(wheres: list[Expression]) -> None:
    selections = [analysed(where) for where in wheres]
    masks = region_masks(selections)
    assert masks is not None
    for one, mask in zip(selections, masks, strict=True):
        for other, second in zip(selections, masks, strict=True):
            assert disjoint(one, other) == (mask & second == 0)
            assert implies(one, other) == (mask & ~second == 0)


SIZE = ColumnRef(INT, "i")
PRICE = ColumnRef(DOUBLE, "d")


def call(function: str, *arguments: object) -> Expression:
    subject = next(argument for argument in arguments if isinstance(argument, ColumnRef))
    return resolve(
        function,
        tuple(a if isinstance(a, Expression) else Literal(subject.type, a) for a in arguments),  # type: ignore[arg-type]
    )


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (call("gt", SIZE, 3), call("ge", SIZE, 4)),
        (call("le", SIZE, 2**31 - 1), call("is_not_null", SIZE)),
        (resolve("gt", (SIZE, Literal(DOUBLE, 3.5))), call("ge", SIZE, 4)),
        (resolve("not", (call("in", SIZE, 1, 2),)), resolve("and", (call("ne", SIZE, 1), call("ne", SIZE, 2)))),
        (call("gt", PRICE, math.inf), resolve("is_nan", (PRICE,))),
        (call("eq", PRICE, 0.0), call("eq", PRICE, -0.0)),
        (resolve("or", (call("lt", PRICE, 1.0), call("ge", PRICE, 1.0))), call("is_not_null", PRICE)),
    ],
)
def test_different_words_for_the_same_rows(first: Expression, second: Expression) -> None:
    assert analysed(first) == analysed(second)
    assert equal(analysed(first), analysed(second))


@pytest.mark.parametrize("function", COMPARISONS)
@pytest.mark.parametrize("truth", [True, False])
@pytest.mark.parametrize(
    "operands",
    [
        (SIZE, ColumnRef(BIGINT, "g")),
        (ColumnRef(BIGINT, "g"), SIZE),
        (PRICE, ColumnRef(FLOAT, "f")),
        (ColumnRef(BIGINT, "g"), Literal(DOUBLE, 2.0**53)),  # two whole numbers are equal to it
        (Literal(DOUBLE, math.nan), PRICE),
    ],
)
def test_every_comparison(function: str, truth: bool, operands: tuple[Expression, Expression]) -> None:
    where = resolve(function, operands)
    where = where if truth else resolve("not", (where,))
    assert np.array_equal(held(analysed(where)), kept(where))


def test_null_is_in_neither_half() -> None:
    halves = resolve("or", (call("lt", SIZE, 3), call("ge", SIZE, 3)))
    assert not equal(analysed(halves), EVERY_ROW)
    whole = resolve("or", (halves, call("is_null", SIZE)))
    assert analysed(whole) == EVERY_ROW == analysed(None)
    assert analysed(call("eq", SIZE, None)) == NO_ROW
    assert analysed(resolve("not", (call("in", SIZE, 1, None),))) == NO_ROW


def test_a_predicate_that_explodes_still_equals_itself() -> None:
    """Nine conjuncts of two alternatives each, all of different columns: 512 terms."""
    halves = [
        resolve("or", (call("eq", ColumnRef(INT, f"x{n}"), 1), call("eq", ColumnRef(INT, f"y{n}"), 1)))
        for n in range(9)
    ]
    where = halves[0]
    for half in halves[1:]:
        where = resolve("and", (where, half))
    mirrored = halves[-1]
    for half in reversed(halves[:-1]):
        mirrored = resolve("and", (half, mirrored))
    assert len(analysed(where).terms) == 1
    assert equal(analysed(where), analysed(mirrored))
    assert not equal(analysed(where), analysed(halves[0]))


def test_too_many_combinations_are_refused() -> None:
    many = [analysed(call("eq", ColumnRef(INT, f"x{n}"), n)) for n in range(30)]
    assert region_masks(many) is None
    assert region_masks(many[:3]) is not None


@given(st.sets(st.sampled_from(["", "a", "b", "ab"])), st.sets(st.sampled_from(["", "a", "b", "ab"])))
def test_sets_of_values_are_sets(first: set[str], second: set[str]) -> None:
    domain = domain_of(STRING)
    one, other = one_of(domain, first), one_of(domain, second)
    assert one & other == one_of(domain, first & second)
    assert one | other == one_of(domain, first | second)
    assert (one <= other) == (first <= second)
    assert one.meets(other) == bool(first & second)
    assert ~~one == one
    assert len(one.points() or ()) == len(first)


def test_every_column_is_drawn_from() -> None:
    """The judge can only judge rows that exist: each column has NULLs and at least two values."""
    for column in COLUMNS:
        array = ROWS.column(column.name)
        assert array.null_count > 0 and len(array.unique()) > 2
