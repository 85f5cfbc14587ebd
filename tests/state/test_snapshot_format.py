"""Snapshots as bytes: what goes in comes out, and damaged bytes are refused in one way only."""

from __future__ import annotations

import math
import random
import struct
import zlib
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from panewise.errors import SnapshotError
from panewise.state.snapshot_format import VERSION, dumped, loaded

plain = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text()
arrays = st.builds(
    lambda type_, shape, seed: np.random.default_rng(seed).integers(0, 2, shape).astype(type_),
    st.sampled_from([np.int64, np.float64, np.uint8]),
    st.lists(st.integers(0, 3), min_size=1, max_size=3).map(tuple),
    st.integers(0, 99),
)
batches = st.lists(st.none() | st.text(max_size=3), max_size=4).map(
    lambda v: pa.record_batch({"s": pa.array(v, pa.string())})
)
trees = st.recursive(
    plain | arrays | batches,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)


def same(first: Any, second: Any) -> bool:
    if isinstance(first, np.ndarray):
        return bool(first.dtype == second.dtype and first.shape == second.shape and (first == second).all())
    if isinstance(first, pa.RecordBatch | pa.Table):
        return type(first) is type(second) and bool(first.equals(second))
    if isinstance(first, dict):
        return list(first) == list(second) and all(same(first[key], second[key]) for key in first)
    if isinstance(first, list):
        return len(first) == len(second) and all(map(same, first, second))
    if isinstance(first, float) and math.isnan(first):
        return isinstance(second, float) and math.isnan(second)
    return type(first) is type(second) and bool(first == second)


@given(trees)
def test_round_trip(tree: Any) -> None:
    assert same(tree, loaded(dumped(tree)))


def test_names_that_look_like_marks() -> None:
    tree = {"@array": 1, "@dict": [{"@batch": 0}], "": {"@table": None}}
    assert loaded(dumped(tree)) == tree


def test_tables_tuples_and_numpy_numbers() -> None:
    table = pa.table({"a": pa.chunked_array([[1], [2, None]], pa.int64())})
    found = loaded(dumped({"table": table, "empty": table.slice(0, 0), "pair": (np.int64(5), 2)}))
    assert found["table"].equals(table.combine_chunks())
    assert found["empty"].schema == table.schema and found["empty"].num_rows == 0
    assert found["pair"] == [5, 2]


def test_arrays_can_be_written_to() -> None:
    found = loaded(dumped({"a": np.zeros(3)}))
    found["a"][1] = 2.0
    assert found["a"].tolist() == [0.0, 2.0, 0.0]


EXAMPLE = dumped(
    {"numbers": np.arange(100), "rows": pa.record_batch({"s": ["a", None, "b"]}), "more": [1, 2.5, "text", None, True]}
)


def test_damaged_bytes() -> None:
    dice = random.Random(1)
    for _ in range(1000):
        damaged = bytearray(EXAMPLE)
        for _ in range(dice.choice([1, 1, 2, 10])):
            damaged[dice.randrange(len(damaged))] ^= 1 << dice.randrange(8)
        if bytes(damaged) == EXAMPLE:
            continue
        with pytest.raises(SnapshotError):
            loaded(bytes(damaged))


def test_truncated_and_extended_bytes() -> None:
    for length in range(len(EXAMPLE)):
        with pytest.raises(SnapshotError):
            loaded(EXAMPLE[:length])
    with pytest.raises(SnapshotError):
        loaded(EXAMPLE + b"\0")


@given(st.binary(max_size=200))
def test_foreign_bytes(data: bytes) -> None:
    with pytest.raises(SnapshotError):
        loaded(data)
    with pytest.raises(SnapshotError):
        loaded(EXAMPLE[:8] + data)


def test_another_version() -> None:
    other = EXAMPLE[:8] + (VERSION + 1).to_bytes(4, "little") + EXAMPLE[12:]
    with pytest.raises(SnapshotError, match=f"has version {VERSION + 1}; this panewise reads versions 1 to {VERSION}"):
        loaded(other)


def test_an_array_that_is_mostly_empty_takes_little_room() -> None:
    ring = np.zeros((4, 4096), np.int64)
    ring[:, :3] = 2**40
    assert len(dumped({"ring": ring})) < 2_000
    found = loaded(dumped({"ring": ring}))["ring"]
    assert same(ring, found)
    found[0, 0] = 1  # what is restored goes on changing


def test_a_snapshot_of_version_1_is_still_read() -> None:
    sink = pa.BufferOutputStream()
    values = pa.record_batch({"values": pa.array([1, 2, 3, 4], pa.int64())})
    with pa.ipc.new_stream(sink, values.schema) as writer:
        writer.write_batch(values)
    stream = sink.getvalue().to_pybytes()
    text = b'{"@dict": [["a", {"@array": 0, "shape": [2, 2], "type": "int64"}], ["b", [1, null]]]}'
    content = struct.pack("<Q", len(text)) + text + struct.pack("<Q", len(stream)) + stream
    data = struct.pack("<8sIQI", b"PANEWISE", 1, len(content), zlib.crc32(content)) + content
    assert same({"a": np.array([[1, 2], [3, 4]]), "b": [1, None]}, loaded(data))
