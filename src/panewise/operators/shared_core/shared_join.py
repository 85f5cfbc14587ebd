"""One join for many windows: rows probe once, over the longest windows, and results are narrowed to shorter ones.

The rows of a result have the instants t_1, t_2, ...; it lives from the latest of them to the earliest `t_i + range_i`.
A query with shorter ranges has those results whose rows lie close enough together, with earlier deaths. To find them it
needs only the instants, which are columns of the result. Nothing is probed twice.

    ranges (60 s, 60 s)   all results -> births, deaths
      ranges (30 s, 40 s)   of these, the ones with min(t_1 + 30 s, t_2 + 40 s) > birth ...
        ranges (10 s, 10 s)   ... and of these again: each is narrowed from the closest wider ranges

A new longest range holds for rows that come later. That suffices: its query shows nothing until its windows hold only
such rows. When the longest windows are removed, rows that have come keep their lifetimes.

A row costs one probe. A result costs a comparison for each set of ranges that it reaches, and its columns for each
query that has it. Patroumpas and Sellis 2011, section 4.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from panewise.aggregates.columns import integers
from panewise.arrays import Ints
from panewise.language.expressions import Expression
from panewise.operators.joins.ordered_join import OrderedJoin
from panewise.operators.lifetimes import NEVER
from panewise.operators.relation_delta import FOREVER, Delta
from panewise.operators.row_batch import Rows
from panewise.plan.physical_plan import Orders

Ranges = tuple[int, ...]


@dataclass(frozen=True)
class JoinStep:
    """The results of a step over the widest windows, and the instants of their rows by input, if they are needed."""

    results: Delta
    times: list[Ints]
    ranges: Ranges | None  # the ranges that all rows have; None if these differ


class SharedJoin:
    """A join of streams over windows of time; `timestamps[i]` is the column with the event time of input i.

    `internal[i]`: results outlive their row of input i.
    """

    def __init__(
        self,
        schemas: Sequence[pa.Schema],
        timestamps: Sequence[str],
        condition: Expression | None,
        labels: Sequence[str],
        internal: Sequence[bool],
        orders: Orders,
    ) -> None:
        some_internal = internal if any(internal) else None
        self._join = OrderedJoin(schemas, condition, orders, internal=some_internal, names=labels)
        self._same = True  # whether all rows so far had the same ranges
        self._timed = True
        self._schemas = list(schemas)
        self._timestamps = list(timestamps)
        self.ranges: list[int] = [0] * len(schemas)
        self._latest: list[int] = [-FOREVER] * len(schemas)  # the latest death given to a row, by input
        self._next = [0] * len(schemas)

    @property
    def join(self) -> OrderedJoin:
        return self._join

    @property
    def bytes_held(self) -> int:
        return self._join.bytes_held

    def fit(self, all_ranges: Collection[Ranges]) -> None:
        """Rows from now on live as long as the longest windows, but never less long than earlier rows."""
        widest = [max(own) for own in zip(*all_ranges, strict=True)] if all_ranges else self.ranges
        self._same = self._same and (widest == self.ranges or not any(self._next))
        self.ranges = widest

    def process(self, rows: Sequence[Rows], since: int, until: int) -> JoinStep:
        """The results over the widest windows."""
        return self._step(self._join.process([self._born(i, part) for i, part in enumerate(rows)], since, until))

    def in_parts(self, rows: Sequence[Rows], since: int, until: int) -> Iterator[JoinStep]:
        """Like `process`, in parts of bounded size (`WindowJoin.in_parts`)."""
        born = [self._born(i, part) for i, part in enumerate(rows)]
        return map(self._step, self._join.in_parts(born, since, until))

    def _step(self, delta: Delta) -> JoinStep:
        times = [integers(delta.batch.column(name)) for name in self._timestamps] if self._timed else []
        return JoinStep(delta, times, tuple(self.ranges) if self._same else None)

    def show(self, columns: Collection[str], all_ranges: Collection[Ranges], timed: bool) -> None:
        """Sets the columns that results need, and for which ranges. `timed`: the instants of their rows are needed in
        any case."""
        self._timed = timed or not self._same or set(all_ranges) != {tuple(self.ranges)}
        self._join.show({*columns, *(self._timestamps if self._timed else ())})

    def _born(self, i: int, rows: Rows) -> Delta:
        schema = self._schemas[i]
        columns = [c if c.type == f.type else c.cast(f.type) for c, f in zip(rows.batch.columns, schema, strict=True)]
        sequences = np.arange(self._next[i], self._next[i] + len(rows), dtype=np.int64)
        self._next[i] += len(rows)
        deaths = np.maximum(rows.times + self.ranges[i], self._latest[i])  # They ascend even if the ranges shrink.
        if len(deaths):
            self._latest[i] = int(deaths[-1])
        return Delta(pa.RecordBatch.from_arrays(columns, schema=schema), sequences, rows.times, deaths)

    def snapshot(self) -> dict[str, Any]:
        return {
            "join": self._join.snapshot(),
            "ranges": list(self.ranges),
            "latest": list(self._latest),
            "next": list(self._next),
            "same": self._same,
        }

    def restore(self, snapshot: dict[str, Any]) -> None:
        self._join.restore(snapshot["join"])
        self._latest, self._next = list(snapshot["latest"]), list(snapshot["next"])
        self.ranges, self._same = list(snapshot["ranges"]), snapshot["same"]


@dataclass(frozen=True)
class Narrowed:
    """The results of one set of ranges: their places in the step, when their first row expires, and their deaths.

    Deaths are later than `until` if a row of an internal window expires first.
    """

    places: Ints | None  # None: all of them
    until: Ints | None  # None: not computed, because no query needs it
    deaths: Ints


class Narrowing:
    """Finds the results of each set of ranges, from those of the closest wider set."""

    def __init__(self, all_ranges: Sequence[Ranges], internal: Sequence[bool]) -> None:
        ordered = sorted(set(all_ranges), key=lambda ranges: (-sum(ranges), ranges))
        self._external = None if not any(internal) else [i for i, inside in enumerate(internal) if not inside]
        self._parents: dict[Ranges, Ranges | None] = {}
        for number, ranges in enumerate(ordered):
            wider = [other for other in ordered[:number] if all(a >= b for a, b in zip(other, ranges, strict=True))]
            self._parents[ranges] = wider[-1] if wider else None

    def of(self, step: JoinStep) -> dict[Ranges, Narrowed]:
        found: dict[Ranges, Narrowed] = {}
        for ranges, parent in self._parents.items():
            deaths = step.results.deaths
            if ranges == step.ranges and (self._external is None or not step.times):
                found[ranges] = Narrowed(None, None if self._external is not None else deaths, deaths)
                continue
            within = None if parent is None else found[parent].places
            times = [own if within is None else own[within] for own in step.times]
            until = _earliest(times, ranges, range(len(times)))
            kept = until > (step.results.births if within is None else step.results.births[within])
            if not kept.all():
                chosen = np.flatnonzero(kept)
                until, times = until[chosen], [own[chosen] for own in times]
                within = chosen if within is None else within[chosen]
            deaths = until if self._external is None else _earliest(times, ranges, self._external)
            found[ranges] = Narrowed(within, until, deaths)
        return found


def _earliest(times: list[Ints], ranges: Ranges, inputs: Sequence[int]) -> Ints:
    """When the first of each result's rows of these inputs expires."""
    if not inputs:
        return np.full(len(times[0]), FOREVER, np.int64)
    first = times[inputs[0]] + ranges[inputs[0]]
    for i in inputs[1:]:
        np.minimum(first, times[i] + ranges[i], out=first)
    return first


def narrowed_delta(results: Delta, narrowed: Narrowed, begins: int, columns: list[str]) -> Delta:
    """The results of a query that shows the instants from `begins` on, with these columns."""
    chosen = results.with_batch(results.batch.select(columns))
    if narrowed.places is not None:
        chosen = chosen.take(narrowed.places)
    if begins == NEVER:
        return Delta(chosen.batch, chosen.sequences, chosen.births, narrowed.deaths)
    births = np.maximum(chosen.births, begins)
    assert narrowed.until is not None
    return Delta(chosen.batch, chosen.sequences, births, narrowed.deaths).take(births < narrowed.until)
