"""The edges of panes and of cutty: whether slices between them compose every window, and how many a window has."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import pairwise
from math import gcd
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from panewise.slicing import cutty, pairs, panes
from panewise.slicing.pairs import Cadence

LOW, HIGH = -60, 60
cadences = st.builds(
    Cadence, st.none() | st.integers(1, 30), st.integers(1, 12), st.integers(0, 9), st.integers(-20, 20)
)
Classes = Callable[[Iterable[Cadence]], tuple[Any, Any]]


def edges(classes: tuple[Any, Any]) -> list[int]:
    """All edges in [LOW, HIGH), one by one."""
    return [
        point
        for point in range(LOW, HIGH)
        if any(point % slide == phase for slide, phase in zip(*map(list, classes), strict=True))
    ]


def spans(window: Cadence) -> list[tuple[int, int]]:
    """What the window covers at each report, so far as it lies in [LOW, HIGH)."""
    assert window.range is not None
    reports = range(LOW - 100, HIGH + 100)
    ends = [report - window.offset for report in reports if (report - window.align) % window.slide == 0]
    return [(end - window.range, end) for end in ends if end - window.range >= LOW and end < HIGH]


@given(st.lists(cadences, max_size=5))
def test_panes_compose_every_window(windows: list[Cadence]) -> None:
    found = set(edges(panes.edge_classes(windows)))
    for window in windows:
        ends = {report - window.offset for report in range(-200, 200) if (report - window.align) % window.slide == 0}
        assert {end for end in ends if LOW <= end < HIGH} <= found
        if window.range is not None:
            assert all(start in found and end in found for start, end in spans(window))


@given(st.lists(cadences, min_size=1, max_size=5))
def test_panes_are_the_longest_of_equal_length(windows: list[Cadence]) -> None:
    """No other class with a longer distance has all the edges that pairs says are needed."""
    (pane,), _ = panes.edge_classes(windows)
    needed = edges(pairs.edge_classes(windows))
    assert all((point - needed[0]) % pane == 0 for point in needed)
    assert gcd(*(point - needed[0] for point in needed)) == pane


@given(st.lists(cadences, max_size=5))
def test_cutty_composes_every_window(windows: list[Cadence]) -> None:
    """Rows in order, one at each point: whole slices, and the open one as it is when a window ends, are the window."""
    found = edges(cutty.edge_classes(windows))
    for window in windows:
        if window.range is None:
            continue
        for start, end in spans(window):
            held: list[int] = []
            for point in range(LOW, end):  # what has been folded when the window ends
                if point in found or not held:
                    held.append(point)  # a new slice, open until the next edge
            bounds = [*held, end]
            slices = [list(range(a, b)) for a, b in pairwise(bounds)]
            taken = [point for first, piece in zip(held, slices, strict=True) if first >= start for point in piece]
            assert taken == list(range(start, end))


@given(st.lists(cadences, max_size=5))
def test_cutty_has_the_starts_and_no_other_edges(windows: list[Cadence]) -> None:
    bounded = [window for window in windows if window.range is not None]
    assert edges(cutty.edge_classes(windows)) == sorted({start for window in bounded for start in _starts(window)})


def _starts(window: Cadence) -> list[int]:
    phase = window.align - window.offset - (window.range or 0)
    return [point for point in range(LOW, HIGH) if (point - phase) % window.slide == 0]


@pytest.mark.parametrize("slicing", [pairs, panes, cutty])
@pytest.mark.parametrize(("range_", "slide"), [(4, 1), (14, 8), (5, 3), (12, 4), (7, 5)])
def test_slices_per_window(slicing: Any, range_: int, slide: int) -> None:
    """Table 1 of Shein and Chrysanthis."""
    window = Cadence(range_, slide)
    found = edges(slicing.edge_classes([window]))
    numbers = {sum(start <= edge < end for edge in found) for start, end in spans(window)}
    expected = {
        pairs: range_ // slide if range_ % slide == 0 else 2 * (range_ // slide) + 1,
        panes: range_ // gcd(range_, slide),
        cutty: -(-range_ // slide),
    }
    assert numbers == {expected[slicing]}


@pytest.mark.parametrize("slicing", [panes, cutty])
def test_no_window_no_edge(slicing: Any) -> None:
    assert [part.tolist() for part in slicing.edge_classes([])] == [[], []]


@given(st.lists(cadences, max_size=5))
def test_no_class_covers_another(windows: list[Cadence]) -> None:
    for slicing in (panes, cutty):
        classes = list(zip(*map(list, slicing.edge_classes(windows)), strict=True))
        for slide, phase in classes:
            others = [c for c in classes if c != (slide, phase)]
            assert not any(slide % other == 0 and phase % other == rest for other, rest in others)
