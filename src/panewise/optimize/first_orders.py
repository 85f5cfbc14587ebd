"""Chooses the first orders of all joins of a plan, as `JoinPlan`s.

If the rate of an input was measured, the orders are the best by estimate. If nothing was measured, all rates would be
assumed to be equal, which says little. Then each order follows equalities while it can, and otherwise takes the input
with the lowest number. A running join may change its orders by its own measurements (`joins/reordering.py`). Cost: a
search for the best orders for joins of three or more inputs, nothing for pairs.
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

CHOICE = 3  # the number of inputs from which on there is more than one order


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
    """Orders that probe connected inputs first. `classes`: the inputs of each class of equal attributes.

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
    """The orders of a join of inputs with these schemas, without measurements."""
    classes = [frozenset(key_class.keys) for key_class in taken_apart(schemas, condition).classes]
    return default_orders(len(schemas), classes)


def _orders(layer: JoinLayer, inputs: Sequence[Node] | None, statistics: Statistics) -> Orders:
    """The orders of a layer. `inputs`: the nodes that it joins; None if one is the result of joins with tables."""
    schemas = [schema.to_arrow() for schema in layer.schemas]
    if inputs is None or len(inputs) < CHOICE or not any(_is_measured(node, statistics) for node in inputs):
        return unmeasured_orders(schemas, layer.condition)
    parts = taken_apart(schemas, layer.condition)
    edges = [_held_rows(node, own, statistics) for node, own in zip(inputs, map(conjuncts, parts.filters), strict=True)]
    return best_orders([JoinInput(edge.births, edge.alive) for edge in edges], _predicates(parts.classes, edges))


def _is_measured(node: Node, statistics: Statistics) -> bool:
    scans = [part for part in node.walk() if isinstance(part, Scan)]
    return any(part.name in (statistics.table_rows if is_table(part) else statistics.rates) for part in scans)


def _held_rows(node: Node, own: Sequence[Expression], statistics: Statistics) -> EdgeEstimate:
    """The estimate of the rows that are held of an input, after the conjuncts that read only this input."""
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
