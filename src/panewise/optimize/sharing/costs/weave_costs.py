"""The cost of a weave per unit of the axis: in operations as the papers count them, and in measured nanoseconds.

A tree cuts E slices per unit and answers windows of P_i = range_i * E slices. The papers charge every tree its rows and
`Omega` operations per edge (Shein and Chrysanthis 2020, equation 1). If one composite partial aggregation feeds all
trees (TriWeave), rows are charged once, and every tree is charged for taking in the composite partials:

    WeaveShare   C = m * lambda + sum(E_i * Omega_i)
    TriWeave     C = lambda + sum(intake of E_all partials + E_i * Omega_i)

`OperationModel` implements these formulas with the Omega of `operation_counts.py`. Each distinct window counts once,
because the papers share equal windows too.

`CalibratedModel` describes our engine: a window is answered when its report is due, once for all queries that have it,
and all windows that are due together in one call. So the cost of a tree is that of the slices that enter it and of the
windows that are answered, by measured curves (`calibration.py`). All that the curves need of a set of windows is in
`WindowSums`, which add up. So the cost of two trees together follows from the sums of both, in a few microseconds for
any number of windows.

Nothing here compiles loops. Cost: O(windows) for a set of windows, O(1) for sums.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from panewise.arrays import Floats
from panewise.optimize.sharing.costs.operation_counts import OPERATIONS as OPERATIONS
from panewise.optimize.sharing.costs.operation_counts import PANES
from panewise.optimize.sharing.costs.operation_counts import operations_per_edge as operations_per_edge

if TYPE_CHECKING:
    from panewise.aggregates.states import StateKind


# -- The windows of a tree, in a few numbers ---------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class WindowSums:
    """Sums over a set of distinct windows, per unit of the axis. The sums of two disjoint sets add up."""

    windows: int
    answers: float  # sum of 1 / slide
    results: float  # sum of queries / slide
    logarithms: float  # sum of log2(range) / slide
    overlap: float  # sum of range / slide
    moving: float  # sum of the share of the axis that enters each window: 1, or less if the slide leaves gaps
    longest: float
    most_often: float  # the greatest 1 / slide: how often a window is answered if slides are aligned
    most_windows: int  # number of windows with the least slide
    classes: int  # a bit mask of the values of floor(log2(range))
    ranges: Floats

    def __add__(self, other: WindowSums) -> WindowSums:
        return WindowSums(
            self.windows + other.windows,
            self.answers + other.answers,
            self.results + other.results,
            self.logarithms + other.logarithms,
            self.overlap + other.overlap,
            self.moving + other.moving,
            max(self.longest, other.longest),
            max(self.most_often, other.most_often),
            self.most_windows * (self.most_often >= other.most_often)
            + other.most_windows * (other.most_often >= self.most_often),
            self.classes | other.classes,
            np.concatenate((self.ranges, other.ranges)),
        )


def window_sums(ranges: ArrayLike, slides: ArrayLike, counts: ArrayLike) -> WindowSums:
    """The sums of distinct windows (range, slide, phase). `counts`: the number of queries of each.

    An unbounded range, infinite here, counts as one slide, because the engine keeps the rest of it in one state.
    """
    steps = np.asarray(slides, np.float64)
    spans = np.asarray(ranges, np.float64)
    spans = np.where(np.isinf(spans), steps, spans)
    if not len(spans):
        return WindowSums(0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0, 0, spans)
    frequencies = 1 / steps
    overlaps = spans * frequencies
    logarithms = np.log2(spans)
    occurring = np.bincount(np.maximum(logarithms, 0).astype(np.int64)).nonzero()[0]
    return WindowSums(
        len(spans),
        float(frequencies.sum()),
        float(np.asarray(counts, np.float64) @ frequencies),
        float(logarithms @ frequencies),
        float(overlaps.sum()),
        float(np.minimum(overlaps, 1).sum()),
        float(spans.max()),
        often := float(frequencies.max()),
        int(np.count_nonzero(frequencies == often)),
        sum(1 << int(bit) for bit in occurring),
        spans,
    )


# -- Models ------------------------------------------------------------------------------------------------------------


class CostModel(ABC):
    """Costs per unit of the axis. The rates of rows, edges and composite partials are per unit too."""

    @abstractmethod
    def fold(self, rate: float) -> float:
        """The cost of rows that enter the slices of one partial aggregation."""

    @abstractmethod
    def intake(self, composite_edge_rate: float) -> float:
        """The cost of composite partials that are merged into the slices of one tree."""

    @abstractmethod
    def tree_of(self, technique: str, edge_rate: float, windows: WindowSums) -> float:
        """The cost of a tree without folding and intake: slices enter a synopsis, and windows are answered."""

    def tree(self, technique: str, edge_rate: float, ranges: ArrayLike, slides: ArrayLike, counts: ArrayLike) -> float:
        """The cost as in `tree_of`, for distinct windows with the number of queries of each."""
        return self.tree_of(technique, edge_rate, window_sums(ranges, slides, counts))

    def weave_share(self, rate: float, trees: Iterable[float]) -> float:
        """The cost of a plan of trees with these costs, if every tree folds the rows itself: equation 1."""
        fold = self.fold(rate)
        return sum(fold + tree for tree in trees)

    def tri_weave(self, rate: float, composite_edge_rate: float, trees: Iterable[float]) -> float:
        """The cost of a plan of trees with these costs, if rows are folded once into slices cut at all trees' edges."""
        intake = self.intake(composite_edge_rate)
        return self.fold(rate) + sum(intake + tree for tree in trees)


