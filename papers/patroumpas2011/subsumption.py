"""Windows that contain each other, in as few chains as fit: a pool, one that comes, one that goes.

A window is subsumable under another (definition 1) when its slide divides the other's and its range is no longer. Ours
have phases too: their covered spans end at `align - offset + k * slide`, and these must be equal modulo the smaller
slide, or the two never end together. A window that reaches back for ever is longer than all others. The relation is
transitive, so that a chain needs only its neighbours checked:

      range    3      7     12     12             a chain, the shortest first
      slide    1 ---- 2 ---- 4 .... 8
               seed   enclosing     piggybacked on the 12 before it: every second of its answers

A seed begins a chain, and its slide is the finest of it; an enclosing window has a longer range than the one before it;
a piggybacked window has the range of a window of the chain, slides at a multiple of it and costs nothing.

`subsume` takes a whole pool by range, then slide, and appends each window to the chain whose last window fits best: one
with an equal range, else the one with the longest slide. So never do two chains end in one slide and phase, and there
are no more chains than distinct slides and phases. (The paper takes the chain whose seed has the longest slide. That
gives more chains: 22 for 10 over 1,000 windows whose slides are the factors of 1,000.) `embed` finds a place for one
more: piggybacked, else behind the longest slide that fits both neighbours, else as the seed of the chain that has to be
cut finer by least, else in a chain of its own. `withdraw` takes one out; where windows were piggybacked on it, the one
with the shortest slide that the next window of the chain admits is its heir, and what does not fit the heir is embedded
again. The paper's embedWindow and its heirs check one neighbour only, which breaks chains.

Equal windows are kept as one with many names. Cost: `subsume` O(n log n) and for each distinct window one step per
divisor of its slide among the slides; `embed` two array passes over the seeds and a bisection per chain whose seed
divides it; `withdraw` O(1), or, for a host without other names, one `embed` per distinct orphan that its heir does not
take over. Source: Patroumpas and Sellis 2011, sections 3.1 to 3.3 and algorithm 1.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple

import numpy as np

from panewise.slicing.pairs import Cadence
from papers.patroumpas2011.subsumption_chains import (
    DistinctWindow,
    Key,
    Name,
    Seeds,
    WindowChain,
    chain_of,
    key_of,
    piggyback,
    under,
)


class Role(Enum):
    """What a window is in its chain."""

    SEED = "seed"
    ENCLOSING = "enclosing"
    PIGGYBACKED = "piggybacked"


@dataclass(frozen=True)
class Group:
    """One chain by the names of its windows, the shortest first; piggybacked ones: name -> (host, every which answer).

    >>> subsume([Cadence(3, 1), Cadence(7, 2), Cadence(12, 4), Cadence(12, 8), Cadence(10, 3)]).groups
    (Group(chain=(0, 1, 2), piggybacked={3: (2, 2)}), Group(chain=(4,), piggybacked={}))
    """

    chain: tuple[Name, ...]
    piggybacked: Mapping[Name, tuple[Name, int]]


class _PlaceInChain(NamedTuple):
    """Where a window goes: to this position of a chain, or upon (`joins`) or below the window that is there."""

    chain: WindowChain
    position: int
    joins: bool = False


def subsumable(inner: Cadence, outer: Cadence) -> bool:
    """Definition 1, and phases that agree: whether a window may stand before another one in a chain.

    >>> subsumable(Cadence(4, 2), Cadence(9, 6)), subsumable(Cadence(4, 2), Cadence(9, 6, align=1))
    (True, False)
    """
    return under(key_of(inner), key_of(outer))


class ChainGrouping:
    """Named windows in chains.

    >>> grouping = subsume([Cadence(4, 2), Cadence(12, 6)])
    >>> grouping.embed(Cadence(8, 2), "new"), grouping.role_of("new")
    (0, <Role.ENCLOSING: 'enclosing'>)
    >>> grouping.groups
    (Group(chain=(0, 'new', 1), piggybacked={}),)
    """

    def __init__(self) -> None:
        self._windows: dict[Key, DistinctWindow] = {}
        self._window_of: dict[Name, DistinctWindow] = {}
        self._seeds = Seeds()
        self._next_number = 0

    def __len__(self) -> int:
        """How many windows there are."""
        return len(self._window_of)

    def __contains__(self, name: Name) -> bool:
        return name in self._window_of

    @property
    def group_count(self) -> int:
        return len(self._seeds.chains)

    @property
    def groups(self) -> tuple[Group, ...]:
        """All chains, the oldest first."""
        return tuple(_described(chain) for chain in sorted(self._seeds.chains, key=lambda chain: chain.number))

    def group_of(self, name: Name) -> int:
        """The number of its chain, which the chain keeps for as long as it has windows."""
        return chain_of(self._window_of[name]).number

    def role_of(self, name: Name) -> Role:
        window = self._window_of[name]
        if window.host is not None or next(iter(window.names)) != name:
            return Role.PIGGYBACKED
        return Role.SEED if chain_of(window).windows[0] is window else Role.ENCLOSING

    def can_embed(self, cadence: Cadence) -> bool:
        """Whether there is a chain that takes one more window, so that none has to begin."""
        key = key_of(cadence)
        return key in self._windows or self._place_for(key) is not None

    def embed(self, cadence: Cadence, name: Name) -> int:
        """One more window; the number of the chain that takes it."""
        if name in self._window_of:
            raise ValueError(f"there is a window {name!r} already")
        window = self._named(key_of(cadence), name)
        if window.chain is None:
            self._settle(window)
        return chain_of(window).number

    def withdraw(self, name: Name) -> tuple[Name, ...]:
        """A window goes; the names of those that had to move to another chain."""
        window = self._window_of.pop(name)
        del window.names[name]
        if window.names:
            return ()
        del self._windows[window.key]
        if window.host is not None:
            del window.host.guests[window.key]
            return ()
        chain = chain_of(window)
        orphans = self._bequeath(chain, window)
        for orphan in orphans:
            orphan.chain = orphan.host = None
        for orphan in orphans:
            self._settle(orphan)
        return tuple(name for orphan in orphans if orphan.chain is not chain for name in orphan.names)

    def check(self) -> None:
        """Asserts all invariants, slowly; for tests."""
        met: list[DistinctWindow] = []
        for slot, chain in enumerate(self._seeds.chains):
            assert chain.slot == slot and chain.windows, "the table of seeds is wrong"
            assert tuple(self._seeds.keys[:, slot].tolist()) == chain.windows[0].key, "a seed is out of date"
            assert chain.ranges == [window.key.range for window in chain.windows], "ranges do not follow the windows"
            assert all(a < b for a, b in zip(chain.ranges, chain.ranges[1:], strict=False)), "ranges do not ascend"
            for inner, outer in zip(chain.windows, chain.windows[1:], strict=False):
                assert under(inner.key, outer.key), f"{inner.key} is not subsumable under {outer.key}"
            for host in chain.windows:
                met += [host, *host.guests.values()]
                assert host.host is None and host.chain is chain, "a window of a chain is somewhere else too"
                for guest in host.guests.values():
                    assert guest.host is host and guest.chain is chain and not guest.guests, "a guest is astray"
                    assert guest.key.range == host.key.range and under(host.key, guest.key), "a guest does not fit"
        assert len({window.key for window in met}) == len(met) == len(self._windows), "not each in exactly one chain"
        names = {name: window for window in met for name in window.names}
        assert names == self._window_of and all(window.names for window in met), "names are wrong"

    # -- one distinct window -------------------------------------------------------------------------------------------

    def _named(self, key: Key, name: Name) -> DistinctWindow:
        """The distinct window, with one more name."""
        window = self._windows.get(key)
        if window is None:
            window = self._windows[key] = DistinctWindow(key, {})
        window.names[name] = None
        self._window_of[name] = window
        return window

    def _place_for(self, key: Key) -> _PlaceInChain | None:
        """embedWindow, with definition 1 checked against both neighbours and equal ranges; None: a chain of its own."""
        best: _PlaceInChain | None = None
        best_slide = 0
        for chain in self._seeds.below(key):
            windows, position = chain.windows, bisect_left(chain.ranges, key.range)
            following = windows[position].key if position < len(windows) else None
            if following is not None and following.range == key.range and under(following, key):
                return _PlaceInChain(chain, position, joins=True)
            before = windows[position - 1].key if position else None
            if before is None or before.slide <= best_slide or not under(before, key):
                continue
            if following is None or under(key, following):
                best, best_slide = _PlaceInChain(chain, position), before.slide
        if best is None and (chain_above := self._seeds.finest_above(key)) is not None:
            best = _PlaceInChain(chain_above, 0)
        return best

    def _settle(self, window: DistinctWindow) -> None:
        """A window without a chain gets one, and guests where it takes the place of a window with its range."""
        place = self._place_for(window.key)
        if place is None:
            self._begin(window)
            return
        chain, position = place.chain, place.position
        window.chain = chain
        if place.joins:
            piggyback(window, chain.windows[position])
            return
        if position < len(chain.windows) and chain.ranges[position] == window.key.range:
            replaced = chain.windows[position]
            chain.windows[position] = window
            for guest in (replaced, *replaced.guests.values()):
                piggyback(guest, window)
            replaced.guests = {}
        else:
            chain.windows.insert(position, window)
            chain.ranges.insert(position, window.key.range)
        if position == 0:
            self._seeds.put(chain)

    def _begin(self, window: DistinctWindow) -> WindowChain:
        chain = WindowChain(self._next_number, [window], [window.key.range])
        self._next_number += 1
        window.chain = chain
        self._seeds.put(chain)
        return chain

    def _bequeath(self, chain: WindowChain, window: DistinctWindow) -> list[DistinctWindow]:
        """Takes a window out of its chain; an heir gets its place and those guests that fit. The other guests."""
        position = bisect_left(chain.ranges, window.key.range)
        following = chain.windows[position + 1].key if position + 1 < len(chain.windows) else None
        orphans = sorted(window.guests.values(), key=lambda guest: guest.key)
        window.guests = {}
        heir = next((guest for guest in orphans if following is None or under(guest.key, following)), None)
        if heir is None:
            del chain.windows[position], chain.ranges[position]
        else:
            chain.windows[position] = heir
            heir.host = None
            for guest in orphans:
                if guest is not heir and under(heir.key, guest.key):
                    piggyback(guest, heir)
            orphans = [guest for guest in orphans if guest is not heir and guest.host is not heir]
        if not chain.windows:
            self._seeds.drop(chain)
        elif position == 0:
            self._seeds.put(chain)
        return orphans


def _described(chain: WindowChain) -> Group:
    names, piggybacked = [], {}
    for host in chain.windows:
        first, *others = host.names
        names.append(first)
        piggybacked.update(dict.fromkeys(others, (first, 1)))
        for guest in host.guests.values():
            piggybacked.update(dict.fromkeys(guest.names, (first, guest.key.slide // host.key.slide)))
    return Group(tuple(names), piggybacked)


def subsume(cadences: Mapping[Any, Cadence] | Iterable[Cadence]) -> ChainGrouping:
    """SubsumeWindows: a pool in chains; windows without names are called by their positions, from 0 on."""
    grouping = ChainGrouping()
    named = cadences.items() if isinstance(cadences, Mapping) else enumerate(cadences)
    for name, cadence in named:
        grouping._named(key_of(cadence), name)
    slides = np.unique(np.array([key.slide for key in grouping._windows], np.int64))
    divisors: dict[int, list[int]] = {}
    lasts: dict[tuple[int, int], WindowChain] = {}  # by slide and phase of the last window, which no two chains share
    for key in sorted(grouping._windows):
        window = grouping._windows[key]
        if key.slide not in divisors:
            halves = slides[: np.searchsorted(slides, key.slide // 2, "right")]
            divisors[key.slide] = [key.slide, *halves[key.slide % halves == 0][::-1].tolist()]
        fits = [chain for slide in divisors[key.slide] if (chain := lasts.get((slide, key.phase % slide))) is not None]
        host = next((chain.windows[-1] for chain in fits if chain.ranges[-1] == key.range), None)
        if host is not None:
            piggyback(window, host)
            continue
        if fits:
            chain = fits[0]
            before = chain.windows[-1].key
            del lasts[before.slide, before.phase]
            chain.windows.append(window)
            chain.ranges.append(key.range)
            window.chain = chain
        else:
            chain = grouping._begin(window)
        lasts[key.slide, key.phase] = chain
    return grouping
