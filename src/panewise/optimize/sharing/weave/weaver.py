"""The weaver: divides the members of a running family into trees, and chooses their techniques, by cost.

It looks at a family between two batches, when queries have come or gone, when rows come much faster or more slowly than
at the last weave, or when the number of groups has changed much. Then it finds the best weave (`weaving.py`). If that
saves enough, it returns the new plan of the family. A single new query between weaves goes where it adds no edges: into
a tree that has them all, or to the family's own slices, which always have them.

    sharing = 'weave'   trees and techniques by cost (the default)
              'full'    one tree for all queries, with the default techniques
              'none'    each query folds and answers by itself; for experiments
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache

from panewise.optimize.sharing.costs.calibration import load, shipped
from panewise.optimize.sharing.costs.weave_costs import (
    EACH_ITS_BEST,
    BestModel,
    CalibratedModel,
    WindowSums,
    state_of,
    window_sums,
)
from panewise.optimize.sharing.edges.edge_counts import edge_rate
from panewise.optimize.sharing.weave.joining import fits
from panewise.optimize.sharing.weave.weaving import Weave, weave
from panewise.plan.aggregation import StateKey
from panewise.plan.family_plan import FamilyPlan, MemberPlan, TreePlan
from panewise.synopses.techniques import TECHNIQUES

SECOND = 1_000_000
ASSUMED_ROWS_PER_SECOND = 1000.0
DRIFT = 2.0  # factor by which the rate, groups or windows must have changed since the last weave
WORTH = 0.9  # a new weave must cost less than this share of the present cost
FEW = 8  # with fewer windows than this, one tree is enough
# Techniques that are not measured, because the weaver never chooses them, with one of about the same cost.
PRICED_AS = {
    "recompute": "panes", "materialize_none": "panes", "materialize_all": "two_stacks", "stairs": "two_stacks",
    "psoup": "flat_fat", "sparse_two_stacks": "two_stacks",
}  # fmt: skip
CANDIDATES = ("r_int", "b_int", "slick_deque", "two_stacks", "flat_fit", "panes")


@dataclass(frozen=True)
class Load:
    """What a weave depends on: rows per unit of the axis, groups, distinct windows."""

    rate: float
    groups: int
    windows: int

    def near(self, other: Load) -> bool:
        pairs = zip((self.rate, self.groups, self.windows), (other.rate, other.groups, other.windows), strict=True)
        return all(a <= DRIFT * b and b <= DRIFT * a for a, b in pairs)


class Weaver:
    """Weaves one family for as long as it runs."""

    def __init__(self) -> None:
        self._woven_for: Load | None = None
        self._changes = 0  # number of membership changes at the last look
        self._known: set[str] = set()  # members at the last look

    def is_due(self, load: Load, changes: int, trees: int) -> bool:
        """Whether anything has changed that a plan depends on. `changes`: number of membership changes so far.

        A family with one tree and few windows is never due, because making its plan takes time for each member.
        """
        return (trees > 1 and changes != self._changes) or self._is_to_weave(load)

    def _is_to_weave(self, load: Load) -> bool:
        return load.windows >= FEW and (self._woven_for is None or not self._woven_for.near(load))

    def next_plan(self, present: FamilyPlan, load: Load, changes: int) -> FamilyPlan | None:
        """The new plan of the family; None if it should stay as it is."""
        found = None
        if self._is_to_weave(load):
            self._woven_for = load
            best = best_plan(present, load)
            found = best[0] if best is not None and best[1] < WORTH * cost_of(present, load) else None
        elif len(present.trees) > 1:
            found = _with_places(present, self._known)
        self._changes, self._known = changes, {member.name for member in present.members}
        return found


def _with_places(present: FamilyPlan, known: set[str]) -> FamilyPlan | None:
    """The plan with new members moved to trees that already have all of their edges; None if none can move."""
    own, *others = present.trees
    moving: dict[str, int] = {}
    for member in own.members:
        if member.can_move and member.name not in known:
            fitting = [number for number, tree in enumerate(others) if fits(tree.edges, member.cadence)]
            if fitting:
                moving[member.name] = fitting[0]
    if not moving:
        return None
    trees = [replace(own, members=tuple(member for member in own.members if member.name not in moving))]
    for number, tree in enumerate(others):
        joining = tuple(member for member in own.members if moving.get(member.name) == number)
        trees.append(replace(tree, members=(*tree.members, *joining)))
    return FamilyPlan(tuple(trees))


def best_plan(present: FamilyPlan, load: Load) -> tuple[FamilyPlan, float] | None:
    """The plan with the cheapest division of the members that can move, and its cost; None if no member can move."""
    members = present.movable
    woven = best_weave(members, load)
    if woven is None:
        return None
    keys, model = model_of(members, load.groups)
    trees = []
    for tree in woven.trees:
        held = tuple(members[number] for number in tree.members)
        best = model.best(tree.edge_rate, sums_of(held))
        trees.append(TreePlan(held, {key: name for key, (_, name) in zip(keys, best, strict=True)}, tree.edges))
    # The tree of the finest edges gets the family's own slices, which are no coarser.
    finest = max(range(len(trees)), key=lambda number: woven.trees[number].edge_rate)
    fixed = tuple(member for member in present.members if not member.can_move)
    own = TreePlan((*fixed, *trees[finest].members), trees[finest].techniques, present.trees[0].edges)
    others = [tree for number, tree in enumerate(trees) if number != finest]
    return FamilyPlan((own, *others)), woven.cost


def best_weave(
    members: list[MemberPlan], load: Load, optimizer: str = "tri_weave", price_alone: bool = False
) -> Weave | None:
    """The best weave of these members, which it names by number; None if there are none."""
    if not members:
        return None
    _, model = model_of(members, load.groups)
    cadences = [member.cadence for member in members]
    return weave(cadences, load.rate, model, (EACH_ITS_BEST,), optimizer, price_alone=price_alone)


def cost_of_one_tree(members: list[MemberPlan], load: Load) -> float:
    """The cost per unit of the axis if one tree answered all members. Equal windows are answered once."""
    if not members:
        return 0.0
    _, model = model_of(members, load.groups)
    cadences = list(dict.fromkeys(member.cadence for member in members))
    return weave(cadences, load.rate, model, (EACH_ITS_BEST,), "full").cost_full


@cache
def machine() -> CalibratedModel:
    """The figures of this machine if it has been calibrated, otherwise the shipped figures."""
    return load() or shipped()


def model_of(members: list[MemberPlan], groups: int) -> tuple[list[StateKey], BestModel]:
    """The states of some members, and the cost model for them on this machine with this number of groups."""
    keys = list(dict.fromkeys(key for member in members for key in member.aggregation.states))
    offsets = any(member.cadence.offset for member in members)
    admitted = tuple((state_of(key.kind), _admitted(key, offsets)) for key in keys)
    return keys, BestModel(machine().with_load(states=[state for state, _ in admitted], groups=groups), admitted)


def _admitted(key: StateKey, offsets: bool) -> tuple[str, ...]:
    found = [name for name in CANDIDATES if TECHNIQUES[name].refusal(key.kind, int(offsets)) is None]
    return ("r_int",) if "r_int" in found else tuple(found)


def sums_of(members: Iterable[MemberPlan]) -> WindowSums:
    cadences = {member.cadence for member in members}
    ranges = [cadence.range or cadence.slide for cadence in cadences]
    return window_sums(ranges, [cadence.slide for cadence in cadences], [1] * len(cadences))


def edge_rate_of(tree: TreePlan) -> float:
    """The number of edges of a tree per unit of the axis."""
    return edge_rate(tree.edges).per_unit


def cost_of(plan: FamilyPlan, load: Load) -> float:
    """The cost of a family per unit of the axis."""
    keys, model = model_of(plan.movable, load.groups)
    return model.fold(load.rate) + sum(tree_cost(plan, number, keys, model) for number in range(len(plan.trees)))


def tree_cost(plan: FamilyPlan, number: int, keys: list[StateKey], model: BestModel) -> float:
    """The cost of one tree per unit of the axis, including its intake."""
    tree = plan.trees[number]
    sums = sums_of(member for member in tree.members if member.can_move)
    rate = edge_rate_of(tree)
    cost = model.model.delivery(sums)
    for key, (state, _) in zip(keys, model.admitted, strict=True):
        name = tree.techniques[key]
        cost += model.model.kept_by(PRICED_AS.get(name, name), state, rate, sums)
    return cost + (model.intake(edge_rate_of(plan.trees[0])) if number else 0.0)
