"""Measures the cost of techniques on this machine: small runs of the engine's calls, and curves fitted to them.

A run does what a push does to a tree: some slices enter (`insert_from`), all windows that are due are answered in one
call, ordered by end and then by length, and slices that no window needs are evicted:

    slices    |-|-|-|-|-|-|-|-|          a window (length 6, slide 2) is answered at every second slice,
    answered          |         |        in each call at the same places

The times of a technique for a few sets of windows are fitted to its work (`weave_costs.work`), by least relative
squares with weights that are not negative. One fit gives the costs of inserts, of answers, and the growth of answers
with their windows, because most techniques do the work of an insert when they answer. Time is processor time: the least
of a few turns of the longest window, in separate passes. The first turn of each pass is not counted, so that no
compilation is measured. The cost of calls is measured separately.

Cost: a few seconds in all, more if loops are not yet in the cache on disk. Imports Numba.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache

import numpy as np

from panewise.aggregates.columns import wrapped
from panewise.aggregates.matrix import NO_ARGUMENT, NO_INTS, Encoded, StateMatrix
from panewise.aggregates.states import COUNT, MAXIMUM, SUM_INTEGER, Feed, StateKind
from panewise.arrays import Floats, Ints
from panewise.optimize.sharing.costs.weave_costs import WORK, Curve, Figures, WindowSums, window_sums, work
from panewise.slicing.open_slices import OpenSlices
from panewise.synopses.synopsis import Synopsis
from panewise.synopses.techniques import TECHNIQUES

STATES: dict[str, StateKind] = {"count": COUNT, "sum": SUM_INTEGER, "max": MAXIMUM[Feed.FLOAT]}
# For each technique that a tree can have, the parts of WORK that take time.
PARTS: dict[str, tuple[str, ...]] = {
    "panes": ("edges", "answers", "slices"),
    "b_int": ("edges", "answers", "logarithms"),
    "flat_fat": ("edges", "answers", "logarithms"),
    "flat_fit": ("edges", "answers", "logarithms", "steady"),
    "slick_deque": ("edges", "answers", "moves", "steady"),
    "slick_deque_inv": ("edges", "answers", "moves", "near", "steady"),
    "r_int": ("edges", "answers", "logarithms", "steady"),
    "l_int": ("edges", "answers", "classes"),
    "two_stacks": ("edges", "answers", "moves", "steady"),
    "daba": ("edges", "answers", "moves", "steady"),
    "subtract_on_evict": ("edges", "answers", "moves", "near", "steady"),
}
SLICES = 2048  # slices that enter in a call with one group; every slide below divides it
SLICES_OF_GROUPS = 256  # slices that enter in a call with several groups
SEVERAL = (8, 64)  # numbers of groups of the runs with several groups
PASSES = 3
TURNS = 1
ROWS = 1 << 16  # rows of a fold


@dataclass(frozen=True)
class MeasuredWorkload:
    """The windows that a run answers. Lengths and slides are in slices."""

    lengths: tuple[int, ...]
    slides: tuple[int, ...]

    @classmethod
    def spread(cls, count: int, longest: int, slides: tuple[int, ...]) -> MeasuredWorkload:
        """`count` evenly spread lengths up to the longest, with the slides in turn."""
        lengths = tuple(-(-longest * (i + 1) // count) for i in range(count))
        return cls(lengths, tuple(itertools.islice(itertools.cycle(slides), count)))

    @property
    def sums(self) -> WindowSums:
        """The sums of the windows. The unit of the axis is a slice."""
        return window_sums(self.lengths, self.slides, np.ones(len(self.lengths)))

    @cache  # noqa: B019 - the sets of windows are few, and the same in all runs
    def due(self, slices: int) -> tuple[Ints, Ints, Ints]:
        """The starts, ends and windows of the answers of a call with `slices` slices, counted from its first slice."""
        asked = [
            (end, length, window)
            for window, (length, slide) in enumerate(zip(self.lengths, self.slides, strict=True))
            for end in range(slide, slices + 1, slide)
        ]
        ends, lengths, windows = np.array(sorted(asked), np.int64).T.copy()
        return ends - lengths, ends, windows


WORKLOADS = (
    MeasuredWorkload((64,), (1,)),
    MeasuredWorkload((1500,), (1,)),
    MeasuredWorkload((500,), (16,)),
    MeasuredWorkload((1500,), (2,)),
    MeasuredWorkload.spread(8, 500, (1, 2, 4)),
    MeasuredWorkload.spread(24, 1500, (4, 8, 16)),
    MeasuredWorkload.spread(96, 1500, (8, 32, 64)),
    MeasuredWorkload.spread(60, 1200, (1, 2, 4, 8, 16, 32, 64, 128)),
    MeasuredWorkload.spread(200, 1000, (64, 128)),
)
# With several groups runs take longer, and a few windows are enough.
WORKLOADS_OF_GROUPS = (
    MeasuredWorkload((64,), (1,)),
    MeasuredWorkload((500,), (16,)),
    MeasuredWorkload.spread(6, 200, (4, 8)),
    MeasuredWorkload.spread(16, 500, (16, 32)),
    MeasuredWorkload.spread(32, 250, (64, 128)),
)


class MeasuredRun:
    """A filled synopsis, and the arguments of its calls."""

    def __init__(self, synopsis: Synopsis, windows: MeasuredWorkload) -> None:
        self.synopsis, self.longest = synopsis, max(windows.lengths)
        random = np.random.default_rng(len(windows.lengths))
        self.slices = SLICES if synopsis.width == 1 else SLICES_OF_GROUPS
        slots, kind = self.slices * synopsis.width, synopsis.kind
        self.ints = random.integers(0, 2**31, (kind.int_fields, slots))
        self.floats = random.random((kind.float_fields, slots))
        self.rooms = np.arange(self.slices, dtype=np.int64)
        self.starts, self.ends, self.windows = windows.due(self.slices)
        self.alone = len(windows.lengths) == 1
        while synopsis.after < self.longest:
            self._insert()

    def _insert(self) -> None:
        self.synopsis.insert_from(self.ints, self.floats, self.rooms, NO_INTS)

    def call(self) -> float:
        """Does the work of one push and returns its nanoseconds."""
        synopsis, after = self.synopsis, self.synopsis.after
        starts, ends = self.starts + after, self.ends + after
        begin = time.thread_time_ns()
        self._insert()
        synopsis.answer(starts, ends, NO_INTS, None, None if self.alone else self.windows)
        synopsis.evict(synopsis.after - self.longest)
        return time.thread_time_ns() - begin


def least(call: Callable[[], float], turns: int) -> float:
    """The least result of some calls, after one that is not counted."""
    call()
    return min(call() for _ in range(turns))


def mean_call_ns(run: MeasuredRun, turns: int) -> float:
    """The mean time of a call in a turn, in which every slice of the longest window is replaced once.

    Rare work happens once a turn. The result is the least of several turns, after one that is not counted.
    """
    calls = -(-(run.longest + 1) // run.slices)
    return least(lambda: sum(run.call() for _ in range(calls)), turns) / calls


def timed(function: Callable[[], object]) -> Callable[[], float]:
    def call() -> float:
        begin = time.thread_time_ns()
        function()
        return time.thread_time_ns() - begin

    return call


def calling(technique: str, kind: StateKind, turns: int) -> float:
    """Nanoseconds of calling insert, answer and evict without any work."""
    synopsis = TECHNIQUES[technique].made(kind, 1)
    nothing = np.zeros((kind.int_fields, 1), np.int64), np.zeros((kind.float_fields, 1))
    synopsis.insert_from(*nothing, np.zeros(1, np.int64), NO_INTS)

    def calls() -> None:
        for _ in range(20):
            synopsis.insert_from(*nothing, NO_INTS, NO_INTS)
            synopsis.answer(NO_INTS, NO_INTS, NO_INTS, None, NO_INTS)
            synopsis.evict(0)

    return least(timed(calls), 4 * turns) / 20


def fitted(work_done: Floats, measured: Floats) -> Floats:
    """The weights of the columns of work, none of them negative, with the least sum of relative squares.

    The active-set method of Lawson and Hanson 1974, chapter 23: the column that reduces the error most enters, and
    columns whose weights would become negative leave.
    """
    relative, ones = work_done / measured[:, None], np.ones(len(measured))
    norms = np.linalg.norm(relative, axis=0)
    columns = relative / np.where(norms > 0, norms, 1.0)
    weights, used = np.zeros(columns.shape[1]), np.zeros(columns.shape[1], np.bool_)
    for _ in range(10 * len(weights)):
        gradient = np.where(used, -np.inf, columns.T @ (ones - columns @ weights))
        if gradient.max() <= 1e-9:
            break
        used[gradient.argmax()] = True
        while True:
            wanted = np.zeros(len(weights))
            wanted[used] = np.linalg.lstsq(columns[:, used], ones, rcond=None)[0]
            falling = used & (wanted <= 0)
            if not falling.any():
                break
            step = (weights[falling] / (weights[falling] - wanted[falling] + 1e-300)).min()
            weights = weights + step * (wanted - weights)
            used &= weights > 1e-12
        weights = wanted
    return weights / np.where(norms > 0, norms, 1.0)


def work_per_slice(technique: str, workloads: Iterable[MeasuredWorkload]) -> Floats:
    """The work per slice in each run, for the parts of WORK that take the technique's time."""
    places = [WORK.index(part) for part in PARTS[technique]]
    return np.array([np.array(work(technique, 1.0, windows.sums))[places] for windows in workloads])


