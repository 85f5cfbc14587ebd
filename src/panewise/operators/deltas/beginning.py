"""Where a plan that starts in mid-stream begins: earlier results wait until then, and those that die before never show.

Elsewhere windows hold their rows back themselves (`windowed_source`). Rows that meet versions of a table must come at
their own instants, so that each meets the right version. Their join results are held back here instead.

A row costs O(1). State: the results that wait for the beginning; nothing after it. The input may not be STRICT.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from panewise.aggregates.columns import empty_batch
from panewise.operators.relation_delta import NONE, Delta, DeltaOperator, no_delta


class Beginning(DeltaOperator):
    """Holds the rows of an edge back until the instant `begins`."""

    name = "Beginning"

    def __init__(self, schema: pa.Schema, begins: int) -> None:
        self._begins = begins
        self._waiting = Delta(empty_batch(schema), NONE, NONE, NONE)

    @property
    def bytes_held(self) -> int:
        return int(self._waiting.batch.nbytes) + 3 * self._waiting.births.nbytes

    def process(self, inputs: list[Delta], since: int, until: int) -> Delta:
        (delta,) = inputs
        if since > self._begins:  # An earlier step has shown the waiting rows.
            return delta
        assert not len(delta.ended), "a table is not joined above a STRICT edge"
        both = self._waiting, delta.take(delta.deaths > self._begins)
        batch = pa.Table.from_batches([part.batch for part in both if len(part)], delta.batch.schema).combine_chunks()
        births = np.maximum(np.concatenate([part.births for part in both]), self._begins)
        whole = Delta(
            batch.to_batches()[0] if batch.num_rows else empty_batch(delta.batch.schema),
            np.concatenate([part.sequences for part in both]),
            births,
            np.concatenate([part.deaths for part in both]),
        )
        nothing = no_delta(delta.batch.schema)
        self._waiting, shown = (whole, nothing) if until <= self._begins else (nothing, whole)
        return shown

    def snapshot(self) -> dict[str, Any]:
        waiting = self._waiting
        return {
            "begins": self._begins,
            "batch": waiting.batch,
            "sequences": waiting.sequences,
            "births": waiting.births,
            "deaths": waiting.deaths,
        }

    def restore(self, snapshot: dict[str, Any]) -> None:
        self._begins = snapshot["begins"]
        columns = snapshot["sequences"], snapshot["births"], snapshot["deaths"]
        self._waiting = Delta(snapshot["batch"], *columns)
