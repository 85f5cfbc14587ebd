"""Adds selections that follow from others.

    WHERE a.k = b.k AND a.k > 3  ->  WHERE a.k = b.k AND a.k > 3 AND b.k > 3

    join            for every column that is equal to the selected one
    [NOT] EXISTS    for the key of the right side: rows that no left row looks up need not be kept
    EXCEPT [ALL]    for the right side's item at the position of the selected one

Only for selections that read one column, of a type whose equal values are identical (`renamed_columns.py`).
"""

from __future__ import annotations

from collections.abc import Iterator

from panewise.language.expressions import Call, ColumnRef, Expression, rewritten
from panewise.optimize.rewrites.exists_keys import EXISTS, conditions, keys, with_conditions
from panewise.optimize.rewrites.push_down_selections import selected
from panewise.optimize.rewrites.renamed_columns import exact
from panewise.plan.expressions.canonical import canonical
from panewise.plan.expressions.conjunctions import conjunction, conjuncts
from panewise.plan.expressions.written_names import written
from panewise.plan.inputs import source_names
from panewise.plan.nodes import Distinct, Filter, Join, Negate, Node, Project, WindowOf


def infer_selections(node: Node) -> Iterator[Node]:
    """The node with all selections that follow from its own."""
    match node:
        case Join():
            more = _of_join(node)
            if more:
                condition = conjunction([*conjuncts(node.condition), *more])
                yield Join(node.inputs, condition, node.kinds)
        case Negate(left=left, right=right, kind=kind) if kind in EXISTS:
            more = _of_keys(left, right)
            if more:
                yield Negate(left, with_conditions(right, more), kind)
        case Negate(left=left, right=right, kind=kind):
            changed = selected(right, _of_items(left, right))
            if changed != right:
                yield Negate(left, changed, kind)


def known_conditions(node: Node) -> list[Expression]:
    """The conditions that are true for all rows of a node, over the columns of its inputs."""
    match node:
        case Filter(input=below, predicate=predicate):
            return [_with_source(part, below) for part in [*conjuncts(predicate), *known_conditions(below)]]
        case Join(inputs=inputs, condition=condition):
            return [*conjuncts(condition), *(part for child in inputs for part in known_conditions(child))]
        case Negate(left=left, kind=kind) if kind in EXISTS:
            return known_conditions(left)
    return []


def _of_join(node: Join) -> list[Expression]:
    parts, own = known_conditions(node), source_names(node)
    classes: list[set[ColumnRef]] = []
    for part in parts:
        pair = _equal_columns(part)
        if pair is not None:
            touched = [group for group in classes if group & pair]
            classes = [group for group in classes if group not in touched] + [pair.union(*touched)]
    seen = {canonical(part) for part in parts}
    found = []
    for part in parts:
        column = _only_column(part)
        group = next((group for group in classes if column in group), set())
        # Inside EXISTS a column may be equal to one of the outer side. Nothing can be added there.
        for other in sorted((other for other in group if other.source in own), key=written):
            assert column is not None
            follows = canonical(_with_column(part, column, other))
            if follows not in seen:
                seen.add(follows)
                found.append(follows)
    return found


def _of_keys(left: Node, right: Node) -> list[Expression]:
    seen = {canonical(part) for part in conditions(right)}
    found = []
    for outer, inner in keys(right):
        if not isinstance(outer, ColumnRef) or not isinstance(inner, ColumnRef) or not exact(outer):
            continue
        for part in known_conditions(left):
            follows = canonical(_with_column(part, outer, inner)) if _only_column(part) == outer else None
            if follows is not None and follows not in seen:
                seen.add(follows)
                found.append(follows)
    return found


def _of_items(left: Node, right: Node) -> list[Expression]:
    """The conditions on items of the left side, for the items of the right side at the same positions."""
    project = left.input if isinstance(left, Distinct) else left
    if not isinstance(project, Project):
        return []
    found = []
    for item, column in zip(project.items, right.schema, strict=True):
        expression = _with_source(item.expression, project.input)
        if not isinstance(expression, ColumnRef) or not exact(expression):
            continue
        other = ColumnRef(column.type, column.name)
        found += [
            _with_column(part, expression, other)
            for part in known_conditions(project.input)
            if _only_column(part) == expression
        ]
    return found


def _equal_columns(part: Expression) -> set[ColumnRef] | None:
    if not isinstance(part, Call) or part.function != "eq":
        return None
    left, right = part.arguments
    if not isinstance(left, ColumnRef) or not isinstance(right, ColumnRef) or left.type != right.type:
        return None
    return {left, right} if exact(left) and left.source != right.source else None


def _only_column(part: Expression) -> ColumnRef | None:
    columns = part.columns()
    return columns[0] if len(columns) == 1 else None


def _with_column(part: Expression, column: ColumnRef, other: ColumnRef) -> Expression:
    return rewritten(part, lambda found: other if found == column else None)


def _with_source(expression: Expression, node: Node) -> Expression:
    """The expression with columns qualified by the name of the node's input, if it has only one."""
    while isinstance(node, Filter) or (isinstance(node, Negate) and node.kind in EXISTS):
        node = node.input if isinstance(node, Filter) else node.left
    if not isinstance(node, WindowOf):
        return expression
    name = node.source

    def change(part: Expression) -> Expression | None:
        return ColumnRef(part.type, part.name, name) if isinstance(part, ColumnRef) and part.source is None else None

    return rewritten(expression, change)
