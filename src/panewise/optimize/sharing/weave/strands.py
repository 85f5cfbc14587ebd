"""Strands: the queries of a family that have the same edges, which are never parted by the weave.

Two windows whose edges are the same classes weave perfectly (Shein and Chrysanthis 2020, section 3.1.1): in one tree
there are no more edges than in either. Joining their trees never costs more under the model. With equal edge rates E
the two trees cost `2 f + E (Omega(A) + Omega(B))`, f being what a tree costs by itself (the fold of the rows, or the
intake of composite partials), and the joined one `f + E Omega(A and B)`; and the Omega of every technique is
subadditive, because it is a sum over queries (Panes, FlatFAT, FlatFIT), a number of distinct lengths (SlickDeque
Inv), or a sum over queries and an increasing function of the longest one (SlickDeque Non-Inv, B-INT, L-INT, R-INT).
This is for one technique; where parts would have chosen different ones, or a measured curve has a shorter way for a
window that is alone in its tree, joining may cost more by what the part gained with that. It is done all the same.

So ten thousand queries whose slides are the sixteen factors of 1,000 are sixteen strands, and the greedy search over
pairs begins with these. Invariant: every query is in exactly one strand; within one, equal windows (range, slide and
the phase of their reports) are one row with a count. Cost: one sort of n rows of at most three integers; no Python
object per query.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from panewise.arrays import Floats, Ints
from panewise.optimize.sharing.edges.edge_counts import Slicing, classes_of
from panewise.slicing.pairs import Cadence

EdgeClass = tuple[int, int]
UNBOUNDED = -1  # the range, in columns, of a window that reaches back for ever


@dataclass(frozen=True, eq=False)
class CadenceColumns:
    """The windows of very many queries as arrays; a range of `UNBOUNDED` reaches back for ever.

    >>> columns = CadenceColumns.of([Cadence(6, 2), Cadence(None, 4, offset=1)])
    >>> columns.ranges.tolist(), len(columns), columns[1]
    ([6, -1], 2, Cadence(range=None, slide=4, offset=1, align=0))
    """

    ranges: Ints
    slides: Ints
    offsets: Ints
    aligns: Ints

    @classmethod
    def of(cls, cadences: Sequence[Cadence]) -> CadenceColumns:
        rows = [
            (UNBOUNDED if cadence.range is None else cadence.range, cadence.slide, cadence.offset, cadence.align)
            for cadence in cadences
        ]
        ranges, slides, offsets, aligns = np.array(rows, np.int64).reshape(-1, 4).T
        return cls(ranges, slides, offsets, aligns)

    @classmethod
    def of_arrays(cls, ranges: Ints, slides: Ints, offsets: Ints | None = None) -> CadenceColumns:
        """Aligned with the beginning of the axis; no offsets where none are given."""
        nothing = np.zeros(len(slides), np.int64)
        return cls(ranges, slides, nothing if offsets is None else offsets, nothing)

    def __len__(self) -> int:
        return len(self.slides)

    def __getitem__(self, index: int) -> Cadence:
        range_, slide = int(self.ranges[index]), int(self.slides[index])
        offset, align = int(self.offsets[index]), int(self.aligns[index])
        return Cadence(None if range_ == UNBOUNDED else range_, slide, offset, align)


@dataclass(frozen=True, eq=False)
class Strand:
    """Queries with equal edge classes: their numbers, ordered by window, and where each distinct window begins."""

    classes: frozenset[EdgeClass]
    members: Ints
    firsts: Ints  # places in `members`
    ranges: Floats  # of each distinct window; infinite where it reaches back for ever
    slides: Ints

    @property
    def counts(self) -> Ints:
        """Queries of each distinct window."""
        return np.diff(self.firsts, append=len(self.members))


def strands_of(columns: CadenceColumns, slicing: Slicing) -> list[Strand]:
    """The strands, ordered by their least member.

    >>> pair = CadenceColumns.of_arrays(np.array([4, 6, 9, 4]), np.array([2, 2, 3, 2]))
    >>> [(strand.members.tolist(), strand.counts.tolist()) for strand in strands_of(pair, Slicing.PAIRS)]
    [([0, 3, 1], [2, 1]), ([2], [1])]
    """
    phases = (columns.aligns - columns.offsets) % columns.slides
    strands = []
    order, begins = _alike(_edge_keys(columns, slicing))
    for members in np.split(order, begins[1:]) if len(order) else []:
        rows, firsts = _alike([columns.ranges[members], columns.slides[members], phases[members]])
        members = members[rows]
        ranges = columns.ranges[members[firsts]]
        strands.append(
            Strand(
                classes_of(columns[int(members[0])], slicing),
                members,
                firsts,
                np.where(ranges == UNBOUNDED, np.inf, ranges),
                columns.slides[members[firsts]],
            )
        )
    return sorted(strands, key=lambda strand: int(strand.members.min()))


def _edge_keys(columns: CadenceColumns, slicing: Slicing) -> list[Ints]:
    """Columns that are equal exactly where the edge classes of two windows are."""
    ends = columns.aligns - columns.offsets
    bounded = columns.ranges != UNBOUNDED
    ranges = np.where(bounded, columns.ranges, 0)
    slides = columns.slides
    if slicing is Slicing.PANES:
        panes = np.gcd(slides, ranges)
        return [panes, ends % panes]
    starts = (ends - ranges) % slides
    if slicing is Slicing.CUTTY:
        return [np.where(bounded, slides, 0), np.where(bounded, starts, 0)]
    ends = ends % slides
    return [slides, np.minimum(starts, ends), np.maximum(starts, ends)]


def _alike(keys: list[Ints]) -> tuple[Ints, Ints]:
    """Row numbers, those with equal keys together and ascending, and where each group begins."""
    order = np.lexsort(keys[::-1])
    changes = np.zeros(len(order), np.bool_)
    changes[:1] = True
    for key in keys:
        ordered = key[order]
        changes[1:] |= ordered[1:] != ordered[:-1]
    return order, np.flatnonzero(changes)
