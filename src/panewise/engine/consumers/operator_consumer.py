"""The consumer of a query that shares nothing: an operator over the rows of one channel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from panewise.arrays import INT64_MIN
from panewise.engine.archives.archive_history import ArchivedHistory
from panewise.engine.channels.channel import Channel
from panewise.engine.channels.hosted_query import HostedQuery
from panewise.engine.channels.window_ends import last_window
from panewise.engine.consumers.one_query import OneQueryConsumer
from panewise.engine.consumers.ports import Port, attach_ports
from panewise.engine.consumers.stepping import Stepping
from panewise.errors import NotHeldError, QueryFailed
from panewise.operators.partition_tail import RowCounts
from panewise.operators.relation_rows import RelationRows
from panewise.operators.row_batch import Rows
from panewise.operators.row_operator import RowOperator
from panewise.plan.explanation import Explanation, explain
from panewise.plan.physical_plan import RowQuery
from panewise.temporal import RowsWindow, format_instant


class OperatorConsumer(OneQueryConsumer):
    """An operator of one query, fed in event-time order."""

    def __init__(
        self,
        channel: Channel,
        query: HostedQuery,
        node: RowQuery,
        make: Callable[[], RowOperator],
        history: ArchivedHistory | None = None,
    ) -> None:
        """`make`: makes a fresh operator of the node. `history`: the rows that it takes first."""
        super().__init__(query, [channel])
        self.ports = (Port(self, channel),)
        self._stepping = Stepping(self.ports, self._step)
        self._history = history
        self._make = make
        self._silent = node.silent
        self._name = node.operator.value
        self.operator = make()

    def attach(self) -> None:
        history, self._history = self._history, None
        if history is None:
            attach_ports(self.ports, None)
            return
        silent_rows, rows = history.silent_rows, history.rows
        if silent_rows:
            try:
                self.operator.take_in(rows.slice(0, silent_rows))
            except QueryFailed as problem:
                self.fail(problem.message)
                return
        attach_ports(self.ports, [rows.slice(silent_rows, len(rows))])

    def detach(self) -> None:
        for port in self.ports:
            port.channel.detach(port)

    def ends(self, channel: Channel, newest: int) -> list[int]:
        return [last_window(self.query.block.window, newest)]

    # -- steps ---------------------------------------------------------------------------------------------------

    def advance(self) -> None:
        stepping = self._stepping
        if not self.goes_on:
            stepping.forget()
        elif not self._silent:
            stepping.go_to(stepping.reached, lambda: self.goes_on, self.in_report)
        elif stepping.reached > stepping.watermark:
            stepping.leap(stepping.reached)  # It makes no results, so the step needs no bound.

    def _step(self, rows: list[Rows], since: int, until: int) -> int:
        return self.run_step(lambda: self.operator.process(rows[0], until), until) or 0

    @property
    def _most_in_report(self) -> int:
        return self.operator.most_in_report

    def _begin_anew(self) -> None:
        self._stepping.forget()
        self.operator = self._make()

    # -- what it answers -----------------------------------------------------------------------------------------

    def counted_rows(self, partition_by: tuple[str, ...]) -> RowCounts | None:
        return self.operator.counted_rows(partition_by)

    def explained(self) -> Explanation:
        return Explanation(
            f"QUERY {self.query.shown}", {**self._explained_fields, "window": str(self.query.block.window)}
        )

    def explained_query(self, query: HostedQuery) -> Explanation:
        return explain(query.plan).saying(self._explained_fields)

    @property
    def _explained_fields(self) -> dict[str, str]:
        return {"operator": self._name, **self.operator.described}

    @property
    def relation(self) -> RelationRows:
        return self.operator.relation

    @property
    def watermark(self) -> int:
        return self.channel.watermark

    def _check_held(self, name: str, at: int) -> None:
        if not self.operator.answers_past:
            raise NotHeldError(f"only the last report of '{name}' is held")
        watermark = self.watermark
        if watermark != INT64_MIN and at >= watermark and isinstance(self.query.block.window, RowsWindow):
            reached = format_instant(watermark)
            raise NotHeldError(
                f"'{name}' has not come to that instant yet", hint=f"'{self.channel.name}' has come to {reached}"
            )

    def _answer(self, at: int) -> pa.Table:
        return self.operator.lookup(at)

    # -- state ---------------------------------------------------------------------------------------------------

    @property
    def bytes_held(self) -> int:
        return self.operator.bytes_held + self._stepping.bytes_held

    def snapshot(self) -> dict[str, Any]:
        return {"operator": self.operator.snapshot(), "watermark": self._stepping.watermark}

    def restore(self, snapshot: dict[str, Any]) -> None:
        operator = snapshot["operator"]
        if snapshot.get("last_report") is not None:  # An earlier panewise kept RESTORE's report here.
            operator = {**operator, "last": snapshot["last_report"]}
        self.operator.restore(operator)
        watermark = snapshot.get("watermark", INT64_MIN)
        self._stepping.go_on_from(watermark)
        self.ports[0].move_to(watermark)
