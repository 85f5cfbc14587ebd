"""Distinct values of many windows on the stairs, against brute force."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from panewise.state.snapshot_format import dumped, loaded
from papers.patroumpas2011.stairs_distinct import StairsDistinct


@settings(max_examples=max(15, settings.default.max_examples // 5))
@given(
    ranges=st.lists(st.integers(1, 30), min_size=1, max_size=5),
    actions=st.lists(
        st.tuples(st.sampled_from(["insert"] * 5 + ["restore", "drop", "add", "evict"]), st.integers(0, 2**32 - 1)),
        min_size=3,
        max_size=25,
    ),
)
def test_distinct_values_of_every_window(ranges: list[int], actions: list[tuple[str, int]]) -> None:
    tested = StairsDistinct(ranges)
    windows = dict(enumerate(ranges))
    slices: list[set[int]] = []
    for action, seed in actions:
        random = np.random.default_rng(seed)
        if action == "insert":
            rows = random.integers(0, 6, int(random.integers(1, 40)))
            codes = random.integers(0, int(random.choice([3, 12, 60])), int(rows.sum()))
            tested.insert(np.repeat(np.arange(len(rows)), rows), codes, len(rows))
            slices += [set(part.tolist()) for part in np.split(codes, np.cumsum(rows)[:-1])]
        elif action == "restore":
            saved = loaded(dumped(tested.snapshot()))
            tested = StairsDistinct([])
            tested.restore(saved)
        elif action == "drop" and len(windows) > 1:
            gone = int(random.choice(list(windows)))
            tested.drop_window(gone)
            del windows[gone]
        elif action == "add":  # no longer than the longest: further back nothing is held
            new, range_slices = max(windows) + 1, int(random.integers(1, max(windows.values()) + 1))
            windows[new] = range_slices
            tested.add_window(new, range_slices)
        elif action == "evict":
            before = int(random.integers(tested.first, tested.after + 1))
            tested.evict(before)
            slices[:before] = [set()] * before
        asked = random.permutation(list(windows))[: int(random.integers(1, len(windows) + 1))]
        for window in asked:  # not all: stairs may lag behind
            wanted: set[int] = set().union(*slices[max(0, len(slices) - windows[window]) :])
            if random.random() < 0.5:
                assert tested.count(window) == len(wanted)
            else:
                found = tested.distinct(window).tolist()
                assert len(found) == len(wanted)
                assert set(found) == wanted
        assert tested.after == len(slices)


def test_phantoms_are_removed_lazily() -> None:
    """Value 1 expires from the short window, migrates, and appears again: its older self goes when it is met."""
    tested = StairsDistinct([2, 100])

    def rows(*codes: int) -> None:
        tested.insert(np.arange(len(codes)), np.array(codes), len(codes))

    rows(1, 2, 3, 4)
    assert tested.count(0) == 2
    rows(1)
    log = tested._log_codes[: tested._tail].tolist()
    assert log == [1, 2, 3, 4, 1]  # nothing above the lowest stair was looked at
    assert tested.count(1) == 4  # but it is counted once
    assert tested.distinct(0).tolist() == [4, 1]
    assert tested._log_codes[: tested._tail].tolist() == log  # the short window does not meet the phantom
    assert tested.distinct(1).tolist() == [2, 3, 4, 1]
    assert tested._log_codes[: tested._tail].tolist() == [2, 3, 4, 1]


def test_memory_follows_distinct_values_not_rows() -> None:
    tested = StairsDistinct([10, 1000])
    random = np.random.default_rng(5)
    for _ in range(400):
        tested.insert(np.repeat(np.arange(10), 50), random.integers(0, 100, 500), 10)
    assert tested.count(1) == 100
    assert len(tested._log_codes) <= 4096
