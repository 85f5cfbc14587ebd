"""A folder is opened: a fresh engine becomes what the folder holds, and writes down what happens to it from now on.

The newest snapshot is restored, the log after it happens again (`durable_replay`), and then the log goes on. Where the
folder is to be suspended, snapshot and log are read for their definitions only (`suspended_folder`). Where anything is
raised, the folder is free again.
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
    """The log that is attached to the books then. `suspended`: they get the definitions only."""
    check_sync(sync)
    files = files or PrivateFiles()
    check_not_around(folder_of(path))
    if suspended and not holds_engine(folder_of(path)):
        raise DurabilityError(
            f"there is no engine in '{path}': suspended=True opens a folder that one has written",
            hint="look at the path",
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
        books.hosting.stopped = dropped.queries()
        replayed = _become(books, statements, snapshot, folder)
        log = make(replayed)
        _attach(books, log)
        folder.forget_give_up()
        _settle(books, statements, log, dropped)
        books.hosting.stopped = set()
        books.changed(partial(snapshot_of, books, statements))
        return log
    except OSError as problem:
        books.archives.let_go()
        folder.release()
        raise DurabilityError(f"the folder '{path}' cannot be used: {problem.strerror or problem}") from problem
    except BaseException:
        books.archives.let_go()
        folder.release()
        raise


def _attach(books: Books, log: Durability) -> None:
    log.let_go_with(books)
    books.attach(log)


def _become(books: Books, statements: StatementRunner, snapshot: bytes | None, folder: DurableFolder) -> Replayed:
    """The books become what the folder holds; its log is as it goes on."""
    with books.archives.coming_back():
        if snapshot is not None:
            restore_into(books, statements, loaded(snapshot))
        books.replaying = True
        replayed = replay(books, statements, folder.records())
        books.end_replay()
    if replayed.last_failed:
        folder.end.take_back()
    if folder.end.broken:
        raise DurabilityError(f"'{folder.end.path}' cannot be used: {folder.end.broken}")
    return replayed


# -- where nothing runs ----------------------------------------------------------------------------------------------


def _define(books: Books, statements: StatementRunner, snapshot: bytes | None, records: Iterable[LogRecord]) -> None:
    """The books get the definitions of a folder, and no row."""
    books.archives.only_books = True
    statements.read_table = no_rows
    if snapshot is not None:
        define_again(books, statements, loaded(snapshot))
    books.hosting.taken_before = True
    problem: PanewiseError | None = None
    for record in records:
        if problem is not None:  # only the last record may be of a statement that was refused
            raise problem
        try:
            _define_one(statements, record.fields)
        except PanewiseError as refused:
            problem = refused
    books.hosting.taken_before = False
    for query in books.hosting.queries.values():
        query.suspend(REASON)
    for keeper in books.archives.keepers.values():
        keeper.suspend(REASON)


def _define_one(statements: StatementRunner, fields: dict[str, Any]) -> None:
    text, decided = fields.get("text", ""), Decided.of_dict(fields.get("decided", {}))
    for parsed in parse(text) if text else ():
        if isinstance(statements.bound(parsed), _DEFINING):
            statements.execute_parsed(parsed, FoundOutside(decided=decided))


# -- what was dropped while nothing ran --------------------------------------------------------------------------------


def _drop(statements: StatementRunner, dropped: Dropped) -> None:
    """What is noted is dropped, where all definitions of the folder are known."""
    for text in dropped.statements:
        with suppress(CatalogError, BindError):  # it is gone: the process died before the file was removed
            statements.execute_again(text)


def _settle(books: Books, statements: StatementRunner, log: Durability, dropped: Dropped) -> None:
    """What is noted happens, also in the next snapshot, and is noted no more."""
    if not dropped.statements:
        return
    _drop(statements, dropped)
    books.flush()
    with books.turns.change:
        books.archives.settle()
    log.checkpoint(partial(snapshot_of, books, statements))
    dropped.forget()
