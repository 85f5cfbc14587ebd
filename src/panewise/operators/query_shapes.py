"""Shapes: numbers of equal aggregations, so that what depends on the aggregation only is computed once."""

from __future__ import annotations

from panewise.errors import QueryFailed
from panewise.operators.arguments import empty_fields
from panewise.plan.aggregation import Aggregation, Pools, StateKey


class Shapes:
    """Distinct aggregations, numbered from 0."""

    def __init__(self) -> None:
        self._numbers: dict[Aggregation, int] = {}
        self._aggregations: list[Aggregation] = []
        self._silent: dict[int, bool] = {}

    def number(self, aggregation: Aggregation) -> int:
        number = self._numbers.setdefault(aggregation, len(self._numbers))
        if number == len(self._aggregations):
            self._aggregations.append(aggregation)
        return number

    def asked_by(self, shape: int) -> tuple[StateKey, ...]:
        """The states and statistics that members of a shape need in an answer."""
        return self._aggregations[shape].asked

    def is_silent_when_empty(self, shape: int, pools: Pools) -> bool:
        """Whether HAVING drops the report of an empty window; for ungrouped members."""
        if shape not in self._silent:
            self._silent[shape] = _drops_empty(self._aggregations[shape], pools)
        return self._silent[shape]


def _drops_empty(aggregation: Aggregation, pools: Pools) -> bool:
    if aggregation.having is None or aggregation.holistic:
        return False
    try:
        empty = aggregation.answer_batch([], {key: empty_fields(key, 1) for key in aggregation.asked}, pools)
        passing = aggregation.passing(empty)
    except QueryFailed:
        return False
    return passing is not None and not passing.any()
