"""The changes that a change log did not show while its query was suspended, as one net difference.

Changes that undo each other cancel, so no more is held than the rows at the suspension and the rows now:

    shown      +a                        a is shown
    withheld       -a  +b  -b  +c        net: -a +c
    resumed                      -a +c   replaying the log gives the present rows

Cost: amortised O(log n) a change, for n rows that differ.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from panewise.aggregates.columns import wrapped
from panewise.operators.multiset import remaining
from panewise.operators.result_columns import timestamps

SMALL_ROWS = 1024  # Up to this many changes are held before they are cancelled.


class WithheldChanges:
    """The withheld changes of a change log, whose columns are an instant, `change`, and the items."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._held = schema.empty_table()
        self._net_rows = 0  # Number of changes left after they were last cancelled.

    def take(self, batches: list[pa.RecordBatch]) -> None:
        """Takes changes that are not shown."""
        self._held = pa.concat_tables([self._held, pa.Table.from_batches(batches, schema=self._schema)])
        if self._held.num_rows > 2 * self._net_rows + SMALL_ROWS:
            self._cancel()

    def _cancel(self) -> None:
        held = self._held.combine_chunks()
        signs = _signs(held)
        kept = remaining(
            np.zeros(len(signs), np.int64), signs, [column.combine_chunks() for column in held.columns[2:]]
        )
        self._held = held.filter(wrapped(kept)).combine_chunks()
        self._net_rows = self._held.num_rows

    def net(self) -> pa.Table:
        """The net difference: removed rows, then added rows."""
        if not self._held.num_rows:
            return self._held
        self._cancel()
        self._held = self._held.take(wrapped(np.argsort(_signs(self._held), kind="stable"))).combine_chunks()
        return self._held

    def shown_at(self, instant: int) -> list[pa.RecordBatch]:
        """The net difference as changes at one instant; then nothing is withheld any more."""
        net = self.net()
        self._held, self._net_rows = self._schema.empty_table(), 0
        times = timestamps(np.full(net.num_rows, instant, np.int64))
        return list(net.set_column(0, self._schema.field(0), times).to_batches()) if net.num_rows else []


def _signs(log: pa.Table) -> NDArray[np.int64]:
    signs: NDArray[np.int64] = log.column(1).to_numpy().astype(np.int64)
    return signs
