"""Durability: an engine with a path writes its changes to a write-ahead log before it acknowledges them.

A record is written for every statement that changes something, for every push (the rows that are taken, in the stream's
types, and those set aside), for every punctuation, and whenever results, late rows or bad rows are handed out. The
record is written first, then the change is made. A change whose record cannot be written does not happen. When the
folder is opened, all records are replayed in the same order and with the same answers (`durable_replay.py`). So,
whenever the process ends:

- the effect of a call that has returned is in the next engine on the folder; that of any other call wholly or not at
  all;
- results that were handed out are not handed out again, and all others still are.

A snapshot replaces the log after `snapshot_every` bytes of log, or after as many as the last snapshot had, whichever is
more. So all snapshots together have about as many bytes as the log, unless the state grows faster.
"""

from __future__ import annotations

import os
import warnings
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

import pyarrow as pa

from panewise.engine.channels.hosted_query import HostedQuery
from panewise.engine.channels.turns import StateChange
from panewise.engine.durability.durable_folder import DurableFolder
from panewise.engine.durability.durable_sync import BackgroundSync
from panewise.engine.durability.found_outside import UNKNOWN, FoundOutside
from panewise.engine.durability.suspended_folder import GO_ON, REASON, Dropped, check_allowed, without_figures
from panewise.errors import DurabilityError, DurabilityWarning, NotHeldError
from panewise.language import statements as s
from panewise.state.durable_files import FileSystem

if TYPE_CHECKING:
    from panewise.engine.ingest.journal import Stamp, Taken

_ONLY_READ = (s.Show, s.Explain, s.SelectOnce)
P = ParamSpec("P")
T = TypeVar("T")


def _first_in_change(tell: Callable[Concatenate[Durability, P], T]) -> Callable[Concatenate[Durability, P], T]:
    """For methods that write a record, and are called first inside `with change`. If one raises and has written no
    record, nothing has changed."""

    @wraps(tell)
    def told(self: Durability, /, *arguments: P.args, **named: P.kwargs) -> T:
        size = self.folder.end.size
        try:
            return tell(self, *arguments, **named)
        except BaseException:
            # An interrupt may come after the record was written and before this returns.
            if self.folder.end.size == size:
                self._change.undone()
            raise

    return told


@dataclass
class Replayed:
    """The outcome of a replay: the number of records, how often a query had another number of results than recorded,
    and whether the last record failed."""

    records: int = 0
    differences: int = 0
    last_failed: bool = False


