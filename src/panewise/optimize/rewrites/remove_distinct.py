"""Removes a DISTINCT that changes nothing: its input has no duplicates, or an operator above removes them.

    SELECT DISTINCT k, MAX(v) FROM ... GROUP BY k     ->  SELECT k, MAX(v) FROM ... GROUP BY k
    SELECT DISTINCT k FROM a EXCEPT SELECT k FROM b   ->  SELECT k FROM a EXCEPT SELECT k FROM b
    SELECT DISTINCT k FROM a UNION SELECT k FROM b    ->  SELECT k FROM a UNION SELECT k FROM b

It also applies over EXCEPT and over another DISTINCT, if only rows were left out in between. A DISTINCT below another
operator may still be worth its cost, because fewer rows go on. The cost of the plan decides.
"""

from __future__ import annotations

from collections.abc import Iterator

from panewise.language.expressions import ColumnRef
from panewise.optimize.rewrites.exists_keys import EXISTS
from panewise.plan.nodes import Aggregate, Distinct, Filter, Negate, Node, Project, Union


def remove_distinct(node: Node) -> Iterator[Node]:
    """The node without a DISTINCT at its top or directly below."""
    match node:
        case Distinct(input=below) if _has_no_duplicates(below):
            yield below
        case Distinct(input=Union(left=left, right=right, kind=kind)):
            for first, second in _without(left, right):
                yield Distinct(Union(first, second, kind))
        case Negate(left=left, right=right, kind="EXCEPT"):
            for first, second in _without(left, right):
                yield Negate(first, second, "EXCEPT")


def _without(left: Node, right: Node) -> Iterator[tuple[Node, Node]]:
    if isinstance(left, Distinct) and isinstance(right, Distinct):
        yield left.input, right.input
    if isinstance(left, Distinct):
        yield left.input, right
    if isinstance(right, Distinct):
        yield left, right.input


def _has_no_duplicates(node: Node) -> bool:
    match node:
        case Distinct() | Negate(kind="EXCEPT"):
            return True
        case Filter(input=below):
            return _has_no_duplicates(below)
        case Negate(left=left, kind=kind):
            return kind in EXISTS and _has_no_duplicates(left)
        case Project(input=below, items=items):
            shown = {item.expression.name for item in items if isinstance(item.expression, ColumnRef)}
            groups = below.input if isinstance(below, Filter) else below
            if isinstance(groups, Aggregate):
                return {f"key_{i}" for i in range(len(groups.keys))} <= shown
            return _has_no_duplicates(below) and set(below.schema.names) <= shown
    return False
