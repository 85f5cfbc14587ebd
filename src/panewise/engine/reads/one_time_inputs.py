"""One-time queries over several inputs: joins, DISTINCT, set operations and EXISTS over the rows that are held now.

The answer is that of a lookup of the same query if it were registered: at the least watermark of the streams that are
read and of those that change tables, or, for windows with SLIDE, at the last report until then. The rows of each input
are found as for other one-time queries (`one_time_query`). Then every window is an endless window over these rows.

A table is read as it is now. If statements change it, all rows meet that version: a new query knows no earlier one. If
a stream changes it, rows older than the last change met earlier versions. These are not held, and a query that needs
them is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from panewise.arrays import INT64_MIN
from panewise.catalog import TableDefinition
from panewise.engine.channels.channel import Channel
from panewise.errors import NotHeldError, PlanError
from panewise.language.expressions import Expression
from panewise.language.statements import Emission, SelectItem
from panewise.operators.once.one_time_plan import relation_at_end
from panewise.operators.read_budget import ReadBudget
from panewise.operators.row_batch import Rows
from panewise.optimize.first_orders import joins_planned
from panewise.plan.blocks import Block
from panewise.plan.inputs import is_table, reads_answer, report_window, table_inputs, windowed_inputs
from panewise.plan.nodes import Aggregated, Emit, Node, Scan, WindowOf
from panewise.schema import Schema
from panewise.temporal import INSTANT_MIN, RowsWindow, TimeWindow, format_instant

WindowRows = Callable[[RowsWindow | TimeWindow, Channel, int], Rows]


@dataclass(frozen=True)
class Sources:
    """Where the rows of streams, of other queries' answers and of tables come from."""

    channel_of: Callable[[str], Channel]
    answer_of: Callable[[str], pa.Table]
    table_of: Callable[[str], TableRows]
    rows_in: WindowRows  # the rows of a window of a channel before an instant


class TableRows(Protocol):
    """A table, or what was pinned of one."""

    @property
    def name(self) -> str: ...

    @property
    def definition(self) -> TableDefinition: ...

    @property
    def changes(self) -> Channel | None: ...

    @property
    def last_change(self) -> int | None: ...

    def batch(self) -> pa.RecordBatch: ...


def answer_inputs(plan: Emit, sources: Sources, budget: ReadBudget) -> pa.Table:
    """The answer of a one-time query over several inputs. `check_once` has accepted it."""
    channels = {id(node): _channel(node, sources) for node in windowed_inputs(plan) if not reads_answer(node)}
    tables = {node.name: sources.table_of(node.name) for node in table_inputs(plan)}
    until = until_of(plan, [*channels.values(), *(t.changes for t in tables.values() if t.changes is not None)])
    held: dict[int, Rows] = {}
    for node in windowed_inputs(plan):
        if id(node) in channels:
            held[id(node)] = sources.rows_in(node.window, channels[id(node)], until)
        else:
            assert isinstance(node.input, Scan)
            held[id(node)] = _timeless(sources.answer_of(node.input.name).combine_chunks())
    earliest = min((int(held[key].times[0]) for key in channels if len(held[key])), default=until)
    for table in tables.values():
        _check_version(table, earliest, until)
    return answer_from(plan, held, tables, until, budget)


def answer_from(
    plan: Emit, held: dict[int, Rows], tables: dict[str, TableRows], until: int, budget: ReadBudget | None = None
) -> pa.Table:
    """The answer just before an instant. `held`: the rows of each window, by the id of its node."""
    rows: list[Rows] = []
    endless = _over_endless_windows(plan.input, held, tables, rows)
    assert isinstance(endless, Node)
    _check_columns(endless)
    once = Emit(endless, Emission.CHANGES, periodic=False)
    return relation_at_end(once, rows, until, joins_planned(once), budget)


def _channel(node: WindowOf, sources: Sources) -> Channel:
    assert isinstance(node.input, Scan), "queries in parentheses were refused"
    return sources.channel_of(node.input.name)