class Durability:
    """The log of one engine. All methods are called under the engine's lock."""

    def __init__(
        self,
        folder: DurableFolder,
        files: FileSystem,
        change: StateChange,
        sync: str,
        snapshot_every: int,
        snapshot_bytes: int = 0,
        replayed: Replayed | None = None,
        suspended: Dropped | None = None,
    ) -> None:
        """`change`: the engine's. `snapshot_bytes`: the size of the folder's snapshot; `replayed`: the records after
        it, which were replayed. `suspended`: only DROP statements are written, there."""
        self.suspended = suspended
        self.folder = folder
        self._change = change
        self._sync = sync
        self._snapshot_every = snapshot_every
        self._snapshot_bytes = snapshot_bytes
        self._retry_at = 0  # The bytes of log at which a failed snapshot is tried again.
        self._snapshots = 0
        self._replayed = replayed or Replayed()
        self._handed_out: dict[str, tuple[HostedQuery, int]] = {}  # A query and its results so far, at its last read.
        self.closed = False
        self._background = BackgroundSync(folder, files) if sync == "batch" else None

    def let_go_with(self, owner: object) -> None:
        """The folder is released when the engine, its owner, is collected."""
        weakref.finalize(owner, _let_go, self.folder, self._background)

    @property
    def remedy(self) -> str:
        """The advice for users of a broken engine."""
        return f"close it, and open '{self.folder.path}' again: its log has every call that was acknowledged"

    def forked(self) -> None:
        """Called in a child process: closes its copies of the parent's files. The parent keeps the lock."""
        self.folder.close_files()

    def refusal_in_child(self) -> DurabilityError:
        """The error in a child process that uses its parent's engine."""
        return DurabilityError(
            f"the engine on '{self.folder.path}' was opened by process {self.folder.process}, and this is process "
            f"{os.getpid()}, which was forked from it: a folder has one process",
            hint="open another folder here, or send rows and questions to that process (panewise serve, pw.connect)",
        )

    # -- records -------------------------------------------------------------------------------------------------

    @_first_in_change
    def begin_statement(self, statement: s.Statement, found: FoundOutside) -> bool:
        """Writes a record of a statement before it runs, with what it has found outside; returns False if the statement
        changes nothing, and no record was written."""
        if self.suspended is not None:
            check_allowed(statement)
        if isinstance(statement, _ONLY_READ):
            return False
        if self.suspended is not None:
            self.suspended.note(statement.text)
            return True
        body = b"" if found.rows is None else packed([found.rows])[0]
        told: dict[str, Any] = {} if found.archive_cut == UNKNOWN else {"archive_cut": found.archive_cut}
        decided = {} if found.decided is None else found.decided.to_dict()
        if decided:
            told["decided"] = decided
        self._append({"kind": "statement", "text": statement.text, "rows": len(body), **told}, body)
        return True

    def undo_statement(self) -> None:
        """Removes the record of a statement that has failed and changed nothing."""
        if self.suspended is not None:
            self.suspended.take_back()
        else:
            self.folder.end.take_back()

    @_first_in_change
    def took(self, stream: str, taken: Taken) -> None:
        """Writes a record of a push before its rows are taken in."""
        self.check_state()
        if not taken.batches and not taken.aside and not taken.shed and taken.stamp is None:
            return
        body, sizes = packed(taken.batches)
        told = {"aside": taken.aside, "shed": taken.shed, "stamp": taken.stamp}
        come = {"newest": taken.extent.newest, "oldest": taken.extent.oldest}
        self._append({"kind": "push", "stream": stream, "sizes": sizes, **told, **come}, body)

    @_first_in_change
    def took_row(self, stream: str, row: list[Any], stamp: Stamp | None) -> None:
        """Writes a record of a single row, in plain values, before it is taken in."""
        self._append({"kind": "row", "stream": stream, "row": row, "stamp": stamp})

    @_first_in_change
    def advanced(self, stream: str, until: int) -> None:
        """Writes a record of a punctuation before it is taken in."""
        self._append({"kind": "advance", "stream": stream, "until": until})

    @_first_in_change
    def hands_out(self, queries: list[HostedQuery]) -> None:
        """Writes a record before all results of these queries so far are handed out, or after. It is one record, so
        that it holds for all queries or for none."""
        counts = {query.name: (query, query.unread.next_number) for query in queries}
        fresh = {name: read for name, read in counts.items() if self._handed_out.get(name) != read}
        if len(fresh) == 1:
            ((name, (_, count)),) = fresh.items()
            self._append({"kind": "read", "query": name, "results": count})
        elif fresh:
            self._append({"kind": "read", "queries": {name: count for name, (_, count) in fresh.items()}})
        self._handed_out.update(fresh)

    @_first_in_change
    def hands_out_rows(self, stream: str, which: str) -> None:
        """Writes a record before the late or the bad rows of a stream are handed out."""
        self._append({"kind": which, "stream": stream})

    def _append(self, fields: dict[str, Any], body: bytes | memoryview = b"") -> None:
        self.check_open()
        if self.suspended is not None:
            raise DurabilityError(f"{REASON}, and takes nothing in", hint=GO_ON)
        self.folder.end.append(fields, body, self._sync == "always")

    # -- refusals ------------------------------------------------------------------------------------------------

    def check_runs(self, query: HostedQuery) -> None:
        """NotHeldError if the folder was opened suspended, so that queries have no results."""
        if self.suspended is not None:
            raise NotHeldError(f"query '{query.name}' is suspended: {REASON}", hint=GO_ON)

    def check_open(self) -> None:
        """DurabilityError if the engine was closed."""
        if self.closed:
            raise DurabilityError(f"the engine on '{self.folder.path}' has been closed")

    def check_state(self) -> None:
        """DurabilityError if the folder was opened suspended, so that only definitions are known."""
        if self.suspended is not None:
            raise DurabilityError(f"{REASON}: definitions are known, and nothing of its state", hint=GO_ON)

    # -- snapshots -----------------------------------------------------------------------------------------------

    def changed(self, used_archive: bool, snapshot: Callable[[], bytes]) -> None:
        """Called after every change: writes a snapshot if it is time for one, and only warns if that fails.

        `used_archive`: the change has used rows of an archive. They are not in the log, and the archive may have fewer
        of them when the log is replayed. So a snapshot is written now.
        """
        log_bytes = self._log_bytes
        if self.suspended is not None:
            return
        if not (used_archive or self.folder.given_up) and log_bytes < max(
            self._snapshot_every, self._snapshot_bytes, self._retry_at
        ):
            return
        try:
            self.checkpoint(snapshot)
        except DurabilityError as problem:
            self._retry_at = log_bytes + self._snapshot_every
            warnings.warn(f"no snapshot: {problem}", DurabilityWarning, stacklevel=4)

    def checkpoint(self, snapshot: Callable[[], bytes]) -> None:
        """Replaces the log by a snapshot. `snapshot`: makes it, from the state after all records."""
        self.check_open()
        made = snapshot()
        with self._change as change:  # Between two logs, no record can be written to either.
            try:
                self.folder.begin_anew(made)
            except DurabilityError:
                change.undone()
                raise
        self._snapshots += 1
        self._snapshot_bytes, self._retry_at = len(made), 0

    def close(self, snapshot: Callable[[], bytes] | None) -> None:
        """Releases the folder; no record is written any more. `snapshot`: makes a last snapshot; None: there is none.
        Further calls do nothing, or finish a call that was interrupted."""
        try:
            if snapshot is not None and not self.closed and self._log_bytes and self.suspended is None:
                self.checkpoint(snapshot)
        finally:
            self.closed = True
            _let_go(self.folder, self._background)

    @property
    def records(self) -> int:
        """Number of records in all logs of the folder so far."""
        return self.folder.end.next_number

    @property
    def _log_bytes(self) -> int:
        return self.folder.earlier_bytes + self.folder.end.bytes_of_records

    def with_stats(self, stats: dict[str, Any]) -> dict[str, Any]:
        """The engine's figures and, as `durability`, those of its folder."""
        return (stats if self.suspended is None else without_figures(stats)) | {"durability": self.stats()}

    def stats(self) -> dict[str, Any]:
        return {
            "path": str(self.folder.path),
            "sync": self._sync,
            "log_bytes": self._log_bytes,
            "records": self.records,
            "snapshots": self._snapshots,
            "snapshot_bytes": self._snapshot_bytes,
            "records_replayed": self._replayed.records,
            "replay_differences": self._replayed.differences,
            "bytes_cut": self.folder.bytes_cut,
            "broken": self.folder.end.broken,
        }


def packed(batches: list[pa.RecordBatch]) -> tuple[memoryview | bytes, list[int]]:
    """Batches as Arrow IPC streams one after the other, and their sizes. Each may have its own dictionaries."""
    if not batches:
        return b"", []
    sink = pa.BufferOutputStream()
    ends = []
    for batch in batches:
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        ends.append(sink.tell())
    return memoryview(sink.getvalue()), [end - begin for begin, end in zip([0, *ends], ends, strict=False)]


def _let_go(folder: DurableFolder, background: BackgroundSync | None) -> None:
    """Releases the folder. It may be called again, also after an interrupt."""
    if folder.process != os.getpid():
        return  # A child process has closed its files, and has no thread to wait for.
    if background is not None:
        background.stop()
    folder.release()