def ns_per_slice(
    technique: str, kind: StateKind, width: int, workloads: Iterable[MeasuredWorkload], turns: int
) -> Floats:
    """The nanoseconds per slice in each run, including calls."""
    runs = (MeasuredRun(TECHNIQUES[technique].made(kind, width), windows) for windows in workloads)
    return np.array([mean_call_ns(run, turns) / run.slices for run in runs])


@dataclass(frozen=True)
class Scale:
    """How much to measure."""

    techniques: tuple[str, ...] = tuple(PARTS)
    workloads: tuple[MeasuredWorkload, ...] = WORKLOADS
    workloads_of_groups: tuple[MeasuredWorkload, ...] = WORKLOADS_OF_GROUPS
    passes: int = PASSES
    turns: int = TURNS


@dataclass
class Measurement:
    """The least times of a technique with a state over all passes. Passes are apart, so that few are disturbed."""

    technique: str
    kind: StateKind
    scale: Scale
    call_ns: float = np.inf

    def __post_init__(self) -> None:
        self.single = np.full(len(self.scale.workloads), np.inf)
        self.several = np.full((len(SEVERAL), len(self.scale.workloads_of_groups)), np.inf)

    def measure(self) -> None:
        """Measures one pass."""
        technique, kind, scale = self.technique, self.kind, self.scale
        self.call_ns = min(self.call_ns, calling(technique, kind, scale.turns))
        self.single = np.minimum(self.single, ns_per_slice(technique, kind, 1, scale.workloads, scale.turns))
        several = [ns_per_slice(technique, kind, width, scale.workloads_of_groups, scale.turns) for width in SEVERAL]
        self.several = np.minimum(self.several, np.array(several))

    def curve(self) -> Curve:
        """The curve: a fit for one group, and a fit for several with a fixed cost and a cost per group."""
        name = self.technique
        single = fitted(work_per_slice(name, self.scale.workloads), self._without_calls(self.single, SLICES))
        done = work_per_slice(name, self.scale.workloads_of_groups)
        by_width = np.concatenate([np.concatenate((done, width * done), axis=1) for width in SEVERAL])
        several = self._without_calls(self.several, SLICES_OF_GROUPS).reshape(-1)
        fixed, each = np.split(fitted(by_width, several), 2)
        return Curve(_by_work(name, single), _by_work(name, fixed), _by_work(name, each), self.call_ns)

    def _without_calls(self, taken: Floats, slices: int) -> Floats:
        """The times without calls. At least a tenth is left, because a run may cost hardly more than its calls."""
        result: Floats = np.maximum(taken / 10, taken - self.call_ns / slices)
        return result


