"""Hashes of keys: equal exactly where groups are, the same everywhere and always; batches divided by them."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from panewise.schema import DataType
from panewise.state.key_hash import key_hash, split_by_bucket
from tests.state.test_group_table import TYPES, VALUES, normal

Keys = tuple[list[DataType], list[tuple[Any, ...]]]


@st.composite
def keys(draw: st.DrawFn) -> Keys:
    """Rows of one to three columns, with NULLs and repetitions."""
    types = draw(st.lists(st.sampled_from(TYPES), min_size=1, max_size=3))
    row = st.tuples(*(st.none() | VALUES[type_] for type_ in types))
    rows = draw(st.lists(row, min_size=1, max_size=12))
    return types, rows + draw(st.lists(st.sampled_from(rows), max_size=12))


def columns_of(types: list[DataType], rows: list[tuple[Any, ...]]) -> list[pa.Array]:
    return [pa.array([row[i] for row in rows], type_.to_arrow()) for i, type_ in enumerate(types)]


@given(keys())
def test_equal_where_keys_are(drawn: Keys) -> None:
    types, rows = drawn
    hashes = key_hash(columns_of(types, rows))
    found: dict[tuple[Any, ...], int] = {}
    for row, value in zip(rows, hashes.tolist(), strict=True):
        assert found.setdefault(tuple(map(normal, row)), value) == value
    assert len(set(found.values())) == len(found), "64 bits do not meet by chance among so few"


@given(keys(), st.integers(0, 5))
def test_the_same_in_any_clothes(drawn: Keys, offset: int) -> None:
    """In a slice of a longer array; in a dictionary, with NULL among its values or in the indices."""
    columns = columns_of(*drawn)
    plain = key_hash(columns)
    padded = [pa.concat_arrays([column.take(pa.array([0] * offset, pa.int64())), column]) for column in columns]
    assert key_hash([column.slice(offset) for column in padded]).tolist() == plain.tolist()
    backwards = pa.array(np.arange(len(plain), dtype=np.int32)[::-1])
    inside = [pa.DictionaryArray.from_arrays(backwards, column) for column in columns]
    assert key_hash(inside).tolist() == plain[::-1].tolist()
    outside = []
    for column in columns:
        present = np.asarray(column.is_valid().to_numpy(zero_copy_only=False), np.bool_)
        places = pa.array(np.cumsum(present) - 1, pa.int32(), mask=~present)
        outside.append(pa.DictionaryArray.from_arrays(places, column.drop_null()))
    assert key_hash(outside).tolist() == plain.tolist()


@pytest.mark.parametrize("type_", [pa.large_string(), pa.string_view()])
def test_kinds_of_strings(type_: pa.DataType) -> None:
    texts = pa.array(["", "a", None, "exactly8", "nine byte", "something longer, äöü", "exactly 16 bytes"])
    assert key_hash([texts.cast(type_)]).tolist() == key_hash([texts]).tolist()


def test_never_changes() -> None:
    """State on disk is laid out by these very numbers."""
    assert key_hash([pa.array(["", "a", None, "exactly8", "something longer"])]).tolist() == STRINGS
    assert key_hash([pa.array([0, 1, -1, None], pa.int64())]).tolist() == NUMBERS
    assert key_hash([pa.array([0.0, 1.5, float("nan")])]).tolist() == DOUBLES
    assert key_hash([pa.array(["a", "b"]), pa.array([1, 2], pa.int64())]).tolist() == PAIRS


def test_another_process_agrees() -> None:
    program = (
        "import pyarrow as pa; from panewise.state.key_hash import key_hash;"
        "print(key_hash([pa.array(['', 'a', None, 'exactly8', 'something longer'])]).tolist())"
    )
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == str(STRINGS)


def test_columns_in_another_order_are_another_key() -> None:
    a, b = pa.array([1, 2, 1]), pa.array([2, 1, 1])
    forth, back = key_hash([a, b]), key_hash([b, a])
    assert forth[0] != back[0] and forth[0] == back[1] and forth[2] == back[2]


def test_buckets_are_even() -> None:
    """Numbers and texts in a row, whatever the number of buckets."""
    count = 20_000
    for column in (pa.array(np.arange(count)), pa.array([f"host-{i}" for i in range(count)])):
        for buckets in (2, 3, 8, 64):
            sizes = np.bincount((key_hash([column]) % np.uint64(buckets)).astype(np.int64), minlength=buckets)
            assert abs(sizes - count / buckets).max() < 6 * (count / buckets) ** 0.5


@given(keys(), st.integers(1, 5), st.booleans())
def test_split(drawn: Keys, buckets: int, encoded: bool) -> None:
    """Each row is in the bucket of its key, in its order, with its values; dictionaries hold what is used alone."""
    columns = columns_of(*drawn)
    hashes, count = key_hash(columns).tolist(), len(columns[0])
    if encoded:
        every = pa.array(np.arange(count, dtype=np.int32))
        columns = [pa.DictionaryArray.from_arrays(every, column) for column in columns]
    named = {f"key_{i}": column for i, column in enumerate(columns)}
    strings = pa.array([None if i % 3 == 0 else f"s{i % 4}" for i in range(count)], pa.string())
    named |= {"x": pa.array(np.arange(count) / 2), "n": pa.array(np.arange(count)), "s": strings.dictionary_encode()}
    batch = pa.record_batch(named, metadata={"told": "yes"})
    parts = split_by_bucket(batch, [f"key_{i}" for i in range(len(columns))], buckets)
    assert len(parts) == buckets
    for bucket, part in enumerate(parts):
        expected = [i for i, value in enumerate(hashes) if value % buckets == bucket]
        assert (part is None) == (not expected)
        if part is not None:
            part.validate(full=True)
            assert part.schema.equals(batch.schema, check_metadata=True)
            for name in named:
                check_column(part.column(name), batch.column(name).take(pa.array(expected)), whole=buckets == 1)


def check_column(found: pa.Array, expected: pa.Array, whole: bool) -> None:
    if isinstance(found, pa.DictionaryArray):
        assert whole or set(found.indices.drop_null().to_pylist()) == set(range(len(found.dictionary)))
        found, expected = (column.dictionary.take(column.indices) for column in (found, expected))
    assert [normal(value) for value in found.to_pylist()] == [normal(value) for value in expected.to_pylist()]


STRINGS = [13258805574571075079, 8356062443947199648, 15485907386658061715, 4294510978484800437, 16142835291586857571]
NUMBERS = [13258805574571075079, 13411441898499354628, 14641387471877365332, 15485907386658061715]
DOUBLES = [13258805574571075079, 13458814892899595333, 2544242883433959641]
PAIRS = [17456047180204233542, 10267777787999867158]
