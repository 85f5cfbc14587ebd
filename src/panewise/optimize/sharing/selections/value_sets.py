"""Sets of values of one type, with or without NULL: the values for which an atom `column op constant` is TRUE.

A set is represented by the sorted cuts between its values and all others. Values between an even cut and the next cut
are in the set:

    x BETWEEN 3 AND 5 OR x > 9      in   |3 4 5|        |10 ...
    (whole numbers)                 cuts  3    6         10     2**63

A cut is `(rank, value, side)`: just before the value (side 0) or just after it (side 1). Ranks put NaN after all
numbers, and the ends of a type without least or greatest value outside of all values. Whole numbers, dates, timestamps
and truth values have a next value, so `x > 3` and `x >= 4` are the same cut, and equal sets are equal objects. Floating
numbers, decimals and texts are treated as dense: two sets with the same values may be unequal, but equal sets always
have the same values. The order is that of `plan.expressions.evaluate`: NaN equals itself and is greatest, -0.0 equals
0.0, and texts are ordered by code points. Cost of an operation: the sum of the cuts.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from panewise.schema import DataType

Cut = tuple[int, Any, int]

_NOT_A_NUMBER: Cut = (1, 0, 0)
_WHOLE_NUMBER_BITS = {"INT": 32, "BIGINT": 64, "DATE": 32, "TIMESTAMP": 64}


@dataclass(frozen=True)
class Domain:
    """All values of a type, between the cut before the least and the cut after the greatest."""

    low: Cut
    high: Cut
    discrete: bool = False

    def before(self, value: Any) -> Cut:
        if isinstance(value, float):
            if math.isnan(value):
                return min(_NOT_A_NUMBER, self.high)
            if self.discrete and math.isinf(value):
                return self.high if value > 0 else self.low
        if self.discrete:
            return self._clipped((0, math.ceil(value), 0))
        return self._clipped((0, _positive_zero(value), 0))

    def after(self, value: Any) -> Cut:
        if isinstance(value, float):
            if math.isnan(value):
                return self.high
            if math.isinf(value) and value > 0:
                return min(_NOT_A_NUMBER, self.high)
            if self.discrete and math.isinf(value):
                return self.low
        if self.discrete:
            return self._clipped((0, math.floor(value) + 1, 0))
        return self._clipped((0, _positive_zero(value), 1))

    def _clipped(self, cut: Cut) -> Cut:
        return max(self.low, min(cut, self.high))


def _positive_zero(value: Any) -> Any:
    """The value, with 0.0 for -0.0, so that equal sets also have equal texts."""
    return value + 0.0 if isinstance(value, float) else value


@lru_cache(maxsize=256)
def domain_of(type: DataType) -> Domain:
    bits = _WHOLE_NUMBER_BITS.get(type.name)
    if bits is not None:
        return Domain((0, -(2 ** (bits - 1)), 0), (0, 2 ** (bits - 1), 0), discrete=True)
    match type.name:
        case "BOOLEAN":
            return Domain((0, 0, 0), (0, 2, 0), discrete=True)
        case "FLOAT" | "DOUBLE":
            return Domain((0, -math.inf, 0), (1, 0, 1))
        case "STRING":
            return Domain((0, "", 0), (2, 0, 0))
        case _:
            return Domain((-1, 0, 0), (2, 0, 0))


@dataclass(frozen=True)
class ValueSet:
    """Values of a domain. `null`: whether NULL is in the set too.

    >>> from panewise.schema import INT
    >>> compared(domain_of(INT), "gt", 3) == compared(domain_of(INT), "ge", 4)
    True
    """

    domain: Domain = field(compare=False, repr=False)
    cuts: tuple[Cut, ...]
    null: bool = False

    @property
    def empty(self) -> bool:
        return not self.cuts and not self.null

    @property
    def everything(self) -> bool:
        return self.null and self.cuts == (self.domain.low, self.domain.high)

    def __and__(self, other: ValueSet) -> ValueSet:
        if self == other:
            return self
        cuts = _merged(self.cuts, other.cuts, lambda first, second: first and second)
        return ValueSet(self.domain, cuts, self.null and other.null)

    def __or__(self, other: ValueSet) -> ValueSet:
        if self == other:
            return self
        cuts = _merged(self.cuts, other.cuts, lambda first, second: first or second)
        return ValueSet(self.domain, cuts, self.null or other.null)

    def __invert__(self) -> ValueSet:
        """All other values, and NULL if it is not in the set."""
        return ValueSet(self.domain, self.other_values().cuts, not self.null)

    def other_values(self) -> ValueSet:
        """All values that are not in the set, without NULL. There a comparison is FALSE that is TRUE on the set."""
        # A cut at an end of the domain means that the set extends to it. The complement does not have that cut.
        cuts = sorted({*self.cuts} ^ {self.domain.low, self.domain.high})
        return ValueSet(self.domain, tuple(cuts))

    def __le__(self, other: ValueSet) -> bool:
        """Whether this is a subset of the other. Cost: a bisection of the other's cuts for each cut of this set."""
        if self.null and not other.null:
            return False
        cuts = other.cuts
        for low, high in zip(self.cuts[::2], self.cuts[1::2], strict=True):
            place = bisect_right(cuts, low)
            if place % 2 == 0 or cuts[place] < high:
                return False
        return True

    def meets(self, other: ValueSet) -> bool:
        """Whether the sets have a common value or both have NULL."""
        if self.null and other.null:
            return True
        few, many = (self.cuts, other.cuts) if len(self.cuts) <= len(other.cuts) else (other.cuts, self.cuts)
        for low, high in zip(few[::2], few[1::2], strict=True):
            place = bisect_right(many, low)
            if place % 2 == 1 or (place < len(many) and many[place] < high):
                return True
        return False

    def points(self) -> tuple[Cut | None, ...] | None:
        """If the set consists of single values, an identifier for each (None for NULL); otherwise None."""
        found: list[Cut | None] = []
        for low, high in zip(self.cuts[::2], self.cuts[1::2], strict=True):
            single = high == (low[0], low[1], 1) or (self.domain.discrete and high == (low[0], low[1] + 1, 0))
            if low[2] != 0 or not single:
                return None
            found.append(low)
        return (*found, None) if self.null else tuple(found)


