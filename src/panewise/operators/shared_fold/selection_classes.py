"""Classes of rows: which of several WHERE clauses keep a row, as one small number per row.

Rows that the same clauses keep are one class. If the clauses read few distinct values (`station = 'x'` for a thousand
stations), the clauses are evaluated once per distinct value, and a row costs one lookup, however many clauses there
are. Otherwise every clause is evaluated for all rows, and the answers are the bits of a key:

    few values      row -> number of its value -> class
    many values     row -> one bit per clause  -> class

If a clause keeps exactly the rows that some others keep together (`optimize.sharing.selections.covers`), it is not
evaluated: its bit is the union of theirs. Classes never change during the life of the object; new ones are added as
rows need them.

>>> from panewise.language.expressions import ColumnRef, Literal
>>> from panewise.language.functions import resolve
>>> from panewise.schema import BIGINT
>>> size = ColumnRef(BIGINT, "size")
>>> small, tiny = (resolve("lt", (size, Literal(BIGINT, limit))) for limit in (10, 5))
>>> classes = SelectionClasses([small, tiny])
>>> found = classes.of(pa.record_batch({"size": pa.array([3, 20, 7, 4])}), {})
>>> classes.kept_by(small)[found].tolist(), classes.kept_by(tiny)[found].tolist()
([True, False, True, True], [True, False, False, True])
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from panewise.aggregates.algebra import Algebra, Kind
from panewise.aggregates.columns import flags
from panewise.arrays import Ints
from panewise.language.expressions import ColumnRef, Expression
from panewise.optimize.sharing.selections.covers import Derived, plan_selections
from panewise.optimize.sharing.selections.selections import analysed
from panewise.plan.expressions.evaluate import Evaluator, compiled
from panewise.schema import BIGINT, DOUBLE
from panewise.state.group_table import GroupTable

Mask = NDArray[np.bool_]
VALUES_MAX = 4096  # with more distinct values, clauses are evaluated for all rows
SAMPLE = 4096  # first rows, which may have at most a quarter as many distinct values
FEW_CLASSES = 4  # up to this many classes of a clause, rows are collected class by class; otherwise by a mask
BITS = 62  # clauses per word of a key, so that no word is negative
_ANY_UNION = Algebra(Kind.DISTRIBUTIVE, selective=True)  # a row that two clauses keep is kept once


class SelectionClasses:
    """The classes for some clauses, which should read the same columns."""

    def __init__(self, clauses: Sequence[Expression]) -> None:
        self.clauses = list(dict.fromkeys(clauses))
        self._places = {clause: place for place, clause in enumerate(self.clauses)}
        columns = {column.name: column for clause in self.clauses for column in clause.columns()}
        self._columns: list[ColumnRef] = list(columns.values())
        self._evaluators = [compiled(clause) for clause in self.clauses]
        self._kept: Mask = np.zeros((len(self.clauses), 0), np.bool_)  # whether a clause keeps a class
        self._numbers: dict[bytes, int] = {}  # classes by the clauses that keep them
        # Doubles are grouped as SQL compares them, but a clause may distinguish doubles that are equal in SQL.
        by_value = bool(self._columns) and all(column.type != DOUBLE for column in self._columns)
        self._values: GroupTable | None = GroupTable(tuple(c.type for c in self._columns)) if by_value else None
        self._class_of_value: Ints = np.empty(0, np.int64)
        self._bits = GroupTable((BIGINT,) * -(-len(self.clauses) // BITS))
        self._class_of_bits: Ints = np.empty(0, np.int64)
        self._sources: list[tuple[Evaluator | None, tuple[int, ...]]] = []

    def kept_by(self, clause: Expression) -> Mask:
        """For each class, whether the clause keeps its rows."""
        result: Mask = self._kept[self._places[clause]]
        return result

    @property
    def by_value(self) -> bool:
        """Whether clauses are evaluated once per distinct value; it becomes False when there are too many values."""
        return self._values is not None

    @property
    def count(self) -> int:
        """The number of classes so far."""
        return len(self._numbers)

    def of(self, batch: pa.RecordBatch, masks: Mapping[Expression, Mask]) -> Ints:
        """The class of every row; `masks` has the answers of clauses that are known already."""
        if self._values is not None and not masks:
            found = self._by_value(batch)
            if found is not None:
                return found
        return self._by_bits(batch, masks)

    def _by_value(self, batch: pa.RecordBatch) -> Ints | None:
        assert self._values is not None
        columns = [batch.column(column.name) for column in self._columns]
        known = len(self._values)
        if not known and batch.num_rows > SAMPLE:
            self._values.ids([column.slice(0, SAMPLE) for column in columns])
        if len(self._values) <= SAMPLE // 4 or known:
            ids = self._values.ids(columns)
            if len(self._values) <= VALUES_MAX:
                self._judge(known)
                result: Ints = self._class_of_value[ids]
                return result
        self._values = None
        return None

    def _judge(self, known: int) -> None:
        """Finds the classes of values from number `known` on."""
        assert self._values is not None
        if known == len(self._values):
            return
        keys = self._values.keys(np.arange(known, len(self._values)))
        fresh = pa.RecordBatch.from_arrays(keys, names=[column.name for column in self._columns])
        kept = np.stack([flags(evaluator(fresh)) for evaluator in self._evaluators])
        self._class_of_value = np.concatenate([self._class_of_value, self._classes(kept)])

    def _by_bits(self, batch: pa.RecordBatch, masks: Mapping[Expression, Mask]) -> Ints:
        words = np.zeros((len(self._bits.types), batch.num_rows), np.int64)
        for place, mask in enumerate(self._evaluated(batch, masks)):
            words[place // BITS] |= mask.astype(np.int64) << (place % BITS)
        known = len(self._bits)
        ids = self._bits.ids_of(words, np.empty(0, np.int64))
        if known < len(self._bits):
            held = [np.asarray(column) for column in self._bits.keys(np.arange(known, len(self._bits)))]
            kept = np.stack([(held[p // BITS] >> (p % BITS)) & 1 == 1 for p in range(len(self.clauses))])
            self._class_of_bits = np.concatenate([self._class_of_bits, self._classes(kept)])
        result: Ints = self._class_of_bits[ids]
        return result

    def _evaluated(self, batch: pa.RecordBatch, masks: Mapping[Expression, Mask]) -> list[Mask]:
        """The answer of each clause for every row; answers of covered clauses are derived from others."""
        if not self._sources:
            plan = plan_selections([analysed(clause) for clause in self.clauses], _ANY_UNION)
            self._sources = [
                (None, made.cover.added) if isinstance(made, Derived) else (evaluator, ())
                for made, evaluator in zip(plan, self._evaluators, strict=True)
            ]
        found: list[Mask | None] = []
        for clause, (evaluator, _) in zip(self.clauses, self._sources, strict=True):
            known = masks.get(clause)
            found.append(flags(evaluator(batch)) if known is None and evaluator is not None else known)
        result: list[Mask] = []
        for mask, (_, parts) in zip(found, self._sources, strict=True):
            if mask is None:
                mask = np.zeros(batch.num_rows, np.bool_)
                for part in parts:
                    own = found[part]
                    assert own is not None, "covers consist of evaluated clauses"
                    mask |= own
            result.append(mask)
        return result

    def _classes(self, kept: Mask) -> Ints:
        """The class of each column of the mask, which has a row per clause; adds classes."""
        packed = np.packbits(kept, axis=0)
        numbers = np.empty(kept.shape[1], np.int64)
        fresh = []
        for i in range(kept.shape[1]):
            signature = packed[:, i].tobytes()
            number = self._numbers.get(signature)
            if number is None:
                number = self._numbers[signature] = len(self._numbers)
                fresh.append(i)
            numbers[i] = number
        self._kept = np.concatenate([self._kept, kept[:, fresh]], axis=1)
        return numbers


class ChosenRows:
    """The rows of one batch that each clause keeps, computed on request; what several clauses need is computed once."""

    def __init__(
        self, batch: pa.RecordBatch, classes: Sequence[SelectionClasses], masks: dict[Expression, Mask]
    ) -> None:
        self._batch = batch
        self._masks = masks
        self._of_clause = {clause: found for found in classes for clause in found.clauses}
        self._classes: dict[int, Ints] = {}
        self._orders: dict[int, tuple[Ints, Ints]] = {}

    def classes(self, found: SelectionClasses) -> Ints:
        """The class of every row."""
        if id(found) not in self._classes:
            known = {clause: self._masks[clause] for clause in found.clauses if clause in self._masks}
            self._classes[id(found)] = found.of(self._batch, known)
        return self._classes[id(found)]

    def by(self, clause: Expression) -> Mask | Ints:
        """The rows that a clause keeps, as a mask or as positions."""
        if clause in self._masks:
            return self._masks[clause]
        found = self._of_clause[clause]
        if len(found.clauses) == 1 or not found.by_value:
            self._masks[clause] = flags(compiled(clause)(self._batch))
            return self._masks[clause]
        numbers = self.classes(found)
        kept = np.flatnonzero(found.kept_by(clause))
        if len(kept) > FEW_CLASSES:
            mask: Mask = found.kept_by(clause)[numbers]
            return mask
        order, ends = self._order(found, numbers)
        runs = [order[ends[number] : ends[number + 1]] for number in kept]
        positions: Ints = runs[0] if len(runs) == 1 else np.sort(np.concatenate([order[:0], *runs]))
        return positions

    def _order(self, found: SelectionClasses, numbers: Ints) -> tuple[Ints, Ints]:
        """Positions of rows, class by class, and where each class begins; one sort serves all clauses."""
        if id(found) not in self._orders:
            counts = np.bincount(numbers, minlength=found.count)
            narrow = numbers.astype(np.uint16) if found.count < 1 << 16 else numbers  # sorted by digits then
            order: Ints = np.argsort(narrow, kind="stable")
            self._orders[id(found)] = order, np.append(0, np.cumsum(counts))
        return self._orders[id(found)]
