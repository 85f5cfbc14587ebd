"""Typed expressions, as the binder returns them for the scalar parts of a statement.

They are immutable and hashable. Expressions that are written differently and mean the same are equal: names are spelled
as declared, each operator has one canonical function name (`functions.py` lists them), types are resolved, and every
implicit conversion is an explicit Cast.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from decimal import Decimal
from functools import reduce

from panewise.schema import DataType

CHAIN_MAX = 32  # operands of AND or OR in one chain
Value = bool | int | float | str | Decimal | date | datetime | None


@dataclass(frozen=True)
class Expression:
    """A value per row, with a type."""

    type: DataType

    def children(self) -> tuple[Expression, ...]:
        return ()

    def walk(self) -> Iterator[Expression]:
        yield self
        for child in self.children():
            yield from child.walk()

    def columns(self) -> tuple[ColumnRef, ...]:
        """The distinct columns that the expression reads, in order of appearance."""
        return tuple(dict.fromkeys(node for node in self.walk() if isinstance(node, ColumnRef)))

    def aggregates(self) -> tuple[AggregateCall, ...]:
        return tuple(dict.fromkeys(node for node in self.walk() if isinstance(node, AggregateCall)))


@dataclass(frozen=True)
class ColumnRef(Expression):
    """A column of an input. `source` is the input's alias if there are several inputs."""

    name: str
    source: str | None = None


@dataclass(frozen=True)
class Literal(Expression):
    """A constant, or NULL of a type. TIMESTAMP and DATE values are microseconds and days since the epoch."""

    value: Value

    def __post_init__(self) -> None:
        # 1, 1.0 and True are equal in Python; the type field keeps such literals apart.
        assert self.type is not None


@dataclass(frozen=True)
class Call(Expression):
    """A scalar function or operator by its canonical name."""

    function: str
    arguments: tuple[Expression, ...]

    def children(self) -> tuple[Expression, ...]:
        return self.arguments


@dataclass(frozen=True)
class Case(Expression):
    """CASE WHEN condition THEN value ... ELSE default END."""

    branches: tuple[tuple[Expression, Expression], ...]
    default: Expression

    def children(self) -> tuple[Expression, ...]:
        return (*(part for branch in self.branches for part in branch), self.default)


@dataclass(frozen=True)
class Cast(Expression):
    """A conversion under TRY rules: a value that does not fit becomes NULL."""

    operand: Expression

    def children(self) -> tuple[Expression, ...]:
        return (self.operand,)


@dataclass(frozen=True)
class AggregateCall(Expression):
    """An aggregate over the rows of a group. Aggregates are never nested. COUNT(*) has no arguments."""

    function: str
    arguments: tuple[Expression, ...]
    distinct: bool = False

    def children(self) -> tuple[Expression, ...]:
        return self.arguments


def chained(parts: Sequence[Expression], both: Callable[[Expression, Expression], Expression]) -> Expression:
    """The parts under AND or OR: a chain from the left or, if there are many, a balanced tree of chains.

    The tree is shallow because every walk down an expression uses Python's stack.
    """
    if len(parts) > CHAIN_MAX:
        middle = len(parts) // 2
        return both(chained(parts[:middle], both), chained(parts[middle:], both))
    return reduce(both, parts)


def rewritten(expression: Expression, change: Callable[[Expression], Expression | None]) -> Expression:
    """The expression with `change` applied top-down. If `change` returns None for a node, its children are visited."""
    changed = change(expression)
    if changed is not None:
        return changed
    match expression:
        case Call() | AggregateCall():
            return replace(expression, arguments=tuple(rewritten(a, change) for a in expression.arguments))
        case Cast():
            return replace(expression, operand=rewritten(expression.operand, change))
        case Case():
            return replace(
                expression,
                branches=tuple((rewritten(c, change), rewritten(v, change)) for c, v in expression.branches),
                default=rewritten(expression.default, change),
            )
        case _:
            return expression