class OperationModel(CostModel):
    """The papers' model: a row, a partial that is taken in and a combination of two states are one operation each."""

    def fold(self, rate: float) -> float:
        return rate

    def intake(self, composite_edge_rate: float) -> float:
        return composite_edge_rate

    def tree_of(self, technique: str, edge_rate: float, windows: WindowSums) -> float:
        if technique in PANES:
            return edge_rate * windows.overlap
        lengths = windows.ranges * edge_rate
        return edge_rate * operations_per_edge(technique, lengths, np.ones(len(lengths)))


WORK = ("edges", "answers", "logarithms", "slices", "moves", "classes", "near", "steady")
# Techniques that are faster if the tree has one window, which is answered at every slice.
STEADY = frozenset({"flat_fit", "slick_deque", "slick_deque_inv", "r_int", "two_stacks", "daba", "subtract_on_evict"})
STRIDING = frozenset({"flat_fit"})  # those of STEADY that are also faster if it is answered at every n-th slice
# Techniques that move a window from its last position or from that of the last answered window, whichever is nearer.
NEAREST = frozenset({"slick_deque_inv", "subtract_on_evict"})
SAME = {"materialize_none": "panes"}


def work(technique: str, edge_rate: float, windows: WindowSums) -> tuple[float, ...]:
    """The work of a technique per unit, in the order of WORK. The measured curves are linear in these features.

    edges       slices that enter
    answers     distinct windows that are answered
    logarithms  sum over answers of log2 of the number of slices that the answer goes through
    slices      sum over answers of the number of slices of the window, less one
    moves       sum over windows of the slices that enter the window, or by which it is moved
    classes     slices that enter, for each class of widths
    near        answers of windows that move by one slice each time, if the technique is faster for these
    steady      slices that enter a tree of one window, if the technique is faster for it; all else is then 0
    """
    answers = windows.answers
    if not answers or edge_rate <= 0:
        return (edge_rate, *(0.0,) * (len(WORK) - 1))
    alone = windows.windows == 1
    if alone and technique in STEADY and (edge_rate <= 1.01 * answers or technique in STRIDING):
        return (*(0.0,) * (len(WORK) - 1), edge_rate)
    # Windows that end together are answered from the next shorter one. This is the mean distance of their starts.
    apart = max(1.0, windows.longest * edge_rate * windows.most_often / answers)
    logarithms = max(0.0, windows.logarithms + answers * math.log2(edge_rate))
    if technique == "b_int":  # a single window shares its slices with its own next positions
        logarithms = 0.0 if alone else min(logarithms, answers * math.log2(apart))
    moves, near = edge_rate * windows.moving, 0.0
    if technique in NEAREST:
        if edge_rate <= 1.01 * windows.most_often:
            near = edge_rate * windows.most_windows
            answers, moves = max(0.0, answers - near), max(0.0, moves - near)
        if answers and moves:  # slices in and out from its own last position, or from its neighbour, `apart` away
            moves = 1 / (1 / moves + 2 / (answers * apart))
    return (
        edge_rate,
        answers,
        logarithms,
        max(0.0, edge_rate * windows.overlap - answers),
        moves,
        edge_rate * windows.classes.bit_count(),
        near,
        0.0,
    )


@dataclass(frozen=True)
class Curve:
    """Nanoseconds for each part of WORK: for one group (`single`), and for several (`several` plus `each` per group).

    `call_ns` is the time of calling insert, answer and evict without any work.
    """

    single: tuple[float, ...]
    several: tuple[float, ...]
    each: tuple[float, ...]
    call_ns: float

    def of_groups(self, groups: float) -> tuple[float, ...]:
        if groups <= 1:
            return self.single
        return tuple(fixed + groups * each for fixed, each in zip(self.several, self.each, strict=True))


@dataclass(frozen=True)
class Figures:
    """The measurements of a machine, in nanoseconds. States are 'count', 'sum' and 'max' (see `state_of`)."""

    curves: Mapping[str, Mapping[str, Curve]]  # by state, then technique
    slot_ns: float  # a row, or a partial, finds its slice
    fold_ns: Mapping[str, float]  # by state: a row enters it
    intake_ns: Mapping[str, float]  # by state: a partial enters it
    report_ns: float  # the slices of a due report are found, and the queries with the same window
    result_ns: float  # a field of a result is delivered to its query


