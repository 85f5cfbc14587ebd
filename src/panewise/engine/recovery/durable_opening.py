"""Opens a folder: a fresh engine takes over the folder's state, and logs every change from now on.

The newest snapshot is restored, the log after it is replayed (`durable_replay`), and then the log goes on. With
`suspended`, only the definitions in snapshot and log are read (`suspended_folder`). If anything is raised, the folder
is released.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from panewise.connectors.tables import no_rows
from panewise.engine.books.books import Books
from panewise.engine.durability.durability import Durability, Replayed
from panewise.engine.durability.durable_folder import DurableFolder, check_not_around, folder_of, holds_engine
from panewise.engine.durability.durable_log import LogRecord
from panewise.engine.durability.durable_sync import check_sync
from panewise.engine.durability.found_outside import FoundOutside
from panewise.engine.durability.suspended_folder import REASON, Dropped
from panewise.engine.recovery.durable_replay import replay
from panewise.engine.recovery.engine_snapshot import define_again, restore_into, snapshot_of
from panewise.engine.statements.statement_runner import StatementRunner
from panewise.errors import BindError, CatalogError, DurabilityError, PanewiseError
from panewise.language import statements as s
from panewise.language.bind.binder import parse
from panewise.plan.decided import Decided
from panewise.state.durable_files import FileSystem, PrivateFiles
from panewise.state.snapshot_format import loaded

SNAPSHOT_EVERY_BYTES = 256 << 20
_DEFINING = (s.CreateStream, s.CreateTable, s.CreateQuery, s.CreateSink, s.CreateArchive, s.Drop, s.AlterStream)


def open_folder(
    books: Books,
    statements: StatementRunner,
    path: str | Path,
    sync: str = "batch",
    snapshot_every: int = SNAPSHOT_EVERY_BYTES,
    files: FileSystem | None = None,
    suspended: bool = False,
) -> Durability:
    """Restores the books from a folder, and returns the log that they write from now on.

    `suspended`: the books get the definitions only.
    """
    check_sync(sync)
    files = files or PrivateFiles()
    check_not_around(folder_of(path))
    if suspended and not holds_engine(folder_of(path)):
        raise DurabilityError(
            f"there is no engine in '{path}': suspended=True opens the folder of an existing engine",
            hint="check the path",
        )
    folder = DurableFolder.open(folder_of(path), files)
    folder.note.always = sync == "always"
    try:
        snapshot, dropped = folder.newest_snapshot(), Dropped(folder.path, files)
        make = partial(Durability, folder, files, books.turns.change, sync, snapshot_every, len(snapshot or b""))
        if suspended:
            _define(books, statements, snapshot, folder.records())
            _drop(statements, dropped)
            log = make(suspended=dropped)
            _attach(books, log)
            return log
        with books.hosting.stopping(dropped.queries()):
            log = make(_recover(books, statements, snapshot, folder))
            _attach(books, log)
            folder.forget_give_up()
            _carry_out(books, statements, log, dropped)
        books.changed(partial(snapshot_of, books))
        return log
    except OSError as problem:
        books.archives.release()
        folder.release()
        raise DurabilityError(f"the folder '{path}' cannot be used: {problem.strerror or problem}") from problem
    except BaseException:
        books.archives.release()
        folder.release()
        raise


def _attach(books: Books, log: Durability) -> None:
    log.let_go_with(books)
    books.attach(log)


def _recover(books: Books, statements: StatementRunner, snapshot: bytes | None, folder: DurableFolder) -> Replayed:
    """Restores the snapshot and replays the log. A last record that failed again is removed from the log."""
    with books.archives.recovering():
        if snapshot is not None:
            restore_into(books, statements, loaded(snapshot))
        books.begin_replay()
        replayed = replay(books, statements, folder.records())
        books.end_replay()
    if replayed.last_failed:
        folder.end.take_back()
    if folder.end.broken:
        raise DurabilityError(f"'{folder.end.path}' cannot be used: {folder.end.broken}")
    return replayed


# -- a suspended folder ----------------------------------------------------------------------------------------------


def _define(books: Books, statements: StatementRunner, snapshot: bytes | None, records: Iterable[LogRecord]) -> None:
    """Reads the definitions of a folder into the books, and no rows. All queries and archives are suspended."""
    books.archives.keep_only_books()
    statements.read_tables_by(no_rows)
    if snapshot is not None:
        define_again(books, statements, loaded(snapshot))
    problem: PanewiseError | None = None
    with books.hosting.repeating():
        for record in records:
            if problem is not None:  # Only the last record may be a statement that was refused.
                raise problem
            try:
                _define_one(statements, record.fields)
            except PanewiseError as refused:
                problem = refused
    for query in books.hosting.queries.values():
        query.suspend(REASON)
    for keeper in books.archives.keepers.values():
        keeper.suspend(REASON)


def _define_one(statements: StatementRunner, fields: dict[str, Any]) -> None:
    text, decided = fields.get("text", ""), Decided.of_dict(fields.get("decided", {}))
    for parsed in parse(text) if text else ():
        if isinstance(statements.bound(parsed), _DEFINING):
            statements.execute_parsed(parsed, FoundOutside(decided=decided))


# -- drops that were noted while the folder was suspended --------------------------------------------------------------


def _drop(statements: StatementRunner, dropped: Dropped) -> None:
    """Runs the DROP statements that are noted. All definitions of the folder must be known."""
    for text in dropped.statements:
        with suppress(CatalogError, BindError):  # Dropped before: the process died before the note was removed.
            statements.execute_again(text)


def _carry_out(books: Books, statements: StatementRunner, log: Durability, dropped: Dropped) -> None:
    """Runs the noted DROP statements, writes a snapshot without what they dropped, and removes the note."""
    if not dropped.statements:
        return
    _drop(statements, dropped)
    books.flush()
    with books.turns.change:
        books.archives.settle()
    log.checkpoint(partial(snapshot_of, books))
    dropped.forget()
