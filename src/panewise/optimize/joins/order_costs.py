"""The cost of a multi-way window join per unit of time, in comparisons of attributes.

A new row of input i (its origin) probes the other windows one after the other. The matches so far probe the next
window:

    X_i = lambda_i * (R_a + F_ia * R_b + F_iab * R_c + ...)      R: rows looked at, F: rows joined with one new row

The join costs the sum of all X_i (Golab 2006, section 5.3.1; Golab and Özsu 2003, section 5.1). Of a hashed input a
probe looks at one bucket, R / b (section 5.3 there). The outermost loop compares nothing and is free.

`Evaluation` says when the join is computed and when expired rows are removed. If it is computed every tau, a run has
lambda_i * tau new rows, which may be in any loop: `of_loops` covers EAGER and LAZY (new rows outermost), GENERAL LAZY
(anywhere) and NAIVE (where the one order of all origins puts them). Windows that are expired every tau are longer by
tau / 2 units on average. With `grouped`, new rows of equal value probe once (Golab 2006, algorithms 4 and 5): n rows
over v values make v * (1 - (1 - 1/v)^n) groups on average. The paper's formulas for the lazy forms are in an appendix
that is not published; these are ours. Its text can be read in two ways. The reading here agrees with what it says about
figure 3 (b): fast new rows are best joined last if tau is long. In the other reading a run has windows of T + tau and
matches only rows that are alive at the new row's time; then new rows are best joined first at every tau.

`of_maintenance` is the cost that does not depend on the order: insertion, removal, and the visits of expiration to all
buckets, whether they hold expired rows or not (Golab and Özsu 2003, section 4.1).

Cost: O(inputs) for an origin, if the graph knows the sets already.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from panewise.optimize.joins.join_graph import JoinEdge, JoinGraph, JoinInput

Order = tuple[int, ...]
"""Numbers of inputs in the order in which a new row probes them; or of all inputs, for one order of all origins."""


@dataclass(frozen=True)
class Evaluation:
    """When the join is computed and when rows are expired: 0 means at every new row, otherwise the time in between.

    Golab and Özsu 2003: eager is (0, 0), lazy is (tau, tau). Golab 2006: algorithm 2 is (0, 0), algorithm 3 is (0,
    delta), algorithm 4 without restore is (delta, 0, grouped), because it removes rows before the next run can see
    them, and algorithm 5 with restore is (delta, delta, grouped).
    """

    interval: float = 0.0
    expiration_interval: float = 0.0
    grouped: bool = False


EAGER = Evaluation()


@dataclass(frozen=True)
class MaintenanceWeights:
    """The costs of appending a row, hashing it into a table, removing it and visiting a bucket, in comparisons.

    The papers leave them open, because they depend on the implementation.
    """

    insertion: float = 1.0
    hashing: float = 1.0
    removal: float = 1.0
    visit: float = 1.0


class JoinCosts:
    """The costs of all orders of one join.

    >>> from panewise.optimize.joins.join_graph import common_attribute
    >>> table_5 = [JoinInput(10, 1000, 500), JoinInput(1, 100, 50), JoinInput(1, 200, 40), JoinInput(3, 300, 5)]
    >>> JoinCosts(table_5, common_attribute(4)).of_global_order((0, 1, 2, 3))
    16000.0
    """

    def __init__(
        self,
        inputs: Sequence[JoinInput],
        edges: Sequence[JoinEdge],
        evaluation: Evaluation = EAGER,
        lookup: float = 0.0,
    ) -> None:
        self.graph = JoinGraph(inputs, edges, lookup).with_longer_windows(evaluation.expiration_interval / 2)
        self.evaluation = evaluation
        self._runs = [self._run(one) for one in inputs]

    def _run(self, origin: JoinInput) -> tuple[float, float]:
        """The number of new rows, or groups of them, that a run joins, and the number of runs per unit of time."""
        if not self.evaluation.interval:
            return 1.0, origin.rate
        rows = origin.rate * self.evaluation.interval
        if self.evaluation.grouped:
            values = max(origin.distinct, 1.0)
            rows = values * (1 - (1 - 1 / values) ** rows) if values > 1 else min(rows, 1.0)
        return rows, 1 / self.evaluation.interval

    # -- one step ----------------------------------------------------------------------------------------------------

    def of_step(self, origin: int, bound: int, place: int) -> float:
        """The cost of the loop over one window inside the loops over the bound inputs."""
        new_rows, runs = self._runs[origin]
        origin_bit = 1 << origin
        if place == origin:
            return runs * self.graph.joined_rows(bound) * self.graph.probe(bound, place, new_rows)
        if bound & origin_bit:
            outside = self.graph.joined_with_new_rows(bound, origin, new_rows)
        else:
            outside = self.graph.joined_rows(bound)
        return runs * outside * self.graph.probe(bound, place)

    # -- orders ------------------------------------------------------------------------------------------------------

    def of_loops(self, origin: int, loops: Sequence[int]) -> float:
        """The cost of joining the new rows of one origin by loops over all inputs, the outermost first."""
        bound, cost = 1 << loops[0], 0.0
        for place in loops[1:]:
            cost += self.of_step(origin, bound, place)
            bound |= 1 << place
        return cost

    def of_origin(self, origin: int, order: Sequence[int]) -> float:
        """X_i: the cost of joining the new rows of one origin if they probe the others in this order."""
        return self.of_loops(origin, (origin, *order))

    def of_orders(self, orders: Sequence[Sequence[int]]) -> float:
        """The cost of the whole join, with an order for each origin."""
        return sum(self.of_origin(origin, order) for origin, order in enumerate(orders))

    def of_global_order(self, order: Sequence[int]) -> float:
        """The cost of the whole join if every origin follows this order after its own new rows."""
        return self.of_orders(orders_of(order))

    def of_naive(self, order: Sequence[int]) -> float:
        """The cost of the whole join if new rows stay where the order has their window: NAIVE MULTI-WAY NLJ."""
        return sum(self.of_loops(origin, order) for origin in order)

    # -- what does not depend on the order ---------------------------------------------------------------------------

    def of_maintenance(self, weights: MaintenanceWeights | None = None) -> float:
        """The cost of insertion and expiration."""
        weights = weights or MaintenanceWeights()
        hashed = {place for edge in self.graph.edges if edge.hashed for place in (edge.left, edge.right)}
        inputs, rate = self.graph.inputs, sum(one.rate for one in self.graph.inputs)
        buckets = [(one.buckets or 1.0) if place in hashed else 1.0 for place, one in enumerate(inputs)]
        hashing = sum(inputs[place].rate for place in hashed)
        period = self.evaluation.expiration_interval or self.evaluation.interval
        if period:
            visits = sum(buckets) / period
        else:  # every new row expires all windows but its own
            visits = sum(one.rate * (sum(buckets) - own) for one, own in zip(inputs, buckets, strict=True))
        return rate * (weights.insertion + weights.removal) + hashing * weights.hashing + visits * weights.visit


def orders_of(global_order: Sequence[int]) -> tuple[Order, ...]:
    """The order of each origin, by its number, if all follow one order.

    >>> orders_of((2, 0, 1))
    ((2, 1), (2, 0), (0, 1))
    """
    return tuple(tuple(place for place in global_order if place != origin) for origin in range(len(global_order)))