def state_of(kind: StateKind) -> str:
    """The measured state that costs about as much as this kind, by its fields and whether it is invertible."""
    if kind.algebra.invertible and not kind.float_fields:
        return "count" if kind.int_fields == 1 else "sum"
    return "max"


@dataclass(frozen=True)
class CalibratedModel(CostModel):
    """Costs in nanoseconds of our engine.

    `states`: the states of the queries, including the count of rows, which every tree has. `groups`: the number of
    groups of a slice and an answer. `pushes`: how often per unit rows come, so that all trees are called; 0 ignores
    calls. `row_count_by`: the technique that keeps the count of rows; None if it is that of the tree.
    """

    figures: Figures
    states: tuple[str, ...] = ("count", "max")
    groups: float = 1.0
    pushes: float = 0.0
    row_count_by: str | None = None
    _curves: dict[str, list[tuple[str, tuple[float, ...], float]]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def with_load(
        self, states: Iterable[str] | None = None, groups: float | None = None, pushes: float | None = None
    ) -> CalibratedModel:
        """The model of the same machine for other states, groups and pushes."""
        return replace(
            self,
            states=self.states if states is None else tuple(states),
            groups=self.groups if groups is None else max(1.0, groups),
            pushes=self.pushes if pushes is None else pushes,
        )

    def fold(self, rate: float) -> float:
        return rate * (self.figures.slot_ns + sum(self.figures.fold_ns[state] for state in self.states))

    def intake(self, composite_edge_rate: float) -> float:
        each = self.figures.slot_ns + sum(self.figures.intake_ns[state] for state in self.states)
        return composite_edge_rate * self.groups * each

    def tree_of(self, technique: str, edge_rate: float, windows: WindowSums) -> float:
        curves = self._curves.get(technique)
        if curves is None:
            curves = self._curves[technique] = [self._curve(technique, state) for state in self.states]
        return self.delivery(windows) + sum(self._kept(curve, edge_rate, windows) for curve in curves)

    def delivery(self, windows: WindowSums) -> float:
        """The cost of finding due reports and delivering their fields to the queries."""
        fields = self.groups * (len(self.states) + 1) * self.figures.result_ns
        return windows.results * (self.figures.report_ns + fields)

    def kept_by(self, technique: str, state: str, edge_rate: float, windows: WindowSums) -> float:
        """The cost of one state of a tree that a technique keeps."""
        return self._kept(self._curve(technique, state), edge_rate, windows)

    def _kept(self, how: tuple[str, tuple[float, ...], float], edge_rate: float, windows: WindowSums) -> float:
        technique, curve, call_ns = how
        done = work(technique, edge_rate, windows)
        return self.pushes * call_ns + sum(ns * amount for ns, amount in zip(curve, done, strict=True))

    def _curve(self, technique: str, state: str) -> tuple[str, tuple[float, ...], float]:
        """The technique that keeps a state in a tree of this technique, its curve, and the time of its calls."""
        measured = self.figures.curves[state]
        if state == "count" and self.row_count_by is not None:
            technique = self.row_count_by
        kept_by = SAME.get(technique, technique)
        if state != "max" and kept_by == "slick_deque":
            kept_by = "slick_deque_inv"
        if kept_by not in measured and state == "count":
            kept_by = "r_int"  # as in the engine, if the technique does not admit the count of rows
        if kept_by not in measured:
            raise ValueError(f"'{technique}' has no measured cost for a state of '{state}'")
        curve = measured[kept_by]
        return kept_by, curve.of_groups(self.groups), curve.call_ns


EACH_ITS_BEST = "each its best"


@dataclass(frozen=True)
class BestModel(CostModel):
    """A calibrated model in which each state of a tree has its cheapest technique. It prices only `EACH_ITS_BEST`.

    `admitted`: for each state of the queries, the techniques to choose from. A state may occur several times.
    """

    model: CalibratedModel
    admitted: tuple[tuple[str, tuple[str, ...]], ...]

    def fold(self, rate: float) -> float:
        return self.model.fold(rate)

    def intake(self, composite_edge_rate: float) -> float:
        return self.model.intake(composite_edge_rate)

    def tree_of(self, technique: str, edge_rate: float, windows: WindowSums) -> float:
        assert technique == EACH_ITS_BEST
        return self.model.delivery(windows) + sum(cost for cost, _ in self.best(edge_rate, windows))

    def best(self, edge_rate: float, windows: WindowSums) -> list[tuple[float, str]]:
        """For each state the least cost and its technique, the first among equals."""
        model = self.model
        return [
            min(
                ((model.kept_by(name, state, edge_rate, windows), name) for name in names),
                key=lambda found: found[0],
            )
            for state, names in self.admitted
        ]
