"""The contract of a core: a join or a DISTINCT that runs once for the windows of many queries (`plan/shared_core.py`).

A core gives a query the changes that its own windows see. If the core aggregates for the query too, it gives results
instead. The default methods here are those of a core that only gives changes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from panewise.errors import QueryFailed
from panewise.operators.joins.ordered_join import OrderedJoin
from panewise.operators.relation_delta import Delta, Described
from panewise.operators.row_batch import Rows
from panewise.plan.physical_plan import DeltaQuery


class Core(ABC):
    """A core with its queries by name. `adapting`: the joins whose orders may change, by number and layer."""

    adapting: Mapping[tuple[int, int], OrderedJoin] = MappingProxyType({})

    # -- what it is ----------------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def described(self) -> str:
        """Its line in EXPLAIN PLAN."""

    @abstractmethod
    def operators_of(self, name: str) -> Sequence[Described]:
        """The operators that work for a query."""

    # -- its queries ---------------------------------------------------------------------------------------------

    @abstractmethod
    def add(self, name: str, node: DeltaQuery, begins: int, held_from: Sequence[int | None]) -> None:
        """Adds a query that shows the instants from `begins` on. `held_from`: by input, from which instant on all rows
        are known; None: all rows are."""

    @abstractmethod
    def remove(self, name: str) -> None: ...

    @abstractmethod
    def nothing(self, name: str) -> Delta:
        """An empty delta for a query."""

    # -- steps ---------------------------------------------------------------------------------------------------

    @abstractmethod
    def process(
        self, rows: Sequence[Rows], since: int, until: int, starts: dict[str, int]
    ) -> dict[str, Delta | pa.Table]:
        """Accounts for [since, until). Returns for each query its changes, or its results if there are some.

        `starts`: by query, when its series of reports begins.
        """

    def in_parts(
        self, rows: Sequence[Rows], since: int, until: int, starts: dict[str, int]
    ) -> Iterator[dict[str, Delta | pa.Table]]:
        """Like `process`, in parts of bounded size; the caller must take all of them.

        Only for queries that are given results, or that can take the new rows of one instant in several deltas.
        """
        yield self.process(rows, since, until, starts)

    @property
    def results_made(self) -> int:
        """Number of results that its join has made."""
        return 0

    # -- queries that it gives results ---------------------------------------------------------------------------

    def folds(self, name: str) -> bool:
        """Whether a query is given results instead of changes. `lookup` is for such queries."""
        return False

    def most_in_report(self, name: str) -> int:
        """An upper bound of the rows in a report of such a query, apart from groups of rows to come."""
        return 0

    def lookup(self, name: str, at: int) -> pa.Table:
        raise AssertionError("this core gives changes only")

    def failure(self, name: str) -> QueryFailed | None:
        """Why a query failed; None if it did not."""
        return None

    def take_overflows(self, name: str) -> int:
        """Number of answers of a query outside the range of their type since the last call."""
        return 0

    # -- state ---------------------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def bytes_held(self) -> int: ...

    @abstractmethod
    def snapshot(self) -> dict[str, Any]: ...

    @abstractmethod
    def restore(self, snapshot: dict[str, Any]) -> None: ...
