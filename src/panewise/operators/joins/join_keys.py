"""The keys of a join as small integers: one table per class of equal attributes, shared by its inputs.

Equal keys have equal numbers whichever input they come from, so that an index is an array by number. A row with a NULL
in a key joins nothing and is not held. -0.0 and 0.0 are one key, and so are all NaN. Keys that no row has any more
are dropped when they are more than half of all keys.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from panewise.aggregates.columns import wrapped
from panewise.aggregates.matrix import validity
from panewise.arrays import Ints
from panewise.plan.expressions.evaluate import compiled
from panewise.plan.expressions.join_condition import KeyClass
from panewise.state.group_table import GroupTable

Mask = NDArray[np.bool_]
KEYS_MIN = 1024


class JoinKeys:
    """The key tables of all classes."""

    def __init__(self, classes: Sequence[KeyClass], inputs: int) -> None:
        self._tables = [GroupTable(key_class.types) for key_class in classes]
        self._evaluators = [
            {c: [compiled(e) for e in key_class.keys[i]] for c, key_class in enumerate(classes) if i in key_class.keys}
            for i in range(inputs)
        ]

    @property
    def bytes_held(self) -> int:
        return sum(table.bytes_held for table in self._tables)

    def count(self, c: int) -> int:
        return len(self._tables[c])

    def numbered(self, i: int, batch: pa.RecordBatch) -> tuple[Mask | None, dict[int, Ints]]:
        """A mask of the rows of input i without a NULL in a key (None: all rows), and their key numbers by class."""
        columns = {c: [key(batch) for key in keys] for c, keys in self._evaluators[i].items()}
        mask: Mask | None = None
        for column in (column for keys in columns.values() for column in keys):
            valid = validity(column)
            if len(valid):
                mask = valid.view(np.bool_) if mask is None else mask & valid.view(np.bool_)
        if mask is not None:
            kept = wrapped(np.flatnonzero(mask))
            columns = {c: [column.take(kept) for column in keys] for c, keys in columns.items()}
        return mask, {c: self._tables[c].ids(keys) for c, keys in columns.items()}

    def renumbered(self, c: int, held: Iterable[NDArray[Any]], rows: int) -> Ints | None:
        """Drops the keys of a class that no row has, if they are many.

        `held` has the key numbers of the `rows` rows of the class. Returns the new numbers by old ones, None if nothing
        changed.
        """
        table = self._tables[c]
        if len(table) <= max(KEYS_MIN, 2 * rows):
            return None
        live = np.zeros(len(table), np.bool_)
        for numbers in held:
            live[numbers] = True
        return table.keep(np.flatnonzero(live))

    def snapshot(self) -> list[Any]:
        return [table.snapshot() for table in self._tables]

    def restore(self, snapshot: list[Any]) -> None:
        for table, own in zip(self._tables, snapshot, strict=True):
            table.restore(own)
