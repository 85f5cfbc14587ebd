"""Group ids against a dictionary of keys."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from panewise.schema import BIGINT, BOOLEAN, DATE, DOUBLE, FLOAT, INT, STRING, TIMESTAMP, DataType, decimal
from panewise.state.group_table import SPAN_MAX, GroupTable
from panewise.state.snapshot_format import dumped, loaded

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
WIDE = DataType("DECIMAL", 21, 2)
VALUES: dict[DataType, st.SearchStrategy[Any]] = {
    BIGINT: st.sampled_from([-(2**63), 2**63 - 1, 0, -1]) | st.integers(-SPAN_MAX, SPAN_MAX) | st.integers(-9, 9),
    INT: st.integers(-(2**31), 2**31 - 1) | st.integers(0, 5),
    DOUBLE: st.floats(width=64) | st.sampled_from([0.0, -0.0, math.nan, 1.0]),
    FLOAT: st.floats(width=32) | st.sampled_from([0.0, -0.0, math.nan]),
    BOOLEAN: st.booleans(),
    STRING: st.text(max_size=10) | st.sampled_from(["", "a", "b"]),
    DATE: st.dates(date(1, 1, 1), date(9999, 12, 31)),
    TIMESTAMP: st.integers(-(10**16), 10**16).map(lambda us: EPOCH + timedelta(microseconds=us)),
    decimal(18, 3): st.integers(-(10**18) + 1, 10**18 - 1).map(lambda digits: Decimal(digits).scaleb(-3)),
    # What a BIGINT and a DECIMAL(18, 2) are compared as.
    WIDE: st.sampled_from([-(2**63), 2**63 - 1, 0]).map(lambda digits: Decimal(f"{digits}.00")),
}
TYPES = list(VALUES)


def normal(value: Any) -> Any:
    """Equal exactly where SQL's GROUP BY says so: both zeros, and all NaNs, are one."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    return value


def columns_of(types: tuple[DataType, ...], keys: list[tuple[Any, ...]]) -> list[pa.Array]:
    return [pa.array([key[i] for key in keys], type_.to_arrow()) for i, type_ in enumerate(types)]


class Checked:
    """A table and the dictionary that it should equal."""

    def __init__(self, types: tuple[DataType, ...]) -> None:
        self.table = GroupTable(types)
        self.known: dict[tuple[Any, ...], int] = {}

    def add(self, keys: list[tuple[Any, ...]]) -> None:
        columns = columns_of(self.table.types, keys)
        # As stored: a FLOAT column has rounded what Python holds in 64 bits.
        stored = list(zip(*(column.to_pylist() for column in columns), strict=True)) if keys else []
        ids = self.table.ids(columns).tolist()
        for key, found in zip(stored, ids, strict=True):
            assert self.known.setdefault(tuple(map(normal, key)), len(self.known)) == found
        assert len(self.table) == len(self.known)

    def check(self) -> None:
        everything = self.table.keys(np.arange(len(self.table)))
        assert [column.type for column in everything] == [type_.to_arrow() for type_ in self.table.types]
        rows = zip(*(column.to_pylist() for column in everything), strict=True)
        assert [tuple(map(normal, row)) for row in rows] == list(self.known)

    def keep(self, live: list[int]) -> None:
        keys = list(self.known)
        renamed = self.table.keep(np.array(live, np.int64))
        assert [renamed[i] for i in live] == list(range(len(live)))
        assert (np.delete(renamed, live) == -1).all()
        self.known = {keys[i]: new for new, i in enumerate(live)}

    def restore(self) -> None:
        saved = loaded(dumped(self.table.snapshot()))
        self.table = GroupTable(self.table.types)
        self.table.restore(saved)


@settings(max_examples=2 * settings.default.max_examples)
@given(st.lists(st.sampled_from(TYPES), min_size=1, max_size=4), st.data())
def test_ids_and_keys(types: list[DataType], data: st.DataObject) -> None:
    checked = Checked(tuple(types))
    key = st.tuples(*(st.none() | VALUES[type_] for type_ in types))
    for action in data.draw(st.lists(st.sampled_from(["add", "add", "add", "keep", "restore"]), max_size=8)):
        match action:
            case "add":
                checked.add(data.draw(st.lists(key, max_size=15)))
            case "keep":
                ids = list(checked.known.values())
                checked.keep(data.draw(st.lists(st.sampled_from(ids), unique=True)) if ids else [])
            case "restore":
                checked.restore()
        checked.check()


