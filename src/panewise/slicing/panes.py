"""Panes: edges at a fixed distance, the greatest that divides the range, slide and offset of every window.

    range 5, slide 2:   ends    0   2   4   6   8
                        starts    1   3   5   7
                        slices  |-|-|-|-|-|-|-|-|         one class, (1, 0): range / gcd(range, slide) slices a window

This is the simplest and the finest slicing. All slices have one length; a window of range r and slide s has
r / gcd(r, s) of them, while `pairs` needs 2 floor(r / s) + 1 and `cutty` ceil(r / s). The length of the panes of
several windows is the greatest common divisor of all their ranges, slides and distances from each other. Source: Li,
Maier, Tufte, Papadimos and Tucker 2005; Shein and Chrysanthis 2020, section 2.1 and table 1.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import gcd

import numpy as np

from panewise.arrays import Ints
from panewise.slicing.pairs import Cadence


def edge_classes(cadences: Iterable[Cadence]) -> tuple[Ints, Ints]:
    """The residue class (slide, phase) of all edges, as arrays of one element; empty without windows.

    >>> [part.tolist() for part in edge_classes([Cadence(14, 8)])]
    [[2], [0]]
    >>> [part.tolist() for part in edge_classes([Cadence(8, 4), Cadence(6, 6, align=1)])]
    [[1], [0]]
    """
    pane, phase = 0, 0
    for cadence in cadences:
        end = cadence.align - cadence.offset
        if pane == 0:
            phase = end
        # A window without a beginning has no starts; gcd(0, n) is n.
        pane = gcd(pane, cadence.slide, cadence.range or 0, end - phase)
    if pane == 0:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    return np.array([pane], np.int64), np.array([phase % pane], np.int64)
