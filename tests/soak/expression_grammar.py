"""Random scalar expressions and aggregates of CQL, made of the language's own tables.

Which functions take what is not written down here: every name of `FUNCTIONS`, `ALIASES` and of the registry of
aggregates is probed with arguments of every type, and what the binder's own rules accept is a signature. So a function
that is added to the language is part of the grammar at once.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from itertools import product

from panewise.aggregates import builtin as registry
from panewise.aggregates.aggregate_functions import ALIASES as AGGREGATE_ALIASES
from panewise.aggregates.aggregate_functions import NOT_CONSTANT
from panewise.errors import PanewiseError
from panewise.language.bind.bind_expressions import _PARTS, SCALAR_NAMES
from panewise.language.conversions import SYMBOLS, castable
from panewise.language.expressions import ColumnRef, Expression, Literal
from panewise.language.functions import FUNCTIONS, resolve
from panewise.schema import BIGINT, BOOLEAN, DATE, DOUBLE, INT, STRING, TIMESTAMP, TYPE_NAMES, DataType
from panewise.temporal import UNITS

# What stands for a type among others that functions treat alike.
KINDS = {"BOOLEAN": "bool", "STRING": "text", "DATE": "date", "TIMESTAMP": "time", "INT": "whole", "BIGINT": "whole"}
_PROBES: dict[str, Expression] = {
    "whole": ColumnRef(BIGINT, "p"),
    "number": ColumnRef(DOUBLE, "p"),
    "text": ColumnRef(STRING, "p"),
    "bool": ColumnRef(BOOLEAN, "p"),
    "date": ColumnRef(DATE, "p"),
    "time": ColumnRef(TIMESTAMP, "p"),
    "3": Literal(INT, 3),
    "0.5": Literal(DOUBLE, 0.5),
    "'DAY'": Literal(STRING, "DAY"),
}
_WRITTEN_BY_SYMBOL = {*SYMBOLS, "and", "or", "not", "in", "like", "ilike", "timestamp_diff"}
LITERALS = {
    "whole": ("0", "1", "2", "-3", "7", "1000000", "2147483648", "9223372036854775807", "-9223372036854775808"),
    "number": ("0.5", "1e3", ".25", "-1.5", "1e308", "0.0", "123456789.125"),
    "text": ("'a'", "'b'", "''", "'it''s'", "'2026-01-31'", "'12'", "'é'", "'a%'"),
    "bool": ("TRUE", "FALSE"),
    "date": ("DATE '2026-01-31'", "DATE '0001-01-01'", "DATE '9999-12-31'"),
    "time": ("TIMESTAMP '2026-01-31 12:00:00'", "TIMESTAMP '1970-01-01'", "TIMESTAMP '9999-12-31 23:59:59.999999'"),
}
TYPES = [*(name for name in TYPE_NAMES if name != "DECIMAL"), "DECIMAL(10, 2)", "DECIMAL(18, 0)", "DECIMAL"]


def kind_of(type_: DataType) -> str:
    return KINDS.get(type_.name, "number")


@dataclass(frozen=True)
class Signature:
    """A function and what it takes: kinds, or literals as they are written."""

    name: str
    arguments: tuple[str, ...]


@cache
def scalar_signatures() -> dict[str, list[Signature]]:
    """By the kind of the result: what the binder's rules accept, of every function, operators included."""
    found: dict[str, list[Signature]] = defaultdict(list)
    for name in sorted({*FUNCTIONS, *(name.lower() for name in SCALAR_NAMES)} - {"and", "or", "not", "in"}):
        function = FUNCTIONS.get(name)
        least, most = (function.least, function.most) if function is not None else (1, 3)
        accepted: dict[str, list[Signature]] = defaultdict(list)
        for count in range(least, min(3, least + 2 if most is None else most) + 1):
            for kinds in product(_PROBES, repeat=count):
                try:
                    call = resolve(name, tuple(_PROBES[kind] for kind in kinds))
                except PanewiseError:
                    continue
                accepted[kind_of(call.type)].append(Signature(name, kinds))
        assert accepted, f"no arguments are known that {name} takes"
        for kind, signatures in accepted.items():  # a few of each, so that every function has the same chance
            found[kind].extend(random.Random(name).sample(signatures, min(4, len(signatures))))
    return found


@cache
def aggregate_signatures() -> dict[str, list[Signature]]:
    """The same for aggregates."""
    found: dict[str, list[Signature]] = defaultdict(list)
    for name in sorted({*registry.names(), *AGGREGATE_ALIASES}):
        function = registry.find(name)
        assert function is not None
        accepted: dict[str, list[Signature]] = defaultdict(list)
        for count in (1, 2):
            for kinds in product(_PROBES, repeat=count):
                probes = [_PROBES[kind] for kind in kinds]
                constants = tuple(p.value if isinstance(p, Literal) else NOT_CONSTANT for p in probes)
                try:
                    result = function.result_type(tuple(p.type for p in probes), constants)
                except PanewiseError:
                    continue
                accepted[kind_of(result)].append(Signature(name, kinds))
        assert accepted, f"no arguments are known that {name} takes"
        for kind, signatures in accepted.items():
            found[kind].extend(random.Random(name).sample(signatures, min(4, len(signatures))))
    return found


@dataclass(frozen=True)
class Known:
    """A column that may be written here: how it is written, and its kind."""

    text: str
    kind: str


