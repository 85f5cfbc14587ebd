"""The text of an archive's layout: the number of sub-indices by insertion and by expiration, and their order.

    '4x4'                       round-robin, 4 classes of insertion times 4 of expiration
    'chronological 4x4'         as above, but consecutive slots are in one class
    'wave by insertion 16'      a baseline: 16 chronological classes of insertion
    'wave by expiration 16'     a baseline: 16 chronological classes of expiration
    'by cost'                   the cheapest layout for the rows and reads of the archive

>>> parse_layout("chronological 3x5")
LayoutText(order='chronological', insertion_parts=3, expiration_parts=5)
>>> parse_layout("4") is None
True
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

Order = Literal["round_robin", "chronological"]

OWN = "own"  # a lifetime: each row lives for as long as it is in the answer of the archive's query
BY_COST = "by cost"
DEFAULT_LAYOUT = "4x5"  # rows of one lifetime spread over lcm(4, 5) sub-indices, and an update touches two of them
LAYOUTS = "'4x4', 'chronological 4x4', 'wave by insertion 16', 'wave by expiration 16' or 'by cost'"
_GRID = re.compile(r"(?:(round-robin|chronological) )?(\d{1,4}) ?x ?(\d{1,4})")
_WAVE = re.compile(r"wave by (insertion|expiration) (\d{1,4})")


@dataclass(frozen=True)
class LayoutText:
    """A parsed layout. Its numbers have not been checked."""

    order: Order
    insertion_parts: int
    expiration_parts: int


def parse_layout(text: str) -> LayoutText | Literal["by cost"] | None:
    """The layout that a text describes, or None."""
    text = " ".join(text.lower().split())
    if text == BY_COST:
        return "by cost"
    grid, wave = _GRID.fullmatch(text), _WAVE.fullmatch(text)
    if grid is not None:
        order: Order = "chronological" if grid[1] == "chronological" else "round_robin"
        return LayoutText(order, int(grid[2]), int(grid[3]))
    if wave is not None:
        parts = int(wave[2])
        return LayoutText("chronological", *((parts, 1) if wave[1] == "insertion" else (1, parts)))
    return None
