"""The contract of what runs once for the windows of many queries: a join, or a DISTINCT (`plan/shared_core.py`).

A query is told the changes that its own windows see, or, where the core folds its groups with those of others, its
results. What is said here of the rest holds for a core that tells changes only.
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
    """The core, and the queries by name. `adapting`: the joins whose orders may change, by number and layer."""

    adapting: Mapping[tuple[int, int], OrderedJoin] = MappingProxyType({})

    # -- what it is ----------------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def described(self) -> str:
        """Its line in EXPLAIN PLAN."""

    @abstractmethod
    def operators_of(self, name: str) -> Sequence[Described]:
        """Those of a query."""

    # -- its queries ---------------------------------------------------------------------------------------------

    @abstractmethod
    def add(self, name: str, node: DeltaQuery, begins: int, held_from: Sequence[int | None]) -> None:
        """A query that accounts for the instants from `begins` on; rows before `held_from` were not all seen."""

    @abstractmethod
    def remove(self, name: str) -> None: ...

    @abstractmethod
    def nothing(self, name: str) -> Delta:
        """No changes for a query."""

    # -- steps ---------------------------------------------------------------------------------------------------

    @abstractmethod
    def process(
        self, rows: Sequence[Rows], since: int, until: int, starts: dict[str, int]
    ) -> dict[str, Delta | pa.Table]:
        """The changes that each query sees, or, if there are any, its results; `starts`: when its series begins."""

    def in_parts(
        self, rows: Sequence[Rows], since: int, until: int, starts: dict[str, int]
    ) -> Iterator[dict[str, Delta | pa.Table]]:
        """What `process` gives, in parts of bounded size: for queries of which each takes new rows of one instant in
        several deltas, or is given results. All parts are to be taken."""
        yield self.process(rows, since, until, starts)

    @property
    def results_made(self) -> int:
        """How many results its join has made."""
        return 0

    # -- queries whose results it makes itself -------------------------------------------------------------------

    def folds(self, name: str) -> bool:
        """Whether a query is given results, which `lookup` finds then, instead of changes."""
        return False

    def most_in_report(self, name: str) -> int:
        """How many rows a report of such a query has at most, besides those to come."""
        return 0

    def lookup(self, name: str, at: int) -> pa.Table:
        raise AssertionError("it tells changes only")

    def failure(self, name: str) -> QueryFailed | None:
        """Why a query cannot be answered any more."""
        return None

    def take_overflows(self, name: str) -> int:
        """How many answers of a query, since this was last asked, are outside their type."""
        return 0

    # -- state ---------------------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def bytes_held(self) -> int: ...

    @abstractmethod
    def snapshot(self) -> dict[str, Any]: ...

    @abstractmethod
    def restore(self, snapshot: dict[str, Any]) -> None: ...