@pytest.mark.parametrize("step", [1, 3, SPAN_MAX // 1000, 2**40])
def test_growth(step: int) -> None:
    """From direct to hashed ids as the keys move apart, and past the first room."""
    checked = Checked((BIGINT,))
    random = np.random.default_rng(step)
    for _ in range(4):
        checked.add([(int(i) * step - 5,) for i in random.integers(0, 3000, 1500)])
    checked.add([(None,), (0,), (None,)])
    checked.check()
    checked.keep(list(range(0, len(checked.known), 7)))
    checked.add([(int(i) * step - 5,) for i in random.integers(0, 3000, 500)])
    checked.check()


def test_keys_at_both_ends_of_bigint() -> None:
    """Distances that do not fit into 64 bits."""
    for keys in ([2**63 - 1, -(2**63)], [-(2**63), 2**63 - 1], [5, -(2**63), 6, 2**63 - 1, 5]):
        checked = Checked((BIGINT,))
        for key in keys:
            checked.add([(key,)])
        checked.add([(key,) for key in keys])
        checked.check()


def test_far_apart_then_close() -> None:
    checked = Checked((BIGINT,))
    checked.add([(0,), (10,)])
    checked.add([(10**15,)])
    checked.add([(i,) for i in range(100)])
    checked.check()


def test_only_null_strings() -> None:
    checked = Checked((STRING, BIGINT))
    checked.add([(None, 1), (None, None)])
    checked.keep([1])
    checked.check()
    checked.add([(None, None), ("a", None)])
    checked.check()


def test_dictionary_encoded_strings() -> None:
    values = ["a", None, "b", "a", None]
    table = GroupTable((STRING,))
    plain = table.ids([pa.array(values)])
    encoded = table.ids([pa.array(values).dictionary_encode()])
    hidden = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, 0, 1]), pa.array(["a", None, "b"]))
    assert plain.tolist() == encoded.tolist() == table.ids([hidden]).tolist() == [0, 1, 2, 0, 1]
    assert len(table) == 3


def test_slices_of_columns() -> None:
    values = [5, None, 7, 5, 9]
    table = GroupTable((BIGINT, BOOLEAN))
    whole = [pa.array(values), pa.array([True, None, False, True, None])]
    ids = table.ids(whole)
    for start in range(5):
        assert table.ids([column.slice(start) for column in whole]).tolist() == ids[start:].tolist()


def test_without_columns_there_is_one_group() -> None:
    table = GroupTable(())
    assert len(table) == 1
    assert table.keys(np.array([0, 0])) == []


def test_memory_is_given_back() -> None:
    table = GroupTable((STRING, BIGINT))
    before = table.bytes_held
    count = 50_000
    table.ids([pa.array([f"key number {i}" for i in range(count)]), pa.array(range(count))])
    assert table.bytes_held > 10 * before
    table.keep(np.array([3, 4]))
    assert table.bytes_held == before
    assert table.keys(np.array([0, 1]))[0].to_pylist() == ["key number 3", "key number 4"]


def test_wide_decimals_as_an_earlier_panewise_wrote_them() -> None:
    earlier = GroupTable((BIGINT, BIGINT))
    earlier.ids([pa.array([1, 2, None, 1]), pa.array([150, -200, 150, None])])
    snapshot = earlier.snapshot()
    for _ in range(2):  # what is restored does not change
        table = GroupTable((BIGINT, WIDE))
        table.restore(snapshot)
        column = pa.array([Decimal("-2.00"), Decimal("1.50"), Decimal(2**63 - 1), None], WIDE.to_arrow())
        assert table.ids([pa.array([2, None, 2, 1]), column]).tolist() == [1, 2, 4, 3]
        assert table.keys(np.array([0, 4, 3]))[1].to_pylist() == [Decimal("1.50"), Decimal(2**63 - 1), None]
