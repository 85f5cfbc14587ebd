"""Lowering: computes SQL values from the fields of states, vectorised over answers.

Each function takes the fields of the aggregate's parts, in the order declared in `aggregate_functions.py`, and returns
the values and a mask of NULLs (None: no value is NULL). A sum that does not fit its type is NULL and is counted
(`overflows`); it never wraps. Only the answer must fit, not the intermediate sums.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from panewise.aggregates.overflows import note_overflows

Fields = list[NDArray[np.generic]]
Lowered = tuple[NDArray[np.generic], NDArray[np.bool_] | None]
_TWO_32 = 4294967296


def _empty(count: NDArray[np.generic]) -> NDArray[np.bool_] | None:
    mask: NDArray[np.bool_] = count == 0
    return mask if mask.any() else None


def count(parts: list[Fields]) -> Lowered:
    return parts[0][0], None


def _whole(parts: list[Fields], limit: int) -> Lowered:
    """Sums from their high and low 32 bits. NULL if there are no rows or the absolute sum exceeds the limit."""
    (high, low), (rows,) = parts
    high_, low_ = high.astype(np.int64), low.astype(np.int64)
    carry = low_ >> 32
    high_ = high_ + carry
    low_ = low_ & (_TWO_32 - 1)
    nulls = _empty(rows)
    outside: NDArray[np.bool_] = np.zeros(0, np.bool_)
    if high_.size and (high_.max() >= 2**31 or high_.min() < -(2**31)):
        outside = (high_ >= 2**31) | (high_ < -(2**31))
        high_[outside] = 0
    total: NDArray[np.int64] = (high_ << 32) + low_
    if limit < 2**63 and total.size and (total.max() > limit or total.min() < -limit):
        outside = (total > limit) | (total < -limit) | (outside if outside.size else False)
    if outside.any():
        note_overflows(int(outside.sum()))
        total[outside] = 0
        nulls = outside if nulls is None else nulls | outside
    return total, nulls


def sum_integer(parts: list[Fields]) -> Lowered:
    return _whole(parts, 2**63)


def sum_decimal(parts: list[Fields]) -> Lowered:
    return _whole(parts, 10**18 - 1)


def _float_total(total: NDArray[np.generic], residue: NDArray[np.generic]) -> NDArray[np.float64]:
    # After an infinity or NaN the residue is meaningless.
    return np.where(np.isfinite(total), total + residue, total)  # type: ignore[operator]


def sum_float(parts: list[Fields]) -> Lowered:
    (total, residue), (rows,) = parts
    return _float_total(total, residue), _empty(rows)


def avg_float(parts: list[Fields]) -> Lowered:
    (total, residue), (rows,) = parts
    with np.errstate(divide="ignore", invalid="ignore"):
        return _float_total(total, residue) / rows, _empty(rows)  # type: ignore[operator]


def avg_integer(parts: list[Fields]) -> Lowered:
    (high, low), (rows,) = parts
    with np.errstate(divide="ignore", invalid="ignore"):
        return (high.astype(np.float64) * _TWO_32 + low.astype(np.float64)) / rows, _empty(rows)  # type: ignore[operator]


def extreme(parts: list[Fields]) -> Lowered:
    (value,), (rows,) = parts
    return value, _empty(rows)


def geomean(parts: list[Fields]) -> Lowered:
    mean, nulls = avg_float(parts)
    with np.errstate(over="ignore", invalid="ignore"):
        return np.exp(mean), nulls


def _variance(parts: list[Fields], lost: int) -> tuple[NDArray[np.float64], NDArray[np.bool_] | None]:
    rows, _, squares = parts[0]
    with np.errstate(divide="ignore", invalid="ignore"):
        return squares / (rows - lost), _empty(np.maximum(rows - lost, 0))  # type: ignore[operator]


def var_pop(parts: list[Fields]) -> Lowered:
    return _variance(parts, 0)


def var_samp(parts: list[Fields]) -> Lowered:
    return _variance(parts, 1)


def stddev_pop(parts: list[Fields]) -> Lowered:
    variance, nulls = _variance(parts, 0)
    return np.sqrt(variance), nulls


def stddev_samp(parts: list[Fields]) -> Lowered:
    variance, nulls = _variance(parts, 1)
    with np.errstate(invalid="ignore"):
        return np.sqrt(variance), nulls


def _end_nulls(timestamp: NDArray[np.generic]) -> NDArray[np.bool_] | None:
    # The sentinels lie outside the range of instants, so no row has them as its timestamp.
    missing = (timestamp == np.int64(2**63 - 1)) | (timestamp == np.int64(-(2**63)))
    return missing if missing.any() else None


def end_integer(parts: list[Fields]) -> Lowered:
    timestamp, _, value = parts[0]
    return value, _end_nulls(timestamp)


def end_float(parts: list[Fields]) -> Lowered:
    timestamp, _, value = parts[0]
    return np.ascontiguousarray(value).view(np.float64), _end_nulls(timestamp)


def arg_integer(parts: list[Fields]) -> Lowered:
    present = parts[0][3]
    missing: NDArray[np.bool_] = present != 1
    return parts[0][2], missing if missing.any() else None


def arg_float(parts: list[Fields]) -> Lowered:
    values, nulls = arg_integer(parts)
    return np.ascontiguousarray(values).view(np.float64), nulls


def held_integer(parts: list[Fields]) -> Lowered:
    value, total = parts[0]
    return value, _empty(total)


def held_float(parts: list[Fields]) -> Lowered:
    total, value = parts[0]
    return value, _empty(total)


def held_estimate(parts: list[Fields]) -> Lowered:
    (value,) = parts[0]
    missing: NDArray[np.bool_] = np.isnan(value)
    return value, missing if missing.any() else None


def held_top(parts: list[Fields]) -> Lowered:
    (lists,) = parts[0]
    missing: NDArray[np.bool_] = np.fromiter((found is None for found in lists), np.bool_, len(lists))
    return lists, missing if missing.any() else None


def held_list(parts: list[Fields]) -> Lowered:
    (lists,), (rows,) = parts
    return lists, _empty(rows)


LOWERINGS: dict[str, Callable[[list[Fields]], Lowered]] = {
    function.__name__: function
    for function in (
        count,
        sum_integer,
        sum_decimal,
        sum_float,
        avg_float,
        avg_integer,
        extreme,
        geomean,
        var_pop,
        var_samp,
        stddev_pop,
        stddev_samp,
        end_integer,
        end_float,
        arg_integer,
        arg_float,
        held_integer,
        held_float,
        held_estimate,
        held_top,
        held_list,
    )
}
