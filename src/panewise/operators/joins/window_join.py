"""The join of any number of windows: all combinations of their rows for which the condition is true.

A result lives from the latest birth of its rows to their earliest death. New rows of all inputs are taken by (birth,
input, arrival); each probes the rows of the others that are there and alive at its birth, input after input in the
order of its origin, by index where an equality leads there (`probe_plan`), and is then linked into the indices of its
own input. Nothing between input and result is kept (Golab and Özsu 2003, section 3; Golab 2006, sections 3.5.2, 5.2).

    step:  filter, number keys, append  ->  apply ends  ->  probe (compiled)  ->  residual  ->  columns of the results

For who keeps none of the results they come in parts (`in_parts`), so that no more are held than a part has, also of
rows that are all of one instant.

The pattern of the output is WEAK, or STRICT where an input is. Ends of rows of STRICT inputs are applied before the
step's new rows probe: their deaths are then known, so that only results of earlier steps end.

A row costs O(1) expected for every key, and its results; state is the rows that are alive, and at most as many dead
ones. For STRICT inputs also the results that are alive (`join_results`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from panewise.aggregates.columns import flags
from panewise.arrays import Ints, Small
from panewise.language.expressions import Expression
from panewise.operators.held.stored_columns import StoredColumns, appended, pooled, trimmed
from panewise.operators.joins.found_results import Results
from panewise.operators.joins.join_keys import JoinKeys
from panewise.operators.joins.join_loops import count_up
from panewise.operators.joins.join_results import JoinResults
from panewise.operators.joins.join_rows import JoinRows
from panewise.operators.joins.probe_plan import needs_scan, probe_plan
from panewise.operators.joins.probing import Order, Probing, Residual, order_of
from panewise.operators.lifetimes import NEVER
from panewise.operators.read_budget import ReadBudget
from panewise.operators.relation_delta import FOREVER, NONE, Delta, DeltaOperator
from panewise.plan.expressions.evaluate import compiled
from panewise.plan.expressions.join_condition import resolved, taken_apart
from panewise.plan.physical_plan import Orders
from panewise.schema import Schema

RESULT_BYTES = 24  # birth, death and number of a result
PAIR = (1,), (0,)
STEP_COST = 64  # what a step may cost by itself, in rows looked at for dead ones


class WindowJoin(DeltaOperator):
    """Joins inputs whose columns have different names; `condition` refers to them by these.

    `orders[i]` names the inputs that a new row of input i probes, one after the other (None: each of two the other);
    `strict[i]` says that rows of input i may end. `columns` are those of the result, all where it is None. Where
    `internal[i]`, results stay when their row of input i goes: that only says how long others find it.

    >>> from panewise.language.functions import resolve
    >>> from panewise.language.expressions import ColumnRef
    >>> from panewise.schema import BIGINT
    >>> left, right = pa.schema([("l.k", pa.int64())]), pa.schema([("r.k", pa.int64())])
    >>> join = WindowJoin([left, right], resolve("eq", (ColumnRef(BIGINT, "l.k"), ColumnRef(BIGINT, "r.k"))))
    >>> def delta(name, keys, births):
    ...     births = np.array(births)
    ...     return Delta(pa.record_batch({name: keys}), np.arange(len(births)), births, births + 10)
    >>> result = join.process([delta("l.k", [1, 2], [0, 5]), delta("r.k", [2, 1], [7, 10])], 0, 20)
    >>> result.batch.to_pydict(), result.births.tolist(), result.deaths.tolist()
    ({'l.k': [2], 'r.k': [2]}, [7], [15])
    """

    name = "WindowJoin"

    def __init__(
        self,
        schemas: Sequence[pa.Schema],
        condition: Expression | None,
        orders: Sequence[Sequence[int]] | None = None,
        strict: Sequence[bool] | None = None,
        columns: Sequence[str] | None = None,
        internal: Sequence[bool] | None = None,
    ) -> None:
        assert len(schemas) >= 2, "a join has two inputs at least"
        assert orders is not None or len(schemas) == 2, "the planner says in which orders many inputs are probed"
        schemas = [Schema.from_arrow(schema).to_arrow() for schema in schemas]
        parts = taken_apart(schemas, condition)
        self._filters = [None if part is None else compiled(part) for part in parts.filters]
        self._members = [frozenset(key_class.keys) for key_class in parts.classes]
        self._widths = [len(key_class.types) for key_class in parts.classes]
        self._keys = JoinKeys(parts.classes, len(schemas))
        strict_inputs = [i for i in range(len(schemas)) if strict is not None and strict[i]]
        self._sequences: dict[int, Ints] = {i: np.empty(0, np.int64) for i in strict_inputs}
        self._log = JoinResults(strict_inputs) if strict_inputs else None
        self._choose_columns(schemas, parts.residual, columns)
        internal = [False] * len(schemas) if internal is None else list(internal)
        self._external = None if not any(internal) else [i for i, inside in enumerate(internal) if not inside]
        assert not any(internal[i] for i in strict_inputs), "who ends early takes results along"
        self._next_sequence = 0
        self._until = NEVER
        self._unchecked = 0  # rows since dead ones were last counted: that costs O(rows held)
        self._arrange(PAIR if orders is None else tuple(map(tuple, orders)))

    def _choose_columns(
        self, schemas: Sequence[pa.Schema], residual: Expression | None, columns: Sequence[str] | None
    ) -> None:
        """What is held of each input, where the columns of results come from, and who finds these."""
        names = [name for schema in schemas for name in schema.names]
        shown = set(names if columns is None else columns)
        read = set() if residual is None else {resolved(column, names) for column in residual.columns()}
        held = [pa.schema([field for field in schema if field.name in shown | read]) for schema in schemas]
        self._columns = [StoredColumns(schema) for schema in held]
        sources = [(i, position, field) for i, schema in enumerate(held) for position, field in enumerate(schema)]
        self.show(shown)
        judge = None
        if residual is not None:
            places = [(i, position) for i, position, field in sources if field.name in read]
            judge = Residual(residual, pa.schema([field for _, _, field in sources if field.name in read]), places)
        self._probing = Probing(self._columns, judge, self._bytes_of)

    def show(self, names: Collection[str]) -> None:
        """The columns of results from now on, of those that are held."""
        held = [
            (i, position, field) for i, own in enumerate(self._columns) for position, field in enumerate(own.schema)
        ]
        self._shown = [(i, position) for i, position, field in held if field.name in names]
        self.schema = pa.schema([field for _, _, field in held if field.name in names])

    def _arrange(self, orders: Orders) -> None:
        """Plan and empty rows for these orders. Where an input is scanned, all inputs are in one more class."""
        inputs = len(orders)
        scanned = needs_scan(orders, self._members)
        members = [*self._members, *([frozenset(range(inputs))] if scanned else [])]
        self._slots = [(c, i) for i in range(inputs) for c, class_inputs in enumerate(members) if i in class_inputs]
        self._plan = probe_plan(orders, members, [*self._widths, 0][: len(members)], self._slots)
        self._rows = JoinRows(inputs, [i for _, i in self._slots])
        self._rows.linked = self._plan.linked

    def spend(self, budget: ReadBudget | None) -> None:
        """Results are found in portions from now on, each of which is taken out of the budget."""
        self._probing.spend(budget)

    @property
    def orders(self) -> Orders:
        return self._plan.orders

    @property
    def results_made(self) -> int:
        """How many results there have been."""
        return self._next_sequence

    @property
    def rows_held(self) -> list[int]:
        """By input, dead rows that are still there among them."""
        return list(self._rows.counts)

    @property
    def classes(self) -> list[frozenset[int]]:
        """The inputs of every class of equal attributes."""
        return list(self._members)

    def rows_alive(self, i: int) -> int:
        """How many rows of an input can still join: what orders are chosen by, with `distinct_keys`."""
        return int(np.count_nonzero(self._rows.deaths_of(i) > self._until))

    def distinct_keys(self, i: int, c: int) -> int:
        """How many keys of a class these rows have."""
        keys = self._rows.keys_of(self._slots.index((c, i)))
        return len(np.unique(keys[self._rows.deaths_of(i) > self._until]))

    @property
    def bytes_held(self) -> int:
        columns = sum(columns.bytes_held for columns in self._columns)
        sequences = sum(sequences.nbytes for sequences in self._sequences.values())
        log = 0 if self._log is None else self._log.bytes_held
        return columns + sequences + log + self._rows.bytes_held + self._keys.bytes_held

    def reorder(self, orders: Sequence[Sequence[int]]) -> None:
        """Other orders from now on; all rows stay, their chains are made anew."""
        rows = self._row_snapshots()
        self._arrange(tuple(map(tuple, orders)))
        self._load_rows(rows)

    # ---- a step ------------------------------------------------------------------------------------------------------

    def process(self, inputs: list[Delta], since: int, until: int) -> Delta:
        firsts = np.array(self._rows.counts, np.int64)
        births = [self._take(i, delta) for i, delta in enumerate(inputs)]
        ended, ended_at = self._end(inputs)
        order = self._order(firsts, births)
        result = self._results(self._probing.whole(order, self._rows, self._plan), ended, ended_at)
        self._leave(until, len(order[0]))
        return result

    def in_parts(self, inputs: list[Delta], since: int, until: int) -> Iterator[Delta]:
        """The same in parts of at most about `RESULTS_IN_PART` results, births ascending over all of them: one part at
        least, and all of them are to be taken. No input is STRICT."""
        assert self._log is None
        firsts = np.array(self._rows.counts, np.int64)
        order = self._order(firsts, [self._take(i, delta) for i, delta in enumerate(inputs)])
        for found in self._probing.parts(order, self._rows, self._plan):
            yield self._results(found, NONE, NONE)
        self._leave(until, len(order[0]))

    def _order(self, firsts: Ints, births: list[Ints]) -> Order:
        """The step's new rows in the order in which they probe; there are heads for all their keys."""
        self._rows.reserve_heads([1 if c == len(self._members) else self._keys.count(c) for c, _ in self._slots])
        return order_of(firsts, births)

    def _results(self, found: Results, ended: Ints, ended_at: Ints) -> Delta:
        """What was found, numbered and with its columns."""
        places, result_births, result_deaths = found
        if self._external is not None:
            result_deaths = np.full(len(result_births), FOREVER, np.int64)
            for i in self._external:
                np.minimum(result_deaths, self._rows.deaths_of(i)[places[i]], out=result_deaths)
        sequences = pooled(len(result_births), np.int64)
        count_up(self._next_sequence, sequences)
        self._next_sequence += len(sequences)
        if self._log is not None:
            self._log.add(sequences, result_deaths, places)
        columns = [self._columns[i].taken(position, places[i]) for i, position in self._shown]
        batch = pa.RecordBatch.from_arrays(columns, schema=self.schema)
        return Delta(batch, sequences, result_births, result_deaths, ended, ended_at)

    def _leave(self, until: int, rows: int) -> None:
        """The step ends, which so many rows came in."""
        self._until = until
        self._unchecked += rows + STEP_COST
        if self._unchecked >= sum(self._rows.counts) // 8:
            self._unchecked = 0
            self._forget()
        if self._log is not None:
            self._log.forget(until)

    def _take(self, i: int, delta: Delta) -> Ints:
        """Appends the new rows of an input that can join at all; returns their births."""
        own_filter = self._filters[i]
        if own_filter is not None:
            delta = delta.take(flags(own_filter(delta.batch)))
        mask, numbers = self._keys.numbered(i, delta.batch)
        if mask is not None:
            delta = delta.take(mask)
        held = self._rows.counts[i]
        scanned = np.zeros(len(delta), np.int32)
        keys = [numbers.get(c, scanned) for c, owner in self._slots if owner == i]
        self._rows.append(i, delta.deaths, keys)
        self._columns[i].append(delta.batch)
        if self._log is not None and i in self._sequences:
            self._sequences[i] = appended(self._sequences[i], held, delta.sequences)
            self._log.add_rows(i, held, len(delta))
        return delta.births

    def _end(self, inputs: list[Delta]) -> tuple[Ints, Ints]:
        """Rows of STRICT inputs that end in this step die then, and so do the results of earlier steps with them."""
        ends: dict[int, tuple[Small, Ints]] = {}
        for i, sequences in self._sequences.items():
            count, ended = self._rows.counts[i], inputs[i].ended
            if not count or not len(ended):
                continue
            places = np.searchsorted(sequences[:count], ended)
            places[places == count] = 0
            found = sequences[places] == ended
            places, instants = places[found], inputs[i].ended_at[found]
            deaths = self._rows.deaths_of(i)
            deaths[places] = np.minimum(deaths[places], instants)
            ends[i] = places.astype(np.int32), instants
        return (NONE, NONE) if self._log is None or not ends else self._log.end(ends)

    def _bytes_of(self, places: Small) -> int:
        """What the results of these rows will take."""
        columns = sum(self._columns[i].taken_bytes(position, places[i]) for i, position in self._shown)
        return int(columns + places.nbytes + RESULT_BYTES * places.shape[1])

    # ---- forgetting --------------------------------------------------------------------------------------------------

    def _forget(self) -> None:
        """Drops dead rows of an input where they are more than half, then keys that no row holds."""
        renamed: dict[int, tuple[Small, int]] = {}
        for i, columns in enumerate(self._columns):
            alive = self._rows.deaths_of(i) > self._until
            count = self._rows.counts[i]
            kept = np.flatnonzero(alive)
            if 2 * len(kept) >= count:
                continue
            self._rows.keep(i, kept)
            columns.keep(kept.astype(np.int32))
            if i in self._sequences:
                self._sequences[i] = trimmed(appended(self._sequences[i], 0, self._sequences[i][kept]), len(kept))
            renamed[i] = np.cumsum(alive, dtype=np.int32) - np.int32(1), len(kept)
        strict_renamed = {i: numbers for i, numbers in renamed.items() if i in self._sequences}
        if self._log is not None and strict_renamed:
            self._log.rename(self._until, strict_renamed)
        chained = range(len(self._columns)) if renamed and self._forget_keys() else renamed
        for i in chained:
            self._rows.chain(i, self._until)

    def _forget_keys(self) -> bool:
        """Whether keys have other numbers now, so that all chains are to be made anew."""
        changed = False
        for c, members in enumerate(self._members):
            held = [self._rows.keys_of(slot) for slot, (own, _) in enumerate(self._slots) if own == c]
            numbers = self._keys.renumbered(c, held, sum(self._rows.counts[i] for i in members))
            if numbers is not None:
                changed = True
                for keys in held:
                    keys[:] = numbers[keys]
        if changed:
            self._rows.reset_heads([1 if c == len(self._members) else self._keys.count(c) for c, _ in self._slots])
        return changed

    # ---- snapshots ---------------------------------------------------------------------------------------------------

    def _row_snapshots(self) -> list[dict[str, Any]]:
        slots = [[slot for slot, (c, i) in enumerate(self._slots) if i == own and c < len(self._members)]
                 for own in range(len(self._columns))]  # fmt: skip
        return [
            {
                "deaths": self._rows.deaths_of(i).copy(),
                "keys": [self._rows.keys_of(slot).astype(np.int64) for slot in slots[i]],
            }
            for i in range(len(self._columns))
        ]

    def _load_rows(self, snapshots: list[dict[str, Any]]) -> None:
        self._rows.reserve_heads([1 if c == len(self._members) else self._keys.count(c) for c, _ in self._slots])
        for i, own in enumerate(snapshots):
            keys = list(own["keys"])
            if len(keys) < len(self._rows.slots_of(i)):
                keys.append(np.zeros(len(own["deaths"]), np.int64))
            self._rows.append(i, own["deaths"], keys)
            self._rows.chain(i, self._until)

    def snapshot(self) -> dict[str, Any]:
        return {
            "rows": self._row_snapshots(),
            "columns": [columns.batch() for columns in self._columns],
            "sequences": [self._sequences[i][: self._rows.counts[i]].copy() for i in self._sequences],
            "keys": self._keys.snapshot(),
            "results": None if self._log is None else self._log.snapshot(),
            "next_sequence": self._next_sequence,
            "until": self._until,
            "orders": [list(order) for order in self.orders],
        }

    def restore(self, snapshot: dict[str, Any]) -> None:
        """Of a join with the same inputs and condition; its orders come with it."""
        self._keys.restore(snapshot["keys"])
        self._until, self._next_sequence = snapshot["until"], snapshot["next_sequence"]
        self._arrange(tuple(map(tuple, snapshot["orders"])))
        self._load_rows(snapshot["rows"])
        self._columns[:] = [StoredColumns(columns.schema) for columns in self._columns]
        for columns, batch in zip(self._columns, snapshot["columns"], strict=True):
            columns.append(batch)
        for i, sequences in zip(self._sequences, snapshot["sequences"], strict=True):
            self._sequences[i] = sequences.copy()
        if self._log is not None:
            self._log.restore(snapshot["results"], self._rows.counts)
