"""Heuristics that find good orders without trying all of them.

For one order that all origins follow (Golab and Özsu 2003, section 5.1; Golab 2006, section 5.3.2):

    selectivity_order    begins with the two windows whose join is smallest, then adds the window with which the join
                         stays smallest; hashed windows count by bucket (section 5.3)
    augmented_order      also tries to move fast streams forward in that order, and to put windows without an index
                         before those with one (section 5.4); the cheapest order is the result

For each origin by itself (sections 5.2 and 5.4):

    greedy_order         adds the window that leaves the fewest rows, or the one whose probe has the best payoff;
                         windows that a predicate links with those before come first. Every first window is tried,
                         and the cheapest order is improved by moving single inputs

The papers leave ties open ("depending on the tie-breaking procedure"); here all are tried. "Fast" means faster than the
median. At most three fast streams are moved, so that at most n^3 orders are tried.
`papers/golab2003/heuristic_quality.py` compares all of them with the optimum. Cost: O(n^3) steps for an order, times
n^f for the augmented one, times the rounds of improvement for the greedy one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations, product

from panewise.optimize.joins.join_graph import JoinGraph
from panewise.optimize.joins.order_costs import JoinCosts, Order

MOVED_STREAMS_MOST = 3


# -- one order for all origins -----------------------------------------------------------------------------------------


def selectivity_order(costs: JoinCosts, by_bucket: bool = True) -> Order:
    """The order by ascending size of intermediate results. Among equal first pairs the cheapest order is chosen."""
    graph = costs.graph
    sizes = {
        pair: _prefix_size(graph, 1 << pair[0] | 1 << pair[1], by_bucket) for pair in combinations(range(len(graph)), 2)
    }
    if not sizes:
        return tuple(range(len(graph)))
    least = min(sizes.values())
    firsts = [pair for pair, size in sizes.items() if size == least]
    candidates = [_extended(graph, order, by_bucket) for a, b in firsts for order in ((a, b), (b, a))]
    return min(candidates, key=costs.of_global_order)


def augmented_order(costs: JoinCosts) -> Order:
    """The cheapest of the selectivity order and of the orders in which fast streams are moved forward.

    Buckets make a probe cheaper but not its result smaller, so sizes without buckets are tried too.
    """
    hashed = {place for edge in costs.graph.edges if edge.hashed for place in (edge.left, edge.right)}
    hashed = {place for place in hashed if costs.graph.inputs[place].buckets != 1}
    candidates: list[Order] = []
    for by_bucket in (True, False) if hashed else (True,):
        first = selectivity_order(costs, by_bucket)
        scanned_first = tuple(sorted(first, key=lambda place: place in hashed))
        candidates += [first, scanned_first, *_with_fast_streams_moved_up(costs.graph, first)]
    return min(dict.fromkeys(candidates), key=costs.of_global_order)


def fast_streams(graph: JoinGraph) -> list[int]:
    """The inputs that are faster than the median, the fastest first."""
    by_rate = sorted(range(len(graph)), key=lambda place: -graph.inputs[place].rate)
    median = graph.inputs[by_rate[len(graph) // 2]].rate if by_rate else 0.0
    return [place for place in by_rate if graph.inputs[place].rate > median]


def _with_fast_streams_moved_up(graph: JoinGraph, order: Order) -> Iterable[Order]:
    fast = fast_streams(graph)[:MOVED_STREAMS_MOST]
    fast.sort(key=order.index)
    for targets in product(*(range(order.index(place) + 1) for place in fast)):
        moved = order
        for place, target in zip(fast, targets, strict=True):
            moved = _moved(moved, place, target)
        yield moved


def _prefix_size(graph: JoinGraph, mask: int, by_bucket: bool) -> float:
    """The size of a join of windows. `by_bucket`: each window counts as one of its buckets."""
    size = graph.joined_rows(mask)
    if by_bucket:
        for place, one in enumerate(graph.inputs):
            if mask >> place & 1:
                size /= one.buckets or 1.0
    return size


def _extended(graph: JoinGraph, order: Sequence[int], by_bucket: bool) -> Order:
    found, bound = list(order), sum(1 << place for place in order)
    while len(found) < len(graph):
        left = [place for place in range(len(graph)) if not bound >> place & 1]
        linked = [place for place in left if graph.connected(bound, place)] or left
        best = min(linked, key=lambda place: _prefix_size(graph, bound | 1 << place, by_bucket))
        found.append(best)
        bound |= 1 << best
    return tuple(found)


# -- an order for each origin ------------------------------------------------------------------------------------------


def greedy_order(costs: JoinCosts, origin: int, follow_graph: bool = True) -> Order:
    """A good order in which a new row of this origin probes the other inputs."""
    others = [place for place in range(len(costs.graph)) if place != origin]
    first = [place for place in others if costs.graph.connected(1 << origin, place)] if follow_graph else others
    orders = [
        _greedy(costs, origin, start, follow_graph, by_payoff)
        for start in first or others
        for by_payoff in (False, True)
    ]
    if not orders:
        return ()
    best = min(orders, key=lambda order: costs.of_origin(origin, order))
    return _improved(costs, origin, best, follow_graph)


def _greedy(costs: JoinCosts, origin: int, start: int, follow_graph: bool, by_payoff: bool) -> Order:
    graph, bound, found = costs.graph, 1 << origin | 1 << start, [start]
    while len(found) < len(graph) - 1:
        left = [place for place in range(len(graph)) if not bound >> place & 1]
        linked = [place for place in left if graph.connected(bound, place)] if follow_graph else left
        rows = graph.joined_with_new_rows(bound, origin)

        def worth(place: int, bound: int = bound, rows: float = rows) -> tuple[float, float]:
            after = graph.joined_with_new_rows(bound | 1 << place, origin)
            probe = graph.probe(bound, place)
            # The rank of predicate ordering: the change in the number of rows, divided by the cost of the probe.
            return ((after - rows) / probe if probe else after - rows, after) if by_payoff else (after, probe)

        best = min(linked or left, key=worth)
        found.append(best)
        bound |= 1 << best
    return tuple(found)


def _improved(costs: JoinCosts, origin: int, order: Order, follow_graph: bool) -> Order:
    """The order after moving single inputs for as long as that makes it cheaper."""
    best, cost = order, costs.of_origin(origin, order)
    improved = True
    while improved:
        improved = False
        for place, target in product(order, range(len(order))):
            changed = _moved(best, place, target)
            if changed == best or (follow_graph and not _follows(costs.graph, origin, changed)):
                continue
            changed_cost = costs.of_origin(origin, changed)
            # A difference in the last digits is no improvement. Without this limit the loop might not end.
            if changed_cost < cost * (1 - 1e-12):
                best, cost, improved = changed, changed_cost, True
    return best


def _moved(order: Order, place: int, target: int) -> Order:
    others = [other for other in order if other != place]
    return (*others[:target], place, *others[target:])


def _follows(graph: JoinGraph, origin: int, order: Order) -> bool:
    """Whether each input without a link to those before it comes only when no remaining input has a link."""
    bound = 1 << origin
    for number, place in enumerate(order):
        if not graph.connected(bound, place) and any(graph.connected(bound, other) for other in order[number:]):
            return False
        bound |= 1 << place
    return True
