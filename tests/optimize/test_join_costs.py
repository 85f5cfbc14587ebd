"""Costs of window joins: the papers' figures to the digit, and the model against loops that count comparisons."""

from __future__ import annotations

from itertools import permutations, product
from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from panewise.optimize.joins.join_graph import JoinEdge, JoinGraph, JoinInput, common_attribute
from panewise.optimize.joins.order_costs import Evaluation, JoinCosts, MaintenanceWeights, orders_of
from tests.now_or_soak import examples

TABLE_5 = ((10, 100, 500), (1, 100, 50), (1, 200, 40), (3, 100, 5))  # also 5.3 of the thesis
TABLE_6 = ((100, 100, 200), (1, 100, 200), (1, 100, 20), (3, 100, 2))
TABLE_7 = ((11, 100, 200), (10, 100, 100), (1, 100, 65), (1, 100, 20))  # also 5.6 of the thesis
TABLE_5_5 = ((10, 100, 40), (1, 100, 100), (1, 100, 8), (1, 100, 5))  # printed with a rate of 100 in stream 1


def joined(table: tuple[tuple[int, int, int], ...]) -> JoinCosts:
    inputs = [JoinInput(rate, rate * length, distinct) for rate, length, distinct in table]
    return JoinCosts(inputs, common_attribute(len(inputs)))


def places(name: str) -> tuple[int, ...]:
    return tuple(int(digit) - 1 for digit in name)


@pytest.mark.parametrize(
    ("table", "order", "printed"),
    [
        (TABLE_5, "1234", 16000), (TABLE_5, "2134", 19600),
        (TABLE_6, "2134", 80400), (TABLE_6, "1234", 120000), (TABLE_6, "2314", 123150), (TABLE_6, "2341", 248450),
        (TABLE_7, "3412", 49542), (TABLE_7, "3142", 47977), (TABLE_7, "3124", 51954),
        (TABLE_7, "1234", 68200), (TABLE_7, "2134", 79000),
        (TABLE_5_5, "2134", 16200), (TABLE_5_5, "2341", 42600), (TABLE_5_5, "1234", 21000),
    ],
)  # fmt: skip
def test_the_papers_costs(table: tuple[tuple[int, int, int], ...], order: str, printed: int) -> None:
    assert round(joined(table).of_global_order(places(order))) == printed


@pytest.mark.parametrize(
    ("table", "least", "greatest"),
    [(TABLE_5, 16000, 86850), (TABLE_6, 80400, 646050), (TABLE_7, 47977, 79000), (TABLE_5_5, 16200, 135150)],
)
def test_the_papers_best_and_worst(table: tuple[tuple[int, int, int], ...], least: int, greatest: int) -> None:
    costs = [joined(table).of_global_order(order) for order in permutations(range(4))]
    assert (round(min(costs)), round(max(costs))) == (least, greatest)


def test_the_mean_of_table_7() -> None:
    costs = [joined(TABLE_7).of_global_order(order) for order in permutations(range(4))]
    assert round(sum(costs) / 24) == 63362


def test_table_5_4_and_the_cost_of_each_origin() -> None:
    costs = joined(TABLE_5)
    sizes = {"12": 200, "13": 400, "14": 600, "23": 400, "24": 600, "34": 1500, "123": 800, "124": 1200}
    for name, size in sizes.items():
        assert costs.graph.joined_rows(sum(1 << place for place in places(name))) == pytest.approx(size)
    origins = [costs.of_origin(origin, order) for origin, order in enumerate(orders_of((0, 1, 2, 3)))]
    assert origins == pytest.approx([3800, 3800, 2400, 6000])


def test_the_printed_rate_of_table_5_5_gives_other_costs() -> None:
    printed = ((100, 100, 40), *TABLE_5_5[1:])
    assert round(joined(printed).of_global_order(places("2134"))) != 16200


# -- against loops that count ------------------------------------------------------------------------------------------

EDGE_CASES = {
    "one attribute": [("a", 0, 1), ("a", 1, 2), ("a", 2, 3)],
    "a chain of attributes": [("a", 0, 1), ("b", 1, 2), ("c", 2, 3)],
    "two attributes in a cycle": [("a", 0, 1), ("a", 1, 2), ("b", 0, 3), ("b", 3, 2)],
    "a part without predicates": [("a", 0, 1), ("b", 2, 3)],
    "one name, not connected": [("a", 0, 1), ("a", 2, 3)],
}


def full_windows(names: list[tuple[str, int, int]], values: list[int]) -> list[list[dict[str, int]]]:
    """Every combination of values of its attributes is once in a window: values are uniform and independent."""
    windows = []
    for place, count in enumerate(values):
        attributes = sorted({name for name, left, right in names if place in (left, right)})
        rows = product(range(count), repeat=len(attributes))
        windows.append([dict(zip(attributes, row, strict=True)) for row in rows])
    return windows


