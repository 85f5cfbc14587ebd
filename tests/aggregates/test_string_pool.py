"""The string pool: codes, order and strings of any Arrow array of texts."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from panewise.aggregates.string_pool import BLOCK, StringPool

texts = st.text(max_size=12) | st.sampled_from(["", "a", "seven b", "eight by", "\0", "a\0", "é" * 4, "𝄞𝄞"])


def check(pool: StringPool, array: pa.Array, codes: np.ndarray) -> None:
    """Codes give back the strings; equal strings have equal codes."""
    values = array.to_pylist()
    assert len(codes) == len(values)
    if len(pool):
        back = pool.strings(codes).to_pylist()
        assert [b for b, v in zip(back, values, strict=True) if v is not None] == [v for v in values if v is not None]


@given(st.lists(st.lists(st.none() | texts, max_size=20), max_size=5))
def test_codes_and_strings(batches: list[list[str | None]]) -> None:
    pool, known = StringPool(), {}
    for batch in batches:
        array = pa.array(batch, pa.string())
        codes = pool.intern(array)
        check(pool, array, codes)
        for value, code in zip(batch, codes.tolist(), strict=True):
            if value is not None:
                assert known.setdefault(value, code) == code
        assert sorted(known.values()) == list(range(len(pool)))
    order = sorted(known, key=str.encode)
    assert [pool.ranks()[known[value]] for value in order] == list(range(len(order)))


@pytest.mark.parametrize(
    "type_", [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())]
)
def test_types_and_slices(type_: pa.DataType) -> None:
    values = ["x", None, "a string of many bytes", "", "x", None, "y", ""]
    array = pa.array(values, pa.string()).cast(type_)
    for start in range(len(values)):
        for stop in range(start, len(values) + 1):
            pool = StringPool()
            part = array.slice(start, stop - start)
            check(pool, part, pool.intern(part))
            assert len(pool) <= len({v for v in values if v is not None})


def test_nulls_among_the_values_of_a_dictionary() -> None:
    array = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, None]), pa.array(["a", None, "b"]))
    pool = StringPool()
    codes = pool.intern(array)
    assert pool.strings(codes[[0, 2]]).to_pylist() == ["a", "b"]
    assert pool.all_strings().to_pylist() == ["a", "b"]


@pytest.mark.parametrize("count", [BLOCK - 1, BLOCK + 1, 20_000])
def test_growth(count: int) -> None:
    values = [f"{i} " + "long " * (i % 5) for i in range(count)]
    pool = StringPool()
    codes = pool.intern(pa.array(values + values[:100]))
    assert codes.tolist() == [*range(count), *range(100)]
    assert pool.all_strings().to_pylist() == values
    huge = "h" * 100_000
    assert pool.intern(pa.array([huge, values[7], huge])).tolist() == [count, 7, count]
    assert pool.strings(np.array([count])).to_pylist() == [huge]


@given(st.lists(texts, unique=True, max_size=30), st.data())
def test_keep_and_load(values: list[str], data: st.DataObject) -> None:
    pool = StringPool()
    pool.intern(pa.array(values, pa.string()))
    live = data.draw(st.lists(st.sampled_from(range(len(values))), unique=True)) if values else []
    renamed = pool.keep(np.array(live, np.int64))
    assert pool.all_strings().to_pylist() == [values[code] for code in live]
    assert [renamed[code] for code in live] == list(range(len(live)))
    assert (np.delete(renamed, live) == -1).all()
    assert pool.intern(pa.array(values, pa.string()))[live].tolist() == list(range(len(live)))


def test_memory_is_given_back() -> None:
    pool = StringPool()
    before = pool.bytes_held
    pool.intern(pa.array([f"{i} a rather long string" for i in range(50_000)]))
    assert pool.bytes_held > 10 * before
    pool.keep(np.array([17], np.int64))
    assert pool.bytes_held == before
