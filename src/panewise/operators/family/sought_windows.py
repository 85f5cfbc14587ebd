"""Windows over closed slices, and their answers: the contract between reporting and stores or trees."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from panewise.arrays import Ints
from panewise.plan.aggregation import StateKey

Answers = dict[StateKey, tuple[NDArray[Any], NDArray[Any]]]

# Which technique keeps the states: one for all, one for each, or None for the default.
Technique = str | Mapping[StateKey, str] | None


class SoughtWindows(NamedTuple):
    """Windows [start, end) of slice numbers whose states are asked for; start -1 is the beginning of the stream.

    `numbers` are the numbers of the members' windows, for techniques that continue from a window's last position.
    `asked_for` limits states without a fixed size to some of the windows; None: they are asked for in all windows.
    """

    starts: Ints
    ends: Ints
    groups: int
    numbers: Ints | None = None
    asked_for: dict[StateKey, NDArray[np.bool_]] | None = None


class Slices(Protocol):
    """The closed slices of a store or of a tree, with all groups in every slice."""

    @property
    def first(self) -> int: ...

    @property
    def starts(self) -> Ints: ...

    def answers(self, keys: list[StateKey], sought: SoughtWindows) -> Answers:
        """The states of the windows: arrays of shape (fields, windows, groups)."""
