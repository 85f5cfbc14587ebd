"""Parts of dates and timestamps, and arithmetic on them: always in UTC, proleptic Gregorian, years 1 to 9999.

TIMESTAMP is int64 microseconds and DATE int32 days since 1970-01-01. A result outside the years 1 to 9999 is NULL.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from panewise.plan.expressions.vectors import Operand, Vector, array_of, numbers
from panewise.temporal import DAY, HOUR, INSTANT_MAX, INSTANT_MIN, MICROSECOND, MILLISECOND, MINUTE, SECOND, WEEK

Kernel = Callable[[list[Operand], pa.DataType], pa.Array]

DATE_MIN = INSTANT_MIN // DAY
DATE_MAX = INSTANT_MAX // DAY
# 1970-01-01 was a Thursday; its week began three days before.
_MONDAY_SHIFT = 3 * DAY
_UNITS = {
    "DAY": DAY,
    "HOUR": HOUR,
    "MINUTE": MINUTE,
    "SECOND": SECOND,
    "MILLISECOND": MILLISECOND,
    "MICROSECOND": MICROSECOND,
}
_MONTHS = {"MONTH": 1, "QUARTER": 3, "YEAR": 12}


def bounded_instants(
    values: Vector, type: pa.DataType, operands: list[Operand], null: Vector | None = None
) -> pa.Array:
    """Microseconds as TIMESTAMP, with NULL outside the years 1 to 9999 and where the mask `null` is true."""
    outside = (values < INSTANT_MIN) | (values > INSTANT_MAX)
    return array_of(values, type, operands, outside if null is None else outside | null)


def _part(kernel: Callable[..., pa.Array], **options: Any) -> Kernel:
    def part(operands: list[Operand], type: pa.DataType) -> pa.Array:
        instants = operands[0]
        if pa.types.is_timestamp(instants.type):
            # Without a zone the result is the same, and Arrow needs no time zone database.
            instants = instants.view(pa.timestamp("us"))
        return kernel(instants, **options).cast(type)

    return part


def _date_trunc(operands: list[Operand], type: pa.DataType) -> pa.Array:
    unit, instants = operands[0].as_py(), operands[1]
    values = numbers(instants)
    if unit in _MONTHS:
        months = values.astype("datetime64[us]").astype("datetime64[M]").astype(np.int64)
        months -= months % _MONTHS[unit]
        return array_of(months.astype("datetime64[M]").astype("datetime64[us]").astype(np.int64), type, [instants])
    if unit == "WEEK":
        return bounded_instants(values - (values + _MONDAY_SHIFT) % WEEK, type, [instants])
    return array_of(values - values % _UNITS[unit], type, [instants])


def _since_epoch(unit: int) -> Kernel:
    return lambda operands, result: array_of(numbers(operands[0]) // unit, result, operands)


def _from_epoch(unit: int) -> Kernel:
    def kernel(operands: list[Operand], type: pa.DataType) -> pa.Array:
        values = numbers(operands[0])
        outside = (values < INSTANT_MIN // unit - 1) | (values > INSTANT_MAX // unit + 1)
        return bounded_instants(np.where(outside, 0, values) * unit, type, operands, outside)

    return kernel


def _timestamp_add(operands: list[Operand], type: pa.DataType) -> pa.Array:
    instants, durations = (np.asarray(numbers(operand)) for operand in operands)
    # A longer duration leads outside the years 1 to 9999 from every timestamp. With a shorter one the sum cannot wrap.
    span = INSTANT_MAX - INSTANT_MIN
    outside = (durations < -span) | (durations > span)
    values = instants + np.where(outside, 0, durations)
    return bounded_instants(values, type, operands, np.broadcast_to(outside, values.shape))


def _timestamp_diff(operands: list[Operand], type: pa.DataType) -> pa.Array:
    left, right = (numbers(operand) for operand in operands)
    return array_of(left - right, type, operands)


def _date_add(operands: list[Operand], type: pa.DataType) -> pa.Array:
    days, added = (np.asarray(numbers(operand)).astype(np.int64) for operand in operands)
    values = days + added
    return array_of(values, type, operands, (values < DATE_MIN) | (values > DATE_MAX))


def _date_diff(operands: list[Operand], type: pa.DataType) -> pa.Array:
    left, right = (numbers(operand) for operand in operands)
    return array_of(left - right, type, operands)


DATE_KERNELS: dict[str, Kernel] = {
    "year": _part(pc.year),
    "quarter": _part(pc.quarter),
    "month": _part(pc.month),
    "day": _part(pc.day),
    "hour": _part(pc.hour),
    "minute": _part(pc.minute),
    "second": _part(pc.second),
    "day_of_week": _part(pc.day_of_week, count_from_zero=False, week_start=7),
    "day_of_year": _part(pc.day_of_year),
    "week": _part(pc.iso_week),
    "date_trunc": _date_trunc,
    "epoch_micros": _since_epoch(MICROSECOND),
    "unix_millis": _since_epoch(MILLISECOND),
    "unix_seconds": _since_epoch(SECOND),
    "timestamp_micros": _from_epoch(MICROSECOND),
    "timestamp_millis": _from_epoch(MILLISECOND),
    "timestamp_seconds": _from_epoch(SECOND),
    "timestamp_add": _timestamp_add,
    "timestamp_diff": _timestamp_diff,
    "date_add": _date_add,
    "date_diff": _date_diff,
}
