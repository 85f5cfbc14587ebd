"""Expressions, types and kinds of states as stored text, with names that never change.

Snapshots and pages name a state by this text or by a hash of it (`StateKey.written`, `StateKey.name`), and the order of
operands in a canonical expression depends on it. So the text of a value must never change. Its names are in the table
at the end. After a rename in the code, change the class in the table, or `name` to `name=field`; the text stays.
Writing an instance of a class that is not in the table fails an assertion. A field that is not in the table fails one
when this module is imported.

Names of functions, columns and kinds (`add`, `sum_integer`) are values and part of the text. They are never renamed.

The texts are those that `repr` gave when they were first stored. Writing is linear in the size of an expression, and
about as fast as `repr`. A `StateKey` caches its text.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from typing import Any

from panewise.aggregates.algebra import Algebra, Kind
from panewise.aggregates.holistic import HeldKind, Statistic, StatisticKind, Structure, SubWindows
from panewise.aggregates.states import Feed, Operation, StateKind, UserStateKind
from panewise.language.expressions import AggregateCall, Call, Case, Cast, ColumnRef, Literal
from panewise.schema import DataType

Writer = Callable[[Any], str]


def written(value: Any) -> str:
    """The text of an expression, a type, a kind of state, or a tuple of them.

    >>> written(ColumnRef(DataType("DECIMAL", 10, 2), "price"))
    "ColumnRef(type=DataType(name='DECIMAL', precision=10, scale=2), name='price', source=None)"
    """
    return WRITERS[type(value)](value)


def by_fields(cls: type, name: str, names: str, *, unwritten: str = "") -> Writer:
    """The writer of a dataclass.

    `names`: the written names of its fields, in order; `written=field` if the field has another name in the code. Every
    field has a written name or is in `unwritten`.
    """
    pairs = [text.partition("=") for text in names.split()]
    labelled = [(f"{label}=", field or label) for label, _, field in pairs]
    known = {field.name for field in fields(cls)}
    assert {*(field for _, field in labelled), *unwritten.split()} == known, f"fields of {name} without a name"

    def text(value: Any) -> str:
        parts = []
        for label, field in labelled:
            part = getattr(value, field)
            parts.append(label + WRITERS[type(part)](part))
        return f"{name}({', '.join(parts)})"

    return text


def by_members(cls: type[Enum], name: str, names: str) -> Writer:
    """The writer of an enumeration.

    `names`: its members as written, `name:value`; `name:value=member` if the member has another name in the code.
    """
    texts: dict[Any, str] = {}
    for pair in names.split():
        label, _, member = pair.partition("=")
        member_name, _, value = label.partition(":")
        texts[cls[member or member_name]] = f"<{name}.{member_name}: {value}>"
    assert set(texts) == set(cls), f"members of {name} without a name"
    return texts.__getitem__


def _tuple(value: tuple[Any, ...]) -> str:
    parts = [WRITERS[type(part)](part) for part in value]
    return f"({parts[0]},)" if len(parts) == 1 else f"({', '.join(parts)})"


class _Writers(dict[type, Writer]):
    """The table of writers. It refuses unknown classes, so that no name from the code gets into stored text."""

    def __missing__(self, cls: type) -> Writer:
        raise AssertionError(f"{cls.__qualname__} has no written name; plan/expressions/written_names.py gives them")


_KIND = "name operation int_identity float_identity feeds algebra"

# Plain values are written as Python prints them.
_PLAIN: dict[type, Writer] = dict.fromkeys((bool, int, float, str, Decimal, date, datetime, type(None)), repr)

WRITERS = _Writers(
    _PLAIN
    | {
        tuple: _tuple,
        DataType: by_fields(DataType, "DataType", "name precision scale"),
        # Expressions.
        ColumnRef: by_fields(ColumnRef, "ColumnRef", "type name source"),
        Literal: by_fields(Literal, "Literal", "type value"),
        Call: by_fields(Call, "Call", "type function arguments"),
        Case: by_fields(Case, "Case", "type branches default"),
        Cast: by_fields(Cast, "Cast", "type operand"),
        AggregateCall: by_fields(AggregateCall, "AggregateCall", "type function arguments distinct"),
        # Kinds of states.
        StateKind: by_fields(StateKind, "StateKind", _KIND),
        UserStateKind: by_fields(UserStateKind, "UserStateKind", _KIND, unwritten="compiled"),
        HeldKind: by_fields(HeldKind, "HeldKind", f"{_KIND} structure k sub_windows"),
        StatisticKind: by_fields(StatisticKind, "StatisticKind", f"{_KIND} held statistic parameter lists"),
        SubWindows: by_fields(SubWindows, "SubWindows", "range slide offset align"),
        Algebra: by_fields(Algebra, "Algebra", "kind commutative invertible selective associative"),
        Kind: by_members(Kind, "Kind", "DISTRIBUTIVE:'distributive' ALGEBRAIC:'algebraic' HOLISTIC:'holistic'"),
        Feed: by_members(Feed, "Feed", "PRESENCE:0 INTEGER:1 FLOAT:2 CODE:3"),
        Operation: by_members(
            Operation,
            "Operation",
            "ADD:0 SUM_FLOAT:1 MIN_INT:2 MAX_INT:3 MIN_FLOAT:4 MAX_FLOAT:5 MIN_STRING:6 MAX_STRING:7 MOMENTS:8 "
            "EARLIEST:9 LATEST:10 ARG_MIN_INT:11 ARG_MAX_INT:12 ARG_MIN_FLOAT:13 ARG_MAX_FLOAT:14 ARG_MIN_STRING:15 "
            "ARG_MAX_STRING:16 USER:17 HELD:18",
        ),
        Structure: by_members(
            Structure, "Structure", "BAG:'bag' FREQUENT:'frequent' HLL:'hll' KLL:'kll' ITEMS:'items'"
        ),
        Statistic: by_members(
            Statistic,
            "Statistic",
            "RANK:'rank' DISCRETE:'discrete' CONTINUOUS:'continuous' DISTINCT:'distinct' TOP:'top' "
            "FREQUENT:'frequent' ABOUT_DISTINCT:'about_distinct' ABOUT_QUANTILE:'about_quantile' "
            "ABOUT_TOP:'about_top'",
        ),
    }
)
