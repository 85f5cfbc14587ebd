"""Pools of windows as Patroumpas and Sellis 2011, section 5, draw them, and what answers them timestamp by timestamp.

A timestamp is a slice. Every structure takes the rows of one in (`take`) and then answers the windows that are due
(`answer`): the stairwise structure, one per group of subsumed windows, where only the windows of the chains are asked
for and the piggybacked take their hosts' answers; one synopsis that all windows share; or one structure per window,
each of which reads the rows for itself. All answer what `Truth` does, which looks at the rows alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import process_time
from typing import Protocol, cast

import numpy as np
from numpy.typing import NDArray

from panewise.aggregates.states import COUNT, MAXIMUM, Feed, StateKind
from panewise.arrays import Ints
from panewise.slicing.pairs import Cadence
from panewise.synopses.synopsis import Synopsis
from panewise.synopses.values.distinct_counts import DistinctCounts
from panewise.synopses.windows.interval import IntervalSynopsis
from panewise.synopses.windows.running import RunningSynopsis
from panewise.synopses.windows.stairs import Stairs
from panewise.synopses.windows.two_stacks import TwoStacks
from papers.patroumpas2011.stairs_distinct import StairsDistinct
from papers.patroumpas2011.subsumption import ChainGrouping, subsume

NO_RANKS = np.empty(0, np.int64)
ONE_GROUP = np.zeros(1, np.int64)
RANGE_MAX = 60
HOSTS = 4096  # different values of the rows; few are frequent, as among the hosts of the paper's connections
# A count adds up int64 numbers, and so is the SUM of the paper.
KINDS: dict[str, StateKind] = {"SUM": COUNT, "MAX": MAXIMUM[Feed.INTEGER]}
FOLDS: dict[str, Callable[[Ints], int]] = {"SUM": lambda rows: int(rows.sum()), "MAX": lambda rows: int(rows.max())}


@dataclass(frozen=True)
class Pool:
    """Windows by range, then slide, in timestamps."""

    ranges: Ints
    slides: Ints

    @classmethod
    def drawn(cls, slide_max: int, count: int, whole: bool = True, seed: int = 2) -> Pool:
        """Slides of 1 to the greatest, longer ranges of up to 60: multiples of the slide, or (not `whole`) any."""
        random = np.random.default_rng([seed, slide_max, count])
        slides = random.integers(1, slide_max + 1, count)
        ranges = slides * random.integers(2, RANGE_MAX // slides + 1) if whole else random.integers(slides + 1, 61)
        order = np.lexsort((slides, ranges))
        return cls(ranges[order], slides[order])

    def __len__(self) -> int:
        return len(self.ranges)

    def due(self, now: int) -> Ints:
        return np.flatnonzero(now % self.slides == 0)

    def grouped(self) -> ChainGrouping:
        return subsume(map(Cadence, self.ranges.tolist(), self.slides.tolist()))

    def some(self, count: int) -> Pool:
        """So many of them, evenly spread."""
        places = np.unique(np.linspace(0, len(self) - 1, min(count, len(self))).astype(np.int64))
        return Pool(self.ranges[places], self.slides[places])


def drawn_rows(rate: int, timestamps: int) -> list[Ints]:
    """The rows of some timestamps: values of which few are frequent, below a limit that differs by timestamp.

    Without the limit the greatest value would be the same in each, and a wrong MAX would not be noticed.
    """
    random = np.random.default_rng([rate, timestamps])
    limits = random.integers(HOSTS // 2, HOSTS + 1, timestamps)
    return [(limit * random.random(rate) ** 3).astype(np.int64) for limit in limits]


class Answering(Protocol):
    """What is measured."""

    def take(self, rows: Ints) -> None:
        """One more timestamp."""

    def answer(self, now: int, due: Ints) -> Ints:
        """The windows of the pool at these positions, ending after the newest timestamp."""

    @property
    def bytes_held(self) -> int:
        """Bytes of state."""


class StairsPerGroup:
    """SUM or MAX: a stairwise structure per group. Invariant: a host is due whenever one of its guests is."""

    def __init__(self, aggregate: str, pool: Pool) -> None:
        self._fold = FOLDS[aggregate]
        groups = pool.grouped().groups
        self._stairs = [Stairs(KINDS[aggregate], 1) for _ in groups]
        self._chains = [np.array(group.chain, np.int64) for group in groups]
        self._pool = pool
        self._host = np.arange(len(pool))
        for group in groups:
            for guest, (host, _) in group.piggybacked.items():
                self._host[cast(int, guest)] = cast(int, host)  # windows of a pool are named by their numbers
        self._answers = np.zeros(len(pool), np.int64)

    @property
    def chains(self) -> list[list[list[int]]]:
        """The chains in which each structure has arranged its windows."""
        return [stairs.chains for stairs in self._stairs]

    def take(self, rows: Ints) -> None:
        partial = np.full((1, 1, 1), self._fold(rows))
        for stairs in self._stairs:
            stairs.insert(partial, np.empty((0, 1, 1)), NO_RANKS)
            stairs.evict(stairs.after - RANGE_MAX)

    def answer(self, now: int, due: Ints) -> Ints:
        for stairs, chain in zip(self._stairs, self._chains, strict=True):
            windows = np.flatnonzero(now % self._pool.slides[chain] == 0)
            asked = chain[windows]
            ends = np.full(len(asked), now)
            ints, _ = stairs.answer(ends - self._pool.ranges[asked], ends, NO_RANKS, 1, windows)
            self._answers[asked] = ints[0, :, 0]
        return self._answers[self._host[due]]

    @property
    def bytes_held(self) -> int:
        return sum(stairs.bytes_held for stairs in self._stairs)


class OneSynopsis:
    """SUM or MAX: one synopsis that answers windows of any range."""

    def __init__(self, made: Callable[[StateKind, int], Synopsis], aggregate: str, pool: Pool) -> None:
        self._fold, self._synopsis, self._pool = FOLDS[aggregate], made(KINDS[aggregate], 1), pool

    def take(self, rows: Ints) -> None:
        self._synopsis.insert(np.full((1, 1, 1), self._fold(rows)), np.empty((0, 1, 1)), NO_RANKS)
        self._synopsis.evict(self._synopsis.after - RANGE_MAX)

    def answer(self, now: int, due: Ints) -> Ints:
        ends = np.full(len(due), now)
        return self._synopsis.answer(ends - self._pool.ranges[due], ends, NO_RANKS, 1)[0][0, :, 0]

    @property
    def bytes_held(self) -> int:
        return self._synopsis.bytes_held


class StairsOfDistinct:
    """DISTINCT: one log of latest appearances for all ranges, whose stairs are these."""

    def __init__(self, pool: Pool) -> None:
        self._ranges, self._stair = np.unique(pool.ranges, return_inverse=True)
        self._distinct = StairsDistinct(self._ranges.tolist())
        self._counts = np.zeros(len(self._ranges), np.int64)

    def take(self, rows: Ints) -> None:
        self._distinct.insert(np.zeros(len(rows), np.int64), rows, 1)

    def answer(self, now: int, due: Ints) -> Ints:
        asked = self._stair[due]
        for stair in np.unique(asked).tolist():
            self._counts[stair] = self._distinct.count(stair)
        return self._counts[asked]

    @property
    def bytes_held(self) -> int:
        return self._distinct.bytes_held


class OneDistinctCounts:
    """DISTINCT: dyadic intervals of the slices in which values were seen before, for windows of any range."""

    def __init__(self, pool: Pool) -> None:
        self._counts, self._pool, self._after = DistinctCounts(), pool, 0

    def take(self, rows: Ints) -> None:
        occurrences = np.bincount(rows)
        values = np.flatnonzero(occurrences)
        self._counts.insert_joined(
            np.array([len(values)]), np.zeros(len(values), np.int64), values, occurrences[values]
        )
        self._after += 1
        self._counts.evict(self._after - RANGE_MAX)

    def answer(self, now: int, due: Ints) -> Ints:
        ends = np.full(len(due), now)
        return self._counts.distinct(ends - self._pool.ranges[due], ends, ONE_GROUP)[:, 0]

    @property
    def bytes_held(self) -> int:
        return self._counts.bytes_held


class OnePerWindow:
    """Every window has a structure of its own, as if it were the only one: nothing is shared, not even reading rows."""

    def __init__(self, aggregate: str, pool: Pool) -> None:
        alone = [Pool(pool.ranges[i : i + 1], pool.slides[i : i + 1]) for i in range(len(pool))]
        self._windows: list[Answering] = (
            [StairsOfDistinct(one) for one in alone]
            if aggregate == "DISTINCT"
            else [OneSynopsis(TwoStacks, aggregate, one) for one in alone]
        )

    def take(self, rows: Ints) -> None:
        for window in self._windows:
            window.take(rows)

    def answer(self, now: int, due: Ints) -> Ints:
        return np.array([self._windows[place].answer(now, ONE_GROUP)[0] for place in due.tolist()], np.int64)

    @property
    def bytes_held(self) -> int:
        return sum(window.bytes_held for window in self._windows)


STRUCTURES: dict[str, dict[str, Callable[[Pool], Answering]]] = {
    "SUM": {
        "stairs": lambda pool: StairsPerGroup("SUM", pool),
        "R-INT": lambda pool: OneSynopsis(RunningSynopsis, "SUM", pool),
        "one per window": lambda pool: OnePerWindow("SUM", pool),
    },
    "MAX": {
        "stairs": lambda pool: StairsPerGroup("MAX", pool),
        "B-INT": lambda pool: OneSynopsis(IntervalSynopsis, "MAX", pool),
        "one per window": lambda pool: OnePerWindow("MAX", pool),
    },
    "DISTINCT": {
        "stairs": StairsOfDistinct,
        "B-INT": OneDistinctCounts,
        "one per window": lambda pool: OnePerWindow("DISTINCT", pool),
    },
}


class Truth:
    """The answers from what is known of the last rows of each value, or of each timestamp's rows."""

    def __init__(self, aggregate: str) -> None:
        self._aggregate = aggregate
        self._partials: list[int] = []
        self._last = np.full(HOSTS, -1)

    def take(self, rows: Ints) -> None:
        self._last[rows] = len(self._partials)
        self._partials.append(0 if self._aggregate == "DISTINCT" else FOLDS[self._aggregate](rows))

    def answer(self, ranges: Ints) -> Ints:
        newest_first = np.array(self._partials[: -RANGE_MAX - 1 : -1])
        if self._aggregate == "SUM":
            return np.asarray(np.cumsum(newest_first)[ranges - 1])
        if self._aggregate == "MAX":
            return np.asarray(np.maximum.accumulate(newest_first)[ranges - 1])
        return np.asarray(np.searchsorted(np.sort(-self._last), ranges - len(self._partials), side="right"))


