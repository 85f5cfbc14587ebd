"""Distinct windows in chains, and the table of the chains' seeds: what `subsumption` arranges.

A chain is windows in the order of their ranges, each subsumable under the next, with guests (piggybacked windows) of
equal range upon them. Only `subsumption` changes chains; what must hold of them stands there.

The seeds of all chains lie side by side in arrays, so that one pass over them finds the chains that come into question
for a window: 10,000 chains in a tenth of a millisecond. A chain that goes leaves its slot to the last one.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from panewise.arrays import Ints
from panewise.slicing.pairs import Cadence

Name = Hashable
FOR_EVER = 1 << 62  # the range of a window that reaches back for ever


class Key(NamedTuple):
    """What two windows have in common that are the same: in the order in which `subsume` takes them."""

    range: int
    slide: int
    phase: int


@dataclass(eq=False, slots=True)
class DistinctWindow:
    """A distinct window with the names of all that are equal to it; its host, where it is piggybacked."""

    key: Key
    names: dict[Name, None]
    chain: WindowChain | None = None
    host: DistinctWindow | None = None
    guests: dict[Key, DistinctWindow] = field(default_factory=dict)


@dataclass(eq=False, slots=True)
class WindowChain:
    """Distinct windows by range, their ranges beside them, and where its seed stands in the table of seeds."""

    number: int
    windows: list[DistinctWindow]
    ranges: list[int]
    slot: int = -1


def key_of(cadence: Cadence) -> Key:
    reach = FOR_EVER if cadence.range is None else cadence.range
    return Key(reach, cadence.slide, (cadence.align - cadence.offset) % cadence.slide)


def under(inner: Key, outer: Key) -> bool:
    return (
        outer.slide % inner.slide == 0 and inner.range <= outer.range and (outer.phase - inner.phase) % inner.slide == 0
    )


class Seeds:
    """The first windows of all chains as arrays, so that one pass finds the chains that come into question."""

    def __init__(self) -> None:
        self.chains: list[WindowChain] = []
        self.keys: Ints = np.ones((3, 16), np.int64)  # ranges, slides, phases

    def put(self, chain: WindowChain) -> None:
        """The chain's seed is new, or another one than before."""
        if chain.slot < 0:
            chain.slot = len(self.chains)
            self.chains.append(chain)
            if chain.slot == self.keys.shape[1]:
                self.keys = np.concatenate([self.keys, np.ones_like(self.keys)], axis=1)
        self.keys[:, chain.slot] = chain.windows[0].key

    def drop(self, chain: WindowChain) -> None:
        last = self.chains.pop()
        if last is not chain:
            self.chains[chain.slot] = last
            last.slot = chain.slot
            self.keys[:, last.slot] = last.windows[0].key
        chain.slot = -1

    def below(self, key: Key) -> list[WindowChain]:
        """Chains whose seed admits a window by slide and phase, whatever their ranges."""
        _, slides, phases = self.keys[:, : len(self.chains)]
        slots = np.flatnonzero(key.slide % slides == 0)
        slots = slots[(key.phase - phases[slots]) % slides[slots] == 0]
        return [self.chains[slot] for slot in slots.tolist()]

    def finest_above(self, key: Key) -> WindowChain | None:
        """Of the chains whose seed is subsumable under nothing but a new seed, the one with the shortest slide."""
        ranges, slides, phases = self.keys[:, : len(self.chains)]
        slots = np.flatnonzero((ranges >= key.range) & (slides % key.slide == 0))
        slots = slots[(phases[slots] - key.phase) % key.slide == 0]
        return self.chains[slots[np.argmin(slides[slots])]] if len(slots) else None


def piggyback(guest: DistinctWindow, host: DistinctWindow) -> None:
    guest.host, guest.chain = host, host.chain
    host.guests[guest.key] = guest


def chain_of(window: DistinctWindow) -> WindowChain:
    assert window.chain is not None
    return window.chain
