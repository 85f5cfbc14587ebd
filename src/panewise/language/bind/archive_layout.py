"""The text of an archive's layout: how many sub-indices by insertion and by expiration, in which order.

    '4x4'                       round-robin, 4 classes of insertion times 4 of expiration
    'chronological 4x4'         the same with consecutive slots in one class
    'wave by insertion 16'      the baselines: 16 chronological classes of one kind
    'wave by expiration 16'
    'by cost'                   the cheapest for what the archive holds and is asked for

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

OWN = "own"  # the lifetime of an archive whose rows live for as long as they are in the answer of their query
BY_COST = "by cost"
DEFAULT_LAYOUT = "4x5"  # rows that all live equally long spread over lcm(4, 5) sub-indices, and an update touches two
LAYOUTS = "'4x4', 'chronological 4x4', 'wave by insertion 16', 'wave by expiration 16' or 'by cost'"
_GRID = re.compile(r"(?:(round-robin|chronological) )?(\d{1,4}) ?x ?(\d{1,4})")
_WAVE = re.compile(r"wave by (insertion|expiration) (\d{1,4})")


@dataclass(frozen=True)
class LayoutText:
    """What a text says; the numbers are not judged yet."""

    order: Order
    insertion_parts: int
    expiration_parts: int


def parse_layout(text: str) -> LayoutText | Literal["by cost"] | None:
    """None where the text is no layout."""
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
