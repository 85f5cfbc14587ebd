"""The values of closed slices: exact bags, top-k lists of sub-windows, or sketches.

There is one object per held state. It gets the run of every closed slice, in time order, and answers statistics over
windows of slice numbers; each field of an answer has shape (windows, groups). For costs, see the structures below:
`synopses/values/bags.py`, `synopses/values/frequent.py`, `synopses/values/sketches.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from panewise.aggregates.holistic import HeldKind, Statistic, StatisticKind, Structure, SubWindows
from panewise.aggregates.states import Feed
from panewise.aggregates.string_pool import StringPool
from panewise.arrays import Floats, Ints
from panewise.language.expressions import Expression
from panewise.synopses.values.bags import BagSynopsis
from panewise.synopses.values.frequent import FrequentSynopsis
from panewise.synopses.values.runs import Run, floats_of, merged
from panewise.synopses.values.sketches import SketchSynopsis

Fields = tuple[NDArray[Any], NDArray[Any]]  # int64 (or list) fields, and float64 fields
_NO_FIELDS: Floats = np.empty((0, 0, 0))
# Names of the structures, for EXPLAIN.
STRUCTURES = {
    Structure.BAG: "BagSynopsis",
    Structure.FREQUENT: "FrequentSynopsis",
    Structure.HLL: "SketchSynopsis (hll)",
    Structure.KLL: "SketchSynopsis (kll)",
    Structure.ITEMS: "SketchSynopsis (frequent)",
}


class ClosedValues(Protocol):
    """The contract of a structure that holds the values of closed slices for one state."""

    def insert(self, runs: list[Run], starts: Ints) -> None:
        """Appends slices, oldest first, which begin at these points."""

    def evict(self, before: int) -> None: ...

    def answer(self, kind: StatisticKind, starts: Ints, ends: Ints, groups: Ints) -> Fields: ...

    def regroup(self, renamed: Ints) -> None: ...

    def codes(self) -> list[Ints]:
        """The codes of the strings held, in any order; a code may occur several times."""

    def recode(self, renamed: Ints) -> None: ...

    def snapshot(self) -> dict[str, Any]: ...

    def restore(self, snapshot: dict[str, Any]) -> None: ...

    @property
    def bytes_held(self) -> int: ...


def closed_values(
    kind: HeldKind, argument: Expression, pools: dict[Expression, StringPool], first: int
) -> ClosedValues:
    """An empty structure for a kind; its first slice will be number `first`."""
    feed = kind.feeds[0]
    pool = pools.setdefault(argument, StringPool()) if feed is Feed.CODE else None
    match kind.structure:
        case Structure.BAG:
            return ExactValues(feed, pool, first)
        case Structure.FREQUENT:
            assert kind.sub_windows is not None
            return FrequentValues(kind.k, kind.sub_windows, feed, pool, first)
        case _:
            return SketchedValues(kind.structure, feed, pool, first)


def exact_parts(fraction: float, totals: Ints) -> tuple[Ints, Floats]:
    """The integral part of fraction * total and the rest, in decimal arithmetic: 0.29 of 100 is 29, not 28.99...

    >>> [part.tolist() for part in exact_parts(0.29, np.array([100, 10]))]
    [[29, 2], [0.0, 0.9]]
    """
    exact = Fraction(repr(float(fraction)))
    above, below = exact.numerator, exact.denominator
    greatest = int(totals.max(initial=0))
    if above * greatest < 2**63 and below < 2**63:
        whole, rest = np.divmod(totals * above, below)
        return whole, rest / below
    distinct, places = np.unique(totals, return_inverse=True)
    pairs = [divmod(above * int(total), below) for total in distinct]
    whole = np.array([pair[0] for pair in pairs], np.int64)[places].reshape(totals.shape)
    rest = np.array([pair[1] / below for pair in pairs])[places].reshape(totals.shape)
    return whole, rest


def lists_of(offsets: Ints, values: Sequence[Any], counts: Ints, shape: tuple[int, int]) -> Fields:
    """Pairs as one field: per answer and group a list of values and a list of counts; None if there are no values."""
    found = np.full(len(offsets) - 1, None, np.object_)
    numbers = counts.tolist()
    for i in np.flatnonzero(np.diff(offsets)):
        begin, end = offsets[i], offsets[i + 1]
        found[i] = values[begin:end], numbers[begin:end]
    return found.reshape(1, *shape), _NO_FIELDS


def _shown(values: Ints, feed: Feed, pool: StringPool | None) -> list[Any]:
    """Keys as Python values: strings, doubles, or integers for all other types."""
    if feed is Feed.CODE:
        assert pool is not None
        found: list[Any] = pool.strings(values).to_pylist() if len(values) else []
        return found
    return list(floats_of(values).tolist() if feed is Feed.FLOAT else values.tolist())


def _order(pool: StringPool | None) -> Ints | None:
    return None if pool is None else pool.ranks()


class ExactValues:
    """All values, exactly (B-INT-QNT)."""

    def __init__(self, feed: Feed, pool: StringPool | None, first: int) -> None:
        self._feed, self._pool = feed, pool
        self._bag = BagSynopsis()
        self._shift = first  # slice number `first` of the store is slice 0 here

    def insert(self, runs: list[Run], starts: Ints) -> None:
        self._bag.insert(runs)

    def evict(self, before: int) -> None:
        self._bag.evict(before - self._shift)

    def answer(self, kind: StatisticKind, starts: Ints, ends: Ints, groups: Ints) -> Fields:
        starts, ends = starts - self._shift, ends - self._shift
        if kind.statistic is Statistic.DISTINCT:
            return self._bag.distinct(starts, ends, groups)[None], _NO_FIELDS
        if kind.statistic is Statistic.TOP:
            offsets, values, counts = self._bag.top(starts, ends, groups, int(kind.parameter), _order(self._pool))
            return lists_of(offsets, _shown(values, self._feed, self._pool), counts, (len(starts), len(groups)))
        totals = self._bag.totals(starts, ends, groups)
        if kind.statistic is Statistic.CONTINUOUS:
            return totals[None], self._between(kind.parameter, totals, starts, ends, groups)[None]
        ranks, rest = exact_parts(kind.parameter, totals)
        if kind.statistic is Statistic.DISCRETE:
            ranks = ranks + (rest > 0)
        values = self._bag.ranked(starts, ends, groups, np.maximum(ranks, 1))
        if self._feed is Feed.FLOAT:
            return totals[None], floats_of(values)[None]
        return np.stack([values, totals]), _NO_FIELDS

    def _between(self, fraction: float, totals: Ints, starts: Ints, ends: Ints, groups: Ints) -> Floats:
        """Interpolates between the values around rank 1 + fraction * (total - 1)."""
        below, rest = exact_parts(fraction, np.maximum(totals - 1, 0))
        low = self._numbers(self._bag.ranked(starts, ends, groups, below + 1))
        if not rest.any():
            return low
        high = self._numbers(self._bag.ranked(starts, ends, groups, np.where(rest > 0, below + 2, below + 1)))
        with np.errstate(invalid="ignore"):
            # low + rest * (high - low) is wrong: the difference of infinities is NaN, that of large numbers overflows.
            return np.where(low == high, low, low * (1 - rest) + high * rest)

    def _numbers(self, keys: Ints) -> Floats:
        return floats_of(keys) if self._feed is Feed.FLOAT else keys.astype(np.float64)

    def regroup(self, renamed: Ints) -> None:
        self._bag.regroup(renamed)

    def codes(self) -> list[Ints]:
        return [run.values for run in self._bag.held()]

    def recode(self, renamed: Ints) -> None:
        self._bag.recode(renamed)

    def snapshot(self) -> dict[str, Any]:
        return {"bag": self._bag.snapshot(), "shift": self._shift}

    def restore(self, snapshot: dict[str, Any]) -> None:
        self._bag.restore(snapshot["bag"])
        self._shift = snapshot["shift"]

    @property
    def bytes_held(self) -> int:
        return self._bag.bytes_held


class FrequentValues:
    """The k most frequent values of every sub-window and group (algorithm 6).

    The family may cut finer slices for other queries. Slices of a sub-window wait until the next sub-window begins, or
    until a window that contains them is asked for: such a window ends where a sub-window ends.

        slices        | 4 | 5 | 6 | 7 | 8 |
        sub-windows   |   2   |   3   | 4 ...          _of_slice: 2 2 3 3 4, waiting: slice 8
    """

    def __init__(self, k: int, cut: SubWindows, feed: Feed, pool: StringPool | None, first: int) -> None:
        self._cut, self._feed, self._pool = cut, feed, pool
        self._lists = FrequentSynopsis(k)
        self._first = first
        self._of_slice: Ints = np.empty(0, np.int64)  # the number of the sub-window of each slice held
        self._waiting: list[Run] = []  # the slices of the sub-window numbered `_lists.after`, while it is not complete
        self._begins: int | None = None  # where the sub-window of the newest slice begins

    def insert(self, runs: list[Run], starts: Ints) -> None:
        numbers = []
        for run, begins in zip(runs, self._cut.starts_of(starts).tolist(), strict=True):
            if begins != self._begins:
                self._complete()
                self._begins = begins
            self._waiting.append(run)
            numbers.append(self._lists.after)
        self._of_slice = np.concatenate([self._of_slice, np.array(numbers, np.int64)])

    def _complete(self) -> None:
        if self._waiting:
            whole = merged(self._waiting)
            self._lists.insert([whole if self._pool is None else _leading(whole, self._pool.ranks(), self._lists.k)])
            self._waiting = []

    def evict(self, before: int) -> None:
        gone = before - self._first
        self._of_slice = self._of_slice[gone:]
        self._first = before
        # A sub-window stays as long as one of its slices.
        held = int(self._of_slice[0]) if len(self._of_slice) else self._lists.after
        self._lists.evict(min(held, self._lists.after))

    def answer(self, kind: StatisticKind, starts: Ints, ends: Ints, groups: Ints) -> Fields:
        first, after = self._spans(starts, ends)
        if self._waiting and int(after.max(initial=0)) > self._lists.after:
            self._complete()
        offsets, values, counts = self._lists.report(first, after, groups, _order(self._pool))
        shown = _shown(values, self._feed, self._pool)
        return lists_of(offsets, shown, counts, (len(starts), len(groups)))

    def _spans(self, starts: Ints, ends: Ints) -> tuple[Ints, Ints]:
        """Converts windows of slices to windows of sub-windows."""
        if not len(self._of_slice):
            nothing = np.full(len(starts), self._lists.after)
            return nothing, nothing
        last = len(self._of_slice) - 1
        first = self._of_slice[np.clip(starts - self._first, 0, last)]
        after = self._of_slice[np.clip(ends - 1 - self._first, 0, last)] + 1
        return first, np.where(ends > starts, after, first)

    def regroup(self, renamed: Ints) -> None:
        self._lists.regroup(renamed)
        self._waiting = [regrouped(run, renamed) for run in self._waiting]

    def codes(self) -> list[Ints]:
        return [run.values for run in (*self._lists.held()[0], *self._waiting)]

    def recode(self, renamed: Ints) -> None:
        self._lists.recode(renamed)
        self._waiting = [recoded(run, renamed) for run in self._waiting]

    def snapshot(self) -> dict[str, Any]:
        return {
            "lists": self._lists.snapshot(),
            "first": self._first,
            "of_slice": self._of_slice,
            "waiting": [[run.groups, run.values, run.counts] for run in self._waiting],
            "begins": self._begins,
        }

    def restore(self, snapshot: dict[str, Any]) -> None:
        self._lists.restore(snapshot["lists"])
        self._first, self._begins = snapshot["first"], snapshot["begins"]
        self._of_slice = snapshot["of_slice"].copy()
        self._waiting = [Run(*(part.copy() for part in parts)) for parts in snapshot["waiting"]]

    @property
    def bytes_held(self) -> int:
        waiting = sum(run.bytes_held for run in self._waiting)
        return self._lists.bytes_held + self._of_slice.nbytes + waiting


def _leading(run: Run, ranks: Ints, k: int) -> Run:
    """The k most frequent strings of each group. Ties are broken by the strings: codes differ between processes."""
    order = np.lexsort((ranks[run.values], -run.counts, run.groups))
    groups = run.groups[order]
    place = np.arange(len(order)) - np.searchsorted(groups, groups, side="left")
    kept = np.sort(order[place < k])
    return Run(run.groups[kept], run.values[kept], run.counts[kept])


def regrouped(run: Run, renamed: Ints) -> Run:
    """A run with renumbered groups, in the same order; groups with the new number -1 are dropped."""
    groups = renamed[run.groups]
    kept = groups >= 0
    return Run(groups[kept], run.values[kept], run.counts[kept])


def recoded(run: Run, renamed: Ints) -> Run:
    """A run with new codes, sorted by them."""
    values = renamed[run.values]
    order = np.lexsort((values, run.groups))
    return Run(run.groups[order], values[order], run.counts[order])


_SKETCHES = {Structure.HLL: "hll", Structure.KLL: "kll", Structure.ITEMS: "frequent"}


class SketchedValues:
    """A sketch per slice and group. Sketches hold hashes or strings, never codes."""

    def __init__(self, structure: Structure, feed: Feed, pool: StringPool | None, first: int) -> None:
        self._structure, self._feed, self._pool = structure, feed, pool
        self._sketches = SketchSynopsis(_SKETCHES[structure])
        self._shift = first  # slice number `first` of the store is slice 0 here

    def insert(self, runs: list[Run], starts: Ints) -> None:
        self._sketches.insert([self._sketches.made_from(run, self._values(run)) for run in runs])

    def _values(self, run: Run) -> Any:
        if self._feed is Feed.CODE:
            assert self._pool is not None
            return self._pool.strings(run.values).to_pylist() if len(run) else []
        if self._feed is Feed.FLOAT:
            return floats_of(run.values)
        return run.values.astype(np.float64) if self._structure is Structure.KLL else run.values

    def evict(self, before: int) -> None:
        self._sketches.evict(before - self._shift)

    def answer(self, kind: StatisticKind, starts: Ints, ends: Ints, groups: Ints) -> Fields:
        starts, ends = starts - self._shift, ends - self._shift
        if kind.statistic is Statistic.ABOUT_DISTINCT:
            return np.rint(self._sketches.estimate(starts, ends, groups)).astype(np.int64)[None], _NO_FIELDS
        if kind.statistic is Statistic.ABOUT_QUANTILE:
            about = self._sketches.quantile(starts, ends, groups, float(kind.parameter))
            return np.empty((0, *about.shape), np.int64), about[None]
        offsets, values, counts = self._sketches.top(starts, ends, groups, int(kind.parameter))
        return lists_of(offsets, values, counts, (len(starts), len(groups)))

    def regroup(self, renamed: Ints) -> None:
        self._sketches.regroup(renamed)

    def codes(self) -> list[Ints]:
        return []

    def recode(self, renamed: Ints) -> None:
        """Nothing to do: sketches hold no codes."""

    def snapshot(self) -> dict[str, Any]:
        return {"sketches": self._sketches.snapshot(), "shift": self._shift}

    def restore(self, snapshot: dict[str, Any]) -> None:
        self._sketches.restore(snapshot["sketches"])
        self._shift = snapshot["shift"]

    @property
    def bytes_held(self) -> int:
        return self._sketches.bytes_held
