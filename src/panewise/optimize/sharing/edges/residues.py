"""Residues: counts the edges of any residue classes, exactly within a bounded amount of work, otherwise by estimate.

It counts the free points, which are in no class, by the Chinese remainder theorem. The slides are products of powers of
a few coprime numbers. A point is given by its residues modulo these powers, which are independent of each other. A
class fixes one residue modulo each of its factors.

- Classes that share no factor are independent: their shares of free points multiply.
- If classes share a factor, the points are divided by their residue modulo its powers. The sets of residues that the
  classes fix are nested or disjoint, like folders. All residues of a folder outside of its subfolders are in the same
  classes. With the factor taken out of the slides, each folder is a smaller problem of the same kind, with a weight.

      (12, 0) (18, 3) (5, 1), by powers of 2:  all points --- even --- multiples of 4        weights of 4
                              weight 2, odd:   (9, 3) (5, 1)
                              weight 1:        (5, 1)
                              weight 1:        (3, 0) (5, 1)

- If the least common multiple of the slides is small, Bit Set counts the points.

Counting is hard in general: with enough slides of many factors it decides satisfiability. So STEPS_MAX bounds the steps
(classes looked at) to about 30 ms of work. Slides that are products of few factors need far less. If the steps do not
suffice, `sampled` estimates the classes that depend on each other, with an error bound. All numbers are Python
integers, so nothing is rounded. The method is ours. It agrees with F1 and Bit Set of Shein and Chrysanthis 2020,
section 3.1.2, wherever they apply.
"""

from __future__ import annotations

from math import gcd, lcm

from panewise.optimize.sharing.edges import bit_set, sampled
from panewise.optimize.sharing.edges.residue_classes import (
    Class,
    Classes,
    Count,
    coprime_powers,
    moved_to_zero,
    reduced,
)

STEPS_MAX = 1 << 13


def count(classes: Classes, steps_max: int = STEPS_MAX) -> Count:
    """The edges of one period. No class may lie in another one.

    >>> count(((12, 0), (18, 3), (5, 1)))
    Count(edges=56, period=180, bound=0.0)
    """
    if classes[0][0] == 1:
        return Count(1, 1)
    elimination = _Elimination(coprime_powers(slide for slide, _ in classes))
    free, period, bound = 1, 1, 0.0
    for component in elimination.components(classes):
        elimination.steps_left = steps_max
        try:
            here, here_period = elimination.free(component)
        except _TooMuchWork:
            estimate = sampled.count(component)
            here, here_period = estimate.period - estimate.edges, estimate.period
            # The shares of free points are at most 1, so the error of their product is at most the sum of errors.
            bound += estimate.bound
        free *= here
        period *= here_period
    return Count(period - free, period, bound)


class _TooMuchWork(Exception):
    """The classes would need more steps than allowed."""


class _Elimination:
    """One exact count: takes shared factors out of the slides, one after another. Sets of factors are bit masks."""

    def __init__(self, powers: list[int]) -> None:
        self.steps_left = 0
        self._powers = powers
        self._factors_of: dict[int, int] = {}
        self._known: dict[Classes, tuple[int, int]] = {}

    def free(self, classes: Classes) -> tuple[int, int]:
        """The number of points of a period that are in no class, and the period."""
        if not classes:
            return 1, 1
        if len(classes) == 1:
            slide = classes[0][0]
            return slide - 1, slide
        if len(classes) == 2:
            return free_of_two(classes)
        classes = moved_to_zero(classes)
        known = self._known.get(classes)
        if known is None:
            known = self._known[classes] = self._free_of_many(classes)
        return known

    def _free_of_many(self, classes: Classes) -> tuple[int, int]:
        self.steps_left -= len(classes)
        if self.steps_left < 0:
            raise _TooMuchWork
        period = lcm(*(slide for slide, _ in classes))
        if period <= bit_set.PERIOD_MAX_PACKED:
            return period - bit_set.marked(classes, period), period
        components = self.components(classes)
        if len(components) == 1:
            return self._free_without(self._most_shared(classes), classes)
        free, period = 1, 1
        for component in components:
            here, here_period = self.free(component)
            free *= here
            period *= here_period
        return free, period

    def _free_without(self, power: int, classes: Classes) -> tuple[int, int]:
        """Counts the free points for each kind of residue modulo `power`, weighted by the number of such residues."""
        problems = [(weight, self.free(problem)) for problem, weight in _smaller_problems(power, classes).items()]
        period = lcm(*(here_period for _, (_, here_period) in problems))
        free = sum(weight * here * (period // here_period) for weight, (here, here_period) in problems)
        return free, period * power

    def components(self, classes: Classes) -> list[Classes]:
        """The classes, divided into sets that have no factor in common."""
        sets: list[tuple[int, list[Class]]] = []
        for held in classes:
            factors, members = self._factors(held[0]), [held]
            for other in [other for other in sets if other[0] & factors]:
                sets.remove(other)
                factors |= other[0]
                members = other[1] + members
            sets.append((factors, members))
        return [tuple(members) for _, members in sets]

    def _most_shared(self, classes: Classes) -> int:
        """The factor that most slides contain. Without it most classes become equal or independent, or disappear."""
        holders = [0] * len(self._powers)
        for slide, _ in classes:
            factors = self._factors(slide)
            while factors:
                holders[(factors & -factors).bit_length() - 1] += 1
                factors &= factors - 1
        return self._powers[holders.index(max(holders))]

    def _factors(self, slide: int) -> int:
        """A mask of the powers with which a slide has a common factor."""
        factors = self._factors_of.get(slide)
        if factors is None:
            factors = sum(1 << place for place, power in enumerate(self._powers) if gcd(slide, power) > 1)
            self._factors_of[slide] = factors
        return factors


def free_of_two(classes: Classes) -> tuple[int, int]:
    """The result of `_Elimination.free` for two classes, by a formula."""
    (slide, phase), (other, other_phase) = classes
    common = gcd(slide, other)
    period = slide // common * other
    return period - period // slide - period // other + ((phase - other_phase) % common == 0), period


def _smaller_problems(power: int, classes: Classes) -> dict[Classes, int]:
    """The classes that remain for each kind of residue modulo `power`, and the number of residues of that kind."""
    untouched = []
    asking: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for slide, phase in classes:
        factor = gcd(slide, power)
        if factor == 1:
            untouched.append((slide, phase))
        else:
            rest = slide // factor
            asking.setdefault((factor, phase % factor), []).append((rest, phase % rest))
    nests = sorted(asking)
    factors = sorted({factor for factor, _ in nests}, reverse=True)
    # Nests are ordered by size. So the classes of a nest are complete before the nests inside it copy them.
    inside = {(1, 0): untouched}
    weights = {(1, 0): power}
    for nest in nests:
        factor, residue = nest
        around = next(
            (
                (coarse, residue % coarse)
                for coarse in factors
                if coarse < factor and (coarse, residue % coarse) in weights
            ),
            (1, 0),
        )
        inside[nest] = inside[around] + asking[nest]
        weights[nest] = power // factor
        weights[around] -= power // factor
    problems: dict[Classes, int] = {}
    for nest, weight in weights.items():
        if weight:
            problem = reduced(inside[nest])
            if not problem or problem[0][0] > 1:
                problems[problem] = problems.get(problem, 0) + weight
    return problems
