"""Pairs: the edges of a set of periodic windows are exactly the starts and ends of their reports.

A window with slide s reports at `align + k*s` and covers `[e - range - offset, e - offset)`, so it contributes two
residue classes of edges modulo s, one where the slide divides the range (Krishnamurthy, Wu, Franklin 2006; Shein
and Chrysanthis 2020, section 2.1):

    range 5, slide 2:   ends    0   2   4   6   8         class (2, 0)
                        starts    1   3   5   7           class (2, 1)
                        slices  |-|-|-|-|-|-|-|-|

Ends are edges too because rows are folded ahead of the watermark: a slice must not straddle a report.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from panewise.arrays import Ints
from panewise.temporal import last_report


@dataclass(frozen=True)
class Cadence:
    """A periodic window on an axis of integers: microseconds, or row numbers. `range` None: it has no beginning."""

    range: int | None
    slide: int
    offset: int = 0
    align: int = 0

    def start(self, end: int) -> int | None:
        """The first point that the report at `end` covers."""
        return None if self.range is None else end - self.range - self.offset

    def last_report(self, upto: int) -> int:
        """The greatest report up to a point."""
        return last_report(upto, self.slide, self.align)

    def next_report(self, after: int) -> int:
        """The least report strictly after a point.

        >>> Cadence(10, 4, align=1).next_report(5)
        9
        """
        return last_report(after, self.slide, self.align) + self.slide

    def next_reports(self, after: Ints) -> Ints:
        """The least report strictly after each point."""
        result: Ints = after - (after - self.align) % self.slide + self.slide
        return result


def edge_classes(cadences: Iterable[Cadence]) -> tuple[Ints, Ints]:
    """The residue classes (slides, phases) of all edges, without classes that another one covers.

    >>> [part.tolist() for part in edge_classes([Cadence(5, 2), Cadence(8, 4)])]
    [[2, 2], [0, 1]]
    """
    return without_covered({found for cadence in cadences for found in classes_of(cadence)})


def classes_of(cadence: Cadence) -> set[tuple[int, int]]:
    """The residue classes of one window's edges: its ends, and its starts if it has some."""
    slide, end = cadence.slide, cadence.align - cadence.offset
    return {(slide, end % slide)} | ({(slide, (end - cadence.range) % slide)} if cadence.range is not None else set())


def without_covered(classes: Iterable[tuple[int, int]]) -> tuple[Ints, Ints]:
    """The distinct residue classes (slide, phase), by slide, without classes whose points are all in another."""
    kept: list[tuple[int, int]] = []
    for slide, phase in sorted(set(classes)):
        if not any(slide % coarse == 0 and phase % coarse == rest for coarse, rest in kept):
            kept.append((slide, phase))
    return np.array([slide for slide, _ in kept], np.int64), np.array([phase for _, phase in kept], np.int64)
