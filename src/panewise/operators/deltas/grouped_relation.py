"""GROUP BY over deltas: a relation with one row for each group, its current answer.

The relation is STRICT: when a group's answer changes, its row ends and another one is born at the same instant. Without
GROUP BY there is one row from the start of the series on (`series_start`), with SQL's answer for an empty set if the
input is empty. `group_windows.py` keeps the input's rows according to the order in which they leave. Golab 2006,
section 3.5.2.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from panewise.aggregates.columns import wrapped
from panewise.aggregates.user import matrix_of
from panewise.arrays import Ints
from panewise.operators.continuous.group_windows import Events, GroupWindows, Leaving
from panewise.operators.lifetimes import NEVER, Assigned
from panewise.operators.multiset import equal_to_previous
from panewise.operators.relation_delta import FOREVER, Delta, DeltaOperator
from panewise.operators.row_batch import Rows
from panewise.plan.aggregation import Aggregation
from panewise.plan.nodes import Pattern
from panewise.state.group_table import GroupTable

Mask = NDArray[np.bool_]
LEAVING = {
    Pattern.MONOTONIC: Leaving.NEVER,
    Pattern.WEAKEST: Leaving.FIRST_IN_FIRST,
    Pattern.WEAK: Leaving.ANY_ORDER,
    Pattern.STRICT: Leaving.ANY_ORDER,
}


class GroupedRelation(DeltaOperator):
    """Aggregates an input with the update pattern `pattern`. Without GROUP BY, `start_by` must be called."""

    name = "GroupedRelation"

    def __init__(self, aggregation: Aggregation, pattern: Pattern) -> None:
        self._aggregation = aggregation
        self._windows = GroupWindows(aggregation, LEAVING[pattern], matrix_of)
        self._next = 0
        self._starts_at = FOREVER  # from when on there is an ungrouped answer
        # The row of each group that is shown now. Groups have numbers of their own here, because `_windows` renumbers.
        self._groups = GroupTable(tuple(key.type for key in aggregation.keys))
        self._shown: Ints = np.full(1, -1, np.int64)

    @property
    def bytes_held(self) -> int:
        return self._windows.bytes_held + self._groups.bytes_held + self._shown.nbytes

    def start_by(self, instant: int) -> None:
        """From this instant on, or from an earlier one that was given before, there is an ungrouped answer."""
        self._starts_at = min(self._starts_at, instant)

    def process(self, inputs: list[Delta], since: int, until: int) -> Delta:
        delta = inputs[0].settled()
        unknown = np.full(len(delta.ended), FOREVER, np.int64)
        assigned = Assigned(0, delta.births, delta.deaths, delta.ended, unknown, delta.ended_at, delta.sequences)
        self._windows.take(Rows(delta.batch, delta.births, delta.sequences), assigned, None)
        forced = NEVER if self._aggregation.keys else self._starts_at
        result = self._changes(self._windows.events(since, until, forced))
        self._windows.forget(until)
        return result

    def _changes(self, events: Events) -> Delta:
        """The rows that come and go between successive events of a group. Events are ordered by group, then by time."""
        columns, passing = self._windows.rows.answers(events.groups, events.states)
        present: Mask = events.counts > 0 if self._aggregation.keys else events.times >= self._starts_at
        if passing is not None:
            present = present & passing
        after = np.flatnonzero(~events.opens)
        same = present[after - 1] & present[after] & equal_to_previous(columns)[after] if len(after) else present[:0]
        lost = after[present[after - 1] & ~same] if len(after) else after
        came = after[present[after] & ~same] if len(after) else after
        # A row that came in this step dies with the next loss of its group, if the step has one.
        following = np.searchsorted(lost, came, side="right")
        closes = np.append(lost, len(events.groups))[following]
        ends = np.append(events.groups, -1)[closes] == events.groups[came]
        deaths = np.where(ends, np.append(events.times, FOREVER)[closes], FOREVER)
        # A loss without a row that came before it in this step is that of the row shown before the step.
        preceding = np.searchsorted(came, lost, side="left") - 1
        owns = preceding >= 0
        owns[owns] = events.groups[came[preceding[owns]]] == events.groups[lost[owns]]
        order = np.argsort(events.times[came], kind="stable")
        numbers = np.empty(len(came), np.int64)
        numbers[order] = np.arange(self._next, self._next + len(came))
        self._next += len(came)
        ended, ended_at = self._follow(events, lost[~owns], came, numbers, ends)
        taken = wrapped(came[order])
        schema = self._aggregation.item_schema
        values = [column.take(taken).cast(field.type) for column, field in zip(columns, schema, strict=True)]
        batch = pa.RecordBatch.from_arrays(values, schema=schema)
        return Delta(batch, numbers[order], events.times[came[order]], deaths[order], ended, ended_at)

    def _follow(self, events: Events, lost: Ints, came: Ints, numbers: Ints, ends: Mask) -> tuple[Ints, Ints]:
        """Returns the rows of earlier steps that end. Notes the row of each group that is shown after the step."""
        moved = np.concatenate([lost, came[~ends]])
        if self._aggregation.keys:
            keys = self._windows.rows.table.keys(events.groups[moved])
            ids = self._groups.ids(keys) if len(moved) else moved
        else:
            ids = np.zeros(len(moved), np.int64)
        if len(self._groups) > len(self._shown):
            self._shown = np.append(self._shown, np.full(len(self._groups), -1, np.int64))
        ended = self._shown[ids[: len(lost)]]
        self._shown[ids[: len(lost)]] = -1
        self._shown[ids[len(lost) :]] = numbers[~ends]
        self._forget()
        order = np.argsort(events.times[lost], kind="stable")
        return ended[order], events.times[lost][order]

    def _forget(self) -> None:
        """Drops the groups that show no row, if there are many groups and most are such."""
        count = len(self._groups)
        if not self._aggregation.keys or count < 65_536:
            return
        live = np.flatnonzero(self._shown[:count] >= 0)
        if 4 * len(live) < count:
            shown = self._shown[live]
            self._groups.keep(live)
            self._shown = shown

    def snapshot(self) -> dict[str, Any]:
        return {
            "windows": self._windows.snapshot(),
            "groups": self._groups.snapshot(),
            "shown": self._shown,
            "next": self._next,
            "starts_at": self._starts_at,
        }

    def restore(self, snapshot: dict[str, Any]) -> None:
        self._windows.restore(snapshot["windows"])
        self._groups.restore(snapshot["groups"])
        self._shown = snapshot["shown"].copy()
        self._next, self._starts_at = snapshot["next"], snapshot["starts_at"]
