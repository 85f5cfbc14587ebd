"""The operation counter of techniques: how many combinations of states an answer cost. It costs nothing when off.

An operation is one combination of two states, one subtraction, or one comparison of two states that keeps the winner.
It counts once for all groups of a run; copies do not count. Loops call `count_operations(counter, number)`, which
compiles to nothing. The counted variant of a loop is compiled from the same source with a function that counts in its
place. A technique keeps its loops in attributes, which `choose_loops` sets, and passes them its `counter`:

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

`loop_for` also replaces `combine_run` by the kind's own combine (for chosen strings and rows, and users' aggregates).
The tests check complexity claims with the counter: Shein and Chrysanthis 2020, table 2; Arasu and Widom 2004, figure 1.
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
    """Does nothing: the counter is off."""


@compiled_loop
def _counting(counter: Ints, number: int) -> None:
    counter[0] += number


class Countable(Protocol):
    """A technique whose operations can be counted. `counter` has one element."""

    counter: Ints

    def choose_loops(self, counted: bool) -> None:
        """Switches to the counted variants of its loops, or to the plain ones. Its state does not change."""


def new_counter() -> Ints:
    return np.zeros(1, np.int64)


def loop_for(loop: Any, kind: StateKind, counted: bool, variant: str = "", **helpers: Any) -> Any:
    """The compiled variant of a loop for a kind of state.

    `helpers` replace the module-level functions of these names: functions that depend on the kind or on counting.
    `variant` names the helpers if they differ for another reason too.
    """
    combine = combine_of(kind)
    if combine is not None:
        helpers = {"combine_run": combine, **helpers}
    if counted:
        helpers = {"count_operations": _counting, **helpers}
    chosen = "chosen" if combine is kernels.combine_chosen else ""
    name = "_".join(part for part in (variant, chosen, "counted" if counted else "") if part)
    if combine is not None and not chosen:
        return specialised(loop, None, **helpers)  # a user's functions have no name for the cache on disk
    return specialised(loop, name, **helpers) if name else loop


def loops_for(loops: Iterable[Any], kind: StateKind, counted: bool, **helpers: Any) -> dict[str, Any]:
    """Variants of several loops by name, together with the helpers. Each loop may call the loops before it."""
    chosen = dict(helpers)
    for loop in loops:
        chosen[loop.__name__] = loop_for(loop, kind, counted, **chosen)
    return chosen


def count_operations_of(synopsis: Countable) -> None:
    """Switches a synopsis to its counted loops and sets its counter to 0."""
    synopsis.choose_loops(counted=True)
    synopsis.counter[0] = 0


def operations(synopsis: Countable) -> int:
    """The number of operations since the last call; 0 if they are not counted."""
    number = int(synopsis.counter[0])
    synopsis.counter[0] = 0
    return number
