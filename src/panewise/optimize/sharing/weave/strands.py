"""Strands: the queries of a family that have the same edges. The weave never separates them.

Two windows whose edges are the same classes weave perfectly (Shein and Chrysanthis 2020, section 3.1.1): one tree for
both has no more edges than a tree for one. Under the model, joining their trees never costs more. With equal edge rates
E the two trees cost `2 f + E (Omega(A) + Omega(B))`, where f is the cost of a tree by itself (folding rows, or taking
in composite partials). The joined tree costs `f + E Omega(A and B)`. The Omega of every technique is subadditive,
because it is a sum over queries (Panes, FlatFAT, FlatFIT), a number of distinct lengths (SlickDeque Inv), or a sum over
queries plus an increasing function of the longest one (SlickDeque Non-Inv, B-INT, L-INT, R-INT). This holds for one
technique. Joining may cost more if the parts would have chosen different techniques, or if a technique is faster for a
single window. They are joined nevertheless.

So ten thousand queries whose slides are the sixteen factors of 1,000 are sixteen strands, and the greedy search over
pairs begins with these. Invariant: every query is in exactly one strand. Within a strand, equal windows (range, slide
and phase of reports) are one row with a count. Cost: one sort of n rows of at most three integers, without a Python
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
UNBOUNDED = -1  # the range of an unbounded window in a column


@dataclass(frozen=True, eq=False)
class CadenceColumns:
    """The windows of very many queries as arrays.

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
        """Windows that are aligned with the beginning of the axis."""
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
    """Queries with equal edge classes: their numbers, ordered by window, and the start of each distinct window."""

    classes: frozenset[EdgeClass]
    members: Ints
    firsts: Ints  # for each distinct window, its first position in `members`
    ranges: Floats  # for each distinct window; infinite if it is unbounded
    slides: Ints

    @property
    def counts(self) -> Ints:
        """The number of queries of each distinct window."""
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
    """Columns that are equal for two windows exactly if their edge classes are equal."""
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
    """The row numbers, grouped by equal keys and ascending in each group, and the start of each group."""
    order = np.lexsort(keys[::-1])
    changes = np.zeros(len(order), np.bool_)
    changes[:1] = True
    for key in keys:
        ordered = key[order]
        changes[1:] |= ordered[1:] != ordered[:-1]
    return order, np.flatnonzero(changes)
