"""Aggregate functions: their arguments, their result types, and the states from which they are computed.

For argument types, `AggregateFunction.bound(types)` returns a list of parts (a state and the arguments it reads) and a
function `lower`. This function turns the parts' fields, NumPy arrays with one element per answer, into values and a
mask of NULLs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any, TypeVar

from panewise.aggregates.algebra import Kind
from panewise.aggregates.states import (
    COUNT,
    MAXIMUM,
    MINIMUM,
    MOMENTS,
    SUM_FLOAT,
    SUM_INTEGER,
    SUM_LOGARITHM,
    Feed,
    StateKind,
    arg_extreme,
    earliest,
    latest,
)
from panewise.errors import BindError
from panewise.schema import BIGINT, BOOLEAN, DOUBLE, DataType

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Fields = list[NDArray[np.generic]]  # the int64 fields, then the float64 fields, of one part
    Lowered = tuple[NDArray[np.generic], NDArray[np.bool_] | None]  # values; where they are NULL
    Lower = Callable[[list[Fields]], Lowered]

Argument = TypeVar("Argument")


@dataclass(frozen=True)
class Part:
    """A state over some of the aggregate's arguments, by position."""

    kind: StateKind
    arguments: tuple[int, ...]


@dataclass(frozen=True)
class BoundAggregate:
    """An aggregate function for given argument types. `encoding`: the encoding of the values that `lower` returns."""

    name: str
    result_type: DataType
    parts: tuple[Part, ...]
    lower: Lower = field(compare=False)  # determined by the name and the parts
    encoding: Feed | PairsOf = Feed.FLOAT
    pattern: str = ""  # its text, such as TOP(3, {}), if that is not just the name and the arguments

    @property
    def holistic(self) -> bool:
        """Whether it keeps an unbounded number of values."""
        return any(part.kind.algebra.kind is Kind.HOLISTIC for part in self.parts)

    @property
    def sketched(self) -> bool:
        """Whether it is computed by sketches, and so approximate."""
        return self.name.startswith("APPROX_")

    def text(self, arguments: str) -> str:
        return self.pattern.format(arguments) if self.pattern else f"{self.name}({arguments})"


@dataclass(frozen=True)
class PairsOf:
    """Answers that are lists of values of a type with their counts, written as JSON."""

    type: DataType


NOT_CONSTANT = ...  # in a list of constants, marks an argument that is not constant


@dataclass(frozen=True)
class Parameter:
    """An argument that must be a constant: a fraction or a small count. `place`: its position."""

    place: int
    words: str
    least: float
    most: float
    whole: bool

    def checked(self, function: str, value: Any) -> float | int:
        """The value as a number, if it is in range. Raises BindError otherwise."""
        fits = isinstance(value, int | float | Decimal) and not isinstance(value, bool)
        if fits and self.whole:
            fits = int(value) == value
        if not fits or not self.least <= value <= self.most:
            example = f"{function}(3, x)" if self.whole else f"{function}(x, 0.5)"
            found = "an expression" if value is NOT_CONSTANT else repr(value) if value is not None else "NULL"
            raise BindError(
                f"{function} takes {self.words} as a constant, not {found}", hint=f"write {example} or the like"
            )
        return int(value) if self.whole else float(value)


@dataclass(frozen=True)
class AggregateFunction:
    """A name, and how it is bound for argument types and for the value of its parameter, if it has one."""

    name: str
    arity: tuple[int, int]
    bind: Callable[..., BoundAggregate | None]
    takes: str  # in words, for messages
    parameter: Parameter | None = None

    def bound(self, types: tuple[DataType, ...], constants: tuple[Any, ...] = ()) -> BoundAggregate:
        """Binds it for argument types. `constants`: the value of each constant argument, NOT_CONSTANT for others."""
        least, most = self.arity
        if not least <= len(types) <= most:
            expected = str(least) if least == most else f"{least} to {most}"
            raise BindError(f"{self.name} takes {expected} argument(s), not {len(types)}")
        if self.parameter is None:
            result = self.bind(types)
        else:
            place = self.parameter.place
            value = self.parameter.checked(self.name, constants[place] if constants else NOT_CONSTANT)
            types = self.of_rows(types)
            result = self.bind(types, value)
        if result is None:
            given = ", ".join(map(str, types))
            raise BindError(f"{self.name} takes {self.takes}, not {given}")
        return result

    def of_rows(self, arguments: tuple[Argument, ...]) -> tuple[Argument, ...]:
        """The arguments without the parameter."""
        if self.parameter is None:
            return arguments
        return tuple(a for place, a in enumerate(arguments) if place != self.parameter.place)

    def result_type(self, types: tuple[DataType, ...], constants: tuple[Any, ...] = ()) -> DataType:
        return self.bound(types, constants).result_type


