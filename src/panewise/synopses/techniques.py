"""The techniques by name: what each requires of states and windows, and why one cannot be used for a query.

`WITH (technique = '...')` names one. A query has one synopsis per state. All its states must admit the technique,
except the count of rows, which only says which groups exist.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from panewise.aggregates.algebra import Kind
from panewise.aggregates.states import StateKind
from panewise.errors import BindError, did_you_mean

if TYPE_CHECKING:
    from panewise.synopses.synopsis import Synopsis


@dataclass(frozen=True)
class Technique:
    """What a technique requires and costs.

    `needs`: 'any', 'invertible' or 'selective' states. `suffix_only`: windows must end at the newest slice.
    """

    name: str
    synopsis: str  # module and class in panewise.synopses.windows
    needs: str
    cost: str
    source: str
    suffix_only: bool = False
    of_invertible: str | None = None  # module and class for invertible states, if it is not `synopsis`

    def refusal(self, kind: StateKind, offset: int = 0) -> str | None:
        """Why it cannot keep a state or answer windows with this offset, or None if it can."""
        if kind.algebra.kind is Kind.HOLISTIC:
            return "it keeps states of a fixed size, not whole sets of values, which have a structure of their own"
        if self.needs == "invertible" and not exactly_invertible(kind):
            return f"it subtracts old slices, and {described(kind)} cannot be subtracted exactly"
        if self.needs == "selective" and not kind.algebra.selective and not self._subtracts(kind):
            return f"it keeps the slices that may still win, and {described(kind)} does not choose one of its inputs"
        if self.suffix_only and offset:
            return "it answers windows that end now, not those of an OFFSET"
        return None

    def _subtracts(self, kind: StateKind) -> bool:
        return self.of_invertible is not None and exactly_invertible(kind)

    def made(self, kind: StateKind, width: int) -> Synopsis:
        synopsis = self.of_invertible if self.of_invertible and exactly_invertible(kind) else self.synopsis
        module, _, name = synopsis.partition(":")
        made: Synopsis = getattr(importlib.import_module(f"panewise.synopses.windows.{module}"), name)(kind, width)
        return made


def exactly_invertible(kind: StateKind) -> bool:
    return kind.algebra.invertible and not kind.float_fields


def described(kind: StateKind) -> str:
    return f"a state of '{kind.name}'"


TECHNIQUES: dict[str, Technique] = {
    technique.name: technique
    for technique in (
        Technique("recompute", "recompute:RecomputeSynopsis", "any", "answer O(n)", "000 6.1"),
        Technique(
            "materialize_all",
            "materialize_all:MaterializeAll",
            "any",
            "2 operations a slice and range where invertible, else O(n); answer O(1)",
            "000 6.1",
            suffix_only=True,
        ),
        Technique("materialize_none", "panes_synopsis:Panes", "any", "answer O(n)", "000 6.1"),
        Technique(
            "subtract_on_evict",
            "subtract_on_evict:SubtractOnEvict",
            "invertible",
            "2 operations a slide and range",
            "004 2.2",
        ),
        Technique(
            "slick_deque_inv",
            "slick_deque_inv:SlickDequeInv",
            "invertible",
            "2 operations a slide and range",
            "004 2.2",
        ),
        Technique("r_int", "running:RunningSynopsis", "invertible", "1 operation a slice, answer 1", "000 3.2"),
        Technique("panes", "panes_synopsis:Panes", "any", "answer O(n)", "001 2.3.4, 004 2.2"),
        Technique("b_int", "interval:IntervalSynopsis", "any", "slice 1 amortised, answer O(log n)", "000 3.1.1"),
        Technique(
            "l_int",
            "l_int:LInt",
            "any",
            "3 operations a slice and class of widths amortised, answer 1",
            "000 3.1.2",
        ),
        Technique("psoup", "psoup:PSoup", "any", "slice and answer O(log n)", "000 3.1.3"),
        Technique("flat_fat", "flat_fat:FlatFat", "any", "slice and answer O(log n)", "004 2.2"),
        Technique(
            "flat_fit",
            "flat_fit:FlatFit",
            "any",
            "3 operations a slide and range amortised, O(n) at worst",
            "004 2.2",
            suffix_only=True,
        ),
        Technique(
            "two_stacks",
            "two_stacks:TwoStacks",
            "any",
            "3 operations a slide and range amortised, O(n) at worst",
            "004 2.2",
        ),
        Technique(
            "daba",
            "daba:DABA",
            "any",
            "4 operations a slide and range amortised, 6 at worst",
            "004 2.2",
        ),
        Technique(
            "slick_deque",
            "slick_deque:SlickDeque",
            "selective",
            "under 2 operations a slide amortised, for all ranges",
            "004 2.2",
            suffix_only=True,
            of_invertible="slick_deque_inv:SlickDequeInv",
        ),
        Technique(
            "stairs",
            "stairs:Stairs",
            "any",
            "3 operations a slide and range amortised, on those of the next shorter window; O(n) at worst",
            "002 2.3, 4",
        ),
    )
}


def technique_named(name: str) -> Technique:
    found = TECHNIQUES.get(name.lower())
    if found is None:
        raise BindError(f"there is no technique '{name}'", hint=did_you_mean(name, TECHNIQUES))
    return found
