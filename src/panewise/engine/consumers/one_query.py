"""The base of consumers that answer one query: how they hand on results, fail and answer lookups.

`operator_consumer.py`, `plan_consumer.py` and `shared_plan.py` say what runs.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence

import pyarrow as pa

from panewise.aggregates.overflows import Overflows
from panewise.arrays import INT64_MIN
from panewise.engine.channels.channel import Channel
from panewise.engine.channels.hosted_query import HostedQuery
from panewise.engine.channels.window_ends import reports_by_time
from panewise.engine.consumers.bounded_steps import InReport
from panewise.engine.consumers.ports import Port
from panewise.engine.consumers.query_consumer import QueryConsumer
from panewise.errors import QueryFailed
from panewise.operators.reports import Piece
from panewise.plan.explanation import Explanation


class OneQueryConsumer(QueryConsumer):
    """A query, and the ports at which its rows wait."""

    ports: Sequence[Port]

    def __init__(self, query: HostedQuery, channels: Sequence[Channel]) -> None:
        self.query = query
        self.channel = channels[0]
        self._cadence = reports_by_time(query.plan, query.block)

    @property
    def fed(self) -> list[HostedQuery]:
        return [self.query]

    @property
    def inputs(self) -> list[Channel]:
        return [port.channel for port in self.ports]

    # -- the results of a step -----------------------------------------------------------------------------------

    @property
    def goes_on(self) -> bool:
        return self.query.status != "FAILED"

    def run_step(self, work: Callable[[], pa.Table], until: int) -> int | None:
        """Does the work of a step and hands its results on; returns their number. If the work raises QueryFailed, the
        query gets the results that the error carries and fails; returns None."""
        try:
            with Overflows() as found:
                table = work()
        except QueryFailed as problem:
            if isinstance(problem.results, pa.Table):
                self._hand_on(problem.results, until)
            self.fail(problem.message)
            return None
        self.query.overflowed(found.count)
        self._hand_on(table, until)
        return int(table.num_rows)

    def _hand_on(self, table: pa.Table, until: int) -> None:
        pieces: list[Piece] = list(table.to_batches()) if table.num_rows else []
        self.query.receive(pieces, until)

    def in_report(self) -> list[InReport]:
        """The reports of its query, for `BoundedSteps`."""
        return [] if self._cadence is None else [(self._cadence, self._most_in_report)]

    @property
    @abstractmethod
    def _most_in_report(self) -> int: ...

    # -- queries that go -----------------------------------------------------------------------------------------

    def leave(self, name: str) -> None:
        self.detach()

    def let_go(self, name: str) -> None:
        """Nothing to do: it takes no rows in for a query that has failed."""

    def fail(self, reason: str) -> None:
        self.torn = True
        self.detach()
        self._begin_anew()
        self.query.fail(reason)

    @abstractmethod
    def _begin_anew(self) -> None:
        """Replaces the operators by fresh ones, and drops the state."""

    # -- what it answers -----------------------------------------------------------------------------------------

    def lookup(self, name: str, at: int | None) -> pa.Table:
        """The relation now or at an instant; for a periodic query, the last report."""
        periodic, watermark = self.query.block.periodic, self.watermark
        if at is not None:
            self._check_held(name, at)
        if watermark == INT64_MIN:
            names = self.query.arrow.names if periodic else [item.name for item in self.query.block.items]
            return self.query.arrow.empty_table().select(names)
        if at is None:
            at = watermark if periodic else watermark - 1
        return self._answer(at)

    @abstractmethod
    def _check_held(self, name: str, at: int) -> None:
        """NotHeldError if an instant cannot be looked up, or not yet."""

    @abstractmethod
    def _answer(self, at: int) -> pa.Table: ...

    def explained(self) -> Explanation:
        return Explanation(f"QUERY {self.query.shown}", self._explained_fields)

    @property
    @abstractmethod
    def _explained_fields(self) -> dict[str, str]:
        """The fields of EXPLAIN that say how it runs."""
