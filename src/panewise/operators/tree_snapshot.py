"""A tree's whole state as plain values and arrays, and a tree made of it again.

Proportional to slices times groups: for hosts that write a tree down as one piece. `tree_outline.py` is for those that
keep the partials by which it was fed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from panewise.aggregates.states import Feed
from panewise.aggregates.string_pool import StringPool
from panewise.language.expressions import Expression
from panewise.operators.slice_store import SPARSE

if TYPE_CHECKING:
    from panewise.operators.periodic import PeriodicTree

MARKS = ("watermark", "greatest", "held_from", "cut", "by_cuts", "needed_from", "evicted_to")
MEMBER_MARKS = ("reported", "held_from", "first_report", "begun", "endless", "suspended")


def snapshot_of(tree: PeriodicTree) -> dict[str, Any]:
    return {
        "sparse": tree.store.name == SPARSE,
        "store": tree.store.snapshot(),
        "table": tree.table.snapshot(),
        "pools": [pa.record_batch({"s": pool.all_strings()}) for pool in _pools(tree)],
        "groups_kept": tree.groups_kept,
        "states": [repr(key) for key in tree.state_held_from],
        "state_held_from": list(tree.state_held_from.values()),
        **{name: getattr(tree, name) for name in MARKS},
        "members": {
            name: {
                **{mark: getattr(member, mark) for mark in MEMBER_MARKS},
                "passing": member.passing.view(np.uint8).astype(np.int64),
                "touched": np.concatenate(member.touched) if member.touched else np.empty(0, np.int64),
            }
            for name, member in tree.members.items()
        },
    }


def _pools(tree: PeriodicTree) -> list[StringPool]:
    """The pools in an order that follows from the states alone."""
    found: dict[Expression, StringPool] = {}
    for key in tree.state_held_from:
        for argument, feed in zip(key.arguments, key.kind.feeds, strict=False):
            if feed is Feed.CODE:
                found[argument] = tree.pools.setdefault(argument, StringPool())
    return list(found.values())


def restore_tree(tree: PeriodicTree, snapshot: dict[str, Any]) -> None:
    """The members must have been added already; their states take the order of the snapshot."""
    by_name = {repr(key): key for key in tree.state_held_from}
    order = [by_name[name] for name in snapshot["states"]]
    tree.argument_plan = None
    tree.state_held_from = dict(zip(order, snapshot["state_held_from"], strict=True))
    for pool, strings in zip(_pools(tree), snapshot["pools"], strict=True):
        pool.load(strings.column(0))
    tree.table.restore(snapshot["table"])
    if snapshot["sparse"]:
        tree.store = tree.store.as_written(SPARSE, tree.windows)
    tree.store.restore(snapshot["store"])
    tree.groups_kept = snapshot["groups_kept"]
    for name in MARKS:
        setattr(tree, name, snapshot[name])
    for name, saved in snapshot["members"].items():
        member = tree.members[name]
        for mark in MEMBER_MARKS:
            setattr(member, mark, saved[mark])
        member.passing = saved["passing"].astype(np.bool_)
        member.touched = [saved["touched"]] if len(saved["touched"]) else []
    tree.schedule.look_closer()
