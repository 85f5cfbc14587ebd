"""The small contracts around channels: each is what one part asks of another, and nothing more.

What a host runs has one contract, `query_consumer.py`. A channel asks less of those who read it, some of whom run no
query; so do the schedule of a stream that is behind, and the fold that several families share.

| contract        | who asks                                  | who fulfils it                                     |
| --------------- | ----------------------------------------- | -------------------------------------------------- |
| `Reader`        | a channel, which hands on rows            | ports and clocks, families, archives, change feeds |
| `Folding`       | a channel and `FamilyFolding`             | families over windows of time                      |
| `FamilyFolding` | a channel, where several fold its rows    | `FamiliesTogether`                                 |
| `Postponed`     | a stream that is behind, and its schedule | families                                           |
| `Past`          | queries that begin late, and lookups      | archive keepers                                    |
| `PortOwner`     | a port or a clock (`ports.py`)            | consumers of one query, shared cores               |
| `Fallible`      | who guards work (`failures.py`)           | all readers and consumers                          |
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
    """Somebody who reads a channel."""

    @property
    def folding(self) -> Folding | None:
        """Itself, where it takes rows in any order and they may be folded with those of others; None: it takes them in
        event-time order."""
        return None

    def next_due(self) -> int:
        """The watermark at which it has something to say again; the least of all where every row may matter."""

    def take(self, rows: Rows, watermark: int) -> None:
        """Rows, and how far the channel has come. Called once per flush."""

    def fail(self, reason: str) -> None:
        """Its state is torn, or the query that it reads has failed: all its queries are FAILED."""

    def explained(self) -> Explanation:
        """Its line in EXPLAIN PLAN, with those below it."""

    @property
    def running(self) -> list[str]:
        """The names of its queries that have not failed."""

    def counted_rows(self, partition_by: tuple[str, ...]) -> RowCounts | None:
        """How many rows of each partition it has counted; None where it does not count by these columns."""
        return None


class Folding(Reader, Protocol):
    """A reader whose family may have its rows folded in one pass with those of others."""

    @property
    def family(self) -> Family: ...

    def see(self, rows: Rows) -> None:
        """The family has folded these rows, or will before it is asked; others follow before the watermark moves."""

    def follow(self, rows: Rows) -> None:
        """The family has folded these rows; it follows the watermark of its channel."""


class FamilyFolding(Protocol):
    """Hands the same rows to several readers that fold them, with what they have in common done once."""

    def take(self, readers: Sequence[Folding], rows: Rows, more: bool) -> None:
        """`more`: other rows follow before the watermark moves."""

    def leave(self, reader: Folding) -> None:
        """A reader takes no rows any more: nothing of it is held."""

    def folded_with(self, family: Family) -> FoldedWith | None:
        """Whose rows are folded in the same pass as this family's."""


class Postponed(Protocol):
    """Somebody who has taken rows and has yet to say what they complete (`report_schedule.py`)."""

    @property
    def postponed_reports(self) -> int:
        """How many reports have come due and are not answered."""

    @property
    def first_postponed(self) -> tuple[int, int] | None:
        """The first report that is not answered, and the shortest slide of its reports; None where it has none."""

    @property
    def answer_seconds(self) -> float:
        """How long it takes to answer what was postponed, as it has been of late."""

    @property
    def first_name(self) -> str:
        """The least of the names of its queries."""

    def catch_up(self) -> None:
        """It says all that has come due."""


class Past(Protocol):
    """Somebody who keeps rows of a channel after the watermark has passed them (`archive_history.py`)."""

    @property
    def held_from(self) -> int:
        """Rows from this instant on are all kept; INT64_MIN: all there ever were."""

    def rows_between(self, start: int, end: int) -> Rows | None:
        """All rows from `start` (INT64_MIN: all there ever were) to before `end`, in order of time; None where some may
        be missing."""


class PortOwner(Protocol):
    """Who is told when a port has come further, or what it reads has failed."""

    def advance(self) -> None:
        """A port has come further."""

    def fail(self, reason: str) -> None: ...

    def explained(self) -> Explanation: ...

    @property
    def running(self) -> list[str]: ...

    def counted_rows(self, partition_by: tuple[str, ...]) -> RowCounts | None:
        """As a reader says it."""
        return None
