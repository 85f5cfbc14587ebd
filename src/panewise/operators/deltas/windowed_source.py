"""A stream and its window as an edge of a plan: rows become deltas when they are born.

Rows come in order of time and arrival when the watermark has passed them. Rows that the window shows later (OFFSET)
wait. Rows of count windows have no known death; they end. No row is born before `begins`, from which on all windows of
the plan are whole. The exception are rows that meet versions of tables: for them `beginning` holds the results back.
O(waiting rows) a step.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from panewise.aggregates.columns import empty_batch, wrapped
from panewise.arrays import Ints
from panewise.operators.deltas.series_start import first_shown, surely_shown
from panewise.operators.lifetimes import NEVER, lifetimes_of
from panewise.operators.relation_delta import FOREVER, NONE, Delta
from panewise.operators.row_batch import Rows
from panewise.schema import Schema
from panewise.temporal import RowsWindow, TimeWindow, Window


class WindowedSource:
    """The rows of one input of a plan.

    `begins`: the first instant that the plan shows. `early`: rows are born at their own instants all the same, because
    their results are held back later. `report`: when a periodic plan reports.
    """

    def __init__(
        self,
        window: Window,
        schema: Schema,
        held_from: int | None,
        begins: int = NEVER,
        early: bool = False,
        report: TimeWindow | None = None,
    ) -> None:
        self._lifetimes = lifetimes_of(window, schema, None if early else held_from)
        self._strict = isinstance(window, RowsWindow)
        assert not (early and self._strict), "a window of rows is not joined with a table"
        # If earlier rows were surely shown, an ungrouped answer exists as soon as all windows are whole.
        gaps = isinstance(window, TimeWindow) and not surely_shown(window.range_us, report)
        self._first_shown = FOREVER if held_from is None or gaps else NEVER
        self._report = report
        self._early = early
        self._begins = begins
        self._schema = schema.to_arrow()
        self._waiting = empty_batch(self._schema)
        self._sequences, self._births, self._deaths = NONE, NONE, NONE
        self._next = 0  # the number of the next row on the edge
        # The numbers of rows that may still end: in the stream (ascending), and on the edge.
        self._shown_of, self._shown_as = NONE, NONE

    @property
    def starts_at(self) -> int:
        """The birth of the first row that the plan shows; FOREVER before there is one."""
        # A window of rows is never empty after its first row.
        return max(self._lifetimes.starts_at if self._strict else self._first_shown, self._begins)

    @property
    def bytes_held(self) -> int:
        waiting = int(self._waiting.nbytes) + 3 * self._sequences.nbytes
        return waiting + 2 * self._shown_of.nbytes + self._lifetimes.bytes_held

    def take(self, rows: Rows, until: int) -> Delta:
        """Takes new rows, all those before `until`. Returns the rows born before it, and the ends."""
        assigned = self._lifetimes.assign(rows)
        ended, ended_at = self._earlier(assigned.earlier, assigned.earlier_births, assigned.earlier_deaths)
        fresh = np.arange(assigned.first, assigned.first + len(rows), dtype=np.int64)
        births = assigned.births if self._early else np.maximum(assigned.births, self._begins)
        if self._first_shown == FOREVER and not self._strict:
            self._first_shown = first_shown(births, assigned.deaths, self._report)
        if not len(self._sequences) and not len(ended) and (births < until).all():
            # The usual case: rows are shown as they come.
            return self._shown(rows.batch, fresh, births, assigned.deaths, ended, ended_at)
        batches = [_plain(batch, self._schema) for batch in (self._waiting, rows.batch) if batch.num_rows]
        whole = pa.Table.from_batches(batches, self._schema).combine_chunks()
        batch = whole.to_batches()[0] if whole.num_rows else empty_batch(self._schema)
        sequences = np.concatenate([self._sequences, fresh])
        births = np.concatenate([self._births, births])
        deaths = np.concatenate([self._deaths, assigned.deaths])
        born = births < until
        self._waiting = batch.filter(wrapped(~born))
        self._sequences, self._births, self._deaths = sequences[~born], births[~born], deaths[~born]
        chosen = np.flatnonzero(born)
        chosen = chosen[np.argsort(births[chosen], kind="stable")]  # partitions have births independent of each other
        return self._shown(
            batch.take(wrapped(chosen)), sequences[chosen], births[chosen], deaths[chosen], ended, ended_at
        )

    def _shown(
        self, batch: pa.RecordBatch, sequences: Ints, births: Ints, deaths: Ints, ended: Ints, ended_at: Ints
    ) -> Delta:
        """The delta of rows in order of birth, with numbers on the edge, without rows that die at their birth."""
        numbers = np.arange(self._next, self._next + len(births), dtype=np.int64)
        self._next += len(births)
        if self._strict:
            known, as_number = np.append(self._shown_of, sequences), np.append(self._shown_as, numbers)
            order = np.argsort(known)
            known, as_number = known[order], as_number[order]
            places = np.searchsorted(known, ended)
            ended, stays = as_number[places], np.ones(len(known), np.bool_)
            stays[places] = False
            stays[np.searchsorted(known, sequences[deaths != FOREVER])] = False
            self._shown_of, self._shown_as = known[stays], as_number[stays]
        delta = Delta(_plain(batch, self._schema), numbers, births, deaths, ended, ended_at)
        shows = births < deaths
        return delta if shows.all() else delta.take(shows)

    def _earlier(self, sequences: Ints, births: Ints, deaths: Ints) -> tuple[Ints, Ints]:
        """Applies newly known lifetimes of earlier rows: updates rows that wait, and returns the ends of the others."""
        if not len(sequences):
            return NONE, NONE
        places = np.searchsorted(self._sequences, sequences)
        waits = np.append(self._sequences, -1)[places] == sequences
        held = places[waits]
        self._births[held] = np.minimum(self._births[held], np.maximum(births[waits], self._begins))
        self._deaths[held] = np.minimum(self._deaths[held], deaths[waits])
        ends = ~waits & (deaths != FOREVER)
        ended, ended_at = sequences[ends], np.maximum(deaths[ends], self._begins)
        order = np.argsort(ended_at, kind="stable")
        return ended[order], ended_at[order]

    def snapshot(self) -> dict[str, Any]:
        return {
            "lifetimes": self._lifetimes.snapshot(),
            "begins": self._begins,
            "first_shown": self._first_shown,
            "waiting": self._waiting,
            "sequences": self._sequences,
            "births": self._births,
            "deaths": self._deaths,
            "next": self._next,
            "shown_of": self._shown_of,
            "shown_as": self._shown_as,
        }

    def restore(self, snapshot: dict[str, Any]) -> None:
        self._lifetimes.restore(snapshot["lifetimes"])
        self._begins, self._waiting = snapshot["begins"], snapshot["waiting"]
        # Earlier versions began with the first row, shown or not.
        self._first_shown = snapshot.get("first_shown", self._lifetimes.starts_at)
        self._sequences = snapshot["sequences"]
        self._births, self._deaths = snapshot["births"].copy(), snapshot["deaths"].copy()
        self._next = snapshot["next"]
        self._shown_of, self._shown_as = snapshot["shown_of"], snapshot["shown_as"]


def _plain(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The batch without dictionary encoding, so that batches can be concatenated."""
    return batch if batch.schema.equals(schema) else batch.select(schema.names).cast(schema)
