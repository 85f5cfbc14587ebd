"""Whether a tree has all edges of one more window already, so that the window joins it without a new edge.

A tree is known by the residue classes (slide, phase) of its edges, and a new window brings the classes of its own. Seen
from a class (s, p), whose points `p + k * s` are numbered by k, the points that another class (c, r) has in common with
it are a class again, of modulus c / gcd(c, s), or there are none:

      class (3, 0)   0     3     6     9    12            k = 0, 1, 2, 3, 4
      class (4, 2)      2        6       10    14         meets it at k = 2, 6, 10, ...: class (4, 2) of k

So a class adds no edges where its k are covered: by one class, as that of a window which it is piggybacked on or
encloses (Patroumpas and Sellis 2011, section 3.2), or by several together, as (3, 0) is by (2, 0) and (2, 1). The
moduli are no greater than the slides, which makes the counting of `edges` cheap. Where that gives an estimate only,
nothing counts as covered.

Cost: a greatest common divisor per class of the tree; a count where sums alone do not rule it out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from math import gcd

from panewise.optimize.sharing.edges.edge_counts import edge_rate
from panewise.optimize.sharing.edges.residue_classes import Class
from panewise.slicing.pairs import Cadence, classes_of


def met_by(classes: Iterable[Class], own: Class) -> list[Class]:
    """The numbers k of the points of a class that others have too, as classes.

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
    """Whether a window has all its edges among these classes: joining their tree costs no new ones.

    >>> fits([(2, 0)], Cadence(8, 4)), fits([(2, 0)], Cadence(7, 4)), fits([(2, 0), (2, 1)], Cadence(7, 3))
    (True, False, True)
    """
    return all(_cover_everything(met_by(classes, own)) for own in classes_of(cadence))


def _cover_everything(met: list[Class]) -> bool:
    """Whether every number is in one of these classes, as far as that is known exactly."""
    if any(modulus == 1 for modulus, _ in met):
        return True
    # As if no two classes met, with room for rounding: the sum rules most of them out.
    if sum(1 / modulus for modulus, _ in met) < 1 - 1e-9:
        return False
    rate = edge_rate(met)
    return rate.exact and rate.edges == rate.period
