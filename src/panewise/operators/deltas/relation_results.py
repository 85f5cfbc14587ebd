"""The last step of a plan over deltas: it turns the last relation into a stream of results.

A continuous query gives the changes at every instant, as a change log, ISTREAM or DSTREAM. A periodic query reports at
e the rows with `birth < e <= death`, the state at e minus one microsecond; rows then have the numbers of reports as
births and deaths. Answers of an aggregate are rows of the relation like any others.

    reports       0         1         2         3         4
    a row              *    [  1                )  3            in the reports 1 and 2
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from panewise.aggregates.columns import wrapped
from panewise.arrays import Ints
from panewise.errors import NotHeldError
from panewise.language.expressions import ColumnRef
from panewise.language.statements import Emission, SelectItem
from panewise.operators.lifetimes import NEVER, Assigned
from panewise.operators.relation_delta import FOREVER, Delta
from panewise.operators.relation_rows import RelationRows
from panewise.operators.relation_to_stream import last_report_number, report_number, window_columns
from panewise.operators.result_columns import change_log, continuous_schema, periodic_schema, table_of
from panewise.operators.row_batch import Rows
from panewise.operators.row_windows.row_window import spread
from panewise.schema import Schema
from panewise.temporal import TimeWindow, format_instant


class RelationResults:
    """Results of a continuous query (`window` None) or of a periodic one, whose `window` says when it reports.

    `append_only`: no row of the relation leaves. With ISTREAM rows are then not kept once they are shown.
    """

    def __init__(
        self, schema: Schema, emit: Emission, window: TimeWindow | None, begins: int = NEVER, append_only: bool = False
    ) -> None:
        self._emit = emit
        self._append_only = append_only and emit is Emission.ISTREAM
        self._window = window
        self._begins = begins
        items = tuple(SelectItem(column.name, ColumnRef(column.type, column.name)) for column in schema)
        self._relation = RelationRows(items)
        made = self._relation.schema
        self._schema = continuous_schema(made, emit) if window is None else periodic_schema(made)
        self._next = NEVER + 1  # Results of all points below it have been given.
        self._waiting: Delta | None = None

    @property
    def relation(self) -> RelationRows:
        return self._relation

    @property
    def bytes_held(self) -> int:
        return self._relation.bytes_held + (0 if self._waiting is None else int(self._waiting.batch.nbytes))

    @property
    def most_in_report(self) -> int:
        """See `DeltaPlan`."""
        return len(self._relation.alive) if self._window is not None and self._emit is Emission.RSTREAM else 0

    @property
    def takes_parts(self) -> bool:
        """Whether the new rows of one instant may come in several steps: they are shown at once and not kept."""
        return self._append_only and self._window is None

    def _points(self, instants: Ints) -> Ints:
        """The first point at which a change of each instant shows: the instant itself, or the number of a report."""
        if self._window is None:
            return instants
        return np.where(instants == FOREVER, FOREVER, report_number(self._window, instants) + 1)

    def process(self, delta: Delta, until: int) -> pa.Table:
        """The results of the step that ends at `until`."""
        if self.takes_parts:
            self._next = max(self._next, until)
            delta = self._shown(delta, until)
            ones = np.ones(len(delta), np.int64)
            return change_log(delta.births, ones, delta.batch.columns, self._emit, self._schema)
        delta = delta.settled()
        births, deaths = self._points(delta.births), self._points(delta.deaths)
        unknown = np.full(len(delta.ended), FOREVER, np.int64)
        assigned = Assigned(0, births, deaths, delta.ended, unknown, self._points(delta.ended_at), delta.sequences)
        self._relation.take(Rows(delta.batch, delta.births, 0), assigned, None)
        since = self._next
        if self._window is None:
            upto = max(since, until)
            points, signs, values = self._relation.changes(since, upto, self._emit)
            table = change_log(points, signs, values.columns, self._emit, self._schema)
        else:
            upto = max(since, last_report_number(self._window, until) + 1)
            if self._emit is Emission.RSTREAM:
                points, values = self._reports(since, upto)
            else:
                points, _, values = self._relation.changes(since, upto, self._emit)
            table = table_of([*window_columns(self._window, points), *values.columns], self._schema)
        self._next = upto
        self._relation.follow(since, upto)
        self._relation.forget(upto, born=self._append_only)
        return table

    def _shown(self, delta: Delta, until: int) -> Delta:
        """The rows born before `until`; later ones wait. A query that starts in mid-stream delays births until its
        windows are whole."""
        if self._waiting is not None:
            delta = self._waiting.followed_by(delta)
            self._waiting = None
        born = int(np.searchsorted(delta.births, until, side="left"))
        if born < len(delta):
            self._waiting = delta.take(np.arange(born, len(delta)))
        return delta.take(np.arange(born))

    def _reports(self, since: int, until: int) -> tuple[Ints, pa.Table]:
        """The rows of every report in [since, until), report after report."""
        alive = self._relation.alive
        first, after = np.maximum(alive.births, since), np.minimum(alive.deaths, until)
        counts = np.maximum(after - first, 0)
        reports = spread(first, counts)
        rows = np.repeat(np.arange(len(alive)), counts)
        order = np.argsort(reports, kind="stable")
        return reports[order], self._relation.values.take(wrapped(rows[order]))

    def lookup(self, at: int) -> pa.Table:
        """The relation at an instant, or the last report at or before it. NotHeldError if it is not held."""
        point = at if self._window is None else last_report_number(self._window, at)
        first = self._relation.alive.held_since
        if self._append_only:
            raise NotHeldError("the results of this query are not kept", hint="leave out INTERNAL or UNBOUNDED")
        if self._window is None:
            first = max(first, self._begins)
        if not first <= point < self._next:
            raise NotHeldError(
                f"the state at {format_instant(at)} is not held", hint="only the latest results are kept"
            )
        values = self._relation.at(point)
        if self._window is None:
            return values
        numbers = np.full(values.num_rows, point, np.int64)
        return table_of([*window_columns(self._window, numbers), *values.columns], self._schema)

    def snapshot(self) -> dict[str, Any]:
        saved = {"relation": self._relation.snapshot(), "next": self._next, "begins": self._begins}
        if self._waiting is not None:
            saved["waiting"] = {"batch": self._waiting.batch, "births": self._waiting.births}
        return saved

    def restore(self, snapshot: dict[str, Any]) -> None:
        self._relation.restore(snapshot["relation"])
        self._next, self._begins = snapshot["next"], snapshot["begins"]
        waiting = snapshot.get("waiting")
        if waiting is not None:
            births = waiting["births"]
            numbers = np.arange(len(births), dtype=np.int64)
            self._waiting = Delta(waiting["batch"], numbers, births, np.full(len(births), FOREVER, np.int64))
