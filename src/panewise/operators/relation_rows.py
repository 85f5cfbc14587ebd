"""The relation of a query without aggregates: selected values of rows, each from its birth to its death.

Births and deaths are points on an ascending axis: instants of a continuous query, or numbers of reports. A call of
`changes` costs O(rows held + changes log changes).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from panewise.aggregates.columns import wrapped
from panewise.arrays import Ints
from panewise.language.statements import Emission, SelectItem
from panewise.operators.alive_rows import AliveRows
from panewise.operators.lifetimes import Assigned
from panewise.operators.multiset import remaining
from panewise.operators.result_columns import item_schema, table_of
from panewise.operators.row_batch import Rows
from panewise.plan.expressions.evaluate import compiled

Mask = NDArray[np.bool_]


def wanted(emit: Emission, signs: Ints) -> Mask:
    """The mask of the changes that a query emits."""
    if emit is Emission.CHANGES:
        return np.ones(len(signs), np.bool_)
    assert emit is not Emission.RSTREAM
    result: Mask = signs == (1 if emit is Emission.ISTREAM else -1)
    return result


class SelectedValues:
    """The items of SELECT, compiled."""

    def __init__(self, items: tuple[SelectItem, ...]) -> None:
        self.schema = item_schema(items)
        self._columns = [compiled(item.expression) for item in items]

    def of(self, rows: Rows) -> pa.Table:
        return table_of([column(rows.batch) for column in self._columns], self.schema)


@dataclass(frozen=True)
class Entered:
    """Rows that have entered a relation, in order of their births, with births and deaths."""

    births: Ints
    deaths: Ints
    values: pa.Table


class RelationRows:
    """Row i of `values` lives from `alive.births[i]` to `alive.deaths[i]`.

    If `followed` is set, `entered` has the rows that entered in the last step, including those that left again.
    """

    followed = False
    entered: Entered | None = None

    def __init__(self, items: tuple[SelectItem, ...]) -> None:
        self._selected = SelectedValues(items)
        self.schema = self._selected.schema
        self.alive = AliveRows()
        self.values = self.schema.empty_table()

    @property
    def bytes_held(self) -> int:
        return int(self.values.nbytes) + self.alive.bytes_held

    def take(self, rows: Rows, assigned: Assigned, passing: Mask | None) -> None:
        """Takes new rows with their lifetimes; only those that pass WHERE are held."""
        self.alive.take(assigned, passing)
        chosen = rows if passing is None else rows.take(passing)
        if len(chosen):
            self.values = pa.concat_tables([self.values, self._selected.of(chosen)]).combine_chunks()

    def changes(self, since: int, until: int, emit: Emission) -> tuple[Ints, Ints, pa.Table]:
        """The changes that a query emits in [since, until): points, signs and values, by point, leaving rows first."""
        alive = self.alive
        shows = alive.births < alive.deaths
        came = np.flatnonzero(shows & (alive.births >= since) & (alive.births < until))
        lost = np.flatnonzero(shows & (alive.deaths >= since) & (alive.deaths < until))
        rows = np.concatenate([lost, came])
        points = np.concatenate([alive.deaths[lost], alive.births[came]])
        signs = np.ones(len(rows), np.int64)
        signs[: len(lost)] = -1
        taken = wrapped(rows)
        kept = remaining(points, signs, [column.take(taken) for column in self.values.columns])
        chosen = np.flatnonzero(kept & wanted(emit, signs))
        # Leaving rows are before new ones, both in stream order; a stable sort keeps this order within a point.
        chosen = chosen[np.argsort(points[chosen], kind="stable")]
        return points[chosen], signs[chosen], self.values.take(wrapped(rows[chosen]))

    def at(self, point: int) -> pa.Table:
        """The values of the rows in the relation at a point."""
        return self.values.filter(wrapped((self.alive.births <= point) & (point < self.alive.deaths)))

    def entering(self, since: int, until: int) -> Entered:
        """The held rows that enter in [since, until)."""
        births, deaths = self.alive.births, self.alive.deaths
        rows = np.flatnonzero((births < deaths) & (births >= since) & (births < until))
        rows = rows[np.argsort(births[rows], kind="stable")]
        return Entered(births[rows], deaths[rows], self.values.take(wrapped(rows)))

    def follow(self, since: int, until: int) -> None:
        """Keeps the rows that entered in a step for followers; called before `forget`."""
        if self.followed:
            self.entered = self.entering(since, until)

    def forget(self, before: int, born: bool = False) -> None:
        """Drops the rows that died before a point; if `born`, all rows born before it."""
        kept = self.alive.absorb(before) if born else self.alive.forget(before)
        if kept is not None:
            self.values = self.values.filter(wrapped(kept)).combine_chunks()

    def snapshot(self) -> dict[str, Any]:
        return {"alive": self.alive.snapshot(), "values": self.values}

    def restore(self, snapshot: dict[str, Any]) -> None:
        self.alive.restore(snapshot["alive"])
        self.values = snapshot["values"].combine_chunks()
