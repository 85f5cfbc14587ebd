"""Which tree a window joins, against the points of the axis counted one by one."""

from __future__ import annotations

from fractions import Fraction
from math import lcm

from hypothesis import given
from hypothesis import strategies as st

from panewise.optimize.sharing.edges import Slicing, classes_of
from panewise.optimize.sharing.joining import best_tree, fits, growth, met_by
from panewise.optimize.sharing.residue_classes import Class
from panewise.slicing.pairs import Cadence

SLIDES = st.sampled_from([1, 2, 3, 4, 5, 6, 8, 9, 10, 12])
CLASSES = SLIDES.flatmap(lambda slide: st.tuples(st.just(slide), st.integers(0, slide - 1)))
TREES = st.lists(CLASSES, min_size=1, max_size=6)
CADENCES = st.builds(
    Cadence, st.one_of(st.integers(1, 30), st.none()), SLIDES, offset=st.integers(0, 5), align=st.integers(0, 5)
)
SLICINGS = st.sampled_from([Slicing.PAIRS, Slicing.CUTTY])
PERIOD = lcm(*range(1, 13))


def points(classes: list[Class]) -> set[int]:
    """All edges of a period of all slides."""
    return {point for slide, phase in classes for point in range(phase % slide, PERIOD, slide)}


@given(TREES, CLASSES)
def test_the_points_met_are_those_in_common(tree: list[Class], own: Class) -> None:
    slide, phase = own
    met = {phase + k * slide for k in range(PERIOD // slide) if any(k % m == r for m, r in met_by(tree, own))}
    assert met == points(tree) & points([own])


@given(TREES, CADENCES, SLICINGS)
def test_a_window_fits_where_it_brings_no_new_points(tree: list[Class], cadence: Cadence, slicing: Slicing) -> None:
    new = points(list(classes_of(cadence, slicing))) - points(tree)
    assert fits(tree, cadence, slicing) == (not new)
    assert growth(tree, cadence, slicing) == Fraction(len(new), PERIOD)


@given(st.lists(TREES, max_size=5), CADENCES)
def test_the_best_tree_has_all_edges_or_gets_the_fewest(trees: list[list[Class]], cadence: Cadence) -> None:
    best = best_tree(trees, cadence)
    if not trees:
        assert best is None
        return
    assert best is not None
    own = points(list(classes_of(cadence, Slicing.PAIRS)))
    costs = [(len(own - points(tree)), len(points(tree))) for tree in trees]
    assert costs[best] == min(costs)


def test_known_rates_are_believed() -> None:
    assert best_tree([[(1, 0)], [(2, 0)]], Cadence(4, 4), rates=[0.1, 0.5]) == 0


def test_microseconds_are_as_cheap_as_seconds() -> None:
    seconds = 1_000_000
    tree = [(second * seconds, 0) for second in (7, 11, 13)]
    assert fits(tree, Cadence(77 * seconds, 77 * seconds)) and not fits(tree, Cadence(17 * seconds, 17 * seconds))
    expected = Fraction(6 * 10 * 12, 7 * 11 * 13) / (17 * seconds)
    assert growth(tree, Cadence(17 * seconds, 17 * seconds)) == expected
