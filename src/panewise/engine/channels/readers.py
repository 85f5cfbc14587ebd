"""The small contracts around channels: each has only what one part asks of another.

Consumers, which answer queries, have a contract of their own, `query_consumer.py`. A channel asks less of its readers,
some of which answer no query. So do the schedule of a stream that is behind, and the fold that families share.

| contract        | who asks                                  | who keeps it                                       |
| --------------- | ----------------------------------------- | -------------------------------------------------- |
| `Reader`        | a channel, which hands on rows            | ports and clocks, families, archives, change feeds |
| `Folding`       | a channel and `FamilyFolding`             | families over windows of time                      |
| `FamilyFolding` | a channel, if several fold its rows       | `FoldedFamilies`                                   |
| `Postponed`     | a stream that is behind, and its schedule | `PostponedReports`                                 |
| `Past`          | queries that begin late, and lookups      | archive keepers                                    |
| `PortOwner`     | a port or a clock (`ports.py`)            | consumers of one query, shared cores               |
| `Fallible`      | `failures.py`                             | all readers and consumers                          |
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from panewise.operators.family.family import Family
from panewise.operators.partition_tail import RowCounts
from panewise.operators.row_batch import Rows
from panewise.optimize.sharing.report.family_report import FoldedWith
from panewise.plan.explanation import Explanation


class Reader(Protocol):
    """An object that reads a channel."""

    @property
    def folding(self) -> Folding | None:
        """The reader itself if it takes rows in any order, so that they may be folded together with those of others;
        None if it takes rows in event-time order."""
        return None

    def next_due(self) -> int:
        """The watermark at which it has results again; INT64_MIN if every row may have results."""

    def take(self, rows: Rows, watermark: int) -> None:
        """Takes rows and the watermark of the channel. Called once per flush."""

    def fail(self, reason: str) -> None:
        """Its state is torn, or the query that it reads has failed: all its queries become FAILED."""

    def explained(self) -> Explanation:
        """Its line in EXPLAIN PLAN, with those below it."""

    @property
    def running(self) -> list[str]:
        """The names of its queries that have not failed."""

    def counted_rows(self, partition_by: tuple[str, ...]) -> RowCounts | None:
        """How many rows of each partition it has counted; None if it does not count by these columns."""
        return None


class Folding(Reader, Protocol):
    """A reader whose rows may be folded in one pass with those of other families."""

    @property
    def family(self) -> Family: ...

    def see(self, rows: Rows) -> None:
        """The family has folded these rows, or will before it is asked. Other rows follow before the watermark
        moves."""

    def follow(self, rows: Rows) -> None:
        """The family has folded these rows, and follows the watermark of its channel."""


class FamilyFolding(Protocol):
    """Folds the same rows for several readers, and does common work once."""

    def take(self, readers: Sequence[Folding], rows: Rows, more: bool) -> None:
        """Folds rows for the readers. `more`: other rows follow before the watermark moves."""

    def leave(self, reader: Folding) -> None:
        """A reader takes no more rows: its state is dropped."""

    def folded_with(self, family: Family) -> FoldedWith | None:
        """The families whose rows are folded in the same pass as this family's."""


class Postponed(Protocol):
    """An object that has taken rows and answers the due reports later (`report_schedule.py`)."""

    @property
    def postponed_reports(self) -> int:
        """Number of reports that have come due and are not answered."""

    @property
    def first_postponed(self) -> tuple[int, int] | None:
        """The first report that is due and not answered, and the shortest slide; None if there is none."""

    @property
    def answer_seconds(self) -> float:
        """Average of the seconds that it took lately to answer postponed reports."""

    @property
    def first_name(self) -> str:
        """The least of the names of its queries."""

    def catch_up(self) -> None:
        """Answers all reports that have come due."""


class Past(Protocol):
    """An object that keeps rows of a channel after the watermark has passed them (`archive_history.py`)."""

    @property
    def held_from(self) -> int:
        """All rows from this instant on are kept; INT64_MIN: all rows that ever came."""

    def rows_between(self, start: int, end: int) -> Rows | None:
        """All rows from `start` (INT64_MIN: all rows that ever came) to before `end`, in order of time; None if some
        may be missing."""


class PortOwner(Protocol):
    """The owner of ports: it is told when a port has come further, or when its channel has failed."""

    def advance(self) -> None:
        """A port has come further."""

    def fail(self, reason: str) -> None: ...

    def explained(self) -> Explanation: ...

    @property
    def running(self) -> list[str]: ...

    def counted_rows(self, partition_by: tuple[str, ...]) -> RowCounts | None:
        """See `Reader`."""
        return None
