"""Residue classes: sets of integers `phase + k * slide`. The edges of periodic windows are unions of such sets.

This module has what all methods of counting a union need. A class is a pair (slide, phase) with 0 <= phase < slide. The
numbers are large, mostly microseconds, and are made smaller before counting:

- `reduced` drops classes that lie in another one;
- `parts` divides by common factors. If g divides all slides, classes with different phases modulo g have no common
  point. They are separate parts, each of which is counted as classes with slides `slide / g`;
- `coprime_powers` gives pairwise coprime numbers of which all slides are products. It uses only greatest common
  divisors, because a factorisation into primes would be slow for slides near 2 ** 63.

    slides 12, 18, 5:   12 = 4 * 3, 18 = 2 * 9, 5         coprime powers 4, 9, 5
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import gcd

Class = tuple[int, int]
Classes = tuple[Class, ...]


@dataclass(frozen=True, slots=True)
class Count:
    """`edges` of the points of a `period`. If `bound` is not 0, edges / period may be wrong by that much."""

    edges: int
    period: int
    bound: float = 0.0


def reduced(classes: Iterable[Class]) -> Classes:
    """The distinct classes with normal phases, ordered by slide, without those that lie in another one.

    Cost: O(classes * different slides that divide each other).

    >>> reduced([(4, 1), (8, 5), (6, 7), (6, 0)])
    ((4, 1), (6, 0), (6, 1))
    """
    ordered = sorted({(slide, phase % slide) for slide, phase in classes})
    if len(ordered) < 2:
        return tuple(ordered)
    kept: list[Class] = []
    seen: set[Class] = set()
    coarser: list[int] = []
    previous, dividing = 0, coarser
    for candidate in ordered:
        slide, phase = candidate
        if slide != previous:
            if kept and kept[-1][0] == previous:
                coarser.append(previous)
            previous, dividing = slide, [coarse for coarse in coarser if slide % coarse == 0]
        for coarse in dividing:
            if (coarse, phase % coarse) in seen:
                break
        else:
            kept.append(candidate)
            seen.add(candidate)
    return tuple(kept)


def moved_to_zero(classes: Classes) -> Classes:
    """The classes moved along the axis so that the first has phase 0. Counts stay, and equal shapes become equal."""
    distance = classes[0][1]
    if distance == 0:
        return classes
    return tuple(sorted((slide, (phase - distance) % slide) for slide, phase in classes))


def parts(classes: Classes) -> Iterator[tuple[int, Classes]]:
    """Groups without common points, each with the factor by which its slides were divided. First phases are 0.

    The points of all groups, each count divided by its factor, are the points of the classes.

    >>> list(parts(((10, 0), (10, 3), (20, 15))))
    [(10, ((1, 0),)), (10, ((1, 0),)), (20, ((1, 0),))]
    """
    factor = gcd(*(slide for slide, _ in classes))
    if factor == 1:
        yield 1, moved_to_zero(classes)
        return
    groups: dict[int, list[Class]] = {}
    for slide, phase in classes:
        groups.setdefault(phase % factor, []).append((slide // factor, phase // factor))
    if len(groups) == 1:
        yield factor, moved_to_zero(tuple(next(iter(groups.values()))))
        return
    for group in groups.values():
        for inner, part in parts(tuple(group)):
            yield factor * inner, part


def coprime_powers(slides: Iterable[int]) -> list[int]:
    """Pairwise coprime numbers above 1 whose product is the least common multiple of the slides.

    Every slide is the product of its greatest common divisors with them. Each number is a power of a root, and every
    slide contains the root to some power.

    >>> sorted(coprime_powers([12, 18, 5]))
    [4, 5, 9]
    """
    roots: list[int] = []
    distinct = set(slides)
    for slide in distinct:
        _refine(roots, slide)
    powers = []
    for root in roots:
        power = root
        for slide in distinct:
            while slide % (power * root) == 0:
                power *= root
        powers.append(power)
    return powers


def _refine(roots: list[int], number: int) -> None:
    """Adds a number to a list of pairwise coprime numbers, splitting those that share a factor with it."""
    waiting = [number]
    while waiting:
        number = waiting.pop()
        if number == 1:
            continue
        for place, root in enumerate(roots):
            common = gcd(root, number)
            if common > 1:
                if common == root:
                    waiting.append(number // root)
                else:
                    # Both numbers are products of powers of the numbers to which these three refine.
                    del roots[place]
                    waiting += (common, root // common, number // common)
                break
        else:
            roots.append(number)
