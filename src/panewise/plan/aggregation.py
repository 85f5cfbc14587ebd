"""What a query aggregates: its keys, the states of its aggregates, and its items and HAVING.

Every aggregating operator works from an `Aggregation`. Items and HAVING read an *answer batch* with one row per
answered group: columns `key_0, key_1, ...` and `aggregate_0, aggregate_1, ...`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import blake2b
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from panewise.aggregates.aggregate_functions import BoundAggregate
from panewise.aggregates.columns import flags
from panewise.aggregates.decoding import decoded
from panewise.aggregates.holistic import HeldKind, Statistic, StatisticKind, SubWindows
from panewise.aggregates.states import COUNT, Feed, Operation, StateKind
from panewise.aggregates.string_pool import StringPool
from panewise.errors import PlanError
from panewise.language.expressions import Expression
from panewise.language.sql_text import to_sql
from panewise.language.statements import SelectItem
from panewise.plan.blocks import Block
from panewise.plan.expressions.evaluate import compiled
from panewise.plan.expressions.written_names import written
from panewise.temporal import TimeWindow, Window

Fields = list[NDArray[Any]]
Pools = dict[Expression, StringPool]


@dataclass(frozen=True)
class StateKey:
    """A state over argument expressions. Queries whose keys are equal share one state."""

    kind: StateKind
    arguments: tuple[Expression, ...]

    def __post_init__(self) -> None:
        # Keys index every dictionary of a tree. Hashing the expression each time would cost more than the work itself.
        object.__setattr__(self, "_hash", hash((self.kind, self.arguments)))

    def __hash__(self) -> int:
        return self._hash  # type: ignore[attr-defined,no-any-return]

    @cached_property
    def written(self) -> str:
        """The name of the state in snapshots. No rename in the code changes it (`written_names.py`)."""
        return f"StateKey(kind={written(self.kind)}, arguments={written(self.arguments)})"

    @cached_property
    def name(self) -> str:
        """The kind and a hash of `written`: the state's name in columns of partials and pages, in every process."""
        return f"{self.kind.name}_{blake2b(self.written.encode(), digest_size=8).hexdigest()}"

    @property
    def shown(self) -> str:
        """The state for people: `sum(price)`."""
        return f"{self.kind.name}({', '.join(map(to_sql, self.arguments)) or '*'})"

    @cached_property
    def code_fields(self) -> tuple[tuple[int, Expression], ...]:
        """The int64 fields that hold codes of strings, each with the argument whose string pool has the code."""
        operation = self.kind.operation
        if operation in (Operation.MIN_STRING, Operation.MAX_STRING):
            return ((0, self.arguments[0]),)
        places = {Operation.EARLIEST: (2,), Operation.LATEST: (2,)}.get(operation, (2, 4) if self.ordered else ())
        fields = zip(places, self.arguments, self.kind.feeds, strict=False)
        return tuple((place, argument) for place, argument, feed in fields if feed is Feed.CODE)

    @cached_property
    def ordered(self) -> bool:
        """Whether the state depends on the order of rows."""
        return Operation.EARLIEST <= self.kind.operation < Operation.USER

    @cached_property
    def held(self) -> StateKey:
        """The state that is kept: this one, or the state without a fixed size that this statistic is computed from."""
        if isinstance(self.kind, StatisticKind):
            assert self.kind.held is not None
            return StateKey(self.kind.held, self.arguments)
        return self

    @cached_property
    def ranked(self) -> Expression | None:
        """The argument whose strings the state compares; None if it compares no strings."""
        match self.kind.operation:
            case Operation.MIN_STRING | Operation.MAX_STRING:
                return self.arguments[0]
            case Operation.ARG_MIN_STRING | Operation.ARG_MAX_STRING:
                return self.arguments[1]
            case _:
                return None


ROW_COUNT = StateKey(COUNT, ())


