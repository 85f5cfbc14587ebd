"""What a host runs: the contract of consumers, which take rows from channels and answer queries.

    attach          it reads its channels from now on, through ports or as their reader (`readers.py`)
    take            a port, or the consumer itself, gets rows and how far the channel has come
    advance         it goes as far as its inputs have come, and hands results on in bounded parts (`bounded_steps.py`)
    lookup          what a query answers, now or at an instant
    snapshot        its state, from which `restore` makes a fresh consumer go on
    explained       what it is, and `fed`, `inputs`, `waits_for`, `tables` what it feeds and reads

A family of periodic aggregates answers many queries (`family_consumer.py`); an operator (`operator_consumer.py`) and a
plan over several inputs (`plan_consumer.py`), alone or over a core that others have too (`shared_plan.py`), answer one.
Who has a consumer does not ask which it is. What is said here of the rest holds for one that reads one channel.
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

    channel: Channel  # what its queries count as reading where one only can be named
    torn = False  # whether it has failed, and holds nothing
    is_shared = False  # whether several queries share what it holds, which is then nobody's own
    reads_several = False  # whether it goes as far as the slowest of several inputs

    # -- what it reads and feeds ---------------------------------------------------------------------------------

    @property
    @abstractmethod
    def fed(self) -> list[HostedQuery]:
        """The queries that get what it says."""

    @property
    def read_queries(self) -> list[HostedQuery]:
        """Those of them that other queries read."""
        return [query for query in self.fed if query.consumers]

    @property
    def inputs(self) -> list[Channel]:
        """The channels whose rows it takes."""
        return [self.channel]

    @property
    def waits_for(self) -> list[Channel]:
        """All channels that hold it up."""
        return self.inputs

    @property
    def tables(self) -> Sequence[TableSource]:
        return ()

    @abstractmethod
    def attach(self) -> None:
        """It reads its channels from now on, and goes as far as they have come."""

    @abstractmethod
    def detach(self) -> None:
        """It reads no more."""

    @abstractmethod
    def advance(self) -> None:
        """As far as all inputs have come. No part of its results that leaves at once has more rows than about a bound,
        or those of one report or of one instant."""

    @property
    def joins(self) -> Mapping[tuple[int, int], OrderedJoin]:
        """The joins whose orders may change, by the number of the join in the query's plan and its layer."""
        return {}

    def counted_rows(self, partition_by: tuple[str, ...]) -> RowCounts | None:
        """How many rows of each partition it has counted; None where it does not count by these columns."""
        return None

    @abstractmethod
    def ends(self, channel: Channel, newest: int) -> list[int]:
        """When the windows have closed that hold a row of this time of one of its channels."""

    @property
    def running(self) -> list[str]:
        """The names of its queries that have not failed."""
        return [query.name for query in self.fed if query.status != "FAILED"]

    @abstractmethod
    def explained(self) -> Explanation:
        """Its line in EXPLAIN PLAN, with those below it."""

    @abstractmethod
    def explained_query(self, query: HostedQuery) -> Explanation:
        """The plan of one of its queries, and how it is run."""

    # -- what it answers -----------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def come_to(self) -> int:
        """The watermark of what lookups answer."""

    @property
    def begins(self) -> int | None:
        """The first instant that it accounts for, where it has one of its own."""
        return None

    @property
    def is_postponed(self) -> bool:
        """Whether it has taken rows and has yet to say what they complete; `catch_up` does."""
        return False

    def catch_up(self) -> None:
        raise AssertionError("nothing was postponed")

    @abstractmethod
    def lookup(self, name: str, at: int | None) -> pa.Table: ...

    def holds_until(self, name: str) -> int | None:
        """The watermark at which a lookup without an instant is answered otherwise; None where that is not known."""
        return None

    def answered_at(self, report: int) -> float | None:
        """By the clock when a report was made; None: when the rows that completed it were processed."""
        return None

    @property
    def relation(self) -> RelationRows:
        """The answer of a continuous query without aggregates."""
        raise AssertionError("the answer of a periodic query is no relation of rows")

    # -- queries that go -----------------------------------------------------------------------------------------

    @abstractmethod
    def leave(self, name: str) -> None:
        """A query was dropped, or could not be started; what only it needed goes."""

    @abstractmethod
    def fail(self, reason: str) -> None:
        """Its state is torn: all its queries are FAILED."""

    def fail_query(self, name: str, reason: str) -> None:
        """A query had failed before, alone of those that share with it."""
        self.fail(reason)

    @abstractmethod
    def let_go(self, name: str) -> None:
        """A query has failed elsewhere, and gets nothing more."""

    # -- state ---------------------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def bytes_held(self) -> int: ...

    @abstractmethod
    def snapshot(self) -> dict[str, Any]: ...

    @abstractmethod
    def restore(self, snapshot: dict[str, Any]) -> None: ...
