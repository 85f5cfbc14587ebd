"""Makes the report of a family from its plan and from measurements while it ran.

Costs are nanoseconds of a core per second of the stream. Windows of rows are assumed to get `ASSUMED_ROWS_PER_SECOND`.
Some costs are the same for every weave, so the weaver ignores them, and they are added here: states without a fixed
size, windows without a beginning, and the family's share of a fold together with other families.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from panewise.aggregates.holistic import HeldKind
from panewise.language.sql_text import to_sql
from panewise.optimize.sharing.costs.held_costs import held_cost
from panewise.optimize.sharing.costs.weave_costs import CalibratedModel, state_of
from panewise.optimize.sharing.edges.edge_counts import edge_rate
from panewise.optimize.sharing.report.sharing_report import FamilyReport, TreeReport
from panewise.optimize.sharing.rules import SharingQuery, Situation, SynopsisKind, applicable, synopsis_type
from panewise.optimize.sharing.weave.weaver import (
    ASSUMED_ROWS_PER_SECOND,
    PRICED_AS,
    SECOND,
    Load,
    best_weave,
    cost_of_one_tree,
    edge_rate_of,
    machine,
    model_of,
    sums_of,
    tree_cost,
)
from panewise.plan.aggregation import StateKey
from panewise.plan.family_plan import FamilyPlan, MemberPlan, TreePlan
from panewise.plan.physical_plan import FamilyShape
from panewise.slicing.pairs import classes_of


@dataclass(frozen=True)
class FoldedWith:
    """Families of one channel whose rows are folded in one pass: their number, their states, and the words for them.

    `partials_per_row`: how many partials this family merges for each row.
    """

    shown: str
    families: int
    states: tuple[StateKey, ...]
    partials_per_row: float


@dataclass(frozen=True)
class MeasuredFamily:
    """The measurements of a running family. `rows_per_unit`: None until there is a span of time to measure.

    `queries`: for each member, the name and the window of each query that gets its reports.
    """

    channel: str
    states: tuple[StateKey, ...]
    load: Load
    rows_per_unit: float | None
    groups: int | None
    slices_held: tuple[int, ...]  # by tree
    queries: Mapping[str, tuple[tuple[str, str], ...]]
    folded_with: FoldedWith | None


def family_report(shape: FamilyShape, plan: FamilyPlan, measured: MeasuredFamily) -> FamilyReport:
    """The report of one family, whose rows are folded once and whose trees answer its queries."""
    members, load = plan.movable, measured.load
    unit = ASSUMED_ROWS_PER_SECOND if shape.counts_rows else SECOND  # units of the axis in a second
    rate = None if shape.counts_rows else measured.rows_per_unit
    used = [number for number, tree in enumerate(plan.trees) if tree.members]
    trees = tuple(_tree_report(plan, number, measured, unit) for number in used)
    fold = _fold_cost(measured.states, measured) * unit
    full = cost_of_one_tree(members, load) * unit
    fixed = [member for member in plan.members if not member.can_move]
    if fixed:
        full += _fixed_cost(plan.trees[0], load) * unit + fold
        full -= model_of(members, load.groups)[1].fold(load.rate) * unit if members else 0.0
    return FamilyReport(
        stream=measured.channel,
        grouping=", ".join(map(to_sql, shape.keys)),
        selections=() if shape.where is None else (to_sql(shape.where),),
        states=tuple(key.shown for key in measured.states),
        rows_per_second=None if rate is None else rate * SECOND,
        groups=measured.groups,
        composite_edges_per_second=edge_rate_of(plan.trees[0]) * unit,
        trees=trees,
        cost=fold + sum(found.cost_ns_per_second for found in trees),
        cost_alone=_all_alone(plan, measured) * unit,
        cost_full=full,
        rules=_rules(shape, plan),
        rows_per_second_assumed=ASSUMED_ROWS_PER_SECOND if rate is None else None,
        folded_with="" if measured.folded_with is None else measured.folded_with.shown,
    )


# -- prices, per unit of the axis --------------------------------------------------------------------------------------


def _all_alone(plan: FamilyPlan, measured: MeasuredFamily) -> float:
    """The cost if each query ran by itself. Equal queries share a member, but would each cost as much alone."""
    by_query = [member for member in plan.members for _ in measured.queries[member.name]]
    woven = best_weave([member for member in by_query if member.can_move], measured.load, "full", price_alone=True)
    fixed = sum(_cost_alone(member, measured.load) for member in by_query if not member.can_move)
    return fixed + (0.0 if woven is None else woven.cost_alone)


def _fold_cost(states: Iterable[StateKey], measured: MeasuredFamily) -> float:
    """The cost of folding rows: into the family's slices, or into shared slices whose partials the family merges."""
    load, together = measured.load, measured.folded_with
    if together is None:
        return load.rate * _row_ns(states)
    figures = machine().figures
    partial_ns = figures.slot_ns + sum(figures.intake_ns[state_of(key.kind)] for key in states)
    return load.rate * (_row_ns(together.states) / together.families + together.partials_per_row * partial_ns)


