"""Which tree one more window joins: one that has its edges already, else the one that has to be cut finer by least.

A tree is known by the residue classes (slide, phase) of its edges. A new window brings the classes of its own, and what
counts is how many of their points are not edges of the tree yet. Seen from a class (s, p), whose points `p + k * s` are
numbered by k, the points that another class (c, r) has in common with it are a class again, of modulus
c / gcd(c, s), or there are none:

      class (3, 0)   0     3     6     9    12            k = 0, 1, 2, 3, 4
      class (4, 2)      2        6       10    14         meets it at k = 2, 6, 10, ...: class (4, 2) of k

So the edges that a class adds are 1 / s times the share of all k that no class of the tree meets, and it adds none
where its k are covered: by one class, as that of a window which it is piggybacked on or encloses (Patroumpas and Sellis
2011, section 3.2), or by several together, as (3, 0) is by (2, 0) and (2, 1). The moduli are no greater than the
slides, which makes the counting of `edges` cheap. Where that gives an estimate only, nothing counts as covered.

Cost: a greatest common divisor per class of every tree; a count for those trees that sums alone do not rule out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from fractions import Fraction
from math import gcd

from panewise.optimize.sharing.edges import Slicing, classes_of, edge_rate
from panewise.optimize.sharing.residue_classes import Class
from panewise.slicing.pairs import Cadence


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


def fits(classes: Collection[Class], cadence: Cadence, slicing: Slicing = Slicing.PAIRS) -> bool:
    """Whether a window has all its edges among these classes: joining their tree costs no new ones.

    >>> fits([(2, 0)], Cadence(8, 4)), fits([(2, 0)], Cadence(7, 4)), fits([(2, 0), (2, 1)], Cadence(7, 3))
    (True, False, True)
    """
    for own in classes_of(cadence, slicing):
        met = met_by(classes, own)
        if _least_free(met) > 0 or _free(met, only_exact=True) > 0:
            return False
    return True


def growth(classes: Collection[Class], cadence: Cadence, slicing: Slicing = Slicing.PAIRS) -> Fraction:
    """The edges per unit of the axis that a window would add to a tree.

    >>> growth([(2, 0)], Cadence(9, 4)), growth([(2, 0), (4, 3)], Cadence(9, 4))
    (Fraction(1, 4), Fraction(0, 1))
    """
    # The classes of one window have one slide and different phases: what one adds, another does not.
    return sum((_free(met_by(classes, own)) / own[0] for own in classes_of(cadence, slicing)), Fraction(0))


def best_tree(
    trees: Sequence[Collection[Class]],
    cadence: Cadence,
    slicing: Slicing = Slicing.PAIRS,
    rates: Sequence[float] | None = None,
) -> int | None:
    """The tree that a window should join, by its position; None where there is no tree.

    It is the one that gets the fewest new edges, best none at all; of several the one with the fewest edges, so that
    the window is of few slices; of these the first. `rates` are the trees' edges per unit, where the caller has them.

    >>> best_tree([[(1, 0)], [(2, 0)], [(5, 0)]], Cadence(12, 4))
    1
    >>> best_tree([[(4, 0)], [(6, 0)]], Cadence(12, 6, align=2))
    0
    """
    if rates is None:
        rates = [edge_rate(tree).per_unit for tree in trees]
    own = classes_of(cadence, slicing)
    hopes = []
    for place, (tree, rate) in enumerate(zip(trees, rates, strict=True)):
        hopes.append((sum(_least_free(met_by(tree, one)) / one[0] for one in own), rate, place))
    best: tuple[Fraction, float, int] | None = None
    for hope in sorted(hopes):
        if best is not None and hope >= best:
            break  # the exact growth is no less than was hoped for, of this and of all that follow
        _, rate, place = hope
        found = growth(trees[place], cadence, slicing), rate, place
        best = found if best is None else min(best, found)
    return None if best is None else best[2]


def _least_free(met: Iterable[Class]) -> float:
    """A bound from below of `_free`, from sums alone: as if no two classes met. A little less, for rounding."""
    return max(0.0, 1 - 1e-9 - sum(1 / modulus for modulus, _ in met))


def _free(met: list[Class], only_exact: bool = False) -> Fraction:
    """The share of all numbers that are in no class; where it is not known exactly, an estimate, or 1."""
    if any(modulus == 1 for modulus, _ in met):
        return Fraction(0)
    rate = edge_rate(met)
    return Fraction(rate.period - rate.edges, rate.period) if rate.exact or not only_exact else Fraction(1)
