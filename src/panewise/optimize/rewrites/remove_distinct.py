"""DISTINCT that changes nothing: over what has no duplicates, or below what removes them anyway.

    DISTINCT over EXCEPT, over DISTINCT of which only rows were left out since, over groups with all their keys
    DISTINCT on a side of EXCEPT; on a side of a UNION below DISTINCT

A DISTINCT below another operator may still be worth its cost, because less goes on: which, the cost says.
"""

from __future__ import annotations

from collections.abc import Iterator

from panewise.language.expressions import ColumnRef
from panewise.optimize.rewrites.exists_keys import EXISTS
from panewise.plan.nodes import Aggregate, Distinct, Filter, Negate, Node, Project, Union


def remove_distinct(node: Node) -> Iterator[Node]:
    """The node without a DISTINCT, here or directly below."""
    match node:
        case Distinct(input=below) if _each_once(below):
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


def _each_once(node: Node) -> bool:
    match node:
        case Distinct() | Negate(kind="EXCEPT"):
            return True
        case Filter(input=below):
            return _each_once(below)
        case Negate(left=left, kind=kind):
            return kind in EXISTS and _each_once(left)
        case Project(input=below, items=items):
            shown = {item.expression.name for item in items if isinstance(item.expression, ColumnRef)}
            groups = below.input if isinstance(below, Filter) else below
            if isinstance(groups, Aggregate):
                return {f"key_{i}" for i in range(len(groups.keys))} <= shown
            return _each_once(below) and set(below.schema.names) <= shown
    return False
