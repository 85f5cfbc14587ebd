"""What every part of the binder shares: the catalog, the text, the known aggregates, and errors with a place.

Errors of the layers below (types, durations, functions) know no place; `Binding.at(node)` gives them the node's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from sqlglot import exp

from panewise.catalog import Catalog, Definition
from panewise.errors import BindError, CatalogError, QueryError, did_you_mean
from panewise.language.parse.syntax import span_of
from panewise.schema import DataType
from panewise.temporal import Window


class KnownAggregate(Protocol):
    """What the binder asks of an aggregate function; `result_type` raises BindError where the arguments do not fit.

    `constants`: the value of each argument that is a literal, `...` for the others.
    """

    @property
    def name(self) -> str: ...

    def result_type(self, types: tuple[DataType, ...], constants: tuple[Any, ...], /) -> DataType: ...


MATCHING = ("LIKE", "ILIKE", "CONTAINS", "STARTS_WITH", "ENDS_WITH")  # what there is in place of regular expressions


@dataclass(frozen=True)
class Binding:
    """The surroundings of one statement."""

    catalog: Catalog
    text: str
    find_aggregate: Callable[[str], KnownAggregate | None]
    aggregate_names: Callable[[], Iterable[str]]
    default_window: Window | None = None  # of a stream without a window; the planner refuses None
    registered: bool = False  # a query that goes on, and not one that is answered once

    def error(self, message: str, node: exp.Expr, hint: str | None = None) -> BindError:
        return BindError(message, text=self.text, span=span_of(node), hint=hint)

    @contextmanager
    def at(self, node: exp.Expr) -> Iterator[None]:
        """Errors that are raised inside without a place get the node's."""
        try:
            yield
        except QueryError as error:
            if error.span is None:
                error.text, error.span = self.text, span_of(node)
            raise
        except CatalogError as error:
            raise self.error(error.message, node, error.hint) from None

    def definition(self, name: exp.Identifier, *kinds: str) -> Definition:
        """The definition of that name, of one of these kinds."""
        with self.at(name):
            return self.catalog.get(name.name, *kinds)

    def refuse_taken(self, name: exp.Identifier, kind: str, if_not_exists: bool) -> None:
        """A name for something new is free, or taken by the same kind under IF NOT EXISTS."""
        existing = self.catalog.find(name.name)
        if existing is None or (if_not_exists and existing.kind == kind):
            return
        hint = "drop it first, or write IF NOT EXISTS" if existing.kind == kind else "choose another name"
        article = "an" if existing.kind == "archive" else "a"
        raise self.error(f"there is already {article} {existing.kind} '{existing.name}'", name, hint)

    def no_function(self, name: str, scalars: Iterable[str], node: exp.Expr) -> BindError:
        aggregates = sorted(self.aggregate_names())
        names = [*scalars, *aggregates]
        near = did_you_mean(name, names)
        known = "aggregate functions are " + ", ".join(aggregates)
        if not near.startswith("did you mean"):
            alike = _of_the_same_words(name, [*names, *MATCHING])
            near = f"the nearest are {', '.join(alike)};" if alike else ""
        hint = f"{near} {known}".strip()
        return self.error(f"there is no function '{name}'", node, hint)


def _of_the_same_words(name: str, known: Iterable[str]) -> list[str]:
    """Functions whose names have a word in common with this one."""
    words = set(name.upper().split("_"))
    if any(word.startswith(("REGEX", "RLIKE", "MATCH")) for word in words):
        return list(MATCHING)
    return sorted({other for other in known if not words.isdisjoint(other.split("_"))})
