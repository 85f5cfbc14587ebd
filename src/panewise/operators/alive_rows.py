"""The rows that a continuous window holds or will hold, with their lifetimes, in stream order.

`sequences` ascend; `births` and `deaths` are FOREVER until known. The owner keeps all other data of the rows (groups
and states, or selected values) in arrays of the same order, and changes them as `take`, `forget` and `absorb` do here.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from panewise.arrays import Ints
from panewise.operators.lifetimes import NEVER, Assigned

Mask = NDArray[np.bool_]


class AliveRows:
    """Sequence numbers, births and deaths of the rows that passed WHERE and have not died."""

    def __init__(self) -> None:
        self.sequences: Ints = np.empty(0, np.int64)
        self.births: Ints = np.empty(0, np.int64)
        self.deaths: Ints = np.empty(0, np.int64)
        self.held_since = NEVER  # before this instant, some row that was in the window is no longer held

    def __len__(self) -> int:
        return len(self.sequences)

    @property
    def bytes_held(self) -> int:
        return 3 * self.sequences.nbytes

    def take(self, assigned: Assigned, passing: Mask | None) -> None:
        """Applies births and deaths that became known for held rows, and appends the new rows that pass."""
        if len(assigned.earlier) and len(self):
            places = np.searchsorted(self.sequences, assigned.earlier)
            places[places == len(self)] = 0
            found = self.sequences[places] == assigned.earlier
            places = places[found]
            # A known birth or death never changes; an unknown one is FOREVER.
            self.births[places] = np.minimum(self.births[places], assigned.earlier_births[found])
            self.deaths[places] = np.minimum(self.deaths[places], assigned.earlier_deaths[found])
        new = assigned.sequences
        if new is None:
            new = np.arange(assigned.first, assigned.first + len(assigned.births))
        births, deaths = assigned.births, assigned.deaths
        if passing is not None:
            new, births, deaths = new[passing], births[passing], deaths[passing]
        self.sequences = np.concatenate([self.sequences, new])
        self.births = np.concatenate([self.births, births])
        self.deaths = np.concatenate([self.deaths, deaths])

    def forget(self, watermark: int) -> Mask | None:
        """Drops the rows that died before the watermark; returns the mask of those that stay (None: all)."""
        kept = self.deaths >= watermark
        if kept.all():
            return None
        gone = ~kept & (self.births < self.deaths)
        if gone.any():
            self.held_since = max(self.held_since, int(self.deaths[gone].max()))
        self._keep(kept)
        return kept

    def absorb(self, watermark: int) -> Mask | None:
        """Drops the rows born before the watermark, which the owner keeps in another form; returns as `forget` does."""
        kept = self.births >= watermark
        if kept.all():
            return None
        self.held_since = max(self.held_since, int(self.births[~kept].max()))
        self._keep(kept)
        return kept

    def _keep(self, kept: Mask) -> None:
        self.sequences, self.births, self.deaths = self.sequences[kept], self.births[kept], self.deaths[kept]

    def snapshot(self) -> dict[str, Any]:
        return {
            "sequences": self.sequences.copy(),
            "births": self.births.copy(),
            "deaths": self.deaths.copy(),
            "held_since": self.held_since,
        }

    def restore(self, snapshot: dict[str, Any]) -> None:
        # Births and deaths are changed in place, but arrays of a snapshot may be read-only.
        self.sequences = snapshot["sequences"]
        self.births, self.deaths = snapshot["births"].copy(), snapshot["deaths"].copy()
        self.held_since = snapshot["held_since"]
