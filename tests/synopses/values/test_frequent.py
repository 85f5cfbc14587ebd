"""Frequent items against brute force: the lists of the paper's algorithm, its threshold and its guarantees."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from panewise.synopses.values.frequent import FrequentSynopsis
from panewise.synopses.values.runs import run_of
from tests.now_or_soak import examples

GROUPS = 2
rows_of_slices = st.lists(
    st.lists(st.tuples(st.integers(0, GROUPS - 1), st.integers(0, 9)), max_size=25), min_size=1, max_size=12
)


def made(k: int, slices: list[list[tuple[int, int]]]) -> FrequentSynopsis:
    synopsis = FrequentSynopsis(k)
    arrays = [np.array(rows, np.int64).reshape(-1, 2) for rows in slices]
    synopsis.insert([run_of(rows[:, 0], rows[:, 1]) for rows in arrays])
    return synopsis


def algorithm(k: int, slices: list[list[tuple[int, int]]], group: int) -> tuple[int, dict[int, int]]:
    """Algorithm 6 as it is written, for one window: delta and the global counters over it."""
    delta, counters = 0, Counter[int]()
    for rows in slices:
        local = Counter(v for g, v in rows if g == group)
        best = sorted(local.items(), key=lambda item: (-item[1], item[0]))[:k]
        counters.update(dict(best))
        delta += best[-1][1] if len(best) == k else 0
    return delta, {value: count for value, count in counters.items() if count > delta}


@given(rows_of_slices, st.integers(1, 5), st.data())
@examples(40, soak=80)
def test_windows_report_what_the_algorithm_reports(
    slices: list[list[tuple[int, int]]], k: int, data: st.DataObject
) -> None:
    synopsis = made(k, slices)
    first = data.draw(st.integers(0, len(slices)))
    synopsis.evict(first)
    if data.draw(st.booleans()):
        snapshot = synopsis.snapshot()
        synopsis = FrequentSynopsis(1)
        synopsis.restore(snapshot)
    start = data.draw(st.integers(first, len(slices)))
    end = data.draw(st.integers(start, len(slices)))
    windows = np.array([start]), np.array([end]), np.arange(GROUPS)
    thresholds = synopsis.threshold(*windows)[0].tolist()
    offsets, values, counts = (part.tolist() for part in synopsis.report(*windows))
    for group in range(GROUPS):
        delta, expected = algorithm(k, slices[start:end], group)
        piece = slice(offsets[group], offsets[group + 1])
        assert thresholds[group] == delta
        assert dict(zip(values[piece], counts[piece], strict=True)) == expected
        assert counts[piece] == sorted(counts[piece], reverse=True)

        truth = Counter(v for rows in slices[start:end] for g, v in rows if g == group)
        for value, count in expected.items():
            assert delta < count <= truth[value] <= count + delta
        unreported = {value: count for value, count in truth.items() if value not in expected}
        assert all(count <= 2 * delta for count in unreported.values())


def test_a_slice_with_fewer_values_than_counters_leaves_out_nothing() -> None:
    synopsis = made(3, [[(0, 5), (0, 5), (0, 6)], [(0, 6)]])
    windows = np.array([0]), np.array([2]), np.array([0, 1])
    assert synopsis.threshold(*windows).tolist() == [[0, 0]]
    offsets, values, counts = synopsis.report(*windows)
    assert (offsets.tolist(), values.tolist(), counts.tolist()) == ([0, 2, 2], [5, 6], [2, 2])


def test_groups_and_codes_are_renumbered() -> None:
    synopsis = made(1, [[(0, 3), (0, 3), (1, 4), (1, 4), (1, 2)]])
    synopsis.regroup(np.array([-1, 0]))
    synopsis.recode(np.array([9, 9, 9, 9, 0]))
    windows = np.array([0]), np.array([1]), np.array([0])
    assert synopsis.threshold(*windows).tolist() == [[2]]
    assert [[(run.groups.tolist(), run.values.tolist()) for run in runs] for runs in synopsis.held()] == [
        [([0], [0])],
        [([0], [0])],
    ]
