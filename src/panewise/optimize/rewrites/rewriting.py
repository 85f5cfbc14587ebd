"""The optimizer: tries every rule at every node of a plan and keeps the rewrites that make the plan cheaper.

A rule is a pure function from a node to nodes with the same meaning. The result depends only on the plan and the
statistics. Every rewrite saves a share of the plan's cost, so the search ends. It takes O(rules x nodes) estimates for
each rewrite.

Rules never copy windows and tables, because operators identify them by object identity. The names and the order of the
result's columns do not change.

`rewritten_again` repeats the stored rewrites of a query, each by its rule at its place, without new decisions. It
raises an error if one of them is no longer possible.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, replace

from panewise.errors import SnapshotError
from panewise.optimize.rewrites.infer_selections import infer_selections
from panewise.optimize.rewrites.plan_costs import costed
from panewise.optimize.rewrites.pull_up_negation import pull_up_negation
from panewise.optimize.rewrites.push_down_distinct import push_down_distinct
from panewise.optimize.rewrites.push_down_negation import push_down_negation
from panewise.optimize.rewrites.push_down_selections import push_down_selections
from panewise.optimize.rewrites.remove_distinct import remove_distinct
from panewise.optimize.rewrites.statistics import Statistics
from panewise.plan.decided import Decided, outline
from panewise.plan.nodes import Emit, Node, WindowOf
from panewise.plan.physical_plan import Rewrite

Rule = Callable[[Node], Iterator[Node]]
Place = tuple[int, ...]

SURE, ROUGH, UNSHARED = 0.001, 0.2, 0.5
"""The share of a plan's cost that a rewrite must save. SURE: it only leaves out work. ROUGH: by estimate, it exchanges
work for less work. UNSHARED: it would also prevent that other queries share the plan's join or DISTINCT."""

RULES: dict[Rule, float] = {
    push_down_selections: SURE,
    infer_selections: SURE,
    remove_distinct: SURE,
    push_down_negation: ROUGH,
    pull_up_negation: ROUGH,
    push_down_distinct: ROUGH,
}

# The stored names of rewrites. They stay even if a rule is renamed in the code.
NAMES: dict[Rule, str] = {
    push_down_selections: "push down selections",
    infer_selections: "infer selections",
    remove_distinct: "remove distinct",
    push_down_negation: "push down negation",
    pull_up_negation: "pull up negation",
    push_down_distinct: "push down distinct",
}


@dataclass(frozen=True)
class Rewritten:
    """A plan, and the rewrites that led to it."""

    plan: Emit
    applied: tuple[Rewrite, ...] = ()


def rewrite_unless_shared(plan: Emit, statistics: Statistics | None = None, paid: float = 0.0) -> Rewritten:
    """Rewrites a plan whose core (`plan/shared_core.py`) could be shared, but only if that saves much.

    Selections need not be moved, because a join tests those of single inputs first. `paid`: the part of the plan's cost
    that is spent anyway because its core runs already. A plan without that core must cost less than the rest.
    """
    rules = {rule: UNSHARED for rule, worth in RULES.items() if worth == ROUGH}
    shaped = rewrite(plan, statistics, rules)
    if not shaped.applied:
        return shaped
    found = rewrite(plan, statistics)
    left = costed(plan, statistics or Statistics()).total - paid
    return found if not paid or (found.applied and found.applied[-1].cost_after < left) else Rewritten(plan)


def rewrite(plan: Emit, statistics: Statistics | None = None, rules: Mapping[Rule, float] = RULES) -> Rewritten:
    """The cheapest plan that the rules find, step by step. `rules`: the share of the cost that each rule must save."""
    statistics = statistics or Statistics()
    cost = costed(plan, statistics).total
    applied: list[Rewrite] = []
    found = True
    while found:
        found = False
        for rule, worth in rules.items():
            best, lowest, step = None, cost * (1 - worth), None
            for place, variant, below in everywhere(plan.input, rule):
                candidate = replace(plan, input=below)
                price = costed(candidate, statistics).total
                if price < lowest:
                    best, lowest, step = candidate, price, (place, variant)
            if best is not None and step is not None:
                applied.append(Rewrite(NAMES[rule], cost, lowest, *step))
                plan, cost, found = best, lowest, True
    return Rewritten(plan, tuple(applied))


def rewritten_again(plan: Emit, decided: Decided, query: str) -> Rewritten:
    """The plan after the stored rewrites of a query; SnapshotError if one of them is no longer possible."""
    rules = {name: rule for rule, name in NAMES.items()}
    found, steps = plan, decided.rewrites or ()
    for number, step in enumerate(steps, 1):
        rule = rules.get(step.name)
        if rule is None:
            raise _refused(query, number, step, "this version of panewise has no such rule")
        places = (below for place, variant, below in everywhere(found.input, rule) if _is(step, place, variant))
        below = next(places, None)
        if below is None:
            raise _refused(query, number, step, "the rule no longer applies at its place in the plan")
        found = replace(found, input=below)
    if steps and decided.gives and outline(found) != decided.gives:
        raise _refused(query, len(steps), steps[-1], "it now leads to another plan")
    return Rewritten(found, steps)


def _is(step: Rewrite, place: Place, variant: int) -> bool:
    return (step.place, step.variant) == (place, variant)


def _refused(query: str, number: int, step: Rewrite, reason: str) -> SnapshotError:
    return SnapshotError(
        f"the stored state of query '{query}' belongs to a plan whose rewrite {number}, '{step.name}', cannot be "
        f"repeated: {reason}",
        hint="use the version that wrote it, or drop the query there and create it again here",
    )


def everywhere(node: Node, rule: Rule, place: Place = ()) -> Iterator[tuple[Place, int, Node]]:
    """The plan with the rule applied at one of its nodes, for every such node. Inner queries are separate plans.

    Each comes with the path to the node, as numbers of children, and the number of the plan among those of the rule.
    """
    for variant, changed in enumerate(rule(node)):
        yield place, variant, changed
    if isinstance(node, WindowOf):
        return
    number = 0
    for name, child in _children(node):
        if isinstance(child, tuple):
            for position, part in enumerate(child):
                for at, variant, changed in everywhere(part, rule, (*place, number)):
                    others = (*child[:position], changed, *child[position + 1 :])
                    yield at, variant, replace(node, **{name: others})
                number += 1
        else:
            for at, variant, changed in everywhere(child, rule, (*place, number)):
                yield at, variant, replace(node, **{name: changed})
            number += 1


def _children(node: Node) -> Iterator[tuple[str, Node | tuple[Node, ...]]]:
    """The inputs of a node, with the names of their fields."""
    for field in fields(node):
        value = getattr(node, field.name)
        if isinstance(value, Node) or (field.name == "inputs" and isinstance(value, tuple)):
            yield field.name, value
