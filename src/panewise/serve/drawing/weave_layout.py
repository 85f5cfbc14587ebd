"""Places the boxes of a drawn weave: a layered layout of trees of boxes, from left to right.

    stream --+-- family --+-- tree --+-- query
             |            |          +-- query
             |            +-- tree --+-- query
             +-- family ...

Invariant: every text lies within its box, and no two boxes overlap: a column is as wide as its widest box, and a box
with its children takes a stripe of its own, as high as the higher of the two. Linear in the number of boxes.

Widths of texts are those of DejaVu Sans, rounded up: it is the widest font that browsers use for `system-ui` and
`sans-serif`. A text that is wider than a column may be is cut with an ellipsis.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass, replace

TEXT_SIZE = 13.0
LINE_HEIGHT = 18.0
PADDING = 10.0
GAP = 10.0  # between boxes of one column
FAMILY_GAP = 22.0  # between boxes of a column that have children
COLUMN_GAP = 56.0
TEXT_WIDTH_MAX = 300.0

# Advance widths as fractions of the text size. Bold adds at most a seventh; wide glyphs of other scripts are square.
_ADVANCES = {
    character: advance
    for advance, characters in (
        (0.35, " ',./:;IJ\\ijl|"),
        (0.45, "!()-[]ftr"),
        (0.55, '"*?_`csz'),
        (0.65, "$0123456789EFLPSTYabdeghknopquvxy{}"),
        (0.75, "ABCKNRUVXZ"),
        (0.85, "#&+<=>DGHOQ^w~"),
        (1.0, "%@MWm"),
    )
    for character in characters
}
_ADVANCE_BOLD = 1.15
_ADVANCE_OTHER, _ADVANCE_WIDE = 1.25, 1.4
ELLIPSIS = "..."


@dataclass(frozen=True)
class Box:
    """A box of lines, the first of which is its title. The line to it is as thick as its `share` of the cost."""

    kind: str
    lines: tuple[str, ...]
    tip: str = ""
    share: float | None = None
    children: tuple[Box, ...] = ()


@dataclass(frozen=True)
class PlacedBox:
    """A box with its position, its lines cut to fit; `parent` is the index of its parent box, None at the left."""

    box: Box
    column: int
    parent: int | None
    x: float
    y: float
    width: float
    height: float

    @property
    def middle(self) -> float:
        return self.y + self.height / 2


def text_width(text: str, size: float = TEXT_SIZE, *, bold: bool = False) -> float:
    """An upper bound of the width with which a browser draws the text.

    >>> text_width("pane", 10.0)
    26.0
    """
    advances = sum(_ADVANCES.get(character) or _advance(character) for character in text)
    return round(advances * size * (_ADVANCE_BOLD if bold else 1.0), 2)


def _advance(character: str) -> float:
    return _ADVANCE_WIDE if unicodedata.east_asian_width(character) in "WF" else _ADVANCE_OTHER


def fitted(text: str, width: float, size: float = TEXT_SIZE, *, bold: bool = False) -> str:
    """The text, or its beginning and an ellipsis if it is too wide.

    >>> fitted("WHERE size > 100 AND price < 3", 100.0)
    'WHERE size...'
    """
    if text_width(text, size, bold=bold) <= width:
        return text
    cut = len(text)
    while cut and text_width(text[:cut] + ELLIPSIS, size, bold=bold) > width:
        cut -= 1
    return text[:cut].rstrip() + ELLIPSIS


def printable(text: str) -> str:
    """The text on one line, without characters that XML forbids or that change the direction of writing."""
    single = " ".join(text.split())
    return "".join("\ufffd" if unicodedata.category(character).startswith("C") else character for character in single)


def placed(roots: Iterable[Box], left: float, top: float, headings: tuple[float, ...]) -> list[PlacedBox]:
    """All boxes, parents before children; a column is no narrower than its heading."""
    shown = [_cut(box) for box in roots]
    widths = list(headings)
    _widen(shown, 0, widths)
    lefts = [left]
    for width in widths:
        lefts.append(lefts[-1] + width + COLUMN_GAP)
    boxes: list[PlacedBox] = []
    _place(shown, 0, None, top, lefts, widths, boxes)
    return boxes


def _cut(box: Box) -> Box:
    lines = tuple(
        fitted(printable(line), TEXT_WIDTH_MAX, bold=index == 0) for index, line in enumerate(box.lines) if line
    )
    return replace(box, lines=lines, tip=printable(box.tip), children=tuple(map(_cut, box.children)))


def _widen(boxes: Iterable[Box], column: int, widths: list[float]) -> None:
    for box in boxes:
        needed = max(text_width(line, bold=index == 0) for index, line in enumerate(box.lines)) + 2 * PADDING
        widths[column] = max(widths[column], needed)
        _widen(box.children, column + 1, widths)


def _height(box: Box) -> float:
    return len(box.lines) * LINE_HEIGHT + 2 * PADDING - 6.0


def _stripe(box: Box) -> float:
    """The height that a box takes together with its descendants."""
    return max(_height(box), _stripes(box.children))


def _stripes(boxes: tuple[Box, ...] | list[Box]) -> float:
    return sum(map(_stripe, boxes)) + sum(_gap(box) for box in boxes[:-1])


def _gap(box: Box) -> float:
    return FAMILY_GAP if box.children else GAP


def _place(
    boxes: tuple[Box, ...] | list[Box],
    column: int,
    parent: int | None,
    top: float,
    lefts: list[float],
    widths: list[float],
    into: list[PlacedBox],
) -> None:
    for box in boxes:
        stripe, height = _stripe(box), _height(box)
        y = top + (stripe - height) / 2
        index = len(into)
        into.append(PlacedBox(box, column, parent, lefts[column], y, widths[column], height))
        inner = top + (stripe - _stripes(box.children)) / 2
        _place(box.children, column + 1, index, inner, lefts, widths, into)
        top += stripe + _gap(box)
