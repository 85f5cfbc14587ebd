"""The size and the cost of a join of any number of edges, by the model of `optimize/joins`.

The condition is a conjunction, divided as in `plan/expressions/join_condition.py`: conjuncts on one input filter its
rows before they are held, equalities between two inputs are looked up, and all others are tested on candidates.
"""

from __future__ import annotations

from collections.abc import Sequence

from panewise.language.expressions import Call, Expression
from panewise.optimize.joins.join_graph import JoinEdge, JoinInput
from panewise.optimize.joins.order_costs import JoinCosts
from panewise.optimize.joins.ordering import LOOKUP, orders_by_costs
from panewise.optimize.rewrites.edge_estimates import EdgeEstimate, Values
from panewise.optimize.rewrites.exists_keys import sources
from panewise.optimize.rewrites.statistics import PASSED, PROBED, Statistics

Term = tuple[int, Expression]


def joined(
    names: Sequence[str], edges: Sequence[EdgeEstimate], parts: Sequence[Expression], statistics: Statistics
) -> tuple[EdgeEstimate, float]:
    """The estimate of the results of a join of these inputs on these conjuncts, and its cost."""
    places = {name: place for place, name in enumerate(names)}
    read = [sorted(places[source] for source in sources(part)) for part in parts]
    filters = [[part for part, by in zip(parts, read, strict=True) if by == [place]] for place in range(len(names))]
    tested = sum(edge.births + edge.ends for edge, own in zip(edges, filters, strict=True) if own)
    chosen = [edge.selected(own, statistics) for edge, own in zip(edges, filters, strict=True)]
    inputs = [JoinInput(edge.births, edge.alive) for edge in chosen]
    columns = {
        f"{name}.{column}": values
        for name, edge in zip(names, chosen, strict=True)
        for column, values in edge.columns.items()
    }
    whole = EdgeEstimate(0.0, 0.0, 0.0, columns)
    several = [(part, by) for part, by in zip(parts, read, strict=True) if len(by) > 1]
    graph_edges, share = _predicates(several, places, whole, statistics)
    costs = JoinCosts(inputs, graph_edges, lookup=LOOKUP)
    probes = costs.of_orders(orders_by_costs(costs))
    everything = (1 << len(inputs)) - 1
    partners = [share * costs.graph.joined_with_new_rows(everything, place) for place in range(len(inputs))]
    births = sum(edge.births * found for edge, found in zip(chosen, partners, strict=True))
    ends = sum(edge.ends * found for edge, found in zip(chosen, partners, strict=True))
    held = sum(2 * edge.births + edge.ends for edge in chosen)
    logged = births + ends if any(edge.ends for edge in chosen) else 0.0
    result = EdgeEstimate(births, share * costs.graph.joined_rows(everything), ends, columns)
    return result, PASSED * tested + held + PROBED * (probes + births + 2 * logged)


def _predicates(
    parts: Sequence[tuple[Expression, list[int]]],
    places: dict[str, int],
    whole: EdgeEstimate,
    statistics: Statistics,
) -> tuple[list[JoinEdge], float]:
    """The predicates between two inputs as edges, and the share of results that pass predicates over more inputs."""
    classes: list[set[Term]] = []
    equalities: list[tuple[Term, Term]] = []
    found: list[JoinEdge] = []
    share = 1.0
    for part, by in parts:
        terms = _equality(part, places)
        if terms is not None and part not in statistics.selectivities:
            equalities.append(terms)
            touched = [group for group in classes if group & set(terms)]
            classes = [group for group in classes if group not in touched] + [set(terms).union(*touched)]
        elif len(by) == 2:
            found.append(JoinEdge(by[0], by[1], whole.selectivity(part, statistics)))
        else:
            share *= whole.selectivity(part, statistics)
    for left, right in equalities:
        number = next(i for i, group in enumerate(classes) if left in group)
        counts: list[Values] = [whole.values([term]) for _, term in (left, right)]
        found.append(
            JoinEdge(
                left[0],
                right[0],
                hashed=True,
                attribute=f"class {number}",
                left_distinct=counts[0].count,
                right_distinct=counts[1].count,
            )
        )
    return found, share


def _equality(part: Expression, places: dict[str, int]) -> tuple[Term, Term] | None:
    if not isinstance(part, Call) or part.function != "eq":
        return None
    left, right = part.arguments
    read = sources(left), sources(right)
    if len(read[0]) != 1 or len(read[1]) != 1 or read[0] == read[1] or left.type != right.type:
        return None
    return (places[next(iter(read[0]))], left), (places[next(iter(read[1]))], right)
