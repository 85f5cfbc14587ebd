"""Questions to closed slices and their answers: what stores and trees of the weave have in common."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from panewise.arrays import Ints
from panewise.plan.aggregation import StateKey

Answers = dict[StateKey, tuple[NDArray[Any], NDArray[Any]]]

# By what states are kept: one technique for all, one for each, or None for the default.
Technique = str | Mapping[StateKey, str] | None


class SoughtReports(NamedTuple):
    """Windows of slice numbers whose states are asked for; start -1 is the beginning of all.

    `numbers` are those of the members' windows, for techniques that go on from where a window was last. `asked_for`
    says for which windows a question to a state without a fixed size is asked, where not for all of them.
    """

    starts: Ints
    ends: Ints
    groups: int
    numbers: Ints | None = None
    asked_for: dict[StateKey, NDArray[np.bool_]] | None = None


class Slices(Protocol):
    """Closed slices of one width for all groups, of a store or of a tree."""

    first: int

    @property
    def starts(self) -> Ints: ...

    def answers(self, keys: list[StateKey], sought: SoughtReports) -> Answers:
        """The states of the windows, shape (fields, windows, groups)."""
