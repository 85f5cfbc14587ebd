"""Deltas: how the relation on an edge of a plan changes in a step of time.

A plan over several windows runs as a tree of operators. A step covers all instants in [since, until). Every operator
takes one delta per input and returns one. The relation at an instant t is the multiset of rows with
`birth <= t < death`. An end overrides a death that was given before. All changes of one instant apply together.

    MONOTONIC   deaths are FOREVER, nothing ends
    WEAKEST     deaths are known and ascend with the births
    WEAK        deaths are known, in any order
    STRICT      a death may be unknown, or come earlier than expected: then the row ends (a negative row)

Invariant: the relation at an instant does not depend on how time was cut into steps. Golab 2006, section 3.2.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from panewise.aggregates.columns import empty_batch, wrapped
from panewise.arrays import Ints

FOREVER = 2**63 - 1
NONE: Ints = np.empty(0, np.int64)


@dataclass(frozen=True)
class Delta:
    """New rows, with their numbers on the edge, births and deaths; and numbers of rows that end, with the instants.

    Numbers of new rows ascend and are never reused. Births ascend, and so do the instants of ends.
    """

    batch: pa.RecordBatch
    sequences: Ints
    births: Ints
    deaths: Ints
    ended: Ints = field(default_factory=lambda: NONE)
    ended_at: Ints = field(default_factory=lambda: NONE)

    def __len__(self) -> int:
        return len(self.sequences)

    def take(self, chosen: NDArray[Any]) -> Delta:
        """The new rows at these ascending positions, or where the mask is true; ends do not change."""
        positions = np.flatnonzero(chosen) if chosen.dtype == np.bool_ else chosen
        if len(positions) == len(self):
            return self
        batch = self.batch.take(wrapped(positions))
        own = self.sequences[positions], self.births[positions], self.deaths[positions]
        return Delta(batch, *own, self.ended, self.ended_at)

    def followed_by(self, other: Delta) -> Delta:
        """The new rows of both deltas, from two consecutive steps; nothing ends in them."""
        table = pa.Table.from_batches([self.batch, other.batch.cast(self.batch.schema)]).combine_chunks()
        batch = table.to_batches()[0] if table.num_rows else self.batch
        numbers = np.concatenate([self.sequences, other.sequences])
        return Delta(batch, numbers, np.concatenate([self.births, other.births]), np.append(self.deaths, other.deaths))

    def from_instant(self, begins: int) -> Delta:
        """The delta for a reader that begins at an instant: earlier births are moved to it; nothing ends."""
        births = np.maximum(self.births, begins)
        return Delta(self.batch, self.sequences, births, self.deaths).take(births < self.deaths)

    def settled(self) -> Delta:
        """The delta in which rows that come and end in this step have their end as death."""
        places = np.searchsorted(self.sequences, self.ended)
        here = np.append(self.sequences, -1)[places] == self.ended
        if not here.any():
            return self
        deaths = self.deaths.copy()
        deaths[places[here]] = np.minimum(deaths[places[here]], self.ended_at[here])
        return Delta(self.batch, self.sequences, self.births, deaths, self.ended[~here], self.ended_at[~here])

    def with_batch(self, batch: pa.RecordBatch) -> Delta:
        """The delta with other values for the same rows."""
        return Delta(batch, self.sequences, self.births, self.deaths, self.ended, self.ended_at)


def no_delta(schema: pa.Schema) -> Delta:
    """A delta without changes."""
    return Delta(empty_batch(schema), NONE, NONE, NONE)


class Described(Protocol):
    """An operator with a state, as EXPLAIN shows it."""

    @property
    def name(self) -> str: ...

    @property
    def said(self) -> Mapping[str, str]:
        """Properties to show besides the name."""


class DeltaOperator(ABC):
    """A node of a running plan."""

    name: ClassVar[str]  # in EXPLAIN
    takes_parts: ClassVar[bool] = False  # whether new rows of one instant may come in several steps

    @abstractmethod
    def process(self, inputs: list[Delta], since: int, until: int) -> Delta:
        """The changes at the instants in [since, until); the inputs have all changes there."""

    @property
    def results_made(self) -> int:
        """The number of results that a join has made."""
        return 0

    @property
    def said(self) -> Mapping[str, str]:
        """What EXPLAIN shows besides the name."""
        return {}

    @property
    @abstractmethod
    def bytes_held(self) -> int: ...

    @abstractmethod
    def snapshot(self) -> dict[str, Any]: ...

    @abstractmethod
    def restore(self, snapshot: dict[str, Any]) -> None: ...
