"""The algebraic properties of states, which decide which synopsis may keep them.

Every state is associative: the state of a window is the combination of its slices' states, however it is sliced.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """Gray's classes: how the aggregate of a whole is computed from its parts."""

    DISTRIBUTIVE = "distributive"  # from one value per part
    ALGEBRAIC = "algebraic"  # from a few values per part
    HOLISTIC = "holistic"  # from an unbounded number of values per part


@dataclass(frozen=True)
class Algebra:
    """`invertible`: an old part can be subtracted exactly. `selective`: the result is one of the inputs."""

    kind: Kind
    commutative: bool = True
    invertible: bool = False
    selective: bool = False
    associative: bool = True
