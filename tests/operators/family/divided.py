"""Plans of families as tests want them: members by name, each tree by one technique or by one for each state."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from panewise.operators.family.family import Family
from panewise.plan.aggregation import StateKey
from panewise.plan.family_plan import FamilyPlan, MemberPlan, TreePlan

Techniques = str | Mapping[StateKey, str] | None


def divided(family: Family, trees: Sequence[tuple[Techniques, Collection[str]]], own: Techniques = None) -> FamilyPlan:
    """The family with these trees; the members that are in none keep the store's own slices, by `own`."""
    members = {member.name: member for member in family.plan.members}
    named = {name for _, names in trees for name in names}
    first = _tree(family, own, [member for name, member in members.items() if name not in named])
    return FamilyPlan((first, *(_tree(family, by, [members[name] for name in names]) for by, names in trees)))


def moved(family: Family, name: str, number: int) -> FamilyPlan:
    """The same family with a member of the store's own slices in another tree."""
    plan = family.plan
    member = next(member for member in plan.members if member.name == name)
    trees = [replace(tree, members=tuple(m for m in tree.members if m.name != name)) for tree in plan.trees]
    trees[number] = replace(trees[number], members=(*trees[number].members, member))
    return FamilyPlan(tuple(trees))


def _tree(family: Family, by: Techniques, members: Sequence[MemberPlan]) -> TreePlan:
    """Whoever takes a plan finds the edges by itself."""
    techniques = dict.fromkeys(family.states, by) if isinstance(by, str) else dict(by or {})
    return TreePlan(tuple(members), techniques, ())
