"""A matrix of states of one kind: their fields by slot, and the operations on them.

`Encoded` is an argument's column in the form that the compiled loops read: int64 or float64 values, and one validity
byte per row (no bytes if no value is NULL).
"""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from panewise.aggregates import kernels
from panewise.aggregates.columns import integers, read_only, values_of
from panewise.aggregates.states import SUM_LOGARITHM, Feed, Operation, StateKind
from panewise.aggregates.string_pool import StringPool
from panewise.arrays import Floats, Ints

_FLOAT64 = pa.float64()
NO_BYTES: NDArray[np.uint8] = np.empty(0, np.uint8)
NO_INTS: Ints = np.empty(0, np.int64)
NO_FLOATS: Floats = np.empty(0, np.float64)


@dataclass(frozen=True)
class Encoded:
    """A column for the loops: int64 or float64 values (none if only presence is read); `valid` is empty without NULLs.

    Both are read-only.
    """

    values: NDArray[Any]
    valid: NDArray[np.uint8]

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", read_only(self.values))
        object.__setattr__(self, "valid", read_only(self.valid))

    def take(self, rows: NDArray[Any]) -> Encoded:
        return Encoded(
            self.values[rows] if len(self.values) else self.values, self.valid[rows] if len(self.valid) else self.valid
        )


NO_ARGUMENT = Encoded(NO_INTS, NO_BYTES)


def validity(column: pa.Array) -> NDArray[np.uint8]:
    if pa.types.is_dictionary(column.type) and column.dictionary.null_count:
        column = column.dictionary_decode()  # null_count ignores NULLs among the values of the dictionary
    if column.null_count == 0:
        return NO_BYTES
    result: NDArray[np.uint8] = pc.is_valid(column).cast(pa.uint8()).to_numpy()
    return result


def encoded(column: pa.Array, feed: Feed, pool: StringPool | None = None) -> Encoded:
    """An Arrow column in the form for the loops. Zero-copy for int64, timestamps and float64 without NULLs."""
    valid = validity(column)
    if feed is Feed.PRESENCE:
        return Encoded(NO_INTS, valid)
    if feed is Feed.CODE:
        assert pool is not None
        return Encoded(pool.intern(column), valid)
    if feed is Feed.FLOAT:
        floats = column if column.type == _FLOAT64 else column.cast(_FLOAT64, safe=False)
        return Encoded(values_of(floats, np.float64), valid)
    return Encoded(integers(column), valid)


# Operations that choose a string or a row. They have a combine of their own.
CHOICES = frozenset(Operation) - {
    Operation.ADD,
    Operation.SUM_FLOAT,
    Operation.MIN_INT,
    Operation.MAX_INT,
    Operation.MIN_FLOAT,
    Operation.MAX_FLOAT,
    Operation.MOMENTS,
    Operation.USER,
}
CHOOSING = SimpleNamespace(combine_run=kernels.combine_chosen, combine_at=kernels.combine_chosen_at)


