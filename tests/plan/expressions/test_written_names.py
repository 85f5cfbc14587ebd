"""Names that are written down: a text that was once written stays, whatever is renamed in the code."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum
from hashlib import blake2b
from itertools import product
from typing import Any

import pytest

import panewise as pw
import panewise.aggregates
import panewise.language
from panewise.aggregates import builtin as registry
from panewise.aggregates import user
from panewise.aggregates.aggregate_functions import AggregateFunction
from panewise.aggregates.holistic import COUNT_DISTINCT, StatisticKind, SubWindows
from panewise.aggregates.states import Operation, StateKind
from panewise.catalog import Catalog, StreamDefinition
from panewise.errors import BindError
from panewise.language.bind.binder import bind_one, parse
from panewise.language.expressions import AggregateCall, ColumnRef, Expression, Literal
from panewise.language.statements import CreateQuery
from panewise.plan.aggregation import StateKey, aggregation_of
from panewise.plan.blocks import block_of
from panewise.plan.build import build
from panewise.plan.expressions.written_names import WRITERS, by_fields, by_members, written
from panewise.schema import BIGINT, DOUBLE, INT, STRING, TYPE_NAMES, Column, DataType, Schema, decimal
from tests import places
from tests.engine.small_engine import SECOND
from tests.plan.expression_samples import COLUMNS, listed_expressions

GOLDEN = places.GOLDEN / "written_names.txt"


@pytest.fixture(scope="module")
def users() -> dict[str, AggregateFunction]:
    """Aggregates of a user; their functions are not written, so these are not compiled."""

    def one(name: str, *identity: float, arguments: int = 1) -> AggregateFunction:
        nothing: Any = None
        given = {"lift": nothing, "combine": nothing, "lower": nothing, "identity": identity, "arguments": arguments}
        return user.user_aggregate(name, **given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(user, "_compiled", lambda *_: object())
        patch.setattr(user, "_try", lambda *_: None)
        functions = (
            one("SPREAD", float("inf"), -float("inf")),
            one("Longest", 0, 0, 0),
            one("BOTH", 0.5, arguments=2),
        )
    return {function.name.upper(): function for function in functions}


def keys_of(item: str, users: dict[str, AggregateFunction]) -> list[StateKey]:
    """The states that are asked for an item, and those that are held for them."""
    catalog = Catalog()
    columns = tuple(Column(name, type) for name, type in COLUMNS.items() if name != "other day")
    catalog.add(StreamDefinition("t", Schema(columns), "ts", 0))
    text = f"CREATE QUERY q AS SELECT {item} AS a FROM t [RANGE 1 MINUTE SLIDE 7 SECONDS]"

    def find(name: str) -> AggregateFunction | None:
        return registry.find(name) or users.get(name.upper())

    [parsed] = parse(text)
    statement = bind_one(parsed, catalog, find, [*registry.names(), *users])
    assert isinstance(statement, CreateQuery)
    aggregation = aggregation_of(block_of(build(statement.query, find)))
    asked = aggregation.asked[1:] or aggregation.asked  # the count of rows is asked in any case, and comes first
    return list(dict.fromkeys(key for one in asked for key in (one.held, one)))


def pinned() -> Iterator[tuple[str, list[str]]]:
    """Items of a SELECT, each with the name and the text of every state that it takes."""
    for block in GOLDEN.read_text(encoding="utf-8").split("\n\n"):
        item, *texts = block.strip().split("\n")
        yield item, [text.strip() for text in texts]


@pytest.mark.parametrize(("item", "texts"), list(pinned()), ids=lambda value: value if isinstance(value, str) else "")
def test_states_are_written_as_they_were(item: str, texts: list[str], users: dict[str, AggregateFunction]) -> None:
    keys = keys_of(item, users)
    assert [text for key in keys for text in (key.name, key.written)] == texts


def test_plain_values_and_expressions_that_no_aggregate_takes_are_written_too() -> None:
    assert written((True, -1, 1.5, float("nan"), "it's", None, Decimal("1.50"))) == (
        """(True, -1, 1.5, nan, "it's", None, Decimal('1.50'))"""
    )
    assert written((date(2024, 2, 29),)) == "(datetime.date(2024, 2, 29),)"
    assert written(datetime(2024, 2, 29, 1, tzinfo=UTC)).startswith("datetime.datetime(2024, 2, 29, 1, 0, tzinfo=")
    assert written(AggregateCall(BIGINT, "COUNT", (), True)) == (
        "AggregateCall(type=DataType(name='BIGINT', precision=0, scale=0), function='COUNT', arguments=(), "
        "distinct=True)"
    )


# -- the table has everything ----------------------------------------------------------------------------------------


def subclasses(cls: type) -> Iterator[type]:
    for found in cls.__subclasses__():
        if found.__module__.startswith("panewise."):
            yield found
        yield from subclasses(found)


def registered_kinds(users: dict[str, AggregateFunction]) -> set[StateKind]:
    """The kinds of all aggregates of all types, what is held for them, and those with sub-windows."""
    types = [decimal(10, 2) if name == "DECIMAL" else DataType(name) for name in TYPE_NAMES]
    found: set[StateKind] = set()
    functions = [registry.find(name) for name in registry.names()]
    for function in [*functions, COUNT_DISTINCT, *users.values()]:
        assert function is not None
        least, most = function.arity
        for given in (given for arity in range(least, most + 1) for given in product(types, repeat=arity)):
            for constant in (0.25, 3):
                try:
                    parts = function.bound(given, (constant,) * len(given)).parts
                except BindError:
                    continue
                for kind in (part.kind for part in parts):
                    placed = kind.over(SubWindows(25, 10, 0, 7)) if isinstance(kind, StatisticKind) else kind
                    for one in (kind, placed):
                        found |= {one, one.held} if isinstance(one, StatisticKind) and one.held else {one}
    return found


def test_every_expression_and_every_kind_has_a_written_name(users: dict[str, AggregateFunction]) -> None:
    for package in (panewise.language, panewise.aggregates):
        for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)
    classes = {*subclasses(Expression), StateKind, *subclasses(StateKind)}
    assert len(classes) >= 10 and classes <= set(WRITERS)
    kinds = registered_kinds(users)
    assert {type(kind) for kind in kinds} == classes - set(subclasses(Expression))
    assert {kind.operation for kind in kinds} == set(Operation)
    assert len({written(kind) for kind in kinds}) == len(kinds)


def test_the_texts_are_those_of_repr(users: dict[str, AggregateFunction]) -> None:
    """Nothing has been renamed yet. Whoever renames something takes it from this test, and never changes the table."""
    for value in [*registered_kinds(users), *listed_expressions()]:
        assert written(value) == repr(value)
    for cls in (cls for cls in WRITERS if issubclass(cls, Enum)):
        assert [written(member) for member in cls] == [repr(member) for member in cls]
    key = StateKey(max(registered_kinds(users), key=repr), tuple(listed_expressions()[:3]))
    assert key.written == repr(key)
    assert key.name == f"{key.kind.name}_{blake2b(repr(key).encode(), digest_size=8).hexdigest()}"


# -- texts stay when the code is renamed -----------------------------------------------------------------------------


@contextmanager
def renamed_classes() -> Iterator[None]:
    """All classes of the table under other names, and with them what `repr` says. The new ones sort otherwise."""
    classes = [cls for cls in (StateKey, *WRITERS) if cls.__module__.startswith("panewise.")]
    names = [cls.__name__ for cls in classes]
    try:
        for cls, name in zip(classes, names, strict=True):
            cls.__name__ = cls.__qualname__ = name[::-1]
        yield
    finally:
        for cls, name in zip(classes, names, strict=True):
            cls.__name__ = cls.__qualname__ = name


@pytest.mark.parametrize(("item", "texts"), list(pinned()), ids=lambda value: value if isinstance(value, str) else "")
def test_renamed_classes_are_written_by_their_old_names(
    item: str, texts: list[str], users: dict[str, AggregateFunction]
) -> None:
    with renamed_classes():
        keys = keys_of(item, users)
        assert repr(keys[0]).startswith("yeKetatS(") and "<noitarepO." in repr(keys[0])
        assert [text for key in keys for text in (key.name, key.written)] == texts


def test_a_renamed_field_and_a_renamed_member_are_written_by_their_old_names() -> None:
    @dataclass(frozen=True)
    class Shape:
        corners: tuple[int, ...]
        title: str = ""

    class Colour(Enum):
        CRIMSON = 2
        BLUE = 3

    shape = by_fields(Shape, "Form", "name=title points=corners")
    assert shape(Shape((1, 2), "a")) == "Form(name='a', points=(1, 2))"
    colour = by_members(Colour, "Tint", "RED:1=CRIMSON BLUE:3")
    assert [colour(member) for member in Colour] == ["<Tint.RED: 1>", "<Tint.BLUE: 3>"]
    with pytest.raises(AssertionError, match="fields of Form without a name"):
        by_fields(Shape, "Form", "title")
    with pytest.raises(AssertionError, match="members of Tint without a name"):
        by_members(Colour, "Tint", "BLUE:3")


def test_what_is_not_in_the_table_is_not_written() -> None:
    class Fresh(Literal):
        pass

    with pytest.raises(AssertionError, match="Fresh has no written name"):
        written(Fresh(INT, 1))
    with pytest.raises(AssertionError, match="set has no written name"):
        written(replace(ColumnRef(DOUBLE, "x"), name={"x"}))  # type: ignore[arg-type]
    with pytest.raises(AssertionError, match="Expression has no written name"):
        written(Expression(STRING))


QUERIES = {
    "folded": "SELECT k, SUM(v + 1) AS a, MIN(upper(s)) AS b, MEDIAN(x) AS c, TOP(2, s) AS d "
    "FROM t [RANGE 9 SECONDS SLIDE 3 SECONDS] GROUP BY k",
    "joined": "SELECT y.k, MIN(y.s) AS a, COUNT(*) AS n FROM t [RANGE 6 SECONDS SLIDE 3 SECONDS] y "
    "JOIN t [RANGE 6 SECONDS SLIDE 3 SECONDS] z ON y.k = z.k GROUP BY y.k",
}


def pushed(engine: pw.Engine, since: int, until: int) -> list[dict[str, Any]]:
    """Rows of these seconds, and what all queries answer to them."""
    rows = [{"ts": n * SECOND, "k": "ab"[n % 2], "v": n, "x": n / 4, "s": f"s{n % 5}"} for n in range(since, until)]
    engine.push("t", rows)
    return [row for name in QUERIES for row in engine.results(name).to_pylist()]


def test_a_snapshot_opens_after_classes_were_renamed() -> None:
    engine = pw.Engine()
    engine.execute("CREATE STREAM t (ts TIMESTAMP, k STRING, v BIGINT, x DOUBLE, s STRING)")
    for name, text in QUERIES.items():
        engine.execute(f"CREATE QUERY {name} AS {text}")
    assert pushed(engine, 0, 10)
    snapshot = engine.snapshot()
    expected = pushed(engine, 10, 20)
    with renamed_classes():
        again = pw.Engine.restore(snapshot)
        assert again.snapshot() == snapshot
        assert pushed(again, 10, 20) == expected
