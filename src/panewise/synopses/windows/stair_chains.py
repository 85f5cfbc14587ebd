"""Chains of windows that contain each other: divides a set of sliding windows into few chains.

A window is subsumable under another one whose slide is a multiple of its own and whose range is not shorter (definition
1). Then both can share what lies in the shorter one. Algorithm 1 takes the windows in the order of range, then slide,
and appends each to the first chain that it fits; chains whose first window has the longest slide are tried first. A
window that fits no chain starts one. Two more conditions hold for neighbours in a chain: they slide at common instants
(their phase), and their ranges differ by a multiple of the smaller slide, so that what leaves the shorter window fills
whole slides of the longer one. In the paper both follow from windows that begin together and whose ranges are multiples
of their slides.

Cost: windows x chains. Source: Patroumpas and Sellis 2011, sections 3.1 and 3.2.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from panewise.arrays import Ints


@dataclass
class StairChain:
    """The windows of a chain, the shortest first. `piggybacked` maps each other window of equal range to its host."""

    windows: list[int]
    piggybacked: dict[int, int] = field(default_factory=dict)


def chains_of(ranges: Ints, slides: Ints, ends: Ints) -> list[StairChain]:
    """Algorithm 1 (SubsumeWindows): the windows divided into chains.

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
