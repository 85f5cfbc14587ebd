"""Slices, groups and strings that nobody needs any more leave a tree: it follows what is live and not what ever was.

Slices go at every step; groups and strings are looked for when a table or pool has doubled since the last look: O(1)
amortised for each group or string that came.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from panewise.aggregates.states import Feed
from panewise.language.expressions import Expression

if TYPE_CHECKING:
    from panewise.operators.periodic import PeriodicTree

Ints = NDArray[np.int64]
FORGET_FROM = 65_536  # groups or strings; fewer are not worth looking for idle ones
INT64_MIN = -(2**63)
INT64_MAX = 2**63 - 1


def evict_slices(tree: PeriodicTree) -> None:
    """Drops the slices that no member's next report needs."""
    needed = len(tree.store.starts)
    held_to = reach = INT64_MAX
    schedule = tree.schedule
    if len(schedule):
        following = schedule.next_reports(np.maximum(schedule.column("reported"), tree.watermark))
        bounded = schedule.column("range") > 0
        starts = (following - schedule.column("offset") - schedule.column("range"))[bounded]
        if len(starts):
            held_to = reach = int(starts.min())
        for row in np.flatnonzero(~bounded):
            member = schedule.members[row]
            start = min(int(following[row]) - member.cadence.offset, tree.watermark)
            number = int(np.searchsorted(tree.store.ends, start, side="right"))
            member.endless = member.endless or number > 0
            needed = min(needed, number)
            reach = min(reach, start)
    tree.needed_from = max(tree.needed_from, min(reach, tree.watermark))
    if not len(tree.store.starts):
        return
    needed = min(needed, int(np.searchsorted(tree.store.starts, held_to, side="left")))
    if needed:
        # It follows from the rows, and not from the steps in which slices go, what is still held.
        tree.evicted_to = int(tree.store.ends[needed - 1])
    tree.store.evict(tree.store.first + needed)


def forget_folded(tree: PeriodicTree, groups: Ints, codes: dict[Expression, Ints]) -> None:
    """After `take_partials`, where nothing is held: keeps only these groups and strings, if far more are there."""
    if tree.watermark != INT64_MIN:
        return
    if tree.keys and len(tree.table) > 2 * len(groups) + FORGET_FROM:
        tree.table.keep(groups)
    for argument, pool in list(tree.pools.items()):
        live = codes.get(argument)
        if live is None:
            live = np.empty(0, np.int64)
        if len(pool) > 2 * len(live) + FORGET_FROM:
            pool.keep(live)


def forget_groups(tree: PeriodicTree) -> None:
    """Lets groups go that no slice holds any more, each time the table has doubled."""
    store = tree.store
    if len(tree.table) < 2 * tree.groups_kept + FORGET_FROM:
        return
    live = store.live_groups()
    tree.groups_kept = len(tree.table)
    if live is None or 2 * len(live) > len(tree.table):
        return
    tree.groups_kept = len(live)
    renamed = tree.table.keep(live)
    room = store.regroup(live, renamed)
    for member in tree.members.values():
        passing = np.zeros(room, np.bool_)
        known = live[live < len(member.passing)]
        passing[: len(known)] = member.passing[known]
        member.passing = passing
        touched = [renamed[groups] for groups in member.touched]
        member.touched = [groups[groups >= 0] for groups in touched]


def forget_strings(tree: PeriodicTree) -> None:
    """Lets strings go that no state holds any more, each time their pool has doubled."""
    for argument, pool in list(tree.pools.items()):
        if not len(pool) or len(pool) < 2 * tree.strings_kept.get(argument, 0) + FORGET_FROM:
            continue
        fields = [(key, place) for key in tree.state_held_from for place, of in key.code_fields if of == argument]
        held = [key for key in tree.store.held.keys if key.kind.feeds[0] is Feed.CODE and key.arguments[0] == argument]
        if not fields and not held:  # the queries that read it have gone
            del tree.pools[argument]
            continue
        codes = [a[place] for key, place in fields for a in tree.store.live_ints(key)]
        codes += [a for key in held for a in tree.store.held.codes(key)]
        live = np.unique(np.concatenate([np.empty(0, np.int64), *codes]))
        live = live[live >= 0]
        tree.strings_kept[argument] = len(pool)
        if 2 * len(live) <= len(pool):
            tree.strings_kept[argument] = len(live)
            renamed = pool.keep(live)
            for key, place in fields:
                for array in tree.store.int_arrays(key):
                    array[place] = np.where(array[place] >= 0, renamed[array[place]], -1)
            tree.store.make_trees_anew()
            for key in held:
                tree.store.held.recode(key, renamed)
