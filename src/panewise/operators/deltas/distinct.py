"""DISTINCT: every value of the input once.

There are two forms, for different update patterns of the input. Values are whole rows, compared as in GROUP BY.

**Delta-star**, for inputs whose deaths are known (MONOTONIC, WEAKEST, WEAK). A value is shown from the birth of a row
to its death. Meanwhile the row of the value that dies last is remembered (the auxiliary output state). It becomes the
next result when the shown row dies:

    rows with the value     [1 ------------- 9)
                                 [4 ------------ 12)                 never needed: it dies before the candidate
                                      [6 -------------- 15)
    results                 [1 ------------- 9)[9 ----- 15)          no result ends before its death

State: two instants a value. The output is WEAK.

**Counters**, for STRICT inputs. A value is shown while its count is not zero. Its death is not known before; the result
ends. State: one number a row and three a value. The output is STRICT.

A new row costs O(1), expected; the death of a value O(log partition) of a calendar queue. Golab 2006, sections 3.2.2
and 3.5.2.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from panewise.arrays import Ints
from panewise.loops import compiled_loop
from panewise.operators.joins.keyed_rows import Arrived, KeyedRows, MakeQueue, arrived
from panewise.operators.relation_delta import FOREVER, Delta, DeltaOperator
from panewise.schema import Schema
from panewise.state.calendar_queue import CalendarQueue
from panewise.state.expiring import room_for, widened
from panewise.state.group_table import GroupTable

NEVER = -(2**63)
_SPARE = 4096  # Up to this many dead values are never worth a compaction.


@compiled_loop
def _arrive(
    values: Ints, births: Ints, deaths: Ints, shown: Ints, next_shown: Ints, out_values: Ints, out_births: Ints,
    out_deaths: Ints,
) -> int:  # fmt: skip
    """Shows or remembers new rows, which are in order of birth. Returns the number of results, at most two a row."""
    count = 0
    for i in range(len(values)):
        value, birth, death = values[i], births[i], deaths[i]
        if shown[value] <= birth and next_shown[value] != NEVER:
            out_values[count], out_births[count], out_deaths[count] = value, shown[value], next_shown[value]
            count += 1
            shown[value], next_shown[value] = next_shown[value], NEVER
        if shown[value] <= birth:
            out_values[count], out_births[count], out_deaths[count] = value, birth, death
            count += 1
            shown[value] = death
        elif death > shown[value] and death > next_shown[value]:
            next_shown[value] = death
    return count


@compiled_loop
def _leave(
    values: Ints, until: int, shown: Ints, next_shown: Ints, out_values: Ints, out_births: Ints, out_deaths: Ints
) -> int:
    """For values whose shown row may have died before `until`: shows the remembered row, or drops the value.

    Returns the number of results.
    """
    count = 0
    for i in range(len(values)):
        value = values[i]
        if shown[value] < until and next_shown[value] != NEVER:
            out_values[count], out_births[count], out_deaths[count] = value, shown[value], next_shown[value]
            count += 1
            shown[value], next_shown[value] = next_shown[value], NEVER
        if shown[value] < until:
            shown[value] = NEVER
    return count


@compiled_loop
def _count_changes(
    values: Ints, births: Ints, gone_values: Ints, gone_at: Ints, first: int, counts: Ints, shown: Ints,
    out_values: Ints, out_births: Ints, out_deaths: Ints, ended: Ints, ended_at: Ints,
) -> tuple[int, int]:  # fmt: skip
    """Counts rows that come and go, in order of instants. At one instant rows that come are counted first, so that the
    result of a value that exists before and after does not end. Results are numbered from `first`. Returns the numbers
    of results and of ends."""
    results = ends = i = k = 0
    while i < len(values) or k < len(gone_values):
        if i < len(values) and (k == len(gone_values) or births[i] <= gone_at[k]):
            value = values[i]
            if counts[value] == 0:
                out_values[results], out_births[results], out_deaths[results] = value, births[i], FOREVER
                shown[value] = first + results
                results += 1
            counts[value] += 1
            i += 1
            continue
        value = gone_values[k]
        counts[value] -= 1
        if counts[value] == 0:
            if shown[value] >= first:
                out_deaths[shown[value] - first] = gone_at[k]
            else:
                ended[ends], ended_at[ends] = shown[value], gone_at[k]
                ends += 1
        k += 1
    return results, ends


class _Values:
    """Maps whole rows to small integers and back."""

    def __init__(self, schema: Schema) -> None:
        self.arrow = schema.to_arrow()
        self.table = GroupTable(tuple(column.type for column in schema))
        self.worth_forgetting = _SPARE  # number of values above which dead ones are looked for

    def of(self, delta: Delta, rows: Arrived) -> Ints:
        values = self.table.ids(delta.batch.columns)
        return values if rows.whole else values[rows.positions]

    def batch(self, values: Ints) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays(self.table.keys(values), schema=self.arrow)

    def forget(self, alive: Any) -> tuple[Ints, Ints] | None:
        """Drops the values for which the mask is false, if they are at least half.

        Returns the values that stay and the new numbers of all; None if nothing changed.
        """
        live = np.flatnonzero(alive)
        renamed = self.table.keep(live) if 2 * len(live) <= len(self.table) else None
        self.worth_forgetting = 2 * len(self.table) + _SPARE
        return None if renamed is None else (live, renamed)


class _Star:
    """Delta-star. By value, `_shown` is when the shown row dies, and `_next_shown` when the remembered row dies; NEVER:
    there is none."""

    def __init__(self, schema: Schema, queue: MakeQueue) -> None:
        self._values = _Values(schema)
        self._make_queue, self._queue = queue, queue()
        self._shown: Ints = np.empty(0, np.int64)
        self._next_shown: Ints = np.empty(0, np.int64)
        self._next = 0

    @property
    def bytes_held(self) -> int:
        own = self._shown.nbytes + self._next_shown.nbytes
        return own + self._values.table.bytes_held + self._queue.bytes_held

    def process(self, delta: Delta, until: int) -> Delta:
        assert not len(delta.ended), "rows of an input that is not STRICT end before their death"
        rows = arrived(delta)
        values = self._values.of(delta, rows)
        self._make_room()
        came = [np.empty(2 * len(rows), np.int64) for _ in range(3)]
        count = _arrive(values, rows.births, rows.deaths, self._shown, self._next_shown, *came)
        came = [column[:count] for column in came]
        due = np.concatenate([self._queue.expire(until)[0], came[0][came[2] < until]])
        over = [np.empty(len(due), np.int64) for _ in range(3)]
        count = _leave(due, until, self._shown, self._next_shown, *over)
        if count:
            results = [np.concatenate([column, more[:count]]) for column, more in zip(came, over, strict=True)]
        else:
            results = came
        result = self._delta(*results)
        held = (results[2] >= until) & (results[2] != FOREVER)
        self._queue.insert(results[0][held], results[2][held])
        self._forget()
        return result

    def _make_room(self) -> None:
        before, needed = len(self._shown), len(self._values.table)
        if needed > before:
            room = room_for(needed)
            self._shown, self._next_shown = widened(self._shown, room), widened(self._next_shown, room)
            self._shown[before:], self._next_shown[before:] = NEVER, NEVER

    def _delta(self, values: Ints, births: Ints, deaths: Ints) -> Delta:
        if bool((births[1:] <= births[:-1]).any()):
            # Results of one birth are ordered by value, so that their order does not depend on the steps.
            order = np.lexsort((values, births))
            values, births, deaths = values[order], births[order], deaths[order]
        sequences = np.arange(self._next, self._next + len(values))
        self._next += len(values)
        return Delta(self._values.batch(values), sequences, births, deaths)

    def _forget(self) -> None:
        if len(self._values.table) <= self._values.worth_forgetting:
            return
        kept = self._values.forget(self._shown[: len(self._values.table)] != NEVER)
        if kept is not None:
            self._load(self._shown[kept[0]], self._next_shown[kept[0]])

    def _load(self, shown: Ints, next_shown: Ints) -> None:
        self._shown, self._next_shown = shown.copy(), next_shown.copy()
        self._queue = self._make_queue()
        mortal = np.flatnonzero((shown != NEVER) & (shown != FOREVER))
        mortal = mortal[np.argsort(shown[mortal], kind="stable")]
        self._queue.insert(mortal, shown[mortal])

    def snapshot(self) -> dict[str, Any]:
        count = len(self._values.table)
        return {
            "table": self._values.table.snapshot(),
            "shown": self._shown[:count].copy(),
            "next_shown": self._next_shown[:count].copy(),
            "next": self._next,
        }

    def restore(self, snapshot: dict[str, Any]) -> None:
        self._values.table.restore(snapshot["table"])
        self._load(snapshot["shown"], snapshot["next_shown"])
        self._next = snapshot["next"]


class _Counters:
    """The strict form. By value, `_counts` is its number of rows, and `_shown` the number of its result."""

    def __init__(self, schema: Schema, queue: MakeQueue) -> None:
        self._values = _Values(schema)
        self._rows = KeyedRows(queue)
        self._counts: Ints = np.empty(0, np.int64)
        self._shown: Ints = np.empty(0, np.int64)
        self._next = 0

    @property
    def bytes_held(self) -> int:
        return self._counts.nbytes + self._shown.nbytes + self._values.table.bytes_held + self._rows.bytes_held

    def process(self, delta: Delta, until: int) -> Delta:
        rows = arrived(delta)
        values = self._values.of(delta, rows)
        self._make_room()
        self._rows.append(rows.sequences, values, rows.deaths)
        left = self._rows.leave(delta.ended, delta.ended_at, until)
        results = [np.empty(len(rows), np.int64) for _ in range(3)]
        ends = [np.empty(len(left.slots), np.int64) for _ in range(2)]
        gone = self._rows.keys[left.slots]
        arguments = values, rows.births, gone, left.instants, self._next, self._counts, self._shown
        count, end_count = _count_changes(*arguments, *results, *ends)
        out_values, births, deaths = (column[:count] for column in results)
        sequences = np.arange(self._next, self._next + count)
        self._next += count
        batch = self._values.batch(out_values)
        self._forget()
        return Delta(batch, sequences, births, deaths, ends[0][:end_count], ends[1][:end_count])

    def _make_room(self) -> None:
        before, needed = len(self._counts), len(self._values.table)
        if needed > before:
            room = room_for(needed)
            self._counts, self._shown = widened(self._counts, room), widened(self._shown, room)
            self._counts[before:], self._shown[before:] = 0, -1

    def _forget(self) -> None:
        if self._rows.sparse():
            self._rows.close_up()
        if len(self._values.table) <= self._values.worth_forgetting:
            return
        kept = self._values.forget(self._counts[: len(self._values.table)] > 0)
        if kept is not None:
            self._rows.close_up()
            self._rows.rename(kept[1])
            self._counts, self._shown = self._counts[kept[0]], self._shown[kept[0]]

    def snapshot(self) -> dict[str, Any]:
        self._rows.close_up()
        return {
            "table": self._values.table.snapshot(),
            "rows": self._rows.snapshot(),
            "shown": self._shown[: len(self._values.table)].copy(),
            "next": self._next,
        }

    def restore(self, snapshot: dict[str, Any]) -> None:
        self._values.table.restore(snapshot["table"])
        self._rows.restore(snapshot["rows"])
        self._shown = snapshot["shown"].copy()
        self._counts = np.bincount(self._rows.keys, minlength=len(self._shown)).astype(np.int64)
        self._next = snapshot["next"]


class DistinctOperator(DeltaOperator):
    """Each row once. `strict`: the input is STRICT.

    `queue` makes the expiration queue for the rows that the strict form holds, to suit the input's update pattern.
    Delta-star holds results instead, which are WEAK for any input: `results` makes the queue for them.

    >>> from panewise.schema import BIGINT, Column
    >>> distinct = DistinctOperator(Schema((Column("a", BIGINT),)), strict=False)
    >>> rows = Delta(pa.record_batch({"a": [7, 7, 7]}), np.arange(3), np.array([1, 4, 6]), np.array([9, 12, 15]))
    >>> result = distinct.process([rows], 0, 10)
    >>> result.batch.to_pydict(), result.births.tolist(), result.deaths.tolist()
    ({'a': [7, 7]}, [1, 9], [9, 15])
    """

    name = "Distinct"

    def __init__(
        self, schema: Schema, strict: bool, queue: MakeQueue = CalendarQueue, results: MakeQueue = CalendarQueue
    ) -> None:
        self._form: _Star | _Counters = _Counters(schema, queue) if strict else _Star(schema, results)

    @property
    def bytes_held(self) -> int:
        return self._form.bytes_held

    def process(self, inputs: list[Delta], since: int, until: int) -> Delta:
        return self._form.process(inputs[0], until)

    def snapshot(self) -> dict[str, Any]:
        return self._form.snapshot()

    def restore(self, snapshot: dict[str, Any]) -> None:
        self._form.restore(snapshot)
