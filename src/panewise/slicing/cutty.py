"""Cutty: edges only where a window starts; a window that ends inside a slice reads it as far as it has been folded.

    range 5, slide 3:   ends        5     8    11
                        starts  0     3     6     9
                        slices  |-----|-----|-----|--      class (3, 0): ceil(range / slide) slices a window
                                [---------)                the window that ends at 5: slice [0, 3), and of the open
                                                           slice [3, 6) what has come before 5

This gives the fewest slices: one per slide where `pairs` has two. A window consists of whole slices and, unless it ends
on an edge, of the open slice at the instant of its end. The host must meet two more conditions than for the others: no
row at or after a window's end is folded before the window is answered, which holds if rows come in order; and answers
include the partial of the open slice. A window without a beginning has no starts, and adds no edges.

Source: Carbone, Traub, Katsifodimos, Haridi and Markl 2016; Shein and Chrysanthis 2020, section 2.1 and table 1.
"""

from __future__ import annotations

from collections.abc import Iterable

from panewise.arrays import Ints
from panewise.slicing.pairs import Cadence, without_covered


def edge_classes(cadences: Iterable[Cadence]) -> tuple[Ints, Ints]:
    """The residue classes (slides, phases) of all starts, without classes that another one covers.

    >>> [part.tolist() for part in edge_classes([Cadence(5, 3)])]
    [[3], [1]]
    >>> [part.tolist() for part in edge_classes([Cadence(5, 2), Cadence(8, 4), Cadence(None, 7)])]
    [[2, 4], [1, 0]]
    """
    return without_covered(
        (cadence.slide, (cadence.align - cadence.offset - cadence.range) % cadence.slide)
        for cadence in cadences
        if cadence.range is not None
    )
