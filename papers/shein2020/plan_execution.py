"""Executes a woven plan with the compiled synopses, as fast as it goes.

    WeaveShare   rows -> [tree: fold into its slices -> insert, answer, evict]                        for every tree
    TriWeave     rows -> fold into composite slices -> [tree: intake -> insert, answer, evict]

Rows come one per unit of the axis, in pushes of a whole number of periods of all slides, so that the same windows
come due in every push, at places that are computed once. Time is processor time, after pushes that do not count: the
windows are full from the beginning, and everything is compiled. Finding the slices of due windows and bringing
results to their queries are no part of it, and no part of the estimates that it is compared with.

Source: Shein and Chrysanthis 2020, section 5.3, experiments 6 and 7.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import lcm
from time import process_time

import numpy as np

from panewise.aggregates.kernels import combine_run
from panewise.aggregates.matrix import NO_ARGUMENT, NO_INTS, Encoded, StateMatrix
from panewise.aggregates.states import MAXIMUM, SUM_INTEGER, Feed, StateKind
from panewise.arrays import Floats, Ints
from panewise.loops import compiled_loop
from panewise.optimize.sharing.costs.measuring import (
    WORKLOADS,
    WORKLOADS_OF_GROUPS,
    MeasuredWorkload,
    Measurement,
    Scale,
)
from panewise.optimize.sharing.costs.weave_costs import CalibratedModel
from panewise.optimize.sharing.weave.weaving import Weave, WovenTree
from panewise.slicing.pairs import Cadence, edge_classes
from panewise.synopses.counting import loop_for
from panewise.synopses.single_states import slot_loops
from panewise.synopses.techniques import technique_named

PUSH_LEAST = 8000  # units
FILLED_AT_ONCE = 1 << 16
PARTS = 5
PUT_OFF = frozenset({"flat_fit", "slick_deque", "slick_deque_inv"})  # techniques whose work is not even
LONG_WORKLOADS = (
    MeasuredWorkload.spread(6, 9_000, (1,)),
    MeasuredWorkload.spread(40, 9_000, (1, 2, 4, 8, 16, 32, 64)),
    MeasuredWorkload.spread(40, 100_000, (1, 2, 4, 8, 16, 32, 64)),
    MeasuredWorkload.spread(80, 400_000, (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)),
)


def state_of(technique: str) -> str:
    """SUM for the technique that takes slices away again, else MAX, as in the paper."""
    return "sum" if technique == "slick_deque_inv" else "max"


def kind_of(technique: str) -> StateKind:
    return SUM_INTEGER if state_of(technique) == "sum" else MAXIMUM[Feed.FLOAT]


def model_of(calibrated: CalibratedModel, technique: str, push: int) -> CalibratedModel:
    """The machine's model for what is executed here: one state, one group, calls for every push, no delivery."""
    figures = replace(calibrated.figures, report_ns=0.0, result_ns=0.0)
    return replace(calibrated, figures=figures).with_load(states=(state_of(technique),), groups=1, pushes=1 / push)


