"""Lookups of `GROUP BY k HAVING aggregate > constant` over very many groups: an index finds candidates for HAVING.

Rows are inserted into an index of the aggregate that HAVING compares, and into exact synopses of all states of their
group. A lookup asks the index for candidates, answers only these groups, and evaluates the whole HAVING for them:

    rows --> index: CI-COUNT, CI-SUM, or the MAX and MIN filter     --lookup--> candidates
         \\-> per group: running counts and sums, staircases           --answers-> HAVING --> items

The index never misses a group, so the answer is exact. A value that it does not accept (a negative one in a SUM) ends
it: from then on every group with rows is a candidate, and EXPLAIN says why. A lookup costs O(log rows of the group) for
each candidate and state. The index does not cover instants before the newest row; counts and sums are still held there.

Source: Arasu and Widom 2004, section 4 (exact lookups: "by checking for each k in the approximate output").
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from panewise.aggregates.columns import wrapped
from panewise.aggregates.matrix import Encoded, StateMatrix
from panewise.aggregates.states import Operation
from panewise.arrays import Ints
from panewise.errors import DataError, NotHeldError
from panewise.language.expressions import Expression
from panewise.language.statements import Emission
from panewise.operators.arguments import ArgumentPlan
from panewise.operators.lifetimes import NEVER, not_held
from panewise.operators.result_columns import continuous_schema, table_of
from panewise.operators.row_batch import Rows
from panewise.operators.row_operator import RowOperator
from panewise.operators.selection import RowSelection
from panewise.optimize.collective_condition import CollectiveCondition
from panewise.plan.aggregation import ROW_COUNT, Aggregation, Fields, StateKey
from panewise.plan.expressions.evaluate import compiled
from panewise.state.group_table import GroupTable
from panewise.synopses.collective.collective_count import CollectiveCount
from panewise.synopses.collective.collective_extreme import CollectiveExtreme, ordered_keys, values_of_keys
from panewise.synopses.collective.collective_sum import CollectiveSum
from panewise.synopses.collective.substream_running import SubstreamExtremes, SubstreamRunning
from panewise.temporal import TimeWindow, format_instant

Index = CollectiveCount | CollectiveSum | CollectiveExtreme
ALWAYS = 2**62  # longer than every range
LEVELS = 4  # p: candidates within a third of the bound; an update costs half as much as with p = 8
EVICTIONS_PER_RANGE = 4
FORGET_FROM = 1024  # groups; with fewer, none are dropped
_MAXIMA = (Operation.MAX_INT, Operation.MAX_FLOAT)
_FLOATS = (Operation.MIN_FLOAT, Operation.MAX_FLOAT)


class CollectiveLookup(RowOperator):
    """An aggregate by group over a continuous time window that only answers lookups.

    `held_from`: not all rows before that instant were seen.
    """

    def __init__(
        self,
        aggregation: Aggregation,
        condition: CollectiveCondition,
        window: TimeWindow,
        where: Expression | None,
        emit: Emission,
        held_from: int | None = None,
    ) -> None:
        assert window.range_us is not None and not window.offset_us
        self.condition = condition
        self.refused = ""  # why the index has ended
        self._aggregation = aggregation
        self._range = window.range_us
        self._schema = continuous_schema(aggregation.item_schema, emit)
        self._selection = RowSelection(where)
        self._keys = [compiled(key) for key in aggregation.keys]
        self._table = GroupTable(tuple(key.type for key in aggregation.keys))
        self._watermark = NEVER + 1
        self._whole_from = NEVER if held_from is None else held_from + window.range_us - 1
        self._evicted_to = NEVER
        self._held_since = NEVER  # some row that was in the window before this instant is no longer held
        self._index: Index | None = _index_of(condition, window.range_us)
        self._sums = [key for key in aggregation.states if key != ROW_COUNT and key.kind.operation is Operation.ADD]
        self._running = SubstreamRunning(sum(key.kind.int_fields for key in self._sums), ALWAYS)
        extremes = [key for key in aggregation.states if key.kind.operation is not Operation.ADD]
        self._extremes = {key: SubstreamExtremes(ALWAYS) for key in extremes}

    @property
    def described(self) -> dict[str, str]:
        return {"collective index": self._shown_index()}

    def _shown_index(self) -> str:
        if self._index is None:
            return f"none, every group is asked: {self.refused}"
        names = {"COUNT": "CI-COUNT", "SUM": "CI-SUM", "MAX": "the MAX filter", "MIN": "the MIN filter"}
        levels = f" with p = {LEVELS}" if self.condition.function in ("COUNT", "SUM") else ""
        return f"{names[self.condition.function]}{levels} on {self.condition}"

    @property
    def bytes_held(self) -> int:
        held = self._table.bytes_held + self._running.bytes_held
        held += sum(staircase.bytes_held for staircase in self._extremes.values())
        return held if self._index is None else held + self._index.bytes_held

    def process(self, rows: Rows, watermark: int) -> pa.Table:
        """Takes the rows below the watermark that were not given before; returns no results."""
        assert not len(rows) or rows.times[0] >= self._watermark, "a row below the last watermark"
        passing = self._selection.passing(rows)
        chosen = rows if passing is None else rows.take(passing)
        if len(chosen):
            self._insert(chosen)
        self._watermark = max(self._watermark, watermark)
        needed = max(self._watermark - self._range, NEVER)
        if needed - self._evicted_to >= max(1, self._range // EVICTIONS_PER_RANGE):
            self._evict(needed)
        return self._schema.empty_table()

    def _insert(self, rows: Rows) -> None:
        groups = self._table.ids([key(rows.batch) for key in self._keys])
        self._widen()
        arguments = ArgumentPlan(self._aggregation.states, {}).read(rows.batch)
        sums = [_single_states(key, arguments.of(key), rows) for key in self._sums]
        values = np.concatenate(sums) if sums else np.empty((0, len(rows)), np.int64)
        self._running.insert(groups, rows.times, values)
        for key, staircase in self._extremes.items():
            argument = arguments.of(key)[0]
            there = _present(argument, len(rows))
            keys = ordered_keys(argument.values[there], key.kind.operation in _MAXIMA)
            staircase.insert(groups[there], rows.times[there], keys)
        if self._index is not None:
            self._insert_into(self._index, groups, rows, arguments.of(self.condition.state))

    def _widen(self) -> None:
        """Gives every part room for all groups: a lookup also asks for groups of which a part has seen only NULLs."""
        for part in (self._running, *self._extremes.values(), *([] if self._index is None else [self._index])):
            part.widen(len(self._table))

    def _insert_into(self, index: Index, groups: Ints, rows: Rows, arguments: list[Encoded]) -> None:
        try:
            if isinstance(index, CollectiveCount):
                index.insert(groups, rows.times)
                return
            there = _present(arguments[0], len(rows))
            if isinstance(index, CollectiveExtreme):
                index.insert(groups[there], rows.times[there], arguments[0].values[there])
            elif self.condition.function == "COUNT":
                index.insert(groups, rows.times, there.astype(np.int64))
            else:
                index.insert(groups, rows.times, np.where(there, arguments[0].values, 0))
        except DataError as problem:
            self._index, self.refused = None, problem.message

    def _evict(self, before: int) -> None:
        """Evicts the rows before an instant, and drops groups without rows if they are the majority."""
        self._evicted_to = before
        gone = self._running.evict(before)
        if gone != NEVER:
            self._held_since = max(self._held_since, gone + self._range)
        for staircase in self._extremes.values():
            staircase.evict(before)
        if isinstance(self._index, CollectiveCount | CollectiveSum):
            self._index.evict(before)
        live = self._running.live()
        if len(self._table) < FORGET_FROM or len(self._table) < 4 * len(live):
            return
        # All parts are made before any is replaced, so that ids and state still agree after an error.
        running = self._running.regrouped(live)
        extremes = {key: staircase.regrouped(live) for key, staircase in self._extremes.items()}
        index = None if self._index is None else self._index.regrouped(live)
        self._table.keep(live)
        self._running, self._extremes, self._index = running, extremes, index

    def lookup(self, at: int) -> pa.Table:
        """The items at an instant; NotHeldError if rows that it needs are no longer held or may still come."""
        if at > NEVER:
            self._check_held(at)
        groups = np.sort(self._candidates(at))
        counts, sums = self._running.answer(groups, at, self._range)
        fields: dict[StateKey, Fields] = {ROW_COUNT: [counts]}
        first = 0
        for key in self._sums:
            fields[key] = [*sums[first : first + key.kind.int_fields]]
            first += key.kind.int_fields
        for key, staircase in self._extremes.items():
            fields[key] = [_extreme(key, *staircase.answer(groups, at, self._range))]
        batch = self._aggregation.answer_batch(self._table.keys(groups), fields, {})
        columns, passing = self._aggregation.selected(batch), self._aggregation.passing(batch)
        assert passing is not None, "an index needs a HAVING"
        return table_of(columns, self._aggregation.item_schema).filter(wrapped(passing & (counts > 0)))

    def _candidates(self, at: int) -> Ints:
        """A superset of the groups that pass."""
        index, condition = self._index, self.condition
        if index is None or at < index.newest:
            return np.arange(len(self._table), dtype=np.int64)
        if isinstance(index, CollectiveExtreme):
            return index.lookup(at, self._range, condition.least, condition.most)[0]
        assert not isinstance(condition.least, float) and not isinstance(condition.most, float)
        return index.lookup(at, self._range, condition.least, condition.most)

    def _check_held(self, at: int) -> None:
        first, last = max(self._whole_from, self._held_since), self._watermark - 1
        if not first <= at <= last:
            raise not_held(at, first, last)
        if self._extremes and at < self._running.newest:
            raise NotHeldError(
                f"the state at {format_instant(at)} is not held",
                hint="this lookup query holds maxima and minima from the newest row on, which came at "
                f"{format_instant(self._running.newest)}",
            )

    def snapshot(self) -> dict[str, Any]:
        return {
            "watermark": self._watermark,
            "whole_from": self._whole_from,
            "evicted_to": self._evicted_to,
            "held_since": self._held_since,
            "refused": self.refused,
            "table": self._table.snapshot(),
            "running": self._running.snapshot(),
            "extremes": [staircase.snapshot() for staircase in self._extremes.values()],
            "index": None if self._index is None else self._index.snapshot(),
        }

    def restore(self, snapshot: dict[str, Any]) -> None:
        self._watermark, self._whole_from = snapshot["watermark"], snapshot["whole_from"]
        self._evicted_to, self._held_since = snapshot["evicted_to"], snapshot["held_since"]
        self.refused = snapshot["refused"]
        self._table.restore(snapshot["table"])
        self._running.restore(snapshot["running"])
        for staircase, saved in zip(self._extremes.values(), snapshot["extremes"], strict=True):
            staircase.restore(saved)
        if snapshot["index"] is None:
            self._index = None
        elif self._index is not None:
            self._index.restore(snapshot["index"])
        self._widen()


def _index_of(condition: CollectiveCondition, range_us: int) -> Index:
    longest = min(range_us, ALWAYS)
    if condition.function in ("MAX", "MIN"):
        return CollectiveExtreme(condition.function == "MAX", longest, condition.floats)
    if condition.function == "COUNT" and not condition.state.arguments:
        return CollectiveCount(LEVELS, longest)
    return CollectiveSum(LEVELS, longest)


def _present(argument: Encoded, count: int) -> NDArray[np.bool_]:
    """The mask of the rows whose argument is not NULL."""
    return argument.valid.astype(np.bool_) if len(argument.valid) else np.ones(count, np.bool_)


def _single_states(key: StateKey, arguments: list[Encoded], rows: Rows) -> Ints:
    """The int64 fields of the state of each row alone."""
    matrix = StateMatrix(key.kind, len(rows))
    matrix.fold(np.arange(len(rows)), arguments, rows.times, rows.arrivals, np.empty(0, np.int64))
    return matrix.ints


def _extreme(key: StateKey, present: NDArray[np.bool_], keys: Ints) -> NDArray[Any]:
    operation = key.kind.operation
    floats = operation in _FLOATS
    values = values_of_keys(keys, operation in _MAXIMA, floats)
    identity = (key.kind.float_identity if floats else key.kind.int_identity)[0]
    return np.where(present, values, identity)
