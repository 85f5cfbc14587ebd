"""An engine as bytes: its definitions as statements, and the state of streams, tables and queries.

A snapshot is restored by running the statements in a fresh engine and giving everything its state.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from panewise.connectors.tables import no_rows
from panewise.errors import SnapshotError
from panewise.plan.physical import SHARING
from panewise.runtime.books import Books
from panewise.runtime.definitions import statement_of
from panewise.runtime.failures import LOGGER
from panewise.runtime.statement_runner import StatementRunner
from panewise.state.snapshot_format import dumped


def snapshot_of(books: Books, statements: StatementRunner) -> bytes:
    """Everything that has been processed; the caller has seen to it that nothing waits."""
    books.check_state()
    with books.turns.change:
        for consumer in books.hosting.families:
            consumer.begin_leads()
    return dumped(
        {
            "sharing": books.hosting.sharing,
            "statements": [statement_of(definition) for definition in books.catalog],
            "slides_at_most": statements.slides_at_most,
            "streams": {name: stream.snapshot() for name, stream in books.streams.items()},
            "tables": {name: table.snapshot() for name, table in books.tables.items()},
            "archives": books.archives.snapshot(),
            **books.hosting.snapshot(),
        }
    )


def sharing_of(tree: dict[str, Any]) -> str:
    """How the engine of a snapshot shares."""
    return str(tree.get("sharing", SHARING[0]))


def restore_into(books: Books, statements: StatementRunner, tree: dict[str, Any]) -> None:
    """A fresh engine becomes that of the snapshot; its log, where it has one, gets a snapshot of that."""
    sharing = sharing_of(tree)
    if list(books.catalog):
        raise SnapshotError("a snapshot is restored into a fresh engine; this one has definitions already")
    if (books.hosting.sharing == "none") != (sharing == "none"):
        raise SnapshotError(
            f"the snapshot is of an engine with sharing '{sharing}', this one has '{books.hosting.sharing}'",
            hint=f"restore it into Engine(sharing='{sharing}')",
        )
    with books.turns, books.turns.change:
        try:
            log, books.log = books.log, None
            _restore(books, statements, tree)
            if log is not None:
                books.attach(log)
                log.checkpoint(partial(snapshot_of, books, statements))
        except (LookupError, TypeError, ValueError, AttributeError) as problem:
            # A field that another version has not written; or a mistake of ours, which the traceback shows.
            LOGGER.error("a snapshot could not be restored", exc_info=problem)
            raise SnapshotError(
                f"the snapshot does not hold what this panewise expects ({type(problem).__name__}: {problem})",
                hint="if another version has written it, go on with that one; otherwise this is a mistake of panewise: "
                "the log of 'panewise.runtime' has the traceback",
            ) from problem


def _restore(books: Books, statements: StatementRunner, tree: dict[str, Any]) -> None:
    hosting, archives = books.hosting, books.archives
    hosting.with_history = set(tree.get("with_history", ()))
    archives.only_books, before = True, archives.only_books
    stopped, hosting.stopped = hosting.stopped, set()  # they get their state first, as all others do
    define_again(books, statements, tree)
    hosting.stopped = stopped
    archives.only_books = before
    hosting.restore(tree)
    for name, stream in tree["streams"].items():
        books.streams[name].restore(stream)
    for name, table in tree.get("tables", {}).items():
        books.tables[name].restore(table)
    if not archives.only_books:
        with archives.coming_back():
            archives.restore(tree.get("archives", {}))


def define_again(books: Books, statements: StatementRunner, tree: dict[str, Any]) -> None:
    """What a snapshot defines is defined again, without rows."""
    reading, statements.read_table = statements.read_table, no_rows  # the snapshot has them
    statements.slides_given = dict(tree.get("slides_at_most", {}))
    books.hosting.taken_before = True
    for text in tree["statements"]:
        statements.execute_again(text)
    books.hosting.taken_before = False
    statements.slides_given = {}
    statements.read_table = reading
