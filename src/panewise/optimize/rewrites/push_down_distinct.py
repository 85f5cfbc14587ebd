"""Adds DISTINCT below joins and EXISTS, so that fewer rows with fewer columns are joined.

    SELECT DISTINCT a.k FROM a, b WHERE a.k = b.k
    ->  SELECT DISTINCT a.k FROM (SELECT DISTINCT k FROM a) a, (SELECT DISTINCT k FROM b) b WHERE a.k = b.k

The columns below are those that the items, the join's condition and the keys of EXISTS read. Selections of single
inputs move below the new DISTINCT. The upper DISTINCT stays, so that the answer is the same set.

Never below a join with a non-retroactive table: delta-star hands a value on from one row to the next, and the join
would then meet the table's version at the later instant. Each input of a join is tried by itself, and all together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from panewise.language.expressions import Expression, Literal
from panewise.language.statements import SelectItem
from panewise.optimize.rewrites.exists_keys import EXISTS, keys, sources
from panewise.optimize.rewrites.push_down_selections import selected
from panewise.optimize.rewrites.renamed_columns import same_for_equal_rows
from panewise.plan.expressions.conjunctions import conjunction, conjuncts
from panewise.plan.inputs import is_table, joined_as
from panewise.plan.nodes import Aggregate, Distinct, Filter, Join, Negate, Node, Project
from panewise.schema import INT

NOTHING = SelectItem("nothing", Literal(INT, 1))
"""The item of an input of which no column is read. A batch without columns would have no length."""


@dataclass(frozen=True)
class _DistinctPlace:
    """A join or an input of EXISTS, with all expressions that are read above it."""

    node: Node
    read: tuple[Expression, ...]


def push_down_distinct(node: Node) -> Iterator[Node]:
    """The plans with further DISTINCTs below a DISTINCT, on the inputs that can have one."""
    if not isinstance(node, Distinct) or not isinstance(node.input, Project):
        return
    project = node.input
    for below in _with_distinct(_DistinctPlace(project.input, tuple(item.expression for item in project.items))):
        yield Distinct(Project(below, project.items))


def _with_distinct(place: _DistinctPlace) -> Iterator[Node]:
    match place.node:
        case Join(inputs=inputs) if not any(is_table(part) and not part.retroactive for part in inputs):
            yield from _inputs_with_distinct(place.node, place.read)
        case Filter(input=below, predicate=predicate) if not isinstance(below, Aggregate):
            for changed in _with_distinct(_DistinctPlace(below, (*place.read, predicate))):
                yield Filter(changed, predicate)
        case Negate(left=left, right=right, kind=kind) if kind in EXISTS:
            read = (*place.read, *(outer for outer, _ in keys(right)))
            alone = None if _holds_join(left) else _distinct(left, read)
            for changed in chain(_with_distinct(_DistinctPlace(left, read)), [] if alone is None else [alone]):
                yield Negate(changed, right, kind)


def _holds_join(node: Node) -> bool:
    while not isinstance(node, Join):
        if isinstance(node, Negate):
            node = node.left
        elif isinstance(node, Filter):
            node = node.input
        else:
            return False
    return True


def _inputs_with_distinct(node: Join, read: Sequence[Expression]) -> Iterator[Node]:
    """The join with DISTINCT on all inputs, then on each input alone."""
    names = [joined_as(part) for part in node.inputs]
    own: dict[str, list[Expression]] = {name: [] for name in names}
    between: list[Expression] = []
    for conjunct in conjuncts(node.condition):
        of = sources(conjunct)
        single = len(of) == 1 and not is_table(node.inputs[names.index(next(iter(of)))])
        (own[next(iter(of))] if single else between).append(conjunct)
    asked = [*read, *between]
    possible: dict[int, Node] = {}
    for place, (name, part) in enumerate(zip(names, node.inputs, strict=True)):
        if is_table(part) or isinstance(part, Distinct):
            continue
        reads_it = [expression for expression in asked if name in sources(expression)]
        changed = _distinct(selected(part, own[name]), reads_it, name)
        if changed is not None:
            possible[place] = changed
    chosen = [list(possible)] if len(possible) > 1 else []
    for places in [*chosen, *([place] for place in possible)]:
        kept = [conjunct for place, name in enumerate(names) if place not in places for conjunct in own[name]]
        inputs = tuple(possible[i] if i in places else part for i, part in enumerate(node.inputs))
        yield replace(node, inputs=inputs, condition=conjunction([*kept, *between]))


def _distinct(node: Node, read: Sequence[Expression], name: str | None = None) -> Node | None:
    """DISTINCT over the columns that are read; None if an expression could tell equal rows apart."""
    if not all(map(same_for_equal_rows, read)) or isinstance(node, Distinct):
        return None
    columns = dict.fromkeys(
        column for expression in read for column in expression.columns() if name is None or column.source == name
    )
    items = {column.name: SelectItem(column.name, column) for column in columns}
    return Distinct(Project(node, tuple(items.values()) or (NOTHING,)))
