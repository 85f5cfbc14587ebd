"""Sizes that compressed Arrow data will have, against what unpacking gives."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from panewise.serve.http.service.arrow_message_sizes import unpacked_bytes
from tests.serve.http.serving import ipc

COLUMN = st.one_of(
    st.lists(st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1))).map(lambda v: pa.array(v, pa.int64())),
    st.lists(st.one_of(st.none(), st.text(max_size=50))).map(lambda v: pa.array(v, pa.string())),
    st.lists(st.text(max_size=20)).map(lambda v: pa.array(v, pa.string()).dictionary_encode()),
    st.lists(st.booleans()).map(lambda v: pa.array(v, pa.bool_())),
)


def _unpacked(body: bytes) -> int:
    """By unpacking: the bytes of all buffers, dictionaries once for each batch."""
    total = 0
    for batch in pa.ipc.open_stream(body):
        for column in batch.columns:
            arrays = [column.indices, column.dictionary] if pa.types.is_dictionary(column.type) else [column]
            total += sum(buffer.size for array in arrays for buffer in array.buffers() if buffer is not None)
    return total


@given(COLUMN, st.sampled_from(["lz4", "zstd", None]), st.integers(1, 40))
@settings(max_examples=150)
def test_no_less_than_what_unpacking_gives(column, compression, times):
    table = pa.table({"c": pa.concat_arrays([column] * times)})
    body = ipc(table, compression)
    assert unpacked_bytes(body) >= _unpacked(body)
    # And not much more: buffers are padded to 64 bytes, and a batch has at most six of them here.
    assert unpacked_bytes(body) <= max(_unpacked(body), len(body)) + 6 * 64


@given(st.binary(max_size=400), st.integers(0, 10_000))
def test_anything_else_is_refused_and_never_read_outside(noise, place):
    body = bytearray(ipc(pa.table({"c": ["a" * 100] * 5}), "zstd"))
    at = place % len(body)
    body[at : at + len(noise)] = noise
    try:
        assert unpacked_bytes(bytes(body)) >= 0
    except (ValueError, OSError, pa.ArrowException):
        return  # anything else that is raised fails the test


@pytest.mark.parametrize("claimed", [1 << 40, (1 << 63) - 1])
def test_a_claim_is_believed(claimed):
    body = ipc(pa.table({"c": ["a" * 5_000]}), "zstd")
    place = body.rfind((5_000).to_bytes(8, "little"))
    assert unpacked_bytes(body[:place] + claimed.to_bytes(8, "little") + body[place + 8 :]) >= claimed
