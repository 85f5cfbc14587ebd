"""The consumer of a query that shares with nobody: an operator on a channel of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from panewise.aggregates.overflows import Overflows
from panewise.errors import NotHeldError, QueryFailed
from panewise.operators.continuous import ContinuousRows
from panewise.operators.partition_tail import PartitionTail, RowCounts
from panewise.operators.relation_rows import RelationRows
from panewise.operators.reports import Piece
from panewise.operators.rows import Rows
from panewise.plan.explain import Explanation, explain
from panewise.plan.physical import Operator, RowQuery
from panewise.runtime.archive_history import History
from panewise.runtime.channel import INT64_MIN, Channel
from panewise.runtime.finish import RestoredOperator
from panewise.runtime.hosted_query import HostedQuery
from panewise.runtime.query_consumer import QueryConsumer
from panewise.runtime.window_ends import last_window
from panewise.temporal import RowsWindow, format_instant


class OperatorConsumer(QueryConsumer):
    """An operator of one query, fed in event-time order."""

    ordered = True

    def __init__(
        self,
        channel: Channel,
        query: HostedQuery,
        node: RowQuery,
        make: Callable[[], Any],
        history: History | None = None,
    ) -> None:
        """`make`: a fresh operator of the node. `history`: what it is attached with."""
        self.channel = channel
        self._history = history
        self.query = query
        self.node = node
        self._make = make
        self.operator = make()
        self._last_report: pa.Table | None = None

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
            with Overflows() as found:
                table = self.operator.process(rows, watermark)
            self.query.overflowed(found.count)
        except QueryFailed as problem:
            if isinstance(problem.results, pa.Table):
                self.query.receive(list(problem.results.to_batches()), watermark)
            self.fail(problem.message)
            return
        pieces: list[Piece] = list(table.to_batches()) if table.num_rows else []
        if isinstance(self.operator, RestoredOperator) and table.num_rows:
            ends = table.column("window_end")
            self._last_report = table.filter(pc.equal(ends, ends[-1]))
        self.query.receive(pieces, watermark)

    def counted_rows(self, partition_by: tuple[str, ...]) -> RowCounts | None:
        """How many rows of each partition it has counted; None where it has no such window."""
        tail = getattr(self.operator, "tail", None)
        return tail.counted(partition_by) if isinstance(tail, PartitionTail) else None

    def explained(self) -> Explanation:
        block = self.query.block
        return Explanation(f"QUERY {self.query.shown}", {**self._said, "window": str(block.window)})

    def explained_query(self, query: HostedQuery) -> Explanation:
        return explain(query.plan).saying(self._said)

    @property
    def _said(self) -> dict[str, str]:
        named = {"operator": self.node.operator.value}
        if self.node.operator is Operator.COLLECTIVE_LOOKUP:
            named["collective index"] = self.operator.description
        return named

    def fail(self, reason: str) -> None:
        self.torn = True
        self.channel.detach(self)
        self.operator, self._last_report = self._make(), None
        self.query.fail(reason)

    @property
    def relation(self) -> RelationRows:
        assert isinstance(self.operator, ContinuousRows)
        return self.operator.relation

    @property
    def come_to(self) -> int:
        return self.channel.watermark

    def lookup(self, name: str, at: int | None) -> pa.Table:
        watermark = self.channel.watermark
        if isinstance(self.operator, RestoredOperator):
            if at is not None:
                raise NotHeldError(f"only the last report of '{name}' is held")
            return self._last_report if self._last_report is not None else self.query.arrow.empty_table()
        periodic = self.query.block.periodic
        if watermark == INT64_MIN:
            names = self.query.arrow.names if periodic else [item.name for item in self.query.block.items]
            return self.query.arrow.empty_table().select(names)
        if at is not None and at >= watermark and isinstance(self.query.block.window, RowsWindow):
            reached = format_instant(watermark)
            raise NotHeldError(f"'{name}' has not come so far yet", hint=f"'{self.channel.name}' has come to {reached}")
        if at is None:
            at = watermark if periodic else watermark - 1
        result: pa.Table = self.operator.lookup(at)
        return result

    @property
    def bytes_held(self) -> int:
        held: int = self.operator.bytes_held
        return held

    def snapshot(self) -> dict[str, Any]:
        return {
            "operator": self.operator.snapshot(),
            "last_report": self._last_report,
        }

    def restore(self, snapshot: dict[str, Any]) -> None:
        self.operator.restore(snapshot["operator"])
        self._last_report = snapshot["last_report"]
