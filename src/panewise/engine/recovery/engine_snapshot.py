"""Writes an engine as bytes: its definitions as statements, and the state of streams, tables and queries.

A snapshot is restored by running its statements in a fresh engine and then giving everything its state.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from panewise.engine.books.books import Books
from panewise.engine.books.definitions import statement_of
from panewise.engine.channels.failures import LOGGER
from panewise.engine.statements.statement_runner import StatementRunner
from panewise.errors import SnapshotError
from panewise.plan.decided import NOTHING_DECIDED, Decided, decided_on
from panewise.plan.physical_plan import HIDDEN, SHARING, FamilyQuery
from panewise.state.snapshot_format import dumped


def snapshot_of(books: Books) -> bytes:
    """The state of an engine as bytes. The caller has processed all pending rows."""
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
    """The `sharing` of the engine that wrote a snapshot."""
    return str(tree.get("sharing", SHARING[0]))


def restore_into(books: Books, statements: StatementRunner, tree: dict[str, Any]) -> None:
    """Gives a fresh engine the definitions and the state of a snapshot. If it has a folder, it writes a snapshot."""
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
            log = books.detach()
            _restore(books, statements, tree)
            if log is not None:
                books.attach(log)
                log.checkpoint(partial(snapshot_of, books))
        except (LookupError, TypeError, ValueError, AttributeError) as problem:
            # Another version has not written a field; or it is a bug of panewise, which the traceback shows.
            LOGGER.error("a snapshot could not be restored", exc_info=problem)
            raise SnapshotError(
                f"the snapshot does not hold what this panewise expects ({type(problem).__name__}: {problem})",
                hint="if another version has written it, use that one; otherwise this is a bug, and the log "
                "of 'panewise.engine' has the traceback",
            ) from problem


def _restore(books: Books, statements: StatementRunner, tree: dict[str, Any]) -> None:
    hosting, archives = books.hosting, books.archives
    with archives.keeping_only_books(), hosting.stopping(frozenset()):  # `restore` stops queries with their state
        define_again(books, statements, tree)
    hosting.restore(tree)
    for name, stream in tree["streams"].items():
        books.streams[name].restore(stream)
    for name, table in tree.get("tables", {}).items():
        books.tables[name].restore(table)
    if not archives.only_books:
        with archives.recovering():
            archives.restore(tree.get("archives", {}))


def define_again(books: Books, statements: StatementRunner, tree: dict[str, Any]) -> None:
    """Runs the statements of a snapshot. Tables stay empty."""
    with statements.restoring(decided_in(tree)), books.hosting.repeating():
        for text in tree["statements"]:
            statements.execute_again(text)


def _slides_got(books: Books) -> dict[str, int]:
    """The slides that were decided, in the form that older versions read; `decided` has them too."""
    nodes = {name: planned.node for name, planned in books.hosting.plan.queries.items()}
    return {n: node.slide_got for n, node in nodes.items() if isinstance(node, FamilyQuery) and node.slide_got}


def _decided(books: Books) -> dict[str, Any]:
    """What the planner has decided, by query; queries without decisions are left out."""
    found = {name: decided_on(planned.node).to_dict() for name, planned in books.hosting.plan.queries.items()}
    return {name: decided for name, decided in found.items() if decided}


def decided_in(tree: dict[str, Any]) -> dict[str, Decided]:
    """The decisions in a snapshot, by query. Older snapshots have the slides and the queries `with_history` instead."""
    found = {name: Decided.of_dict(decided) for name, decided in tree.get("decided", {}).items()}
    if "decided" not in tree:
        for name, slide_us in tree.get("slides_at_most", {}).items():
            found[name] = Decided(slide_us)
        for name in tree.get("with_history", ()):
            outer, *path = name.split(HIDDEN)
            found[outer] = _with_past(found.get(outer, NOTHING_DECIDED), [int(number) for number in path])
    return found


def _with_past(decided: Decided, path: list[int]) -> Decided:
    """`decided`, changed to say that a query began with the past: the query in parentheses at `path`."""
    if not path:
        return replace(decided, with_past=True)
    number = path[0] - 1
    inner = [*decided.inner, *[NOTHING_DECIDED] * (number + 1 - len(decided.inner))]
    inner[number] = _with_past(inner[number], path[1:])
    return replace(decided, inner=tuple(inner))
