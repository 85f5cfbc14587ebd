"""The rows that enter the answer of a continuous query, each with the instant at which it will leave.

A change log reports that a row has left only when it has. A reader that needs the instant beforehand reads this second
channel of the query, which exists while it is read. Its columns are `instant`, the items and `_expires`; its watermark
is that of the query. At any instant t below the watermark the answer is the multiset of rows with
`instant <= t < _expires`. So if one row replaces an equal one (DISTINCT), both appear, although the change log has no
entry. Rows come in order of `instant`, and do not depend on how time was divided into steps. Cost: O(rows held) a step.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from panewise.engine.channels.channel import Channel
from panewise.engine.channels.readers import Reader
from panewise.operators.lifetimes import FOREVER, NEVER
from panewise.operators.relation_rows import Entered, RelationRows
from panewise.operators.result_columns import INSTANT, timestamps
from panewise.operators.row_batch import Rows
from panewise.plan.nodes import Emit
from panewise.schema import TIMESTAMP, Column, Schema

EXPIRES = "_expires"


def answer_schema(plan: Emit) -> Schema:
    """The instant at which a row enters the answer, and the items."""
    return Schema((Column(INSTANT, TIMESTAMP), *plan.input.schema))


class EnteringRows(Channel):
    """The entering rows of one query, from its watermark on."""

    def __init__(self, name: str, plan: Emit, relation: RelationRows, watermark: int) -> None:
        super().__init__(name, Schema((*answer_schema(plan), Column(EXPIRES, TIMESTAMP))), INSTANT)
        self.watermark = watermark
        self._relation = relation

    def attach(self, reader: Reader, history: Rows | None = None) -> None:
        self._relation.followed = True
        super().attach(reader, history)

    def detach(self, reader: Reader) -> None:
        super().detach(reader)
        if not self.consumers:
            self._relation.followed, self._relation.entered = False, None

    def step(self, watermark: int) -> None:
        """The query has come to this watermark: hands on the rows that entered its relation."""
        entered, self._relation.entered = self._relation.entered, None
        self.flow(self.empty_rows() if entered is None else self._rows(entered), watermark)

    def go_on_from(self, watermark: int) -> None:
        """Restores the watermark."""
        self.watermark = watermark

    def present(self) -> Rows:
        """The rows of the answer now, which a new reader gets first."""
        return self._rows(self._relation.entering(NEVER, self.watermark))

    def _rows(self, entered: Entered) -> Rows:
        assert not (entered.deaths == FOREVER).any(), "rows of this query were to have lifetimes of their own"
        values = entered.values.combine_chunks()
        columns = [timestamps(entered.births), *values.columns, timestamps(entered.deaths)]
        table = pa.Table.from_arrays(columns, schema=self.schema.to_arrow()).combine_chunks()
        batches = table.to_batches()
        if not batches:
            return self.empty_rows()
        return Rows(batches[0], np.ascontiguousarray(entered.births), self.rows_seen, ascends=True)
