"""Aggregates whose state has no fixed size: quantiles, distinct counts, most frequent values, exact and approximate.

What slices keep and what is asked are separate. A `HeldKind` says what slices keep of an argument: the values of every
group with exact counts (a *bag*), or a summary that a structure makes of them when the slice closes. A `StatisticKind`
is a question to it. Questions with the same held kind over the same argument share the held values: QUANTILE(x, 0.5),
QUANTILE(x, 0.9), COUNT(DISTINCT x) and TOP(3, x) keep one bag. The fields of a statistic are those of its answers.

| held      | questions                                                   | size of a slice                           |
| --------- | ----------------------------------------------------------- | ----------------------------------------- |
| bag       | QUANTILE, MEDIAN, PERCENTILE_..., COUNT(DISTINCT x), TOP    | its distinct values                       |
| frequent  | FREQUENT                                                    | k values a sub-window (slide) and group   |
| hll       | APPROX_COUNT_DISTINCT                                       | a few kilobytes a group                   |
| kll       | APPROX_QUANTILE                                             | a few kilobytes a group                   |
| items     | APPROX_TOP                                                  | some tens of kilobytes a group            |

NULLs are ignored. Without values the answer is NULL; distinct counts are then 0. The order of doubles is SQL's: NaN is
equal to itself and greatest, and -0.0 equals 0.0.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from panewise.aggregates import states
from panewise.aggregates.aggregate_functions import (
    AggregateFunction,
    BoundAggregate,
    PairsOf,
    Parameter,
    Part,
    feed_of,
    lowered_by,
)
from panewise.aggregates.algebra import Algebra, Kind
from panewise.aggregates.states import Feed, Operation, StateKind
from panewise.schema import BIGINT, DOUBLE, STRING, DataType

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from panewise.aggregates.aggregate_functions import Fields, Lowered

K_MAX = 1000
_HOLISTIC = Algebra(Kind.HOLISTIC)
_FRACTION = Parameter(1, "a fraction from 0 to 1", 0, 1, whole=False)
_COUNT = Parameter(0, f"a whole number from 1 to {K_MAX}", 1, K_MAX, whole=True)


class Structure(StrEnum):
    """The structure that keeps the values of closed slices."""

    BAG = "bag"
    FREQUENT = "frequent"
    HLL = "hll"
    KLL = "kll"
    ITEMS = "items"


class Statistic(StrEnum):
    """The question asked of a structure."""

    RANK = "rank"  # the value of rank max(1, floor(p * N))
    DISCRETE = "discrete"  # the value of rank max(1, ceil(p * N)), as in SQL
    CONTINUOUS = "continuous"  # between the two values around rank 1 + p * (N - 1)
    DISTINCT = "distinct"
    TOP = "top"
    FREQUENT = "frequent"
    ABOUT_DISTINCT = "about_distinct"
    ABOUT_QUANTILE = "about_quantile"
    ABOUT_TOP = "about_top"


@dataclass(frozen=True)
class SubWindows:
    """The sub-windows of algorithm 6: the pieces between the starts and ends of a query's windows.

    If the slide divides the range, each sub-window is one slide long. All numbers are on the axis of the windows.
    """

    range: int
    slide: int
    offset: int
    align: int

    def starts_of(self, points: NDArray[np.int64]) -> NDArray[np.int64]:
        """The start of the sub-window that contains each point.

        >>> import numpy as np
        >>> SubWindows(25, 10, 0, 0).starts_of(np.array([13, 17])).tolist()
        [10, 15]
        """
        past_end = (points - self.align + self.offset) % self.slide
        past_start = (points - self.align + self.offset + self.range) % self.slide
        result: NDArray[np.int64] = points - past_end.clip(max=past_start)
        return result


@dataclass(frozen=True)
class HeldKind(StateKind):
    """What slices keep of an argument's values. Only FREQUENT has `k` and `sub_windows`."""

    structure: Structure = Structure.BAG
    k: int = 0
    sub_windows: SubWindows | None = None


@dataclass(frozen=True)
class StatisticKind(StateKind):
    """A question to what slices keep. `parameter`: the fraction or the k, for questions that have one."""

    held: HeldKind | None = None
    statistic: Statistic = Statistic.DISTINCT
    parameter: float | int = 0
    lists: bool = False  # whether its single field is a list of values with counts, or None

    def over(self, sub_windows: SubWindows) -> StatisticKind:
        """The same question for a query with these sub-windows."""
        assert self.held is not None
        return replace(self, held=replace(self.held, sub_windows=sub_windows))


def held_kind(structure: Structure, feed: Feed, k: int = 0) -> HeldKind:
    name = f"{structure.value}_{k}" if k else structure.value
    return HeldKind(name, Operation.HELD, (), (), (feed,), _HOLISTIC, structure, k)


def _statistic(held: HeldKind, statistic: Statistic, parameter: float | int, ints: int, floats: int) -> StatisticKind:
    """`ints` and `floats`: the numbers of fields of its answers. No fields at all means a list."""
    return StatisticKind(
        f"{statistic.value}_{parameter}", Operation.HELD, (0,) * ints, (0.0,) * floats, held.feeds, _HOLISTIC, held,
        statistic, parameter, lists=not ints and not floats,
    )  # fmt: skip


# -- one of the values -----------------------------------------------------------------------------------------------


