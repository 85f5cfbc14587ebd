"""Trees, pointers and landmarks: random sequences against the oracle, the papers' examples, and operations counted.

Sequences with the width 1 take the loops for a single group, those with more groups the others.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from panewise.aggregates import kernels, states
from panewise.aggregates.states import Feed, StateKind
from panewise.aggregates.user import combine_of
from panewise.synopses.counting import count_operations_of, operations
from panewise.synopses.single_states import slot_loops
from panewise.synopses.windows.flat_fat import FlatFat
from panewise.synopses.windows.flat_fit import FlatFit
from panewise.synopses.windows.interval import IntervalSynopsis
from panewise.synopses.windows.l_int import LInt
from panewise.synopses.windows.materialize_all import MaterializeAll
from panewise.synopses.windows.panes_synopsis import Panes
from panewise.synopses.windows.psoup import PSoup
from panewise.synopses.windows.recompute import RecomputeSynopsis
from tests.synopses.random_states import KINDS, RANKS, equal, named, partials

TECHNIQUES = [Panes, FlatFat, FlatFit, LInt, PSoup, MaterializeAll]
RANGES = (1, 3, 9, 40)  # in slices, of the sliding windows that are asked for together
# Kinds that have loops for a single group, each compiled for by itself: one of each shape of state.
SINGLE = [states.SUM_INTEGER, states.SUM_FLOAT, states.MAXIMUM[Feed.FLOAT]]
# Seconds of compiling for each pair: every technique with one shape and every shape with one technique in every run,
# the others in long ones.
SINGLE_NOW = [
    pytest.param(technique, kind, marks=[] if kind == states.SUM_FLOAT or technique is FlatFat else pytest.mark.soak)
    for technique in TECHNIQUES
    for kind in SINGLE
]
NO_RANKS = np.empty(0, np.int64)
EXAMPLES = max(5, settings.default.max_examples // 20)


def labelled(value: object) -> str | None:
    return value.__name__ if isinstance(value, type) else named(value)


def assert_same(tested: Any, oracle: RecomputeSynopsis, starts: list[int], ends: list[int], windows: list[int]) -> None:
    asked = np.array(starts, np.int64), np.array(ends, np.int64)
    numbers = np.array(windows, np.int64)
    for mine, wanted in zip(tested.answer(*asked, RANKS, windows=numbers), oracle.answer(*asked, RANKS), strict=True):
        assert mine.shape == wanted.shape
        assert equal(mine, wanted), (starts, ends, mine, wanted)


def slide(tested: Any, oracle: RecomputeSynopsis, old: int, random: np.random.Generator) -> None:
    """Windows of several ranges that end at some of the new slices, by end and shortest first."""
    starts, ends, windows = [], [], []
    for end in range(old + 1, oracle.after + 1):
        for window, length in enumerate(RANGES):
            if random.random() < 0.7:
                starts.append(max(oracle.first, end - length - int(random.integers(0, 2))))
                ends.append(end)
                windows.append(window)
    assert_same(tested, oracle, starts, ends, windows)


def run(technique: Any, kind: StateKind, width: int, actions: list[tuple[str, int]]) -> None:
    tested, oracle = technique(kind, width), RecomputeSynopsis(kind, width)
    for action, seed in [("batch", 0), *actions, ("batch", 1)]:
        random = np.random.default_rng(seed)
        if action == "batch":
            count = int(random.choice([0, 1, 2, 7, 60]))
            ints, floats = partials(kind, count, oracle.width, random)
            for synopsis in (tested, oracle):
                synopsis.insert(ints.copy(), floats.copy(), RANKS)
            slide(tested, oracle, oracle.after - count, random)
            for synopsis in (tested, oracle):
                synopsis.evict(oracle.after - max(RANGES) + 1)
        elif action == "history":  # any window, in no order: all techniques answer it, some slowly
            pairs = np.sort(random.integers(oracle.first, oracle.after + 1, (6, 2)), axis=1)
            assert_same(tested, oracle, pairs[:, 0].tolist(), pairs[:, 1].tolist(), [0] * 6)
        elif action == "drop":
            tested.drop_window(int(random.integers(0, len(RANGES))))
        elif action == "restore":
            saved = tested.snapshot()
            tested = technique(kind, 1)
            tested.restore(saved)
        elif action == "widen" and width > 1:
            for synopsis in (tested, oracle):
                synopsis.widen(oracle.width + 1)
        elif action == "regroup" and width > 1:
            kept = random.permutation(oracle.width)[: int(random.integers(1, oracle.width + 1))]
            for synopsis in (tested, oracle):
                synopsis.regroup(kept, len(kept) + 1)
        assert (tested.first, tested.after, tested.width) == (oracle.first, oracle.after, oracle.width)


steps = st.lists(
    st.tuples(
        st.sampled_from(["batch", "batch", "batch", "batch", "history", "drop", "restore", "widen", "regroup"]),
        st.integers(0, 2**32 - 1),
    ),
    max_size=20,
)


@pytest.mark.parametrize("technique", TECHNIQUES)
@pytest.mark.parametrize("kind", KINDS, ids=named)
@settings(max_examples=EXAMPLES)
@given(actions=steps)
def test_against_the_oracle(technique: Any, kind: StateKind, actions: list[tuple[str, int]]) -> None:
    run(technique, kind, 2, actions)


@pytest.mark.parametrize(("technique", "kind"), SINGLE_NOW, ids=labelled)
@settings(max_examples=EXAMPLES)
@given(actions=steps)
def test_a_single_group_against_the_oracle(technique: Any, kind: StateKind, actions: list[tuple[str, int]]) -> None:
    run(technique, kind, 1, actions)


@pytest.mark.parametrize("kind", KINDS, ids=named)
def test_states_of_a_single_group_combine_as_those_of_many(kind: StateKind) -> None:
    single = slot_loops(kind)
    if not single:
        assert combine_of(kind) is not None or kind == states.MOMENTS
        return
    deep_ints, deep_floats = partials(kind, 200, 1, np.random.default_rng(2))
    ints, floats = deep_ints.reshape(len(deep_ints), 200), deep_floats.reshape(len(deep_floats), 200)
    wanted_ints, wanted_floats = ints[:, :100].copy(), floats[:, :100].copy()
    kernels.combine_run(int(kind.operation), wanted_ints, wanted_floats, 0, ints, floats, 100, 100, RANKS)
    for slot in range(100):
        single["combine_run"](int(kind.operation), ints, floats, slot, ints, floats, 100 + slot, 1, RANKS)
    assert equal(ints[:, :100], wanted_ints)
    assert equal(floats[:, :100], wanted_floats)


@pytest.mark.parametrize("technique", TECHNIQUES)
def test_nan_leaves_with_its_slice(technique: Any) -> None:
    synopsis = technique(states.SUM_FLOAT, 1)
    for value in (1.0, np.nan, np.inf, 2.0, 4.0):
        synopsis.insert(np.empty((0, 1, 1), np.int64), np.array([[[value]], [[0.0]]]), NO_RANKS)
    _, floats = synopsis.answer(np.array([0, 3]), np.array([1, 5]), NO_RANKS)
    assert floats[0, :, 0].tolist() == [1.0, 6.0]


# -- the examples of Arasu and Widom ---------------------------------------------------------------------------------


def filled(technique: Any, count: int, kind: StateKind = states.COUNT) -> Any:
    """Slice n holds n: a window's sum says which slices it is made of."""
    synopsis = technique(kind, 1)
    synopsis.insert(np.arange(count).reshape(1, count, 1), np.empty((0, count, 1)), NO_RANKS)
    return synopsis


