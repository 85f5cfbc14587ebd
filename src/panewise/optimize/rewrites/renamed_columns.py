"""Replaces columns in expressions, and checks which expressions may move across DISTINCT, GROUP BY and EXCEPT.

These operators show one row for all equal rows. Equal values are identical, except for floating-point numbers: 0.0 and
-0.0 are equal, but 1 / x tells them apart. An expression that can tell equal rows apart must not move.
"""

from __future__ import annotations

from collections.abc import Mapping

from panewise.language.expressions import Call, ColumnRef, Expression, rewritten

_COMPARISONS = {"eq", "ne", "lt", "le", "gt", "ge", "is_null", "is_not_null", "in"}
_FLOATING = {"FLOAT", "DOUBLE"}


def substituted(expression: Expression, by_name: Mapping[str, Expression]) -> Expression:
    """The expression with columns replaced by name, whatever input they are qualified with."""

    def change(part: Expression) -> Expression | None:
        return by_name.get(part.name) if isinstance(part, ColumnRef) else None

    return rewritten(expression, change)


def exact(expression: Expression) -> bool:
    """Whether equal values of the expression's type are identical."""
    return expression.type.name not in _FLOATING


def same_for_equal_rows(expression: Expression) -> bool:
    """Whether the expression gives the same for equal rows: it only returns or compares floating-point columns.

    >>> from panewise.schema import BIGINT, DOUBLE
    >>> from panewise.language.expressions import Literal
    >>> from panewise.language.functions import resolve
    >>> price = ColumnRef(DOUBLE, "price")
    >>> same_for_equal_rows(resolve("gt", (price, Literal(DOUBLE, 1.0)))), same_for_equal_rows(resolve("neg", (price,)))
    (True, False)
    """
    if isinstance(expression, ColumnRef):
        return True
    if isinstance(expression, Call) and expression.function in _COMPARISONS:
        return all(isinstance(part, ColumnRef) or _reads_exact(part) for part in expression.arguments)
    if isinstance(expression, Call) and expression.function in ("and", "or", "not"):
        return all(same_for_equal_rows(part) for part in expression.arguments)
    return _reads_exact(expression)


def _reads_exact(expression: Expression) -> bool:
    return all(exact(column) for column in expression.columns())
