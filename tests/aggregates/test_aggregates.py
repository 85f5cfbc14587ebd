"""Every built-in aggregate, folded in pieces and combined, against its obvious model."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from panewise.aggregates import builtin as registry
from panewise.aggregates.lowering import sum_float
from panewise.aggregates.matrix import NO_BYTES, NO_INTS, Encoded, StateMatrix
from panewise.aggregates.states import SUM_FLOAT
from panewise.errors import BindError
from panewise.schema import BIGINT, BOOLEAN, DATE, DOUBLE, FLOAT, INT, STRING, TIMESTAMP, DataType, decimal
from tests.aggregates.models import Row, answers, model

MONEY = decimal(18, 2)
GROUPS = 3
# Few distinct values, so that ties are common; the awkward ones among them.
VALUES: dict[DataType, st.SearchStrategy[Any]] = {
    BIGINT: st.sampled_from([-(2**63), -(2**63) + 1, -1, 0, 1, 2, 2**32, 2**62, 2**63 - 1]) | st.integers(-5, 5),
    INT: st.sampled_from([-(2**31), 2**31 - 1, 0]) | st.integers(-5, 5),
    DOUBLE: st.sampled_from([math.nan, math.inf, -math.inf, 0.0, 1e308, 5e-324]) | st.integers(-4, 4).map(float),
    FLOAT: st.sampled_from([math.nan, math.inf, -math.inf, 0.0, 0.5]) | st.integers(-4, 4).map(float),
    BOOLEAN: st.booleans(),
    STRING: st.sampled_from(["", "a", "aa", "b", "B", "é", "𝄞", "longer than seven bytes", "longer than seven bytez"]),
    MONEY: st.integers(-500, 500).map(lambda cents: Decimal(cents) / 100),
}
ONE = [
    "COUNT",
    "SUM",
    "AVG",
    "MIN",
    "MAX",
    "FIRST",
    "LAST",
    "VAR_POP",
    "VAR_SAMP",
    "STDDEV_POP",
    "STDDEV_SAMP",
    "GEOMEAN",
]
NUMERIC = (BIGINT, INT, DOUBLE, FLOAT, MONEY)
CASES = [
    *((name, (type_,)) for name in ONE for type_ in NUMERIC),
    *((name, (type_,)) for name in ("COUNT", "MIN", "MAX", "FIRST", "LAST") for type_ in (STRING, BOOLEAN)),
    *((name, (BOOLEAN,)) for name in ("BOOL_AND", "BOOL_OR")),
    *((name, (value, key)) for name in ("ARG_MIN", "ARG_MAX") for value in (STRING, DOUBLE) for key in VALUES),
    ("COUNT", ()),
]


def pieces_of(types: tuple[DataType, ...]) -> st.SearchStrategy[list[list[tuple[int, Row]]]]:
    arguments = st.tuples(*(st.none() | VALUES[type_] for type_ in types))
    row = st.tuples(st.integers(-2, 2), arguments)
    return st.lists(st.lists(st.tuples(st.integers(0, GROUPS - 1), row), max_size=6), max_size=4)


def same(expected: Any, found: Any, tolerance: float) -> bool:
    if isinstance(expected, float) and isinstance(found, float):
        if math.isnan(expected) or math.isnan(found):
            return math.isnan(expected) and math.isnan(found)
        return expected == found or abs(expected - found) <= tolerance
    return bool(expected == found) and type(expected) is type(found)


def tolerance_of(function: str, rows: list[Row]) -> float:
    """1e-12 of what went into it; aggregates that select are exact."""
    if function not in ("SUM", "AVG", "VAR_POP", "VAR_SAMP", "STDDEV_POP", "STDDEV_SAMP", "GEOMEAN"):
        return 0.0
    values = [abs(float(a[0])) for _, a in rows if a[0] is not None]
    sizes = [value for value in values if math.isfinite(value)]
    return 1e-12 * sum(value * value if function.startswith("VAR") else value for value in sizes)


@pytest.mark.parametrize(("function", "types"), CASES, ids=lambda value: str(value) if isinstance(value, str) else None)
@settings(max_examples=max(10, settings.default.max_examples // 3))  # for each of very many cases
@given(data=st.data())
def test_against_its_model(function: str, types: tuple[DataType, ...], data: st.DataObject) -> None:
    pieces = data.draw(pieces_of(types))
    if types == (DOUBLE,) and function.startswith(("VAR", "STDDEV", "GEOMEAN", "SUM", "AVG")):
        # Squares and sums of 1e308 overflow in the model too, but elsewhere.
        pieces = [[row for row in piece if row[1][1][0] != 1e308] for piece in pieces]
    expected, limits = [], []
    for group in range(GROUPS):
        rows = [row for piece in pieces for owner, row in piece if owner == group]
        value = model(function, rows)
        if isinstance(value, Decimal) and function == "AVG":
            value = float(value)
        expected.append(value)
        limits.append(tolerance_of(function, rows))
    if function == "SUM" and types in ((BIGINT,), (INT,)):
        expected = [None if total is None or not -(2**63) <= total < 2**63 else total for total in expected]
    found = answers(function, types, pieces, GROUPS)
    if types == (MONEY,) and function == "SUM":
        expected = [None if total is None else total.quantize(Decimal("0.01")) for total in expected]
    assert all(map(same, expected, found, limits)), (expected, found)


@pytest.mark.parametrize("type_", [DATE, TIMESTAMP])
@pytest.mark.parametrize("function", ["MIN", "MAX", "FIRST", "LAST", "COUNT"])
def test_dates_and_timestamps(function: str, type_: DataType) -> None:
    days = [11, -400_000, 3]
    scale = 1 if type_ == DATE else 86_400_000_000
    typed = [_moment(type_, day * scale) for day in days]
    rows = [(time, (value,)) for time, value in zip([2, 1, 3], typed, strict=True)]
    assert answers(function, (type_,), [[(0, row) for row in rows]], 1) == [model(function, rows)]


def _moment(type_: DataType, number: int) -> Any:
    return pa.array([number], pa.int32() if type_ == DATE else pa.int64()).cast(type_.to_arrow())[0].as_py()


# -- integers --------------------------------------------------------------------------------------------------------


def test_a_sum_is_judged_on_its_answer_not_on_a_prefix() -> None:
    greatest = 2**63 - 1
    values = [greatest] * 1000 + [-greatest] * 1000 + [7]
    rows = [(0, (0, (value,))) for value in values]
    assert answers("SUM", (BIGINT,), [rows], 1) == [7]
    assert answers("SUM", (BIGINT,), [[row] for row in rows], 1) == [7]
    assert answers("AVG", (BIGINT,), [rows], 1) == [7 / 2001]


@pytest.mark.parametrize("total", [2**63 - 1, -(2**63)])
def test_the_ends_of_bigint_are_answers(total: int) -> None:
    halves = [total // 2, total - total // 2]
    assert answers("SUM", (BIGINT,), [[(0, (0, (half,)))] for half in halves], 1) == [total]
    assert answers("SUM", (BIGINT,), [[(0, (0, (v,))) for v in [*halves, 1 if total > 0 else -1]]], 1) == [None]


def test_a_decimal_sum_past_18_digits_is_null() -> None:
    most = Decimal("9999999999999999.99")
    assert answers("SUM", (MONEY,), [[(0, (0, (most,)))]], 1) == [most]
    assert answers("SUM", (MONEY,), [[(0, (0, (most,))), (0, (0, (Decimal("0.01"),)))]], 1) == [None]


# -- doubles ---------------------------------------------------------------------------------------------------------


def _sum_error(values: list[float], pieces: int) -> tuple[float, float]:
    """How far the sum of some pieces is off, and the sum of absolute values."""
    total = StateMatrix(SUM_FLOAT, 1)
    for part in np.array_split(np.array(values), pieces):
        partial = StateMatrix(SUM_FLOAT, 1)
        times = np.zeros(len(part), np.int64)
        partial.fold(times, [Encoded(part, NO_BYTES)], times, times, NO_INTS)
        total.combine(0, partial, 0, 1, NO_INTS)
    found, _ = sum_float([total.fields(), [np.ones(1, np.int64)]])
    return abs(float(found[0]) - math.fsum(values)), math.fsum(map(abs, values))


@pytest.mark.parametrize("pieces", [1, 7, 1000])
@pytest.mark.parametrize(
    "values",
    [
        [0.1] * 1_000_000,
        [1e16, 1.0, -1e16] * 1000,
        [1e100, 1.0, -1e100, 1e-100] * 1000,
        [1e300, 1e-300] * 500 + [-1e300] * 500,
        [(-1.0) ** i / (i + 1) for i in range(100_000)],
    ],
    ids=["tenths", "huge and one", "four sizes", "cancels", "alternating"],
)
def test_sums_of_doubles_keep_within_their_bound(values: list[float], pieces: int) -> None:
    error, size = _sum_error(values, pieces)
    assert error <= 1e-12 * size
    if values[0] == 0.1:
        assert error <= 1e-10  # plain addition is off by 1e-6


@given(st.lists(st.floats(-1e300, 1e300), min_size=1, max_size=50), st.integers(1, 5))
def test_sums_of_any_doubles(values: list[float], pieces: int) -> None:
    error, size = _sum_error(values, pieces)
    assert error <= 1e-12 * size


@pytest.mark.parametrize("function", ["VAR_POP", "VAR_SAMP", "STDDEV_POP"])
@pytest.mark.parametrize("pieces", [1, 3, 100])
def test_variance_far_from_zero(function: str, pieces: int) -> None:
    values = [1e9 + (i % 10) / 10 for i in range(1000)]
    size = -(-len(values) // pieces)
    parts = [[(0, (0, (v,))) for v in values[i : i + size]] for i in range(0, 1000, size)]
    [found] = answers(function, (DOUBLE,), parts, 1)
    assert found == pytest.approx(model(function, [(0, (v,)) for v in values]), rel=1e-6)
    assert answers(function, (DOUBLE,), [[(0, (0, (5.0,)))] * 9] * 3, 1) == [0.0]


def test_infinities_of_both_signs_have_no_sum() -> None:
    [total] = answers("SUM", (DOUBLE,), [[(0, (0, (math.inf,)))], [(0, (0, (-math.inf,)))]], 1)
    assert math.isnan(total)


# -- what they take --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("function", "types", "message"),
    [
        ("SUM", (STRING,), "SUM takes a number, not STRING"),
        ("AVG", (BOOLEAN,), "AVG takes a number, not BOOLEAN"),
        ("BOOL_AND", (BIGINT,), "BOOL_AND takes a BOOLEAN, not BIGINT"),
        ("ARG_MIN", (BIGINT,), r"ARG_MIN takes 2 argument\(s\), not 1"),
        ("COUNT", (BIGINT, BIGINT), r"COUNT takes 0 to 1 argument\(s\), not 2"),
    ],
)
def test_what_they_do_not_take(function: str, types: tuple[DataType, ...], message: str) -> None:
    found = registry.find(function)
    assert found is not None
    with pytest.raises(BindError, match=message):
        found.bound(types)


def test_names() -> None:
    assert registry.find("stddev") is registry.find("STDDEV_SAMP")
    assert registry.find("min_by") is registry.find("ARG_MIN")
    assert registry.find("mediane") is None
    assert registry.names() == sorted(registry.names())