def test_example_3_1_of_base_intervals() -> None:
    """(1, 43) is a union of base intervals: the paper's eight, but (1, 32) alone is one, so that four are enough."""
    synopsis = filled(IntervalSynopsis, 64)
    synopsis._ready(5, NO_RANKS)
    nodes = {}  # (level, node) by the positions, from 1, that it covers
    for level in range(6):
        for node in range(64 >> level):
            low = node << level
            place = 2 * synopsis._room - ((2 * synopsis._room) >> level) + node
            nodes[low + 1, low + (1 << level)] = int(synopsis._ints[0, place])
    papers = [(1, 2), (3, 4), (5, 8), (9, 16), (17, 32), (33, 40), (41, 42), (43, 43)]
    fewest = [(1, 32), (33, 40), (41, 42), (43, 43)]
    whole = sum(range(43))
    assert sum(nodes[interval] for interval in papers) == sum(nodes[interval] for interval in fewest) == whole
    # Asked twice as the engine may ask: alone, and not as one of many that slide.
    starts, ends = np.array([0, 50]), np.array([43, 51])
    assert synopsis.answer(starts[::-1].copy(), ends[::-1].copy(), NO_RANKS)[0][0, :, 0].tolist() == [50, whole]


def test_example_3_2_of_landmark_intervals() -> None:
    """With widths of 1,000 to 2,000, (3257, 5164) is (3257, 3999) and (4000, 5164): two intervals, one combination.

    The classes here begin at powers of two: 1,908 slices are of the class from 1,024 on, whose landmark after 3257 is
    4096.
    """
    synopsis = filled(LInt, 6000)
    count_operations_of(synopsis)
    synopsis.answer(np.array([3257]), np.array([5165]), NO_RANKS)
    assert synopsis.classes == [(1024, 2047)]
    operations(synopsis)
    ints, _ = synopsis.answer(np.array([3257]), np.array([5165]), NO_RANKS)
    assert ints[0, 0, 0] == sum(range(3257, 5165))
    assert operations(synopsis) == 1
    room = synopsis._room
    before, since = synopsis._class_ints[0, 3257], synopsis._class_ints[0, room + 5164]  # 4096 / 1024 is even
    assert (before, since) == (sum(range(3257, 4096)), sum(range(4096, 5165)))


