"""The physical node of a one-time query, which is answered from what is held."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from panewise.plan.blocks import Block
from panewise.plan.nodes import Emit


class Once(Enum):
    """What a one-time query is answered from.

    SLICES: the slices of a family that hold its last report; if there is none, as WINDOW. WINDOW: the rows of a window
    of time, in steps if there are many. COUNTED: the rows of a window of rows. INPUTS: all rows of several inputs.
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
    """A one-time query. `block` is None if it has several inputs."""

    plan: Emit
    block: Block | None
    way: Once
