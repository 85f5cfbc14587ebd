"""Expressions and rows that are hard to get right: what the agreement between Arrow and Spark is tested on."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from itertools import product
from typing import Any

import pyarrow as pa

from panewise.language.conversions import castable, resolve_cast
from panewise.language.expressions import ColumnRef, Expression, Literal
from panewise.language.functions import FUNCTIONS, resolve, resolve_case
from panewise.schema import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    STRING,
    TIMESTAMP,
    DataType,
    decimal,
)
from panewise.temporal import INSTANT_MAX, INSTANT_MIN, instant_us

MONEY = decimal(10, 2)
FINE = decimal(18, 6)
NAN, INFINITY = float("nan"), float("inf")

VALUES: dict[DataType, list[Any]] = {
    BOOLEAN: [True, False, None],
    INT: [0, 1, -1, 2, 3, -7, 10, 99, 45, 2**31 - 1, -(2**31), 1_000_000, None],
    BIGINT: [0, 1, -1, 2, -3, 7, 86_400, 2**31, 2**53 + 1, 2**62, 2**63 - 1, -(2**63), -(2**63) + 1, None],
    FLOAT: [0.0, -0.0, 1.5, -2.25, 3.0e38, 1.0e-40, NAN, INFINITY, -INFINITY, 0.100000001490116, 16777216.0, None],
    DOUBLE: [
        *(0.0, -0.0, 1.0, -1.0, 0.5, 2.5, -2.5, 2.675, 1.005, 0.285, 1e7, 1e-3, 12345.6789, 1e300, 1e-300, 5e-324),
        *(NAN, INFINITY, -INFINITY, 2.0**31, 2.0**63, -(2.0**63), 9007199254740993.0, 1234567.5, -0.4, None),
    ],
    MONEY: [Decimal(v) for v in ("0.00", "1.00", "-1.00", "0.01", "2.50", "-2.55", "99999999.99", "-99999999.99")]
    + [None],
    FINE: [Decimal(v) for v in ("0", "0.000001", "-0.5", "1.500000", "999999999999.999999", "-999999999999.999999")]
    + [Decimal("123456789012.345678"), None],
    STRING: [
        *(
            "",
            " ",
            "a",
            "abc",
            "ABC",
            "  padded  ",
            "straße",
            "ÉTÉ",
            "héllo wörld",
            "a😀b",
            "İΣΑΣ",
            "a%b_c",
            "a\\b",
            "it's",
        ),
        *("line\nbreak", "tab\t", "0", "12", " -7 ", "+3", "1.5", "1e3", ".5", "5.", "1d", "0x1F", "NaN", "-Infinity"),
        *("inf", "2147483648", "9223372036854775808", "000000000000000000000007", "true", "No", "T", "1e400", "1e-400"),
        *("2024-02-29", "2023-02-29", "2024-2-9", "0000-01-01", "9999-12-31", "2024-02-29 12:34:56.789", "2024"),
        *("2024-02-29T12:34:56Z", "2024-02-29 12:34:56+05:30", "2024-02-29 24:00:00", "0001-01-01 00:00:00+01:00"),
        *("2024-02-29 12:34", "2024-02-29 12:34:56 UTC", "2024-02-29 1:2:3.123456789", "2024-13-01", None),
    ],
    DATE: [
        date(1970, 1, 1),
        date(1969, 12, 31),
        date(2024, 2, 29),
        date(2021, 1, 3),
        date(1, 1, 1),
        date(9999, 12, 31),
        date(1582, 10, 10),
        date(2026, 11, 30),
        None,
    ],
    TIMESTAMP: [
        0,
        -1,
        1,
        instant_us("2024-02-29T23:59:59.999999"),
        instant_us("2021-01-03T20:00:00"),
        instant_us("1899-12-31T18:30:00.5"),
        instant_us("2024-03-31T01:30:00"),
        INSTANT_MIN,
        INSTANT_MAX,
        None,
    ],
}

COLUMNS: dict[str, DataType] = {
    "i": INT,
    "j": INT,
    "b": BIGINT,
    "c": BIGINT,
    "f": FLOAT,
    "g": FLOAT,
    "d": DOUBLE,
    "e": DOUBLE,
    "m": MONEY,
    "n": FINE,
    "s": STRING,
    "t": STRING,
    "o": BOOLEAN,
    "p": BOOLEAN,
    "day": DATE,
    "other day": DATE,
    "ts": TIMESTAMP,
    "us": TIMESTAMP,
}


def column(name: str) -> ColumnRef:
    return ColumnRef(COLUMNS[name], name)


def nasty_table(rows: int = 150, seed: int = 7) -> pa.RecordBatch:
    """Every value of every type at least once, beside others at random."""
    chooser = random.Random(seed)
    arrays = {}
    for name, type in COLUMNS.items():
        values = VALUES[type]
        cells = values + [chooser.choice(values) for _ in range(rows - len(values))]
        chooser.shuffle(cells)
        arrays[name] = pa.array(cells, type.to_arrow())
    return pa.record_batch(arrays)


def literal_of(value: Any, type: DataType) -> Literal:
    return Literal(type, (value - date(1970, 1, 1)).days if isinstance(value, date) else value)


# Results of these depend on the mathematical library in the last digits.
APPROXIMATE = set("exp ln log10 log2 power sin cos tan asin acos atan atan2 degrees radians sqrt".split())


def listed_expressions() -> list[Expression]:
    """Every function on every pair of column types that it takes, every cast, and constants in each place."""
    return [*_calls(), *_casts(), *_with_constants(), *_cases()]


def _accepted(function: str, arguments: tuple[Expression, ...]) -> list[Expression]:
    from panewise.errors import BindError

    try:
        return [resolve(function, arguments)]
    except BindError:
        return []


_OPTIONS: dict[str, tuple[Expression, ...]] = {
    "like": (Literal(STRING, "%a_b%"),),
    "ilike": (Literal(STRING, "é%\\%%"),),
}


def _calls() -> list[Expression]:
    found: list[Expression] = []
    first = [column(name) for name in ("i", "b", "f", "d", "m", "n", "s", "o", "day", "ts")]
    second = [column(name) for name in ("j", "c", "g", "e", "m", "n", "t", "p", "other day", "us")]
    for name, function in FUNCTIONS.items():
        if name in ("date_trunc", "like", "ilike", "round", "concat", "bitwise_or", "bitwise_xor", "ne", "gt", "le"):
            continue
        if function.least == 1:
            found += [call for argument in first for call in _accepted(name, (argument,))]
        if function.least <= 2 and (function.most is None or function.most >= 2):
            alike = name in ("in", "coalesce", "greatest", "least", "nullif", "is_distinct_from")
            pairs = zip(first, second, strict=True) if alike else product(first, second)
            found += [call for pair in pairs for call in _accepted(name, pair)]
    text, other = column("s"), column("t")
    small = resolve("mod", (column("i"), Literal(INT, 7)))
    found += [resolve(name, (text, small)) for name in ("substring", "left", "right", "lpad", "rpad")]
    found += [
        resolve("substring", (text, small, resolve("mod", (column("j"), Literal(INT, 5))))),
        resolve("replace", (text, other, Literal(STRING, "<>"))),
        resolve("replace", (text, Literal(STRING, "a"), other)),
        resolve("lpad", (text, small, other)),
    ]
    return found


def _casts() -> list[Expression]:
    targets = [INT, BIGINT, FLOAT, DOUBLE, MONEY, FINE, decimal(3, 3), decimal(5, 0), STRING, BOOLEAN, DATE, TIMESTAMP]
    sources = [column(name) for name in ("i", "b", "f", "d", "m", "n", "s", "o", "day", "ts")]

    return [resolve_cast(s, t) for s in sources for t in targets if castable(s.type, t)]


def _with_constants() -> list[Expression]:
    s, d, i, b, ts = column("s"), column("d"), column("i"), column("b"), column("ts")
    found: list[Expression] = []
    for name, type in [("i", INT), ("b", BIGINT), ("d", DOUBLE), ("m", MONEY), ("s", STRING), ("ts", TIMESTAMP)]:
        for value in VALUES[type][:4] + VALUES[type][-5:]:
            for function in ("eq", "lt", "ge", "is_distinct_from", "add", "sub", "mul", "div", "mod", "concat"):
                found += _accepted(function, (column(name), literal_of(value, type)))
                found += _accepted(function, (literal_of(value, type), column(name)))
    found += [resolve("round", (column(c), Literal(INT, n))) for c in "ibdmnf" for n in (0, 1, 2, 5, -1, -2, -9)]
    found += [
        resolve("date_trunc", (Literal(STRING, unit), column(c)))
        for unit in "year quarter month week day hour minute second millisecond microsecond".split()
        for c in ("ts", "day")
    ]
    patterns = ["", "%", "_", "a%", "%c", "a\\%b\\_c", "a\\\\b", "a.c", "%é%", "L%K", "___"]
    found += [resolve(name, (s, Literal(STRING, p))) for name in ("like", "ilike") for p in patterns]
    texts = ["", "a", "l", "é", "😀", "'", "\\", "\n"]
    names = ("contains", "starts_with", "ends_with", "instr", "trim", "ltrim", "rtrim", "concat", "eq", "greatest")
    found += [resolve(name, (s, Literal(STRING, x))) for name in names for x in texts]
    found += [resolve(name, (Literal(STRING, "a😀bcÉ"), column("t"))) for name in ("contains", "instr", "starts_with")]
    found += [
        resolve("substring", (s, *map(_int, p))) for p in [(0,), (1, 2), (-2,), (-5, 3), (2, -1), (-3, 9), (9, 9)]
    ]
    found += [resolve(name, (s, _int(n))) for name in ("left", "right") for n in (-1, 0, 1, 3, 40)]
    found += [
        resolve(name, (s, _int(n), Literal(STRING, x)))
        for name in ("lpad", "rpad")
        for n in (-1, 0, 2, 9)
        for x in ("", "é😀")
    ]
    found += [resolve("replace", (s, Literal(STRING, x), Literal(STRING, "é"))) for x in ("", "a", "ß", "\\")]
    found += [resolve("in", (i, _int(1), Literal(INT, None), _int(3))), resolve("in", (d, Literal(DOUBLE, NAN), i))]
    found += [resolve("in", (s, Literal(STRING, "a"), column("t"))), resolve("in", (b, _int(1), _int(7)))]
    found += [resolve("timestamp_add", (ts, Literal(BIGINT, n))) for n in (1, -1, 86_400_000_000, 2**63 - 1, -(2**63))]
    chain = resolve("add", (resolve("add", (b, Literal(BIGINT, 2**63 - 1))), Literal(BIGINT, -(2**63) + 1)))
    multiplied = resolve("mul", (resolve("mul", (Literal(BIGINT, 4), b)), Literal(BIGINT, 0)))
    found += [chain, multiplied, resolve("add", (resolve("add", (i, _int(2**31 - 1))), _int(-(2**31))))]
    found += [resolve("eq", (column("day"), Literal(STRING, "2024-02-29"))), resolve("lt", (b, column("n")))]
    found += [literal_of(value, type) for type, values in VALUES.items() for value in values]
    return found


def _int(value: int) -> Literal:
    return Literal(INT, value)


def _cases() -> list[Expression]:
    o, p, i, d, s = (column(name) for name in "opids")
    return [
        resolve_case([(o, i), (p, d)]),
        resolve_case([(o, s)], Literal(STRING, "none")),
        resolve_case([(o, column("ts")), (p, Literal(TIMESTAMP, None))], column("day")),
        resolve_case([(resolve("and", (o, p)), column("m"))], column("n")),
        resolve("nullif", (i, column("j"))),
        resolve("nullif", (column("f"), d)),
        resolve("if", (o, d, column("f"))),
        resolve("coalesce", (i, column("c"), _int(5))),
        resolve("greatest", (d, column("e"), i, Literal(DOUBLE, None))),
        resolve("least", (column("day"), column("ts"))),
    ]


class RandomExpressions:
    """Seeded trees of a wanted type, out of all functions that are exact."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def make(self, type: DataType, depth: int) -> Expression:
        if depth == 0 or self._random.random() < 0.1:
            return self._leaf(type)
        return self._random.choice(self._makers(type))(depth - 1)

    def _leaf(self, type: DataType) -> Expression:
        names = [name for name, known in COLUMNS.items() if known == type]
        if names and self._random.random() < 0.7:
            return column(self._random.choice(names))
        values = VALUES.get(type)
        return Literal(type, None) if values is None else literal_of(self._random.choice(values), type)

    def _call(self, function: str, *types: DataType) -> Callable[[int], Expression]:
        return lambda depth: resolve(function, tuple(self.make(type, depth) for type in types))

    def _case(self, type: DataType) -> Callable[[int], Expression]:
        def make(depth: int) -> Expression:
            branches = [(self.make(BOOLEAN, depth), self.make(type, depth)) for _ in range(self._random.randint(1, 2))]
            return resolve_case(branches, self.make(type, depth))

        return make

    def _cast(self, source: DataType, target: DataType) -> Callable[[int], Expression]:
        return lambda depth: resolve_cast(self.make(source, depth), target)

    def _short(self, depth: int) -> Expression:
        return resolve("mod", (self.make(INT, depth), Literal(INT, 9)))

    def _makers(self, type: DataType) -> list[Callable[[int], Expression]]:
        call, cast = self._call, self._cast
        makers = [
            self._case(type),
            call("coalesce", type, type),
            call("greatest", type, type),
            call("least", type, type),
        ]
        if type in (INT, BIGINT, MONEY):
            makers += [cast(source, type) for source in (INT, BIGINT, DOUBLE, MONEY, STRING, BOOLEAN) if source != type]
        if type in (INT, BIGINT):
            names = ("add", "sub", "mul", "mod", "bitwise_and", "bitwise_xor")
            makers += [call(name, type, type) for name in names] * 2
            makers += [call("neg", type), call("abs", type)]
        if type == INT:
            makers += [call("length", STRING), call("instr", STRING, STRING), call("date_diff", DATE, DATE)]
            makers += [call(name, TIMESTAMP) for name in ("year", "month", "hour", "second", "day_of_week", "week")]
            makers += [call(name, DATE) for name in ("quarter", "day_of_year", "day")]
        elif type == BIGINT:
            makers += [call("integer_divide", BIGINT, BIGINT), call("timestamp_diff", TIMESTAMP, TIMESTAMP)]
            makers += [call("floor", DOUBLE), call("ceil", DOUBLE), call("unix_seconds", TIMESTAMP)]
        elif type == DOUBLE:
            makers += [call(name, DOUBLE, DOUBLE) for name in ("add", "sub", "mul", "div", "mod")] * 2
            makers += [call("div", INT, BIGINT), call("add", FLOAT, DOUBLE), call("sign", DOUBLE), call("abs", DOUBLE)]
            makers += [cast(source, type) for source in (INT, BIGINT, FLOAT, MONEY, FINE, STRING)]
            makers += [
                lambda depth: resolve("round", (self.make(DOUBLE, depth), Literal(INT, self._random.randint(-2, 3))))
            ]
        elif type == FLOAT:
            makers += [call(name, FLOAT, FLOAT) for name in ("add", "sub", "mul", "mod")] + [cast(DOUBLE, FLOAT)]
        elif type == MONEY:
            makers += [lambda depth: resolve_cast(resolve("add", (self.make(MONEY, depth), column("m"))), MONEY)]
            makers += [lambda depth: resolve_cast(resolve("mul", (self.make(MONEY, depth), Literal(INT, 7))), MONEY)]
        elif type == STRING:
            makers += [call("upper", STRING), call("lower", STRING), call("concat", STRING, INT), call("trim", STRING)]
            makers += [call("reverse", STRING), cast(TIMESTAMP, STRING), cast(BIGINT, STRING), cast(MONEY, STRING)]
            makers += [
                lambda depth: resolve("substring", (self.make(STRING, depth), self._short(depth), self._short(0)))
            ]
        elif type == BOOLEAN:
            compared = [BOOLEAN, INT, BIGINT, FLOAT, DOUBLE, MONEY, FINE, STRING, DATE, TIMESTAMP]
            for name in ("eq", "ne", "lt", "le", "gt", "ge", "is_distinct_from"):
                makers += [call(name, kind, kind) for kind in self._random.sample(compared, 4)]
            makers += [call("lt", INT, DOUBLE), call("eq", MONEY, BIGINT), call("ge", DATE, TIMESTAMP)]
            makers += [call("and", BOOLEAN, BOOLEAN), call("or", BOOLEAN, BOOLEAN), call("not", BOOLEAN)] * 4
            makers += [call("is_null", DOUBLE), call("is_not_null", STRING), call("contains", STRING, STRING)]
            makers += [call("in", BIGINT, BIGINT, BIGINT, BIGINT), call("is_nan", DOUBLE), cast(STRING, BOOLEAN)]
        elif type == DATE:
            makers += [call("date_add", DATE, INT), cast(TIMESTAMP, DATE), cast(STRING, DATE)]
        elif type == TIMESTAMP:
            makers += [call("timestamp_add", TIMESTAMP, BIGINT), cast(DATE, TIMESTAMP), cast(STRING, TIMESTAMP)]
            makers += [call("timestamp_seconds", BIGINT), call("timestamp_micros", BIGINT)]
            units = ("YEAR", "WEEK", "DAY", "HOUR")
            makers += [
                lambda depth: resolve(
                    "date_trunc", (Literal(STRING, self._random.choice(units)), self.make(TIMESTAMP, depth))
                )
            ]
        return makers


def random_expressions(count: int, seed: int) -> list[Expression]:
    """So many trees, of all types in turn."""
    made = RandomExpressions(seed)
    types = [BOOLEAN, INT, BIGINT, DOUBLE, MONEY, STRING, DATE, TIMESTAMP, FLOAT]
    return [made.make(types[index % len(types)], 1 + index % 4) for index in range(count)]
