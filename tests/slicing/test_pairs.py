"""Edges of sets of windows, against counting them out."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from panewise.slicing.pairs import Cadence, edge_classes

cadences = st.builds(
    Cadence, st.none() | st.integers(1, 30), st.integers(1, 12), st.integers(0, 9), st.integers(-20, 20)
)


def edges(cadence: Cadence, low: int, high: int) -> set[int]:
    """Starts and ends of all windows, in [low, high)."""
    found = set()
    for report in range(low - 100, high + 100):
        if (report - cadence.align) % cadence.slide == 0:
            found.add(report - cadence.offset)
            if cadence.range is not None:
                found.add(report - cadence.offset - cadence.range)
    return {edge for edge in found if low <= edge < high}


@given(st.lists(cadences, max_size=5))
def test_edge_classes_are_all_edges_and_no_others(windows: list[Cadence]) -> None:
    slides, phases = edge_classes(windows)
    expected = set().union(*(edges(window, -60, 60) for window in windows))
    found = {
        point for point in range(-60, 60) for slide, phase in zip(slides, phases, strict=True) if point % slide == phase
    }
    assert found == expected


@given(st.lists(cadences, max_size=5))
def test_no_class_covers_another(windows: list[Cadence]) -> None:
    classes = list(zip(*map(list, edge_classes(windows)), strict=True))
    for slide, phase in classes:
        others = [c for c in classes if c != (slide, phase)]
        assert not any(slide % other == 0 and phase % other == rest for other, rest in others)


@given(cadences, st.integers(-100, 100))
def test_next_report(cadence: Cadence, after: int) -> None:
    report = cadence.next_report(after)
    assert after < report <= after + cadence.slide
    assert (report - cadence.align) % cadence.slide == 0
