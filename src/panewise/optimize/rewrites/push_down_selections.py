"""Moves selections down as far as possible, so that no row is kept, joined or counted that is dropped later.

    SELECT k FROM (SELECT DISTINCT k, v FROM t) WHERE v > 3  ->  SELECT k FROM (SELECT DISTINCT k, v FROM t WHERE v > 3)

    WHERE above   moves to
    ------------- ------------------------------------------------------------------------------------------------
    items         below, with the items in place of their names
    join          the operator below the only input that it reads; otherwise the join's condition
    DISTINCT      below
    [NOT] EXISTS  the left side
    EXCEPT [ALL]  both sides
    UNION         both sides
    GROUP BY      below, if it reads only keys (a HAVING that could have been a WHERE)

Update pattern simplification also moves weakest non-monotonic operators down (Golab 2006, section 3.5.3). A selection
on a window stays in the join's condition, because the join drops such rows before it holds them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from panewise.language.expressions import ColumnRef, Expression
from panewise.optimize.rewrites.exists_keys import EXISTS, sources
from panewise.optimize.rewrites.renamed_columns import same_for_equal_rows, substituted
from panewise.plan.expressions.conjunctions import conjunction, conjuncts
from panewise.plan.inputs import joined_as
from panewise.plan.nodes import Aggregate, Distinct, Filter, Join, Negate, Node, Project, Scan, Union, WindowOf

Parts = Sequence[Expression]


def push_down_selections(node: Node) -> Iterator[Node]:
    """The node with its selection, or the selections in its join's condition, moved down."""
    if isinstance(node, Filter):
        changed = selected(node.input, conjuncts(node.predicate))
    elif isinstance(node, Join):
        changed = _of_join(replace(node, condition=None), conjuncts(node.condition))
    else:
        return
    if changed != node:
        yield changed


def selected(node: Node, parts: Parts) -> Node:
    """A plan of the node's rows for which all parts are true. The parts refer to its columns."""
    if not parts:
        return node
    match node:
        case Filter(input=below, predicate=predicate):
            return selected(below, list(dict.fromkeys([*conjuncts(predicate), *parts])))
        case Project(input=below, items=items):
            by_name = {item.name: item.expression for item in items}
            return Project(selected(below, [substituted(part, by_name) for part in parts]), items)
        case Join():
            return _of_join(node, parts)
        case Distinct(input=below):
            moved, kept = _divided(parts)
            return _filtered(Distinct(selected(below, moved)), kept)
        case Negate(left=left, right=right, kind=kind) if kind in EXISTS:
            return Negate(selected(left, parts), right, kind)
        case Negate(left=left, right=right, kind=kind):
            moved, kept = _divided(parts)
            return _filtered(
                Negate(selected(left, moved), selected(right, for_right_side(moved, left, right)), kind), kept
            )
        case Union(left=left, right=right, kind=kind):
            return Union(selected(left, parts), selected(right, for_right_side(parts, left, right)), kind)
        case Aggregate():
            return _of_groups(node, parts)
    return _filtered(node, parts)


def for_right_side(parts: Parts, left: Node, right: Node) -> list[Expression]:
    """The parts with the columns of the left side replaced by those of the right side at the same positions."""
    pairs = zip(left.schema, right.schema, strict=True)
    by_name = {first.name: ColumnRef(second.type, second.name) for first, second in pairs}
    return [substituted(part, by_name) for part in parts]


def _of_join(node: Join, parts: Parts) -> Node:
    inputs = list(node.inputs)
    places = {joined_as(part): i for i, part in enumerate(inputs) if not isinstance(part, WindowOf | Scan)}
    own: dict[int, list[Expression]] = {}
    stays = conjuncts(node.condition)
    for part in parts:
        read = sources(part)
        place = places.get(next(iter(read))) if len(read) == 1 else None
        if place is not None:
            own.setdefault(place, []).append(part)
        elif part not in stays:
            stays.append(part)
    for place, moved in own.items():
        inputs[place] = selected(inputs[place], moved)
    return Join(tuple(inputs), conjunction(stays), node.kinds)


def _of_groups(node: Aggregate, parts: Parts) -> Node:
    """Moves the parts that read at least one key and nothing else. They hold for all rows of a group or for none."""
    by_name = {f"key_{i}": key for i, key in enumerate(node.keys)}
    moved: list[Expression] = []
    kept: list[Expression] = []
    for part in parts:
        names = {column.name for column in part.columns()}
        whole = bool(names) and names <= by_name.keys() and same_for_equal_rows(part)
        (moved if whole else kept).append(part)
    below = selected(node.input, [substituted(part, by_name) for part in moved])
    return _filtered(Aggregate(below, node.keys, node.aggregates), kept)


def _divided(parts: Parts) -> tuple[list[Expression], list[Expression]]:
    moved = [part for part in parts if same_for_equal_rows(part)]
    return moved, [part for part in parts if part not in moved]


def _filtered(node: Node, parts: Parts) -> Node:
    predicate = conjunction(parts)
    return node if predicate is None else Filter(node, predicate)
