"""A tree without its slices: what it takes, beside the partials that a tree was fed, to make it anew after a fault.

A host that keeps the partials it merged (*pages*) need never write a tree's whole state: per micro-batch it writes the
page and the outline, whose size depends on members and not on slices or groups. Pages of which `needed_from` has passed
every slice's end may go.

    merge(page 1), advance, merge(page 2), advance, outline   ==   rebuild(outline, [page 1, page 2])
                                                              ==   merge(page 1), merge(page 2), forward, adopt(outline)

Invariant: of the slices that begin at `needed_from` or later, every page is there; those that begin earlier are needed
by no report to come and are left out, also where some of their pages are there. A cut that came after a page may have
shortened its slices; the epochs in the outline say so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from panewise.aggregates.columns import integers, wrapped
from panewise.operators.partials import START, merge_partials
from panewise.operators.tree_snapshot import MARKS, MEMBER_MARKS

if TYPE_CHECKING:
    from panewise.operators.periodic import PeriodicTree

INT64_MAX = 2**63 - 1


def outline_of(tree: PeriodicTree) -> dict[str, Any]:
    assert all(member.cadence.range is not None for member in tree.members.values()), "needs slices without end"
    return {
        **{name: getattr(tree, name) for name in MARKS},
        "edges": tree.store.open.edges(),
        "state_held_from": {key.name: since for key, since in tree.state_held_from.items()},
        "members": {name: [getattr(member, mark) for mark in MEMBER_MARKS] for name, member in tree.members.items()},
    }


def rebuild_tree(tree: PeriodicTree, outline: dict[str, Any], pages: list[tuple[pa.RecordBatch, int]]) -> None:
    """The tree must be fresh, with the members of the outlined one."""
    assert not len(tree.store.starts) and not tree.store.open.count
    tree.store.open.set_edges(outline["edges"])
    needed = [(_needed(partials, outline["needed_from"]), base) for partials, base in pages]
    kept = [(partials, base) for partials, base in needed if partials.num_rows]
    firsts = [int(integers(partials.column(START)).min()) for partials, _ in kept]
    for i, (partials, base) in enumerate(kept):
        merge_partials(tree, partials, base)
        # Slices that no later page adds to need not wait among the open ones, which take more room.
        tree.store.close(min([outline["watermark"], *firsts[i + 1 :]]))
    adopt_outline(tree, outline)
    # Cursors begin with the slices held, so at its next report a member judges every group in them.
    for member in tree.members.values():
        member.touched = tree.store.touched(member.cadence)


def adopt_outline(tree: PeriodicTree, outline: dict[str, Any]) -> None:
    """The marks of the tree and of its members, and its edges."""
    assert set(tree.members) == set(outline["members"]), "other members than those of the outline"
    for name in MARKS:
        setattr(tree, name, outline[name])
    for key in tree.state_held_from:
        tree.state_held_from[key] = outline["state_held_from"][key.name]
    tree.store.open.set_edges(outline["edges"])
    for name, saved in outline["members"].items():
        for mark, value in zip(MEMBER_MARKS, saved, strict=True):
            setattr(tree.members[name], mark, value)
    tree.schedule.look_closer()


def _needed(page: pa.RecordBatch, needed_from: int) -> pa.RecordBatch:
    starts = integers(page.column(START))
    if not len(starts) or int(starts.min()) >= needed_from:
        return page
    return page.take(wrapped(np.flatnonzero(starts >= needed_from)))
