"""What the routes of the server may ask, whichever host answers: the embedded engine or a Spark pipeline.

A route knows this protocol and nothing of engines. All methods are called in worker threads and may block, but for
`lookup_at_once` and `kind`, which the event loop itself uses. A caller's mistake raises a PanewiseError and changes
nothing; `errors` says which status each becomes. What a method has returned is acknowledged: after `close`, and after
the death of the process where the backend is durable, it is still there.
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
    """A stream, table, query or sink. `statement` has created it, with `***` where a secret stood; `columns` are names
    and types as CQL writes them.

    Only queries have a `status` (RUNNING, SUSPENDED or FAILED), a `reason` and `answers`, the form of the answer
    (`answer_form`). Only streams have a `timestamp`, their event time, and `pushable`: whether rows may be pushed to it
    here.
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
    """An answer. `table` is the same object as long as the answer is the same, so that its JSON can be kept."""

    table: pa.Table
    watermark_us: int | None  # how far the query had come; None before there was anything
    age_s: float  # how old the answer is: 0.0 where the engine has just given it


@dataclass(frozen=True)
class Unready:
    """Why a backend cannot answer. `summary` names no file and may be told to anybody, `detail` to callers who are
    known."""

    summary: str
    detail: str


class Pushed(NamedTuple):
    """How many rows were taken; none where the number of the push had been taken before.

    `late`: what is to be said of late rows of the stream, where it does not say what becomes of them; `bad`: of bad
    rows that it has set aside.
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
        """Runs statements; the table of the last one that yields one."""

    def catalog(self) -> list[Definition]:
        """Everything that is defined, in the order of its creation."""

    def stats(self) -> dict[str, Any]:
        """Figures by stream, table, query and tree, in the form of `Engine.stats()`."""

    def explain(self, query: str | None) -> tuple[str, dict[str, Any]]:
        """How a query, or everything, is run: as text and as data."""

    def weave(self) -> dict[str, Any]:
        """What queries share, in the form of `SharingReport.to_dict()`."""

    def weave_svg(self) -> str:
        """The same as a drawing."""

    def lookup_at_once(self, query: str) -> Lookup | None:
        """The answer now where it can be had without waiting for anybody; None: ask `lookup`, in a worker thread."""

    def lookup(self, query: str, at: int | None, key: Any) -> Lookup:
        """The answer now or at an instant (microseconds), or of one group: a value, or a dict of columns."""

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
        """Rows for a stream, all or nothing; OverloadError where there was no room for `timeout` seconds."""

    def advance(self, stream: str, until: int) -> None:
        """No row before this instant (microseconds) will come."""

    def settle(self) -> None:
        """Results of everything acknowledged so far are in `results` when this returns, as far as they exist yet."""

    def last_sequence(self, stream: str, producer: str) -> int:
        """The number of the last push of a producer that was taken; 0 where there was none."""

    def ready(self) -> Unready | None:
        """None, or why it cannot answer yet or any more."""

    def close(self) -> None:
        """Ends it; nothing acknowledged is lost. A second time does nothing."""
