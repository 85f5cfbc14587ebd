"""Random histories of edges, for tests of operators over deltas: who lives when, told step by step, and checked at
every instant.

A history is a list of rows (values, birth, said, end): the row is in the relation from its birth until its end or,
where that is None, until the death that was said. Columns are `k` BIGINT and `x` DOUBLE, both may be NULL.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from copy import deepcopy
from itertools import pairwise
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from panewise.operators.deltas import distinct, negation
from panewise.operators.joins import keyed_rows
from panewise.operators.relation_delta import FOREVER, Delta, DeltaOperator
from panewise.schema import BIGINT, DOUBLE, Column, Schema
from panewise.state.snapshot_format import dumped, loaded

SCHEMA = Schema((Column("k", BIGINT), Column("x", DOUBLE)))
LAST = 24  # no birth is later
HORIZON = 60  # everything that dies has died
Row = tuple[tuple[Any, Any], int, int, int | None]
VALUES = st.tuples(st.sampled_from([None, 1, 2]), st.sampled_from([None, 0.0, -0.0, math.nan, 1.5]))
FEW_VALUES = st.tuples(st.sampled_from([None, 1]), st.just(0.5))


@st.composite
def histories(draw: st.DrawFn, pattern: str) -> list[Row]:
    births = sorted(draw(st.lists(st.integers(0, LAST), max_size=14)))
    values = draw(st.sampled_from([VALUES, FEW_VALUES]))
    length = draw(st.integers(1, 12))
    rows: list[Row] = []
    for birth in births:
        said, end = FOREVER, None
        if pattern == "WEAKEST":
            said = birth + length
        elif pattern == "WEAK":
            said = birth + draw(st.integers(0, 12))
        elif pattern == "STRICT":
            said = draw(st.just(FOREVER) | st.integers(birth + 1, birth + 14))
            end = draw(st.none() | st.integers(birth, min(said, birth + 15) - 1))
        rows.append((draw(values), birth, said, end))
    return rows


def normal(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Equal where SQL groups them together."""
    return tuple(
        "NaN" if isinstance(v, float) and math.isnan(v) else v + 0.0 if isinstance(v, float) else v for v in values
    )


def relation(history: list[Row], instant: int) -> Counter[tuple[Any, ...]]:
    return Counter(normal(v) for v, birth, said, end in history if birth <= instant < (said if end is None else end))


def batch_of(values: list[tuple[Any, ...]]) -> pa.RecordBatch:
    columns = list(zip(*values, strict=True)) if values else [(), ()]
    arrow = SCHEMA.to_arrow()
    arrays = [pa.array(list(c), field.type) for c, field in zip(columns, arrow, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=arrow)


def delta_of(history: list[Row], since: int, until: int) -> Delta:
    """What the history says of a step; numbers leave gaps."""
    new = [(3 * i + 1, row) for i, row in enumerate(history) if since <= row[1] < until]
    ends = sorted(
        (row[3], 3 * i + 1) for i, row in enumerate(history) if row[3] is not None and since <= row[3] < until
    )
    return Delta(
        batch_of([row[0] for _, row in new]),
        np.array([number for number, _ in new], np.int64),
        np.array([row[1] for _, row in new], np.int64),
        np.array([row[2] for _, row in new], np.int64),
        np.array([number for _, number in ends], np.int64),
        np.array([end for end, _ in ends], np.int64),
    )


class Told:
    """What an operator's deltas say, with the promises of a delta checked."""

    def __init__(self) -> None:
        self.rows: dict[int, list[Any]] = {}  # number -> values, birth, death
        self.ended: set[int] = set()
        self.said: list[int] = []
        self._latest = -1

    def take(self, delta: Delta, since: int, until: int) -> None:
        columns = [column.to_pylist() for column in delta.batch.columns]
        numbers, births, deaths = delta.sequences.tolist(), delta.births.tolist(), delta.deaths.tolist()
        assert len(delta.batch) == len(numbers) == len(births) == len(deaths)
        assert delta.batch.schema == SCHEMA.to_arrow()
        assert births == sorted(births) and all(since <= birth < until for birth in births)
        for i, number in enumerate(numbers):
            assert number > self._latest
            self._latest = number
            assert births[i] < deaths[i], "a result that never shows"
            self.rows[number] = [normal(tuple(column[i] for column in columns)), births[i], deaths[i]]
            self.said.append(deaths[i])
        instants = delta.ended_at.tolist()
        assert instants == sorted(instants) and all(since <= instant < until for instant in instants)
        for number, instant in zip(delta.ended.tolist(), instants, strict=True):
            assert number in self.rows and number not in self.ended
            assert self.rows[number][1] < instant < self.rows[number][2], "an end that comes too late or too early"
            self.rows[number][2] = instant
            self.ended.add(number)

    def at(self, instant: int) -> Counter[tuple[Any, ...]]:
        return Counter(values for values, birth, death in self.rows.values() if birth <= instant < death)


CUTS = st.lists(st.integers(1, HORIZON - 1), max_size=8, unique=True).map(sorted)
RUNS = st.fixed_dictionaries(
    {"cuts": CUTS, "restart": st.none() | st.integers(0, 4), "forgetful": st.booleans()},
)


def told_by(
    make: Callable[[], DeltaOperator],
    inputs: list[list[Row]],
    cuts: list[int],
    restart: int | None = None,
    forgetful: bool = False,
) -> tuple[Told, DeltaOperator]:
    """Runs an operator over the steps between the cuts.

    `restart`: before that step it is snapshotted and restored, and has to go on as the one that was snapshotted does.
    `forgetful`: what is dead is closed up and forgotten as soon as it is the greater half, however little there is.
    """
    with ExitStack() as patches:
        if forgetful:
            for module in (distinct, keyed_rows, negation):
                patches.enter_context(patch.object(module, "_SPARE", 0))
        operator, told = make(), Told()
        before: tuple[DeltaOperator, Told] | None = None
        for step, (since, until) in enumerate(pairwise([0, *cuts, HORIZON])):
            if step == restart:
                before = operator, deepcopy(told)
                snapshot = loaded(dumped(operator.snapshot()))
                operator = make()
                operator.restore(snapshot)
            deltas = [delta_of(history, since, until) for history in inputs]
            told.take(operator.process(deltas, since, until), since, until)
            if before is not None:
                before[1].take(before[0].process(deltas, since, until), since, until)
    if before is not None:
        assert all(told.at(instant) == before[1].at(instant) for instant in range(HORIZON))
    return told, operator