def until_of(plan: Emit, channels: list[Channel]) -> int:
    """The instant of the answer, which shows the rows before it."""
    reached = min((channel.watermark for channel in channels), default=INT64_MIN)
    window = report_window(plan)
    if window is not None and window.slide_us is not None and reached != INT64_MIN:
        reached = window.last_report(reached)
    return max(reached, INSTANT_MIN + 1)


def _timeless(table: pa.Table) -> Rows:
    """Rows that are older than all others."""
    batches = table.to_batches()
    batch = batches[0] if batches else pa.RecordBatch.from_pylist([], table.schema)
    return Rows(batch, np.full(len(batch), INSTANT_MIN, np.int64), np.arange(len(batch), dtype=np.int64))


def _check_version(table: TableRows, earliest: int, until: int) -> None:
    """Refuses a table that has changed since the rows came that it is joined with."""
    changed = table.last_change
    needed = until - 1 if table.definition.retroactive else min(earliest, until - 1)
    if changed is not None and changed > needed:
        raise NotHeldError(
            f"table '{table.name}' has changed at {format_instant(changed)}, and what it was at "
            f"{format_instant(needed)} is not held any more",
            hint="create the query, and look it up",
        )


def _over_endless_windows(value: Any, held: dict[int, Rows], tables: dict[str, TableRows], rows: list[Rows]) -> Any:
    """The same plan over endless windows. Appends their rows to `rows`, in the order of the plan's inputs."""
    if isinstance(value, WindowOf):
        assert isinstance(value.input, Scan)
        offset = value.window.offset_us if isinstance(value.window, TimeWindow) else 0
        found = held[id(value)]
        columns = Schema(tuple(c for c in value.input.columns if c.name in found.batch.schema.names))
        rows.append(Rows(found.batch.select(list(columns.names)), found.times + offset, found.arrived))
        scan = Scan(value.input.name, "stream", columns, value.input.timestamp)
        return WindowOf(scan, TimeWindow(None), value.source)
    if isinstance(value, Node) and is_table(value):
        rows.append(_timeless(pa.Table.from_batches([tables[value.name].batch()])))
        return WindowOf(replace(value, kind="stream"), TimeWindow(None), value.alias)
    if isinstance(value, tuple) and any(isinstance(part, Node) for part in value):
        return tuple(_over_endless_windows(part, held, tables, rows) for part in value)
    if isinstance(value, Node):
        return replace(
            value, **{f.name: _over_endless_windows(getattr(value, f.name), held, tables, rows) for f in fields(value)}
        )
    return value


def _check_columns(plan: Node) -> None:
    """Refuses columns of a query's results that its answer does not have: those that say when it was reported."""
    present = {node.source: node.schema.names for node in plan.walk() if isinstance(node, WindowOf)}
    for node in plan.walk():
        for column in (column for expression in expressions_of(node) for column in expression.columns()):
            names = node.children()[0].schema.names if column.source is None else present.get(column.source)
            if names is not None and column.name not in names:
                raise _not_in_answer(column.name)


def check_answer_columns(block: Block, names: Sequence[str]) -> None:
    """Refuses columns that the answer of a query does not have. `names`: the columns that it has."""
    read: list[object] = [block.where]
    read += block.items if block.aggregate is None else [block.aggregate.keys, block.aggregate.aggregates]
    for column in (column for part in read for expression in expressions_of(part) for column in expression.columns()):
        if column.name not in names:
            raise _not_in_answer(column.name)


def _not_in_answer(name: str) -> PlanError:
    return PlanError(
        f"the answer of a query has no column '{name}', which its results have",
        hint="give it a window to read its results",
    )


def expressions_of(value: Any) -> list[Expression]:
    """The expressions of a node itself, or of another part of a plan."""
    if isinstance(value, Expression):
        return [value]
    if isinstance(value, SelectItem | Aggregated):
        return [found for field in fields(value) for found in expressions_of(getattr(value, field.name))]
    if isinstance(value, tuple):
        return [found for part in value for found in expressions_of(part)]
    if isinstance(value, Node):
        own = (getattr(value, field.name) for field in fields(value))
        return [found for part in own if not _holds_nodes(part) for found in expressions_of(part)]
    return []


def _holds_nodes(value: Any) -> bool:
    return isinstance(value, Node) or (isinstance(value, tuple) and any(isinstance(part, Node) for part in value))
