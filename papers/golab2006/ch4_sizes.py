"""How even the sizes of sub-indices are: Golab 2006, appendix A, by its lemmas, by counting, and exactly.

With p = S / Delta updates in the longest lifetime, a unit of rows for every pair of an insertion slot and an expiration
slot that a row alive may have, and k x k = n sub-indices. What the text calls variance is the sum of the squared
deviations of all sub-indices from their mean, on average over time. Counting agrees with the lemmas in part:

- A.1 (chronological) is exact for n = 4. For more sub-indices it lets all of them grow or shrink at every update, where
  only 2(k - 1) do and the others stay empty or full, farther from the mean: the true value is greater.
- A.2 (round-robin) assumes two states that take turns. After every update the sizes are the same again, only of other
  sub-indices: k(k + 1) / 2 of q(q + 1) / 2 units and k(k - 1) / 2 of q(q - 1) / 2, q = p / k. The true value is less.

Theorem 4.1, that round-robin is more even, holds all the more.
"""

from __future__ import annotations

from math import isqrt, sqrt

import numpy as np
from numpy.typing import NDArray

from panewise.archive.layout import Layout


def lemma_a1(p: int, n: int) -> float:
    """Chronological, as printed."""
    k = sqrt(n)
    return p**2 / (12 * k) - p**2 / (4 * n) + p**4 / (12 * n) - p**4 / (12 * n * k) + p**2 / 6


def lemma_a2(p: int, n: int) -> float:
    """Round-robin, as printed."""
    return p**2 / 2 * (1 / 2 + 1 / (2 * n) + 1 / (n * sqrt(n)))


def exact_chronological(p: int, n: int) -> float:
    """On the diagonal k equal sizes; k - 1 grow and k - 1 shrink by q a time; of the rest half are empty, half full."""
    k = isqrt(n)
    q, mean = p // k, p * (p + 1) / (2 * n)
    diagonal = k * (q * (q + 1) / 2 - mean) ** 2
    changing = (k - 1) / q * sum((q * (q - i) - mean) ** 2 + (q * i - mean) ** 2 for i in range(q))
    unchanged = (n - 3 * k + 2) / 2 * (mean**2 + (q * q - mean) ** 2)
    return diagonal + changing + unchanged


def exact_round_robin(p: int, n: int) -> float:
    return p**2 / 4 * (1 - 1 / n)


def counted_sizes(layout: Layout, slot: int) -> NDArray[np.int64]:
    """Units in each sub-index after the update that ends a slot; the layout's interval is 1, its lifetime p."""
    assert layout.every_us == 1
    p = layout.lifetime_us
    inserted, expires = np.meshgrid(np.arange(slot - p + 1, slot + 1), np.arange(slot + 1, slot + p + 1), indexing="ij")
    possible = expires <= inserted + p
    sizes: NDArray[np.int64] = np.bincount(
        layout.places(inserted[possible], expires[possible]), minlength=layout.parts
    ).astype(np.int64)
    return sizes


def squared_deviations(sizes: NDArray[np.int64]) -> float:
    return float(((sizes - sizes.mean()) ** 2).sum())


def counted(layout: Layout) -> float:
    """The mean of the squared deviations over all slots of a lifetime."""
    p = layout.lifetime_us
    return float(np.mean([squared_deviations(counted_sizes(layout, slot)) for slot in range(p, 2 * p)]))