def _row_ns(states: Iterable[StateKey]) -> float:
    """The time for a row to enter a slice. States that hold values are priced with their answers."""
    figures = machine().figures
    return figures.slot_ns + sum(figures.fold_ns[state_of(key.kind)] for key in states if not _is_held(key))


def _fixed_cost(own: TreePlan, load: Load) -> float:
    """The cost of those members of the first tree that cannot move."""
    fixed = [member for member in own.members if not member.can_move]
    return _members_cost(fixed, edge_rate_of(own), own.techniques, load)


def _cost_alone(member: MemberPlan, load: Load) -> float:
    """The cost of a member that cannot move if it had its own fold and slices."""
    edges = edge_rate(classes_of(member.cadence)).per_unit
    states = [key for key in member.aggregation.states if not _is_held(key)]
    techniques = {key: "b_int" if state_of(key.kind) == "max" else "r_int" for key in states}
    return load.rate * _row_ns(member.aggregation.states) + _members_cost([member], edges, techniques, load)


def _members_cost(members: list[MemberPlan], edges: float, techniques: Mapping[StateKey, str], load: Load) -> float:
    """The cost of keeping slices for these members and answering from them."""
    cost = 0.0
    for key in dict.fromkeys(key for member in members for key in member.aggregation.states):
        sums = sums_of(member for member in members if key in member.aggregation.states)
        if _is_held(key):
            cost += held_cost(load.rate, edges, sums, load.groups)
        else:
            name = techniques[key]
            cost += _model(load).kept_by(PRICED_AS.get(name, name), state_of(key.kind), edges, sums)
    return cost + _model(load).delivery(sums_of(members)) if members else 0.0


def _model(load: Load) -> CalibratedModel:
    return machine().with_load(groups=load.groups)


def _is_held(key: StateKey) -> bool:
    return isinstance(key.kind, HeldKind)


# -- trees -------------------------------------------------------------------------------------------------------------


def _tree_report(plan: FamilyPlan, number: int, measured: MeasuredFamily, unit: float) -> TreeReport:
    tree = plan.trees[number]
    keys, model = model_of(plan.movable, measured.load.groups)
    cost = tree_cost(plan, number, keys, model) + (0.0 if number else _fixed_cost(tree, measured.load))
    return TreeReport(
        name=f"tree {number + 1}",
        technique={key.shown: tree.techniques[key] for key in _states(tree.members)},
        members=tuple(query for member in tree.members for query in measured.queries[member.name]),
        edges_per_second=edge_rate_of(tree) * unit,
        slices_held=measured.slices_held[number],
        cost_ns_per_second=cost * unit,
    )


def _states(members: Iterable[MemberPlan]) -> list[StateKey]:
    return list(dict.fromkeys(key for member in members for key in member.aggregation.states))


def _rules(shape: FamilyShape, plan: FamilyPlan) -> tuple[str, ...]:
    """The names of the sharing rules that apply to the longest and the shortest window of each tree."""
    found: dict[str, None] = {}
    for tree in plan.trees:
        spans = sorted({member.cadence.range or 0 for member in tree.members if member.can_move})
        if len(tree.members) < 2 or not spans:
            continue
        interval = math.gcd(*spans, *(member.cadence.slide for member in tree.members))
        for key in _states(tree.members):
            states = frozenset([key])
            kind = synopsis_type(tree.techniques[key])
            synopsis = SynopsisKind(shape.where, states, kind, interval, spans[-1] // interval)
            pair = tuple(SharingQuery(shape.where, states, (span,)) for span in (spans[-1], spans[0]))
            found.update(dict.fromkeys(rule.name for rule in applicable(Situation(pair, (synopsis,)))))
    return tuple(sorted(found))
