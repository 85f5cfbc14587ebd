"""Divides the WHERE inside [NOT] EXISTS into selections and the keys that relate the two sides.

A conjunct that reads only inner inputs selects their rows. Every other conjunct is an equality of an outer with an
inner expression; `plan/supported/supported_inputs.py` refuses all others.
"""

from __future__ import annotations

from collections.abc import Iterable

from panewise.language.expressions import Call, Expression
from panewise.plan.expressions.conjunctions import conjunction, conjuncts
from panewise.plan.inputs import source_names
from panewise.plan.nodes import Filter, Join, Node, Project

EXISTS = ("EXISTS", "NOT EXISTS")
Key = tuple[Expression, Expression]


def conditions(right: Node) -> list[Expression]:
    """All conjuncts of the WHERE inside EXISTS."""
    assert isinstance(right, Project), right
    below = right.input
    condition = below.predicate if isinstance(below, Filter) else below.condition if isinstance(below, Join) else None
    return conjuncts(condition)


def keys(right: Node) -> list[Key]:
    """The equalities between the two sides, as pairs (outer, inner)."""
    inner = source_names(right)
    found = []
    for part in conditions(right):
        if not outer_sources(part, inner):
            continue
        assert isinstance(part, Call) and part.function == "eq", part
        outside, inside = part.arguments
        found.append((inside, outside) if sources(outside) & inner else (outside, inside))
    return found


def with_conditions(right: Node, more: Iterable[Expression]) -> Node:
    """The right side of EXISTS with more conditions, which read only inner inputs."""
    assert isinstance(right, Project), right
    below = right.input
    if isinstance(below, Join):
        changed: Node = Join(below.inputs, conjunction([*conjuncts(below.condition), *more]), below.kinds)
    elif isinstance(below, Filter):
        changed = Filter(below.input, _all([*conjuncts(below.predicate), *more]))
    else:
        changed = Filter(below, _all(list(more)))
    return Project(changed, right.items)


def sources(expression: Expression) -> set[str]:
    """The aliases that an expression reads."""
    return {column.source for column in expression.columns() if column.source is not None}


def outer_sources(expression: Expression, inner: set[str]) -> set[str]:
    return sources(expression) - inner


def _all(parts: list[Expression]) -> Expression:
    found = conjunction(parts)
    assert found is not None
    return found
