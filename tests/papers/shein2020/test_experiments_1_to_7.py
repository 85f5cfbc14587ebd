"""The experiments of Shein and Chrysanthis 2020: workloads as described, plans that are executed give right answers."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from rich.console import Console

from panewise.aggregates.matrix import NO_INTS, StateMatrix
from panewise.optimize.sharing.costs.calibration import shipped
from panewise.optimize.sharing.costs.weave_costs import OperationModel
from panewise.optimize.sharing.weave.weaving import weave
from panewise.slicing.pairs import Cadence
from papers.experiments import PAPER_EXPERIMENTS
from papers.shein2020 import experiments_1_to_7
from papers.shein2020.plan_execution import ExecutedPlan, kind_of, push_of, random_values
from papers.shein2020.workload_plans import (
    EXPERIMENTS,
    OPTIMIZERS,
    TECHNIQUES,
    QueryWorkload,
    arbitrary,
    cost_by,
    experiment_costs,
    planning_seconds,
)


def test_it_is_found_by_name() -> None:
    assert PAPER_EXPERIMENTS["shein2020"].module == "shein2020.experiments_1_to_7"


def test_workloads_are_those_of_table_4() -> None:
    drawn = QueryWorkload(queries=2000, slide_max=100, overlap_max=50).drawn(1)
    assert set(drawn.slides.tolist()) == {1, 2, 4, 5, 10, 20, 25, 50, 100}
    overlaps = drawn.ranges // drawn.slides
    assert (drawn.ranges % drawn.slides == 0).all() and overlaps.min() == 1 and overlaps.max() == 50
    long, short = (QueryWorkload(queries=2000, skew=skew).drawn(1).slides.mean() for skew in (1.0, -1.0))
    assert long > 2 * short
    assert [len(experiment.workloads()) for experiment in EXPERIMENTS] == [5] * 5
    assert EXPERIMENTS[3].workloads()[2] == QueryWorkload() and EXPERIMENTS[1].workloads()[0].slide_max == 10


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("technique", TECHNIQUES)
def test_executed_plans_answer_as_the_rows_do(technique: str, optimizer: str) -> None:
    cadences = [Cadence(6, 2), Cadence(8, 4), Cadence(7, 4), Cadence(40, 8), Cadence(8, 4)]
    plan = weave(cadences, 0.01, OperationModel(), [technique], optimizer)
    if len(plan.trees) == 1:
        plan = weave(cadences, 0.01, OperationModel(), [technique], "none")
    executed = ExecutedPlan(plan, technique, cadences, shared=optimizer == "tri_weave")
    push, kind = push_of(cadences), kind_of(technique)
    assert push >= 8000 and executed.results == sum(push // cadence.slide for cadence in cadences)
    executed.push()
    values = np.tile(random_values(kind, push, 2).values, 2)
    for tree, (ints, floats) in zip(executed.trees, executed.push(), strict=True):
        for place in (0, 1, len(tree.starts) // 2, len(tree.starts) - 1):
            start, end = (push + tree.slices.point(int(numbers[place])) for numbers in (tree.starts, tree.ends))
            rows = values[start:end]
            expected = StateMatrix(kind, 1)
            encoded = random_values(kind, len(rows), 0)
            expected.fold(
                np.zeros(len(rows), np.int64), [type(encoded)(rows, encoded.valid)], NO_INTS, NO_INTS, NO_INTS
            )
            assert whole(ints[:, place]) == whole(expected.ints)
            assert floats[:, place].tolist() == expected.floats.tolist()


def whole(fields: NDArray[np.int64]) -> int:
    """A sum is kept in two words, between which carries may be pending."""
    return sum(int(word[0]) << 32 * place for place, word in enumerate(fields[::-1]))


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_the_operations_of_a_plan_are_those_that_it_was_made_by(optimizer: str) -> None:
    columns = QueryWorkload(queries=30).drawn(3)
    plan = weave(columns, 1.0, OperationModel(), ["flat_fit"], optimizer)
    cadences = [columns[place] for place in range(30)]
    assert len(plan.trees) > 1
    assert cost_by(OperationModel(), cadences, plan, "flat_fit", optimizer, 1.0) == pytest.approx(plan.cost)


def test_better_techniques_have_cheaper_plans_with_fewer_trees() -> None:
    found = experiment_costs(EXPERIMENTS[2], seeds=1)
    for optimizer in OPTIMIZERS:
        panes, slick = found.costs["panes", optimizer], found.costs["slick_deque_inv", optimizer]
        assert panes[-1] > 100_000 * slick[-1]
        assert np.mean(found.trees["panes", optimizer]) > np.mean(found.trees["slick_deque", optimizer])


def test_planning_is_timed_where_the_method_applies() -> None:
    found = planning_seconds(QueryWorkload().drawn(1), "f1")
    assert found is not None and found[1] > 1
    assert planning_seconds(arbitrary(30), "bit_set") is None


def test_deviations() -> None:
    assert experiments_1_to_7.deviation([1.0, 3.0], [2.0, 2.0]) == 0.5
    assert experiments_1_to_7.same_largest([1.0, 2.0], [5.0, 30.0]) == [15.0, 30.0]


def test_all_of_it_runs_quickly(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(experiments_1_to_7, "calibrated", shipped)
    monkeypatch.setattr(experiments_1_to_7, "calibrated_with_long_windows", lambda model: model)
    monkeypatch.setattr(experiments_1_to_7, "show_plot", lambda console, name, panels: None)
    monkeypatch.setattr(experiments_1_to_7, "EXPERIMENTS", EXPERIMENTS[4:])
    monkeypatch.setattr(experiments_1_to_7, "TECHNIQUES", ("panes", "slick_deque_inv", "slick_deque"))
    assert experiments_1_to_7.run(quick=True, folder=None) == 0
    shown = capsys.readouterr().out
    for expected in ("experiment 5", "trees of a plan", "best pairs", "figure 16", "experiment 6", "experiment 7"):
        assert expected in shown
    assert "MISSED" not in shown


def test_a_wrong_figure_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(experiments_1_to_7, "compare", lambda *_, **__: np.array([1.0, 0.9]))
    assert experiments_1_to_7.greedy_against_optimum(Console(quiet=True), quick=True)
