"""The optimizer: rules, each tried wherever it applies, each taken where the plan then costs less.

Rules are pure: a node to the nodes that mean the same by this rule. The plan that comes out follows from the plan and
the statistics alone. Every rewrite saves a part of the plan's cost, so that the search ends: O(rules x nodes) estimates
for each that is taken.

Windows and tables are never made anew: operators know them by identity. Names and order of the result's columns stay.

What was rewritten once is not decided again: `rewritten_again` makes the same steps, each by its rule at its place, and
refuses in words where a step cannot be made any more.
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
"""Which part of a plan's cost a rewrite must save: one that only leaves work out, and one that exchanges some for other
work, of which the estimate says how much; and one in which others with the same join or DISTINCT would have no part."""

RULES: dict[Rule, float] = {
    push_down_selections: SURE,
    infer_selections: SURE,
    remove_distinct: SURE,
    push_down_negation: ROUGH,
    pull_up_negation: ROUGH,
    push_down_distinct: ROUGH,
}

# The names under which rewrites are written down, which stay whatever a rule is called in the code.
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
    """A plan, and how it came about."""

    plan: Emit
    applied: tuple[Rewrite, ...] = ()


def rewrite_unless_shared(plan: Emit, statistics: Statistics | None = None, paid: float = 0.0) -> Rewritten:
    """The same for a plan whose core (`plan/shared_core.py`) others may have: it stays as it is unless much is saved.

    Selections need not be moved: a join tests each input's own before anything else. `paid`: what of the plan's cost is
    spent anyway, because its core runs already; a plan without that core has to cost less than what is left.
    """
    rules = {rule: UNSHARED for rule, worth in RULES.items() if worth == ROUGH}
    shaped = rewrite(plan, statistics, rules)
    if not shaped.applied:
        return shaped
    found = rewrite(plan, statistics)
    left = costed(plan, statistics or Statistics()).total - paid
    return found if not paid or (found.applied and found.applied[-1].cost_after < left) else Rewritten(plan)


def rewrite(plan: Emit, statistics: Statistics | None = None, rules: Mapping[Rule, float] = RULES) -> Rewritten:
    """The cheapest plan that the rules find, step by step; `rules` with the part of the cost that each must save."""
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
    """The plan that rewrites of a query once led to; SnapshotError where one of them cannot be made any more."""
    rules = {name: rule for rule, name in NAMES.items()}
    found, steps = plan, decided.rewrites or ()
    for number, step in enumerate(steps, 1):
        rule = rules.get(step.name)
        if rule is None:
            raise _refused(query, number, step, "this panewise has no such rule")
        places = (below for place, variant, below in everywhere(found.input, rule) if _is(step, place, variant))
        below = next(places, None)
        if below is None:
            raise _refused(query, number, step, "the rule does not apply where it was applied")
        found = replace(found, input=below)
    if steps and decided.gives and outline(found) != decided.gives:
        raise _refused(query, len(steps), steps[-1], "it leads to another plan now")
    return Rewritten(found, steps)


def _is(step: Rewrite, place: Place, variant: int) -> bool:
    return (step.place, step.variant) == (place, variant)


def _refused(query: str, number: int, step: Rewrite, reason: str) -> SnapshotError:
    return SnapshotError(
        f"the state of query '{query}' is that of a plan whose rewrite {number} is '{step.name}', and that cannot be "
        f"made again: {reason}",
        hint="go on with the panewise that wrote it, or drop the query there and create it anew here",
    )


def everywhere(node: Node, rule: Rule, place: Place = ()) -> Iterator[tuple[Place, int, Node]]:
    """The plan with the rule applied at one of its nodes, for every such node; inner queries are plans of their own.

    With the place of the node, by the numbers of children, and the number of the plan among those that the rule gives.
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
    """Inputs by the name of their field."""
    for field in fields(node):
        value = getattr(node, field.name)
        if isinstance(value, Node) or (field.name == "inputs" and isinstance(value, tuple)):
            yield field.name, value
