"""Techniques that go from window to window: counted operations, long stretches, going back, and one group alone.

What every technique must do is in test_techniques.py; this is what these have besides: loops for one group, stretches
in which both ends of a window move by one slice, answers that reuse memory, and the papers' bounds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from panewise.aggregates import states
from panewise.aggregates.states import Feed, StateKind
from panewise.arrays import Floats
from panewise.synopses.counting import count_operations_of, operations
from panewise.synopses.synopsis import Synopsis
from panewise.synopses.windows.daba import DABA
from panewise.synopses.windows.recompute import RecomputeSynopsis
from panewise.synopses.windows.slick_deque import BLOCK, SlickDeque
from panewise.synopses.windows.slick_deque_inv import SlickDequeInv
from panewise.synopses.windows.subtract_on_evict import SubtractOnEvict
from panewise.synopses.windows.two_stacks import TwoStacks
from tests.synopses.random_states import INVERTIBLE, KINDS, RANKS, SELECTIVE, affine, equal, named, partials

Make = Callable[[StateKind, int], Any]
MAX = states.MAXIMUM[Feed.FLOAT]
EXAMPLES = max(8, settings().max_examples // 5)
# Kinds with a loop of their own for one group, and two without.
ALONE = [states.SUM_INTEGER, states.SUM_FLOAT, MAX, states.MINIMUM[Feed.INTEGER]]
BESIDES = [states.MOMENTS, states.arg_extreme(False, Feed.INTEGER, Feed.INTEGER)]
PAIRS: list[tuple[Make, StateKind]] = [
    *((SubtractOnEvict, kind) for kind in INVERTIBLE),
    *((SlickDequeInv, kind) for kind in INVERTIBLE),
    *((TwoStacks, kind) for kind in ALONE + BESIDES),
    *((DABA, kind) for kind in ALONE + BESIDES),
    *((SlickDeque, kind) for kind in (MAX, states.MINIMUM[Feed.INTEGER], states.MINIMUM[Feed.CODE])),
]
# Each loop of its own takes seconds to compile: these are left to long runs, their kinds have other techniques.
LATER = [(DABA, states.SUM_FLOAT), (DABA, states.MINIMUM[Feed.INTEGER]), (TwoStacks, states.MINIMUM[Feed.INTEGER])]
PAIRS_NOW = [pytest.param(*pair, marks=pytest.mark.soak if pair in LATER else []) for pair in PAIRS]
COUNTED: list[tuple[Make, StateKind]] = [
    (SubtractOnEvict, states.SUM_INTEGER),
    (SlickDequeInv, states.SUM_INTEGER),
    (TwoStacks, states.SUM_INTEGER),
    (DABA, states.SUM_INTEGER),
    (SlickDeque, MAX),
]


def labelled(value: object) -> str | None:
    return value.__name__ if isinstance(value, type) else named(value)


def both(make: Make, kind: StateKind, width: int) -> tuple[Any, Any]:
    return make(kind, width), RecomputeSynopsis(kind, width)


def insert(synopses: tuple[Synopsis, ...], kind: StateKind, count: int, random: np.random.Generator) -> None:
    ints, floats = partials(kind, count, synopses[0].width, random)
    for synopsis in synopses:
        synopsis.insert(ints.copy(), floats.copy(), RANKS)


def compare(tested: Synopsis, oracle: Synopsis, starts: Any, ends: Any, windows: Any = None) -> None:
    asked = np.array(starts, np.int64), np.array(ends, np.int64), RANKS, None
    windows = None if windows is None else np.array(windows, np.int64)
    for mine, wanted in zip(tested.answer(*asked, windows), oracle.answer(*asked, windows), strict=True):
        assert mine.shape == wanted.shape
        assert equal(mine, wanted), (starts, ends, mine, wanted)


# -- One group alone, in random sequences ------------------------------------------------------------------------------


@pytest.mark.parametrize(("make", "kind"), PAIRS_NOW, ids=labelled)
@settings(max_examples=EXAMPLES)
@given(
    actions=st.lists(
        st.tuples(
            st.sampled_from(
                ["insert", "insert", "slide", "slide", "slide", "back", "evict", "drop", "restore", "widen"]
            ),
            st.integers(0, 2**32 - 1),
        ),
        max_size=25,
    )
)
def test_one_group_equals_the_oracle(make: Make, kind: StateKind, actions: list[tuple[str, int]]) -> None:
    """Three windows with irregular ends; stretches of single slices; questions about the past."""
    tested, oracle = both(make, kind, 1)
    ranges, reached = [2, 9, 40], 0
    for action, seed in [("insert", 7), *actions, ("slide", 1)]:
        random = np.random.default_rng(seed)
        match action:
            case "insert":
                insert((tested, oracle), kind, int(random.integers(0, 90)), random)
            case "slide":
                steps = random.integers(1, 4, 200) if seed % 3 else np.ones(200, np.int64)
                ends = reached + np.cumsum(steps)
                ends = ends[ends <= oracle.after]
                asked = [(max(oracle.first, int(end) - ranges[w]), int(end), w) for end in ends for w in range(3)]
                if seed % 2:  # one window after the other
                    asked = sorted(asked, key=lambda question: question[2])
                if asked:
                    compare(tested, oracle, *zip(*asked, strict=True))
                    reached = int(ends[-1])
            case "back":
                pairs = np.sort(random.integers(oracle.first, oracle.after + 1, (6, 2)), axis=1)
                compare(tested, oracle, pairs[:, 0], pairs[:, 1], random.integers(0, 5, 6))
            case "evict":
                before = oracle.first + int(random.integers(0, oracle.after - oracle.first + 1))
                tested.evict(before)
                oracle.evict(before)
                reached = max(reached, before)
            case "drop":
                number = int(random.integers(0, 3))
                tested.drop_window(number)
                ranges[number] = int(random.integers(1, 60))
            case "restore":
                saved = tested.snapshot()
                tested = make(kind, 1)
                tested.restore(saved)
            case "widen" if seed % 4 == 0:
                for synopsis in (tested, oracle):
                    synopsis.widen(2)
                    synopsis.regroup(np.array([0]), 1)
    assert (tested.first, tested.after, tested.width) == (oracle.first, oracle.after, oracle.width)


@pytest.mark.parametrize(("make", "kind"), PAIRS_NOW, ids=labelled)
@pytest.mark.parametrize("range_slices", [1, 2, 5, 64, 300])
def test_long_stretches(make: Make, kind: StateKind, range_slices: int) -> None:
    """Hundreds of answers a call, so that every phase and every flip happens within a stretch, and between two."""
    random = np.random.default_rng(range_slices)
    tested, oracle = both(make, kind, 1)
    for count in (700, 1, 1300, 64, 65):
        before = tested.after
        insert((tested, oracle), kind, count, random)
        ends = np.arange(before + 1, tested.after + 1)
        starts = np.maximum(ends - range_slices, 0)
        picked = np.unique(np.concatenate([random.integers(0, len(ends), 30), [0, len(ends) - 1]]))
        mine = tested.answer(starts, ends, RANKS)
        wanted = oracle.answer(starts[picked], ends[picked], RANKS)
        assert all(equal(m[:, picked], w) for m, w in zip(mine, wanted, strict=True))
        for synopsis in (tested, oracle):
            synopsis.evict(int(starts[-1]) + 1)


def test_blocks_that_win_and_blocks_that_do_not() -> None:
    """Descending, ascending and constant values, NaN and infinities, in and between the blocks of a stretch."""
    values = np.concatenate(
        [np.arange(5 * BLOCK)[::-1], np.arange(5 * BLOCK), np.zeros(5 * BLOCK), [np.nan, np.inf, -np.inf] * BLOCK]
    ).astype(np.float64)
    for kind in (MAX, states.MINIMUM[Feed.FLOAT]):
        for range_slices in (3, BLOCK, 4 * BLOCK):
            tested, oracle = both(SlickDeque, kind, 1)
            for synopsis in (tested, oracle):
                synopsis.insert(np.empty((0, len(values), 1), np.int64), values.reshape(1, -1, 1), RANKS)
            ends = np.arange(1, len(values) + 1)
            compare(tested, oracle, np.maximum(ends - range_slices, 0), ends)


@pytest.mark.parametrize("make", [TwoStacks, DABA])
def test_older_states_stay_on_the_left(make: Make) -> None:
    kind, width, random = affine(), 3, np.random.default_rng(1)
    tested, oracle = both(make, kind, width)
    for _ in range(6):
        ints = random.integers(1, 9, (3, 20, width))
        ints[2] = 1
        for synopsis in (tested, oracle):
            synopsis.insert(ints.copy(), np.empty((0, 20, width)), RANKS)
        ends = np.arange(tested.after - 19, tested.after + 1)
        compare(tested, oracle, np.maximum(ends - 7, 0), ends)


def test_answers_that_are_held_stay_as_they_are() -> None:
    """Memory is used again only when nobody looks at it any more, be it through a view."""
    tested = DABA(states.COUNT, 1)
    tested.insert(np.arange(10).reshape(1, 10, 1), np.empty((0, 10, 1)), RANKS)
    ends = np.arange(1, 6)
    first = tested.answer(ends - 1, ends, RANKS)[0][0, 1:, 0]
    second = tested.answer(ends + 4, ends + 5, RANKS)[0]
    assert first.tolist() == [1, 2, 3, 4]
    assert second[0, :, 0].tolist() == [5, 6, 7, 8, 9]


# -- The deque of figure 10 --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [1, 2])
def test_the_deque_of_figure_10(width: int) -> None:
    """Max over at most 6 partials. 4 arrives: 6 expires, 3 and 2 are driven out, and 4 stands behind 5.

    position   1  2  3  4  5  6  1          deque before   6 5 3 2          after   5 4
    value      6  1  5  0  3  2  4               position  1 3 5 6                  3 1
    """
    values = np.array([6.0, 1.0, 5.0, 0.0, 3.0, 2.0, 4.0])
    tested = SlickDeque(MAX, width)

    def arrive(some: Floats) -> None:
        tested.insert(np.empty((0, len(some), width), np.int64), np.repeat(some, width).reshape(1, -1, width), RANKS)

    def answers(end: int, start: int) -> list[float]:
        starts = np.arange(end - 1, start - 1, -1)
        ranges = np.arange(len(starts))
        return [float(x) for x in tested.answer(starts, np.full(len(starts), end), RANKS, None, ranges)[1][0, :, -1]]

    arrive(values[:6])
    assert answers(6, 0) == [2, 3, 3, 5, 5, 6]
    assert [float(values[i]) for i in tested.deque(width - 1)] == [6, 5, 3, 2]
    tested.evict(1)
    arrive(values[6:])
    assert answers(7, 1) == [4, 4, 4, 4, 5, 5]
    assert tested.deque(width - 1) == [2, 6]
    assert [float(values[i]) for i in tested.deque(width - 1)] == [5, 4]


# -- Counted operations ------------------------------------------------------------------------------------------------


def slides(make: Make, kind: StateKind, width: int, range_slices: int, count: int) -> list[int]:
    """The operations of each slide by one slice, when the window has been full for its length."""
    random = np.random.default_rng(range_slices)
    tested = make(kind, width)
    count_operations_of(tested)
    spent = []
    for end in range(1, 2 * range_slices + count + 1):
        ints, floats = partials(kind, 1, width, random)
        floats[:] = random.random(floats.shape)
        tested.insert(ints, floats, RANKS)
        start = max(0, end - range_slices)
        tested.answer(np.array([start]), np.array([end]), RANKS)
        tested.evict(start)
        spent.append(operations(tested))
    return spent[2 * range_slices :]


@pytest.mark.parametrize("width", [1, 2])
@pytest.mark.parametrize(
    ("make", "kind", "amortised", "worst"),
    [
        (SubtractOnEvict, states.SUM_INTEGER, 2, 2),
        (SlickDequeInv, states.SUM_INTEGER, 2, 2),
        (TwoStacks, states.SUM_INTEGER, 3, None),
        (DABA, states.SUM_INTEGER, 5, 8),
    ],
    ids=labelled,
)
def test_bounds_of_table_2(make: Make, kind: StateKind, width: int, amortised: int, worst: int | None) -> None:
    """Whatever the window's length: amortised over whole turns of it, and the dearest slide."""
    for range_slices in (4, 32, 200):
        spent = slides(make, kind, width, range_slices, 4 * range_slices)
        assert 0 < np.mean(spent) <= amortised
        assert max(spent) <= (range_slices + 2 if worst is None else worst)


