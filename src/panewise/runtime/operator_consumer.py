"""The consumer of a query that shares with nobody: an operator on a channel of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from panewise.aggregates.overflows import Overflows
from panewise.errors import NotHeldError, QueryFailed
from panewise.operators.partition_tail import RowCounts
from panewise.operators.relation_rows import RelationRows
from panewise.operators.reports import Piece
from panewise.operators.row_operator import RowOperator
from panewise.operators.rows import Rows
from panewise.plan.explain import Explanation, explain
from panewise.plan.physical import RowQuery
from panewise.runtime.archive_history import History
from panewise.runtime.bounded_steps import BoundedSteps
from panewise.runtime.channel import INT64_MIN, Channel
from panewise.runtime.hosted_query import HostedQuery
from panewise.runtime.query_consumer import QueryConsumer
from panewise.runtime.window_ends import last_window, reports_by_time
from panewise.temporal import RowsWindow, format_instant

Ints = NDArray[np.int64]


class OperatorConsumer(QueryConsumer):
    """An operator of one query, fed in event-time order."""

    ordered = True

    def __init__(
        self,
        channel: Channel,
        query: HostedQuery,
        node: RowQuery,
        make: Callable[[], RowOperator],
        history: History | None = None,
    ) -> None:
        """`make`: a fresh operator of the node. `history`: what it is attached with."""
        self.channel = channel
        self._history = history
        self.query = query
        self.node = node
        self._make = make
        self.operator = make()
        self._watermark = INT64_MIN
        self._steps = BoundedSteps()
        self._cadence = reports_by_time(node.plan, node.block)

    @property
    def fed(self) -> list[HostedQuery]:
        return [self.query]

    def leave(self, name: str) -> None:
        self.channel.detach(self)

    def let_go(self, name: str) -> None:
        """It takes nothing in any more for a query that has failed."""

    def ends(self, channel: Channel, newest: int) -> list[int]:
        return [last_window(self.query.block.window, newest)]

    def next_due(self) -> int:
        return INT64_MIN

    def take(self, rows: Rows, watermark: int) -> None:
        if self.query.status == "FAILED":
            return
        history, self._history = self._history, None
        try:
            if history is not None and history.unsaid:
                self.operator.take_in(rows.slice(0, history.unsaid))
                rows = rows.slice(history.unsaid, len(rows))
            for part, until in self._parts(rows, watermark):
                with Overflows() as found:
                    table = self.operator.process(part, until)
                self.query.overflowed(found.count)
                self._tell(table, until)
                self._steps.made(len(part), table.num_rows)
        except QueryFailed as problem:
            if isinstance(problem.results, pa.Table):
                self._tell(problem.results, watermark)
            self.fail(problem.message)

    def _parts(self, rows: Rows, watermark: int) -> Iterator[tuple[Rows, int]]:
        """The steps to a watermark, with the rows that each takes."""
        waiting = WaitingRows(rows)
        while True:
            until = watermark
            if not self.node.silent:  # else there is nothing to bound
                reports = [] if self._cadence is None else [(self._cadence, self.operator.most_in_report)]
                until = self._steps.next([waiting], self._watermark, watermark, reports)
            self._watermark = until
            yield waiting.released(until if until < watermark else None), until
            if until >= watermark:
                return

    def _tell(self, table: pa.Table, until: int) -> None:
        pieces: list[Piece] = list(table.to_batches()) if table.num_rows else []
        self.query.receive(pieces, until)

    def counted_rows(self, partition_by: tuple[str, ...]) -> RowCounts | None:
        return self.operator.counted_rows(partition_by)

    def explained(self) -> Explanation:
        block = self.query.block
        return Explanation(f"QUERY {self.query.shown}", {**self._said, "window": str(block.window)})

    def explained_query(self, query: HostedQuery) -> Explanation:
        return explain(query.plan).saying(self._said)

    @property
    def _said(self) -> dict[str, str]:
        return {"operator": self.node.operator.value, **self.operator.described}

    def fail(self, reason: str) -> None:
        self.torn = True
        self.channel.detach(self)
        self.operator = self._make()
        self.query.fail(reason)

    @property
    def relation(self) -> RelationRows:
        return self.operator.relation

    @property
    def come_to(self) -> int:
        return self.channel.watermark

    def lookup(self, name: str, at: int | None) -> pa.Table:
        watermark = self.channel.watermark
        if at is not None and not self.operator.answers_past:
            raise NotHeldError(f"only the last report of '{name}' is held")
        periodic = self.query.block.periodic
        if watermark == INT64_MIN:
            names = self.query.arrow.names if periodic else [item.name for item in self.query.block.items]
            return self.query.arrow.empty_table().select(names)
        if at is not None and at >= watermark and isinstance(self.query.block.window, RowsWindow):
            reached = format_instant(watermark)
            raise NotHeldError(f"'{name}' has not come so far yet", hint=f"'{self.channel.name}' has come to {reached}")
        if at is None:
            at = watermark if periodic else watermark - 1
        return self.operator.lookup(at)

    @property
    def bytes_held(self) -> int:
        return self.operator.bytes_held

    def snapshot(self) -> dict[str, Any]:
        return {"operator": self.operator.snapshot(), "watermark": self._watermark}

    def restore(self, snapshot: dict[str, Any]) -> None:
        operator = snapshot["operator"]
        if snapshot.get("last_report") is not None:  # where an earlier panewise kept that of RESTORE
            operator = {**operator, "last": snapshot["last_report"]}
        self.operator.restore(operator)
        self._watermark = snapshot.get("watermark", INT64_MIN)


class WaitingRows:
    """Rows of one call, in order of time, on their way to steps."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows

    def first_times(self, count: int) -> Ints:
        return self._rows.times[:count]

    def released(self, until: int | None) -> Rows:
        """The rows below an instant; None: all that are left."""
        count = len(self._rows) if until is None else int(np.searchsorted(self._rows.times, until))
        part, self._rows = self._rows.slice(0, count), self._rows.slice(count, len(self._rows))
        return part
