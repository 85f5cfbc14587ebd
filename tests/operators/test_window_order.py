"""Windows come by ends, then shortest first, each once, whichever way they were sorted."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from panewise.operators.window_order import distinct_windows, slice_places

windows = st.lists(st.tuples(st.integers(-1, 9), st.integers(0, 9)), min_size=1, max_size=40)


@given(windows, st.sampled_from([9, 2000]))
def test_order_and_places(drawn: list[tuple[int, int]], slices: int) -> None:
    starts, ends = np.array([start for start, _ in drawn]), np.array([end for _, end in drawn])
    firsts, places = distinct_windows(starts, ends, slices)
    asked = [drawn[i] for i in firsts]
    assert asked == sorted(set(drawn), key=lambda window: (window[1], -window[0]))
    assert [asked[place] for place in places] == drawn


@given(
    st.lists(st.integers(-1000, 1000), max_size=60, unique=True),
    st.lists(st.integers(-1100, 1100), max_size=40),
    st.booleans(),
)
def test_points_find_their_slices(starts: list[int], points: list[int], even: bool) -> None:
    slices = np.array([10 * n for n in range(len(starts))] if even else sorted(starts), np.int64)
    found = slice_places(slices, np.array(points, np.int64))
    assert found.tolist() == np.searchsorted(slices, points, side="left").tolist()
