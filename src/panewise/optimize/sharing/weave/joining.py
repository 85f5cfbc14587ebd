"""Checks whether a tree already has all edges of a new window, so that the window can join it without a new edge.

A tree and a window are given by the residue classes (slide, phase) of their edges. The points `p + k * s` of a class
(s, p) are numbered by k. The points that it has in common with another class (c, r) are again a class, of modulus
c / gcd(c, s), or there are none:

      class (3, 0)   0     3     6     9    12            k = 0, 1, 2, 3, 4
      class (4, 2)      2        6       10    14         meets it at k = 2, 6, 10, ...: class (4, 2) of k

So a class adds no edges if all of its k are covered: by one class, for example of a window that it is piggybacked on or
encloses (Patroumpas and Sellis 2011, section 3.2), or by several together, as (3, 0) is by (2, 0) and (2, 1). The
moduli are at most the slides, so that counting edges is cheap. If the count is only an estimate, the class is not
covered.

Cost: a greatest common divisor per class of the tree, and a count of edges if a sum does not rule the tree out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from math import gcd

from panewise.optimize.sharing.edges.edge_counts import edge_rate
from panewise.optimize.sharing.edges.residue_classes import Class
from panewise.slicing.pairs import Cadence, classes_of


def met_by(classes: Iterable[Class], own: Class) -> list[Class]:
    """The numbers k of the points that a class has in common with other classes, as classes.

    >>> met_by([(4, 2), (6, 1), (1, 0)], (3, 0))
    [(4, 2), (1, 0)]
    """
    slide, phase = own
    met = []
    for other_slide, other_phase in classes:
        common = gcd(slide, other_slide)
        distance = other_phase - phase
        if distance % common == 0:
            modulus = other_slide // common
            met.append((modulus, distance // common * pow(slide // common, -1, modulus) % modulus))
    return met


def fits(classes: Collection[Class], cadence: Cadence) -> bool:
    """Whether all edges of a window are among these classes, so that it adds no edges to their tree.

    >>> fits([(2, 0)], Cadence(8, 4)), fits([(2, 0)], Cadence(7, 4)), fits([(2, 0), (2, 1)], Cadence(7, 3))
    (True, False, True)
    """
    return all(_cover_everything(met_by(classes, own)) for own in classes_of(cadence))


def _cover_everything(met: list[Class]) -> bool:
    """Whether every number is in one of these classes; false if that is not known exactly."""
    if any(modulus == 1 for modulus, _ in met):
        return True
    # Even if no two classes had common points, they would cover too little. The margin is for rounding.
    if sum(1 / modulus for modulus, _ in met) < 1 - 1e-9:
        return False
    rate = edge_rate(met)
    return rate.exact and rate.edges == rate.period
