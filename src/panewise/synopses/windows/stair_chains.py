"""Chains of windows that contain each other: a pool of sliding windows in as few groups as fit together.

A window is subsumable under another whose slide is a multiple of its own and whose range is no shorter (definition 1);
then both can share what lies in the shorter one. Algorithm 1 takes the windows by range, then slide, and appends each
to the first chain that it fits, those whose first window has the longest slide first; what fits nowhere begins a chain.
The neighbours of a chain must also slide at common instants (their phase), and their ranges differ by a multiple of the
smaller slide, so that what leaves the shorter window fills whole slides of the longer one; the paper gets both from
windows that begin together with ranges that are multiples of their slides.

Cost: windows x chains. Source: Patroumpas and Sellis 2011, sections 3.1 and 3.2.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from panewise.arrays import Ints


@dataclass
class StairChain:
    """Windows from the shortest on, and those that have the range of another: piggybacked window -> its host."""

    windows: list[int]
    piggybacked: dict[int, int] = field(default_factory=dict)


def chains_of(ranges: Ints, slides: Ints, ends: Ints) -> list[StairChain]:
    """Algorithm 1 (SubsumeWindows): the windows in chains, each as early as it fits, seeds with long slides first.

    >>> chains_of(np.array([3, 7, 13, 13, 10]), np.array([1, 2, 4, 8, 3]), np.array([24, 24, 24, 24, 24]))
    [StairChain(windows=[0, 1, 2], piggybacked={3: 2}), StairChain(windows=[4], piggybacked={})]
    """
    chains: list[StairChain] = []
    for window in np.lexsort((slides, ranges)).tolist():
        for chain in sorted(chains, key=lambda chain: -int(slides[chain.windows[0]])):
            last = chain.windows[-1]
            slide = slides[last]
            steps = slides[window], ranges[window] - ranges[last], ends[window] - ends[last]
            if any(step % slide for step in steps):
                continue
            if ranges[window] == ranges[last]:
                chain.piggybacked[window] = last
            else:
                chain.windows.append(window)
            break
        else:
            chains.append(StairChain([window]))
    return chains
