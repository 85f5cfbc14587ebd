"""The contract of operators over the rows of one input, for a query that shares with no other.

Rows come in order of time, as the watermark passes them, in as many steps as the host chooses: a step to 5 and one to 9
give the same results as one step to 9. So the host can bound the results of a step (`most_in_report`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import pyarrow as pa

from panewise.operators.partition_tail import RowCounts
from panewise.operators.relation_rows import RelationRows
from panewise.operators.row_batch import Rows


class RowOperator(ABC):
    """An operator over the rows of one input."""

    answers_past = True  # whether lookups may ask for an instant of the past

    @property
    def described(self) -> dict[str, str]:
        """What EXPLAIN shows besides the name."""
        return {}

    @abstractmethod
    def process(self, rows: Rows, watermark: int) -> pa.Table:
        """The results of a step. The rows are all rows below the watermark that were not given before.

        QueryFailed if an answer cannot be computed; its `results`, if any, are those before that instant.
        """

    @property
    def most_in_report(self) -> int:
        """The most rows in a report, not counting rows to come; 0 if reports are no larger than the rows of a step."""
        return 0

    @abstractmethod
    def lookup(self, at: int) -> pa.Table:
        """The relation at an instant, or the last report at or before it; NotHeldError if it is not held."""

    @property
    def relation(self) -> RelationRows:
        """The relation of a continuous query without aggregates."""
        raise AssertionError("only continuous rows are a relation")

    # -- to be called before any row ----------------------------------------------------------------------------

    def begin_at(self, instant: int) -> None:
        """The first rows will be rows of the past; results begin at this instant."""
        raise AssertionError("this operator cannot begin with rows of the past")

    def begin_after(self, gone: RowCounts) -> None:
        """Rows that came before, by partition."""
        raise AssertionError("this operator does not count rows")

    def take_in(self, rows: Rows) -> None:
        """Takes rows of the past without results: of every partition as many as its last report needs."""
        raise AssertionError("this operator does not count rows")

    def counted_rows(self, partition_by: tuple[str, ...]) -> RowCounts | None:
        """The number of rows so far in each partition; None if the operator does not count by these columns."""
        return None

    # -- state ---------------------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def bytes_held(self) -> int: ...

    @abstractmethod
    def snapshot(self) -> dict[str, Any]: ...

    @abstractmethod
    def restore(self, snapshot: dict[str, Any]) -> None: ...
