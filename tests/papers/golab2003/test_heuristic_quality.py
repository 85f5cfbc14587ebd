"""Random joins are what was asked for, and the quality of heuristics is computed from their ratios."""

from __future__ import annotations

import pytest

from papers.golab2003.heuristic_quality import Quality, random_joins


def test_random_joins_have_the_sizes_asked_for_and_repeat() -> None:
    drawn = [costs.graph.inputs for costs in random_joins(60, 3)]
    assert {len(inputs) for inputs in drawn} == {3, 4, 5, 6}
    assert (
        drawn == [costs.graph.inputs for costs in random_joins(60, 3)] != [c.graph.inputs for c in random_joins(60, 4)]
    )


def test_quality_is_computed_from_ratios() -> None:
    assert Quality.of("x", [1.0, 1.0 + 1e-12, 3.0, 2.0]) == Quality("x", 4, 0.5, pytest.approx(1.75), 3.0)
