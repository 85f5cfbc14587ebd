"""Aggregates written by users in Python: lift, combine, lower and an optional inverse, compiled by Numba.

A state is a tuple of floats (or of ints, where the identity is all ints). `lift(x, ...)` makes the state of one row,
`combine(a, b)` that of two neighbouring pieces, the older one first, `lower(a)` the answer; NULL arguments are skipped and
an empty group answers NULL. `inverse(a, b)` takes the older piece b out of a again and is used where the state is of ints,
which alone come back exactly.

    register(
        "RANGE_WIDTH",
        lift=lambda x: (x, x),
        combine=lambda a, b: (min(a[0], b[0]), max(a[1], b[1])),
        lower=lambda a: a[1] - a[0],
        identity=(inf, -inf),
    )
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from panewise.aggregates.algebra import Algebra, Kind
from panewise.aggregates.functions import AggregateFunction, BoundAggregate, Part
from panewise.aggregates.matrix import Encoded, StateMatrix
from panewise.aggregates.states import COUNT, Feed, Operation, StateKind
from panewise.errors import BindError, QueryFailed
from panewise.schema import BIGINT, DOUBLE, DataType

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class UserStateKind(StateKind):
    """A state kind with its own compiled functions; two are equal only if they are the same registration."""

    compiled: Any = field(compare=False, default=None, repr=False)


class Compiled:
    """The user's functions as compiled loops over a state matrix."""

    def __init__(self, lift: Any, combine: Any, lower: Any, arity: int, width: int, integral: bool) -> None:
        from numba import njit

        lift, combine, lower = njit(lift), njit(combine), njit(lower)
        read, write = _accessors(width, integral)

        @njit  # type: ignore[untyped-decorator]
        def combine_run(
            operation: Any, ints: Any, floats: Any, d: Any, ints2: Any, floats2: Any, s: Any, count: Any, ranks: Any
        ) -> None:
            for j in range(count):
                write(ints, floats, d + j, combine(read(ints, floats, d + j), read(ints2, floats2, s + j)))

        @njit  # type: ignore[untyped-decorator]
        def fold_one(slots: Any, x: Any, valid: Any, ints: Any, floats: Any) -> None:
            for i in range(slots.shape[0]):
                if valid[i] != 0:
                    write(ints, floats, slots[i], combine(read(ints, floats, slots[i]), lift(x[i])))

        @njit  # type: ignore[untyped-decorator]
        def fold_two(slots: Any, x: Any, y: Any, valid: Any, ints: Any, floats: Any) -> None:
            for i in range(slots.shape[0]):
                if valid[i] != 0:
                    write(ints, floats, slots[i], combine(read(ints, floats, slots[i]), lift(x[i], y[i])))

        @njit  # type: ignore[untyped-decorator]
        def lower_all(ints: Any, floats: Any, result: Any) -> None:
            for i in range(result.shape[0]):
                result[i] = lower(read(ints, floats, i))

        self.combine_run = combine_run
        self.fold = fold_one if arity == 1 else fold_two
        self.lower_all = lower_all


def _accessors(width: int, integral: bool) -> tuple[Any, Any]:
    """Compiled functions that read a state's tuple from its slot and write it back."""
    from numba import njit
    from numba.cpython.unsafe.tuple import tuple_setitem

    zero = (0 if integral else 0.0,) * width

    @njit  # type: ignore[untyped-decorator]
    def read(ints: Any, floats: Any, slot: Any) -> Any:
        state = zero
        for f in range(width):
            state = tuple_setitem(state, f, ints[f, slot] if integral else floats[f, slot])
        return state

    @njit  # type: ignore[untyped-decorator]
    def write(ints: Any, floats: Any, slot: Any, state: Any) -> None:
        for f in range(width):
            if integral:
                ints[f, slot] = state[f]
            else:
                floats[f, slot] = state[f]

    return read, write


class UserMatrix(StateMatrix):
    """A state matrix whose loops are a user's."""

    def __init__(self, kind: UserStateKind, slots: int) -> None:
        super().__init__(kind, slots)
        self._compiled: Compiled = kind.compiled

    @property
    def kernels(self) -> Any:
        return self._compiled

    def fold(self, slots: Ints, arguments: list[Encoded], times: Ints, arrivals: Ints, ranks: Ints) -> None:
        valid = np.ones(len(slots), np.uint8)
        for argument in arguments:
            if len(argument.valid):
                valid &= argument.valid
        self._compiled.fold(slots, *(a.values for a in arguments), valid, self.ints, self.floats)


