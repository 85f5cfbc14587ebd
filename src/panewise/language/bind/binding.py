"""What all parts of the binder share: the catalog, the text, the known aggregates, and errors with a place.

Errors of the layers below (types, durations, functions) have no place. `Binding.at(node)` gives them the node's.
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
    """What the binder needs of an aggregate function. `result_type` raises BindError if the arguments do not fit.

    `constants` has the value of each argument that is a literal, and `...` for the others.
    """

    @property
    def name(self) -> str: ...

    def result_type(self, types: tuple[DataType, ...], constants: tuple[Any, ...], /) -> DataType: ...


MATCHING = ("LIKE", "ILIKE", "CONTAINS", "STARTS_WITH", "ENDS_WITH")  # suggested in place of regular expressions


@dataclass(frozen=True)
class Binding:
    """What the parts of the binder need to bind one statement."""

    catalog: Catalog
    text: str
    find_aggregate: Callable[[str], KnownAggregate | None]
    aggregate_names: Callable[[], Iterable[str]]
    default_window: Window | None = None  # the window of a stream that is given none; the planner refuses None
    registered: bool = False  # whether the query comes from CREATE QUERY; otherwise it is answered once

    def error(self, message: str, node: exp.Expr, hint: str | None = None) -> BindError:
        return BindError(message, text=self.text, span=span_of(node), hint=hint)

    @contextmanager
    def at(self, node: exp.Expr) -> Iterator[None]:
        """Gives the node's place to errors that are raised inside without one."""
        try:
            yield
        except QueryError as error:
            if error.span is None:
                error.text, error.span = self.text, span_of(node)
            raise
        except CatalogError as error:
            raise self.error(error.message, node, error.hint) from None

    def definition(self, name: exp.Identifier, *kinds: str) -> Definition:
        """The definition of that name, which must be of one of these kinds."""
        with self.at(name):
            return self.catalog.get(name.name, *kinds)

    def refuse_taken(self, name: exp.Identifier, kind: str, if_not_exists: bool) -> None:
        """Refuses a name that is taken, except by a definition of the same kind under IF NOT EXISTS."""
        existing = self.catalog.find(name.name)
        if existing is None or (if_not_exists and existing.kind == kind):
            return
        hint = "drop it first, or write IF NOT EXISTS" if existing.kind == kind else "choose another name"
        article = "an" if existing.kind == "archive" else "a"
        raise self.error(f"there is already {article} {existing.kind} '{existing.name}'", name, hint)

    def no_function(self, name: str, scalars: Iterable[str], node: exp.Expr) -> BindError:
        """The error for an unknown function, with the nearest names and all aggregate functions as hint."""
        aggregates = sorted(self.aggregate_names())
        names = [*scalars, *aggregates]
        near = did_you_mean(name, names)
        known = "aggregate functions are " + ", ".join(aggregates)
        if not near.startswith("did you mean"):
            alike = _sharing_a_word(name, [*names, *MATCHING])
            near = f"the nearest are {', '.join(alike)};" if alike else ""
        hint = f"{near} {known}".strip()
        return self.error(f"there is no function '{name}'", node, hint)


def _sharing_a_word(name: str, known: Iterable[str]) -> list[str]:
    """The known functions whose names share a word with `name`, sorted."""
    words = set(name.upper().split("_"))
    if any(word.startswith(("REGEX", "RLIKE", "MATCH")) for word in words):
        return list(MATCHING)
    return sorted({other for other in known if not words.isdisjoint(other.split("_"))})
