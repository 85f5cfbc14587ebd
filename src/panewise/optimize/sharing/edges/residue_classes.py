"""Residue classes: sets of integers `phase + k * slide`, the form in which all edges of periodic windows come.

What the methods of counting a union of them share. A class is a pair (slide, phase) with 0 <= phase < slide. Counting
never needs the numbers as large as they come, microseconds most often:

- `reduced` drops classes that lie in another one;
- `parts` divides by common factors. Where g divides all slides, classes with different phases modulo g never meet:
  they are apart, and each part counts like classes of slides `slide / g`;
- `coprime_powers` gives the factors, coprime to each other, of which all slides are products. They come from greatest
  common divisors alone: nothing is ever factored into primes, which would be slow for slides near 2 ** 63.

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
    """`edges` of the points of a `period`; where `bound` is not 0, edges / period may be wrong by that much."""

    edges: int
    period: int
    bound: float = 0.0


def reduced(classes: Iterable[Class]) -> Classes:
    """The classes with phases from 0, by slide, each once and none that lies in another one.

    In O(classes * different slides that divide each other).

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
    """The classes moved along the axis until the first has phase 0: equal counts, and equal keys for equal shapes."""
    distance = classes[0][1]
    if distance == 0:
        return classes
    return tuple(sorted((slide, (phase - distance) % slide) for slide, phase in classes))


def parts(classes: Classes) -> Iterator[tuple[int, Classes]]:
    """Groups that never meet, each with the factor that its slides were divided by; the first phase of each is 0.

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
    """Numbers without common factors, of each of which every slide contains one power of the same root; none is 1.

    The product of all is the least common multiple of the slides, and a slide is the product of its greatest common
    divisors with each of them.

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
    """Takes a number into a list of pairwise coprime numbers, splitting those that share a factor with it."""
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
                    # Both are products of powers of what these three refine to.
                    del roots[place]
                    waiting += (common, root // common, number // common)
                break
        else:
            roots.append(number)
