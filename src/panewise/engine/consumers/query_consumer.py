"""The contract of consumers, which take rows from channels and answer queries. A host runs nothing else.

    attach          it reads its channels from now on, through ports or as their reader (`readers.py`)
    take            a port, or the consumer itself, gets rows and the watermark of the channel
    advance         it goes as far as its inputs have come, and hands results on in bounded parts (`bounded_steps.py`)
    lookup          the answer of a query, now or at an instant
    snapshot        its state, from which `restore` makes a fresh consumer go on
    explained       its line in EXPLAIN; `fed`, `inputs`, `waits_for`, `tables`: what it feeds and reads

A family of periodic aggregates answers many queries (`family_consumer.py`). An operator (`operator_consumer.py`) and a
plan over several inputs (`plan_consumer.py`), alone or over a shared core (`shared_plan.py`), answer one. A host never
asks which of them a consumer is. Methods that have a body here are written for a consumer that reads one channel.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from panewise.engine.channels.channel import Channel
from panewise.engine.channels.hosted_query import HostedQuery
from panewise.operators.deltas.table_source import TableSource
from panewise.operators.joins.ordered_join import OrderedJoin
from panewise.operators.partition_tail import RowCounts
from panewise.operators.relation_rows import RelationRows
from panewise.plan.explanation import Explanation


class QueryConsumer(ABC):
    """Reads channels, and feeds one query or several."""

    channel: Channel  # The channel that its queries read; the first one if it reads several.
    torn = False  # Whether it has failed, and holds nothing.
    is_shared = False  # Whether several queries share its state, so that its bytes belong to no single query.
    reads_several = False  # Whether it reads several channels, and waits for the slowest.

    # -- what it reads and feeds ---------------------------------------------------------------------------------

    @property
    @abstractmethod
    def fed(self) -> list[HostedQuery]:
        """The queries that get its results."""

    @property
    def read_queries(self) -> list[HostedQuery]:
        """The fed queries that other queries read."""
        return [query for query in self.fed if query.consumers]

    @property
    def inputs(self) -> list[Channel]:
        """The channels whose rows it takes."""
        return [self.channel]

    @property
    def waits_for(self) -> list[Channel]:
        """The channels whose watermarks it waits for."""
        return self.inputs

    @property
    def tables(self) -> Sequence[TableSource]:
        return ()

    @abstractmethod
    def attach(self) -> None:
        """It reads its channels from now on, and advances as far as they have come."""

    @abstractmethod
    def detach(self) -> None:
        """It reads its channels no more."""

    @abstractmethod
    def advance(self) -> None:
        """Goes as far as all inputs have come. Results leave in parts; each has at most about `RESULTS_MOST` rows, or
        the rows of one report or one instant."""

    @property
    def joins(self) -> Mapping[tuple[int, int], OrderedJoin]:
        """The joins whose orders may change, by the number of the join in the query's plan and its layer."""
        return {}

    def counted_rows(self, partition_by: tuple[str, ...]) -> RowCounts | None:
        """How many rows of each partition it has counted; None if it does not count by these columns."""
        return None

    @abstractmethod
    def ends(self, channel: Channel, newest: int) -> list[int]:
        """When the windows close that hold a row of this time on one of its channels."""

    @property
    def running(self) -> list[str]:
        """The names of its queries that have not failed."""
        return [query.name for query in self.fed if query.status != "FAILED"]

    @abstractmethod
    def explained(self) -> Explanation:
        """Its line in EXPLAIN PLAN, with those below it."""

    @abstractmethod
    def explained_query(self, query: HostedQuery) -> Explanation:
        """The plan of one of its queries, and how it runs."""

    # -- what it answers -----------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def watermark(self) -> int:
        """The watermark up to which lookups are answered."""

    @property
    def begins(self) -> int | None:
        """The first instant that its results cover; None if it sets none itself."""
        return None

    @property
    def is_postponed(self) -> bool:
        """Whether it has taken rows and has due reports to answer, which `catch_up` does."""
        return False

    def catch_up(self) -> None:
        raise AssertionError("nothing was postponed")

    @abstractmethod
    def lookup(self, name: str, at: int | None) -> pa.Table: ...

    def holds_until(self, name: str) -> int | None:
        """The watermark at which a lookup without an instant has another answer; None if that is not known."""
        return None

    def answered_at(self, report: int) -> float | None:
        """The clock when a postponed report was answered; None if it was answered when its rows were processed."""
        return None

    @property
    def relation(self) -> RelationRows:
        """The answer of a continuous query without aggregates."""
        raise AssertionError("the answer of a periodic query is no relation of rows")

    # -- queries that leave --------------------------------------------------------------------------------------

    @abstractmethod
    def leave(self, name: str) -> None:
        """A query was dropped, or could not be started: removes the state that only it needed."""

    @abstractmethod
    def fail(self, reason: str) -> None:
        """Its state is torn: all its queries are FAILED."""

    def fail_query(self, name: str, reason: str) -> None:
        """One query fails; those that share with it go on."""
        self.fail(reason)

    @abstractmethod
    def let_go(self, name: str) -> None:
        """A query has failed elsewhere, and gets no more results."""

    # -- state ---------------------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def bytes_held(self) -> int: ...

    @abstractmethod
    def snapshot(self) -> dict[str, Any]: ...

    @abstractmethod
    def restore(self, snapshot: dict[str, Any]) -> None: ...
