"""What an aggregate allows: the properties that decide which synopsis may keep it.

Every state here is associative: a window's state is the combination of its slices' states, whatever their cut.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """Gray's classes: how the aggregate of a whole follows from those of its parts."""

    DISTRIBUTIVE = "distributive"  # by one value a part
    ALGEBRAIC = "algebraic"  # by a few values a part
    HOLISTIC = "holistic"  # by no bounded number of values a part


@dataclass(frozen=True)
class Algebra:
    """`invertible`: an old part can be taken away again, exactly. `selective`: the result is one of the inputs."""

    kind: Kind
    commutative: bool = True
    invertible: bool = False
    selective: bool = False
    associative: bool = True
