"""Which values stand for which types."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from panewise.connectors.conform import converted
from panewise.schema import BIGINT, BOOLEAN, DATE, DOUBLE, FLOAT, INT, STRING, TIMESTAMP, DataType, decimal

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("values", "wanted", "expected"),
    [
        (pa.array([1, None], pa.int8()), BIGINT, [1, None]),
        (pa.array([2**40]), DOUBLE, [2.0**40]),
        (pa.array([2.0]), INT, [2]),
        (pa.array([0.5]), FLOAT, [0.5]),
        (pa.array([7]), decimal(5, 2), [Decimal("7.00")]),
        (pa.array(["7.25"]), decimal(5, 2), [Decimal("7.25")]),
        (pa.array(["true", "false"]), BOOLEAN, [True, False]),
        (pa.array(["12"]), INT, [12]),
        (pa.array(["2026-01-01"]), DATE, [date(2026, 1, 1)]),
        (pa.array(["2026-01-01 12:00:00"]), TIMESTAMP, [NOON]),
        (pa.array(["2026-01-01T13:00:00+01:00"]), TIMESTAMP, [NOON]),
        (pa.array(["2026-01-01 12:00:00.000000999"]), TIMESTAMP, [NOON]),
        (pa.array([date(2026, 1, 1)]), TIMESTAMP, [NOON.replace(hour=0)]),
        (pa.array([NOON.replace(tzinfo=None)], pa.timestamp("ms")), TIMESTAMP, [NOON]),
        (pa.array(["a"], pa.large_string()), STRING, ["a"]),
        (pa.nulls(2), DOUBLE, [None, None]),
    ],
)
def test_values_that_convert(values: pa.Array, wanted: DataType, expected: list[object]) -> None:
    result = converted(values, wanted)
    assert result.type == wanted.to_arrow()
    assert result.to_pylist() == expected


@pytest.mark.parametrize(
    ("values", "wanted"),
    [
        (pa.array([1]), STRING),
        (pa.array([True]), BIGINT),
        (pa.array([1]), BOOLEAN),
        (pa.array([NOON]), BIGINT),
        (pa.array([1]), TIMESTAMP),
        (pa.array([1.5]), INT),
        (pa.array([2**40]), INT),
        (pa.array(["1.5"]), BIGINT),
        (pa.array(["2026-01-01 12:00:00", "soon"]), TIMESTAMP),
        (pa.array([[1]]), BIGINT),
    ],
)
def test_values_that_do_not_are_left_as_they_are(values: pa.Array, wanted: DataType) -> None:
    assert converted(values, wanted) is values


def test_numbers_are_instants_where_it_is_said_what_they_count() -> None:
    seconds = int(NOON.timestamp())
    for values, epoch in (
        (pa.array([seconds]), "seconds"),
        (pa.array([seconds * 1_000]), "milliseconds"),
        (pa.array([float(seconds)]), "seconds"),
        (pa.array([str(seconds)]), "seconds"),
        (pa.array([seconds * 1_000_000_000 + 999]), "nanoseconds"),
    ):
        assert converted(values, TIMESTAMP, epoch).to_pylist() == [NOON]


def test_dictionaries_of_texts_stay_dictionaries() -> None:
    values = pa.array(["a", "b"]).dictionary_encode()
    assert converted(values, STRING) is values
