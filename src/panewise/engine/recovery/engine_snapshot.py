"""An engine as bytes: its definitions as statements, and the state of streams, tables and queries.

A snapshot is restored by running the statements in a fresh engine and giving everything its state.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from panewise.connectors.tables import no_rows
from panewise.engine.books.books import Books
from panewise.engine.books.definitions import statement_of
from panewise.engine.channels.failures import LOGGER
from panewise.engine.statements.statement_runner import StatementRunner
from panewise.errors import SnapshotError
from panewise.plan.decided import NOTHING_DECIDED, Decided, decided_on
from panewise.plan.physical_plan import HIDDEN, SHARING, FamilyQuery
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
            "slides_at_most": _slides_got(books),
            "decided": _decided(books),
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
                "the log of 'panewise.engine' has the traceback",
            ) from problem


def _restore(books: Books, statements: StatementRunner, tree: dict[str, Any]) -> None:
    hosting, archives = books.hosting, books.archives
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
    statements.decided_before = decided_in(tree)
    books.hosting.taken_before = True
    for text in tree["statements"]:
        statements.execute_again(text)
    books.hosting.taken_before = False
    statements.decided_before = None
    statements.read_table = reading


def _slides_got(books: Books) -> dict[str, int]:
    """As older ones wrote and read them; `decided` says the same."""
    nodes = {name: planned.node for name, planned in books.hosting.plan.queries.items()}
    return {n: node.slide_got for n, node in nodes.items() if isinstance(node, FamilyQuery) and node.slide_got}


def _decided(books: Books) -> dict[str, Any]:
    """What was decided on the queries of which something was, by name."""
    found = {name: decided_on(planned.node).to_dict() for name, planned in books.hosting.plan.queries.items()}
    return {name: decided for name, decided in found.items() if decided}


def decided_in(tree: dict[str, Any]) -> dict[str, Decided]:
    """What a snapshot says was decided. An older one says it of slides and of queries that began with the past."""
    found = {name: Decided.of_dict(decided) for name, decided in tree.get("decided", {}).items()}
    if "decided" not in tree:
        for name, slide_us in tree.get("slides_at_most", {}).items():
            found[name] = Decided(slide_us)
        for name in tree.get("with_history", ()):
            outer, *path = name.split(HIDDEN)
            found[outer] = _with_past(found.get(outer, NOTHING_DECIDED), [int(number) for number in path])
    return found


def _with_past(decided: Decided, path: list[int]) -> Decided:
    """The same, where a query inside the one that it is about began with the past: that of these numbers."""
    if not path:
        return replace(decided, with_past=True)
    number = path[0] - 1
    inner = [*decided.inner, *[NOTHING_DECIDED] * (number + 1 - len(decided.inner))]
    inner[number] = _with_past(inner[number], path[1:])
    return replace(decided, inner=tuple(inner))
