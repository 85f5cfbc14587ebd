"""The arguments of states: columns of a batch, each evaluated and encoded once for all states that read them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from panewise.aggregates.holistic import Statistic, StatisticKind
from panewise.aggregates.matrix import NO_ARGUMENT, NO_INTS, Encoded, encoded, identity
from panewise.aggregates.states import Feed
from panewise.aggregates.string_pool import StringPool
from panewise.arrays import Ints
from panewise.language.expressions import Expression
from panewise.plan.aggregation import Fields, Pools, StateKey
from panewise.plan.expressions.evaluate import compiled


class Arguments:
    """The encoded arguments of some states for one batch."""

    def __init__(self, places: dict[StateKey, tuple[int, ...]], columns: list[Encoded]) -> None:
        self._places = places
        self._columns = columns

    def of(self, key: StateKey) -> list[Encoded]:
        return [self._columns[place] for place in self._places[key]] or [NO_ARGUMENT]

    def rest(self, begin: int) -> Arguments:
        """The arguments of the rows from `begin` on."""
        if not begin:
            return self
        return Arguments(self._places, [Encoded(c.values[begin:], c.valid[begin:]) for c in self._columns])


class ArgumentPlan:
    """The columns that some states read; made once and used for every batch."""

    def __init__(self, states: tuple[StateKey, ...], pools: Pools) -> None:
        self._pools = pools
        self._places: dict[StateKey, tuple[int, ...]] = {}
        sources: dict[tuple[Expression, Feed], int] = {}
        for key in states:
            wanted = zip(key.arguments, key.kind.feeds, strict=False)
            self._places[key] = tuple(sources.setdefault(source, len(sources)) for source in wanted)
        evaluators = {argument: compiled(argument) for argument, _ in sources}
        self._sources = [(evaluators[argument], argument, feed) for argument, feed in sources]

    def read(self, batch: pa.RecordBatch) -> Arguments:
        columns = []
        for evaluator, argument, feed in self._sources:
            pool = self._pools.setdefault(argument, StringPool()) if feed is Feed.CODE else None
            columns.append(encoded(evaluator(batch), feed, pool))
        return Arguments(self._places, columns)


def ranks_of(key: StateKey, pools: Pools) -> Ints:
    """The ranks of the strings that a state compares; empty if it compares none."""
    ranked = key.ranked
    return NO_INTS if ranked is None or ranked not in pools else pools[ranked].ranks()


def empty_fields(key: StateKey, answers: int) -> Fields:
    """The fields of answers over no rows."""
    if isinstance(key.kind, StatisticKind) and key.kind.lists:
        return [np.full(answers, None, np.object_)]
    ints, floats = identity(key.kind, answers)
    if isinstance(key.kind, StatisticKind) and key.kind.statistic is Statistic.ABOUT_QUANTILE:
        floats[:] = np.nan  # This is how sketches say that there is no value.
    return [*ints, *floats]
