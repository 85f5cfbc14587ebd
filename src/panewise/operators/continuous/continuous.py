"""Continuous queries: windows without SLIDE, whose relation changes with every row and every expiration.

At each instant with a change, the multisets of selected values before and after it are compared; the values that left
and came are the results. Rows come in (time, arrival) order as the watermark passes them. `process` covers all instants
from the last watermark to below the new one.

    watermark         5              9
    instants          |  5 6 7 8     |      process(rows, 9) reports the changes at 5, 6, 7 and 8
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from panewise.aggregates.columns import wrapped
from panewise.aggregates.matrix import StateMatrix
from panewise.errors import NotHeldError, QueryFailed
from panewise.language.expressions import ColumnRef, Expression
from panewise.language.statements import Emission, SelectItem
from panewise.operators.continuous.group_windows import Events, GroupWindows, leaving_of
from panewise.operators.continuous.row_states import MatrixMaker
from panewise.operators.lifetimes import NEVER, CountLifetimes, lifetimes_of, not_held
from panewise.operators.multiset import equal_to_previous, remaining
from panewise.operators.partition_tail import RowCounts
from panewise.operators.relation_rows import RelationRows, wanted
from panewise.operators.result_columns import change_log, continuous_schema, table_of
from panewise.operators.row_batch import Rows
from panewise.operators.row_operator import RowOperator
from panewise.operators.selection import RowSelection
from panewise.plan.aggregation import Aggregation
from panewise.schema import Schema
from panewise.temporal import TimeWindow, Window

Mask = NDArray[np.bool_]


class _Continuous(RowOperator):
    """The part that both kinds of continuous queries share: lifetimes, WHERE and the watermark."""

    def __init__(
        self,
        items: pa.Schema,
        window: Window,
        where: Expression | None,
        emit: Emission,
        schema: Schema,
        held_from: int | None,
    ) -> None:
        assert emit is not Emission.RSTREAM, "the planner refuses a continuous RSTREAM"
        self._emit = emit
        self._items = items
        self._schema = continuous_schema(items, emit)
        self._selection = RowSelection(where)
        self._lifetimes = lifetimes_of(window, schema, held_from)
        self._watermark = NEVER + 1  # the changes at instants below it are out

    def begin_at(self, instant: int) -> None:
        self._lifetimes.begin_at(instant)

    def begin_after(self, gone: RowCounts) -> None:
        assert isinstance(self._lifetimes, CountLifetimes)
        self._lifetimes.begin_after(gone)

    def counted_rows(self, partition_by: tuple[str, ...]) -> RowCounts | None:
        lifetimes = self._lifetimes
        return lifetimes.tail.counted(partition_by) if isinstance(lifetimes, CountLifetimes) else None

    def _check_held(self, at: int, held_since: int) -> None:
        """Raises NotHeldError unless the state at an instant is known. Before all rows it is known, and empty."""
        if at <= NEVER:
            return
        first, last = max(held_since, self._lifetimes.known_from), self._watermark - 1
        if not first <= at <= last:
            raise not_held(at, first, last)

    def _snapshot(self) -> dict[str, Any]:
        return {"lifetimes": self._lifetimes.snapshot(), "watermark": self._watermark}

    def _restore(self, snapshot: dict[str, Any]) -> None:
        self._lifetimes.restore(snapshot["lifetimes"])
        self._watermark = snapshot["watermark"]


class ContinuousAggregate(_Continuous):
    """An aggregate over a continuous window: the relation has one row per group with rows that HAVING keeps.

    Without GROUP BY there is one row from the first row of the stream on; if the window is empty, it has SQL's answer
    for an empty set. If `silent`, only the state is maintained, for lookups. `held_from`: not all rows before that
    instant were seen.
    """

    def __init__(
        self,
        aggregation: Aggregation,
        window: Window,
        where: Expression | None,
        emit: Emission,
        schema: Schema,
        held_from: int | None = None,
        silent: bool = False,
        matrix_of: MatrixMaker = StateMatrix,
    ) -> None:
        super().__init__(aggregation.item_schema, window, where, emit, schema, held_from)
        self._aggregation = aggregation
        self._silent = silent
        self._windows = GroupWindows(aggregation, leaving_of(window, aggregation), matrix_of)
        shown = {item.expression.name for item in aggregation.items if isinstance(item.expression, ColumnRef)}
        # Rows of two groups can be equal only if some grouping key is not among the items.
        self._apart = all(f"key_{i}" in shown for i in range(len(aggregation.keys)))

    @property
    def bytes_held(self) -> int:
        return self._windows.bytes_held + self._lifetimes.bytes_held

    def process(self, rows: Rows, watermark: int) -> pa.Table:
        """The changes below the watermark; the rows are all rows below it that were not given before.

        QueryFailed if an answer cannot be computed; its `results` are the changes before that instant.
        """
        since = self._watermark
        watermark = max(watermark, since)
        assert not len(rows) or rows.times[0] >= since, "a row below the last watermark"
        self._windows.take(rows, self._lifetimes.assign(rows), self._selection.passing(rows))
        forced = NEVER if self._aggregation.keys else self._lifetimes.starts_at
        result = None
        if not self._silent:
            result = self._changes(self._windows.events(since, watermark, forced))
        elif self._windows.grows:
            self._windows.events(since, watermark, forced)
        self._watermark = watermark
        self._windows.forget(watermark)
        return self._schema.empty_table() if result is None else result

    def _present(self, events: Events) -> Mask:
        present: Mask = events.counts > 0 if self._aggregation.keys else events.times >= self._lifetimes.starts_at
        return present

    def _answers(self, events: Events) -> tuple[list[Any], Mask]:
        columns, passing = self._windows.rows.answers(events.groups, events.states)
        present = self._present(events)
        return columns, present if passing is None else present & passing

    def _changes(self, events: Events) -> pa.Table | None:
        try:
            return self._compared(events)
        except QueryFailed as problem:
            failure = self._windows.rows.first_failure(events.times, events.groups, events.states)
            problem.results = self._compared(events.before(failure))
            raise

    def _compared(self, events: Events) -> pa.Table | None:
        after = np.flatnonzero(~events.opens)
        if not len(after):
            return None
        columns, present = self._answers(events)
        before = after - 1
        same = present[before] & present[after] & equal_to_previous(columns)[after]
        lost, came = present[before] & ~same, present[after] & ~same
        rows = np.concatenate([before[lost], after[came]])
        instants = np.concatenate([events.times[after[lost]], events.times[after[came]]])
        signs = np.ones(len(rows), np.int64)
        signs[: np.count_nonzero(lost)] = -1
        kept = np.ones(len(rows), np.bool_)
        if not self._apart:
            taken = wrapped(rows)
            kept = remaining(instants, signs, [column.take(taken) for column in columns])
        chosen = np.flatnonzero(kept & wanted(self._emit, signs))
        # Rows that left are before rows that came, both by group; a stable sort keeps this order within an instant.
        chosen = chosen[np.argsort(instants[chosen], kind="stable")]
        taken = wrapped(rows[chosen])
        items = [column.take(taken) for column in columns]
        return change_log(instants[chosen], signs[chosen], items, self._emit, self._schema)

    def lookup(self, at: int) -> pa.Table:
        """The items at an instant; NotHeldError if rows that it needs are no longer held or may still come."""
        self._check_held(at, self._windows.alive.held_since)
        events = self._windows.at(at)
        columns, present = self._answers(events)
        return table_of(columns, self._items).filter(wrapped(present))

    def snapshot(self) -> dict[str, Any]:
        return {**self._snapshot(), "windows": self._windows.snapshot()}

    def restore(self, snapshot: dict[str, Any]) -> None:
        self._restore(snapshot)
        self._windows.restore(snapshot["windows"])


class ContinuousRows(_Continuous):
    """A query without aggregates over a continuous window: its relation has the selected values of the rows in it.

    A row is a +1 at its birth and a -1 at its death. ISTREAM over [UNBOUNDED] is a filter and holds nothing.
    """

    def __init__(
        self,
        items: tuple[SelectItem, ...],
        window: Window,
        where: Expression | None,
        emit: Emission,
        schema: Schema,
        held_from: int | None = None,
        silent: bool = False,
    ) -> None:
        self._relation = RelationRows(items)
        super().__init__(self._relation.schema, window, where, emit, schema, held_from)
        self._silent = silent
        unbounded = isinstance(window, TimeWindow) and window.range_us is None
        self._forgets_born = unbounded and emit is Emission.ISTREAM and not silent

    @property
    def relation(self) -> RelationRows:
        return self._relation

    @property
    def bytes_held(self) -> int:
        return self._relation.bytes_held + self._lifetimes.bytes_held

    def process(self, rows: Rows, watermark: int) -> pa.Table:
        """The changes below the watermark; the rows are all rows below it that were not given before."""
        since = self._watermark
        watermark = max(watermark, since)
        assert not len(rows) or rows.times[0] >= since, "a row below the last watermark"
        self._relation.take(rows, self._lifetimes.assign(rows), self._selection.passing(rows))
        result = self._schema.empty_table()
        if not self._silent:
            instants, signs, values = self._relation.changes(since, watermark, self._emit)
            result = change_log(instants, signs, values.columns, self._emit, self._schema)
        self._watermark = watermark
        self._relation.follow(since, watermark)
        self._relation.forget(watermark, self._forgets_born)
        return result

    def lookup(self, at: int) -> pa.Table:
        """The items at an instant; NotHeldError if rows that it needs are no longer held or may still come."""
        held_since = self._relation.alive.held_since
        self._check_held(at, held_since)
        if self._forgets_born and held_since > NEVER:
            raise NotHeldError(
                "ISTREAM over an unbounded window holds no rows", hint="WITH (mode = 'lookup') keeps them all"
            )
        return self._relation.at(at)

    def snapshot(self) -> dict[str, Any]:
        return {**self._snapshot(), "relation": self._relation.snapshot()}

    def restore(self, snapshot: dict[str, Any]) -> None:
        self._restore(snapshot)
        self._relation.restore(snapshot["relation"])
