"""In which orders the joins of a plan begin: `JoinPlan`s of all of its joins.

Where the rate of an input was measured, each new row probes the others in the order that the estimate says is best.
Where nothing was, all rates would be assumed to be the same, which says little: an order then follows equalities as far
as they lead, and takes the lowest number else. What a join measures while it runs may change its orders later
(`reordering.py`). Cost: that of the best orders for joins of three inputs and more, nothing for pairs.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import pyarrow as pa

from panewise.language.expressions import Expression
from panewise.optimize.joins.join_graph import JoinEdge, JoinInput
from panewise.optimize.joins.ordering import best_orders
from panewise.optimize.rewrites.edge_estimates import EdgeEstimate
from panewise.optimize.rewrites.plan_costs import costed
from panewise.optimize.rewrites.statistics import Statistics
from panewise.plan.expressions.conjunctions import conjuncts
from panewise.plan.expressions.join_condition import KeyClass, taken_apart
from panewise.plan.inputs import is_table
from panewise.plan.join_layers import AMONG_STREAMS, JoinLayer, joins_of, layers_of
from panewise.plan.nodes import Emit, Node, Scan
from panewise.plan.physical_plan import JoinPlan, Orders

CHOICE = 3  # inputs, from which on there is more than one order


def joins_planned(plan: Emit, statistics: Statistics | None = None) -> tuple[JoinPlan, ...]:
    """All joins of a plan that run as operators, in the order of their nodes and layers."""
    statistics = statistics or Statistics()
    found = []
    for number, (node, condition) in enumerate(joins_of(plan.input)):
        layers = layers_of(node.inputs, condition)
        for at, layer in layers.operators():
            inputs = layers.first if at == AMONG_STREAMS else None
            orders = _orders(layer, inputs, statistics)
            found.append(JoinPlan(number, at, layer.names, orders, len(layer.names) >= CHOICE))
    return tuple(found)


def default_orders(inputs: int, classes: Sequence[frozenset[int]]) -> Orders:
    """Connected inputs first. `classes`: the inputs that each class of equal attributes has.

    >>> default_orders(3, [frozenset({0, 2}), frozenset({1, 2})])
    ((2, 1), (2, 0), (0, 1))
    """
    orders = []
    for origin in range(inputs):
        bound, order = {origin}, []
        while len(bound) < inputs:
            rest = [i for i in range(inputs) if i not in bound]
            connected = [i for i in rest if any(i in members and bound & members for members in classes)]
            order.append((connected or rest)[0])
            bound.add(order[-1])
        orders.append(tuple(order))
    return tuple(orders)


def unmeasured_orders(schemas: Sequence[pa.Schema], condition: Expression | None) -> Orders:
    """The orders of a join of inputs with these schemas, where nothing is measured."""
    classes = [frozenset(key_class.keys) for key_class in taken_apart(schemas, condition).classes]
    return default_orders(len(schemas), classes)


def _orders(layer: JoinLayer, inputs: Sequence[Node] | None, statistics: Statistics) -> Orders:
    """`inputs`: the nodes that the layer joins; None where rows that have met tables are one of them."""
    schemas = [schema.to_arrow() for schema in layer.schemas]
    if inputs is None or len(inputs) < CHOICE or not any(_is_measured(node, statistics) for node in inputs):
        return unmeasured_orders(schemas, layer.condition)
    parts = taken_apart(schemas, layer.condition)
    edges = [_held(node, own, statistics) for node, own in zip(inputs, map(conjuncts, parts.filters), strict=True)]
    return best_orders([JoinInput(edge.births, edge.alive) for edge in edges], _predicates(parts.classes, edges))


def _is_measured(node: Node, statistics: Statistics) -> bool:
    scans = [part for part in node.walk() if isinstance(part, Scan)]
    return any(part.name in (statistics.table_rows if is_table(part) else statistics.rates) for part in scans)


def _held(node: Node, own: Sequence[Expression], statistics: Statistics) -> EdgeEstimate:
    """What of an input is held, behind the conjuncts that read it alone."""
    return costed(node, statistics).edge.selected(own, statistics)


def _predicates(classes: Sequence[KeyClass], edges: Sequence[EdgeEstimate]) -> list[JoinEdge]:
    found = []
    for number, key_class in enumerate(classes):
        for left, right in combinations(sorted(key_class.keys), 2):
            counts = [edges[i].values(key_class.keys[i]).count for i in (left, right)]
            found.append(
                JoinEdge(
                    left,
                    right,
                    hashed=True,
                    attribute=f"class {number}",
                    left_distinct=counts[0],
                    right_distinct=counts[1],
                )
            )
    return found