def test_daba_is_cheaper_at_worst_than_two_stacks() -> None:
    """The same slides: a flip costs two stacks the window, and DABA nothing extra."""
    assert max(slides(TwoStacks, states.SUM_INTEGER, 1, 100, 400)) > 90
    assert max(slides(DABA, states.SUM_INTEGER, 1, 100, 400)) == 6


def test_the_deque_compares_less_than_twice_a_slide() -> None:
    for range_slices in (4, 32, 200):
        assert 1 <= np.mean(slides(SlickDeque, MAX, 1, range_slices, 600)) < 2


def test_worst_case_of_the_deque() -> None:
    """A descending window is driven out by one great value: as many comparisons as slices, once."""
    tested = SlickDeque(MAX, 1)
    count_operations_of(tested)
    values = np.array([*range(50, 0, -1), 99.0])
    tested.insert(np.empty((0, 51, 1), np.int64), values.reshape(1, 51, 1), RANKS)
    tested.answer(np.array([0]), np.array([50]), RANKS)
    assert operations(tested) == 49
    tested.answer(np.array([0]), np.array([51]), RANKS)
    assert operations(tested) == 50


@pytest.mark.parametrize(("make", "kind"), COUNTED, ids=labelled)
def test_a_stretch_costs_no_more_than_its_slides(make: Make, kind: StateKind) -> None:
    """Many answers in one call, and the counted loops answer what the others do."""
    random = np.random.default_rng(3)
    ints, floats = partials(kind, 3000, 1, random)
    floats[:] = random.random(floats.shape)
    counted, plain = make(kind, 1), make(kind, 1)
    count_operations_of(counted)
    ends = np.arange(201, 3001)
    results = []
    for synopsis in (counted, plain):
        synopsis.insert(ints, floats, RANKS)
        synopsis.answer(np.array([0]), np.array([200]), RANKS)
        operations(synopsis)
        results.append(synopsis.answer(ends - 200, ends, RANKS))
    most: dict[Any, int] = {SubtractOnEvict: 2, SlickDequeInv: 2, TwoStacks: 3, DABA: 4, SlickDeque: 2}
    assert 0 < operations(counted) <= most[make] * len(ends)
    assert operations(plain) == 0
    assert all(equal(a, b) for a, b in zip(*results, strict=True))


