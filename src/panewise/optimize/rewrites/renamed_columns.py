"""Columns under other names, and what may be asked of a row that stands for others.

DISTINCT, GROUP BY and EXCEPT show one row for all that are equal. Equal values are the same value, but for
floating-point numbers: the two zeros are equal, and 1 / x tells them apart. What moves across such an
operator must not.
"""

from __future__ import annotations

from collections.abc import Mapping

from panewise.language.expressions import Call, ColumnRef, Expression, rewritten

_COMPARISONS = {"eq", "ne", "lt", "le", "gt", "ge", "is_null", "is_not_null", "in"}
_FLOATING = {"FLOAT", "DOUBLE"}


def substituted(expression: Expression, by_name: Mapping[str, Expression]) -> Expression:
    """With what stands for each of its columns, whatever input they are said to belong to."""

    def change(part: Expression) -> Expression | None:
        return by_name.get(part.name) if isinstance(part, ColumnRef) else None

    return rewritten(expression, change)


def exact(expression: Expression) -> bool:
    """Whether two values that are equal can never be told apart by a column of this type."""
    return expression.type.name not in _FLOATING


def same_for_equal_rows(expression: Expression) -> bool:
    """Whether it says the same of rows that are equal: it reads floating-point columns as they are or compares them.

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
