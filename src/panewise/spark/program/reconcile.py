"""A restart: compares the definitions of the checkpoint with those of the caller.

Equal definitions go on. New ones are created. Those that only the checkpoint has (created during an earlier run) go on
too. A definition that has changed is refused. With `replace`, it is created anew, and definitions that the caller does
not have are dropped.
"""

from __future__ import annotations

from dataclasses import replace as with_changes

from panewise.catalog import ArchiveDefinition, Definition, StreamDefinition
from panewise.engine.books.definitions import alteration_of, statement_of
from panewise.engine.engine import Engine
from panewise.errors import CatalogError
from panewise.language.sql_text import name_to_sql
from panewise.spark.program.changes import ChangeStatement
from panewise.spark.program.program import Program

ALTERABLE = ("late", "ahead", "idle", "on_bad_row", "retain")
ALTERABLE_OF_ARCHIVES = ("layout", "update")


def reconciled(books: Engine, program: Program, replace: bool) -> list[ChangeStatement]:
    """The statements that lead from the program to the books. Adds to the books the definitions that only it has."""
    stored = {d.name.lower(): d for d in program.catalog}
    here = {d.name.lower(): d for d in books.catalog}
    if not stored:
        return [ChangeStatement(text) for text in (*map(statement_of, here.values()), *suspensions(books))]
    changed = [d for key, d in here.items() if key in stored and lasting_text(d) != lasting_text(stored[key])]
    if changed and not replace:
        names = ", ".join(f"{d.kind} {d.name}" for d in changed)
        raise CatalogError(
            f"the checkpoint has other definitions of {names}",
            hint="use another checkpoint, or replace what it has (--replace)",
        )
    gone = {d.name.lower() for d in changed}
    if replace:
        gone |= stored.keys() - here.keys()
    else:
        _add_to_books(books, program, [d for key, d in stored.items() if key not in here])
    # Readers of a dropped definition are dropped too, and created again after it.
    reading = True
    while reading:
        readers = {r.name.lower() for name in gone for r in program.catalog.readers(name)}
        reading = not readers <= gone
        gone |= readers
    drops = [f"DROP {d.kind.upper()} {name_to_sql(d.name)}" for key, d in reversed(stored.items()) if key in gone]
    creates = [statement_of(d) for key, d in here.items() if key in gone or key not in stored]
    kept = [key for key in here if key in stored and key not in gone]
    altered = alterations(here, stored, kept) + _suspended_only_here(books, program, kept)
    return [ChangeStatement(text) for text in (*drops, *creates, *altered)]


def alterations(here: dict[str, Definition], stored: dict[str, Definition], kept: list[str]) -> list[str]:
    """ALTER statements for streams and archives that go on: the options that the caller has set otherwise."""
    found = []
    for key in kept:
        now, before = here[key], stored[key]
        if isinstance(now, StreamDefinition | ArchiveDefinition) and isinstance(before, type(now)):
            alterable = ALTERABLE if isinstance(now, StreamDefinition) else ALTERABLE_OF_ARCHIVES
            known = {name.lower(): value for name, value in before.options}
            new = [(n, v) for n, v in now.options if n.lower() in alterable and known.get(n.lower()) != v]
            if new:
                found.append(alteration_of(now.name, tuple(new), now.kind))
    return found


def _suspended_only_here(books: Engine, program: Program, kept: list[str]) -> list[str]:
    """SUSPEND statements for queries that only the books have suspended. Suspends in the books those of the program."""
    found = []
    stored = program.newest.queries
    for key in kept:
        query = books.hosting.queries.get(key)
        if query is None:
            continue
        suspend = f"SUSPEND QUERY {name_to_sql(stored[key].definition.name)}"
        if stored[key].suspended:
            books.execute(suspend)
        elif query.status == "SUSPENDED":
            found.append(suspend)
    return found


def _add_to_books(books: Engine, program: Program, definitions: list[Definition]) -> None:
    suspended = {name for name, query in program.newest.queries.items() if query.suspended}
    for definition in definitions:
        books.execute(statement_of(definition))
        if definition.name.lower() in suspended:
            books.execute(f"SUSPEND QUERY {name_to_sql(definition.name)}")


def suspensions(books: Engine) -> list[str]:
    """SUSPEND statements for the queries that are suspended in the books."""
    queries = books.hosting.queries
    suspended = [d.name for d in books.catalog.of_kind("query") if queries[d.name.lower()].status == "SUSPENDED"]
    return [f"SUSPEND QUERY {name_to_sql(name)}" for name in suspended]


def lasting_text(definition: Definition) -> str:
    """A definition without what ALTER STREAM or ALTER ARCHIVE may change while it runs."""
    if isinstance(definition, StreamDefinition):
        options = tuple((k, v) for k, v in definition.options if k.lower() not in (*ALTERABLE, "max_files_per_trigger"))
        return statement_of(with_changes(definition, options=options))
    if isinstance(definition, ArchiveDefinition):
        options = tuple((k, v) for k, v in definition.options if k.lower() not in ALTERABLE_OF_ARCHIVES)
        return statement_of(with_changes(definition, options=options))
    return statement_of(definition)