def test_ranges_share_the_deque() -> None:
    """A thousand ranges that end together cost the comparisons of one."""
    spent = []
    values = np.random.default_rng(1).random((1, 1200, 1))
    for ranges in (1, 1000):
        tested = SlickDeque(MAX, 1)
        count_operations_of(tested)
        tested.insert(np.empty((0, 1200, 1), np.int64), values, RANKS)
        lengths = np.arange(ranges, 0, -1)[::-1]
        for end in range(1100, 1200):
            starts = end - lengths
            answers = tested.answer(starts, np.full(ranges, end), RANKS, None, np.arange(ranges))[1][0, :, 0]
            assert answers[-1] == values[0, end - ranges : end, 0].max()
        spent.append(operations(tested))
    assert spent[0] == spent[1]


def test_ranges_share_running_values() -> None:
    """Windows of one range keep one value between them; ranges that end together begin from each other."""
    tested = SlickDequeInv(states.COUNT, 1)
    count_operations_of(tested)
    tested.insert(np.ones((1, 1200, 1), np.int64), np.empty((0, 1200, 1)), RANKS)
    lengths = np.arange(1, 1001)
    assert tested.answer(1100 - lengths, np.full(1000, 1100), RANKS)[0][0, :, 0].tolist() == lengths.tolist()
    assert operations(tested) <= 1001
    for window in range(10):
        tested.answer(np.array([600]), np.array([1100]), RANKS, None, np.array([window]))
    assert operations(tested) == 0


# -- What is refused ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [SubtractOnEvict, SlickDequeInv])
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in INVERTIBLE], ids=named)
def test_what_cannot_be_taken_away_is_refused(make: Make, kind: StateKind) -> None:
    with pytest.raises(AssertionError, match="cannot be subtracted exactly"):
        make(kind, 1)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in SELECTIVE], ids=named)
def test_what_does_not_choose_is_refused(kind: StateKind) -> None:
    with pytest.raises(AssertionError, match="does not choose one of its inputs"):
        SlickDeque(kind, 1)
