"""The statements of a file on an engine with a folder: all of them the first time, what is new of them later.

    DIR/engine          the engine's own folder (docs/durability.md)
    DIR/sinks           how far each sink has come (`connectors/numbered_sinks.py`)
    DIR/sources.json    the files that streams are read from, in order (`engine/run/source_notes.py`)

The first start makes the engine in a folder beside it, which gets its name when every statement has been run: a start
that is killed has not happened. A later one compares what the file defines with what the engine has. Equal definitions
go on, new ones are created, those that only the engine knows stay, and one that has changed is refused: its state would
answer for another one. Statements that change rows or states were done the first time, and are not done again.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from panewise.connectors.places import check_places
from panewise.connectors.tables import no_rows
from panewise.engine.books.definitions import statement_of
from panewise.engine.durability.durable_folder import ENGINE, holds_engine
from panewise.engine.engine import Engine
from panewise.errors import CatalogError, DurabilityError
from panewise.language import statements as s
from panewise.language.bind.binder import parse
from panewise.spark.program.reconcile import alterations, lasting_text

if TYPE_CHECKING:
    import pyarrow as pa

Show = Callable[["pa.Table"], None]


def engine_folder(path: Path) -> Path:
    """Where the engine of a data folder lies; DurabilityError where the folder is itself an engine's."""
    if holds_engine(path):
        real = path.resolve()
        if (path / ENGINE).exists():
            hint = f"'{path / ENGINE}' is another one: move the log and snapshot of the first to a folder of their own"
        elif real.name == ENGINE:
            hint = f"name the folder around it: --path {path.parent if path.name == ENGINE else real.parent}"
        else:
            hint = f"make a data folder of it: mkdir DIR && mv '{path}' DIR/{ENGINE}, and then --path DIR"
        raise DurabilityError(
            f"'{path}' is the folder of an engine, as Engine('{path}') opens it, and not a data folder, which has its "
            f"engine in a folder '{ENGINE}'",
            hint=hint,
        )
    return path / ENGINE


def durable_engine(path: Path, statements: list[str], show: Show) -> Engine:
    """The engine of the folder, with what the statements define; `show` gets the tables that they return."""
    place = engine_folder(path)
    if not place.exists():
        _make(place, statements, show)
        return _of_data_folder(Engine(place))
    engine = _of_data_folder(Engine(place))
    try:
        _continue(engine, statements, show)
    except BaseException:
        engine.close()
        raise
    return engine


def _of_data_folder(engine: Engine) -> Engine:
    engine.driver.expect(in_data_folder=True)
    return engine


def _make(place: Path, statements: list[str], show: Show) -> None:
    unfinished = place.with_name(".engine.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    try:
        with Engine(unfinished) as engine:
            engine.driver.expect()
            for statement in statements:
                table = engine.execute(statement)
                if table is not None:
                    show(table)
            check_places(engine.catalog)  # before the folder has a sink that could not be opened
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise
    unfinished.rename(place)
    folder = os.open(place.parent, os.O_RDONLY)
    os.fsync(folder)
    os.close(folder)


def _continue(engine: Engine, statements: list[str], show: Show) -> None:
    # What the file defines in the end, whatever it creates and drops on the way.
    books = Engine()
    books.driver.expect()
    books.statements.read_tables_by(no_rows)
    books.archives.keep_only_books()
    asked, rows = [], []
    for text in statements:
        for parsed in parse(text):
            statement = books.statements.bound(parsed)
            if isinstance(statement, s.Show | s.Explain | s.SelectOnce):
                asked.append(text)
                continue
            if isinstance(statement, s.Insert):
                rows.append((statement.table.lower(), text))
            books.execute_parsed(parsed)
    check_places(books.catalog)
    here = {d.name.lower(): d for d in books.catalog}
    stored = {d.name.lower(): d for d in engine.catalog}
    changed = [d for key, d in here.items() if key in stored and lasting_text(d) != lasting_text(stored[key])]
    if changed:
        raise CatalogError(
            f"the folder has other definitions of {', '.join(f'{d.kind} {d.name}' for d in changed)}",
            hint="put them back as they were, give them other names, or run with another --path",
        )
    for key, definition in here.items():
        if key not in stored:
            engine.execute(statement_of(definition))
            for text in [text for table, text in rows if table == key]:
                engine.execute(text)
    for text in alterations(here, stored, [key for key in here if key in stored]):
        engine.execute(text)
    for text in asked:
        table = engine.execute(text)
        if table is not None:
            show(table)
