"""How the members of a family are divided into trees, as a value.

A family begins with one tree. It goes from one plan to another between two batches, as its `Adapting` allows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from panewise.plan.aggregation import Aggregation, StateKey
from panewise.slicing.pairs import Cadence


@dataclass(frozen=True)
class MemberPlan:
    """A member of a family, which serves one query or several equal ones.

    `can_move`: whether it may be answered from slices of a tree other than the first.
    """

    name: str
    aggregation: Aggregation
    cadence: Cadence
    can_move: bool


@dataclass(frozen=True)
class TreePlan:
    """Members that share slices, and the technique for each state. States without one have their default technique.

    `edges`: where slices are cut, as residue classes (slide, phase).
    """

    members: tuple[MemberPlan, ...]
    techniques: Mapping[StateKey, str]
    edges: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class FamilyPlan:
    """The trees of a family. The first has the family's own slices, which are cut at the edges of all trees."""

    trees: tuple[TreePlan, ...]

    @property
    def members(self) -> Iterator[MemberPlan]:
        return (member for tree in self.trees for member in tree.members)

    @property
    def movable(self) -> list[MemberPlan]:
        """The members that can move to a tree other than the first."""
        return [member for member in self.members if member.can_move]