@dataclass(frozen=True)
class Aggregation:
    """`arguments[i]` are the row expressions that `aggregates[i]` reads."""

    keys: tuple[Expression, ...]
    aggregates: tuple[BoundAggregate, ...]
    arguments: tuple[tuple[Expression, ...], ...]
    items: tuple[SelectItem, ...]
    having: Expression | None

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash((self.keys, self.aggregates, self.arguments, self.items, self.having)))

    def __hash__(self) -> int:
        return self._hash  # type: ignore[attr-defined,no-any-return]

    @cached_property
    def states(self) -> tuple[StateKey, ...]:
        """The distinct states to keep. The count of rows comes first; it says which groups exist."""
        return tuple(dict.fromkeys(key.held for key in self.asked))

    @cached_property
    def asked(self) -> tuple[StateKey, ...]:
        """The states to read from an answer, with statistics in place of states without a fixed size."""
        found = {ROW_COUNT: None}
        for parts in self.parts:
            found.update(dict.fromkeys(parts))
        return tuple(found)

    @cached_property
    def holistic(self) -> bool:
        """Whether a state has no fixed size."""
        return any(isinstance(key.kind, HeldKind) for key in self.states)

    @cached_property
    def parts(self) -> tuple[tuple[StateKey, ...], ...]:
        """For each aggregate, the states that it is lowered from."""
        return tuple(
            tuple(StateKey(part.kind, tuple(arguments[a] for a in part.arguments)) for part in bound.parts)
            for bound, arguments in zip(self.aggregates, self.arguments, strict=True)
        )

    @cached_property
    def item_columns(self) -> list[Any]:
        return [compiled(item.expression) for item in self.items]

    @cached_property
    def having_column(self) -> Any:
        return compiled(self.having) if self.having is not None else None

    @cached_property
    def having_keys(self) -> frozenset[int]:
        """The keys that HAVING reads, by position."""
        names = {column.name for column in self.having.columns()} if self.having is not None else set()
        return frozenset(i for i in range(len(self.keys)) if f"key_{i}" in names)

    @cached_property
    def item_schema(self) -> pa.Schema:
        return pa.schema([(item.name, item.expression.type.to_arrow()) for item in self.items])

    @cached_property
    def report_schema(self) -> pa.Schema:
        """The window columns as int64 points of the axis, then the items."""
        return pa.schema([("window_start", pa.int64()), ("window_end", pa.int64()), *self.item_schema])

    @cached_property
    def timed_schema(self) -> pa.Schema:
        """The window columns as timestamps, for an axis of event time, then the items."""
        time = pa.timestamp("us", tz="UTC")
        return pa.schema([("window_start", time), ("window_end", time), *self.item_schema])

    @cached_property
    def answer_schema(self) -> pa.Schema:
        keys = [(f"key_{i}", key.type.to_arrow()) for i, key in enumerate(self.keys)]
        answers = [(f"aggregate_{i}", bound.result_type.to_arrow()) for i, bound in enumerate(self.aggregates)]
        return pa.schema([*keys, *answers])

    def answer_batch(self, keys: list[pa.Array], fields: dict[StateKey, Fields], pools: Pools) -> pa.RecordBatch:
        """The key and aggregate columns of some answers, from their keys and their states' fields."""
        columns: list[pa.Array] = list(keys)
        for i, bound in enumerate(self.aggregates):
            values, nulls = bound.lower([fields[key] for key in self.parts[i]])
            pool = pools.get(self.arguments[i][0]) if self.arguments[i] else None
            columns.append(decoded(values, nulls, bound.encoding, bound.result_type, pool))
        if not columns:
            # A query such as SELECT 1 has neither keys nor aggregates. Only the row count gives the number of rows.
            return pa.RecordBatch.from_arrays([pa.nulls(len(fields[ROW_COUNT][0]))], names=["nothing"])
        return pa.RecordBatch.from_arrays(columns, schema=self.answer_schema)

    def passing(self, answers: pa.RecordBatch) -> NDArray[np.bool_] | None:
        """A mask of the answers that HAVING keeps; None if it keeps all."""
        if self.having_column is None:
            return None
        kept = self.having_column(answers)
        result: NDArray[np.bool_] = flags(kept)
        return result

    def selected(self, answers: pa.RecordBatch) -> list[pa.Array]:
        """The columns of the items."""
        return [column(answers) for column in self.item_columns]


def aggregation_of(block: Block) -> Aggregation:
    """The aggregation of a block that has one."""
    assert block.aggregate is not None
    return Aggregation(
        block.aggregate.keys,
        tuple(_in_window(a.bound, block.window) for a in block.aggregate.aggregates),
        tuple(a.arguments for a in block.aggregate.aggregates),
        block.items,
        block.having,
    )


def _in_window(bound: BoundAggregate, window: Window | None) -> BoundAggregate:
    """The aggregate with the sub-windows of its query's window, if it is FREQUENT; other queries have others."""
    kinds = [part.kind for part in bound.parts]
    if not any(isinstance(kind, StatisticKind) and kind.statistic is Statistic.FREQUENT for kind in kinds):
        return bound
    if isinstance(window, TimeWindow):
        if window.range_us is None or window.slide_us is None:
            raise _without_sub_windows()
        cut = SubWindows(window.range_us, window.slide_us, window.offset_us, window.align_us)
    else:
        if window is None or window.slide is None:
            raise _without_sub_windows()
        cut = SubWindows(window.rows, window.slide, window.offset, 0)
    placed = (kind.over(cut) if isinstance(kind, StatisticKind) else kind for kind in kinds)
    return replace(bound, parts=tuple(replace(p, kind=k) for p, k in zip(bound.parts, placed, strict=True)))


def _without_sub_windows() -> PlanError:
    return PlanError(
        "FREQUENT counts within the slides of a window, and this window has none",
        hint="give the window a RANGE and a SLIDE, or use TOP, which is exact",
    )