# -- the claims about cost, counted ----------------------------------------------------------------------------------


def costs(technique: Any, length: int, slides: int) -> list[int]:
    """The operations of each step: one slice enters, one window of `length` slices is asked for, one slice leaves."""
    synopsis = filled(technique, length)
    count_operations_of(synopsis)
    found = []
    for number in range(length, length + slides):
        synopsis.insert(np.full((1, 1, 1), number), np.empty((0, 1, 1)), NO_RANKS)
        synopsis.evict(number + 1 - length)
        ints, _ = synopsis.answer(np.array([number + 1 - length]), np.array([number + 1]), NO_RANKS)
        assert ints[0, 0, 0] == sum(range(number + 1 - length, number + 1))
        found.append(operations(synopsis))
    return found[1:]  # the first builds what the slices that were there need


LENGTHS = (16, 64, 256, 1024)


@pytest.mark.parametrize("length", LENGTHS)
def test_panes_cost_the_window(length: int) -> None:
    assert set(costs(Panes, length, 10)) == {length - 1}


@pytest.mark.parametrize("length", LENGTHS)
def test_b_int_costs_a_node_a_slice_and_the_logarithm_an_answer(length: int) -> None:
    """Figure 1 of Arasu and Widom: nodes are made once each; a window is covered by at most two of each level."""
    height = length.bit_length() - 1
    found = costs(IntervalSynopsis, length, 4 * length)
    assert max(found) <= 3 * height
    assert height / 2 <= sum(found) / len(found) <= 1 + 2 * height


@pytest.mark.parametrize("length", LENGTHS)
def test_flat_fat_costs_the_logarithm_at_worst(length: int) -> None:
    """Table 2: log2(n) for the update; a window that goes round the ring is covered by twice that again."""
    height = max(length, 64).bit_length() - 1
    found = costs(FlatFat, length, 3 * length)
    assert height <= min(found) <= max(found) <= 3 * height


@pytest.mark.parametrize("length", LENGTHS)
def test_flat_fit_costs_three_amortised_and_the_window_at_worst(length: int) -> None:
    found = costs(FlatFit, length, 6 * (length + 1))
    assert sum(found) / len(found) <= 3
    assert max(found) == length - 1
    resets = [step for step, cost in enumerate(found) if cost > 3]
    assert set(np.diff(resets)) == {length + 1}  # "every n + 1 slides"


