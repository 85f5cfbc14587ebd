"""The contract of operators over the rows of one input, for a query that shares with nobody.

Rows come in order of time, as the watermark passes them, in as many steps as a host likes: the results of a step to 5
and one to 9 are those of a step to 9. So a host bounds what a step makes (`most_in_report`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import pyarrow as pa

from panewise.operators.partition_tail import RowCounts
from panewise.operators.relation_rows import RelationRows
from panewise.operators.row_batch import Rows


class RowOperator(ABC):
    """What a host asks of such an operator, whatever it does."""

    answers_past = True  # whether lookups may name an instant of the past

    @property
    def described(self) -> dict[str, str]:
        """What EXPLAIN says of it beside its name."""
        return {}

    @abstractmethod
    def process(self, rows: Rows, watermark: int) -> pa.Table:
        """The results of a step; the rows are all those below the watermark that have not come yet.

        QueryFailed where an answer cannot be given; its `results`, if any, are those before that instant.
        """

    @property
    def most_in_report(self) -> int:
        """How many rows a report has at most, besides those to come; 0 where reports are no larger than their rows."""
        return 0

    @abstractmethod
    def lookup(self, at: int) -> pa.Table:
        """The relation at an instant, or the last report at or before it; NotHeldError where it is not held."""

    @property
    def relation(self) -> RelationRows:
        """The rows of a continuous query without aggregates."""
        raise AssertionError("only continuous rows are a relation")

    # -- how it begins, before any row --------------------------------------------------------------------------

    def begin_at(self, instant: int) -> None:
        """Rows that come first are of the past: it shows from this instant on."""
        raise AssertionError("rows of the past are of no use to it")

    def begin_after(self, gone: RowCounts) -> None:
        """So many rows of each partition came before."""
        raise AssertionError("it counts no rows")

    def take_in(self, rows: Rows) -> None:
        """Rows of the past, of every partition as many as its last report needs: nothing is said of them."""
        raise AssertionError("it counts no rows")

    def counted_rows(self, partition_by: tuple[str, ...]) -> RowCounts | None:
        """How many rows of each partition it has counted; None where it does not count by these columns."""
        return None

    # -- state ---------------------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def bytes_held(self) -> int: ...

    @abstractmethod
    def snapshot(self) -> dict[str, Any]: ...

    @abstractmethod
    def restore(self, snapshot: dict[str, Any]) -> None: ...
