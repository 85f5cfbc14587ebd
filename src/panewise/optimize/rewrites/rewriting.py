"""The optimizer: rules, each tried wherever it applies, each taken where the plan then costs less.

Rules are pure: a node to the nodes that mean the same by this rule. The plan that comes out follows from the plan and
the statistics alone. Every rewrite saves a part of the plan's cost, so that the search ends: O(rules x nodes) estimates
for each that is taken.

Windows and tables are never made anew: operators know them by identity. Names and order of the result's columns stay.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, replace

from panewise.optimize.rewrites.infer_selections import infer_selections
from panewise.optimize.rewrites.plan_costs import costed
from panewise.optimize.rewrites.pull_up_negation import pull_up_negation
from panewise.optimize.rewrites.push_down_distinct import push_down_distinct
from panewise.optimize.rewrites.push_down_negation import push_down_negation
from panewise.optimize.rewrites.push_down_selections import push_down_selections
from panewise.optimize.rewrites.remove_distinct import remove_distinct
from panewise.optimize.rewrites.statistics import Statistics
from panewise.plan.nodes import Emit, Node, WindowOf
from panewise.plan.physical import Rewrite

Rule = Callable[[Node], Iterator[Node]]

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


@dataclass(frozen=True)
class Rewritten:
    """A plan, and how it came about."""

    plan: Emit
    applied: tuple[Rewrite, ...] = ()


def rewrite_unless_shared(plan: Emit) -> Rewritten:
    """The same for a plan whose core (`plan/shared_core.py`) others may have: it stays as it is unless much is saved.

    Selections need not be moved: a join tests each input's own before anything else.
    """
    rules = {rule: UNSHARED for rule, worth in RULES.items() if worth == ROUGH}
    shaped = rewrite(plan, rules=rules)
    return rewrite(plan) if shaped.applied else shaped


def rewrite(plan: Emit, statistics: Statistics | None = None, rules: Mapping[Rule, float] = RULES) -> Rewritten:
    """The cheapest plan that the rules find, step by step; `rules` with the part of the cost that each must save."""
    statistics = statistics or Statistics()
    cost = costed(plan, statistics).total
    applied: list[Rewrite] = []
    found = True
    while found:
        found = False
        for rule, worth in rules.items():
            best, lowest = None, cost * (1 - worth)
            for below in everywhere(plan.input, rule):
                candidate = replace(plan, input=below)
                price = costed(candidate, statistics).total
                if price < lowest:
                    best, lowest = candidate, price
            if best is not None:
                applied.append(Rewrite(rule.__name__.replace("_", " "), cost, lowest))
                plan, cost, found = best, lowest, True
    return Rewritten(plan, tuple(applied))


def everywhere(node: Node, rule: Rule) -> Iterator[Node]:
    """The plan with the rule applied at one of its nodes, for every such node; inner queries are plans of their own."""
    yield from rule(node)
    if isinstance(node, WindowOf):
        return
    for name, child in _children(node):
        if isinstance(child, tuple):
            for place, part in enumerate(child):
                for changed in everywhere(part, rule):
                    yield replace(node, **{name: (*child[:place], changed, *child[place + 1 :])})
        else:
            for changed in everywhere(child, rule):
                yield replace(node, **{name: changed})


def _children(node: Node) -> Iterator[tuple[str, Node | tuple[Node, ...]]]:
    """Inputs by the name of their field."""
    for field in fields(node):
        value = getattr(node, field.name)
        if isinstance(value, Node) or (field.name == "inputs" and isinstance(value, tuple)):
            yield field.name, value
