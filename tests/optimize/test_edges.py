"""Rates of edges, by every method, against marking all points of a period one by one."""

from __future__ import annotations

import random
from fractions import Fraction
from math import gcd, lcm, prod

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from panewise.optimize.sharing.edges import f1, residues, sampled
from panewise.optimize.sharing.edges.edge_counts import EdgeRate, Slicing, classes_of, edge_rate, reduced
from panewise.optimize.sharing.edges.residue_classes import Class, coprime_powers, parts
from panewise.slicing.pairs import Cadence

METHODS = ("bit_set", "f1", "residues", "auto")

phased = st.tuples(st.integers(1, 24), st.integers(0, 400)).map(lambda pair: (pair[0], pair[1] % pair[0]))
small_sets = st.lists(phased, min_size=1, max_size=6)
smooth_slides = st.builds(
    lambda *exponents: prod(prime**exponent for prime, exponent in zip((2, 3, 5, 7, 11), exponents, strict=True)),
    *(st.integers(0, most) for most in (6, 3, 2, 1, 1)),
)
smooth_sets = st.lists(st.tuples(smooth_slides, st.integers(0, 10**6)), min_size=1, max_size=30)
windows = st.builds(
    Cadence, st.none() | st.integers(1, 30), st.integers(1, 12), st.integers(0, 9), st.integers(-20, 20)
)


def share(rate: EdgeRate) -> Fraction:
    return Fraction(rate.edges, rate.period)


def points(classes: list[Class], below: int) -> set[int]:
    return {point for slide, phase in classes for point in range(phase % slide, below, slide)}


def share_by_methods(classes: list[Class]) -> dict[str, Fraction]:
    """The share by every method that applies and is exact."""
    shares = {}
    for method in METHODS:
        try:
            rate = edge_rate(classes, method)
        except ValueError:
            continue
        if rate.exact:
            shares[method] = share(rate)
    return shares


@given(small_sets)
def test_every_method_counts_what_brute_force_counts(classes: list[Class]) -> None:
    period = lcm(*(slide for slide, _ in classes))
    if period > 100_000:
        return
    expected = Fraction(len(points(classes, period)), period)
    shares = share_by_methods(classes)
    assert {"bit_set", "residues", "auto"} <= set(shares)
    assert set(shares.values()) == {expected}
    rate = edge_rate(classes)
    assert rate.period == period and rate.exact and rate.bound == 0
    assert rate.per_unit == pytest.approx(float(expected))


@given(st.lists(st.integers(1, 40), min_size=1, max_size=5), st.integers(0, 1000))
def test_windows_that_report_together_are_counted_by_all_methods(slides: list[int], meeting: int) -> None:
    shares = share_by_methods([(slide, meeting % slide) for slide in slides])
    assert {"f1", "residues", "auto"} <= set(shares)
    assert len(set(shares.values())) == 1


@settings(max_examples=60)
@given(smooth_sets)
def test_methods_agree_on_many_classes(classes: list[Class]) -> None:
    shares = share_by_methods(classes)
    assert len(set(shares.values())) == 1 and "bit_set" in shares


@given(small_sets, st.integers(1, 10**6), st.integers(-(10**7), 10**7))
def test_a_rate_does_not_depend_on_unit_and_origin(classes: list[Class], unit: int, origin: int) -> None:
    moved = [(slide * unit, (phase * unit + origin) % (slide * unit)) for slide, phase in classes]
    for method in ("residues", "auto"):
        assert share(edge_rate(moved, method)) * unit == share(edge_rate(classes, method))


@given(st.lists(windows, min_size=1, max_size=4), st.sampled_from(Slicing))
def test_rates_of_windows_count_their_edges(cadences: list[Cadence], slicing: Slicing) -> None:
    """Counts from the definition of each slicing, over a stretch that is a multiple of every slide up to 12."""
    low, high = 100_000, 100_000 + lcm(*range(1, 13))
    found: set[int] = set()
    for cadence in cadences:
        end = cadence.align - cadence.offset
        starts = set() if cadence.range is None else {end - cadence.range}
        if slicing is Slicing.PANES:
            marks, step = {end}, gcd(cadence.slide, cadence.range or 0)
        else:
            marks, step = starts | (set() if slicing is Slicing.CUTTY else {end}), cadence.slide
        for mark in marks:
            found.update(range(low + (mark - low) % step, high, step))
    rate = edge_rate(frozenset().union(*(classes_of(cadence, slicing) for cadence in cadences)))
    assert share(rate) == Fraction(len(found), high - low)


@given(small_sets)
def test_reduced_keeps_the_points_and_nothing_too_much(classes: list[Class]) -> None:
    kept = reduced(classes)
    assert points(list(kept), 600) == points(classes, 600)
    assert list(kept) == sorted(set(kept))
    for slide, phase in kept:
        assert not any(
            slide % coarse == 0 and phase % coarse == rest for coarse, rest in kept if (coarse, rest) != (slide, phase)
        )


