"""Held rows as states of one row each, for aggregates over rows that come and go one by one.

Every row that passed WHERE has a group, and one column in the matrix of each state. Memory is proportional to rows held
times fields of the states. Groups and strings that no held row needs are dropped once they are the majority.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from panewise.aggregates import kernels
from panewise.aggregates.matrix import CHOOSING, StateMatrix
from panewise.aggregates.states import Feed, Operation, StateKind
from panewise.aggregates.string_pool import StringPool
from panewise.arrays import Ints
from panewise.errors import QueryFailed
from panewise.language.expressions import Expression
from panewise.loops import specialised
from panewise.operators.arguments import ArgumentPlan, ranks_of
from panewise.operators.continuous.window_folds import fold_fifo, move_middles
from panewise.operators.row_batch import Rows
from panewise.plan.aggregation import Aggregation, StateKey
from panewise.plan.expressions.evaluate import compiled
from panewise.state.group_table import GroupTable

Mask = NDArray[np.bool_]
Fields = list[NDArray[Any]]
MatrixMaker = Callable[[StateKind, int], StateMatrix]
FORGET_FROM = 1024  # groups or strings; with fewer, none are dropped


class RowStates:
    """`groups[i]` and column i of each matrix belong to held row i."""

    def __init__(self, aggregation: Aggregation, matrix_of: MatrixMaker = StateMatrix) -> None:
        self.aggregation = aggregation
        self.table = GroupTable(tuple(key.type for key in aggregation.keys))
        self.matrix_of = matrix_of
        self.pools: dict[Expression, StringPool] = {
            argument: StringPool() for argument, _, _ in _code_fields(aggregation.states)
        }
        self.groups: Ints = np.empty(0, np.int64)
        self.matrices = {key: matrix_of(key.kind, 0) for key in aggregation.states}
        self._keys = [compiled(key) for key in aggregation.keys]
        self._compiled: dict[tuple[Any, StateKind], Any] = {}

    def __len__(self) -> int:
        return len(self.groups)

    @property
    def bytes_held(self) -> int:
        states = sum(matrix.bytes_held for matrix in self.matrices.values())
        strings = sum(pool.bytes_held for pool in self.pools.values())
        return self.groups.nbytes + self.table.bytes_held + states + strings

    def append(self, rows: Rows) -> None:
        """Appends rows, all of which passed WHERE."""
        count = len(rows)
        if not count:
            return
        if self._keys:
            new = self.table.ids([key(rows.batch) for key in self._keys])
        else:
            new = np.zeros(count, np.int64)
        self.groups = np.concatenate([self.groups, new])
        arguments = ArgumentPlan(self.aggregation.states, self.pools).read(rows.batch)
        for key, matrix in self.matrices.items():
            single = self.matrix_of(key.kind, count)
            with guarded(key.kind):
                single.fold(np.arange(count), arguments.of(key), rows.times, rows.arrivals, ranks_of(key, self.pools))
            matrix.ints = np.concatenate([matrix.ints, single.ints], axis=1)
            matrix.floats = np.concatenate([matrix.floats, single.floats], axis=1)

    def keep(self, kept: Mask) -> None:
        """Keeps only the rows where the mask is true."""
        self.groups = self.groups[kept]
        for matrix in self.matrices.values():
            # compress keeps C order, for which the loops are compiled.
            matrix.ints = np.compress(kept, matrix.ints, axis=1)
            matrix.floats = np.compress(kept, matrix.floats, axis=1)

    def kernel(self, kernel: Any, matrix: StateMatrix) -> Any:
        """A loop of `window_folds`, compiled with the combine of a user-defined state if it is one."""
        if matrix.kernels is kernels:
            return kernel
        found = self._compiled.get((kernel, matrix.kind))
        if found is None:
            name = "chosen" if matrix.kernels is CHOOSING else None
            found = specialised(kernel, name, combine_run=matrix.kernels.combine_run)
            self._compiled[kernel, matrix.kind] = found
        return found

    def fold_fifo(
        self, order: Ints, segment: Ints, first: Ints, last: Ints, middles: Ints
    ) -> tuple[dict[StateKey, StateMatrix], Ints]:
        """The states of windows [first, last) over the rows in this order, and the new middles of the segments."""
        folded, moved = {}, middles.copy()
        move_middles(segment, first, last, moved)
        for key, matrix in self.matrices.items():
            ints, floats = np.take(matrix.ints, order, axis=1), np.take(matrix.floats, order, axis=1)
            out = self.matrix_of(key.kind, len(segment))
            if key.kind.operation is Operation.ADD:
                # Subtracting integers is exact, even if the running sum wraps around.
                sums = np.zeros((len(ints), len(order) + 1), np.int64)
                np.cumsum(ints, axis=1, out=sums[:, 1:])
                out.ints = np.take(sums, last, axis=1) - np.take(sums, first, axis=1)
            else:
                work, back = self.matrix_of(key.kind, len(order) + 2), self.matrix_of(key.kind, len(segment))
                with guarded(key.kind):
                    self.kernel(fold_fifo, matrix)(
                        int(key.kind.operation), ints, floats, segment, first, last, middles.copy(),
                        ranks_of(key, self.pools), work.ints, work.floats, back.ints, back.floats, out.ints, out.floats,
                    )  # fmt: skip
            folded[key] = out
        return folded, moved

    def answers(self, groups: Ints, states: dict[StateKey, StateMatrix]) -> tuple[list[pa.Array], Mask | None]:
        """The columns of the items for these groups and states, and the mask of those that HAVING keeps (None: all)."""
        fields = {key: matrix.fields() for key, matrix in states.items()}
        batch = self.aggregation.answer_batch(self.table.keys(groups), fields, self.pools)
        return self.aggregation.selected(batch), self.aggregation.passing(batch)

    def first_failure(self, points: Ints, groups: Ints, states: dict[StateKey, StateMatrix]) -> int:
        """The least point (instant or report) at which `answers` raises; it must raise at one of them."""
        distinct = np.unique(points)
        low, high = 0, len(distinct) - 1
        while low < high:
            middle = (low + high) // 2
            upto = np.flatnonzero(points <= distinct[middle])
            try:
                self.answers(groups[upto], chosen_states(states, upto))
                low = middle + 1
            except QueryFailed:
                high = middle
        return int(distinct[low])

    def forget_strings(self, extra: list[dict[StateKey, StateMatrix]]) -> None:
        """Drops strings that no state holds; `extra` are states besides those of the rows."""
        holders = [self.matrices, *extra]
        held = sum(matrix.slots for matrices in holders for matrix in list(matrices.values())[:1])
        for argument, pool in self.pools.items():
            if len(pool) < FORGET_FROM or len(pool) < 4 * held:
                continue
            places = [
                matrices[key].ints[field]
                for found, key, field in _code_fields(self.aggregation.states)
                if found == argument
                for matrices in holders
            ]
            live = np.unique(np.concatenate(places))
            renamed = pool.keep(live[live >= 0])
            for codes in places:
                codes[:] = np.where(codes >= 0, renamed[np.maximum(codes, 0)], codes)

    def forget_groups(self) -> Ints | None:
        """Drops groups without rows if they are the majority; returns the new numbers of groups (None: no change)."""
        if not self._keys or len(self.table) < FORGET_FROM or len(self.table) < 4 * len(self):
            return None
        renamed = self.table.keep(np.unique(self.groups))
        self.groups = renamed[self.groups]
        return renamed

    def snapshot(self) -> dict[str, Any]:
        return {
            "table": self.table.snapshot(),
            "strings": [pa.record_batch({"s": pool.all_strings()}) for pool in self.pools.values()],
            "groups": self.groups.copy(),
            "states": [matrix_snapshot(matrix) for matrix in self.matrices.values()],
        }

    def restore(self, snapshot: dict[str, Any]) -> None:
        self.table.restore(snapshot["table"])
        for pool, strings in zip(self.pools.values(), snapshot["strings"], strict=True):
            pool.load(strings.column(0))
        self.groups = snapshot["groups"].copy()
        for matrix, states in zip(self.matrices.values(), snapshot["states"], strict=True):
            restore_matrix(matrix, states)


def chosen_states(states: dict[StateKey, StateMatrix], chosen: Ints) -> dict[StateKey, StateMatrix]:
    """The states in these slots."""
    result = {}
    for key, matrix in states.items():
        result[key] = copy(matrix)
        result[key].ints = np.take(matrix.ints, chosen, axis=1)
        result[key].floats = np.take(matrix.floats, chosen, axis=1)
    return result


@contextmanager
def guarded(kind: StateKind) -> Iterator[None]:
    """Turns an exception of a user-defined aggregate into QueryFailed."""
    try:
        yield
    except Exception as problem:
        if kind.operation is not Operation.USER:
            raise
        raise QueryFailed(f"an aggregate raised {type(problem).__name__}: {problem}") from problem


def matrix_snapshot(matrix: StateMatrix) -> dict[str, Any]:
    return {"slots": matrix.slots, "ints": matrix.ints.reshape(-1).copy(), "floats": matrix.floats.reshape(-1).copy()}


def restore_matrix(matrix: StateMatrix, snapshot: dict[str, Any]) -> None:
    slots = snapshot["slots"]
    # Arrays from a file are read-only, but the loops are compiled for writable arrays.
    matrix.ints = snapshot["ints"].reshape(matrix.kind.int_fields, slots).copy()
    matrix.floats = snapshot["floats"].reshape(matrix.kind.float_fields, slots).copy()


def _code_fields(states: tuple[StateKey, ...]) -> list[tuple[Expression, StateKey, int]]:
    """All int64 fields that hold codes of strings: the argument, the state and the number of the field."""
    found = []
    for key in states:
        operation, feeds = key.kind.operation, key.kind.feeds
        if operation in (Operation.MIN_STRING, Operation.MAX_STRING):
            found.append((key.arguments[0], key, 0))
        elif operation in (Operation.EARLIEST, Operation.LATEST) and feeds[0] is Feed.CODE:
            found.append((key.arguments[0], key, 2))
        elif Operation.ARG_MIN_INT <= operation <= Operation.ARG_MAX_STRING:
            if feeds[0] is Feed.CODE:
                found.append((key.arguments[0], key, 2))
            if feeds[1] is Feed.CODE:
                found.append((key.arguments[1], key, 4))
    return found
