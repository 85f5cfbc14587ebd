"""What exists, by name: streams, tables, queries, sinks and archives. Every change is all or nothing.

All five kinds share one case-insensitive namespace. A definition that others read cannot be dropped. `copy` and
`restore` let a caller undo a change when a later step fails, for example when a plan has no operator.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from panewise.errors import CatalogError, did_you_mean
from panewise.schema import Schema

OptionValue = object
Options = tuple[tuple[str, OptionValue], ...]


@dataclass(frozen=True)
class StreamDefinition:
    name: str
    schema: Schema
    timestamp: str
    delay_us: int
    options: Options = ()
    kind: str = "stream"

    @property
    def sheds(self) -> bool:
        """Whether its rows may be a sample: true as soon as the option `shedding` is written, whatever its value."""
        return any(name == "shedding" for name, _ in self.options)


@dataclass(frozen=True)
class TableDefinition:
    name: str
    schema: Schema
    primary_key: tuple[str, ...]
    retroactive: bool
    options: Options = ()
    kind: str = "table"

    @property
    def changes(self) -> str | None:
        """The stream that changes the table; None where statements change it."""
        return self._written("changes")

    @property
    def operation(self) -> str | None:
        """The column of the stream `changes` that says what each row does to the table."""
        return self._written("operation")

    def _written(self, name: str) -> str | None:
        value = dict(self.options).get(name)
        return None if value is None else str(value)


@dataclass(frozen=True)
class QueryDefinition:
    """A registered query. Other queries read it as a stream with the event time `timestamp`."""

    name: str
    schema: Schema  # of the results, including window columns
    timestamp: str
    text: str  # canonical text of CREATE QUERY
    inputs: tuple[str, ...]
    options: Options = ()
    status: str = "RUNNING"  # or SUSPENDED, FAILED
    reason: str = ""
    kind: str = "query"


@dataclass(frozen=True)
class SinkDefinition:
    name: str
    source: str
    options: Options = ()
    kind: str = "sink"


@dataclass(frozen=True)
class ArchiveDefinition:
    """Files with the past results of a query or rows of a stream. One-time queries read it like a table."""

    name: str
    source: str
    schema: Schema  # of the source
    timestamp: str  # the column with the time of each row
    options: Options = ()
    kind: str = "archive"

    @property
    def path(self) -> str:
        return str(dict(self.options)["path"])

    @property
    def key(self) -> tuple[str, ...]:
        return tuple(name.strip() for name in str(dict(self.options)["key"]).split(","))


Definition = StreamDefinition | TableDefinition | QueryDefinition | SinkDefinition | ArchiveDefinition


class Catalog:
    """The definitions, in the order of their creation."""

    def __init__(self) -> None:
        self._definitions: dict[str, Definition] = {}

    def __iter__(self) -> Iterator[Definition]:
        # Iterates over a copy because other threads may create and drop definitions meanwhile.
        return iter(list(self._definitions.values()))

    def of_kind(self, kind: str) -> list[Definition]:
        return [definition for definition in self if definition.kind == kind]

    def find(self, name: str) -> Definition | None:
        return self._definitions.get(name.lower())

    def get(self, name: str, *kinds: str) -> Definition:
        """The definition of that name, which must be of one of `kinds` if any are given."""
        expected = " or ".join(kinds) if kinds else "definition"
        if not isinstance(name, str):
            raise CatalogError(f"the name of a {expected} is a text, not a {type(name).__name__}", missing=True)
        found = self.find(name)
        if found is None:
            known = [d.name for d in self if not kinds or d.kind in kinds]
            raise CatalogError(f"there is no {expected} '{name}'", hint=did_you_mean(name, known), missing=True)
        if kinds and found.kind not in kinds:
            raise CatalogError(f"'{found.name}' is {_article(found.kind)}, not {_article(expected)}", missing=True)
        return found

    def add(self, definition: Definition) -> None:
        existing = self.find(definition.name)
        if existing is not None:
            raise CatalogError(f"there is already {_article(existing.kind)} '{existing.name}'", hint="drop it first")
        self._definitions[definition.name.lower()] = definition

    def change(self, name: str, **fields: object) -> None:
        definition = self.get(name)
        self._definitions[name.lower()] = replace(definition, **fields)  # type: ignore[arg-type]

    def readers(self, name: str) -> list[Definition]:
        """Queries, sinks, archives and tables that read the definition of that name."""
        key = name.lower()
        return [
            d
            for d in self
            if (isinstance(d, QueryDefinition) and key in map(str.lower, d.inputs))
            or (isinstance(d, SinkDefinition | ArchiveDefinition) and d.source.lower() == key)
            or (isinstance(d, TableDefinition) and d.changes is not None and d.changes.lower() == key)
        ]

    def drop(self, name: str, kind: str) -> Definition:
        definition = self.get(name, kind)
        readers = self.readers(name)
        if readers:
            names = ", ".join(f"{d.kind} {d.name}" for d in readers)
            raise CatalogError(f"{kind} '{definition.name}' is still read by {names}", hint="drop them first")
        return self._definitions.pop(name.lower())

    def is_as(self, copy: dict[str, Definition]) -> bool:
        """Whether the catalog still equals a copy made earlier."""
        return self._definitions == copy

    def copy(self) -> dict[str, Definition]:
        return dict(self._definitions)

    def restore(self, copy: dict[str, Definition]) -> None:
        self._definitions = dict(copy)


def _article(noun: str) -> str:
    return f"an {noun}" if noun.startswith("archive") else f"a {noun}"
