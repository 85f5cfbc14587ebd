"""Finds the condition in HAVING that a collective index can use: an aggregate between constants.

Each conjunct of HAVING that compares COUNT, SUM of integers, MAX or MIN with a constant gives a bound. Bounds on one
aggregate are intersected. The index proposes groups, and the whole HAVING is checked on each of them. So a bound may be
wider than the query's condition, but never narrower.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from panewise.aggregates.states import Feed, Operation
from panewise.language.expressions import Call, Cast, ColumnRef, Expression, Literal
from panewise.plan.aggregation import Aggregation, StateKey
from panewise.plan.expressions.conjunctions import conjuncts
from panewise.schema import BIGINT, DATE, DOUBLE, INT, TIMESTAMP
from panewise.temporal import TimeWindow, Window

Bound = int | float | None
EXACT_IN_DOUBLE = 2**52
_SWAPPED = {"gt": "lt", "ge": "le", "lt": "gt", "le": "ge", "eq": "eq"}
_EXTREMES = (Operation.MIN_INT, Operation.MAX_INT, Operation.MIN_FLOAT, Operation.MAX_FLOAT)


@dataclass(frozen=True)
class CollectiveCondition:
    """The aggregate `function`, kept as `state`, is between two inclusive bounds. None means no bound."""

    function: str
    state: StateKey
    least: Bound
    most: Bound
    floats: bool = False

    @property
    def selective(self) -> bool:
        """Whether an index finds the groups without looking at every group that has rows."""
        return self.function in ("MAX", "MIN") or (self.least is not None and self.least > 0)

    def within(self, other: CollectiveCondition) -> CollectiveCondition:
        """The conjunction with another condition on the same aggregate."""
        leasts = [bound for bound in (self.least, other.least) if bound is not None]
        mosts = [bound for bound in (self.most, other.most) if bound is not None]
        return replace(self, least=max(leasts, default=None), most=min(mosts, default=None))

    def __str__(self) -> str:
        parts = [f">= {self.least}"] if self.least is not None else []
        parts += [f"<= {self.most}"] if self.most is not None else []
        return f"{self.function} {' and '.join(parts)}"


def collective_condition(aggregation: Aggregation, window: Window) -> CollectiveCondition | None:
    """The condition in a query's HAVING that a collective index answers best; None if there is none."""
    suffix = isinstance(window, TimeWindow) and window.range_us is not None and not window.offset_us
    if not suffix or not aggregation.keys or aggregation.having is None:
        return None
    if any(not _kept_exactly(key) for key in aggregation.asked):
        return None
    found: dict[StateKey, CollectiveCondition] = {}
    for part in conjuncts(aggregation.having):
        condition = _compared(part, aggregation)
        if condition is not None:
            before = found.get(condition.state)
            found[condition.state] = condition if before is None else before.within(condition)
    return max(found.values(), key=lambda condition: condition.selective, default=None)


def _kept_exactly(key: StateKey) -> bool:
    """Whether collective indices can keep the state: it must be a sum of integers or an extreme of numbers."""
    operation = key.kind.operation
    return key.held is key and (operation in _EXTREMES or (operation is Operation.ADD and not key.kind.float_fields))


def _compared(part: Expression, aggregation: Aggregation) -> CollectiveCondition | None:
    """The condition of a conjunct that compares an aggregate with a constant, on either side; otherwise None."""
    if not isinstance(part, Call) or part.function not in _SWAPPED or len(part.arguments) != 2:
        return None
    left, right = part.arguments
    function = part.function
    if isinstance(left, Literal):
        left, right, function = right, left, _SWAPPED[function]
    if isinstance(left, Cast) and left.type == DOUBLE and left.operand.type in (INT, BIGINT):
        left = left.operand
    if not isinstance(left, ColumnRef) or not left.name.startswith("aggregate_") or not isinstance(right, Literal):
        return None
    blank = _of_aggregate(aggregation, int(left.name.removeprefix("aggregate_")))
    return None if blank is None else _bounded(blank, function, right.value)


def _of_aggregate(aggregation: Aggregation, number: int) -> CollectiveCondition | None:
    bound = aggregation.aggregates[number]
    parts, arguments = aggregation.parts[number], aggregation.arguments[number]
    name = bound.name.upper()
    types = {argument.type for argument in arguments}
    feed = parts[0].kind.feeds[0] if parts[0].kind.feeds else None
    if name == "COUNT" and parts[0].kind.operation is Operation.ADD:
        return CollectiveCondition("COUNT", parts[0], None, None)
    if name == "SUM" and feed is Feed.INTEGER and types <= {INT, BIGINT}:
        return CollectiveCondition("SUM", parts[0], None, None)
    if (
        name in ("MAX", "MIN")
        and feed in (Feed.INTEGER, Feed.FLOAT)
        and types <= {INT, BIGINT, DOUBLE, TIMESTAMP, DATE}
    ):
        return CollectiveCondition(name, parts[0], None, None, feed is Feed.FLOAT)
    return None


def _bounded(blank: CollectiveCondition, function: str, value: object) -> CollectiveCondition | None:
    """The condition with the bounds that a comparison sets; None if they cannot be represented."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    if blank.floats:
        low: Bound = float(value)
        high: Bound = float(value)
    elif isinstance(value, float):
        if abs(value) > EXACT_IN_DOUBLE:
            return None
        low, high = math.floor(value), math.ceil(value)
    else:
        low, high = value, value
        if function == "gt":
            low = value + 1
        elif function == "lt":
            high = value - 1
    if not blank.floats and not (-(2**62) < low < 2**62 and -(2**62) < high < 2**62):  # type: ignore[operator]
        return None
    return replace(
        blank, least=None if function in ("lt", "le") else low, most=None if function in ("gt", "ge") else high
    )