def _merged(first: tuple[Cut, ...], second: tuple[Cut, ...], keep: Callable[[bool, bool], bool]) -> tuple[Cut, ...]:
    cuts: list[Cut] = []
    inside = False
    i = j = 0
    while i < len(first) or j < len(second):
        if j == len(second) or (i < len(first) and first[i] <= second[j]):
            cut = first[i]
        else:
            cut = second[j]
        i += i < len(first) and first[i] == cut
        j += j < len(second) and second[j] == cut
        if keep(i % 2 == 1, j % 2 == 1) != inside:
            cuts.append(cut)
            inside = not inside
    return tuple(cuts)


def nothing(domain: Domain) -> ValueSet:
    return ValueSet(domain, ())


def only_null(domain: Domain) -> ValueSet:
    return ValueSet(domain, (), null=True)


def compared(domain: Domain, operator: str, value: Any) -> ValueSet:
    """The values x for which `x operator value` is TRUE. `value` must not be NULL."""
    before, after = domain.before(value), domain.after(value)
    low, high = {
        "eq": (before, after),
        "lt": (domain.low, before),
        "le": (domain.low, after),
        "gt": (after, domain.high),
        "ge": (before, domain.high),
    }[operator]
    return ValueSet(domain, (low, high) if low < high else ())


def one_of(domain: Domain, values: Iterable[Any]) -> ValueSet:
    """The set of the values of a list."""
    cuts: list[Cut] = []
    for low, high in sorted({(domain.before(value), domain.after(value)) for value in values}):
        if low >= high:
            continue
        if cuts and cuts[-1] == low:
            cuts[-1] = high
        else:
            cuts += (low, high)
    return ValueSet(domain, tuple(cuts))