def push_of(cadences: Sequence[Cadence]) -> int:
    """Units of a push: whole periods."""
    period = lcm(*(cadence.slide for cadence in cadences))
    return period * -(-PUSH_LEAST // period)


@compiled_loop
def _absorb(
    operation: int, ints: Ints, floats: Floats, slots: Ints, newer_ints: Ints, newer_floats: Floats, rooms: Ints,
    ranks: Ints,
) -> None:  # fmt: skip
    """The partials in these rooms enter the slots, one after the other: several may enter one."""
    for k in range(slots.shape[0]):
        combine_run(operation, ints, floats, slots[k], newer_ints, newer_floats, rooms[k], 1, ranks)


@compiled_loop
def _assign(points: Ints, begin: int, period: int, edges: Ints, slots: Ints) -> None:
    """The slot of each point, which come in order: how many edges lie between `begin`, which is one, and the point."""
    place, base, slot = 0, begin, 0
    for k in range(points.shape[0]):
        while True:
            after = base + (edges[place + 1] if place + 1 < edges.shape[0] else period)
            if points[k] < after:
                break
            slot, place = slot + 1, place + 1
            if place == edges.shape[0]:
                place, base = 0, after
        slots[k] = slot


class _Slices:
    """The slices of a push, cut at the edges of some windows, and their states; a push begins and ends at an edge."""

    def __init__(self, kind: StateKind, cadences: Sequence[Cadence], push: int) -> None:
        self._period = lcm(*(cadence.slide for cadence in cadences))
        classes = zip(*(column.tolist() for column in edge_classes(cadences)), strict=True)
        self._edges = np.unique(np.concatenate([np.arange(phase, self._period, slide) for slide, phase in classes]))
        self.count = int(self.number(np.array([push]))[0])
        self.states = StateMatrix(kind, self.count)
        self.rooms = np.arange(self.count, dtype=np.int64)
        self.starts = (self._edges + self._period * np.arange(push // self._period)[:, None]).reshape(-1)
        self._slots = np.empty(push, np.int64)
        self._absorb = loop_for(_absorb, kind, False, **slot_loops(kind))

    def number(self, points: Ints) -> Ints:
        """How many slices end between 0 and a point that is an edge."""
        periods, rest = np.divmod(points, self._period)
        return np.asarray(periods * len(self._edges) + np.searchsorted(self._edges, rest))

    def point(self, number: int) -> int:
        """The edge that so many slices end at or before, counted from 0."""
        periods, place = divmod(number, len(self._edges))
        return int(periods * self._period + self._edges[place])

    def _assigned(self, points: Ints, begin: int) -> Ints:
        slots = self._slots[: len(points)]
        _assign(points, begin, self._period, self._edges, slots)
        return slots

    def fold(self, points: Ints, values: Encoded, begin: int) -> None:
        self.states.fold(self._assigned(points, begin), [values], points, NO_INTS, NO_INTS)

    def take_in(self, composite: _Slices, begin: int) -> None:
        slots = self._assigned(composite.starts + begin, begin)
        states, newer = self.states, composite.states
        operation = int(states.kind.operation)
        self._absorb(operation, states.ints, states.floats, slots, newer.ints, newer.floats, composite.rooms, NO_INTS)

    def forget(self) -> None:
        self.states.reset_rooms(self.rooms, 1)


class _ExecutedTree:
    """A tree of the plan: its slices, its synopsis, and which windows come due in a push."""

    def __init__(self, kind: StateKind, technique: str, cadences: Sequence[Cadence], push: int) -> None:
        self.slices = _Slices(kind, cadences, push)
        self.synopsis = technique_named(technique).made(kind, 1)
        self._alone = len(set(cadences)) == 1
        self.longest = max(cadence.range or 0 for cadence in cadences)
        self.results, self.starts, self.ends, self._windows = self._due(cadences, push)
        self._due_starts, self._due_ends = np.empty_like(self.starts), np.empty_like(self.ends)
        self._held = -int(self.starts.min())
        self._fill(kind, self._held)

    def _due(self, cadences: Sequence[Cadence], push: int) -> tuple[int, Ints, Ints, Ints]:
        """The results of a push, and the distinct windows in slices of it, by end and shortest first."""
        owners = np.repeat(np.arange(len(cadences)), [push // cadence.slide for cadence in cadences])
        due = np.concatenate([np.arange(cadence.slide, push + 1, cadence.slide) for cadence in cadences])
        reach = np.array([cadence.range for cadence in cadences], np.int64)[owners]
        ends, starts = self.slices.number(due), self.slices.number(due - reach)
        order = np.lexsort((-starts, ends))
        ends, starts, owners = ends[order], starts[order], owners[order]
        first = np.append(True, (np.diff(ends) != 0) | (np.diff(starts) != 0))
        return len(due), starts[first], ends[first], owners[first]

    def _fill(self, kind: StateKind, held: int) -> None:
        """All slices that the first windows reach back to."""
        room = min(held, FILLED_AT_ONCE)
        states, slots = StateMatrix(kind, room), np.arange(room, dtype=np.int64)
        states.fold(slots, [random_values(kind, room, 1)], slots, NO_INTS, NO_INTS)
        for count in [room] * (held // room) + [held % room]:
            self.synopsis.insert_from(states.ints, states.floats, slots[:count], NO_INTS)

    def find_due(self) -> None:
        """The slices of the windows that come due in the next push: not timed, see above."""
        after = self.synopsis.after
        np.add(self.starts, after, out=self._due_starts)
        np.add(self.ends, after, out=self._due_ends)

    def push(self) -> tuple[Ints, Floats]:
        """The slices enter, what is due is answered, and what nobody needs any more is evicted."""
        slices = self.slices
        self.synopsis.insert_from(slices.states.ints, slices.states.floats, slices.rooms, NO_INTS)
        slices.forget()
        windows = None if self._alone else self._windows
        answers = self.synopsis.answer(self._due_starts, self._due_ends, NO_INTS, None, windows)
        self.synopsis.evict(self.synopsis.after - self._held)
        return answers


def random_values(kind: StateKind, count: int, seed: int) -> Encoded:
    random = np.random.default_rng(seed)
    values = random.random(count) if kind.float_fields else random.integers(-(2**40), 2**40, count)
    return Encoded(values, NO_ARGUMENT.valid)


@dataclass(frozen=True)
class MeasuredPlan:
    """Results a second of processor time."""

    results_per_s: float
    pushes: int


class ExecutedPlan:
    """A plan of one technique; `shared`: rows are folded once, into composite slices."""

    def __init__(self, plan: Weave, technique: str, cadences: Sequence[Cadence], shared: bool) -> None:
        kind = kind_of(technique)
        self.push_units = push_of(cadences)
        self.trees = [_ExecutedTree(kind, technique, _members(tree, cadences), self.push_units) for tree in plan.trees]
        # One tree's slices are the composite ones: nothing is to be taken in.
        self._composite = _Slices(kind, cadences, self.push_units) if shared and len(plan.trees) > 1 else None
        self._values = random_values(kind, self.push_units, 2)
        self._now = 0
        self._puts_off = technique in PUT_OFF
        self.spent = 0.0  # processor seconds
        self.results = sum(tree.results for tree in self.trees)  # of a push

    def push(self) -> list[tuple[Ints, Floats]]:
        """The answers of every tree; `spent` grows by the seconds from the fold of the rows to the eviction."""
        first = self._now
        points = np.arange(first, first + self.push_units, dtype=np.int64)
        self._now += self.push_units
        for tree in self.trees:
            tree.find_due()
        begin = process_time()
        if self._composite is None:
            for tree in self.trees:
                tree.slices.fold(points, self._values, first)
        else:
            self._composite.fold(points, self._values, first)
            for tree in self.trees:
                tree.slices.take_in(self._composite, first)
            self._composite.forget()
        answers = [tree.push() for tree in self.trees]
        self.spent += process_time() - begin
        return answers

    def measured(self, seconds: float) -> MeasuredPlan:
        """The best of several parts, as calibration takes the least of its turns, after two pushes that do not count.

        A part takes its share of the seconds, or one push where that takes longer. Some techniques put work off: of
        these a part is no shorter than the time in which every slice of the longest window is replaced, and two do.
        """
        for _ in range(2):
            self.push()
        turn = max(tree.longest for tree in self.trees) // self.push_units + 1 if self._puts_off else 1
        best, pushed = 0.0, 0
        for _ in range(2 if turn > PARTS else PARTS):
            self.spent, pushes = 0.0, 0
            while self.spent < seconds / PARTS or pushes < turn:
                self.push()
                pushes += 1
            best, pushed = max(best, self.results * pushes / self.spent), pushed + pushes
        return MeasuredPlan(best, pushed)


def calibrated_with_long_windows(machine: CalibratedModel) -> CalibratedModel:
    """The same machine, with curves of the techniques here that were fitted to long windows too.

    The calibration that a machine keeps takes few seconds and windows of up to 1,500 slices. These plans have windows
    of millions, whose partials are in no cache. Panes, which goes through all of them, is measured well by short ones.
    """
    scale = Scale(workloads=(*WORKLOADS, *LONG_WORKLOADS), workloads_of_groups=WORKLOADS_OF_GROUPS[:2])
    curves = {state: dict(by_technique) for state, by_technique in machine.figures.curves.items()}
    for technique in ("flat_fat", "flat_fit", "slick_deque_inv", "slick_deque"):
        run = Measurement(technique, kind_of(technique), scale)
        for _ in range(2):
            run.measure()
        curves[state_of(technique)][technique] = run.curve()
    return replace(machine, figures=replace(machine.figures, curves=curves))


def _members(tree: WovenTree, cadences: Sequence[Cadence]) -> list[Cadence]:
    return [cadences[member] for member in tree.members]
