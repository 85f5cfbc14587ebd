"""The operation counter of techniques: how many combinations of states an answer cost, free where it is off.

An operation is one combination of two states, one subtraction of one from another, or one comparison that keeps the
winner of two; one for all groups of a run. Copies are not operations. Loops say `count_operations(counter, number)`
where they do them, which compiles to nothing; the counted variant of a loop, another compilation of the same source,
has the counting function in its place. A technique keeps its loops in attributes, chosen by `choose_loops`, and hands
them its `counter`:

    class Technique(SliceRing):
        def __init__(self, kind, width):
            super().__init__(kind, width)
            self.counter = new_counter()
            self.choose_loops(counted=False)

        def choose_loops(self, counted):
            advance = loop_for(_advance, self.kind, counted)  # a helper that itself counts or combines
            self._answer = loop_for(_answer, self.kind, counted, _advance=advance)

    count_operations_of(technique)
    technique.answer(...)
    operations(technique)  # since they were last read

`loop_for` also puts in the kind's own combine (strings and rows that are chosen, users' aggregates) for `combine_run`.
Complexity claims are checked with it: Shein and Chrysanthis 2020, table 2; Arasu and Widom 2004, figure 1.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

import numpy as np

from panewise.aggregates import kernels
from panewise.aggregates.states import StateKind
from panewise.aggregates.user import combine_of
from panewise.arrays import Ints
from panewise.loops import compiled_loop, specialised


@compiled_loop
def count_operations(counter: Ints, number: int) -> None:
    """Nothing: the counter is off."""


@compiled_loop
def _counting(counter: Ints, number: int) -> None:
    counter[0] += number


class Countable(Protocol):
    """A technique whose operations can be counted. `counter` has one element."""

    counter: Ints

    def choose_loops(self, counted: bool) -> None:
        """Takes the counted variants of its loops, or the plain ones. Its state stays as it is."""


def new_counter() -> Ints:
    return np.zeros(1, np.int64)


def loop_for(loop: Any, kind: StateKind, counted: bool, variant: str = "", **helpers: Any) -> Any:
    """The compiled variant of a loop for a kind of state.

    `helpers` are functions to put in place of module-level ones of the loop's file: those that themselves depend on the
    kind or on counting; `variant` names them if they differ for another reason too.
    """
    combine = combine_of(kind)
    if combine is not None:
        helpers = {"combine_run": combine, **helpers}
    if counted:
        helpers = {"count_operations": _counting, **helpers}
    chosen = "chosen" if combine is kernels.combine_chosen else ""
    name = "_".join(part for part in (variant, chosen, "counted" if counted else "") if part)
    if combine is not None and not chosen:
        return specialised(loop, None, **helpers)  # a user's functions are compiled in every process
    return specialised(loop, name, **helpers) if name else loop


def loops_for(loops: Iterable[Any], kind: StateKind, counted: bool, **helpers: Any) -> dict[str, Any]:
    """The same for loops each of which may call those before it: all of them, and the helpers, by name."""
    chosen = dict(helpers)
    for loop in loops:
        chosen[loop.__name__] = loop_for(loop, kind, counted, **chosen)
    return chosen


def count_operations_of(synopsis: Countable) -> None:
    """Switches a synopsis to its counted loops, at 0."""
    synopsis.choose_loops(counted=True)
    synopsis.counter[0] = 0


def operations(synopsis: Countable) -> int:
    """The operations since the last call; none where they are not counted."""
    number = int(synopsis.counter[0])
    synopsis.counter[0] = 0
    return number