def feed_of(type_: DataType) -> Feed:
    """The encoding in which states read values of a type."""
    if type_.fractional:
        return Feed.FLOAT
    return Feed.CODE if type_.name == "STRING" else Feed.INTEGER


def lowered_by(name: str) -> Lower:
    """A function of `lowering.py`, imported on the first call to keep the import of this module cheap."""

    def lower(parts: list[Fields]) -> Lowered:
        from panewise.aggregates.lowering import LOWERINGS

        return LOWERINGS[name](parts)

    return lower


def _count(types: tuple[DataType, ...]) -> BoundAggregate:
    part = Part(COUNT, (0,) if types else ())
    return BoundAggregate("COUNT", BIGINT, (part,), lowered_by("count"), Feed.INTEGER)


def _sum_part(type_: DataType) -> Part:
    return Part(SUM_FLOAT if type_.fractional else SUM_INTEGER, (0,))


def _sum(types: tuple[DataType, ...]) -> BoundAggregate | None:
    (type_,) = types
    if not type_.numeric:
        return None
    parts = (_sum_part(type_), Part(COUNT, (0,)))
    if type_.fractional:
        return BoundAggregate("SUM", DOUBLE, parts, lowered_by("sum_float"))
    if type_.name == "DECIMAL":
        result = DataType("DECIMAL", 18, type_.scale)
        return BoundAggregate("SUM", result, parts, lowered_by("sum_decimal"), Feed.INTEGER)
    return BoundAggregate("SUM", BIGINT, parts, lowered_by("sum_integer"), Feed.INTEGER)


def _avg(types: tuple[DataType, ...]) -> BoundAggregate | None:
    (type_,) = types
    if not type_.numeric:
        return None
    parts = (_sum_part(type_), Part(COUNT, (0,)))
    if type_.name == "DECIMAL":
        scale = 10.0**type_.scale
        scaled = lowered_by("avg_integer")

        def lower(fields: list[Fields]) -> Lowered:
            values, nulls = scaled(fields)
            return values / scale, nulls  # type: ignore[operator]

        return BoundAggregate("AVG", DOUBLE, parts, lower)
    return BoundAggregate("AVG", DOUBLE, parts, lowered_by("avg_float" if type_.fractional else "avg_integer"))


def _extreme(name: str) -> Callable[[tuple[DataType, ...]], BoundAggregate | None]:
    kinds = MINIMUM if name == "MIN" else MAXIMUM

    def bind(types: tuple[DataType, ...]) -> BoundAggregate | None:
        feed = feed_of(types[0])
        parts = (Part(kinds[feed], (0,)), Part(COUNT, (0,)))
        return BoundAggregate(name, types[0], parts, lowered_by("extreme"), feed)

    return bind


def _boolean(name: str) -> Callable[[tuple[DataType, ...]], BoundAggregate | None]:
    kinds = MINIMUM if name == "BOOL_AND" else MAXIMUM

    def bind(types: tuple[DataType, ...]) -> BoundAggregate | None:
        if types[0] != BOOLEAN:
            return None
        parts = (Part(kinds[Feed.INTEGER], (0,)), Part(COUNT, (0,)))
        return BoundAggregate(name, BOOLEAN, parts, lowered_by("extreme"), Feed.INTEGER)

    return bind


