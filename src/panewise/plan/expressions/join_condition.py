"""Divides the condition of a join into filters of single inputs, equalities for indices, and the rest.

The condition is a conjunction. A conjunct that reads at most one input filters that input's rows before they are held.
A conjunct `a = b` is an equality if its sides have one type and read one input each, which must differ. Equalities that
share a side form one class (a = b and b = c: rows match if all three are equal). Classes over the same inputs are one
class with a key of several columns. The other conjuncts are the residual, which is evaluated on candidate results.

    R.x = S.x AND S.x = T.x AND R.y = S.y + 1 AND R.z > 3 AND S.u < T.v
        class {R.x, S.x, T.x}, class {R.y, S.y + 1}; filter of R: R.z > 3; residual: S.u < T.v

Golab and Özsu 2003, section 3.5 (hash and nested loops in one operator); Golab 2006, section 5.2.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from panewise.language.expressions import Call, ColumnRef, Expression
from panewise.plan.expressions.conjunctions import conjunction, conjuncts
from panewise.schema import BOOLEAN, DataType

Term = tuple[int, Expression]  # the number of an input, and an expression over it


@dataclass(frozen=True)
class KeyClass:
    """Rows match if their keys are equal. The key of an input consists of expressions over its columns."""

    keys: dict[int, tuple[Expression, ...]]

    @property
    def types(self) -> tuple[DataType, ...]:
        return tuple(expression.type for expression in next(iter(self.keys.values())))


@dataclass(frozen=True)
class JoinCondition:
    """The parts of a condition. `filters` has one filter for each input; None always holds."""

    filters: tuple[Expression | None, ...]
    classes: tuple[KeyClass, ...]
    residual: Expression | None


def taken_apart(schemas: Sequence[pa.Schema], condition: Expression | None) -> JoinCondition:
    """The parts of the condition of a join of inputs with these schemas."""
    owners = {name: i for i, schema in enumerate(schemas) for name in schema.names}
    assert len(owners) == sum(len(schema) for schema in schemas), "columns of joined inputs have different names"
    filters: list[list[Expression]] = [[] for _ in schemas]
    equalities: list[tuple[Term, Term]] = []
    residual: list[Expression] = []
    for conjunct in conjuncts(condition):
        inputs = _inputs(conjunct, owners)
        equality = _equality(conjunct, owners)
        if len(inputs) <= 1:
            filters[min(inputs, default=0)].append(conjunct)
        elif equality is not None:
            equalities.append(equality)
        else:
            residual.append(conjunct)
    classes = _classes(equalities, filters)
    return JoinCondition(tuple(map(conjunction, filters)), classes, conjunction(residual))


def resolved(column: ColumnRef, names: Iterator[str] | Sequence[str] | dict[str, int]) -> str:
    """The name of the column in a batch: `source.name` if that is in `names`, otherwise `name`."""
    qualified = f"{column.source}.{column.name}"
    return qualified if column.source is not None and qualified in names else column.name


def _inputs(expression: Expression, owners: dict[str, int]) -> set[int]:
    return {owners[resolved(column, owners)] for column in expression.columns()}


def _equality(conjunct: Expression, owners: dict[str, int]) -> tuple[Term, Term] | None:
    if not (isinstance(conjunct, Call) and conjunct.function == "eq"):
        return None
    left, right = conjunct.arguments
    left_inputs, right_inputs = _inputs(left, owners), _inputs(right, owners)
    if len(left_inputs) != 1 or len(right_inputs) != 1 or left_inputs == right_inputs or left.type != right.type:
        return None
    return (left_inputs.pop(), left), (right_inputs.pop(), right)


def _classes(equalities: Sequence[tuple[Term, Term]], filters: list[list[Expression]]) -> tuple[KeyClass, ...]:
    """The classes. If a class has two terms of one input, their equality is added to the input's filters."""
    groups: list[list[Term]] = []
    for pair in equalities:
        touched = [group for group in groups if any(term in group for term in pair)]
        merged = list(dict.fromkeys(term for group in (*touched, list(pair)) for term in group))
        groups = [group for group in groups if group not in touched] + [merged]
    composite: dict[frozenset[int], dict[int, tuple[Expression, ...]]] = {}
    for group in groups:
        firsts: dict[int, Expression] = {}
        for i, expression in group:
            if i in firsts:
                filters[i].append(Call(BOOLEAN, "eq", (firsts[i], expression)))
            else:
                firsts[i] = expression
        keys = composite.setdefault(frozenset(firsts), dict.fromkeys(sorted(firsts), ()))
        for i, expression in firsts.items():
            keys[i] = (*keys[i], expression)
    return tuple(KeyClass(keys) for keys in composite.values())
