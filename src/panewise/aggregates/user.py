"""Aggregates written by users in Python: lift, combine, lower and an optional inverse, compiled by Numba.

A state is a tuple of floats, or of ints if the identity is all ints. `lift(x, ...)` makes the state of one row,
`combine(a, b)` the state of two neighbouring pieces, the older one first, `lower(a)` the answer. Rows with a NULL
argument are skipped, and a group without other rows answers NULL. The last int64 field counts the rows, so that
`combine` and `lower` never get a piece without rows: a mean may divide by its count. If `combine` raises, the piece is
marked, and only queries whose answer contains it fail. `inverse(a, b)` subtracts the older piece b from a; it is only
checked.

    register(
        "RANGE_WIDTH",
        lift=lambda x: (x, x),
        combine=lambda a, b: (min(a[0], b[0]), max(a[1], b[1])),
        lower=lambda a: a[1] - a[0],
        identity=(inf, -inf),
    )
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import lru_cache
from types import CodeType, FunctionType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from panewise.aggregates import kernels
from panewise.aggregates.aggregate_functions import AggregateFunction, BoundAggregate, Part
from panewise.aggregates.algebra import Algebra, Kind
from panewise.aggregates.matrix import CHOICES, Encoded, StateMatrix
from panewise.aggregates.states import Feed, Operation, StateKind, UserStateKind
from panewise.arrays import Ints
from panewise.errors import BindError, QueryFailed
from panewise.schema import BIGINT, DOUBLE, DataType

RAISED = -1  # in place of the count of rows: `combine` raised for this piece


class Compiled:
    """The user's functions as compiled loops over a state matrix."""

    def __init__(self, lift: Any, combine: Any, lower: Any, arity: int, width: int, integral: bool) -> None:
        from numba import njit

        lift, combine, lower = njit(lift), njit(combine), njit(lower)
        read, write = _accessors(width, integral)
        rows = width if integral else 0  # index of the field that counts rows

        @njit  # type: ignore[untyped-decorator]
        def combine_run(
            operation: Any, ints: Any, floats: Any, d: Any, ints2: Any, floats2: Any, s: Any, count: Any, ranks: Any
        ) -> None:
            for j in range(count):
                here, there = ints[rows, d + j], ints2[rows, s + j]
                if there == 0 or here == RAISED:
                    continue
                if here == 0 or there == RAISED:
                    write(ints, floats, d + j, read(ints2, floats2, s + j))
                    ints[rows, d + j] = there
                    continue
                try:
                    write(ints, floats, d + j, combine(read(ints, floats, d + j), read(ints2, floats2, s + j)))
                    ints[rows, d + j] = here + there
                except Exception:  # noqa: BLE001 - Numba supports no other
                    ints[rows, d + j] = RAISED

        @njit  # type: ignore[untyped-decorator]
        def combine_at(
            operation: Any, ints: Any, floats: Any, slots: Any, ints2: Any, floats2: Any, ranks: Any
        ) -> None:
            for i in range(slots.shape[0]):
                combine_run(operation, ints, floats, slots[i], ints2, floats2, i, 1, ranks)

        @njit  # type: ignore[untyped-decorator]
        def fold_one(slots: Any, x: Any, valid: Any, ints: Any, floats: Any) -> None:
            for i in range(slots.shape[0]):
                if valid[i] != 0:
                    write(ints, floats, slots[i], combine(read(ints, floats, slots[i]), lift(x[i])))
                    ints[rows, slots[i]] += 1

        @njit  # type: ignore[untyped-decorator]
        def fold_two(slots: Any, x: Any, y: Any, valid: Any, ints: Any, floats: Any) -> None:
            for i in range(slots.shape[0]):
                if valid[i] != 0:
                    write(ints, floats, slots[i], combine(read(ints, floats, slots[i]), lift(x[i], y[i])))
                    ints[rows, slots[i]] += 1

        @njit  # type: ignore[untyped-decorator]
        def lower_all(ints: Any, floats: Any, result: Any) -> None:
            for i in range(result.shape[0]):
                if ints[rows, i] > 0:
                    result[i] = lower(read(ints, floats, i))

        self.combine_run, self.combine_at = combine_run, combine_at
        self.fold = fold_one if arity == 1 else fold_two
        self.lower_all = lower_all


_compiled_once = lru_cache(maxsize=64)(Compiled)


def _compiled(lift: Any, combine: Any, lower: Any, arity: int, width: int, integral: bool) -> Compiled:
    """The compiled functions.

    Functions that read only their arguments are compiled once for all engines of the process. Others are compiled each
    time, because Numba treats the names that they read as constants.
    """
    alone = all(map(_stands_alone, (lift, combine, lower)))
    return (_compiled_once if alone else Compiled)(lift, combine, lower, arity, width, integral)


def _stands_alone(function: Any) -> bool:
    """Whether a function reads only its arguments: no global or enclosing name, and no default."""
    if not isinstance(function, FunctionType) or function.__defaults__ or function.__kwdefaults__:
        return False
    if any(isinstance(constant, CodeType) for constant in function.__code__.co_consts):  # nested
        return False
    found = inspect.getclosurevars(function)
    return not found.nonlocals and not found.globals and not found.unbound


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
    """A state matrix with a user's loops."""

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
                valid &= argument.valid[: len(slots)]  # `slots` may cover only the first rows
        self._compiled.fold(slots, *(a.values for a in arguments), valid, self.ints, self.floats)