def _moments(name: str) -> Callable[[tuple[DataType, ...]], BoundAggregate | None]:
    def bind(types: tuple[DataType, ...]) -> BoundAggregate | None:
        if not types[0].numeric:
            return None
        return BoundAggregate(name, DOUBLE, (Part(MOMENTS, (0,)),), lowered_by(name.lower()))

    return bind


def _geomean(types: tuple[DataType, ...]) -> BoundAggregate | None:
    if not types[0].numeric:
        return None
    parts = (Part(SUM_LOGARITHM, (0,)), Part(COUNT, (0,)))
    return BoundAggregate("GEOMEAN", DOUBLE, parts, lowered_by("geomean"))


def _end(name: str) -> Callable[[tuple[DataType, ...]], BoundAggregate | None]:
    kind = earliest if name == "FIRST" else latest
    lower = {
        Feed.FLOAT: lowered_by("end_float"),
        Feed.INTEGER: lowered_by("end_integer"),
        Feed.CODE: lowered_by("end_integer"),
    }

    def bind(types: tuple[DataType, ...]) -> BoundAggregate | None:
        feed = feed_of(types[0])
        return BoundAggregate(name, types[0], (Part(kind(feed), (0,)),), lower[feed], feed)

    return bind


def _arg(name: str) -> Callable[[tuple[DataType, ...]], BoundAggregate | None]:
    def bind(types: tuple[DataType, ...]) -> BoundAggregate | None:
        value, key = map(feed_of, types)
        part = Part(arg_extreme(name == "ARG_MAX", value, key), (0, 1))
        lower = lowered_by("arg_float" if value is Feed.FLOAT else "arg_integer")
        return BoundAggregate(name, types[0], (part,), lower, value)

    return bind


_NUMBER = "a number"
_ANYTHING = "any type"

BUILT_IN: dict[str, AggregateFunction] = {
    function.name: function
    for function in (
        AggregateFunction("COUNT", (0, 1), _count, _ANYTHING),
        AggregateFunction("SUM", (1, 1), _sum, _NUMBER),
        AggregateFunction("AVG", (1, 1), _avg, _NUMBER),
        AggregateFunction("MIN", (1, 1), _extreme("MIN"), _ANYTHING),
        AggregateFunction("MAX", (1, 1), _extreme("MAX"), _ANYTHING),
        AggregateFunction("VAR_POP", (1, 1), _moments("VAR_POP"), _NUMBER),
        AggregateFunction("VAR_SAMP", (1, 1), _moments("VAR_SAMP"), _NUMBER),
        AggregateFunction("STDDEV_POP", (1, 1), _moments("STDDEV_POP"), _NUMBER),
        AggregateFunction("STDDEV_SAMP", (1, 1), _moments("STDDEV_SAMP"), _NUMBER),
        AggregateFunction("FIRST", (1, 1), _end("FIRST"), _ANYTHING),
        AggregateFunction("LAST", (1, 1), _end("LAST"), _ANYTHING),
        AggregateFunction("ARG_MIN", (2, 2), _arg("ARG_MIN"), _ANYTHING),
        AggregateFunction("ARG_MAX", (2, 2), _arg("ARG_MAX"), _ANYTHING),
        AggregateFunction("BOOL_AND", (1, 1), _boolean("BOOL_AND"), "a BOOLEAN"),
        AggregateFunction("BOOL_OR", (1, 1), _boolean("BOOL_OR"), "a BOOLEAN"),
        AggregateFunction("GEOMEAN", (1, 1), _geomean, _NUMBER),
    )
}

# Other common names of built-in functions.
ALIASES = {
    "MEAN": "AVG",
    "VARIANCE": "VAR_SAMP",
    "VAR": "VAR_SAMP",
    "STDDEV": "STDDEV_SAMP",
    "EVERY": "BOOL_AND",
    "ANY_TRUE": "BOOL_OR",
    "FIRST_VALUE": "FIRST",
    "LAST_VALUE": "LAST",
    "MIN_BY": "ARG_MIN",
    "MAX_BY": "ARG_MAX",
}
