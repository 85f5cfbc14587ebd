"""Negation: the rows of the left input without, or with, a matching row on the right.

| kind       | at every instant the result is                                                  |
| ---------- | -------------------------------------------------------------------------------- |
| NOT EXISTS | the left rows whose key no right row has; a NULL in a key matches nothing          |
| EXISTS     | the left rows whose key some right row has                                        |
| EXCEPT     | the values that are on the left and not on the right, each once                   |
| EXCEPT ALL | of every value, max(copies on the left - copies on the right, 0) copies           |

The result is STRICT: a right row may end results at any time, and they may return when it leaves. There are two ways to
tell the ends of results, which suit two ways to store them:

- `by expiration`: a result carries the death of its left row, and ends only if it must go before. The consumer
  partitions results by expiration, and pays extra for ends.
- `by key`: a result has no known death and always ends, as in the negative-tuple approach. The consumer finds results
  by key or number.

The second is better if most results end prematurely. That share is measured, and the storage follows it
(`negation_storage.py`) unless it is fixed. The results of EXCEPT are always by key, because a value stands for no
particular row. Golab 2006, section 3.5.2.

State: the live rows of both sides by key and, for EXISTS and NOT EXISTS, the values of the left rows. A row costs O(1),
expected, and O(1) more each time that it is shown or hidden.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from panewise.aggregates.columns import flags, wrapped
from panewise.arrays import Ints
from panewise.language.expressions import Expression
from panewise.operators.deltas.negation_changes import (
    BIRTH,
    DEATH,
    ENDS,
    EXCEPT_ALL,
    EXISTS,
    LEFT,
    NATURAL,
    NOT_EXISTS,
    PREMATURE,
    RIGHT,
    SHOWN,
    SHOWS,
    SLOT,
    Matrix,
    relink,
    rows_change,
    values_change,
)
from panewise.operators.deltas.negation_storage import BY_KEY, MeasuredStorage
from panewise.operators.held.held_batches import HeldBatches
from panewise.operators.joins.keyed_rows import Arrived, KeyedRows, MakeQueue, arrived
from panewise.operators.relation_delta import Delta, DeltaOperator
from panewise.plan.expressions.evaluate import compiled
from panewise.schema import Schema
from panewise.state.calendar_queue import CalendarQueue
from panewise.state.expiring import room_for
from panewise.state.group_table import GroupTable

_ROW_KINDS = {"NOT EXISTS": NOT_EXISTS, "EXISTS": EXISTS, "EXCEPT ALL": EXCEPT_ALL}
_SPARE = 4096  # Up to this many unused keys are never worth a compaction.


class Negation(DeltaOperator):
    """The left rows that the right rows let pass.

    `schema` is that of the left input and of the result. EXISTS and NOT EXISTS match rows by `left_keys` and
    `right_keys`, expressions over the columns of each input, in pairs of one type; there may be none. The two EXCEPTs
    compare whole rows, column by column. `storage` fixes how results are kept; if it is None this follows the measured
    share of premature ends. The queues make expiration queues that suit the update patterns of the inputs.

    >>> from panewise.language.expressions import ColumnRef
    >>> from panewise.schema import BIGINT, Column
    >>> a = ColumnRef(BIGINT, "a")
    >>> negation = Negation("NOT EXISTS", Schema((Column("a", BIGINT),)), (a,), (a,))
    >>> left = Delta(pa.record_batch({"a": [7]}), np.array([0]), np.array([1]), np.array([9]))
    >>> right = Delta(pa.record_batch({"a": [7]}), np.array([0]), np.array([3]), np.array([5]))
    >>> result = negation.process([left, right], 0, 10)
    >>> result.births.tolist(), result.deaths.tolist()
    ([1, 5], [3, 9])
    """

    name = "Negation"

    def __init__(
        self,
        kind: str,
        schema: Schema,
        left_keys: tuple[Expression, ...] = (),
        right_keys: tuple[Expression, ...] = (),
        storage: str | None = None,
        left_queue: MakeQueue = CalendarQueue,
        right_queue: MakeQueue = CalendarQueue,
    ) -> None:
        self._kind, self._schema = kind, schema.to_arrow()
        self._storage = MeasuredStorage(BY_KEY if kind == "EXCEPT" else storage)
        self._whole = kind.startswith("EXCEPT")
        assert self._whole or kind in _ROW_KINDS, kind
        types = tuple(column.type for column in schema) if self._whole else tuple(key.type for key in left_keys)
        assert self._whole or types == tuple(key.type for key in right_keys), "the keys of both sides have other types"
        self._left_keys, self._right_keys = [compiled(k) for k in left_keys], [compiled(k) for k in right_keys]
        self._table = GroupTable(types)
        self._left, self._right = KeyedRows(left_queue), KeyedRows(right_queue)
        self._values = None if self._whole else HeldBatches(self._schema)
        self._by_key: Matrix = np.empty((0, 5), np.int64)
        self._links: Matrix = np.empty((0, 3), np.int64)
        self._shown: Ints = np.empty(0, np.int64)  # EXCEPT: the number of each value's result, -1: not shown
        self._tally: Ints = np.zeros(4, np.int64)
        self._next = 0
        self._worth_forgetting = _SPARE  # number of keys above which unused ones are looked for

    @property
    def storage(self) -> str:
        """How results that are shown from now on are kept."""
        return self._storage.in_use

    @property
    def said(self) -> Mapping[str, str]:
        """The storage in use, and the share by which it was chosen."""
        return {"negation results": f"{self.storage}, {self._storage.share:.0%} of the results end prematurely"}

    @property
    def premature_share(self) -> float:
        """The share of results that ended before the death of their left row, among all that left; 0 if none left."""
        gone = int(self._tally[PREMATURE] + self._tally[NATURAL])
        return int(self._tally[PREMATURE]) / gone if gone else 0.0

    @property
    def bytes_held(self) -> int:
        own = self._by_key.nbytes + self._links.nbytes + self._shown.nbytes + self._table.bytes_held
        values = 0 if self._values is None else self._values.bytes_held
        return own + self._left.bytes_held + self._right.bytes_held + values

    def process(self, inputs: list[Delta], since: int, until: int) -> Delta:
        left, right = inputs
        left_rows, right_rows = arrived(left), arrived(right)
        left_keys, _ = self._keys(left, left_rows, self._left_keys)
        right_keys, matching = self._keys(right, right_rows, self._right_keys)
        right_sequences, right_births, right_deaths = right_rows.sequences, right_rows.births, right_rows.deaths
        if matching is not None:
            right_keys, right_sequences = right_keys[matching], right_sequences[matching]
            right_births, right_deaths = right_births[matching], right_deaths[matching]
        slots_from = self._left.append(left_rows.sequences, left_keys, left_rows.deaths)
        self._right.append(right_sequences, right_keys, right_deaths)
        if self._values is not None:
            self._values.append(left.batch if left_rows.whole else left.batch.take(wrapped(left_rows.positions)))
        self._make_room()
        gone = self._left.leave(left.ended, left.ended_at, until)
        right_gone = self._right.leave(right.ended, right.ended_at, until)
        on_the_right = right_keys, right_births, self._right.keys[right_gone.slots], right_gone.instants
        if self._kind == "EXCEPT":
            on_the_left = self._left.keys[gone.slots], gone.instants, gone.premature
            shows, ends = values_change(
                on_the_left, on_the_right, left_rows.births, left_keys, self._next, self._by_key, self._shown,
                self._tally,
            )  # fmt: skip
        else:
            on_the_left = gone.slots, gone.instants, gone.premature
            shows, ends = rows_change(
                _ROW_KINDS[self._kind], self.storage == BY_KEY, on_the_left, on_the_right, slots_from, left_rows.births,
                self._next, self._left.keys, self._left.deaths, self._by_key, self._links, self._tally,
            )  # fmt: skip
        result = self._delta(shows[: self._tally[SHOWS]], ends[: self._tally[ENDS]])
        self._storage.measure(int(self._tally[PREMATURE]), int(self._tally[NATURAL]))
        self._forget()
        return result

    def _keys(self, delta: Delta, rows: Arrived, keys: list[Any]) -> tuple[Ints, Ints | None]:
        """The key of every row, and the rows without a NULL in a key, which alone can match (None: all)."""
        if not self._table.types:
            return np.zeros(len(rows), np.int64), None
        columns = delta.batch.columns if self._whole else [key(delta.batch) for key in keys]
        numbers = self._table.ids(columns)
        if not rows.whole:
            numbers = numbers[rows.positions]
        if self._whole or not any(column.null_count for column in columns):
            return numbers, None
        valid = np.logical_and.reduce([flags(column.is_valid()) for column in columns])
        return numbers, np.flatnonzero(valid[rows.positions])

    def _make_room(self) -> None:
        before, needed = len(self._by_key), max(1, len(self._table))
        if needed > before:
            by_key = np.full((room_for(needed), 5), -1, np.int64)
            by_key[:before] = self._by_key
            by_key[before:, LEFT:] = 0
            shown = np.full(len(by_key), -1, np.int64)
            shown[:before] = self._shown
            self._by_key, self._shown = by_key, shown
        before = len(self._links)
        if self._left.room > before and self._kind != "EXCEPT":
            links = np.empty((self._left.room, 3), np.int64)
            links[:before] = self._links
            self._links = links

    def _delta(self, shows: Matrix, ends: Matrix) -> Delta:
        self._tally[SHOWS] = self._tally[ENDS] = 0
        sequences = np.arange(self._next, self._next + len(shows))
        self._next += len(shows)
        slots, births, deaths = (np.ascontiguousarray(shows[:, column]) for column in (SLOT, BIRTH, DEATH))
        if self._values is not None:
            batch = self._values.take(slots)
        else:
            values = slots if self._kind == "EXCEPT" else self._left.keys[slots]
            batch = pa.RecordBatch.from_arrays(self._table.keys(values), schema=self._schema)
        return Delta(batch, sequences, births, deaths, ends[:, 0].copy(), ends[:, 1].copy())

    # ---- forgetting ----------------------------------------------------------------------------------------------

    def _forget(self) -> None:
        if self._left.sparse():
            self._close_up()
        if self._right.sparse():
            self._right.close_up()
        if not self._table.types or len(self._table) <= self._worth_forgetting:
            return
        count = len(self._table)
        live = np.flatnonzero((self._by_key[:count, LEFT:] > 0).any(axis=1))
        if 2 * len(live) <= count:
            self._close_up()
            self._right.close_up()
            renamed = self._table.keep(live)
            self._left.rename(renamed)
            self._right.rename(renamed)
            self._index(self._links[: self._left.size, SHOWN].copy(), self._shown[live])
        self._worth_forgetting = 2 * len(self._table) + _SPARE

    def _close_up(self) -> None:
        kept = self._left.close_up()
        if self._values is not None:
            self._values.keep(kept)
        if self._kind != "EXCEPT":
            shown = self._links[kept, SHOWN]
            self._links = np.empty((self._left.room, 3), np.int64)
            relink(self._left.keys, shown, self._by_key, self._links)

    def _index(self, told_rows: Ints, shown_values: Ints) -> None:
        """Rebuilds the index by key from the live rows, their results (`told_rows`), and those of EXCEPT's values."""
        self._by_key, self._shown = np.empty((0, 5), np.int64), np.empty(0, np.int64)
        self._make_room()
        room = len(self._by_key)
        self._by_key[:, RIGHT] = np.bincount(self._right.keys, minlength=room)
        self._by_key[:, LEFT] = np.bincount(self._left.keys, minlength=room)
        self._shown[: len(shown_values)] = shown_values
        if self._kind != "EXCEPT":
            relink(self._left.keys, told_rows, self._by_key, self._links)

    def snapshot(self) -> dict[str, Any]:
        self._close_up()
        self._right.close_up()
        return {
            "table": self._table.snapshot(),
            "left": self._left.snapshot(),
            "right": self._right.snapshot(),
            "values": None if self._values is None else self._values.all(),
            "told_rows": self._links[: self._left.size, SHOWN].copy(),
            "shown_values": self._shown[: len(self._table)].copy(),
            "tally": self._tally.copy(),
            "storage": self._storage.snapshot(),
            "next": self._next,
        }

    def restore(self, snapshot: dict[str, Any]) -> None:
        self._table.restore(snapshot["table"])
        self._left.restore(snapshot["left"])
        self._right.restore(snapshot["right"])
        if self._values is not None:
            self._values = HeldBatches(self._schema)
            self._values.append(snapshot["values"])
        self._links = np.empty((0, 3), np.int64)
        self._index(snapshot["told_rows"], snapshot["shown_values"])
        self._storage.restore(snapshot["storage"])
        self._tally, self._next = snapshot["tally"].copy(), snapshot["next"]