def _by_work(technique: str, weights: Floats) -> tuple[float, ...]:
    named = dict(zip(PARTS[technique], weights.tolist(), strict=True))
    return tuple(named.get(part, 0.0) for part in WORK)


def measure(scale: Scale | None = None) -> Figures:
    """All figures of this machine. They always include the count of rows by `r_int`."""
    scale = scale or Scale()
    wanted = list(dict.fromkeys((*scale.techniques, "r_int")))
    runs = {
        name: {
            technique: Measurement(technique, kind, scale)
            for technique in wanted
            if TECHNIQUES[technique].refusal(kind) is None and not (technique == "slick_deque" and kind.int_fields)
        }
        for name, kind in STATES.items()
    }
    for _ in range(scale.passes):
        for by_technique in runs.values():
            for measured in by_technique.values():
                measured.measure()
    curves = {name: {by: each.curve() for by, each in by_technique.items()} for name, by_technique in runs.items()}
    turns = max(3, scale.turns)
    slot_ns, fold_ns = folding(turns)
    return Figures(curves, slot_ns, fold_ns, intake(turns), *delivery(turns))


def folding(turns: int) -> tuple[float, dict[str, float]]:
    """The nanoseconds for a row to find its slice, and to enter each state."""
    open_slices = OpenSlices(1)
    open_slices.set_edges({"epochs": [-(2**63)], "firsts": [0, 1], "slides": [1000], "phases": [0]})
    points = np.arange(ROWS, dtype=np.int64)
    slot_ns = least(timed(lambda: open_slices.assign(points, NO_INTS)), turns) / ROWS
    slots = open_slices.assign(points, NO_INTS).copy()
    random = np.random.default_rng(1)
    arguments = {
        Feed.PRESENCE: NO_ARGUMENT,
        Feed.INTEGER: Encoded(random.integers(-(2**40), 2**40, ROWS), NO_ARGUMENT.valid),
        Feed.FLOAT: Encoded(random.random(ROWS), NO_ARGUMENT.valid),
    }
    each = {}
    for name, kind in STATES.items():
        matrix, argument = StateMatrix(kind, open_slices.slots), [arguments[kind.feeds[0]]]
        fold = timed(lambda matrix=matrix, argument=argument: matrix.fold(slots, argument, points, NO_INTS, NO_INTS))  # type: ignore[misc]
        each[name] = least(fold, turns) / ROWS
    return slot_ns, each


