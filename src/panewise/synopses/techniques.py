"""The techniques by name: what each needs of a state and of its windows, and why one is not for a query.

`WITH (technique = '...')` names one. Every technique keeps one state each; a query's states may differ in what they
admit, and all must admit the technique, but for the count of rows, which only says which groups there are.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from panewise.aggregates.states import StateKind
from panewise.errors import BindError, did_you_mean

if TYPE_CHECKING:
    from panewise.synopses.contract import Synopsis


@dataclass(frozen=True)
class Technique:
    """`needs` is 'any', 'invertible' or 'selective'; `suffix_only`: windows must end at the newest slice."""

    name: str
    synopsis: str  # module and class below panewise.synopses
    needs: str
    cost: str
    source: str
    shares_ranges: bool = True  # one structure answers all ranges; else one per range
    suffix_only: bool = False

    def refusal(self, kind: StateKind, offset: int = 0) -> str | None:
        """Why it cannot keep a state, or answer windows that lie so far in the past; None where it can."""
        if self.needs == "invertible" and not exactly_invertible(kind):
            return f"it takes old slices away again, and {described(kind)} cannot be taken away exactly"
        if self.needs == "selective" and not kind.algebra.selective:
            return f"it keeps the slices that may still win, and {described(kind)} does not choose one of its inputs"
        if self.suffix_only and offset:
            return "it answers windows that end now, not those of an OFFSET"
        return None

    def made(self, kind: StateKind, width: int) -> Synopsis:
        module, _, name = self.synopsis.partition(":")
        made: Synopsis = getattr(importlib.import_module(f"panewise.synopses.{module}"), name)(kind, width)
        return made


def exactly_invertible(kind: StateKind) -> bool:
    return kind.algebra.invertible and not kind.float_fields


def described(kind: StateKind) -> str:
    return f"a state of '{kind.name}'"


TECHNIQUES: dict[str, Technique] = {
    technique.name: technique
    for technique in (Technique("recompute", "recompute:RecomputeSynopsis", "any", "answer O(n)", "000 6.1"),)
}


def technique_named(name: str) -> Technique:
    found = TECHNIQUES.get(name.lower())
    if found is None:
        raise BindError(f"there is no technique '{name}'", hint=did_you_mean(name, TECHNIQUES))
    return found
