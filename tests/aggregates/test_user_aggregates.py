"""Aggregates that users write: what they answer, and what is said of those that cannot be used."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from panewise.aggregates.aggregate_functions import AggregateFunction
from panewise.aggregates.user import user_aggregate
from panewise.errors import BindError, QueryFailed
from panewise.schema import BIGINT, DOUBLE, INT, STRING, decimal
from tests.aggregates.models import answers

MEAN: dict[str, Any] = {
    "lift": lambda x: (x, 1.0),
    "combine": lambda a, b: ((a[0] * a[1] + b[0] * b[1]) / (a[1] + b[1]), a[1] + b[1]),
    "lower": lambda a: a[0] if a[1] / a[1] == 1 else math.nan,
    "identity": (0.0, 0.0),
}


@pytest.fixture(scope="module")
def mean() -> AggregateFunction:
    """A mean that divides by its count, in combine and in lower: no piece without rows may reach them."""
    return user_aggregate("MEAN_OF", **MEAN)


@pytest.fixture(scope="module")
def weighted() -> AggregateFunction:
    return user_aggregate(
        "WEIGHTED",
        lift=lambda x, w: (x * w, w),
        combine=lambda a, b: (a[0] + b[0], a[1] + b[1]),
        lower=lambda a: a[0] / a[1],
        identity=(0.0, 0.0),
        arguments=2,
    )


@pytest.fixture(scope="module")
def bits() -> AggregateFunction:
    """State and answer of integers: the exclusive or, and how many rows had it."""
    return user_aggregate(
        "BITS",
        lift=lambda x: (x, 1),
        combine=lambda a, b: (a[0] ^ b[0], a[1] + b[1]),
        lower=lambda a: a[0],
        identity=(0, 0),
        inverse=lambda a, b: (a[0] ^ b[0], a[1] - b[1]),
        returns=BIGINT,
    )


values = st.lists(st.lists(st.tuples(st.integers(0, 2), st.none() | st.integers(-9, 9)), max_size=5), max_size=4)


@settings(max_examples=30)
@given(values)
def test_a_mean(mean: AggregateFunction, drawn: list[list[tuple[int, int | None]]]) -> None:
    pieces = [[(g, (0, (None if v is None else float(v),))) for g, v in piece] for piece in drawn]
    found = answers(mean, (DOUBLE,), pieces, 3)
    for group in range(3):
        mine = [v for piece in drawn for g, v in piece if g == group and v is not None]
        assert found[group] is None if not mine else found[group] == pytest.approx(sum(mine) / len(mine), abs=1e-9)


@settings(max_examples=30)
@given(values)
def test_integers_to_integers(bits: AggregateFunction, drawn: list[list[tuple[int, int | None]]]) -> None:
    found = answers(bits, (BIGINT,), [[(g, (0, (v,))) for g, v in piece] for piece in drawn], 3)
    for group in range(3):
        mine = [v for piece in drawn for g, v in piece if g == group and v is not None]
        expected = 0
        for value in mine:
            expected ^= value
        assert found[group] == (expected if mine else None)
    assert all(value is None or type(value) is int for value in found)


def test_two_arguments(weighted: AggregateFunction) -> None:
    rows = [(10.0, 1.0), (20.0, 3.0), (None, 5.0), (7.0, None)]
    assert answers(weighted, (DOUBLE, DOUBLE), [[(0, (0, row)) for row in rows]], 1) == [17.5]


def test_rows_that_have_only_one_of_two_arguments_are_no_rows(weighted: AggregateFunction) -> None:
    # x is there once and w is there once, but never both: the state holds nothing to divide by.
    rows = [(None, 5.0), (7.0, None)]
    assert answers(weighted, (DOUBLE, DOUBLE), [[(0, (0, row)) for row in rows]], 1) == [None]


def test_order_is_older_first() -> None:
    last = user_aggregate(
        "NEWEST", lift=lambda x: (x,), combine=lambda a, b: (b[0],), lower=lambda a: a[0], identity=(math.nan,)
    )
    assert answers(last, (DOUBLE,), [[(0, (0, (float(i),)))] for i in range(5)], 1) == [4.0]


def test_argument_types(mean: AggregateFunction, bits: AggregateFunction) -> None:
    assert mean.result_type((INT,)) == DOUBLE
    assert mean.result_type((decimal(5, 2),)) == DOUBLE
    assert bits.result_type((INT,)) == BIGINT
    for function, type_ in ((mean, STRING), (bits, DOUBLE)):
        with pytest.raises(BindError, match=f"{function.name} takes (numbers|integers), not {type_}"):
            function.bound((type_,))


def test_a_lower_that_raises_fails_the_query() -> None:
    def lower(a: Any) -> Any:
        if a[0] > 3:
            raise ValueError("more than three")
        return a[0]

    picky = user_aggregate(
        "PICKY", lift=lambda x: (x,), combine=lambda a, b: (a[0] + b[0],), lower=lower, identity=(0.0,)
    )
    assert answers(picky, (DOUBLE,), [[(0, (0, (3.0,)))]], 1) == [3.0]
    with pytest.raises(QueryFailed, match="PICKY: its lower raised ValueError: more than three"):
        answers(picky, (DOUBLE,), [[(0, (0, (3.0,)))] * 2], 1)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"lift": lambda x: x}, "its state has 2 number"),
        ({"lift": lambda x: (x,)}, "its state has 2 number"),
        ({"combine": lambda a, b: a + b}, "its state has 2 number"),
        ({"inverse": lambda a, b: (a[0],)}, "its state has 2 number"),
        ({"lift": lambda x: (missing, x)}, "missing"),  # noqa: F821
        ({"lift": lambda x, y: (x, y)}, "cannot be called"),
        ({"lower": lambda a: a.mean()}, "cannot be compiled: Unknown attribute 'mean'"),
        ({"lower": lambda a: open("a")}, "cannot be compiled: .*open"),  # noqa: PTH123, SIM115
        ({"lower": lambda a: "text"}, "cannot be compiled"),
        ({"identity": ()}, "its identity is a tuple of numbers"),
        ({"identity": 0.0}, "its identity is a tuple of numbers"),
        ({"arguments": 3}, "may take 1 or 2 arguments, not 3"),
        ({"returns": STRING}, "may return DOUBLE or BIGINT, not STRING"),
    ],
)
def test_what_is_wrong_is_said_in_words(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(BindError, match=message):
        user_aggregate("WRONG", **{**MEAN, **changed})


def test_a_combine_that_raises_fails_those_who_ask_for_its_piece() -> None:
    def combine(a: Any, b: Any) -> Any:
        if a[0] + b[0] > 3:
            raise ValueError("more than three")
        return (a[0] + b[0],)

    few = user_aggregate("FEW", lift=lambda x: (x,), combine=combine, lower=lambda a: a[0], identity=(0.0,))
    one = [(0, (0, (1.0,)))]
    assert answers(few, (DOUBLE,), [one] * 3, 2) == [3.0, None]
    with pytest.raises(QueryFailed, match="FEW: its combine raised an exception"):
        answers(few, (DOUBLE,), [one] * 6, 2)
    with pytest.raises(ValueError, match="more than three"):
        answers(few, (DOUBLE,), [one * 4], 1)  # while rows are folded the host hears it from the matrix


def _kept(x: float) -> tuple[float]:
    return (x,)


def _added(a: tuple[float], b: tuple[float]) -> tuple[float]:
    return (a[0] + b[0],)


def _sum(a: tuple[float]) -> float:
    return a[0]


def _scaled(a: tuple[float]) -> float:
    return a[0] * FACTOR


FACTOR = 2.0


def test_functions_that_read_their_arguments_alone_are_compiled_once() -> None:
    first, second = (user_aggregate("A_SUM", lift=_kept, combine=_added, lower=_sum, identity=(0.0,)) for _ in range(2))
    kinds = [function.bound((DOUBLE,)).parts[0].kind for function in (first, second)]
    assert kinds[0].compiled is kinds[1].compiled


def test_a_name_that_a_function_reads_has_its_value_of_the_registration(monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for factor in (2.0, 3.0):
        monkeypatch.setitem(globals(), "FACTOR", factor)
        scaled = user_aggregate("SCALED", lift=_kept, combine=_added, lower=_scaled, identity=(0.0,))
        found.append(answers(scaled, (DOUBLE,), [[(0, (0, (5.0,)))]], 1))
    assert found == [[10.0], [15.0]]
