"""Buckets of hash tables: by share as the paper divides them, by scans against all divisions."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from panewise.optimize.joins.join_graph import JoinInput, common_attribute
from panewise.optimize.joins.order_costs import Evaluation, JoinCosts
from panewise.optimize.joins.ordering import best_orders
from papers.golab2003.hash_sizes import by_scans, by_share
from tests.now_or_soak import examples
from tests.optimize.join_inputs import EVALUATIONS, INPUTS


@given(st.lists(INPUTS, min_size=1, max_size=6), st.integers(0, 300), st.integers(1, 10))
def test_buckets_by_share_use_the_budget_and_go_with_the_rows(inputs: list[JoinInput], budget: int, least: int) -> None:
    sizes = by_share(inputs, budget, least)
    assert sum(sizes) == max(budget, least * len(inputs)) and min(sizes) >= least
    for one, size in zip(inputs, sizes, strict=True):
        for other, other_size in zip(inputs, sizes, strict=True):
            assert one.rows_in_window <= other.rows_in_window or size >= other_size - 1


def test_the_divisions_of_section_6_5() -> None:
    inputs = [JoinInput(rate, 100 * rate, 50) for rate in (1, 1, 1, 50)]
    assert by_share(inputs, 48, least=5) == (5, 5, 5, 33)
    assert by_share(inputs, 48, least=10) == (10, 10, 10, 18)
    assert by_share([replace(inputs[0])] * 4, 48) == (12, 12, 12, 12)


@given(st.lists(INPUTS, min_size=2, max_size=3), st.integers(1, 14), EVALUATIONS)
@examples(20, soak=40)
def test_buckets_by_scans_are_the_cheapest(inputs: list[JoinInput], budget: int, evaluation: Evaluation) -> None:
    edges = common_attribute(len(inputs), hashed=True)
    orders = best_orders([replace(one, buckets=1) for one in inputs], edges, evaluation=evaluation)

    def total(sizes: tuple[int, ...]) -> float:
        sized = [replace(one, buckets=size) for one, size in zip(inputs, sizes, strict=True)]
        costs = JoinCosts(sized, edges, evaluation)
        return costs.of_orders(orders) + costs.of_maintenance()

    found = by_scans(inputs, edges, orders, budget, evaluation)
    budget = max(budget, len(inputs))
    choices = product(*(range(1, min(int(one.distinct), budget) + 1) for one in inputs))
    assert sum(found) <= budget and min(found) >= 1
    assert all(size <= one.distinct for size, one in zip(found, inputs, strict=True))
    assert total(found) == pytest.approx(min(total(sizes) for sizes in choices if sum(sizes) <= budget))


def test_no_more_buckets_than_expiration_can_visit() -> None:
    inputs = [JoinInput(1, 100, 1000)] * 2
    edges, orders = common_attribute(2, hashed=True), ((1,), (0,))
    rare, often = (by_scans(inputs, edges, orders, 2000, Evaluation(tau, tau)) for tau in (100, 0.25))
    assert sum(often) < sum(rare) < 2000
    assert often == (5, 5)  # the square root of 100.125 comparisons by 4 visits
