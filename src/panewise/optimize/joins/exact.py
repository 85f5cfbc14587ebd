"""Orders of least cost, by exact search.

The cost of a loop depends on the set of inputs in the loops around it, not on their order (`join_graph.py`). So the
cheapest order of each set is found once, and extended by each input that is not in the set. This takes O(2^n * n) steps
instead of n!, and is still exact. Three kinds of orders are searched:

    best_order           the order in which the new rows of one origin probe the other inputs. Origins are independent,
                         because their costs add up (Golab and Özsu 2003, section 5.2)
    best_loops           an order of all inputs, with the new rows in any loop: GENERAL LAZY (section 3.3)
    best_global_order    one order that all origins follow (section 5.1)

Among equally cheap orders the choice is arbitrary, but always the same.
"""

from __future__ import annotations

from collections.abc import Callable

from panewise.optimize.joins.order_costs import JoinCosts, Order


def best_order(costs: JoinCosts, origin: int, follow_graph: bool = True) -> Order:
    """The best order in which a new row of this origin probes the other inputs.

    `follow_graph`: an input without a predicate to those already probed comes only if no other input is left. Sizes are
    only estimates, and with a wrong one a cross product would be expensive.
    """

    def allowed(bound: int, place: int) -> bool:
        return not follow_graph or costs.graph.connected(bound, place)

    return _cheapest(
        len(costs.graph), 1 << origin, lambda bound, place: costs.of_step(origin, bound, place), allowed
    )  # fmt: skip


def best_loops(costs: JoinCosts, origin: int) -> Order:
    """The cheapest loops for the new rows of this origin, the outermost first."""

    def step(bound: int, place: int) -> float:
        return costs.of_step(origin, bound, place) if bound else 0.0

    return _cheapest(len(costs.graph), 0, step)


def best_global_order(costs: JoinCosts) -> Order:
    """The one order that costs least when all origins follow it."""
    origins = range(len(costs.graph))

    def step(bound: int, place: int) -> float:
        return sum(costs.of_step(origin, bound | 1 << origin, place) for origin in origins if origin != place)

    return _cheapest(len(costs.graph), 0, step)


def _cheapest(
    count: int,
    start: int,
    step: Callable[[int, int], float],
    allowed: Callable[[int, int], bool] = lambda bound, place: True,
) -> Order:
    everything = (1 << count) - 1
    best: dict[int, tuple[float, Order]] = {start: (0.0, ())}
    # As a number a set is greater than all of its subsets. So its cheapest order is known when its turn comes.
    for bound in range(start, everything):
        if bound not in best:
            continue
        cost, order = best[bound]
        left = [place for place in range(count) if not bound >> place & 1]
        for place in [place for place in left if allowed(bound, place)] or left:
            total, reached = cost + step(bound, place), bound | 1 << place
            if reached not in best or total < best[reached][0]:
                best[reached] = total, (*order, place)
    return best[everything][1]
