"""DISTINCT for the windows of many queries: a row is selected once and looked up once (`shared_distinct.py`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from panewise.aggregates.columns import flags, wrapped
from panewise.language.expressions import Expression
from panewise.language.statements import SelectItem
from panewise.operators.lifetimes import NEVER
from panewise.operators.relation_delta import Delta, no_delta
from panewise.operators.result_columns import item_schema
from panewise.operators.row_batch import Rows
from panewise.operators.shared_core.core_operator import Core
from panewise.operators.shared_core.shared_distinct import SharedDistinct
from panewise.plan.expressions.evaluate import compiled
from panewise.plan.nodes import Distinct
from panewise.plan.physical_plan import DeltaQuery
from panewise.plan.shared_core import SharedCore, selected_rows
from panewise.schema import Schema


class DistinctCore(Core):
    """Selects rows, and gives the changes of `SharedDistinct` to each query under its own column names."""

    def __init__(self, core: SharedCore) -> None:
        items, where = _selected(core)
        self._columns = [compiled(item.expression) for item in items]
        self._where = None if where is None else compiled(where)
        self._schema = item_schema(items)
        self._distinct = SharedDistinct(Schema.from_arrow(self._schema))
        self._members: dict[str, tuple[list[str], int]] = {}  # column names and first instant of each query

    def add(self, name: str, node: DeltaQuery, begins: int, held_from: Sequence[int | None]) -> None:
        core = node.core
        assert core is not None
        self._members[name] = [item.name for item in _selected(core)[0]], begins
        held = held_from[0]
        self._distinct.add(name, core.ranges[0], NEVER if held is None else held)

    def remove(self, name: str) -> None:
        del self._members[name]
        self._distinct.remove(name)

    def process(
        self, rows: Sequence[Rows], since: int, until: int, starts: dict[str, int]
    ) -> dict[str, Delta | pa.Table]:
        batch, times = rows[0].batch, rows[0].times
        if self._where is not None:
            kept = np.flatnonzero(flags(self._where(batch)))
            batch, times = batch.take(wrapped(kept)), times[kept]
        columns = [column(batch) for column in self._columns]
        fitted = [c if c.type == f.type else c.cast(f.type) for c, f in zip(columns, self._schema, strict=True)]
        values = pa.RecordBatch.from_arrays(fitted, schema=self._schema)
        found: dict[str, Delta | pa.Table] = {}
        for name, delta in self._distinct.process(values, times, since, until).items():
            names, begins = self._members[name]
            found[name] = _renamed(delta.from_instant(begins), names)
        return found

    def nothing(self, name: str) -> Delta:
        return _renamed(no_delta(self._schema), self._members[name][0])

    def operators_of(self, name: str) -> list[SharedDistinct]:
        return [self._distinct]

    @property
    def described(self) -> str:
        windows = "1 window" if len(self._members) == 1 else f"{len(self._members)} windows"
        return f"DISTINCT {', '.join(self._schema.names)} FOR {windows.upper()}"

    @property
    def bytes_held(self) -> int:
        return self._distinct.bytes_held

    def snapshot(self) -> dict[str, Any]:
        begins = {name: begins for name, (_, begins) in self._members.items()}
        return {"distinct": self._distinct.snapshot(), "begins": begins}

    def restore(self, snapshot: dict[str, Any]) -> None:
        self._distinct.restore(snapshot["distinct"])
        self._members = {
            name: (names, snapshot["begins"].get(name, begins)) for name, (names, begins) in self._members.items()
        }


def _selected(core: SharedCore) -> tuple[tuple[SelectItem, ...], Expression | None]:
    assert isinstance(core.node, Distinct)
    selected = selected_rows(core.node)
    assert selected is not None
    return selected


def _renamed(delta: Delta, names: list[str]) -> Delta:
    return delta.with_batch(delta.batch.rename_columns(names))
