"""States: the few kinds of mergeable summaries from which all built-in aggregates are computed.

A state has int64 and float64 fields; `Operation` says how two states combine. Aggregates that need the same state of
the same argument share it: AVG uses the states of SUM and COUNT, and all of VAR and STDDEV use one state. States know
nothing of slots, slices or synopses. `kernels.py` has the compiled loops over arrays of states.

| operation  | int64 fields              | float64 fields | exact because                                    |
| ---------- | ------------------------- | -------------- | ------------------------------------------------ |
| ADD        | count, or high and low    | -              | integers; separate low 32 bits, so no overflow   |
| SUM_FLOAT  | -                         | sum, residue   | Knuth's two-sum keeps what rounding drops        |
| MIN / MAX  | value or pool code        | or value       | they select                                      |
| MOMENTS    | count                     | mean, M2       | Welford, merged by Chan                          |
| EARLIEST.. | timestamp, arrival, value | -              | they select                                      |
| ARG_...    | the same, has value, key  | or key         | they select                                      |
| HELD       | -                         | -              | values with their counts, see `holistic.py`      |
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from panewise.aggregates.algebra import Algebra, Kind
from panewise.arrays import INT64_MAX, INT64_MIN


class Operation(IntEnum):
    """How two states combine; the compiled loops branch on it once per run of slots."""

    ADD = 0
    SUM_FLOAT = 1
    MIN_INT = 2
    MAX_INT = 3
    MIN_FLOAT = 4
    MAX_FLOAT = 5
    MIN_STRING = 6
    MAX_STRING = 7
    MOMENTS = 8
    EARLIEST = 9
    LATEST = 10
    ARG_MIN_INT = 11
    ARG_MAX_INT = 12
    ARG_MIN_FLOAT = 13
    ARG_MAX_FLOAT = 14
    ARG_MIN_STRING = 15
    ARG_MAX_STRING = 16
    USER = 17
    HELD = 18  # a state without a fixed number of fields, see holistic.py


class Feed(IntEnum):
    """What a state reads of its argument: only whether it is present, or its values in one of three encodings."""

    PRESENCE = 0
    INTEGER = 1
    FLOAT = 2
    CODE = 3  # a STRING's code in the state's string pool


INFINITY = float("inf")
NOT_A_NUMBER = float("nan")

_SUM = Algebra(Kind.DISTRIBUTIVE, invertible=True)
_FLOAT_SUM = Algebra(Kind.DISTRIBUTIVE)  # doubles cannot be subtracted exactly
_EXTREME = Algebra(Kind.DISTRIBUTIVE, selective=True)
_MOMENTS = Algebra(Kind.ALGEBRAIC)


@dataclass(frozen=True)
class StateKind:
    """A kind of state: the identity of each field, and what it reads of each argument."""

    name: str
    operation: Operation
    int_identity: tuple[int, ...]
    float_identity: tuple[float, ...]
    feeds: tuple[Feed, ...]
    algebra: Algebra

    @property
    def int_fields(self) -> int:
        return len(self.int_identity)

    @property
    def float_fields(self) -> int:
        return len(self.float_identity)


@dataclass(frozen=True)
class UserStateKind(StateKind):
    """A state kind with its own compiled functions; two are equal only if they are the same registration."""

    compiled: Any = field(compare=False, default=None, repr=False)


COUNT = StateKind("count", Operation.ADD, (0,), (), (Feed.PRESENCE,), _SUM)
SUM_INTEGER = StateKind("sum_integer", Operation.ADD, (0, 0), (), (Feed.INTEGER,), _SUM)
SUM_FLOAT = StateKind("sum_float", Operation.SUM_FLOAT, (), (0.0, 0.0), (Feed.FLOAT,), _FLOAT_SUM)
SUM_LOGARITHM = StateKind("sum_logarithm", Operation.SUM_FLOAT, (), (0.0, 0.0), (Feed.FLOAT,), _FLOAT_SUM)
MOMENTS = StateKind("moments", Operation.MOMENTS, (0,), (0.0, 0.0), (Feed.FLOAT,), _MOMENTS)

MINIMUM = {
    Feed.INTEGER: StateKind("min_integer", Operation.MIN_INT, (INT64_MAX,), (), (Feed.INTEGER,), _EXTREME),
    Feed.FLOAT: StateKind("min_float", Operation.MIN_FLOAT, (), (NOT_A_NUMBER,), (Feed.FLOAT,), _EXTREME),
    Feed.CODE: StateKind("min_string", Operation.MIN_STRING, (-1,), (), (Feed.CODE,), _EXTREME),
}
MAXIMUM = {
    Feed.INTEGER: StateKind("max_integer", Operation.MAX_INT, (INT64_MIN,), (), (Feed.INTEGER,), _EXTREME),
    Feed.FLOAT: StateKind("max_float", Operation.MAX_FLOAT, (), (-INFINITY,), (Feed.FLOAT,), _EXTREME),
    Feed.CODE: StateKind("max_string", Operation.MAX_STRING, (-1,), (), (Feed.CODE,), _EXTREME),
}


def earliest(feed: Feed) -> StateKind:
    """The value of the earliest row by (timestamp, arrival)."""
    return StateKind("earliest", Operation.EARLIEST, (INT64_MAX, INT64_MAX, 0), (), (feed,), _EXTREME)


def latest(feed: Feed) -> StateKind:
    """The value of the latest row by (timestamp, arrival)."""
    return StateKind("latest", Operation.LATEST, (INT64_MIN, INT64_MIN, 0), (), (feed,), _EXTREME)


def arg_extreme(maximum: bool, value: Feed, key: Feed) -> StateKind:
    """The value of the row with the least (greatest) key, of the earliest one if several have it.

    int64 fields: timestamp, arrival, value, whether there is a value (-1: no row yet), and the key if it is not a
    float.
    """
    operation = {
        (False, Feed.INTEGER): Operation.ARG_MIN_INT,
        (True, Feed.INTEGER): Operation.ARG_MAX_INT,
        (False, Feed.FLOAT): Operation.ARG_MIN_FLOAT,
        (True, Feed.FLOAT): Operation.ARG_MAX_FLOAT,
        (False, Feed.CODE): Operation.ARG_MIN_STRING,
        (True, Feed.CODE): Operation.ARG_MAX_STRING,
    }[maximum, key]
    ints = (0, 0, 0, -1) if key is Feed.FLOAT else (0, 0, 0, -1, 0)
    floats = (0.0,) if key is Feed.FLOAT else ()
    name = "arg_max" if maximum else "arg_min"
    return StateKind(name, operation, ints, floats, (value, key), _EXTREME)
