"""The stairwise structure: its chains, its answers and its costs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from panewise.aggregates import states
from panewise.aggregates.states import StateKind
from panewise.arrays import Ints
from panewise.synopses.counting import count_operations_of, operations
from panewise.synopses.windows.recompute import RecomputeSynopsis
from panewise.synopses.windows.stair_chains import chains_of
from panewise.synopses.windows.stairs import Stairs
from tests.synopses.random_states import RANKS, equal, named, partials

Spec = tuple[int, int]  # range and slide, in slices


def due(specs: list[Spec], begin: int, after: int) -> tuple[Ints, Ints, Ints]:
    """Starts, ends and numbers of the windows that come due in (begin, after], by end, the shortest first."""
    found = sorted(
        (end, -max(0, end - range_slices), number)
        for number, (range_slices, slide) in enumerate(specs)
        for end in range((begin // slide + 1) * slide, after + 1, slide)
    )
    return (
        np.array([-start for _, start, _ in found], np.int64),
        np.array([end for end, _, _ in found], np.int64),
        np.array([number for _, _, number in found], np.int64),
    )


def slide_along(kind: StateKind, specs: list[Spec], batches: list[int], width: int = 2) -> Stairs:
    """Batches of slices, each followed by all windows that it makes due, compared with the oracle."""
    tested, oracle = Stairs(kind, width), RecomputeSynopsis(kind, width)
    random = np.random.default_rng(len(batches))
    for count in batches:
        ints, floats = partials(kind, count, width, random)
        begin = oracle.after
        for synopsis in (tested, oracle):
            synopsis.insert(ints.copy(), floats.copy(), RANKS)
        starts, ends, numbers = due(specs, begin, oracle.after)
        found = tested.answer(starts, ends, RANKS, None, numbers)
        for mine, wanted in zip(found, oracle.answer(starts, ends, RANKS), strict=True):
            assert equal(mine, wanted)
        before = max(0, oracle.after - max(range_slices + slide for range_slices, slide in specs))
        for synopsis in (tested, oracle):
            synopsis.evict(before)
    return tested


NESTED = [(3, 1), (7, 2), (13, 4), (25, 4), (25, 8)]


@pytest.mark.parametrize("kind", [states.COUNT, states.SUM_FLOAT, states.MINIMUM[states.Feed.CODE]], ids=named)
def test_windows_that_contain_each_other_share_a_chain(kind: StateKind) -> None:
    stairs = slide_along(kind, NESTED, [1] * 40 + [7] * 12)
    assert stairs.chains == [[0, 1, 2, 3]]  # the fifth has the range of the fourth


def test_windows_that_do_not_fit_begin_chains_of_their_own() -> None:
    stairs = slide_along(states.COUNT, [*NESTED, (9, 3), (15, 3), (13, 5)], [1] * 120)
    assert sorted(stairs.chains) == [[0, 1, 2, 3], [5, 6], [7]]


def test_a_range_that_is_no_multiple_of_its_slide() -> None:
    stairs = slide_along(states.SUM_INTEGER, [(5, 2), (11, 4), (8, 3)], [1] * 60)
    assert sorted(stairs.chains) == [[0, 1], [2]]


def test_a_first_batch_that_holds_everything() -> None:
    assert slide_along(states.COUNT, [(40, 1)], [500, 1, 1]).chains == [[0]]


@settings(max_examples=max(10, settings.default.max_examples // 10))
@given(
    specs=st.lists(st.tuples(st.integers(1, 40), st.sampled_from([1, 2, 3, 4, 6, 8, 12])), min_size=1, max_size=6),
    batches=st.lists(st.integers(0, 30), min_size=4, max_size=12),
)
def test_any_windows_together(specs: list[Spec], batches: list[int]) -> None:
    slide_along(states.SUM_INTEGER, specs, batches)


def test_a_window_that_leaves_its_step_is_answered_and_finds_a_chain_again() -> None:
    tested, oracle = Stairs(states.COUNT, 1), RecomputeSynopsis(states.COUNT, 1)
    random = np.random.default_rng(3)
    chains = []
    for number in range(90):
        ints, floats = partials(states.COUNT, 1, 1, random)
        for synopsis in (tested, oracle):
            synopsis.insert(ints, floats, RANKS)
        specs = [(3, 1), (8, 2)] if not 30 <= number < 34 else [(3, 1), (7, 1)]
        window = due(specs, number, number + 1)
        wanted = oracle.answer(window[0], window[1], RANKS)[0]
        assert (tested.answer(window[0], window[1], RANKS, None, window[2])[0] == wanted).all()
        chains.append(tested.chains)
    assert chains[29] == chains[89] == [[0, 1]]
    assert chains[31] != [[0, 1]]


def test_a_window_that_goes_frees_its_number() -> None:
    stairs = slide_along(states.COUNT, NESTED, [1] * 60)
    stairs.drop_window(1)
    assert stairs.chains == [[0]]  # what stood upon it is arranged again when it is next seen


def test_an_answer_costs_what_its_window_adds() -> None:
    """Thirty nested windows: each adds a few combinations, not its range; alone they would cost their ranges."""
    specs = [(20 * (k + 1), 1) for k in range(30)]
    tested = Stairs(states.COUNT, 1)
    longest = specs[-1][0]
    part = np.ones((1, 1, 1), np.int64)
    nothing = np.empty((0, 1, 1))
    for number in range(2 * longest):
        tested.insert(part, nothing, RANKS)
        if number == longest + 100:
            count_operations_of(tested)
        starts, ends, numbers = due(specs, number, number + 1)
        found, _ = tested.answer(starts, ends, RANKS, None, numbers)
        assert (found[0, :, 0] == ends - starts).all()
        tested.evict(number + 1 - longest)
    answers = (longest - 101) * len(specs)
    assert tested.chains == [list(range(30))]
    assert operations(tested) / answers < 4.0


# -- chains ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("most", "seed"), [(10, 1), (20, 2), (30, 3)])
def test_a_pool_of_many_windows_falls_into_few_chains(most: int, seed: int) -> None:
    """The pools of section 5: ranges that are multiples of their slides, up to 60; neighbours obey definition 1."""
    random = np.random.default_rng(seed)
    slides = random.integers(1, most + 1, 10_000)
    ranges = slides * (1 + random.integers(0, 60, 10_000) % (60 // slides))
    chains = chains_of(ranges, slides, np.zeros(10_000, np.int64))
    assert sum(len(chain.windows) + len(chain.piggybacked) for chain in chains) == 10_000
    for chain in chains:
        for shorter, longer in zip(chain.windows, chain.windows[1:], strict=False):
            assert slides[longer] % slides[shorter] == 0
            assert ranges[longer] > ranges[shorter]
        for window, host in chain.piggybacked.items():
            assert ranges[window] == ranges[host]
            assert slides[window] % slides[host] == 0
    assert len(chains) <= 2 * most
