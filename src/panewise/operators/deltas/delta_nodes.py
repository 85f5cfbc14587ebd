"""The simple nodes of a running plan: sources, selections and selected values.

A node knows its inputs. If it needs state it has a `DeltaOperator`, and gives it the deltas of its inputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from panewise.aggregates.columns import flags
from panewise.language.expressions import Expression
from panewise.language.statements import SelectItem
from panewise.operators.read_budget import ReadBudget
from panewise.operators.relation_delta import NONE, Delta, DeltaOperator
from panewise.operators.result_columns import item_schema
from panewise.plan.expressions.evaluate import compiled


class DeltaNode(Protocol):
    """A node of a running plan."""

    def run(self, sources: Sequence[Delta], since: int, until: int) -> Delta:
        """The delta of the step [since, until), given the deltas of all sources of the plan."""

    def operators(self) -> list[DeltaOperator]:
        """The operators with state in and below this node, always in the same order. Snapshots rely on this."""


class SourceNode:
    """A source of the plan by its number. `names` renames its columns when it is joined with others."""

    def __init__(self, number: int, names: list[str] | None = None) -> None:
        self._number = number
        self._names = names

    def run(self, sources: Sequence[Delta], since: int, until: int) -> Delta:
        delta = sources[self._number]
        return delta if self._names is None else delta.with_batch(delta.batch.rename_columns(self._names))

    def operators(self) -> list[DeltaOperator]:
        return []


class RenamedNode:
    """The node below with other column names."""

    def __init__(self, below: DeltaNode, names: list[str]) -> None:
        self._below = below
        self._names = names

    def run(self, sources: Sequence[Delta], since: int, until: int) -> Delta:
        delta = self._below.run(sources, since, until)
        return delta.with_batch(delta.batch.rename_columns(self._names))

    def operators(self) -> list[DeltaOperator]:
        return self._below.operators()


class OperatorNode:
    """An operator over its inputs."""

    def __init__(self, operator: DeltaOperator, inputs: Sequence[DeltaNode]) -> None:
        self.operator = operator
        self._inputs = inputs

    def run(self, sources: Sequence[Delta], since: int, until: int) -> Delta:
        return self.operator.process([node.run(sources, since, until) for node in self._inputs], since, until)

    def operators(self) -> list[DeltaOperator]:
        return [*(operator for node in self._inputs for operator in node.operators()), self.operator]


class Selecting(DeltaOperator):
    """WHERE: rows for which the predicate is true. The end of a row that did not pass is dropped too."""

    name = "Selecting"
    takes_parts = True

    def __init__(self, predicate: Expression, strict: bool) -> None:
        self._predicate = compiled(predicate)
        self._strict = strict
        self._dropped, self._dropped_until = NONE, NONE  # numbers (ascending) and deaths of dropped rows that may end

    @property
    def bytes_held(self) -> int:
        return 2 * self._dropped.nbytes

    def process(self, inputs: list[Delta], since: int, until: int) -> Delta:
        (delta,) = inputs
        kept = flags(self._predicate(delta.batch))
        if not self._strict:
            return delta.take(kept)
        dropped = np.append(self._dropped, delta.sequences[~kept])
        deaths = np.append(self._dropped_until, delta.deaths[~kept])
        places = np.searchsorted(dropped, delta.ended)
        unknown = np.append(dropped, -1)[places] == delta.ended
        stays = deaths >= until
        stays[places[unknown]] = False
        self._dropped, self._dropped_until = dropped[stays], deaths[stays]
        chosen = delta.take(kept)
        own = chosen.sequences, chosen.births, chosen.deaths
        return Delta(chosen.batch, *own, delta.ended[~unknown], delta.ended_at[~unknown])

    def snapshot(self) -> dict[str, Any]:
        return {"dropped": self._dropped, "until": self._dropped_until}

    def restore(self, snapshot: dict[str, Any]) -> None:
        self._dropped, self._dropped_until = snapshot["dropped"], snapshot["until"]


class ValuesNode:
    """The items of SELECT, without state. `budget`: each column is charged to this budget of a one-time query."""

    def __init__(self, items: tuple[SelectItem, ...], below: DeltaNode, budget: ReadBudget | None = None) -> None:
        self._budget = budget
        self._schema = item_schema(items)
        self._columns = [compiled(item.expression) for item in items]
        self._below = below

    def run(self, sources: Sequence[Delta], since: int, until: int) -> Delta:
        delta = self._below.run(sources, since, until)
        fitted = []
        for column, field in zip(self._columns, self._schema, strict=True):
            values = column(delta.batch)
            fitted.append(values if values.type == field.type else values.cast(field.type))
            if self._budget is not None:
                self._budget.take(size=values.nbytes)
        return delta.with_batch(pa.RecordBatch.from_arrays(fitted, schema=self._schema))

    def operators(self) -> list[DeltaOperator]:
        return self._below.operators()
