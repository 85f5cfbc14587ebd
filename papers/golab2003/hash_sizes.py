"""How many buckets the hash table of each input gets, of a number that all have together.

Golab and Özsu 2003, section 6.5: larger tables for larger windows are faster than equal ones, but not if the small
windows get none, nor if a table is so large that expiration, which visits every bucket, takes longer than it saves.

    by_share    in proportion to the rows in the window, and no fewer than `least` each: needs nothing but sizes
    by_scans    with a_j comparisons per unit of time at input j if it had one bucket, and e_j visits of each bucket by
                expiration, least sum of a_j / b_j + e_j * b_j: about sqrt(a_j / (e_j + m)) with the m >= 0 that keeps
                to the budget. So a table's share grows with the square root of the work that it divides, and a budget
                is not used up where that would cost more. No more buckets than distinct values.

Both give whole numbers; those by scans are the best of all whole numbers. Cost: O(inputs^2) steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import sqrt

from panewise.optimize.joins.join_graph import JoinEdge, JoinInput
from panewise.optimize.joins.order_costs import EAGER, Evaluation, JoinCosts, MaintenanceWeights

HALVINGS = 100


def by_share(inputs: Sequence[JoinInput], budget: int, least: int = 1) -> tuple[int, ...]:
    """Buckets in proportion to rows in the window, `budget` in all, or `least` each where that is more.

    >>> slow, fast = JoinInput(1, 100, 50), JoinInput(50, 5000, 50)
    >>> by_share([slow, slow, slow, fast], 48, least=5)
    (5, 5, 5, 33)
    """
    return _whole([one.rows_in_window for one in inputs], budget, least)


def by_scans(
    inputs: Sequence[JoinInput],
    edges: Sequence[JoinEdge],
    orders: Sequence[Sequence[int]],
    budget: int,
    evaluation: Evaluation = EAGER,
    weights: MaintenanceWeights | None = None,
) -> tuple[int, ...]:
    """The cheapest buckets for these orders, `budget` in all at most, or one each where that is more."""
    weights = weights or MaintenanceWeights()
    work = comparisons_by_input(inputs, edges, orders, evaluation)
    visits = [weights.visit * rate for rate in _visits_of_a_bucket(inputs, evaluation)]
    most = [max(int(one.distinct), 1) for one in inputs]

    def sizes(price: float) -> list[int]:
        """As many buckets as save more than this each: the b-th saves a / (b * (b - 1)) - e, always less."""
        bounds = (comparisons / (visit + price) for comparisons, visit in zip(work, visits, strict=True))
        return [min(int((1 + sqrt(1 + 4 * bound)) / 2), limit) for bound, limit in zip(bounds, most, strict=True)]

    # At the higher price no table has a second bucket.
    high = max([*work, 1.0])
    low = 1e-12 * high
    if sum(sizes(low)) <= budget:
        return tuple(sizes(low))
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if sum(sizes(middle)) > budget else (low, middle)
    found = sizes(high)
    # Buckets that save the same come at one price, too many for what is left: the first inputs get theirs.
    for place, size in enumerate(sizes(low)):
        found[place] += max(min(size - found[place], budget - sum(found)), 0)
    return tuple(found)


def comparisons_by_input(
    inputs: Sequence[JoinInput],
    edges: Sequence[JoinEdge],
    orders: Sequence[Sequence[int]],
    evaluation: Evaluation = EAGER,
) -> list[float]:
    """Comparisons per unit of time at each input, if every hash table had one bucket."""
    costs = JoinCosts([replace(one, buckets=1) for one in inputs], edges, evaluation)
    found = [0.0] * len(inputs)
    for origin, order in enumerate(orders):
        bound = 1 << origin
        for place in order:
            found[place] += costs.of_step(origin, bound, place)
            bound |= 1 << place
    return found


def _visits_of_a_bucket(inputs: Sequence[JoinInput], evaluation: Evaluation) -> list[float]:
    """How often expiration visits one bucket of each input, per unit of time."""
    period = evaluation.expiration_interval or evaluation.interval
    if period:
        return [1 / period] * len(inputs)
    rate = sum(one.rate for one in inputs)
    return [rate - one.rate for one in inputs]


def _whole(shares: Sequence[float], budget: int, least: int) -> tuple[int, ...]:
    """Whole numbers in proportion to the shares, none below `least`: the largest remainders are rounded up."""
    found = [least] * len(shares)
    free = set(range(len(shares)))
    while free:
        rest = budget - sum(least for place in range(len(shares)) if place not in free)
        total = sum(shares[place] for place in free)
        # What would get less than the least gets the least, and no longer counts among those that share the rest.
        small = {place for place in free if total <= 0 or rest * shares[place] / total < least}
        if not small:
            exact = {place: rest * shares[place] / total for place in free}
            for place, size in exact.items():
                found[place] = int(size)
            spare = rest - sum(found[place] for place in free)
            for place in sorted(free, key=lambda place: (found[place] - exact[place], place))[:spare]:
                found[place] += 1
            break
        free -= small
    return tuple(found)
