"""Interprets the statements that define, for all hosts: CREATE, DROP, ALTER, SUSPEND and RESUME.

It changes the catalog, and tells the host, a `Definer`, what was made, dropped or altered. If the host raises, the
caller restores the catalog, so that a statement is all or nothing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from panewise.catalog import Catalog, Definition, Options
from panewise.engine.books.definitions import Created, FindAggregate, definition_of
from panewise.language import statements as s
from panewise.plan.nodes import Emit

Defining = Created | s.Drop | s.SuspendQuery | s.ResumeQuery | s.AlterStream | s.AlterArchive


class Definer(ABC):
    """A host, as the interpreter sees it. Each method is called after the catalog has changed."""

    @abstractmethod
    def made(self, definition: Definition, plan: Emit | None, statement: Created) -> None:
        """A definition is new. `plan`: its plan, if it is a query."""

    @abstractmethod
    def dropped(self, definition: Definition) -> None:
        """A definition is gone. Nothing reads it."""

    @abstractmethod
    def set_suspended(self, query: str, suspended: bool) -> None:
        """A query is suspended or resumed. Its name may be in any case."""

    @abstractmethod
    def altered(self, definition: Definition, options: Options) -> Any:
        """A stream or an archive was altered; `options`: those of the statement. Returns work that is left, or None."""


def interpret(
    statement: Defining,
    catalog: Catalog,
    find_aggregate: FindAggregate,
    host: Definer,
    accepted_before: bool = False,
    made: tuple[Definition, Emit | None] | None = None,
) -> Any:
    """Runs a bound statement, and returns what is left to do, or None.

    `accepted_before`: it was accepted, perhaps by a version that refused less. `made`: what a CREATE statement defines,
    and the plan, if that is known already.
    """
    match statement:
        case s.Drop():
            if statement.if_exists and catalog.find(statement.name) is None:
                return None
            host.dropped(catalog.drop(statement.name, statement.kind))
        case s.SuspendQuery() | s.ResumeQuery():
            catalog.get(statement.name, "query")
            host.set_suspended(statement.name, isinstance(statement, s.SuspendQuery))
        case s.AlterStream() | s.AlterArchive():
            kind = "stream" if isinstance(statement, s.AlterStream) else "archive"
            known = catalog.get(statement.name, kind)
            options = dict(known.options) | dict(statement.options)
            catalog.change(statement.name, options=tuple(options.items()))
            return host.altered(catalog.get(statement.name, kind), statement.options)
        case _:
            if statement.if_not_exists and catalog.find(statement.name) is not None:
                return None
            if isinstance(statement, s.CreateSink):
                catalog.get(statement.source, "query")
            definition, plan = made or definition_of(statement, find_aggregate, accepted_before)
            catalog.add(definition)
            host.made(definition, plan, statement)
    return None
