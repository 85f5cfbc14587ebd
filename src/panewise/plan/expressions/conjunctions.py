"""Splits a condition into the parts that must all be true, and joins such parts."""

from __future__ import annotations

from collections.abc import Sequence

from panewise.language.expressions import Call, Expression, Literal, chained
from panewise.schema import BOOLEAN


def conjuncts(condition: Expression | None) -> list[Expression]:
    """The conjuncts of a condition; none if it is always true."""
    if condition is None or (isinstance(condition, Literal) and condition.value is True):
        return []
    if isinstance(condition, Call) and condition.function == "and":
        return [part for argument in condition.arguments for part in conjuncts(argument)]
    return [condition]


def conjunction(parts: Sequence[Expression]) -> Expression | None:
    """The conjuncts joined by AND; None if there are none."""
    return chained(parts, _both) if parts else None


def _both(left: Expression, right: Expression) -> Expression:
    return Call(BOOLEAN, "and", (left, right))
