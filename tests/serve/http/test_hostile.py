"""Statements, paths and requests that are malformed or meant to harm: each gets 4xx, and changes nothing."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.serve.http.serving import BUSY, NDJSON, define, rows, served, state_of
from tests.waiting import PATIENCE_S

JSON = {"Content-Type": "application/json"}
BODY_MAX = 200_000


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("data")


@pytest.fixture(scope="module")
def client(folder: Path) -> Iterator[httpx.Client]:
    with served(path=folder, max_body_bytes=BODY_MAX, max_statement_chars=50_000) as (client, _):
        define(client, f"CREATE QUERY busy AS {BUSY}")
        client.post("/v1/streams/t/rows", content=rows((1, "a", 1), (3, "b", 2)), headers=NDJSON)
        client.get("/v1/queries/busy/lookup")
        yield client


STATEMENTS: dict[str, tuple[bytes, int]] = {
    "no JSON": (b"{", 400),
    "nothing": (b"", 400),
    "no object": (b"[]", 400),
    "no text": (b'{"text": 7}', 400),
    "another field": (b'{"text": "SHOW QUERIES", "as": "root"}', 400),
    "no UTF-8": (b'{"text": "\xff"}', 400),
    "NUL": (b'{"text": "DROP QUERY busy\\u0000"}', 400),
    "deep JSON": (b'{"text":' * 5_000, 400),
    "not CQL": (b'{"text": "DROP DATABASE everything"}', 400),
    "an open quote": (b'{"text": "SELECT \'"}', 400),
    "deep parentheses": (json.dumps({"text": "SELECT " + "(" * 20_000 + "1" + ")" * 20_000}).encode(), 400),
    "deep NOT": (
        json.dumps({"text": "SELECT k FROM t [RANGE 1 HOUR] WHERE " + "NOT " * 10_000 + "v = 1"}).encode(),
        400,
    ),
    "a long chain": (
        json.dumps({"text": "SELECT " + "+".join("1" for _ in range(15_000)) + " AS n FROM t [NOW]"}).encode(),
        400,
    ),
    "deep selects": (json.dumps({"text": "SELECT k FROM (" * 2_000 + "t"}).encode(), 400),
    "too long": (json.dumps({"text": "SELECT '" + "x" * 50_001 + "'"}).encode(), 413),
    "too large": (json.dumps({"text": "x" * BODY_MAX}).encode(), 413),
    "an unknown stream": (
        b'{"text": "CREATE QUERY z AS SELECT COUNT(*) AS n FROM nowhere [RANGE 1 HOUR SLIDE 1 HOUR]"}',
        400,
    ),
    "exists already": (b'{"text": "CREATE STREAM t (ts TIMESTAMP)"}', 400),
    "still read": (b'{"text": "DROP STREAM t"}', 409),
}


@pytest.mark.parametrize("what", STATEMENTS)
def test_a_statement_that_is_refused_changes_nothing(client, what):
    body, status = STATEMENTS[what]
    before = state_of(client)
    answer = client.post("/v1/statements", content=body, headers=JSON)
    assert answer.status_code == status, answer.text
    assert answer.json()["error"]["message"]
    assert state_of(client) == before


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", None])
def test_what_a_web_form_can_send_is_refused(client, kind):
    before = state_of(client)
    headers = {} if kind is None else {"Content-Type": kind}
    for path in ("/v1/statements", "/v1/queries", "/v1/streams/t/advance", "/v1/streams/t/rows"):
        assert client.post(path, content=b'{"text": "DROP QUERY busy"}', headers=headers).status_code == 415
    assert state_of(client) == before


PATHS = [
    "/etc/passwd",
    "../../../etc/passwd",
    "{files}/../engine/LOCK",
    "{files}/link/passwd",
    "{files}/*/../../../x",
    "{files}/li*/passwd",
    "{files}",
    "{files}2/x.csv",
    "file:///etc/passwd",
    "",
    ".",
    "~/x.csv",
]
CONNECTED = [
    "CREATE TABLE s (line STRING) NON RETROACTIVE WITH (connector = 'csv', path = '{path}')",
    "CREATE STREAM s (ts TIMESTAMP, v BIGINT) WITH (connector = 'csv', path = '{path}')",
    "CREATE STREAM s (ts TIMESTAMP, v BIGINT) WITH (path = '{path}')",
    "CREATE SINK s FROM busy WITH (connector = 'json', path = '{path}')",
    "CREATE ARCHIVE s FROM busy WITH (path = '{path}', key = 'k')",
    "CREATE SINK s FROM busy WITH (connector = 'parquet', path = '{files}/fine', path = '{path}')",
    "ALTER STREAM t SET (connector = 'csv', path = '{path}')",
]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("statement", CONNECTED)
def test_no_statement_reaches_outside_the_data_folder(client, folder, path, statement):
    files = folder / "files"
    if not (files / "link").is_symlink():
        (files / "link").symlink_to("/etc")
    before = state_of(client)
    text = statement.replace("{path}", path).replace("{files}", str(files))
    answer = client.post("/v1/statements", json={"text": text})
    assert answer.status_code == 400, answer.text
    assert "root:" not in answer.text
    assert state_of(client) == before


@pytest.mark.parametrize("connector", ["kafka", "jdbc", "delta", "console", "socket", "CSV ", "memory"])
def test_other_connectors_are_the_owners(client, connector):
    before = state_of(client)
    for text in (
        f"CREATE STREAM s (ts TIMESTAMP, v BIGINT) WITH (connector = '{connector}')",
        f"CREATE SINK s FROM busy WITH (connector = '{connector}')",
    ):
        assert client.post("/v1/statements", json={"text": text}).status_code == 400
    assert state_of(client) == before


def test_files_in_the_folder_are_read(client, folder):
    (folder / "files" / "names.csv").write_text("k,name\na,Anna\n")
    text = (
        "CREATE TABLE names (k STRING, name STRING) NON RETROACTIVE "
        f"WITH (connector = 'csv', path = '{folder}/files/names.csv')"
    )
    assert client.post("/v1/statements", json={"text": text}).status_code == 200
    assert client.post("/v1/statements", json={"text": "DROP TABLE names"}).status_code == 200


def test_without_a_folder_no_path_is_allowed(tmp_path):
    (tmp_path / "names.csv").write_text("k\na\n")
    with served() as (client, _):
        text = f"CREATE TABLE n (k STRING) NON RETROACTIVE WITH (connector = 'csv', path = '{tmp_path}/names.csv')"
        answer = client.post("/v1/statements", json={"text": text})
        assert answer.status_code == 400
        assert "no data folder" in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    "path",
    [
        "/v1/../../etc/passwd",
        "/dashboard/../settings.py",
        "/dashboard/..%2f..%2fsettings.py",
        "/dashboard/%2e%2e/app.py",
        "/v1/queries/..%2f..%2fetc/lookup",
        "/v1/queries/%00/lookup",
        "/v1/queries/%ff%fe/lookup",
        "//etc/passwd",
        "/v1/queries/" + "x" * 20_000,
        "/v1/queries/busy/lookup/",
        "/dashboard/",
        "/v1/queries//lookup",
    ],
)
def test_paths_that_lead_nowhere(client, path):
    before = state_of(client)
    answer = _raw(
        client, f"GET {path} HTTP/1.1\r\nHost: {client.base_url.netloc.decode()}\r\nConnection: close\r\n\r\n".encode()
    )
    assert answer.split(b" ")[1] in (b"400", b"404"), answer[:200]
    assert b"root:" not in answer
    assert b"dataclass" not in answer
    assert state_of(client) == before


@pytest.mark.parametrize(
    "query",
    [
        "at=yesterday",
        "at=99999999999999999999999999",
        "at=-99999999999999999999",
        "at=1e5",
        "at=%00",
        "at=0001-01-01T00:00:00%2B23:59",
        "key=%00",
        'key={"k":{"a":[]}}',
        'key={"no":1}',
        "key=[1,2,3]",
        "key=" + "[" * 5_000,
        "key=1e999",
        "key=99999999999999999999999999",
    ],
)
def test_lookups_that_ask_nonsense(client, query):
    answer = client.get("/v1/queries/busy/lookup?" + query)
    assert answer.status_code in (200, 400, 410), answer.text
    if query.startswith("at="):
        assert answer.status_code in (400, 410)


@pytest.mark.parametrize("until", [None, True, [], {}, 1.5, "soon", "", 10**30, -(10**30), "9" * 5_000, "2026-13-01"])
def test_punctuations_that_are_no_instants(client, until):
    before = state_of(client)
    answer = client.post("/v1/streams/t/advance", content=json.dumps({"until": until}), headers=JSON)
    assert answer.status_code == 400, answer.text
    assert state_of(client) == before


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"name": "z"},
        {"name": 1, "select": BUSY},
        {"name": "", "select": BUSY},
        {"name": "z", "select": ""},
        {"name": "z", "select": BUSY + "; DROP QUERY busy"},
        {"name": "z", "select": BUSY, "more": 1},
        {"name": "z", "select": BUSY, "options": []},
        {"name": "z", "select": BUSY, "options": {"no": 1}},
        {"name": "z", "select": BUSY, "options": {"technique": {"a": 1}}},
        {"name": "z", "select": BUSY, "options": {"technique) AS SELECT 1; --": "x"}},
        {"name": 'z" AS SELECT 1; --', "select": "("},
        {"name": "z\x00", "select": BUSY},
        {"name": "z", "select": "DROP QUERY busy"},
    ],
)
def test_queries_that_are_none(client, body):
    before = state_of(client)
    answer = client.post("/v1/queries", json=body)
    assert answer.status_code == 400, answer.text
    assert state_of(client) == before


def _raw(client: httpx.Client, request: bytes) -> bytes:
    with socket.create_connection((client.base_url.host, client.base_url.port), timeout=PATIENCE_S) as connection:
        connection.sendall(request)
        answer = b""
        while chunk := connection.recv(65_536):
            answer += chunk
            if len(answer) > 100_000:
                break
        return answer


def test_a_chunked_body_is_counted_while_it_comes(client):
    """Without a length the server stops reading soon after the limit: the sender never gets all of it out."""
    sent = 0

    def endless() -> Iterator[bytes]:
        nonlocal sent
        while sent < 100_000_000:
            sent += 50_000
            yield b" " * 50_000

    before = state_of(client)
    try:
        answer = client.post("/v1/streams/t/rows", content=endless(), headers=NDJSON)
    except httpx.TransportError:  # the server has closed the connection while we were still sending
        pass
    else:
        assert answer.status_code == 413
    assert sent < 50_000_000
    assert state_of(client) == before


def test_a_length_that_is_too_great_is_refused_at_once(client):
    head = f"POST /v1/streams/t/rows HTTP/1.1\r\nHost: {client.base_url.netloc.decode()}\r\n"
    lines = "Content-Type: application/x-ndjson\r\nContent-Length: 99999999999\r\n\r\n{}"
    answer = _raw(client, (head + lines).encode())
    assert answer.startswith(b"HTTP/1.1 413")


@pytest.mark.parametrize(
    "request_text",
    [
        b"\x00\x01\x02\x03\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"NONSENSE\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nA: " + b"x" * 300_000 + b"\r\n\r\n",
        b"POST /v1/streams/t/rows HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: -5\r\n\r\n",
        b"POST /v1/streams/t/rows HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n",
    ],
)
def test_what_is_no_http(client, request_text):
    before = state_of(client)
    try:
        answer = _raw(client, request_text)
    except ConnectionError:  # closed while we were still sending
        answer = b""
    assert not answer or answer.split(b" ")[1][:1] == b"4", answer[:200]
    assert state_of(client) == before


def test_who_never_finishes_a_head_is_disconnected(monkeypatch):
    monkeypatch.setattr("panewise.serve.http.gate.header_limits.HEAD_SECONDS", 0.2)
    with served() as (client, _):
        assert _raw(client, b"GET /healthz HTTP/1.1\r\nHost: 127") == b""
        assert _raw(client, b"") == b""
        assert client.get("/healthz").status_code == 200
