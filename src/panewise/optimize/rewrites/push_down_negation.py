"""Moves [NOT] EXISTS below a join, to the input that its keys read. Fewer rows are joined, but some of them end early.

    (a JOIN b) NOT EXISTS c  ->  (a NOT EXISTS c) JOIN b           if the keys of c read only a

The join above becomes STRICT: it keeps its results and removes those of rows that the negation hides. This pays if the
join has many results and few rows pass the negation (Golab 2006, section 3.5.3 and figure 3.5). Never below a join with
a table: when a row ends, the table rows that it met may be gone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from panewise.optimize.rewrites.exists_keys import EXISTS, keys, sources
from panewise.plan.inputs import is_table, joined_as
from panewise.plan.nodes import Join, Negate, Node


def push_down_negation(node: Node) -> Iterator[Node]:
    """The plan with the negation on the input of the join that its keys read."""
    if not isinstance(node, Negate) or node.kind not in EXISTS:
        return
    related = keys(node.right)
    read = {source for outer, _ in related for source in sources(outer)}
    if len(read) == 1:
        changed = _pushed(node.left, node, next(iter(read)))
        if changed is not None:
            yield changed


def _pushed(below: Node, negation: Negate, name: str) -> Node | None:
    if isinstance(below, Negate) and below.kind in EXISTS:
        changed = _pushed(below.left, negation, name)
        return None if changed is None else replace(below, left=changed)
    if not isinstance(below, Join) or any(is_table(part) for part in below.inputs):
        return None
    inputs = tuple(replace(negation, left=part) if joined_as(part) == name else part for part in below.inputs)
    return replace(below, inputs=inputs)
