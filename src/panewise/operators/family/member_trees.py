"""How the members of a family are divided into trees of the weave.

Tree 0 has the store's own slices; trees 1 and up have longer slices, made of those (`stores/tree.py`). Results never
depend on the division, so it may change between any two steps.

Invariant: the windows of a tree are those of its members. A member is in another tree than 0 only if slices with fewer
edges can answer it, and the store can weave.
"""

from __future__ import annotations

from panewise.aggregates.holistic import HeldKind
from panewise.operators.family.family_slices import FamilySlices
from panewise.operators.family.member import Member
from panewise.operators.family.members import Members
from panewise.operators.family.timeline import Timeline
from panewise.operators.held.closed_values import STRUCTURES
from panewise.plan.aggregation import StateKey
from panewise.plan.family_plan import FamilyPlan, TreePlan


class MemberTrees:
    """Reads and changes the division of members into trees."""

    def __init__(self, members: Members, timeline: Timeline, slices: FamilySlices) -> None:
        self._members = members
        self._timeline = timeline
        self._slices = slices

    def __len__(self) -> int:
        return len(self._slices.store.trees) + 1

    @property
    def plan(self) -> FamilyPlan:
        """The current division."""
        store, by_tree = self._slices.store, self._members.by_tree()
        trees = []
        for number in (0, *sorted(store.trees)):
            members = tuple(member.plan for member in by_tree.get(number, ()))
            windows = store.trees[number].windows if number else self._members.windows
            techniques = {key: self._technique_of(number, key) for key in self._timeline.states}
            trees.append(TreePlan(members, techniques, windows.classes))
        return FamilyPlan(tuple(trees))

    def _technique_of(self, number: int, key: StateKey) -> str:
        """What keeps a state in a tree: a technique, or the structure of a state without a fixed size."""
        if isinstance(key.kind, HeldKind):
            return STRUCTURES[key.kind.structure]
        return self._slices.store.technique_of(number, key)

    def become(self, plan: FamilyPlan) -> None:
        """Divides the members as the plan says: some members join existing trees, or all trees are rebuilt.

        Members that need the store's own slices stay in tree 0.
        """
        store = self._slices.store
        if not store.can_weave:
            return
        moving = self._joining(plan)
        if moving is None:
            for member in self._members.in_order:
                self.leave(member)
                member.move_to(0)
            own, *others = plan.trees
            store.weave([tree.techniques for tree in others], own.techniques)
            moving = {member.name: number for number, tree in enumerate(others, 1) for member in tree.members}
        for name, number in moving.items():
            member = self._members.by_name[name]
            if number and member.can_move:
                member.move_to(number)
                store.trees[number].add(member.cadence)

    def _joining(self, plan: FamilyPlan) -> dict[str, int] | None:
        """The members that leave tree 0, with their new trees; None if the plan needs other trees than there are."""
        trees = self._slices.store.trees
        if len(plan.trees) != len(self) or not trees:
            return None
        moving: dict[str, int] = {}
        for number, tree in enumerate(plan.trees):
            if any(self._technique_of(number, key) != name for key, name in tree.techniques.items()):
                return None
            for member in tree.members:
                present = self._members.by_name[member.name].tree
                if present and present != number:
                    return None
                if not present and number:
                    moving[member.name] = number
        return moving

    def leave(self, member: Member) -> None:
        """The member leaves its tree."""
        self._slices.store.leave(member.tree, member.cadence, member.window)
