"""The groups and strings of a family: keys of rows become ids, ids of reports become keys, strings become codes.

A family without GROUP BY has one group, with id 0 and no keys. States hold strings as codes of a pool; each aggregated
expression has a pool of its own.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa

from panewise.aggregates.states import Feed
from panewise.aggregates.string_pool import StringPool
from panewise.arrays import Ints
from panewise.language.expressions import Expression
from panewise.plan.aggregation import Pools, StateKey
from panewise.plan.expressions.evaluate import compiled
from panewise.state.group_table import GroupTable


class Groups:
    """`table` numbers the groups, and `pools` the strings of each aggregated expression."""

    def __init__(self, keys: tuple[Expression, ...]) -> None:
        self.keys = keys
        self.table = GroupTable(tuple(key.type for key in keys))
        self.pools: Pools = {}
        self._columns = [compiled(key) for key in keys]
        self._repeated: tuple[int, tuple[int, int], list[pa.Array]] | None = None

    def __len__(self) -> int:
        return len(self.table)

    @property
    def bytes_held(self) -> int:
        return self.table.bytes_held + sum(pool.bytes_held for pool in self.pools.values())

    def words(self, batch: pa.RecordBatch) -> tuple[Ints, Ints]:
        """The keys of rows in the form that the table takes."""
        return self.table.words([column(batch) for column in self._columns])

    def keys_of(self, ids: Ints) -> list[pa.Array]:
        return self.table.keys(ids) if self.keys else []

    def all_keys(self, times: int) -> list[pa.Array]:
        """The key columns of all groups, repeated `times` times; cached, because most reports need the same columns."""
        count = len(self.table)
        kept = self._repeated
        if kept is None or kept[0] < times or kept[1] != (count, self.table.version):
            ids = np.tile(np.arange(count, dtype=np.int64), times + 1)
            kept = self._repeated = times + 1, (count, self.table.version), self.keys_of(ids)
        return [column.slice(0, times * count) for column in kept[2]]

    def pool(self, argument: Expression) -> StringPool:
        return self.pools.setdefault(argument, StringPool())

    def pool_of(self, key: StateKey) -> StringPool | None:
        """The pool whose codes a state without a fixed size holds; None if it holds other values."""
        return self.pool(key.arguments[0]) if key.kind.feeds[0] is Feed.CODE else None

    # -- snapshots -----------------------------------------------------------------------------------------------

    def _pools_of(self, states: Iterable[StateKey]) -> list[StringPool]:
        """The pools, in an order that depends on the states only."""
        found: dict[Expression, StringPool] = {}
        for key in states:
            for argument, feed in zip(key.arguments, key.kind.feeds, strict=False):
                if feed is Feed.CODE:
                    found[argument] = self.pool(argument)
        return list(found.values())

    def snapshot(self, states: Iterable[StateKey]) -> dict[str, Any]:
        return {
            "table": self.table.snapshot(),
            "pools": [pa.record_batch({"s": pool.all_strings()}) for pool in self._pools_of(states)],
        }

    def restore(self, snapshot: dict[str, Any], states: Iterable[StateKey]) -> None:
        for pool, strings in zip(self._pools_of(states), snapshot["pools"], strict=True):
            pool.load(strings.column(0))
        self.table.restore(snapshot["table"])
