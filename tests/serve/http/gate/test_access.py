"""Tokens, scopes, origins: who is refused, and that refusals change nothing."""

from __future__ import annotations

from collections.abc import Iterator
from http.client import HTTPConnection

import httpx
import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from panewise.errors import PanewiseError
from panewise.serve.http.gate.access import Access, parse_tokens
from panewise.serve.http.service.error_answers import Problem
from panewise.serve.http.service.settings import Settings, Token
from tests.serve.http.serving import BUSY, NDJSON, READ, TOKENS, WRITE, define, rows, served, state_of
from tests.waiting import until

CHANGING = [
    ("POST", "/v1/statements", {"json": {"text": "CREATE STREAM other (ts TIMESTAMP)"}}),
    ("POST", "/v1/statements", {"json": {"text": "SHOW STREAMS; DROP QUERY busy"}}),
    ("POST", "/v1/queries", {"json": {"name": "more", "select": BUSY}}),
    ("POST", "/v1/queries/busy/suspend", {}),
    ("POST", "/v1/queries/busy/resume", {}),
    ("DELETE", "/v1/queries/busy", {}),
    ("POST", "/v1/streams/t/rows", {"content": rows((9, "a", 1)), "headers": NDJSON}),
    ("POST", "/v1/streams/t/advance", {"json": {"until": 60_000_000}}),
]
READING = [
    ("POST", "/v1/statements", {"json": {"text": "SHOW QUERIES; SELECT COUNT(*) AS n FROM t [RANGE 1 SECOND]"}}),
    ("POST", "/v1/statements", {"json": {"text": "EXPLAIN QUERY busy"}}),
    *[
        ("GET", path, {})
        for path in (
            "/v1/catalog", "/v1/queries", "/v1/queries/busy", "/v1/queries/busy/explain", "/v1/explain",
            "/v1/queries/busy/lookup", "/v1/queries/busy/results", "/v1/streams/t/producers/p", "/v1/stats",
            "/v1/weave", "/v1/weave.svg", "/metrics",
        )
    ],
]  # fmt: skip
OPEN = ["/healthz", "/readyz", "/v1/openapi.json", "/"]


@pytest.fixture(scope="module")
def client() -> Iterator[httpx.Client]:
    with served(tokens=TOKENS) as (client, _):
        define(client, f"CREATE QUERY busy AS {BUSY}", "ALTER STREAM t SET (retain = '1 hour')")
        client.post("/v1/streams/t/rows", content=rows((1, "a", 1), (3, "b", 2)), headers=NDJSON)
        client.get("/v1/queries/busy/lookup")
        yield client


def _ask(client: httpx.Client, method: str, path: str, more: dict, token: str | None) -> httpx.Response:  # type: ignore[type-arg]
    request = client.build_request(method, path, **more)
    del request.headers["Authorization"]
    if token is not None:
        request.headers["Authorization"] = token
    return client.send(request)


@pytest.mark.parametrize(("method", "path", "more"), [*CHANGING, *READING])
@pytest.mark.parametrize(
    "token", [None, "", "Bearer", f"Bearer {WRITE}x", f"Bearer {WRITE[:-1]}", f"Basic {WRITE}", WRITE]
)
def test_without_a_known_token_everything_is_refused(client, method, path, more, token):
    before = state_of(client)
    answer = _ask(client, method, path, more, token)
    assert answer.status_code == 401, answer.text
    assert answer.json()["error"]["type"] == "Unauthorized"
    assert answer.headers["www-authenticate"] == "Bearer"
    assert WRITE not in answer.text
    assert state_of(client) == before


@pytest.mark.parametrize(("method", "path", "more"), CHANGING)
def test_a_token_that_reads_changes_nothing(client, method, path, more):
    before = state_of(client)
    answer = _ask(client, method, path, more, f"Bearer {READ}")
    assert answer.status_code == 403, answer.text
    assert state_of(client) == before


@pytest.mark.parametrize(("method", "path", "more"), READING)
@pytest.mark.parametrize("token", [READ, WRITE])
def test_a_token_that_reads_reads(client, method, path, more, token):
    assert _ask(client, method, path, more, f"bearer {token}").status_code == 200


@pytest.mark.parametrize("path", OPEN)
def test_what_holds_no_data_is_open(client, path):
    assert _ask(client, "GET", path, {}, None).status_code == 200


