"""Dropping groups and strings that no slice holds: memory follows what is live, not what has ever been seen.

Idle groups and strings are searched for when their table or pool has doubled since the last search. This costs O(1) for
each new group or string, amortised.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from panewise.aggregates.states import Feed
from panewise.language.expressions import Expression
from panewise.operators.family.groups import Groups
from panewise.operators.family.member import Member
from panewise.operators.family.partials import Packed
from panewise.operators.family.stores.slice_store import SliceStore
from panewise.plan.aggregation import StateKey

FORGET_FROM = 65_536  # groups or strings; with fewer, no search is worth its cost


class Eviction:
    """`groups_kept`: the number of groups after the last search."""

    def __init__(self, groups: Groups) -> None:
        self._groups = groups
        self.groups_kept = 0
        self._strings_kept: dict[Expression, int] = {}  # the number of strings after the last search, by pool

    def restore(self, groups_kept: int) -> None:
        """`groups_kept` of a snapshot; strings start at 0 again."""
        self.groups_kept = groups_kept

    def keep_only(self, packed: Packed) -> None:
        """Keeps only the groups and strings of a packed batch, if there are many more. Slices must hold no others."""
        groups = self._groups
        if groups.keys and len(groups) > 2 * len(packed.groups) + FORGET_FROM:
            groups.table.keep(packed.groups)
        for argument, pool in list(groups.pools.items()):
            live = packed.codes.get(argument)
            if live is None:
                live = np.empty(0, np.int64)
            if len(pool) > 2 * len(live) + FORGET_FROM:
                pool.keep(live)

    def evict_groups(self, store: SliceStore, members: Iterable[Member]) -> None:
        """Drops the groups that no slice holds, each time the table has doubled."""
        table = self._groups.table
        if len(table) < 2 * self.groups_kept + FORGET_FROM:
            return
        live = store.live_groups()
        self.groups_kept = len(table)
        if live is None or 2 * len(live) > len(table):
            return
        self.groups_kept = len(live)
        renamed = table.keep(live)
        room = store.regroup(live, renamed)
        for member in members:
            member.regroup(live, renamed, room)

    def evict_strings(self, store: SliceStore, states: Iterable[StateKey]) -> None:
        """Drops the strings that no state holds, each time their pool has doubled."""
        pools = self._groups.pools
        for argument, pool in list(pools.items()):
            if not len(pool) or len(pool) < 2 * self._strings_kept.get(argument, 0) + FORGET_FROM:
                continue
            fields = [(key, place) for key in states for place, of in key.code_fields if of == argument]
            held = [key for key in store.held.keys if key.kind.feeds[0] is Feed.CODE and key.arguments[0] == argument]
            if not fields and not held:  # no query reads it any more
                del pools[argument]
                continue
            codes = [a[place] for key, place in fields for a in store.live_ints(key)]
            codes += [a for key in held for a in store.held.codes(key)]
            live = np.unique(np.concatenate([np.empty(0, np.int64), *codes]))
            live = live[live >= 0]
            self._strings_kept[argument] = len(pool)
            if 2 * len(live) <= len(pool):
                self._strings_kept[argument] = len(live)
                renamed = pool.keep(live)
                for key, place in fields:
                    for array in store.int_arrays(key):
                        array[place] = np.where(array[place] >= 0, renamed[array[place]], -1)
                store.discard_trees()
                for key in held:
                    store.held.recode(key, renamed)