def matrix_of(kind: StateKind, slots: int) -> StateMatrix:
    """A matrix for any kind of state."""
    return UserMatrix(kind, slots) if isinstance(kind, UserStateKind) else StateMatrix(kind, slots)


def combine_of(kind: StateKind) -> Any:
    """The compiled combine of a kind that has its own, or None."""
    if isinstance(kind, UserStateKind):
        return kind.compiled.combine_run
    return kernels.combine_chosen if kind.operation in CHOICES else None


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
    """An aggregate function from a user's Python functions. Raises BindError if they do not compile."""
    if arguments not in (1, 2):
        raise BindError(f"{name} may take 1 or 2 arguments, not {arguments}")
    if returns not in (DOUBLE, BIGINT):
        raise BindError(f"{name} may return DOUBLE or BIGINT, not {returns}")
    if not isinstance(identity, tuple) or not identity or not all(isinstance(part, int | float) for part in identity):
        raise BindError(f"{name}: its identity is a tuple of numbers, not {identity!r}")
    integral = all(isinstance(part, int) for part in identity)
    compiled = _compiled(lift, combine, lower, arguments, len(identity), integral)
    kind = UserStateKind(
        name=f"user_{name.lower()}",
        operation=Operation.USER,
        int_identity=(*map(int, identity), 0) if integral else (0,),
        float_identity=() if integral else tuple(map(float, identity)),
        feeds=((Feed.INTEGER if integral else Feed.FLOAT),) * arguments,
        algebra=Algebra(Kind.ALGEBRAIC, commutative=False),
        compiled=compiled,
    )
    _try(name, kind, arguments, {"lift": lift, "combine": combine, "inverse": inverse})
    answer_type = np.float64 if returns == DOUBLE else np.int64

    def lower_fields(parts: list[list[NDArray[Any]]]) -> tuple[NDArray[Any], NDArray[np.bool_] | None]:
        (fields,) = parts
        ints = np.ascontiguousarray(np.stack(fields[: kind.int_fields]))
        floats = (
            np.ascontiguousarray(np.stack(fields[kind.int_fields :])) if not integral else np.empty((0, len(ints[0])))
        )
        if (ints[-1] == RAISED).any():
            raise QueryFailed(f"{name}: its combine raised an exception")
        result = np.zeros(len(ints[-1]), answer_type)
        try:
            compiled.lower_all(ints, floats, result)
        except Exception as problem:
            raise QueryFailed(f"{name}: its lower raised {type(problem).__name__}: {problem}") from problem
        empty: NDArray[np.bool_] = ints[-1] == 0
        return result, empty if empty.any() else None

    def bind(types: tuple[DataType, ...]) -> BoundAggregate | None:
        if not all(type_.integral if integral else type_.numeric for type_ in types):
            return None
        parts = (Part(kind, tuple(range(arguments))),)
        encoding = Feed.FLOAT if returns == DOUBLE else Feed.INTEGER
        return BoundAggregate(name, returns, parts, lower_fields, encoding)

    return AggregateFunction(name, (arguments, arguments), bind, "integers" if integral else "numbers")


def _try(name: str, kind: UserStateKind, arguments: int, functions: dict[str, Any]) -> None:
    """Compiles every function on a sample, so that mistakes show at registration."""
    from numba.core.errors import NumbaError

    integral = kind.feeds[0] is Feed.INTEGER
    state = kind.int_identity[:-1] if integral else kind.float_identity
    sample = np.ones(2, np.int64 if integral else np.float64)
    _check_length(name, functions["lift"], sample.tolist()[:1] * arguments, len(state))
    for word in ("combine", "inverse"):
        if functions[word] is not None:
            _check_length(name, functions[word], [state, state], len(state))
    matrix = UserMatrix(kind, 2)
    nothing = np.empty(0, np.int64)
    try:
        matrix.fold(np.zeros(2, np.int64), [Encoded(sample, np.empty(0, np.uint8))] * arguments, *[nothing] * 3)
        matrix.combine(0, matrix, 0, 1, nothing)
        kind.compiled.lower_all(matrix.ints[:, :1].copy(), matrix.floats[:, :1].copy(), np.zeros(1))
    except NumbaError as problem:
        raise BindError(
            f"{name} cannot be compiled: {_reason(problem)}", hint="lift and combine return tuples of numbers"
        ) from None
    except (ArithmeticError, ValueError, IndexError):
        pass  # it compiles; it may refuse the sample


def _check_length(name: str, function: Any, arguments: list[Any], length: int) -> None:
    """Raises BindError if a function returns a state of the wrong length, which would silently be cut or padded."""
    try:
        result = function(*arguments)
    except (TypeError, NameError, AttributeError) as problem:
        raise BindError(f"{name} cannot be called: {problem}") from None
    except (ArithmeticError, ValueError, IndexError):
        return  # it may refuse the sample
    if not isinstance(result, tuple) or len(result) != length:
        raise BindError(
            f"{name}: its state has {length} number(s), as its identity says, but a function returned {result!r}",
            hint="lift, combine and inverse return tuples of numbers",
        )


def _reason(problem: Exception) -> str:
    """The line of Numba's report that says what is wrong."""
    lines = [line.strip() for line in str(problem).split("\n")]
    told = [
        line for line in lines if line and not line.startswith(("Failed in", "File ", "-", "During:", "<source", "^"))
    ]
    return told[0] if told else type(problem).__name__
