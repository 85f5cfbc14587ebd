"""A restart: what the checkpoint defines, against what the caller has defined now.

Equal definitions go on. New ones are created. Those that only the checkpoint knows (made while an earlier run was
running) go on too. A definition that has changed is refused, or, with `replace`, made anew, and what the caller does
not define goes.
"""

from __future__ import annotations

from panewise.catalog import Definition
from panewise.errors import CatalogError
from panewise.language.sql_text import name_to_sql
from panewise.runtime.definitions import statement_of
from panewise.runtime.engine import Engine
from panewise.runtime.spark.program import Program


def reconciled(books: Engine, program: Program, replace: bool) -> list[str]:
    """The statements of the change that leads from the program to the books; the books learn what only it knows."""
    stored = {d.name.lower(): d for d in program._catalog}
    here = {d.name.lower(): d for d in books.catalog}
    if not stored:
        return [statement_of(d) for d in here.values()] + _suspended(books)
    changed = [d for key, d in here.items() if key in stored and _text(d) != _text(stored[key])]
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
        _learn(books, program, [d for key, d in stored.items() if key not in here])
    # What reads a definition that goes has to go too, and comes back after it.
    reading = True
    while reading:
        readers = {r.name.lower() for name in gone for r in program._catalog.readers(name)}
        reading = not readers <= gone
        gone |= readers
    drops = [f"DROP {d.kind.upper()} {name_to_sql(d.name)}" for key, d in reversed(stored.items()) if key in gone]
    creates = [statement_of(d) for key, d in here.items() if key in gone or key not in stored]
    return drops + creates


def _learn(books: Engine, program: Program, definitions: list[Definition]) -> None:
    suspended = {name for name, query in program.versions[-1].queries.items() if query.suspended}
    for definition in definitions:
        books.execute(statement_of(definition))
        if definition.name.lower() in suspended:
            books.execute(f"SUSPEND QUERY {name_to_sql(definition.name)}")


def _suspended(books: Engine) -> list[str]:
    queries = books._hosting.queries
    return [
        f"SUSPEND QUERY {name_to_sql(d.name)}"
        for d in books.catalog.of_kind("query")
        if queries[d.name.lower()].status == "SUSPENDED"
    ]


def _text(definition: Definition) -> str:
    """A definition without what ALTER STREAM may change while it runs."""
    from dataclasses import replace

    from panewise.catalog import StreamDefinition

    if isinstance(definition, StreamDefinition):
        alterable = ("late", "idle", "on_bad_row", "retain", "max_files_per_trigger")
        options = tuple((k, v) for k, v in definition.options if k.lower() not in alterable)
        return statement_of(replace(definition, options=options))
    return statement_of(definition)
