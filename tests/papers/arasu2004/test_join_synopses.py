"""The synopses of joins against their definition: the results whose parts are all young enough, folded one by one.

slice of part 1   0 1 2 3 4 5 6 7        b = 4, after slice 7: windows of (2, 4) slices hold results whose first part
slice of part 2   0 1 2 3 4 5 6 7        came in slices 6 and 7, and the second in 4 to 7
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from panewise.aggregates import states
from panewise.aggregates.matrix import Encoded, StateMatrix
from panewise.aggregates.states import Feed, StateKind
from panewise.arrays import Ints
from panewise.optimize.sharing.rules import SharingQuery, Situation, SynopsisKind, SynopsisType, applicable
from panewise.synopses.counting import count_operations_of, operations
from papers.arasu2004.join_basic_interval import BasicIntervalJoin
from papers.arasu2004.join_buffer import JoinBuffer
from papers.arasu2004.join_interval import IntervalJoin
from papers.arasu2004.join_intervals import JoinIntervals
from papers.arasu2004.join_running import RunningJoin
from tests.synopses.random_states import CODES, INVERTIBLE, KINDS, OTHERS, RANKS, equal, named

WIDTH = 3
TYPES = {
    BasicIntervalJoin: SynopsisType.BASIC_INTERVAL,
    IntervalJoin: SynopsisType.INTERVAL,
    RunningJoin: SynopsisType.RUNNING,
}


def rules_for(queries: tuple[SharingQuery, ...], synopsis: SynopsisKind) -> list[str]:
    return [rule.name for rule in applicable(Situation(queries, (synopsis,)))]


@dataclass
class Results:
    """Join results in the order in which they are born, with the slices of their parts."""

    parts: Ints  # inputs x results
    groups: Ints
    arguments: list[Encoded]

    def fold(self, matrix: StateMatrix, slots: Ints, chosen: NDArray[np.bool_]) -> None:
        born = self.parts.max(axis=0)
        numbers = np.arange(len(self.groups))
        arguments = [argument.take(chosen) for argument in self.arguments]
        matrix.fold(slots[chosen], arguments, born[chosen], numbers[chosen], RANKS)

    def defined(self, kind: StateKind, after: int, lengths: tuple[int, ...]) -> StateMatrix:
        """What an answer is, by its definition."""
        result = StateMatrix(kind, WIDTH)
        young = self.parts >= after - np.array(lengths)[:, None]
        self.fold(result, self.groups, young.all(axis=0) & (self.parts.max(axis=0) < after))
        return result


def random_results(kind: StateKind, inputs: int, slices: int, b: int, count: int, seed: int) -> Results:
    random = np.random.default_rng(seed)
    born = np.sort(random.integers(0, slices, count))
    parts = np.maximum(born - random.integers(0, b, (inputs, count)), 0)
    parts[random.integers(0, inputs, count), np.arange(count)] = born
    arguments = []
    for feed in kind.feeds:
        if feed is Feed.FLOAT:
            values: NDArray[np.generic] = random.integers(-20, 20, count) / 4
        elif feed is Feed.CODE:
            values = random.integers(0, CODES, count)
        else:
            values = random.integers(-4, 2**40, count)
        arguments.append(Encoded(values, (random.random(count) < 0.8).astype(np.uint8)))
    return Results(parts, random.integers(0, WIDTH, count), arguments)


def slice_after_slice(synopsis: JoinIntervals, results: Results, slices: int):  # type: ignore[no-untyped-def]
    """Feeds the results through a buffer; yields after every update."""
    buffer = JoinBuffer.of(synopsis)
    born = results.parts.max(axis=0)
    for now in range(slices):
        for half in (0, 1):
            chosen = (born == now) & (np.arange(len(born)) % 2 == half)
            arguments = [argument.take(chosen) for argument in results.arguments]
            numbers = np.flatnonzero(chosen)
            buffer.fold(now - results.parts[:, chosen], results.groups[chosen], arguments, born[chosen], numbers, RANKS)
        synopsis.update(*buffer.drain(RANKS), RANKS)
        assert synopsis.after == now + 1
        yield now + 1


def check(make: type[JoinIntervals], kind: StateKind, b: int, g: int, inputs: int, seed: int) -> None:
    results = random_results(kind, inputs, 2 * b + 3, b, 60, seed)
    synopsis = make(kind, WIDTH, b, g)
    every = [pair for pair in itertools.product(range(1, b + 1), repeat=2) if synopsis.reaches(*pair)]
    np.random.default_rng(seed).shuffle(every)
    for after in slice_after_slice(synopsis, results, 2 * b + 3):
        if after % 4 == 3:
            saved = synopsis.snapshot()
            synopsis.update(*JoinBuffer.of(synopsis).drain(RANKS), RANKS)
            synopsis.restore(saved)
        ints, floats = synopsis.answer(np.array(every), RANKS)
        for i, (first, second) in enumerate(every):
            lengths = (first, second) if inputs == 2 else (first,) * inputs
            wanted = results.defined(kind, after, lengths)
            assert equal(carried(kind, ints[:, i]), carried(kind, wanted.ints)), (after, lengths)
            assert equal(floats[:, i], wanted.floats), (after, lengths)


def carried(kind: StateKind, ints: Ints) -> Ints:
    """Sums with all of the carry in the high word: how much of it is there already is a matter of the order."""
    return np.stack([ints[0] + (ints[1] >> 32), ints[1] & (2**32 - 1)]) if kind == states.SUM_INTEGER else ints


shapes = st.integers(1, 9).flatmap(lambda b: st.tuples(st.just(b), st.integers(0, b - 1)))


@pytest.mark.parametrize("make", [BasicIntervalJoin, IntervalJoin])
@pytest.mark.parametrize("kind", KINDS, ids=named)
@settings(max_examples=4)
@given(shape=shapes, seed=st.integers(0, 2**32 - 1))
def test_any_state(make: type[JoinIntervals], kind: StateKind, shape: tuple[int, int], seed: int) -> None:
    check(make, kind, *shape, 2, seed)


@pytest.mark.parametrize("kind", INVERTIBLE, ids=named)
@settings(max_examples=12)
@given(shape=shapes, seed=st.integers(0, 2**32 - 1))
def test_running(kind: StateKind, shape: tuple[int, int], seed: int) -> None:
    check(RunningJoin, kind, *shape, 2, seed)


@pytest.mark.parametrize("make", [BasicIntervalJoin, IntervalJoin, RunningJoin])
@settings(max_examples=5)
@given(b=st.integers(1, 9), seed=st.integers(0, 2**32 - 1))
def test_equal_windows_of_three_streams(make: type[JoinIntervals], b: int, seed: int) -> None:
    check(make, states.COUNT, b, 0, 3, seed)


@pytest.mark.parametrize("kind", OTHERS, ids=named)
def test_what_cannot_be_taken_away_is_refused(kind: StateKind) -> None:
    with pytest.raises(AssertionError, match="cannot be taken away exactly"):
        RunningJoin(kind, 1, 4)


@pytest.mark.parametrize("make", TYPES)
@pytest.mark.parametrize(("b", "g"), [(1, 0), (8, 2), (5, 4), (6, 0)])
def test_whatever_rule_ss3_admits_is_answered(make: type[JoinIntervals], b: int, g: int) -> None:
    of = {"source": "flows", "states": frozenset({"count"})}
    described = SynopsisKind(**of, type=TYPES[make], interval=10, intervals=b, flagged=g)
    synopsis = make(states.COUNT, WIDTH, b, g)
    results = random_results(states.COUNT, 2, 3 * b, b, 200, 7)
    (*_, after) = slice_after_slice(synopsis, results, 3 * b)
    admitted = [
        (first, second)
        for first, second in itertools.product(range(b + 3), repeat=2)
        if rules_for((SharingQuery(**of, lengths=(10 * first, 10 * second)),), described) == ["SS3"]
    ]
    assert len(admitted) == b + (g + 1) * g  # equal lengths, and all pairs of unequal ones from b - g on
    ints, _ = synopsis.answer(np.array(admitted), RANKS)
    for i, pair in enumerate(admitted):
        assert equal(ints[:, i], results.defined(states.COUNT, after, pair).ints)


def test_one_scan_answers_all_lengths() -> None:
    """Rules CS4 and CS5, in combinations of states."""
    lengths = np.array([(n, n) for n in range(1, 17)])
    costs = {}
    for make in TYPES:
        synopsis = make(states.COUNT, WIDTH, 16)
        for _ in slice_after_slice(synopsis, random_results(states.COUNT, 2, 40, 16, 100, 1), 40):
            pass
        count_operations_of(synopsis)
        synopsis.answer(lengths, RANKS)
        together = operations(synopsis)
        for length in lengths:
            synopsis.answer(length.reshape(1, 2), RANKS)
        costs[make] = together, operations(synopsis)
    assert costs[BasicIntervalJoin] == (15, sum(range(16)))  # one scan, or one each
    assert costs[RunningJoin] == (16, 16)  # one subtraction for each length, together or not
    together, alone = costs[IntervalJoin]
    assert together == alone <= 16 * 4


def test_a_result_may_expire_before_older_ones() -> None:
    """
    slices of the parts of A and B     after slice 2: A (0, 0), B (0, 2), C (2, 2)
      0   1   2   3                    after slice 3: C only, of windows of 3
     AAB     BCC
    """
    synopsis = BasicIntervalJoin(states.COUNT, 1, 3)
    results = Results(np.array([[0, 0, 2], [0, 2, 2]]), np.zeros(3, np.int64), [Encoded(np.empty(0), np.empty(0))])
    results.arguments = [Encoded(np.empty(0, np.int64), np.ones(3, np.uint8))]
    answers = [synopsis.answer(np.array([[3, 3]]), RANKS)[0] for _ in slice_after_slice(synopsis, results, 4)]
    assert [int(ints[0, 0, 0]) for ints in answers] == [1, 1, 3, 1]


def test_bytes_are_those_of_the_states() -> None:
    assert BasicIntervalJoin(states.COUNT, 4, 8).bytes_held == 8 * 4 * 8
    assert BasicIntervalJoin(states.COUNT, 4, 8, 2).bytes_held == 8 * 4 * 8 * 5
    assert RunningJoin(states.COUNT, 4, 8).bytes_held == 9 * 4 * 8
    assert IntervalJoin(states.COUNT, 4, 8).bytes_held == 2 * 16 * 4 * 8
