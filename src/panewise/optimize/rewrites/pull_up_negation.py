"""Moves [NOT] EXISTS above the join that reads it (update pattern simplification).

    (a NOT EXISTS c) JOIN b  ->  (a JOIN b) NOT EXISTS c

The join below is then WEAK instead of STRICT: it needs no log of results, and no negative row passes through it (Golab
2006, section 3.5.3, figure 3.5). This pays if many rows end early and the join does not multiply the rows that are
held.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from panewise.optimize.rewrites.exists_keys import EXISTS
from panewise.plan.nodes import Join, Negate, Node


def pull_up_negation(node: Node) -> Iterator[Node]:
    """For each input of a join that is a negation, the plan with that negation above the join."""
    if not isinstance(node, Join):
        return
    for place, part in enumerate(node.inputs):
        if isinstance(part, Negate) and part.kind in EXISTS:
            inputs = (*node.inputs[:place], part.left, *node.inputs[place + 1 :])
            yield replace(part, left=replace(node, inputs=inputs))
