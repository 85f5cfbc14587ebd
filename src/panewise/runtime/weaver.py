"""The weaver: how the queries of a family are divided into trees of the weave, and by which techniques, by cost.

It looks at a family between two flushes, when queries have come or gone, when rows come much faster or more slowly than
it was told, or when there are many more groups. Then it asks the optimizer (`optimize.sharing`) and, where that
promises a saving worth the change, has the tree woven anew. One query that comes in between is put where it adds no
edges: into a tree that has them all, or with the store's own slices, which have them anyway.

    sharing = 'weave'   trees and techniques by cost (the default)
              'full'    one tree for all, by the default techniques
              'none'    each query folds and answers for itself; for experiments
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Protocol

from panewise.operators.family.family import Family
from panewise.operators.family.member import Member
from panewise.optimize.sharing.calibration import load, shipped
from panewise.optimize.sharing.costs import (
    EACH_ITS_BEST,
    BestModel,
    CalibratedModel,
    WindowSums,
    state_of,
    window_sums,
)
from panewise.optimize.sharing.edges import edge_rate
from panewise.optimize.sharing.joining import fits
from panewise.optimize.sharing.weaving import Weave, weave
from panewise.plan.aggregation import StateKey
from panewise.slicing.window_set import WindowSet
from panewise.synopses.techniques import TECHNIQUES

MODES = ("weave", "full", "none")
SECOND = 1_000_000
ASSUMED_ROWS_PER_SECOND = 1000.0
DRIFT = 2.0  # the measured rate, groups or number of windows against those of the last weave
WORTH = 0.9  # of the present cost: a weave that costs more than this is not worth the change
FEW = 8  # windows, of which it is not worth looking for more than one tree
# Techniques that are not measured, because the weaver never chooses them, and one that costs about as much.
PRICED_AS = {
    "recompute": "panes", "materialize_none": "panes", "materialize_all": "two_stacks", "stairs": "two_stacks",
    "psoup": "flat_fat", "sparse_two_stacks": "two_stacks",
}  # fmt: skip
CANDIDATES = ("r_int", "b_int", "slick_deque", "two_stacks", "flat_fit", "panes")


class Fed(Protocol):
    """A family, and what is known of the rows that come to it."""

    family: Family
    counts_rows: bool

    @property
    def rows_per_unit(self) -> float | None: ...


@dataclass(frozen=True)
class Load:
    """What a weave was made for: rows per unit of the axis, groups, distinct windows."""

    rate: float
    groups: int
    windows: int

    def near(self, other: Load) -> bool:
        pairs = zip((self.rate, self.groups, self.windows), (other.rate, other.groups, other.windows), strict=True)
        return all(a <= DRIFT * b and b <= DRIFT * a for a, b in pairs)


@dataclass(frozen=True)
class Plan:
    """A weave of a family's members; `techniques[i]` says by what each state of its i-th tree is kept."""

    members: list[Member]
    weave: Weave
    techniques: list[dict[StateKey, str]]


class Weaver:
    """Weaves one consumer's family."""

    def __init__(self, mode: str) -> None:
        self.mode = mode
        self._woven_for: Load | None = None
        self._changes = 0  # of the family's members, as far as they have been looked at
        self._known: set[str] = set()  # members that have their place

    def look(self, consumer: Fed) -> None:
        """Between two flushes: weaves where it is due and worth it."""
        family = consumer.family
        if self.mode != "weave" or family.technique or not family.store.can_weave:
            return
        load = load_of(consumer)
        near = self._woven_for is not None and self._woven_for.near(load)
        if near and family.changes == self._changes:
            return
        if not near and load.windows >= FEW:
            self._woven_for = load
            plan = planned(consumer)
            if plan is not None and plan.weave.cost < WORTH * present_cost(consumer):
                _apply(family, plan)
        elif family.store.trees:
            _place([member for name, member in family.members.items() if name not in self._known], family)
        self._changes, self._known = family.changes, set(family.members)


def _apply(family: Family, plan: Plan) -> None:
    """The tree of the finest edges keeps the store's own slices, which are no coarser."""
    trees = plan.weave.trees
    finest = max(range(len(trees)), key=lambda i: trees[i].edge_rate)
    names = [[plan.members[number].name for number in woven.members] for woven in trees]
    coarse = [(plan.techniques[i], names[i]) for i in range(len(trees)) if i != finest]
    family.weave(coarse, plan.techniques[finest])