def intake(turns: int, partials: int = 4096) -> dict[str, float]:
    """The nanoseconds for a partial to enter a slice: held states are copied out, combined in one run and put back."""
    slots = np.arange(partials, dtype=np.int64)
    each = {}
    for name, kind in STATES.items():
        held, newer = StateMatrix(kind, partials), StateMatrix(kind, partials)

        def absorb(held: StateMatrix = held, newer: StateMatrix = newer, kind: StateKind = kind) -> None:
            taken = StateMatrix(kind, 0)
            taken.ints, taken.floats = np.take(held.ints, slots, axis=1), np.take(held.floats, slots, axis=1)
            taken.combine(0, newer, 0, partials, NO_INTS)
            for target, source in ((held.ints, taken.ints), (held.floats, taken.floats)):
                for place, row in enumerate(source):
                    target[place][slots] = row

        each[name] = least(timed(absorb), turns) / partials
    return each


def delivery(turns: int, results: int = 4096) -> tuple[float, float]:
    """The nanoseconds of a due report, and of a field of a result, from the answers to columns.

    Only array operations of the engine are measured. The costs of HAVING and of the items belong to each query.
    """
    edges = np.arange(0, 64 * results, 64, dtype=np.int64)
    random = np.random.default_rng(2)
    due = np.sort(random.integers(results, 64 * results, results))
    reaches, values = random.integers(64, 4096, results), random.random(results)
    owners, places = np.arange(results), random.permutation(results)

    def report() -> None:
        last = due[owners]
        ends, starts = np.searchsorted(edges, last), np.searchsorted(edges, last - reaches[owners])
        np.unique(ends * (len(edges) + 2) - starts, return_index=True, return_inverse=True)

    def take() -> None:
        wrapped(values[places])

    return least(timed(report), turns) / results, least(timed(take), turns) / results