def connected(names: list[tuple[str, int, int]], attribute: str, place: int, other: int) -> bool:
    reached = {place}
    for _ in names:
        for name, left, right in names:
            if name == attribute and reached & {left, right}:
                reached |= {left, right}
    return other in reached


def counted(
    names: list[tuple[str, int, int]], windows: list[list[dict[str, int]]], origin: int, order: tuple[int, ...]
) -> float:
    """Comparisons for one new row, on average over the rows of its window: nested loops, written down plainly."""
    total = 0
    for first in windows[origin]:
        partial = [{origin: first}]
        for place in order:
            found = []
            for bound, row in product(partial, windows[place]):
                tests = []
                for attribute in row:
                    others = [old[attribute] for other, old in bound.items()
                              if attribute in old and connected(names, attribute, place, other)]  # fmt: skip
                    if others:
                        tests.append(row[attribute] == others[0])
                # Each test that is reached is one comparison; a row without a test is looked at once.
                total += 1 + (tests.index(False) if False in tests else max(len(tests) - 1, 0))
                if all(tests):
                    found.append({**bound, place: row})
            partial = found
    return total / len(windows[origin])


@pytest.mark.parametrize("case", EDGE_CASES)
@given(values=st.lists(st.integers(1, 3), min_size=4, max_size=4), order=st.permutations(range(4)))
@examples(12, soak=25)
def test_the_model_counts_what_loops_do(case: str, values: list[int], order: list[int]) -> None:
    names = EDGE_CASES[case]
    windows = full_windows(names, values)
    inputs = [JoinInput(1, len(rows), count) for rows, count in zip(windows, values, strict=True)]
    edges = [JoinEdge(left, right, attribute=name) for name, left, right in names]
    # With two attributes the model tests them in the order of the edges; all orders give the same mean if counts of
    # values are equal, and the windows are the same for both.
    if any(len({name for name, *pair in names if place in pair}) > 1 for place in range(4)):
        values[:] = [values[0]] * 4
        windows = full_windows(names, values)
        inputs = [JoinInput(1, len(rows), values[0]) for rows in windows]
    origin, others = order[0], tuple(order[1:])
    costs = JoinCosts(inputs, edges)
    assert costs.of_origin(origin, others) == pytest.approx(counted(names, windows, origin, others))


# -- hashing, other predicates -----------------------------------------------------------------------------------------


def test_a_bucket_divides_what_a_probe_looks_at_and_not_what_it_finds() -> None:
    inputs = [JoinInput(1, 100, 10, 1), JoinInput(1, 200, 10, 5), JoinInput(1, 400, 10, 20)]
    assert JoinCosts(inputs, common_attribute(3, hashed=True)).of_origin(0, (1, 2)) == 200 / 5 + 20 * 400 / 20
    assert JoinCosts(inputs, common_attribute(3)).of_origin(0, (1, 2)) == 200 + 20 * 400


def test_without_buckets_an_index_looks_at_matches_only_and_a_lookup_costs() -> None:
    inputs = [JoinInput(1, 100, 10), JoinInput(1, 200, 10), JoinInput(1, 400, 40)]
    costs = JoinCosts(inputs, common_attribute(3, hashed=True), lookup=2)
    assert costs.of_origin(0, (1, 2)) == pytest.approx((2 + 20) + 20 * (2 + 10))


def test_an_expensive_predicate_is_charged_for_rows_that_reach_it() -> None:
    inputs = [JoinInput(1, 100, 10), JoinInput(1, 200, 40)]
    edges = [JoinEdge(0, 1, selectivity=0.5, expense=7), JoinEdge(0, 1)]
    assert JoinCosts(inputs, edges).of_origin(0, (1,)) == pytest.approx(200 * (1 + 7 / 40))
    assert JoinCosts(inputs, edges).of_origin(1, (0,)) == pytest.approx(100 * (1 + 7 / 40))
    assert JoinGraph(inputs, edges).joined_rows(0b11) == pytest.approx(100 * 200 / 40 * 0.5)


def test_a_pair_without_a_predicate_has_selectivity_1() -> None:
    graph = JoinGraph([JoinInput(1, 10, 5), JoinInput(1, 20, 5), JoinInput(1, 30, 5)], [JoinEdge(0, 1)])
    assert graph.selectivity(0b101) == 1 and graph.joined_rows(0b101) == 300
    assert not graph.connected(0b011, 2) and graph.connected(0b100 | 0b001, 1)


def test_an_empty_window_costs_nothing_and_divides_nothing_by_zero() -> None:
    costs = JoinCosts([JoinInput(1, 0, 0), JoinInput(0, 0, 0), JoinInput(2, 10, 3)], common_attribute(3, True))
    assert costs.of_global_order((0, 1, 2)) == 0
    assert costs.of_origin(0, (2, 1)) == pytest.approx(10 / 3)