def matrix_of(kind: StateKind, slots: int) -> StateMatrix:
    """A matrix for any kind of state."""
    return UserMatrix(kind, slots) if isinstance(kind, UserStateKind) else StateMatrix(kind, slots)


def combine_of(kind: StateKind) -> Any:
    """A user's compiled combine, or None for built-in kinds."""
    return kind.compiled.combine_run if isinstance(kind, UserStateKind) else None


def user_aggregate(
    name: str,
    *,
    lift: Callable[..., tuple[Any, ...]],
    combine: Callable[[Any, Any], tuple[Any, ...]],
    lower: Callable[[Any], Any],
    identity: tuple[float, ...] | tuple[int, ...],
    inverse: Callable[[Any, Any], tuple[Any, ...]] | None = None,
    arguments: int = 1,
    returns: DataType = DOUBLE,
) -> AggregateFunction:
    """An aggregate function from a user's Python functions; refuses what does not compile, in words."""
    if arguments not in (1, 2):
        raise BindError(f"{name} may take 1 or 2 arguments, not {arguments}")
    if returns not in (DOUBLE, BIGINT):
        raise BindError(f"{name} may return DOUBLE or BIGINT, not {returns}")
    integral = all(isinstance(part, int) for part in identity)
    compiled = Compiled(lift, combine, lower, arguments, len(identity), integral)
    kind = UserStateKind(
        name=f"user_{name.lower()}",
        operation=Operation.USER,
        int_identity=tuple(map(int, identity)) if integral else (),
        float_identity=() if integral else tuple(map(float, identity)),
        feeds=((Feed.INTEGER if integral else Feed.FLOAT),) * arguments,
        algebra=Algebra(Kind.ALGEBRAIC, commutative=False),
        compiled=compiled,
    )
    _try(name, kind, arguments, inverse)
    answer_type = np.float64 if returns == DOUBLE else np.int64

    def lower_fields(parts: list[list[NDArray[Any]]]) -> tuple[NDArray[Any], NDArray[np.bool_] | None]:
        fields, counts = parts[0], [part[0] for part in parts[1:]]
        ints = np.ascontiguousarray(np.stack(fields)) if integral else np.empty((0, len(counts[0])), np.int64)
        floats = np.empty((0, len(counts[0]))) if integral else np.ascontiguousarray(np.stack(fields))
        result = np.zeros(len(counts[0]), answer_type)
        try:
            compiled.lower_all(ints, floats, result)
        except Exception as problem:
            raise QueryFailed(f"{name}: its lower raised {type(problem).__name__}: {problem}") from problem
        empty = np.zeros(len(result), np.bool_)
        for count in counts:
            empty |= count == 0
        return result, empty if empty.any() else None

    def bind(types: tuple[DataType, ...]) -> BoundAggregate | None:
        if not all(type_.integral if integral else type_.numeric for type_ in types):
            return None
        counts = tuple(Part(COUNT, (i,)) for i in range(arguments))
        parts = (Part(kind, tuple(range(arguments))), *counts)
        encoding = Feed.FLOAT if returns == DOUBLE else Feed.INTEGER
        return BoundAggregate(name, returns, parts, lower_fields, encoding)

    return AggregateFunction(name, (arguments, arguments), bind, "integers" if integral else "numbers")


def _try(name: str, kind: UserStateKind, arguments: int, inverse: Any) -> None:
    """Compiles every function on a sample, so that a mistake shows at registration."""
    from numba.core.errors import NumbaError

    matrix = UserMatrix(kind, 2)
    sample = np.ones(1, np.int64 if kind.int_identity else np.float64)
    column = Encoded(sample, np.empty(0, np.uint8))
    nothing = np.empty(0, np.int64)
    try:
        matrix.fold(np.zeros(1, np.int64), [column] * arguments, nothing, nothing, nothing)
        matrix.combine(0, matrix, 1, 1, nothing)
        kind.compiled.lower_all(matrix.ints[:, :1].copy(), matrix.floats[:, :1].copy(), np.zeros(1))
        if inverse is not None:
            state = tuple(kind.int_identity or kind.float_identity)
            if len(inverse(state, state)) != len(state):
                raise BindError(f"{name}: its inverse returns a state of another length")
    except NumbaError as problem:
        first = str(problem).strip().split("\n")[0]
        raise BindError(
            f"{name} cannot be compiled: {first}", hint="lift and combine return tuples of numbers"
        ) from None