def test_a_token_in_the_address_is_for_live_connections_only(client):
    assert _ask(client, "GET", f"/v1/catalog?token={WRITE}", {}, None).status_code == 401
    assert _ask(client, "POST", f"/v1/queries/busy/suspend?token={WRITE}", {}, None).status_code == 401
    with httpx.Client(base_url=client.base_url) as other:
        assert other.get("/v1/queries/busy/live?token=wrong-token").status_code == 401
        with other.stream("GET", f"/v1/queries/busy/live?start=0&token={READ}") as live:
            assert live.status_code == 200


def test_a_token_in_the_address_is_not_for_queries_of_that_name(client):
    """Only the addresses of live results take it, and only to read them."""
    client.post("/v1/queries", json={"name": "live", "select": BUSY})
    before = state_of(client)
    for method, path in [
        ("DELETE", "/v1/queries/live"), ("GET", "/v1/queries/live"), ("POST", "/v1/queries/busy/live"),
        ("DELETE", "/v1/queries/busy/live"), ("GET", "/v1/streams/t/producers/live"), ("GET", "/live"),
        ("GET", "/v1/live"), ("HEAD", "/v1/queries/busy/live"),
    ]:  # fmt: skip
        assert _ask(client, method, f"{path}?token={WRITE}", {}, None).status_code == 401, (method, path)
    assert state_of(client) == before
    url = str(client.base_url).replace("http", "ws").rstrip("/")
    for path in ("/live", "/v1/queries/busy", "/v1/queries/busy/lookup"):
        with pytest.raises(InvalidStatus) as refused:
            connect(f"{url}{path}?token={READ}")
        assert refused.value.response.status_code == 401, path
    with connect(f"{url}/v1/queries/busy/live?token={READ}"):
        pass
    assert client.delete("/v1/queries/live").status_code == 204


@pytest.mark.parametrize("shown", [(READ, WRITE), (WRITE, READ), (WRITE, WRITE), ("wrong-token", WRITE)])
def test_two_tokens_are_refused(client, shown):
    """Whoever looked at the request before may have judged by the other one."""
    before = state_of(client)
    with httpx.Client(base_url=client.base_url) as other:
        headers = [("Authorization", f"Bearer {token}") for token in shown]
        for method, path in (("DELETE", "/v1/queries/busy"), ("GET", "/v1/catalog"), ("GET", "/readyz")):
            answer = other.request(method, path, headers=headers)
            assert answer.status_code == 400 and "twice" in answer.json()["error"]["message"]
        address = "&".join(f"token={token}" for token in shown)
        assert other.get(f"/v1/queries/busy/live?{address}").status_code == 400
        both = other.get(f"/v1/queries/busy/live?token={shown[0]}", headers=headers[1:])
        assert both.status_code == 400 and "one in its address" in both.json()["error"]["message"]
    assert state_of(client) == before


@pytest.mark.parametrize("header", ["Host", "Origin"])
def test_two_origins_are_refused(header):
    with served() as (client, _):
        own = str(client.base_url).rstrip("/")
        values = [own, "http://evil.example"] if header == "Origin" else [own[7:], "evil.example"]
        for order in (values, values[::-1], values[:1] * 2):
            plain = HTTPConnection(client.base_url.host, client.base_url.port)
            plain.putrequest("GET", "/v1/catalog", skip_host=header == "Host")
            for value in order:
                plain.putheader(header, value)
            plain.endheaders()
            assert plain.getresponse().status == 400
            plain.close()


@pytest.mark.parametrize(
    ("method", "path", "token"),
    [
        *[("GET", path, READ) for path in (
            "/v1/catalog", "/v1/queries/busy/lookup", "/v1/queries/busy/lookup?key=a", "/v1/queries/busy/results",
            "/v1/stats", "/v1/weave.svg", "/v1/nothing", "/metrics",
        )],
        ("GET", "/v1/catalog", None),
        ("GET", "/readyz", None),
        ("GET", "/v1/openapi.json", None),
        ("DELETE", "/v1/queries/busy", READ),
        ("POST", "/v1/statements", READ),
    ],
)  # fmt: skip
def test_answers_are_neither_kept_nor_guessed_at(client, method, path, token):
    answer = _ask(client, method, path, {}, None if token is None else f"Bearer {token}")
    assert answer.headers.get_list("x-content-type-options") == ["nosniff"]
    assert answer.headers.get_list("cache-control") == ["no-store"]


def test_live_answers_and_files_of_the_dashboard_say_it_once(client):
    with client.stream("GET", "/v1/queries/busy/live") as live:
        assert live.headers.get_list("cache-control") == ["no-store"]
        assert live.headers.get_list("x-content-type-options") == ["nosniff"]
    for path in ("/", "/dashboard/main.js"):
        answer = client.get(path)
        assert answer.headers.get_list("cache-control") == ["no-cache"]
        assert answer.headers.get_list("x-content-type-options") == ["nosniff"]


