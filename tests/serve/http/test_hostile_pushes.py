"""Pushes that are too large, malformed or meant to harm: each gets 4xx in one form, and changes nothing."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pyarrow as pa
import pytest

from tests.serve.http.serving import ARROW, BUSY, NDJSON, define, ipc, rows, served, state_of

JSON = {"Content-Type": "application/json"}
BODY_MAX = 200_000


@pytest.fixture(scope="module")
def client() -> Iterator[httpx.Client]:
    with served(max_body_bytes=BODY_MAX) as (client, _):
        define(client, f"CREATE QUERY busy AS {BUSY}")
        client.post("/v1/streams/t/rows", content=rows((1, "a", 1), (3, "b", 2)), headers=NDJSON)
        client.get("/v1/queries/busy/lookup")
        yield client


GOOD = pa.table({"ts": pa.array([5_000_000], pa.timestamp("us", tz="UTC")), "k": ["a"], "v": [1]})


def _changed(body: bytes, at: int, value: int) -> bytes:
    return body[:at] + bytes([value]) + body[at + 1 :]


def _bomb() -> bytes:
    """Small here, 8 MB when it is unpacked."""
    zeros = pa.array([0] * 500_000, pa.int64())
    table = pa.table({"ts": zeros.cast(pa.timestamp("us", tz="UTC")), "k": ["a"] * 500_000, "v": zeros})
    return ipc(table, "zstd")


def _dictionary_bomb() -> bytes:
    k = pa.DictionaryArray.from_arrays(pa.array([0] * 10_000, pa.int8()), pa.array(["x" * 50_000]))
    ts = pa.array([5_000_000] * 10_000, pa.timestamp("us", tz="UTC"))
    return ipc(pa.table({"ts": ts, "k": k, "v": [1] * 10_000}))


def _wrong_offsets() -> bytes:
    """A text column whose offsets lead far outside its bytes."""
    body = ipc(pa.table({"ts": GOOD["ts"], "k": ["x" * 999], "v": [1]}))
    offsets = (0).to_bytes(4, "little") + (999).to_bytes(4, "little")
    at = body.rfind(offsets)  # the first time it is the length of the buffer, in the head
    return body[:at] + (0).to_bytes(4, "little") + (0x7FFFFFFF).to_bytes(4, "little") + body[at + 8 :]


def _claims(length: int) -> bytes:
    """A compressed buffer that claims to have another length when it is unpacked."""
    body = ipc(pa.table({"ts": GOOD["ts"], "k": ["a" * 5_000], "v": [1]}), "zstd")
    place = body.rfind((5_000).to_bytes(8, "little", signed=True))
    assert place > 0
    return body[:place] + length.to_bytes(8, "little", signed=True) + body[place + 8 :]


def _rows_without_columns() -> bytes:
    return ipc(pa.table({"k": pa.nulls(20_000_000)}))


def _columns() -> dict[str, pa.Array]:
    return {"ts": GOOD["ts"], "v": GOOD["v"]}


def _union(children: list[pa.Array], offsets: list[int]) -> pa.Array:
    codes = pa.array([0] * len(offsets), pa.int8())
    return pa.UnionArray.from_dense(codes, pa.array(offsets, pa.int32()), children)


def _union_bomb() -> bytes:
    """One long text to which a thousand rows refer."""
    ts = pa.array([5_000_000] * 1_000, pa.timestamp("us", tz="UTC"))
    return ipc(pa.table({"ts": ts, "k": _union([pa.array(["x" * 50_000])], [0] * 1_000), "v": [1] * 1_000}))


def _wrong_references() -> bytes:
    return ipc(pa.table({**_columns(), "k": _union([pa.array(["a"])], [7])}))


PUSHES: dict[str, tuple[dict[str, str], bytes, int]] = {
    "no JSON": (NDJSON, b"{", 400),
    "no object": (NDJSON, b"[1, 2]\n", 400),
    "a text": (NDJSON, b'"ts"\n', 400),
    "NUL bytes": (NDJSON, b"\x00" * 100, 400),
    "NUL in JSON": (NDJSON, b'{"ts": 5000000, "k": "a\x00", "v": 1}\n', 400),
    "no UTF-8": (NDJSON, b'{"ts": 5000000, "k": "\xff\xfe", "v": 1}\n', 400),
    "half a surrogate": (NDJSON, b'{"ts": 5000000, "k": "\\ud800", "v": 1}\n', 400),
    "deep nesting": (NDJSON, b"[" * 100_000, 400),
    "deep nesting in a row": (NDJSON, b'{"ts":' + b"[" * 50_000 + b"]" * 50_000 + b"}", 400),
    "a nested value": (NDJSON, b'{"ts": 5000000, "k": {"a": 1}, "v": 1}\n', 400),
    "a huge number": (NDJSON, b'{"ts": 5000000, "k": "a", "v": ' + b"9" * 5_000 + b"}\n", 400),
    "a number beyond BIGINT": (NDJSON, b'{"ts": 5000000, "k": "a", "v": 9223372036854775808}\n', 400),
    "a huge exponent": (NDJSON, b'{"ts": 5000000, "k": "a", "v": 1e400}\n', 400),
    "not a number": (NDJSON, b'{"ts": 5000000, "k": "a", "v": NaN}\n', 400),
    "an instant beyond time": (NDJSON, b'{"ts": 9000000000000000000, "k": "a", "v": 1}\n', 400),
    "an instant in the far future": (NDJSON, b'{"ts": "9999-12-31T23:59:59Z", "k": "a", "v": 1}\n', 400),
    "no event time": (NDJSON, b'{"k": "a", "v": 1, "w": 1}\n', 400),
    "a good row before a bad one": (NDJSON, rows((5, "a", 1)).encode() + b'{"ts": "no", "k": "a", "v": 1}\n', 400),
    "no Arrow": (ARROW, b"this is no Arrow stream at all, and long enough to be one", 400),
    "an empty Arrow body": (ARROW, b"", 400),
    "zeros as Arrow": (ARROW, b"\x00" * 1_000, 400),
    "ones as Arrow": (ARROW, b"\xff" * 1_000, 400),
    "a huge length in Arrow": (ARROW, b"\xff\xff\xff\xff\xff\xff\xff\x7f" + b"\x00" * 100, 400),
    "truncated Arrow": (ARROW, ipc(GOOD)[:-60], 400),
    "only the schema of Arrow, cut": (ARROW, ipc(GOOD)[:100], 400),
    "wrong offsets in Arrow": (ARROW, _wrong_offsets(), 400),
    "other columns in Arrow": (ARROW, ipc(pa.table({"x": [1]})), 400),
    "nested Arrow": (ARROW, ipc(pa.table({"ts": [[1]], "k": ["a"], "v": [1]})), 400),
    "two columns of a name": (
        ARROW,
        ipc(pa.Table.from_arrays([GOOD["ts"], GOOD["k"], GOOD["v"], GOOD["v"]], ["ts", "k", "v", "v"])),
        400,
    ),
    "rows without bytes": (ARROW, _rows_without_columns(), 400),
    "an Arrow file instead of a stream": (ARROW, b"ARROW1\x00\x00" + ipc(GOOD), 400),
    "a packed bomb": (ARROW, _bomb(), 413),
    "a bomb of a dictionary": (ARROW, _dictionary_bomb(), 413),
    "a bomb of a union": (ARROW, _union_bomb(), 413),
    "wrong references in a union": (ARROW, _wrong_references(), 400),
    "a union of lists": (ARROW, ipc(pa.table({**_columns(), "k": _union([pa.array([["a"]])], [0])})), 400),
    "a claim of a terabyte": (ARROW, _claims(1 << 40), 413),
    "a negative claim": (ARROW, _claims(-7), 400),
    "a claim too short": (ARROW, _claims(3), 400),
    "JSON as a push": (JSON, rows((5, "a", 1)).encode(), 415),
    "no media type": ({}, rows((5, "a", 1)).encode(), 415),
    "a form": ({"Content-Type": "application/x-www-form-urlencoded"}, b"ts=1", 415),
    "too large": (NDJSON, b" " * (BODY_MAX + 1), 413),
    "a producer without a number": ({**NDJSON, "Panewise-Producer": "p"}, rows((5, "a", 1)).encode(), 400),
    "a number without a producer": ({**NDJSON, "Panewise-Sequence": "1"}, rows((5, "a", 1)).encode(), 400),
    "a number that is none": (
        {**NDJSON, "Panewise-Producer": "p", "Panewise-Sequence": "one"},
        rows((5, "a", 1)).encode(),
        400,
    ),
    "a number below 1": (
        {**NDJSON, "Panewise-Producer": "p", "Panewise-Sequence": "0"},
        rows((5, "a", 1)).encode(),
        400,
    ),
    "a huge sequence": (
        {**NDJSON, "Panewise-Producer": "p", "Panewise-Sequence": "9" * 400},
        rows((5, "a", 1)).encode(),
        400,
    ),
    "a number that skips": (
        {**NDJSON, "Panewise-Producer": "p", "Panewise-Sequence": "2"},
        rows((5, "a", 1)).encode(),
        400,
    ),
    "a long producer": (
        {**NDJSON, "Panewise-Producer": "p" * 5_000, "Panewise-Sequence": "1"},
        rows((5, "a", 1)).encode(),
        400,
    ),
}


@pytest.mark.parametrize("what", PUSHES)
def test_a_push_that_is_refused_changes_nothing(client, what):
    headers, body, status = PUSHES[what]
    before = state_of(client)
    answer = client.post("/v1/streams/t/rows", content=body, headers=headers)
    assert answer.status_code == status, answer.text
    assert set(answer.json()["error"]) >= {"type", "message", "hint", "at", "text"}
    assert state_of(client) == before


def test_arrow_with_any_byte_changed_is_taken_or_refused(client):
    """The heads of messages are where lengths and places stand: each byte of them is set to a few other values."""
    body = ipc(GOOD, "lz4")
    statuses = set()
    for at in range(0, len(body), 3):
        for value in (0x00, 0x7F, 0x80, 0xFF):
            answer = client.post("/v1/streams/t/rows", content=_changed(body, at, value), headers=ARROW)
            statuses.add(answer.status_code)
            assert answer.status_code in (200, 400, 413), (at, value, answer.text)
    assert {200, 400} <= statuses