class Expressions:
    """Expressions over columns; `wrong` is how often a kind is not the one that was asked for."""

    def __init__(self, dice: random.Random, wrong: float = 0.01) -> None:
        self.dice = dice
        self._wrong = wrong

    def of_kind(self, kind: str, columns: Iterable[Known], depth: int = 2) -> str:
        """An expression of a kind, over columns."""
        dice, known = self.dice, list(columns)
        if dice.random() < self._wrong:
            kind = dice.choice([*LITERALS])
        fitting = [column.text for column in known if column.kind == kind]
        if depth <= 0 or dice.random() < 0.45:
            if fitting and dice.random() < 0.8:
                return dice.choice(fitting)
            return "NULL" if dice.random() < 0.05 else dice.choice(LITERALS[kind])
        if dice.random() < 0.25:
            return self._form(kind, known, depth - 1)
        return self._called(dice.choice(scalar_signatures()[kind]), known, depth - 1)

    def aggregate(self, kind: str, columns: Iterable[Known], depth: int = 1) -> str:
        """An aggregate whose answer is of a kind."""
        dice, known = self.dice, list(columns)
        if kind == "whole" and dice.random() < 0.3:
            distinct = self.of_kind(dice.choice([*LITERALS]), known, 0)
            return dice.choice(["COUNT(*)", "COUNT(*)", "COUNT(1)", f"COUNT(DISTINCT {distinct})"])
        signature = dice.choice(aggregate_signatures()[kind])
        written = [self._argument(kind, known, depth) for kind in signature.arguments]
        if signature.name.startswith("PERCENTILE") and len(written) == 2 and dice.random() < 0.5:
            return f"{signature.name}({written[1]}) WITHIN GROUP (ORDER BY {written[0]})"
        modifier = dice.choice(["DISTINCT ", "ALL "]) if dice.random() < 0.04 else ""
        return f"{signature.name}({modifier}{', '.join(written)})"

    def _argument(self, kind: str, known: list[Known], depth: int) -> str:
        return self.of_kind(kind, known, depth) if kind in LITERALS else kind

    def _called(self, signature: Signature, known: list[Known], depth: int) -> str:
        name = signature.name
        written = [self._argument(kind, known, depth) for kind in signature.arguments]
        if name in ("like", "ilike"):
            return f"({written[0]} {self.dice.choice(['', 'NOT '])}{name.upper()} {self.dice.choice(LITERALS['text'])})"
        if name == "timestamp_diff":
            return f"({written[0]} - {written[1]})"
        if name in ("is_null", "is_not_null"):
            return f"({written[0]} {SYMBOLS[name]})"
        if name in _WRITTEN_BY_SYMBOL:
            symbol = SYMBOLS[name]
            return f"({symbol} {written[0]})" if len(written) == 1 else f"({written[0]} {symbol} {written[1]})"
        return f"{name.upper()}({', '.join(written)})"

    def _form(self, kind: str, known: list[Known], depth: int) -> str:
        """What is written in words: CASE, CAST, IN, BETWEEN, IS, EXTRACT, INTERVAL, AND, OR, NOT."""
        dice = self.dice

        def some(wanted: str) -> str:
            return self.of_kind(wanted, known, depth)

        any_kind = dice.choice([*LITERALS])
        if kind == "text" and dice.random() < 0.3:
            return f"({some('text')} || {some(any_kind)})"
        forms = [
            f"CASE WHEN {some('bool')} THEN {some(kind)} ELSE {some(kind)} END",
            f"CASE {some(any_kind)} WHEN {some(any_kind)} THEN {some(kind)} END",
            f"CASE WHEN {some('bool')} THEN {some(kind)} WHEN {some('bool')} THEN NULL END",
            f"({some(kind)})",
            f"{dice.choice(['CAST', 'TRY_CAST'])}({some(self._castable(kind))} AS {self.type_of(kind)})",
            f"({some(self._castable(kind))})::{self.type_of(kind)}",
        ]
        if kind == "whole":
            forms += [f"EXTRACT({dice.choice([*_PARTS])} FROM {some('time')})", f"(- {some('whole')})"]
        if kind == "time":
            interval = self.interval()
            forms += [f"({some('time')} {dice.choice('+-')} {interval})", f"({interval} + {some('time')})"]
        if kind == "bool":
            forms += [
                f"({some('bool')} {dice.choice(['AND', 'OR'])} {some('bool')})",
                f"(NOT {some('bool')})",
                f"({some(any_kind)} {dice.choice(['', 'NOT '])}IN ({some(any_kind)}, {some(any_kind)}))",
                f"({some(any_kind)} {dice.choice(['', 'NOT '])}BETWEEN {some(any_kind)} AND {some(any_kind)})",
                f"({some('bool')} IS {dice.choice(['', 'NOT '])}{dice.choice(['TRUE', 'FALSE', 'NULL'])})",
                f"({some(any_kind)} IS {dice.choice(['', 'NOT '])}DISTINCT FROM {some(any_kind)})",
                f"({some(any_kind)} <=> {some(any_kind)})",
                f"({some('time')} - {some('time')} > {self.interval()})",
            ]
        return dice.choice(forms)

    def _castable(self, kind: str) -> str:
        """A kind that may be cast to another one."""
        return self.dice.choice([from_ for from_ in LITERALS if castable(_PROBES[from_].type, _PROBES[kind].type)])

    def interval(self) -> str:
        unit = self.dice.choice([*UNITS])
        return self.dice.choice([f"INTERVAL 5 {unit}", f"INTERVAL '1' {unit}", "INTERVAL '90 seconds'"])

    def type_of(self, kind: str) -> str:
        """The name of a type of a kind; DECIMAL with and without digits."""
        fitting = [name for name in TYPES if KINDS.get(name, "number") == kind]
        return self.dice.choice(fitting)
