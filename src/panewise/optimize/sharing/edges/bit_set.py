"""Bit Set: marks every edge within one period, the least common multiple of the slides, and counts the marks.

    slides 2 and 3, period 6:   1 . 1 . 1 .
                                1 . . 1 . .
                                -----------
                                1 . 1 1 1 .       4 edges

It counts any classes whose period is at most PERIOD_MAX points, with one byte for each. Up to PERIOD_MAX_PACKED the
marks are the bits of one Python integer. Those of a slide are cached and only shifted, which takes less than 0.1
microseconds a class. Above that a class costs O(period / slide). Source: Shein and Chrysanthis 2020, sections 3.1 and
3.1.2.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from math import lcm

import numpy as np

from panewise.optimize.sharing.edges.residue_classes import Class, Classes, Count

PERIOD_MAX = 1 << 24
PERIOD_MAX_PACKED = 1 << 13


def count(classes: Classes) -> Count:
    """The edges of one period.

    >>> count(((2, 0), (3, 0)))
    Count(edges=4, period=6, bound=0.0)
    """
    period = lcm(*(slide for slide, _ in classes))
    if period > PERIOD_MAX:
        raise ValueError(f"bit_set counts periods of up to {PERIOD_MAX} points, and this one has {period}")
    return Count(marked(classes, period), period)


def marked(classes: Classes, period: int) -> int:
    """The number of points among `period` points that are in a class. Every slide must divide the period."""
    if period <= PERIOD_MAX_PACKED:
        packed = 0
        for slide, phase in classes:
            packed |= _multiples(period, slide) << phase
        return packed.bit_count()
    marks = np.zeros(period, np.bool_)
    for slide, phase in classes:
        marks[phase::slide] = True
    return int(np.count_nonzero(marks))


def marked_apart(classes: Iterable[Class], factor: int, period: int) -> int:
    """The same count as `marked`, with only period / factor bits. All slides must be multiples of `factor`.

    Classes with different phases modulo the factor have no common point, and are marked separately.
    """
    length = period // factor
    packed: dict[int, int] = {}
    for slide, phase in classes:
        place, apart = divmod(phase % slide, factor)
        packed[apart] = packed.get(apart, 0) | _multiples(length, slide // factor) << place
    return sum(bits.bit_count() for bits in packed.values())


@lru_cache(maxsize=4096)
def _multiples(period: int, slide: int) -> int:
    """An integer whose bits at multiples of the slide are set: the geometric series of 2 ** slide."""
    return int(((1 << period) - 1) // ((1 << slide) - 1))
