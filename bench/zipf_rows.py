"""Rows of very many groups: a million string keys, Zipf with exponent 1, evenly spread over 48 hours.

Batch i is made from a seed of its own, so that a second process makes the same rows again without keeping them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

SEED = 20240101
BEGIN_US = 1_704_067_200_000_000
SPAN_US = 48 * 3600 * 1_000_000
PUSH_ROWS = 65_536


@dataclass(frozen=True)
class ZipfRows:
    """The rows, by batches."""

    count: int
    keys: int

    @property
    def batches(self) -> int:
        return -(-self.count // PUSH_ROWS)

    @property
    def step_us(self) -> int:
        return SPAN_US // self.count

    def cumulative(self) -> NDArray[np.float64]:
        """The probability of a rank up to each."""
        weights = np.cumsum(1.0 / np.arange(1, self.keys + 1))
        return np.asarray(weights / weights[-1])

    def names(self) -> pa.Array:
        """The key of each rank; ranks are shuffled, so that the order of names says nothing of how often they come."""
        shuffled = np.random.default_rng(SEED).permutation(self.keys)
        return pa.array([f"user-{number:07}" for number in shuffled])

    def ranks(self, batch: int, cumulative: NDArray[np.float64]) -> NDArray[np.int64]:
        length = min(PUSH_ROWS, self.count - batch * PUSH_ROWS)
        uniform = np.random.default_rng([SEED, batch]).random(length)
        return np.searchsorted(cumulative, uniform, side="right").clip(max=self.keys - 1)

    def times(self, batch: int) -> NDArray[np.int64]:
        begin = batch * PUSH_ROWS
        return BEGIN_US + np.arange(begin, min(begin + PUSH_ROWS, self.count), dtype=np.int64) * self.step_us

    def rows_before(self, instant: int) -> int:
        """How many rows have a time before the instant."""
        return int(np.clip(-(-(instant - BEGIN_US) // self.step_us), 0, self.count))
