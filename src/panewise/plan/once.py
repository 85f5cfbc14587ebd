"""What answers a query that is answered once, over what is held: its node, as a value."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from panewise.plan.blocks import Block
from panewise.plan.nodes import Emit


class Once(Enum):
    """What a one-time query is answered from.

    SLICES: those of a family that hold its last report; where none does, as WINDOW. WINDOW: the rows of a window of
    time, in steps where they are many. COUNTED: the rows of a window of rows. INPUTS: all rows of several inputs.
    """

    ARCHIVE = "archive"
    ANSWER = "answer of a query"
    TABLE = "table"
    SLICES = "slices of a family, or its window"
    WINDOW = "window"
    COUNTED = "window of rows"
    INPUTS = "whole"


@dataclass(frozen=True)
class OnceQuery:
    """A query that is answered once. `block` is None where it has several inputs."""

    plan: Emit
    block: Block | None
    way: Once
