"""Durability: what an engine with a path writes down before it acknowledges anything, and what it hands out.

A record is written for every statement that changes something, for every push (the rows that were taken, in the
stream's types, and those set aside), every punctuation, and every time that results, late rows or bad rows are handed
out. The record comes first, the change after it: what could not be written has not happened, and what was written
happens again when the folder is opened, in the same order and with the same answers (`durable_replay`): a write-ahead
log. So, whenever the process ends:

- a call that has returned is in the state of the next engine on the folder; one that has not, whole or not at all;
- results that were handed out are not handed out again, and all others still are.

After `snapshot_every` bytes of log, or as many as the last snapshot had if those are more, a snapshot takes the place
of the log. So all snapshots together are about as many bytes as the log, unless the state grows faster than that.
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
    """Of a method that writes a record, and is called first inside `with change`: where it raises and there is no
    record, nothing has changed."""

    @wraps(tell)
    def told(self: Durability, /, *arguments: P.args, **named: P.kwargs) -> T:
        size = self.folder.end.size
        try:
            return tell(self, *arguments, **named)
        except BaseException:
            # An interrupt may come when the record is there, and before this has returned.
            if self.folder.end.size == size:
                self._change.undone()
            raise

    return told


@dataclass
class Replayed:
    """How many records there were, how often a query had another number of results, whether the last record failed."""

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
        """`change`: the engine's. `snapshot_bytes`: how large the folder's snapshot is; `replayed`: the records after
        it, which have happened again. `suspended`: nothing is written but what is dropped."""
        self.suspended = suspended
        self.folder = folder
        self._change = change
        self._sync = sync
        self._snapshot_every = snapshot_every
        self._snapshot_bytes = snapshot_bytes
        self._retry_at = 0  # bytes of log at which a snapshot that failed is tried again
        self._snapshots = 0
        self._replayed = replayed or Replayed()
        self._handed_out: dict[str, tuple[HostedQuery, int]] = {}  # the query and its results when they were last read
        self.closed = False
        self._background = BackgroundSync(folder, files) if sync == "batch" else None

    def let_go_with(self, owner: object) -> None:
        """An engine that nobody holds any more lets its folder go, as one that is closed does."""
        weakref.finalize(owner, _let_go, self.folder, self._background)

    @property
    def remedy(self) -> str:
        """What is to be done with a broken engine."""
        return f"close it, and open '{self.folder.path}' again: its log has every call that was acknowledged"

    def forked(self) -> None:
        """This is a child process: the folder is its parent's, and the lock ends with the process that took it."""
        self.folder.close_files()

    def refusal_in_child(self) -> DurabilityError:
        """What a child process is told that uses the engine of its parent."""
        return DurabilityError(
            f"the engine on '{self.folder.path}' was opened by process {self.folder.process}, and this is process "
            f"{os.getpid()}, which was forked from it: a folder has one process",
            hint="open another folder here, or send rows and questions to that process (panewise serve, pw.connect)",
        )

    # -- what is written -----------------------------------------------------------------------------------------

    @_first_in_change
    def begin_statement(self, statement: s.Statement, found: FoundOutside) -> bool:
        """Writes a statement down that is going to be run, with what it has found outside; False where it changes
        nothing."""
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
        """The statement that was begun has failed, and left no trace."""
        if self.suspended is not None:
            self.suspended.take_back()
        else:
            self.folder.end.take_back()

    @_first_in_change
    def took(self, stream: str, taken: Taken) -> None:
        """Rows of a push that are going to be taken in."""
        self.check_state()
        if not taken.batches and not taken.aside and not taken.shed and taken.stamp is None:
            return
        body, sizes = packed(taken.batches)
        told = {"aside": taken.aside, "shed": taken.shed, "stamp": taken.stamp}
        come = {"newest": taken.extent.newest, "oldest": taken.extent.oldest}
        self._append({"kind": "push", "stream": stream, "sizes": sizes, **told, **come}, body)

    @_first_in_change
    def took_row(self, stream: str, row: list[Any], stamp: Stamp | None) -> None:
        """The same for a single row in plain values."""
        self._append({"kind": "row", "stream": stream, "row": row, "stamp": stamp})

    @_first_in_change
    def advanced(self, stream: str, until: int) -> None:
        """A punctuation that is going to be taken in."""
        self._append({"kind": "advance", "stream": stream, "until": until})

    @_first_in_change
    def hands_out(self, queries: list[HostedQuery]) -> None:
        """All results that these queries have had so far are going to be handed out, or have been: one record, so that
        it is noted of all of them or of none."""
        counts = {query.name: (query, query.rows_out) for query in queries}
        fresh = {name: read for name, read in counts.items() if self._handed_out.get(name) != read}
        if len(fresh) == 1:
            ((name, (_, count)),) = fresh.items()
            self._append({"kind": "read", "query": name, "results": count})
        elif fresh:
            self._append({"kind": "read", "queries": {name: count for name, (_, count) in fresh.items()}})
        self._handed_out.update(fresh)

    @_first_in_change
    def hands_out_rows(self, stream: str, which: str) -> None:
        """The late or the bad rows of a stream are going to be handed out."""
        self._append({"kind": which, "stream": stream})

    def _append(self, fields: dict[str, Any], body: bytes | memoryview = b"") -> None:
        self.check_open()
        if self.suspended is not None:
            raise DurabilityError(f"{REASON}, and takes nothing in", hint=GO_ON)
        self.folder.end.append(fields, body, self._sync == "always")

    # -- where nothing runs --------------------------------------------------------------------------------------

    def check_runs(self, query: HostedQuery) -> None:
        """NotHeldError where queries hold no results and no answers, because nothing runs."""
        if self.suspended is not None:
            raise NotHeldError(f"query '{query.name}' is suspended: {REASON}", hint=GO_ON)

    def check_open(self) -> None:
        """DurabilityError where the folder has been let go."""
        if self.closed:
            raise DurabilityError(f"the engine on '{self.folder.path}' has been closed")

    def check_state(self) -> None:
        """DurabilityError where there is no state but in the folder."""
        if self.suspended is not None:
            raise DurabilityError(f"{REASON}: definitions are known, and nothing of its state", hint=GO_ON)

    # -- snapshots -----------------------------------------------------------------------------------------------

    def changed(self, told: bool, snapshot: Callable[[], bytes]) -> None:
        """A change is complete: a snapshot is written where it is time for one. That it fails is only told.

        `told`: an archive has had a say in it. What it has said is not in the log, and it may say less when that is
        read again.
        """
        log_bytes = self._log_bytes
        if self.suspended is not None:
            return
        if not (told or self.folder.given_up) and log_bytes < max(
            self._snapshot_every, self._snapshot_bytes, self._retry_at
        ):
            return
        try:
            self.checkpoint(snapshot)
        except DurabilityError as problem:
            self._retry_at = log_bytes + self._snapshot_every
            warnings.warn(f"no snapshot: {problem}", DurabilityWarning, stacklevel=4)

    def checkpoint(self, snapshot: Callable[[], bytes]) -> None:
        """A snapshot takes the place of the log; `snapshot` makes it, of everything that was written down."""
        self.check_open()
        made = snapshot()
        with self._change as change:  # between two logs, nothing can be written to either
            try:
                self.folder.begin_anew(made)
            except DurabilityError:
                change.undone()
                raise
        self._snapshots += 1
        self._snapshot_bytes, self._retry_at = len(made), 0

    def close(self, snapshot: Callable[[], bytes] | None) -> None:
        """Nothing is taken in any more, and another engine may open the folder. A second time does nothing, or goes on
        where the first was interrupted. `snapshot` None: none is written."""
        try:
            if snapshot is not None and not self.closed and self._log_bytes and self.suspended is None:
                self.checkpoint(snapshot)
        finally:
            self.closed = True
            _let_go(self.folder, self._background)

    @property
    def records(self) -> int:
        """How many there are, in all logs there ever were."""
        return self.folder.end.next_number

    @property
    def _log_bytes(self) -> int:
        return self.folder.earlier_bytes + self.folder.end.bytes_of_records

    def with_stats(self, stats: dict[str, Any]) -> dict[str, Any]:
        """What the engine says of itself and, as `durability`, what there is to say of its folder."""
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
    """Batches as Arrow IPC streams one after the other, for each may have dictionaries of its own; and their sizes."""
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
    """Can be called again, where it was interrupted too."""
    if folder.process != os.getpid():
        return  # nothing is left to let go of, and no thread to wait for
    if background is not None:
        background.stop()
    folder.release()