@given(small_sets)
def test_parts_never_meet_and_have_no_common_factor(classes: list[Class]) -> None:
    kept = reduced(classes)
    divided = list(parts(kept))
    assert sum(len(part) for _, part in divided) == len(kept)
    for _, part in divided:
        assert gcd(*(slide for slide, _ in part)) == 1
        assert part[0][1] == 0


@given(st.lists(st.integers(1, 10**12), min_size=1, max_size=8))
def test_coprime_powers_multiply_to_every_slide(slides: list[int]) -> None:
    powers = coprime_powers(slides)
    assert prod(powers) == lcm(*slides)
    assert all(power > 1 for power in powers)
    for place, power in enumerate(powers):
        assert all(gcd(power, other) == 1 for other in powers[:place])
    for slide in slides:
        assert prod(gcd(slide, power) for power in powers) == slide


def test_a_covering_system_leaves_nothing_free() -> None:
    covering = [(2, 0), (3, 0), (4, 1), (6, 5), (12, 7)]
    assert set(share_by_methods(covering).values()) == {Fraction(1)}
    # The same with a period too long for marking: every class repeated modulo a large prime.
    prime = 2**31 - 1
    spread = [(2, 0), (3, 0), (4, 1), (12, 7), (6 * prime, 5), *((6 * 5, 5 + 6 * k) for k in range(5))]
    assert share(edge_rate(spread, "residues")) == 1


def test_slides_near_the_greatest_integer_are_exact() -> None:
    first, second, third = 2**63 - 25, 2**63 - 165, 2**63 - 259
    rate = edge_rate([(first, 1), (second, 2), (third, 3)])
    missed = (1 - Fraction(1, first)) * (1 - Fraction(1, second)) * (1 - Fraction(1, third))
    assert rate.exact and share(rate) == 1 - missed


def test_where_a_method_does_not_apply_it_says_so() -> None:
    with pytest.raises(ValueError, match="periods of up to"):
        edge_rate([(4099, 0), (4111, 0), (2, 1)], "bit_set")
    with pytest.raises(ValueError, match="no point in common"):
        edge_rate([(4, 0), (6, 1), (9, 0)], "f1")
    with pytest.raises(ValueError, match="terms"):
        edge_rate([(prime, 0) for prime in (53, 59, 61, 67, 71, 73, 79, 83, 89, 97, 101, 103, 107)], "f1")
    with pytest.raises(ValueError, match="there are auto, bit_set"):
        edge_rate([(2, 0)], "guess")


def test_no_classes_have_no_edges() -> None:
    assert edge_rate([]) == EdgeRate(0, 1)
    assert edge_rate(classes_of(Cadence(None, 7), Slicing.CUTTY)).per_unit == 0


@settings(max_examples=40)
@given(smooth_sets)
def test_an_estimate_is_within_its_bound(classes: list[Class]) -> None:
    kept = reduced(classes)
    exact = share(edge_rate(kept))
    estimate = sampled.count(kept)
    assert 0 < estimate.bound < 0.022 + 0.5 / estimate.period
    assert abs(Fraction(estimate.edges, estimate.period) - exact) <= estimate.bound


def test_estimates_are_the_fallback_where_work_runs_out() -> None:
    slides = [143, 187, 209, 221, 247, 323, 299, 391, 437, 253]
    classes = reduced([(slide, place) for place, slide in enumerate(slides)])
    exact = residues.count(classes)
    assert exact.bound == 0
    estimate = residues.count(classes, steps_max=5)
    assert 0 < estimate.bound <= 0.022 * sum(1 / slide for slide in slides)
    assert abs(estimate.edges / estimate.period - exact.edges / exact.period) <= estimate.bound
    assert residues.count(classes, steps_max=5) == estimate


def test_many_slides_with_little_in_common_are_estimated_within_the_bound() -> None:
    generator = random.Random(7)
    slides = generator.sample(range(100, 1000), 55)
    classes = [(slide * 1_000_000, generator.randrange(slide) * 1_000_000) for slide in slides for _ in range(2)]
    rate = edge_rate(classes)
    assert not rate.exact and 0 < rate.bound < 0.022e-6
    ((_, part),) = parts(reduced(classes))
    exact = residues.count(part, steps_max=1 << 17)
    assert exact.bound == 0
    assert abs(rate.per_unit - exact.edges / exact.period / 1_000_000) <= rate.bound


def test_f1_joins_groups_of_one_least_common_multiple() -> None:
    factors = [number for number in range(2, 10**6 + 1) if 10**6 % number == 0]
    assert edge_rate([(factor, 0) for factor in factors], "f1") == EdgeRate(600_000, 1_000_000)
    pairs_of_primes = [(p * q, 0) for p in (2, 3, 5, 7, 11, 13) for q in (2, 3, 5, 7, 11, 13) if p < q]
    assert f1.count(tuple(sorted(pairs_of_primes))) == residues.count(tuple(sorted(pairs_of_primes)))