def _element(name: str, statistic: Statistic) -> Callable[[tuple[DataType, ...], float], BoundAggregate | None]:
    def bind(types: tuple[DataType, ...], fraction: float) -> BoundAggregate | None:
        type_ = types[0]
        if not type_.numeric and type_.name not in ("DATE", "TIMESTAMP"):
            return None
        feed = feed_of(type_)
        floats = 1 if feed is Feed.FLOAT else 0
        kind = _statistic(held_kind(Structure.BAG, feed), statistic, fraction, 2 - floats, floats)
        lower = lowered_by("held_float" if floats else "held_integer")
        return BoundAggregate(name, type_, (Part(kind, (0,)),), lower, feed, f"{name}({{}}, {fraction})")

    return bind


def _scaled(type_: DataType, lower: str = "held_float") -> Callable[[list[Fields]], Lowered]:
    """A lowering function. For a DECIMAL, it scales doubles that were computed from the unscaled digits."""
    plain = lowered_by(lower)
    if type_.name != "DECIMAL":
        return plain
    scale = 10.0**type_.scale

    def scaled(fields: list[Fields]) -> Lowered:
        values, nulls = plain(fields)
        return values / scale, nulls  # type: ignore[operator]

    return scaled


def _between(name: str) -> Callable[[tuple[DataType, ...], float], BoundAggregate | None]:
    def bind(types: tuple[DataType, ...], fraction: float) -> BoundAggregate | None:
        type_ = types[0]
        if not type_.numeric:
            return None
        kind = _statistic(held_kind(Structure.BAG, feed_of(type_)), Statistic.CONTINUOUS, fraction, 1, 1)
        return BoundAggregate(name, DOUBLE, (Part(kind, (0,)),), _scaled(type_), pattern=f"{name}({{}}, {fraction})")

    return bind


def _median(types: tuple[DataType, ...]) -> BoundAggregate | None:
    bound = _between("MEDIAN")(types, 0.5)
    return None if bound is None else replace(bound, pattern="")


def _about_quantile(types: tuple[DataType, ...], fraction: float) -> BoundAggregate | None:
    type_ = types[0]
    if not type_.numeric:
        return None
    kind = _statistic(held_kind(Structure.KLL, feed_of(type_)), Statistic.ABOUT_QUANTILE, fraction, 0, 1)
    pattern = f"APPROX_QUANTILE({{}}, {fraction})"
    return BoundAggregate(
        "APPROX_QUANTILE", DOUBLE, (Part(kind, (0,)),), _scaled(type_, "held_estimate"), pattern=pattern
    )


# -- how many values -------------------------------------------------------------------------------------------------


def _distinct(name: str, structure: Structure, statistic: Statistic) -> Callable[..., BoundAggregate | None]:
    def bind(types: tuple[DataType, ...]) -> BoundAggregate | None:
        kind = _statistic(held_kind(structure, feed_of(types[0])), statistic, 0, 1, 0)
        pattern = "COUNT(DISTINCT {})" if name == "COUNT" else ""
        return BoundAggregate(name, BIGINT, (Part(kind, (0,)),), lowered_by("count"), Feed.INTEGER, pattern)

    return bind


# -- which values ----------------------------------------------------------------------------------------------------


def _list(name: str, structure: Structure, statistic: Statistic) -> Callable[..., BoundAggregate | None]:
    def bind(types: tuple[DataType, ...], k: int) -> BoundAggregate | None:
        own = k if structure is Structure.FREQUENT else 0
        kind = _statistic(held_kind(structure, feed_of(types[0]), own), statistic, k, 0, 0)
        parts = [Part(kind, (0,))]
        if statistic is not Statistic.TOP:
            parts.append(Part(states.COUNT, (0,)))  # an empty list may also mean that no value was frequent
        lower = lowered_by("held_top" if statistic is Statistic.TOP else "held_list")
        return BoundAggregate(name, STRING, tuple(parts), lower, PairsOf(types[0]), f"{name}({k}, {{}})")

    return bind


_ORDERED = "a number, a DATE or a TIMESTAMP"
_NUMBER = "a number"
_ANYTHING = "any type"
COUNT_DISTINCT = AggregateFunction("COUNT", (1, 1), _distinct("COUNT", Structure.BAG, Statistic.DISTINCT), _ANYTHING)

HOLISTIC: dict[str, AggregateFunction] = {
    function.name: function
    for function in (
        AggregateFunction("MEDIAN", (1, 1), _median, _NUMBER),
        AggregateFunction("QUANTILE", (2, 2), _element("QUANTILE", Statistic.RANK), _ORDERED, _FRACTION),
        AggregateFunction("PERCENTILE_CONT", (2, 2), _between("PERCENTILE_CONT"), _NUMBER, _FRACTION),
        AggregateFunction(
            "PERCENTILE_DISC", (2, 2), _element("PERCENTILE_DISC", Statistic.DISCRETE), _ORDERED, _FRACTION
        ),
        AggregateFunction("TOP", (2, 2), _list("TOP", Structure.BAG, Statistic.TOP), _ANYTHING, _COUNT),
        AggregateFunction(
            "FREQUENT", (2, 2), _list("FREQUENT", Structure.FREQUENT, Statistic.FREQUENT), _ANYTHING, _COUNT
        ),
        AggregateFunction(
            "APPROX_COUNT_DISTINCT",
            (1, 1),
            _distinct("APPROX_COUNT_DISTINCT", Structure.HLL, Statistic.ABOUT_DISTINCT),
            _ANYTHING,
        ),
        AggregateFunction("APPROX_QUANTILE", (2, 2), _about_quantile, _NUMBER, _FRACTION),
        AggregateFunction(
            "APPROX_TOP", (2, 2), _list("APPROX_TOP", Structure.ITEMS, Statistic.ABOUT_TOP), _ANYTHING, _COUNT
        ),
    )
}
