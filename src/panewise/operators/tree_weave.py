"""How the members of a family are divided into trees: each its own slices, made of the store's, and techniques.

Nothing that has been or will be reported depends on it; see `coarse_slices.py`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from panewise.operators.members import Member
from panewise.operators.slice_store import Technique

if TYPE_CHECKING:
    from panewise.operators.periodic import PeriodicTree


def weave_tree(tree: PeriodicTree, trees: Sequence[tuple[Technique, Collection[str]]], own: Technique = None) -> None:
    """Divides the members into trees, each kept by a technique; the rest keep the store's own slices, by `own`.

    Members whose states or windows need the store's slices stay there whatever is asked for.
    """
    store = tree.store
    if not store.can_weave:
        return
    for member in tree.schedule.members:
        leave_tree(tree, member)
        member.tree = 0
    divided = [
        (technique, members)
        for technique, names in trees
        if (members := [tree.members[name] for name in names if tree.members[name].can_move])
    ]
    store.weave([technique for technique, _ in divided], own)
    for number, (_, members) in enumerate(divided, 1):
        for member in members:
            join_tree(tree, member, number)


def join_tree(tree: PeriodicTree, member: Member, number: int) -> None:
    """A member of the store's own tree goes to another one."""
    assert member.tree == 0 and member.can_move
    member.tree = number
    tree.store.trees[number].add(member.cadence)


def leave_tree(tree: PeriodicTree, member: Member) -> None:
    """A member's window will not be asked for again where it was."""
    tree.store.leave(member.tree, member.cadence, member.window)


def members_by_tree(tree: PeriodicTree) -> dict[int, list[Member]]:
    """By number; 0 has the store's own slices."""
    found: dict[int, list[Member]] = {}
    for member, number in zip(tree.schedule.members, tree.schedule.column("tree").tolist(), strict=True):
        found.setdefault(number, []).append(member)
    return found
