"""Sampled: estimates the edges of residue classes from random points of their period, with an error bound.

The method depends on the sum S of the classes' shares 1 / slide:

- S >= 1: draws points of the whole period and counts those in a class.
- S < 1: draws points of each class, in proportion to its share, and counts those that are in no earlier class. So only
  the overlap of classes is estimated, and the error shrinks with S (Karp and Luby's estimate of a union).

The bound is Hoeffding's. It fails with probability ERROR_CHANCE and is at most 0.021 * min(S, 1). The seed is fixed, so
the same classes always give the same estimate.

A period may have far more than 2 ** 63 points. So a point is drawn as its residues modulo a few coprime blocks, each
below 2 ** 62, whose product is the period. Cost: O(POINTS * classes), about 7 ms for a hundred classes.
"""

from __future__ import annotations

from math import gcd, lcm, log, prod, sqrt

import numpy as np
from numpy.typing import NDArray

from panewise.optimize.sharing.edges.residue_classes import Class, Classes, Count, coprime_powers

POINTS = 1 << 14
ERROR_CHANCE = 1e-6
_BLOCK_MAX = 1 << 62
_SEED = 2020


def count(classes: Classes) -> Count:
    """An estimate of the edges of one period."""
    blocks = _blocks(classes)
    generator = np.random.default_rng(_SEED)
    sum_of_shares = sum(1 / slide for slide, _ in classes)
    if sum_of_shares >= 1:
        share, bound = _share_of_all(classes, blocks, generator)
    else:
        share, bound = _share_of_first_hits(classes, blocks, generator)
    share = min(max(share, 1 / classes[0][0]), sum_of_shares, 1.0)
    period = lcm(*(slide for slide, _ in classes))
    numerator, denominator = share.as_integer_ratio()
    # Rounding to a whole number changes the count by at most half an edge.
    edges = (2 * period * numerator + denominator) // (2 * denominator)
    return Count(edges, period, bound + 0.5 / period)


def _share_of_all(classes: Classes, blocks: list[int], generator: np.random.Generator) -> tuple[float, float]:
    points = [generator.integers(0, block, POINTS).astype(np.uint64) for block in blocks]
    for held in classes:
        missed = ~_inside(points, blocks, held)
        points = [residues[missed] for residues in points]
    return 1 - len(points[0]) / POINTS, sqrt(log(2 / ERROR_CHANCE) / (2 * POINTS))


def _share_of_first_hits(classes: Classes, blocks: list[int], generator: np.random.Generator) -> tuple[float, float]:
    shares = np.array([1 / slide for slide, _ in classes])
    drawn = np.ceil(shares / shares.sum() * POINTS).astype(np.int64)
    owners = np.repeat(np.arange(len(classes)), drawn)
    points = []
    for block in blocks:
        factors = np.array([gcd(slide, block) for slide, _ in classes])
        phases = np.array([phase for _, phase in classes]) % factors
        steps = generator.integers(0, (block // factors)[owners])
        points.append((phases[owners] + factors[owners] * steps).astype(np.uint64))
    hit_before = np.zeros(len(owners), np.bool_)
    for held, end in zip(classes, np.cumsum(drawn).tolist(), strict=True):
        hit_before[end:] |= _inside([residues[end:] for residues in points], blocks, held)
    first_hits = np.bincount(owners[~hit_before], minlength=len(classes))
    bound = sqrt(log(2 / ERROR_CHANCE) / 2 * float(np.sum(shares * shares / drawn)))
    return float(np.sum(shares * first_hits / drawn)), bound


def _inside(points: list[NDArray[np.uint64]], blocks: list[int], held: Class) -> NDArray[np.bool_]:
    """A mask of the points in the class: in every block they have its phase modulo its factor."""
    slide, phase = held
    inside: NDArray[np.bool_] = np.ones(len(points[0]), np.bool_)
    for residues, block in zip(points, blocks, strict=True):
        factor = gcd(slide, block)
        if factor > 1:
            # NumPy vectorises division by one number, but not the remainder.
            divisor = np.uint64(factor)
            inside &= residues - residues // divisor * divisor == np.uint64(phase % factor)
    return inside


def _blocks(classes: Classes) -> list[int]:
    """Coprime numbers below 2 ** 62 (or single powers of a root) whose product is the period."""
    blocks: list[list[int]] = []
    for power in sorted(coprime_powers(slide for slide, _ in classes), reverse=True):
        for block in blocks:
            if prod(block) * power < _BLOCK_MAX:
                block.append(power)
                break
        else:
            blocks.append([power])
    return [prod(block) for block in blocks] or [1]
