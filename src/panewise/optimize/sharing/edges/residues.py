"""Residues: the edges of any residue classes, exactly within a bounded amount of work, and past it by estimate.

Counted are the free points, those in no class, by the Chinese remainder theorem. The slides are products of powers of
a few coprime numbers, so a point is its residues modulo those, which are independent of each other, and a class is a
box: it asks for one residue modulo each of its factors.

- Classes that share no factor are independent: their shares of free points multiply.
- Classes that share a factor are divided by it. The residues modulo its powers that the classes ask for lie within
  each other or apart, like folders. Between two neighbouring edges of that nesting all points are in the same classes,
  with that factor taken out of their slides: a smaller question of the same kind, with a weight.

      (12, 0) (18, 3) (5, 1), by powers of 2:  all points --- even --- multiples of 4        weights of 4
                              weight 2, odd:   (9, 3) (5, 1)
                              weight 1:        (5, 1)
                              weight 1:        (3, 0) (5, 1)

- Where the least common multiple of the slides is small, Bit Set ends the question.

Counting is hard in general (with enough slides of many factors it decides satisfiability), so STEPS_MAX bounds the
steps (classes looked at), about 30 ms of work; slides that are products of few factors need far less. Where that does
not suffice, `sampled` estimates the classes that depend on each other, with a bound of the error. All numbers are
Python's integers: exact is exact. The method is ours; it agrees with F1 and Bit Set of Shein and Chrysanthis 2020,
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
    """The edges of one period of classes of which none lies in another one.

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
            # A share of free points is at most 1, so errors of factors add up at most.
            bound += estimate.bound
        free *= here
        period *= here_period
    return Count(period - free, period, bound)


class _TooMuchWork(Exception):
    """The classes would need more steps than allowed."""


class _Elimination:
    """One exact count: takes shared factors out of the slides, one after another. Sets of factors are bits."""

    def __init__(self, powers: list[int]) -> None:
        self.steps_left = 0
        self._powers = powers
        self._factors_of: dict[int, int] = {}
        self._known: dict[Classes, tuple[int, int]] = {}

    def free(self, classes: Classes) -> tuple[int, int]:
        """How many points of a period are in no class, and the period."""
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
        """Counts by one factor: a question for each kind of residue modulo `power`, weighted by how many it has."""
        questions = [(weight, self.free(question)) for question, weight in _questions(power, classes).items()]
        period = lcm(*(here_period for _, (_, here_period) in questions))
        free = sum(weight * here * (period // here_period) for weight, (here, here_period) in questions)
        return free, period * power

    def components(self, classes: Classes) -> list[Classes]:
        """The classes, divided into sets that share no factor."""
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
        """The factor that most slides contain: without it, most classes become alike, or independent, or go."""
        holders = [0] * len(self._powers)
        for slide, _ in classes:
            factors = self._factors(slide)
            while factors:
                holders[(factors & -factors).bit_length() - 1] += 1
                factors &= factors - 1
        return self._powers[holders.index(max(holders))]

    def _factors(self, slide: int) -> int:
        """Which powers a slide has a factor of."""
        factors = self._factors_of.get(slide)
        if factors is None:
            factors = sum(1 << place for place, power in enumerate(self._powers) if gcd(slide, power) > 1)
            self._factors_of[slide] = factors
        return factors


def free_of_two(classes: Classes) -> tuple[int, int]:
    """As `_Elimination.free`, for two classes."""
    (slide, phase), (other, other_phase) = classes
    common = gcd(slide, other)
    period = slide // common * other
    return period - period // slide - period // other + ((phase - other_phase) % common == 0), period


def _questions(power: int, classes: Classes) -> dict[Classes, int]:
    """What remains to be counted for each kind of residue modulo `power`, and how many residues are of that kind."""
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
    # Nests come by size, so a nest's enclosing one has its classes complete before the nest takes them over.
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
    questions: dict[Classes, int] = {}
    for nest, weight in weights.items():
        if weight:
            question = reduced(inside[nest])
            if not question or question[0][0] > 1:
                questions[question] = questions.get(question, 0) + weight
    return questions
