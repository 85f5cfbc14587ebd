"""Every synopsis x every state that it admits, in random sequences, against recomputing each answer."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit

from panewise.aggregates import states
from panewise.aggregates.matrix import identity
from panewise.aggregates.states import StateKind
from panewise.arrays import Floats, Ints
from panewise.loops import is_compiled
from panewise.synopses.synopsis import Synopsis
from panewise.synopses.windows import interval
from panewise.synopses.windows.interval import IntervalSynopsis
from panewise.synopses.windows.recompute import RecomputeSynopsis
from panewise.synopses.windows.running import RunningSynopsis
from panewise.synopses.windows.sparse_two_stacks import SparseTwoStacks
from tests.synopses.random_states import INVERTIBLE, KINDS, OTHERS, RANKS, equal, named, partials

steps = st.lists(
    st.tuples(
        st.sampled_from(
            ["insert", "insert", "insert", "insert many", "evict", "answer", "answer", "widen", "regroup", "restore"]
        ),
        st.integers(0, 2**32 - 1),
    ),
    max_size=25,
)


def check(kind: StateKind, make: Callable[[StateKind, int], Synopsis], actions: list[tuple[str, int]]) -> None:
    tested, oracle = make(kind, 2), RecomputeSynopsis(kind, 2)
    for action, seed in [*actions, ("answer", 0)]:
        random = np.random.default_rng(seed)
        held = oracle.after - oracle.first
        match action:
            case "insert" | "insert many":
                count = int(random.integers(0, 4 if action == "insert" else 100))
                ints, floats = partials(kind, count, oracle.width, random)
                for synopsis in (tested, oracle):
                    synopsis.insert(ints.copy(), floats.copy(), RANKS)
            case "evict":
                before = oracle.first + int(random.integers(0, held + 1))
                tested.evict(before)
                oracle.evict(before)
            case "answer":
                pairs = np.sort(random.integers(oracle.first, oracle.after + 1, (12, 2)), axis=1).astype(np.int64)
                if seed % 2:  # as trees ask: by end, shortest first
                    pairs = pairs[np.lexsort((-pairs[:, 0], pairs[:, 1]))]
                windows = np.ascontiguousarray(pairs[:, 0]), np.ascontiguousarray(pairs[:, 1])
                for mine, wanted in zip(tested.answer(*windows, RANKS), oracle.answer(*windows, RANKS), strict=True):
                    assert mine.shape == wanted.shape
                    assert equal(mine, wanted), (windows, mine, wanted)
            case "widen":
                width = oracle.width + int(random.integers(0, 3))
                tested.widen(width)
                oracle.widen(width)
            case "regroup":
                kept = random.permutation(oracle.width)[: int(random.integers(1, oracle.width + 1))]
                width = len(kept) + int(random.integers(0, 2))
                tested.regroup(kept, width)
                oracle.regroup(kept, width)
            case "restore":
                saved = tested.snapshot()
                tested = make(kind, 1)
                tested.restore(saved)
        assert (tested.first, tested.after, tested.width) == (oracle.first, oracle.after, oracle.width)


@pytest.mark.parametrize("kind", KINDS, ids=named)
@settings(max_examples=max(15, settings.default.max_examples // 3))
@given(actions=steps)
def test_interval(kind: StateKind, actions: list[tuple[str, int]]) -> None:
    check(kind, IntervalSynopsis, actions)


@pytest.mark.parametrize("kind", INVERTIBLE, ids=named)
@given(actions=steps)
def test_running(kind: StateKind, actions: list[tuple[str, int]]) -> None:
    check(kind, RunningSynopsis, actions)


@pytest.mark.parametrize("kind", OTHERS, ids=named)
def test_what_cannot_be_taken_away_is_refused(kind: StateKind) -> None:
    with pytest.raises(AssertionError, match="cannot be subtracted exactly"):
        RunningSynopsis(kind, 1)


@pytest.mark.parametrize("make", [IntervalSynopsis, RunningSynopsis])
def test_insert_from_rooms(make: Callable[[StateKind, int], Synopsis]) -> None:
    """Slices that lie in rooms of a matrix, in any order, enter in the order given."""
    random = np.random.default_rng(1)
    ints, floats = partials(states.SUM_INTEGER, 9, 3, random)
    rooms = np.array([7, 0, 4])
    tested, oracle = make(states.SUM_INTEGER, 3), RecomputeSynopsis(states.SUM_INTEGER, 3)
    tested.insert_from(ints.reshape(2, -1), floats.reshape(0, 27), rooms, RANKS)
    oracle.insert(ints[:, rooms], floats[:, rooms], RANKS)
    starts, ends = np.array([0, 0, 1, 2]), np.array([3, 1, 2, 3])
    assert (tested.answer(starts, ends, RANKS)[0] == oracle.answer(starts, ends, RANKS)[0]).all()


def test_a_prefix_may_wrap() -> None:
    """Two's complement: a window's sum is exact though the sum of everything has left int64."""
    synopsis = RunningSynopsis(states.COUNT, 1)
    part = np.full((1, 1, 1), 2**62)
    for _ in range(9):
        synopsis.insert(part, np.empty((0, 1, 1)), RANKS)
    ints, _ = synopsis.answer(np.array([8]), np.array([9]), RANKS)
    assert ints[0, 0, 0] == 2**62


def test_nan_leaves_with_its_slice() -> None:
    synopsis = IntervalSynopsis(states.SUM_FLOAT, 1)
    for value in (1.0, np.nan, np.inf, 2.0, 4.0):
        synopsis.insert(np.empty((0, 1, 1), np.int64), np.array([[[value]], [[0.0]]]), RANKS)
    _, floats = synopsis.answer(np.array([3, 0]), np.array([5, 1]), RANKS)
    assert floats[0, :, 0].tolist() == [6.0, 1.0]


# -- very many groups ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("endless", [False, True])
@pytest.mark.parametrize("kind", KINDS, ids=named)
@settings(max_examples=max(15, settings.default.max_examples // 3))
@given(
    actions=st.lists(
        st.tuples(st.sampled_from(["insert", "insert", "evict", "widen"]), st.integers(0, 2**32 - 1)), max_size=25
    )
)
def test_sparse_two_stacks(kind: StateKind, endless: bool, actions: list[tuple[str, int]]) -> None:
    groups = 4
    tested = SparseTwoStacks(kind, groups, endless=endless)
    held: list[tuple[Ints, Ints, Floats]] = []
    for action, seed in actions:
        random = np.random.default_rng(seed)
        if action == "insert":
            touched = np.flatnonzero(random.random(groups) < 0.5)
            ints, floats = (a[:, 0].copy() for a in partials(kind, 1, len(touched), random))
            tested.insert(touched, ints, floats, RANKS)
            held.append((touched, ints.copy(), floats.copy()))
        elif action == "widen":
            groups += int(random.integers(0, 3))
            tested.widen(groups)
        elif held and not endless:
            tested.evict(*held.pop(0), RANKS)
        oracle = RecomputeSynopsis(kind, groups)
        for touched, ints, floats in held:
            all_ints, all_floats = identity(kind, groups)
            all_ints[:, touched], all_floats[:, touched] = ints, floats
            oracle.insert(all_ints[:, None], all_floats[:, None], RANKS)
        wanted = oracle.answer(np.array([0]), np.array([len(held)]), RANKS)
        asked = random.permutation(groups)[: int(random.integers(1, groups + 1))]
        for mine, expected in zip(tested.answer(asked, RANKS), wanted, strict=True):
            assert equal(mine, expected[:, 0, asked])


@pytest.mark.parametrize("kind", KINDS, ids=named)
def test_first_answers_by_hand(kind: StateKind) -> None:
    """Before the loops are compiled a few windows are answered slice by slice, to the same effect."""
    tested, oracle = IntervalSynopsis(kind, 3), RecomputeSynopsis(kind, 3)
    ints, floats = partials(kind, 12, 3, np.random.default_rng(1))
    for synopsis in (tested, oracle):
        synopsis.insert(ints.copy(), floats.copy(), RANKS)
        synopsis.evict(2)
    starts, ends = np.array([2, 3, 5, 7]), np.array([6, 9, 5, 12])
    wanted = oracle.answer(starts, ends, RANKS, 2)
    for mine, expected in zip(tested._answer_by_hand(starts, ends, RANKS, 2), wanted, strict=True):
        assert equal(mine, expected)


def test_windows_that_are_combined_by_hand_lead_to_a_compiled_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """No call is large enough to compile it, as where results are fetched after every push; all of them are."""
    for name in ("_answer_sliding", "_answer_nested"):
        monkeypatch.setattr(interval, name, njit(getattr(interval, name).py_func))
    synopsis = IntervalSynopsis(states.SUM_INTEGER, 2)
    synopsis.insert(*partials(states.SUM_INTEGER, 120, 2, np.random.default_rng(3)), RANKS)
    starts = np.arange(60)
    calls = 0
    while not is_compiled(synopsis._sliding):
        assert calls < 200, f"{calls} calls have combined {calls * 60 * 60} slices by hand"
        synopsis.answer(starts, starts + 60, RANKS)
        calls += 1
    assert calls > 1
