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
    """A member of a family, for one query or for several that are alike.

    `can_move`: slices of other trees than the first may answer it.
    """

    name: str
    aggregation: Aggregation
    cadence: Cadence
    can_move: bool


@dataclass(frozen=True)
class TreePlan:
    """Members that share slices, and by which technique each state is kept; a state that is not here, by its default.

    `edges`: where slices are cut, as residue classes (slide, phase).
    """

    members: tuple[MemberPlan, ...]
    techniques: Mapping[StateKey, str]
    edges: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class FamilyPlan:
    """A family as it is divided: the first tree has the family's own slices, cut at the edges of all trees."""

    trees: tuple[TreePlan, ...]

    @property
    def members(self) -> Iterator[MemberPlan]:
        return (member for tree in self.trees for member in tree.members)

    @property
    def movable(self) -> list[MemberPlan]:
        """The members that other slices than the family's own may answer."""
        return [member for member in self.members if member.can_move]
