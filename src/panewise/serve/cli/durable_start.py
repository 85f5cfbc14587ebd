"""Opens the engine of a data folder with the statements of a file: all run at the first start, only new ones later.

    DIR/engine          the engine's own folder (docs/durability.md)
    DIR/sinks           the progress of each sink (`connectors/numbered_sinks.py`)
    DIR/sources.json    the files that streams are read from, in order (`engine/run/source_notes.py`)

The first start builds the engine in a temporary folder and renames it after the last statement, so a start that is
killed leaves nothing. A later start compares the definitions of the file with the engine's. Equal definitions continue,
new ones are created, and those that only the engine has stay. A changed definition is refused, because the stored state
belongs to the old one. Statements that change rows or states run at the first start only.
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
    """The engine's folder in a data folder; DurabilityError if the given folder is itself an engine's."""
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
    """The engine of the folder, with the definitions of the statements; `show` gets the tables that they return."""
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
            check_places(engine.catalog)  # so that the folder never gets a sink that cannot be opened
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise
    unfinished.rename(place)
    folder = os.open(place.parent, os.O_RDONLY)
    os.fsync(folder)
    os.close(folder)


def _continue(engine: Engine, statements: list[str], show: Show) -> None:
    # Run all statements on an engine that keeps only definitions: a file may also drop what it has created.
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
