"""The join with a non-retroactive table: a row meets only the version of the table at its own birth.

It is a `WindowJoin` in which a row of the stream side lives for one instant, that of its birth. Later changes of the
table therefore never meet it, and the stream side is not kept. A result lives as long as its stream row, whose death is
carried as one more column. Births and deaths thus have the order of the stream side, whose update pattern the output
keeps; the end of a table's row ends no result. The stream side may not be STRICT: when a row ends, the version that it
met is gone. Within a step, rows of the table come and end at their own instants, and at one instant they come before
the stream's rows. Older versions are not kept. Golab 2006, sections 3.3.1 and 3.5.3.

A row costs O(1) expected and its results; state is the table, and the columns of the join's key.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from panewise.aggregates.columns import wrapped
from panewise.language.expressions import Expression
from panewise.operators.joins.window_join import WindowJoin
from panewise.operators.read_budget import ReadBudget
from panewise.operators.relation_delta import Delta, DeltaOperator

DEATH = "\0death"  # No name in a statement can contain \0.


class VersionedJoin(DeltaOperator):
    """Inputs: the stream side, then the table, whose columns have other names.

    >>> from panewise.language.functions import resolve
    >>> from panewise.language.expressions import ColumnRef
    >>> from panewise.schema import BIGINT
    >>> same = resolve("eq", (ColumnRef(BIGINT, "s.k"), ColumnRef(BIGINT, "t.k")))
    >>> join = VersionedJoin(pa.schema([("s.k", pa.int64())]), pa.schema([("t.k", pa.int64())]), same)
    >>> def delta(name, births, death):
    ...     births = np.array(births)
    ...     return Delta(pa.record_batch({name: [7] * len(births)}), births, births, np.full(len(births), death))
    >>> result = join.process([delta("s.k", [0, 5], 20), delta("t.k", [0], 2**63 - 1)], 0, 10)
    >>> result.births.tolist(), result.deaths.tolist()
    ([0, 5], [20, 20])
    """

    name = "VersionedJoin"

    def __init__(self, stream: pa.Schema, table: pa.Schema, condition: Expression | None) -> None:
        self.schema = pa.schema([*stream, *table])
        # The table is the first input, so that at one instant its changes come before the rows that join it.
        self._join = WindowJoin([table, stream.append(pa.field(DEATH, pa.int64()))], condition, strict=[True, False])

    def spend(self, budget: ReadBudget | None) -> None:
        """From now on results are charged to the budget."""
        self._join.spend(budget)

    @property
    def bytes_held(self) -> int:
        return self._join.bytes_held

    def process(self, inputs: list[Delta], since: int, until: int) -> Delta:
        stream, table = inputs
        assert not len(stream.ended), "a table is not joined above a STRICT edge"
        columns = [*stream.batch.columns, wrapped(stream.deaths)]
        carried = pa.RecordBatch.from_arrays(columns, names=[*stream.batch.schema.names, DEATH])
        momentary = Delta(carried, stream.sequences, stream.births, stream.births + 1)
        result = self._join.process([table, momentary], since, until)
        deaths = np.asarray(result.batch.column(DEATH))
        return Delta(result.batch.select(self.schema.names), result.sequences, result.births, deaths)

    def snapshot(self) -> dict[str, Any]:
        return self._join.snapshot()

    def restore(self, snapshot: dict[str, Any]) -> None:
        self._join.restore(snapshot)