@pytest.mark.parametrize("ranges", [1, 4, 16])
def test_flat_fit_costs_three_per_range(ranges: int) -> None:
    """Shein and Chrysanthis, section 4: 3 Q operations a slide, never above 4 Q."""
    longest = 512
    lengths = np.linspace(longest // ranges, longest, ranges).astype(np.int64)
    synopsis = filled(FlatFit, longest)
    count_operations_of(synopsis)
    slides = 4 * longest
    for number in range(longest, longest + slides):
        synopsis.insert(np.full((1, 1, 1), number), np.empty((0, 1, 1)), NO_RANKS)
        synopsis.answer(number + 1 - lengths, np.full(ranges, number + 1), NO_RANKS)
        synopsis.evict(number + 1 - longest)
    assert operations(synopsis) / slides <= 4 * ranges


@pytest.mark.parametrize("length", LENGTHS)
def test_psoup_costs_the_logarithm(length: int) -> None:
    """Figure 1's neighbour, section 3.1.3: update and lookup O(log Nmax), at worst too."""
    height = length.bit_length() - 1
    assert max(costs(PSoup, length, 2 * length)) <= 6 * height
    synopsis = filled(PSoup, 2 * length)
    for first in range(0, length, 7):
        synopsis.evict(first)
        synopsis.answer(np.array([first]), np.array([2 * length]), NO_RANKS)
        assert synopsis.height <= 1.44 * np.log2(synopsis.after - first + 2)


@pytest.mark.parametrize("length", LENGTHS)
def test_l_int_costs_three_amortised_and_a_lookup_one(length: int) -> None:
    """Figure 1: O(gamma) for an update, with one class 3; O(1) for a lookup."""
    found = costs(LInt, length, 4 * length)
    assert sum(found) / len(found) <= 4
    synopsis = filled(LInt, 4 * length)
    starts = np.arange(length)
    count_operations_of(synopsis)
    synopsis.answer(starts, starts + length, NO_RANKS)
    operations(synopsis)
    synopsis.answer(starts, starts + length, NO_RANKS)
    assert operations(synopsis) <= length


def test_l_int_costs_three_per_class_of_widths() -> None:
    """gamma classes: each slice that enters costs three combinations for each, and drops with its windows."""
    synopsis = filled(LInt, 1024)
    lengths, end = np.array([5, 60, 700]), np.full(3, 1024)
    windows = np.arange(3)
    synopsis.answer(end - lengths, end, NO_RANKS, windows=windows)
    assert synopsis.classes == [(4, 7), (32, 63), (512, 1023)]
    count_operations_of(synopsis)
    synopsis.evict(512)
    synopsis.insert(np.ones((1, 512, 1), np.int64), np.empty((0, 512, 1)), NO_RANKS)
    synopsis.answer(np.empty(0, np.int64), np.empty(0, np.int64), NO_RANKS)
    assert 2 * 3 * 512 <= operations(synopsis) <= 3 * 3 * 512
    synopsis.drop_window(1)
    assert synopsis.classes == [(4, 7), (512, 1023)]


@pytest.mark.parametrize("length", LENGTHS)
def test_materialize_all_costs_nothing_to_look_up(length: int) -> None:
    assert set(costs(MaterializeAll, length, 10)) == {2}
    synopsis = filled(MaterializeAll, length)
    asked = np.array([0]), np.array([length]), NO_RANKS
    synopsis.answer(*asked)
    count_operations_of(synopsis)
    synopsis.answer(*asked)
    assert operations(synopsis) == 0


def test_materialize_all_pays_for_windows_that_nobody_asks_for() -> None:
    synopsis = filled(MaterializeAll, 100, states.MAXIMUM[Feed.INTEGER])
    synopsis.answer(np.array([90, 50]), np.array([100, 100]), NO_RANKS, windows=np.arange(2))
    count_operations_of(synopsis)
    for number in range(100, 110):
        synopsis.insert(np.full((1, 1, 1), number), np.empty((0, 1, 1)), NO_RANKS)
        synopsis.evict(number - 49)
        assert operations(synopsis) == 49  # 9 within the short window, 39 and 1 to build the long one on it