def test_who_shows_no_token_is_told_no_path(tmp_path, monkeypatch):
    with served(tokens=TOKENS, path=tmp_path / "data") as (client, backend):
        define(client)

        def full(_):
            raise OSError(28, "No space left on device", str(tmp_path / "data" / "results"))

        monkeypatch.setattr(backend.engine, "hand_over_all", full)
        client.post("/v1/streams/t/rows", content=rows((1, "a", 1)), headers=NDJSON)
        until(lambda: backend.ready() is not None)
        stranger = _ask(client, "GET", "/readyz", {}, None)
        assert (stranger.status_code, stranger.json()) == (503, {"status": "results cannot be kept"})
        known = _ask(client, "GET", "/readyz", {}, f"Bearer {READ}")
        assert known.status_code == 503 and str(tmp_path) in known.text
        assert _ask(client, "GET", "/readyz", {}, "Bearer wrong-token").status_code == 401
        monkeypatch.undo()


def test_an_unknown_path_tells_strangers_nothing(client):
    assert _ask(client, "GET", "/v1/nothing", {}, None).status_code == 401
    assert _ask(client, "GET", "/v1/nothing", {}, f"Bearer {READ}").status_code == 404


def test_without_tokens_web_pages_of_others_are_refused():
    with served() as (client, _):
        define(client, f"CREATE QUERY busy AS {BUSY}")
        before = state_of(client)
        foreign = [
            {"Origin": "http://evil.example"},
            {"Origin": "null"},
            {"Origin": "http://["},
            {"Host": "evil.example"},
            {"Host": "127.0.0.1.evil.example"},
        ]
        for headers in foreign:
            assert client.post("/v1/queries/busy/suspend", headers=headers).status_code == 403, headers
            assert client.get("/v1/catalog", headers=headers).status_code == 403, headers
        assert state_of(client) == before
        own = {"Origin": str(client.base_url).rstrip("/")}
        assert client.post("/v1/queries/busy/suspend", headers=own).status_code == 200


def test_without_tokens_only_loopback_is_served():
    for host in ("0.0.0.0", "::", "192.0.2.1", "example.org"):
        with pytest.raises(PanewiseError, match="without tokens"):
            Settings(host=host).check()
        Settings(host=host, tokens=TOKENS).check()
    for host in ("127.0.0.1", "localhost", "::1", "127.3.2.1"):
        Settings(host=host).check()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# only a comment",
        "admin 0123456789",
        "read",
        "read short",
        "read a b c d",
        "read 0123456789\nwrite 0123456789",
    ],
)
def test_a_token_file_that_is_none(text):
    with pytest.raises(PanewiseError) as refused:
        parse_tokens(text, "the file")
    assert "0123456789" not in str(refused.value)


def test_callers_are_named_by_their_tokens():
    access = Access((Token("read", "0123456789", "press"), Token("write", "9876543210", "desk")))
    assert access.caller(b"Bearer 9876543210", None, "x").name == "desk"
    assert not access.caller(None, "0123456789", "x").may_write
    for header in (b"Bearer \xff\x00", b"\xff", b"Bearer 9876543210 0123456789"):
        with pytest.raises(Problem):
            access.caller(header, None, "x")
    with pytest.raises(Problem):
        access.caller(b"", "9876543210", "x")  # a wrong header is not made good by the address


@pytest.mark.parametrize(
    ("address", "status"), [("/v1/live", 401), ("/v1/live?token=wrong-token", 401), ("/v1/queries/no/live", 401)]
)
def test_websockets_want_a_token_before_they_are_accepted(client, address, status):
    url = str(client.base_url).replace("http", "ws").rstrip("/")
    with pytest.raises(InvalidStatus) as refused:
        connect(url + address)
    assert refused.value.response.status_code == status
    with (
        connect(f"{url}/v1/live?token={READ}"),
        connect(f"{url}/v1/live", additional_headers={"Authorization": f"Bearer {READ}"}),
    ):
        pass


def test_websockets_of_foreign_pages_are_refused():
    with served() as (client, _):
        url = str(client.base_url).replace("http", "ws").rstrip("/")
        with pytest.raises(InvalidStatus) as refused:
            connect(f"{url}/v1/live", origin="http://evil.example")
        assert refused.value.response.status_code == 403