@dataclass(frozen=True)
class PoolOutcome:
    """Of timestamps with full windows: the processor time of each, answers in the mean; bytes after the last one."""

    seconds: NDArray[np.float64]
    answers: float
    bytes_held: int
    agrees: bool

    @property
    def ms(self) -> float:
        """Milliseconds per timestamp, in the mean."""
        return 1000 * float(self.seconds.mean())


def measured(aggregate: str, structure: str, pool: Pool, batches: list[Ints], timestamps: int) -> PoolOutcome:
    """One structure over so many timestamps, after as many as it takes until all windows are full and known."""
    kept, truth = STRUCTURES[aggregate][structure](pool), Truth(aggregate)
    warm = RANGE_MAX + 4 * int(pool.slides.max())
    seconds, answered, agrees = np.zeros(timestamps), 0, True
    for now in range(1, warm + timestamps + 1):
        rows, due = batches[now % len(batches)], pool.due(now)
        truth.take(rows)
        begin = process_time()
        kept.take(rows)
        if now < RANGE_MAX:
            continue
        answers = kept.answer(now, due)
        if now > warm:
            seconds[now - warm - 1] = process_time() - begin
            answered += len(due)
        agrees &= bool((answers == truth.answer(pool.ranges[due])).all())
    return PoolOutcome(seconds, answered / timestamps, kept.bytes_held, agrees)
