"""Which trees a window fits, against the points of the axis counted one by one."""

from __future__ import annotations

from math import lcm

from hypothesis import given
from hypothesis import strategies as st

from panewise.optimize.sharing.edges.residue_classes import Class
from panewise.optimize.sharing.weave.joining import fits, met_by
from panewise.slicing.pairs import Cadence, classes_of

SLIDES = st.sampled_from([1, 2, 3, 4, 5, 6, 8, 9, 10, 12])
CLASSES = SLIDES.flatmap(lambda slide: st.tuples(st.just(slide), st.integers(0, slide - 1)))
TREES = st.lists(CLASSES, min_size=1, max_size=6)
CADENCES = st.builds(
    Cadence, st.one_of(st.integers(1, 30), st.none()), SLIDES, offset=st.integers(0, 5), align=st.integers(0, 5)
)
PERIOD = lcm(*range(1, 13))


def points(classes: list[Class]) -> set[int]:
    """All edges of a period of all slides."""
    return {point for slide, phase in classes for point in range(phase % slide, PERIOD, slide)}


@given(TREES, CLASSES)
def test_the_points_met_are_those_in_common(tree: list[Class], own: Class) -> None:
    slide, phase = own
    met = {phase + k * slide for k in range(PERIOD // slide) if any(k % m == r for m, r in met_by(tree, own))}
    assert met == points(tree) & points([own])


@given(TREES, CADENCES)
def test_a_window_fits_where_it_brings_no_new_points(tree: list[Class], cadence: Cadence) -> None:
    assert fits(tree, cadence) == (points(list(classes_of(cadence))) <= points(tree))


def test_microseconds_are_as_cheap_as_seconds() -> None:
    seconds = 1_000_000
    tree = [(second * seconds, 0) for second in (7, 11, 13)]
    assert fits(tree, Cadence(77 * seconds, 77 * seconds)) and not fits(tree, Cadence(17 * seconds, 17 * seconds))