def _place(members: list[Member], family: Family) -> None:
    """Each into a tree that has all its edges already; where none has, it stays with the store's own slices."""
    edges = {number: classes_in(coarse.windows) for number, coarse in family.store.trees.items()}
    for member in members:
        fitting = [number for number, classes in edges.items() if fits(classes, member.cadence)]
        if fitting and member.can_move and not member.tree:
            family.join_tree(member.name, fitting[0])


def classes_in(windows: WindowSet) -> tuple[tuple[int, int], ...]:
    slides, phases = windows.edges
    return tuple(zip(slides.tolist(), phases.tolist(), strict=True))


def load_of(consumer: Fed) -> Load:
    rate, family = consumer.rows_per_unit, consumer.family
    assumed = 1.0 if consumer.counts_rows else ASSUMED_ROWS_PER_SECOND / SECOND
    return Load(assumed if rate is None else rate, max(1, family.group_count), len(family.windows))


@cache
def machine() -> CalibratedModel:
    """The figures of this machine where it has been calibrated, else those that panewise ships."""
    return load() or shipped()


def planned(consumer: Fed, optimizer: str = "tri_weave", price_alone: bool = False) -> Plan | None:
    """The best division of those members that may be anywhere; None where there are none."""
    members = consumer.family.movable
    if not members:
        return None
    keys, model = model_of(consumer, members)
    cadences = [member.cadence for member in members]
    woven = weave(cadences, load_of(consumer).rate, model, (EACH_ITS_BEST,), optimizer, price_alone=price_alone)
    techniques = [
        {key: name for key, (_, name) in zip(keys, model.best(tree.edge_rate, sums), strict=True)}
        for tree, sums in ((tree, sums_of(members[number] for number in tree.members)) for tree in woven.trees)
    ]
    return Plan(members, woven, techniques)


def model_of(consumer: Fed, members: list[Member]) -> tuple[list[StateKey], BestModel]:
    """The states of some members, and what they cost on this machine with the groups that there are."""
    keys = list(dict.fromkeys(key for member in members for key in member.aggregation.states))
    offsets = any(member.cadence.offset for member in members)
    admitted = tuple((state_of(key.kind), _admitted(key, offsets)) for key in keys)
    groups = max(1, consumer.family.group_count)
    return keys, BestModel(machine().with_load(states=[state for state, _ in admitted], groups=groups), admitted)


def _admitted(key: StateKey, offsets: bool) -> tuple[str, ...]:
    found = [name for name in CANDIDATES if TECHNIQUES[name].refusal(key.kind, int(offsets)) is None]
    return ("r_int",) if "r_int" in found else tuple(found)


def sums_of(members: Iterable[Member]) -> WindowSums:
    cadences = {member.cadence for member in members}
    ranges = [cadence.range or cadence.slide for cadence in cadences]
    return window_sums(ranges, [cadence.slide for cadence in cadences], [1] * len(cadences))


def present_cost(consumer: Fed) -> float:
    """What the tree costs per unit of the axis as it is woven now."""
    family = consumer.family
    members = family.movable
    keys, model = model_of(consumer, members)
    cost = model.fold(load_of(consumer).rate)
    for number in family.members_by_tree:
        cost += tree_cost(family, number, keys, model)
    return cost


def tree_cost(family: Family, number: int, keys: list[StateKey], model: BestModel) -> float:
    """What one tree of the weave costs per unit of the axis, with what it takes in."""
    store = family.store
    sums = sums_of(member for member in family.members_by_tree[number] if member.can_move)
    windows = store.trees[number].windows if number else family.windows
    rate = edge_rate(classes_in(windows)).per_unit
    cost = model.model.delivery(sums)
    for key, (state, _) in zip(keys, model.admitted, strict=True):
        name = family.store.technique_of(number, key)
        cost += model.model.kept_by(PRICED_AS.get(name, name), state, rate, sums)
    return cost + (model.intake(edge_rate(classes_in(family.windows)).per_unit) if number else 0.0)
