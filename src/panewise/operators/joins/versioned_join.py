"""The join with a non-retroactive table: a row meets the version of the table at its own birth, and no later one.

It is a `WindowJoin` in which a row of the stream side can be found at the instant of its birth only, so that changes of
the table never meet rows that came before them, and the stream side is not kept. Results live as long as their row of
the stream side: its death travels with it as one more column. Hence births and deaths come in the order of the stream
side, whose pattern the output keeps; ends of the table's rows end no result. The stream side may not be STRICT: the
version that a row met is gone when it ends. The versions of a step are there while it is taken: rows of the table come
and end at their instants, and of one instant they come before the rows that join them. Older versions are not kept.
Golab 2006, sections 3.3.1 and 3.5.3.

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

DEATH = "\0death"  # stands in no name that a statement can give


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
        # The table is first: of one instant its changes come before the rows that join it.
        self._join = WindowJoin([table, stream.append(pa.field(DEATH, pa.int64()))], condition, strict=[True, False])

    def spend(self, budget: ReadBudget | None) -> None:
        """Results are taken out of a budget from now on."""
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