class StateMatrix:
    """The states of one kind in a number of slots. Initially all have the identity."""

    def __init__(self, kind: StateKind, slots: int) -> None:
        self.kind = kind
        self.ints, self.floats = identity(kind, slots)
        self._int_identity = np.array(kind.int_identity, np.int64)
        self._float_identity = np.array(kind.float_identity, np.float64)

    @property
    def slots(self) -> int:
        return int(max(self.ints.shape[1], self.floats.shape[1]))

    @property
    def bytes_held(self) -> int:
        return self.ints.nbytes + self.floats.nbytes

    def fold(self, slots: Ints, arguments: list[Encoded], times: Ints, arrivals: Ints, ranks: Ints) -> None:
        """Folds row i, with these arguments, into slot `slots[i]`."""
        operation = int(self.kind.operation)
        first = arguments[0] if arguments else NO_ARGUMENT
        times, arrivals = read_only(times), read_only(arrivals)
        match self.kind.operation:
            case Operation.ADD if len(self.kind.int_identity) == 1:
                kernels.fold_count(slots, first.valid, self.ints)
            case Operation.ADD:
                kernels.fold_sum_integer(slots, first.values, first.valid, self.ints)
            case Operation.SUM_FLOAT:
                values = logarithms(first.values) if self.kind == SUM_LOGARITHM else first.values
                kernels.fold_sum_float(slots, values, first.valid, self.floats)
            case Operation.MIN_INT | Operation.MAX_INT:
                kernels.fold_extreme_integer(operation, slots, first.values, first.valid, self.ints)
            case Operation.MIN_FLOAT | Operation.MAX_FLOAT:
                kernels.fold_extreme_float(operation, slots, first.values, first.valid, self.floats)
            case Operation.MIN_STRING | Operation.MAX_STRING:
                kernels.fold_extreme_string(operation, slots, first.values, first.valid, self.ints, ranks)
            case Operation.MOMENTS:
                kernels.fold_moments(slots, first.values, first.valid, self.ints, self.floats)
            case Operation.EARLIEST | Operation.LATEST:
                kernels.fold_end(operation, slots, times, arrivals, first.values.view(np.int64), first.valid, self.ints)
            case _:
                self._fold_arg(operation, slots, arguments, times, arrivals, ranks)

    def _fold_arg(
        self, operation: int, slots: Ints, arguments: list[Encoded], times: Ints, arrivals: Ints, ranks: Ints
    ) -> None:
        value, key = arguments
        float_key = self.kind.feeds[1] is Feed.FLOAT
        kernels.fold_arg(
            operation,
            slots,
            times,
            arrivals,
            value.values.view(np.int64),
            value.valid,
            read_only(NO_INTS) if float_key else key.values,
            key.values if float_key else read_only(NO_FLOATS),
            key.valid,
            self.ints,
            self.floats,
            ranks,
        )

    def combine(self, into: int, other: StateMatrix, source: int, count: int, ranks: Ints) -> None:
        """Combines `count` states from slot `into` on with the newer ones of `other` from slot `source` on."""
        self.kernels.combine_run(
            int(self.kind.operation), self.ints, self.floats, into, other.ints, other.floats, source, count, ranks
        )

    def combine_at(self, slots: Ints, ints: Ints, floats: Floats, ranks: Ints) -> None:
        """Combines states into slots, in order, each as newer than the slot's state. Slots may repeat."""
        self.kernels.combine_at(int(self.kind.operation), self.ints, self.floats, slots, ints, floats, ranks)

    @property
    def kernels(self) -> Any:
        """The module or object that has the loops to combine states of this kind."""
        return CHOOSING if self.kind.operation in CHOICES else kernels

    def reset(self, slots: Any) -> None:
        """Sets these slots (an index array or a slice) to the identity."""
        for field, whole in enumerate(self.kind.int_identity):
            self.ints[field, slots] = whole
        for field, real in enumerate(self.kind.float_identity):
            self.floats[field, slots] = real

    def reset_rooms(self, rooms: Ints, width: int) -> None:
        """Sets all slots of these rooms, of `width` slots each, to the identity."""
        kernels.reset_rooms(self.ints, self.floats, rooms, width, self._int_identity, self._float_identity)

    def fields(self) -> list[NDArray[Any]]:
        """The int64 fields, then the float64 fields, as `lower` takes them."""
        return [*self.ints, *self.floats]


def identity(kind: StateKind, slots: int) -> tuple[Ints, Floats]:
    ints = np.empty((kind.int_fields, slots), np.int64)
    floats = np.empty((kind.float_fields, slots), np.float64)
    for field, whole in enumerate(kind.int_identity):
        ints[field] = whole
    for field, real in enumerate(kind.float_identity):
        floats[field] = real
    return ints, floats


def logarithms(values: Floats) -> Floats:
    """Natural logarithms, -inf for 0 and NaN below: GEOMEAN's lift."""
    with np.errstate(divide="ignore", invalid="ignore"):
        result: Floats = np.log(values)
    return result