@pytest.mark.parametrize(
    "build",
    [
        lambda: JoinInput(-1, 10), lambda: JoinInput(1, 10, 5, 0), lambda: JoinEdge(1, 1),
        lambda: JoinEdge(0, 1, selectivity=2), lambda: JoinEdge(0, 1, selectivity=0.5, hashed=True),
        lambda: JoinGraph([JoinInput(1, 1)], [JoinEdge(0, 1)]),
    ],
)  # fmt: skip
def test_nonsense_is_refused(build: object) -> None:
    with pytest.raises(AssertionError):
        build()  # type: ignore[operator]


# -- eager and lazy ----------------------------------------------------------------------------------------------------


def alike(rates: tuple[float, ...], evaluation: Evaluation, buckets: int = 1) -> JoinCosts:
    inputs = [JoinInput(rate, 100 * rate, 50, buckets) for rate in rates]
    return JoinCosts(inputs, common_attribute(len(inputs), hashed=True), evaluation)


def test_lazy_evaluation_with_windows_that_do_not_grow_costs_what_eager_does() -> None:
    eager, lazy = alike((1, 2, 3), Evaluation()), alike((1, 2, 3), Evaluation(interval=7))
    assert lazy.of_global_order((0, 1, 2)) == pytest.approx(eager.of_global_order((0, 1, 2)))


def test_lazy_expiration_makes_windows_longer_by_half_the_interval() -> None:
    assert alike((2, 2), Evaluation(0, 10)).of_origin(0, (1,)) == 2 * (2 * 105)


def test_groups_of_equal_values_probe_once() -> None:
    def cost(grouped: bool, rate: float) -> float:
        inputs = [JoinInput(rate, 100 * rate, 5), JoinInput(1, 100, 5)]
        return JoinCosts(inputs, common_attribute(2), Evaluation(10, 0, grouped)).of_origin(0, (1,))

    assert cost(False, 100) == pytest.approx(100 * 100)
    assert cost(True, 100) == pytest.approx(5 * 100 / 10, rel=1e-6)  # all five values come in every run
    assert cost(True, 0.001) == pytest.approx(cost(False, 0.001), rel=0.2)  # hardly any two rows are in a run


def test_naive_recomputes_and_eager_does_not() -> None:
    costs = alike((1, 1, 1), Evaluation())
    # By hand, three windows of 100 rows and 50 values: X3 scans S2 for every row of S1, then one row for every match.
    assert costs.of_loops(2, (0, 1, 2)) == 100 * 100 + 200 * 1
    assert costs.of_loops(2, (2, 0, 1)) == 100 + 2 * 100
    assert costs.of_naive((0, 1, 2)) > costs.of_global_order((0, 1, 2))


def test_expiration_visits_every_bucket_each_time() -> None:
    weights = MaintenanceWeights(insertion=1, hashing=10, removal=100, visit=1000)
    assert alike((1, 2), Evaluation(5, 5), 8).of_maintenance(weights) == pytest.approx(3 * 111 + 16 / 5 * 1000)
    assert alike((1, 2), Evaluation(), 8).of_maintenance(weights) == pytest.approx(3 * 111 + (8 + 16) * 1000)
    unhashed = JoinCosts([JoinInput(1, 100, 50, 8)] * 2, common_attribute(2), Evaluation(5, 5))
    assert unhashed.of_maintenance(weights) == pytest.approx(2 * 101 + 2 / 5 * 1000)


@pytest.mark.parametrize("visit", [1.0, 10.0, 35.0, 100.0])
def test_the_best_interval_of_expiration_grows_with_the_number_of_buckets(visit: float) -> None:
    best = []
    for buckets in (2, 10, 30):
        totals = {}
        for tau in range(1, 200):
            costs = alike((1, 1, 1, 1), Evaluation(tau, tau), buckets)
            totals[tau] = costs.of_global_order(range(4)) + costs.of_maintenance(MaintenanceWeights(visit=visit))
        best.append(min(totals, key=totals.__getitem__))
    assert best[0] < best[1] < best[2] < 199


@given(st.lists(st.tuples(st.integers(1, 500), st.integers(1, 300)), min_size=2, max_size=5), st.data())
def test_the_size_of_a_join_is_the_papers_step_by_step(parameters: list[tuple[int, int]], data: st.DataObject) -> None:
    """phi_ijk = phi_ij * R_k / max(min(v_i, v_j), v_k), in any order."""
    inputs = [JoinInput(1, rows, values) for rows, values in parameters]
    order = data.draw(st.permutations(range(len(inputs))))
    size, values = inputs[order[0]].rows_in_window, inputs[order[0]].distinct
    for place in order[1:]:
        size *= inputs[place].rows_in_window / max(values, inputs[place].distinct)
        values = min(values, inputs[place].distinct)
    graph = JoinGraph(inputs, common_attribute(len(inputs)))
    assert graph.joined_rows((1 << len(inputs)) - 1) == pytest.approx(size)
    assert graph.window_product((1 << len(inputs)) - 1) == prod(rows for rows, _ in parameters)
