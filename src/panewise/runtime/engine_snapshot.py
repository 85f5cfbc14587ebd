"""An engine as bytes: its definitions as statements, and the state of streams, tables and queries.

A snapshot is restored by running the statements in a fresh engine and giving everything its state.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from panewise.connectors.tables import no_rows
from panewise.errors import SnapshotError
from panewise.runtime.definitions import statement_of
from panewise.runtime.failures import LOGGER
from panewise.runtime.weaver import MODES
from panewise.state.snapshot_format import dumped

if TYPE_CHECKING:
    from panewise.runtime.engine import Engine


def snapshot_of(engine: Engine) -> bytes:
    """Everything that has been processed; the caller has seen to it that nothing waits."""
    return dumped(
        {
            "sharing": engine.hosting.sharing,
            "statements": [statement_of(definition) for definition in engine.catalog],
            "slides_at_most": engine.statements.slides_at_most,
            "streams": {name: stream.snapshot() for name, stream in engine.streams.items()},
            "tables": {name: table.snapshot() for name, table in engine.tables.items()},
            "archives": engine.archives.snapshot(),
            **engine.hosting.snapshot(),
        }
    )


def sharing_of(tree: dict[str, Any]) -> str:
    """How the engine of a snapshot shares."""
    return str(tree.get("sharing", MODES[0]))


def restore_into(engine: Engine, tree: dict[str, Any]) -> None:
    """A fresh engine becomes that of the snapshot."""
    sharing = sharing_of(tree)
    if list(engine.catalog):
        raise SnapshotError("a snapshot is restored into a fresh engine; this one has definitions already")
    if (engine.hosting.sharing == "none") != (sharing == "none"):
        raise SnapshotError(
            f"the snapshot is of an engine with sharing '{sharing}', this one has '{engine.hosting.sharing}'",
            hint=f"restore it into Engine(sharing='{sharing}')",
        )
    with engine.turns, engine.turns.change:
        try:
            _restore(engine, tree)
        except (LookupError, TypeError, ValueError, AttributeError) as problem:
            # A field that another version has not written; or a mistake of ours, which the traceback shows.
            LOGGER.error("a snapshot could not be restored", exc_info=problem)
            raise SnapshotError(
                f"the snapshot does not hold what this panewise expects ({type(problem).__name__}: {problem})",
                hint="if another version has written it, go on with that one; otherwise this is a mistake of panewise: "
                "the log of 'panewise.runtime' has the traceback",
            ) from problem


def _restore(engine: Engine, tree: dict[str, Any]) -> None:
    reading, engine.read_table = engine.read_table, no_rows  # the snapshot has them
    durability, engine.durability = engine.durability, None  # it gets the state as a whole, below
    engine.statements.slides_given = dict(tree.get("slides_at_most", {}))
    engine.hosting.with_history = set(tree.get("with_history", ()))
    engine.archives.only_books, before = True, engine.archives.only_books
    stopped, engine.hosting.stopped = engine.hosting.stopped, set()  # they get their state first, as all others do
    engine.hosting.taken_before = True
    for text in tree["statements"]:
        engine.execute(text)
    engine.hosting.stopped, engine.hosting.taken_before = stopped, False
    engine.archives.only_books = before
    engine.statements.slides_given = {}
    engine.read_table = reading
    engine.hosting.restore(tree)
    for name, stream in tree["streams"].items():
        engine.streams[name].restore(stream)
    for name, table in tree.get("tables", {}).items():
        engine.tables[name].restore(table)
    if not engine.archives.only_books:
        with engine.archives.coming_back():
            engine.archives.restore(tree.get("archives", {}))
    if durability is not None:
        durability.attach()
        durability.checkpoint()
