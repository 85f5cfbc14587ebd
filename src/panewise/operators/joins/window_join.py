"""The join of any number of windows: all combinations of their rows for which the condition is true.

A result lives from the latest birth of its rows to their earliest death. New rows of all inputs are taken by (birth,
input, arrival). A row probes the other inputs in the order of its own input, and matches rows that are alive at its
birth. Where an equality relates two inputs it uses an index (`probe_plan`). Then it enters the indices of its own
input. No intermediate results are kept (Golab and Özsu 2003, section 3; Golab 2006, sections 3.5.2, 5.2).

    step:  filter, number keys, append  ->  apply ends  ->  probe (compiled)  ->  residual  ->  columns of the results

A caller that keeps no results takes them in parts (`in_parts`): then only one part is held at a time, even if all rows
have the same instant.

The update pattern of the output is WEAK, or STRICT if that of an input is. Ends of rows are applied before the step's
new rows probe: the deaths of these rows are then known, so that only results of earlier steps end.

A row costs O(1) expected for every key, and its results. State: the live rows, at most as many dead ones, and with
STRICT inputs also the live results (`join_results`).
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
from panewise.operators.joins.join_keys import JoinKeys
from panewise.operators.joins.join_loops import NewRows, ResultArrays, count_up
from panewise.operators.joins.join_results import JoinResults
from panewise.operators.joins.join_rows import JoinRows
from panewise.operators.joins.probe_plan import needs_scan, probe_plan
from panewise.operators.joins.probing import Probing, Residual, probing_order
from panewise.operators.lifetimes import NEVER
from panewise.operators.read_budget import ReadBudget
from panewise.operators.relation_delta import FOREVER, NONE, Delta, DeltaOperator
from panewise.plan.expressions.evaluate import compiled
from panewise.plan.expressions.join_condition import resolved, taken_apart
from panewise.plan.physical_plan import Orders
from panewise.schema import Schema

RESULT_BYTES = 24  # birth, death and number of a result
PAIR = (1,), (0,)
STEP_COST = 64  # the cost of a step, in rows checked for deaths


class WindowJoin(DeltaOperator):
    """Joins inputs; no two columns have the same name, and `condition` refers to columns by name.

    `orders[i]` are the inputs that a new row of input i probes, in this order (None: two inputs, which probe each
    other). `strict[i]`: rows of input i may end early. `columns` are those of the result (None: all). `internal[i]`:
    results outlive their row of input i, whose lifetime only says how long other rows can match it.

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
        assert orders is not None or len(schemas) == 2, "a join of more than two inputs needs orders"
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
        assert not any(internal[i] for i in strict_inputs), "rows of an internal window cannot end early"
        self._next_sequence = 0
        self._until = NEVER
        self._unchecked = 0  # rows and step costs since dead rows were last counted, which costs O(rows held)
        self._arrange(PAIR if orders is None else tuple(map(tuple, orders)))

    def _choose_columns(
        self, schemas: Sequence[pa.Schema], residual: Expression | None, columns: Sequence[str] | None
    ) -> None:
        """Decides which columns are held and shown, and which the residual condition reads."""
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
        """Sets the columns of results from now on; only held columns can be shown."""
        held = [
            (i, position, field) for i, own in enumerate(self._columns) for position, field in enumerate(own.schema)
        ]
        self._shown = [(i, position) for i, position, field in held if field.name in names]
        self.schema = pa.schema([field for _, _, field in held if field.name in names])

    def _arrange(self, orders: Orders) -> None:
        """Makes the plan for these orders, and empty rows. If an input is scanned, there is one more class of all."""
        inputs = len(orders)
        scanned = needs_scan(orders, self._members)
        members = [*self._members, *([frozenset(range(inputs))] if scanned else [])]
        self._slots = [(c, i) for i in range(inputs) for c, class_inputs in enumerate(members) if i in class_inputs]
        self._plan = probe_plan(orders, members, [*self._widths, 0][: len(members)], self._slots)
        self._rows = JoinRows(inputs, self._plan.slot_inputs, self._plan.linked)

    def spend(self, budget: ReadBudget | None) -> None:
        """From now on results are found in portions, and each is charged to the budget."""
        self._probing.spend(budget)

    @property
    def orders(self) -> Orders:
        return self._plan.orders

    @property
    def results_made(self) -> int:
        """Number of results so far."""
        return self._next_sequence

    @property
    def rows_held(self) -> list[int]:
        """Number of rows by input, including dead rows that are still held."""
        return list(self._rows.counts)

    @property
    def classes(self) -> list[frozenset[int]]:
        """The inputs of every class of equal attributes."""
        return list(self._members)

    def rows_alive(self, i: int) -> int:
        """Number of rows of an input that can still join. Orders are chosen by this and `distinct_keys`."""
        return int(np.count_nonzero(self._rows.deaths_of(i) > self._until))

    def distinct_keys(self, i: int, c: int) -> int:
        """Number of distinct keys of a class among these rows."""
        keys = self._rows.keys_of(self._slots.index((c, i)))
        return len(np.unique(keys[self._rows.deaths_of(i) > self._until]))

    @property
    def bytes_held(self) -> int:
        columns = sum(columns.bytes_held for columns in self._columns)
        sequences = sum(sequences.nbytes for sequences in self._sequences.values())
        log = 0 if self._log is None else self._log.bytes_held
        return columns + sequences + log + self._rows.bytes_held + self._keys.bytes_held

    def reorder(self, orders: Sequence[Sequence[int]]) -> None:
        """Changes the orders. Rows stay; their chains are rebuilt."""
        rows = self._row_snapshots()
        self._arrange(tuple(map(tuple, orders)))
        self._load_rows(rows)

    # ---- a step ------------------------------------------------------------------------------------------------------

    def process(self, inputs: list[Delta], since: int, until: int) -> Delta:
        firsts = np.array(self._rows.counts, np.int64)
        births = [self._take(i, delta) for i, delta in enumerate(inputs)]
        ended, ended_at = self._end(inputs)
        new = self._new_rows(firsts, births)
        result = self._results(self._probing.whole(new, self._rows, self._plan), ended, ended_at)
        self._leave(until, len(new[0]))
        return result

    def in_parts(self, inputs: list[Delta], since: int, until: int) -> Iterator[Delta]:
        """Like `process`, in parts of about `RESULTS_IN_PART` results at most; at least one part.

        Births ascend over all parts. The caller must take all of them. No input may be STRICT.
        """
        assert self._log is None
        firsts = np.array(self._rows.counts, np.int64)
        new = self._new_rows(firsts, [self._take(i, delta) for i, delta in enumerate(inputs)])
        for found in self._probing.parts(new, self._rows, self._plan):
            yield self._results(found, NONE, NONE)
        self._leave(until, len(new[0]))

    def _new_rows(self, firsts: Ints, births: list[Ints]) -> NewRows:
        """The step's new rows in the order in which they probe. Makes room for their keys."""
        self._rows.reserve_heads([1 if c == len(self._members) else self._keys.count(c) for c, _ in self._slots])
        return probing_order(firsts, births)

    def _results(self, found: ResultArrays, ended: Ints, ended_at: Ints) -> Delta:
        """The results found, with numbers and columns."""
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
        """Ends a step in which this many rows came."""
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
        """Ends rows of STRICT inputs. Returns the results of earlier steps that end with them, and when."""
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
        """The size of the results of these rows."""
        columns = sum(self._columns[i].taken_bytes(position, places[i]) for i, position in self._shown)
        return int(columns + places.nbytes + RESULT_BYTES * places.shape[1])

    # ---- forgetting --------------------------------------------------------------------------------------------------

    def _forget(self) -> None:
        """Drops the dead rows of an input if they are more than half, then keys that no row has."""
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
        """Drops unused keys. Returns whether keys were renumbered; then all chains must be rebuilt."""
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
        """Call on a join with the same inputs and condition. The snapshot's orders replace those of the join."""
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
