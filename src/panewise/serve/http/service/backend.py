"""The contract between the routes and a host: the embedded engine or a Spark pipeline.

Routes use only this protocol. All methods are called in worker threads and may block, except `lookup_at_once` and
`kind`, which the event loop uses. A caller's mistake raises a PanewiseError and changes nothing; `error_answers` maps
exceptions to statuses. When a method returns, its effect is acknowledged: it survives `close` and, if the backend is
durable, the death of the process.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    import pyarrow as pa

    from panewise.engine.ingest.bad_row_remarks import BadRows
    from panewise.engine.ingest.late_remarks import Lateness
    from panewise.serve.http.results.result_log import ResultLog

KINDS = ("stream", "table", "query", "sink", "archive")


@dataclass(frozen=True)
class Definition:
    """A stream, table, query, sink or archive.

    `statement` is the statement that created it, with `***` instead of secrets. `columns` are names and CQL types. Only
    queries have a `status` (RUNNING, SUSPENDED or FAILED), a `reason` and `answers`, the form of the answer
    (`answer_form`). Streams have a `timestamp`, the column of event time, and `pushable`: whether this server accepts
    rows for it.
    """

    name: str
    kind: str
    statement: str
    columns: tuple[tuple[str, str], ...]
    status: str = ""
    reason: str = ""
    timestamp: str = ""
    inputs: tuple[str, ...] = ()
    pushable: bool = True
    answers: str = ""


@dataclass(frozen=True)
class Lookup:
    """An answer. `table` stays the same object while the answer is unchanged, so that its JSON can be cached."""

    table: pa.Table
    watermark_us: int | None  # the query's watermark; None before the first row
    age_s: float  # 0.0 for an answer that the engine has just given


@dataclass(frozen=True)
class Unready:
    """Why a backend cannot answer. `summary` names no file and is for everybody, `detail` for callers with a token."""

    summary: str
    detail: str


class Pushed(NamedTuple):
    """The number of rows that were taken; 0 if the push is `repeated`, that is, its number was taken before.

    `late` is a remark about late rows of a stream that does not declare what to do with them, `bad` a remark about bad
    rows that were set aside.
    """

    rows: int
    repeated: bool = False
    late: Lateness | None = None
    bad: BadRows | None = None


class Backend(Protocol):
    """A host of streams and queries."""

    kind: str  # 'embedded' or 'spark'
    results: ResultLog

    def execute(self, text: str) -> pa.Table | None:
        """Runs statements; returns the table of the last one that has one."""

    def catalog(self) -> list[Definition]:
        """All definitions, in the order of their creation."""

    def stats(self) -> dict[str, Any]:
        """Figures of streams, tables, queries and trees, in the form of `Engine.stats()`."""

    def explain(self, query: str | None) -> tuple[str, dict[str, Any]]:
        """The plan of a query, or of everything, as text and as data."""

    def weave(self) -> dict[str, Any]:
        """What queries share, in the form of `SharingReport.to_dict()`."""

    def weave_svg(self) -> str:
        """A drawing of what queries share, as SVG."""

    def lookup_at_once(self, query: str) -> Lookup | None:
        """The answer now, if it is available without waiting; None: call `lookup`, in a worker thread."""

    def lookup(self, query: str, at: int | None, key: Any) -> Lookup:
        """The answer now or at an instant (microseconds); `key` selects one group: a value or a dict of columns."""

    def columns(self, stream: str) -> tuple[str, ...]:
        """The names of a stream's columns."""

    def push(
        self,
        stream: str,
        data: pa.Table | list[dict[str, Any]],
        *,
        producer: str | None,
        sequence: int | None,
        timeout: float | None,
    ) -> Pushed:
        """Pushes rows, all or nothing; OverloadError if the queue has no room for `timeout` seconds."""

    def advance(self, stream: str, until: int) -> None:
        """Declares that no row before this instant (microseconds) will come."""

    def settle(self) -> None:
        """Moves the results of all acknowledged calls that exist by now into `results`."""

    def last_sequence(self, stream: str, producer: str) -> int:
        """The number of the producer's last push that was taken; 0 if there is none."""

    def ready(self) -> Unready | None:
        """None if the backend can answer; otherwise why it cannot yet, or no longer."""

    def close(self) -> None:
        """Ends the backend; nothing acknowledged is lost. Further calls do nothing."""
