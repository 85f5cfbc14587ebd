"""Requests against a server that is busy, away or broken, and what becomes of its refusals."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

import panewise as pw
from panewise.errors import BindError, CatalogError, DataError, NotHeldError, OverloadError, QueryError, ServerError
from panewise.serve.client import backoff
from panewise.serve.client.backoff import Backoff
from panewise.serve.client.client import Client
from panewise.serve.client.problems import problem_of
from panewise.serve.client.transport import retry_after_s
from tests.waiting import PATIENCE_S

Handler = Callable[[httpx.Request], httpx.Response]
TABLE = {"columns": [{"name": "v", "type": "BIGINT"}], "rows": [[1], [2]]}


def refusal(status: int, type_: str, message: str, **more: Any) -> httpx.Response:
    return httpx.Response(status, json={"error": {"type": type_, "message": message, **more}})


def client_of(*answers: httpx.Response | Exception, timeout: float = PATIENCE_S) -> tuple[Client, list[httpx.Request]]:
    """A client whose server gives these answers, one after the other, and what it was asked."""
    asked: list[httpx.Request] = []
    left: Iterator[httpx.Response | Exception] = iter(answers)

    def handler(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        answer = next(left)
        if isinstance(answer, Exception):
            raise answer
        return answer

    return Client("http://127.0.0.1:1", "secret", timeout=timeout, transport=httpx.MockTransport(handler)), asked


BROKEN = httpx.ReadError("reset")
BUSY = httpx.Response(503, headers={"Retry-After": "0"}, json={})
MANY = httpx.Response(429, headers={"Retry-After": "0"}, json={})


@pytest.mark.parametrize("trouble", [BROKEN, BUSY, MANY, httpx.ConnectError("refused"), httpx.ReadTimeout("late")])
def test_what_changes_nothing_is_asked_again(trouble: httpx.Response | Exception) -> None:
    client, asked = client_of(trouble, trouble, httpx.Response(200, json=TABLE))
    assert client.lookup("q")["v"].to_pylist() == [1, 2]
    assert len(asked) == 3
    assert asked[0].headers["authorization"] == "Bearer secret"


def test_a_statement_is_sent_again_only_where_nothing_can_have_happened() -> None:
    client, asked = client_of(httpx.ConnectError("refused"), BUSY, BROKEN, httpx.Response(200, json=TABLE))
    with pytest.raises(ServerError, match="the connection broke") as caught:
        client.execute("INSERT INTO t VALUES (1)")
    assert caught.value.hint is not None and "may have been executed" in caught.value.hint
    assert len(asked) == 3
    client, asked = client_of(BROKEN, httpx.Response(200, json=TABLE))
    assert client.execute(" show streams; ") is not None
    client, asked = client_of(BROKEN, httpx.Response(200, json=TABLE))
    with pytest.raises(ServerError):
        client.execute("SHOW STREAMS; DROP STREAM s")
    some_done = refusal(503, "DurabilityError", "the disk is full", executed=1)
    client, asked = client_of(some_done, httpx.Response(200, json=TABLE))
    with pytest.raises(pw.DurabilityError):
        client.execute("CREATE STREAM a (ts TIMESTAMP); CREATE STREAM b (ts TIMESTAMP)")
    assert len(asked) == 1


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """What was waited between tries, by a clock that only such waits move."""
    waited: list[float] = []
    monkeypatch.setattr(backoff, "time", SimpleNamespace(monotonic=lambda: sum(waited)))
    monkeypatch.setattr(backoff.Backoff.__init__, "__defaults__", (waited.append,))
    return waited


def test_a_server_that_stays_busy_is_given_up_with_its_own_words(pauses: list[float]) -> None:
    busy = [refusal(503, "OverloadError", "the queue is full") for _ in range(50)]
    client, asked = client_of(*busy, timeout=0.3)
    with pytest.raises(OverloadError, match="the queue is full"):
        client.push("s", {"ts": 0})
    assert 1 < len(asked) == len(pauses) + 1 < 10


def test_a_wait_that_the_server_asks_for_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    later = httpx.Response(429, headers={"Retry-After": "7"}, json={})
    client, _ = client_of(later, httpx.Response(200, json=TABLE), timeout=60)
    monkeypatch.setattr(backoff.Backoff.__init__, "__defaults__", (waits.append,))
    client.lookup("q")
    assert waits == [7.0]
    client, _ = client_of(httpx.Response(429, headers={"Retry-After": "7"}, json={}), timeout=6)
    with pytest.raises(ServerError) as caught:
        client.lookup("q")
    assert (waits, caught.value.status) == ([7.0], 429)


def test_a_push_whose_outcome_is_not_known_can_be_repeated_by_its_number(pauses: list[float]) -> None:
    answers = [httpx.Response(200, json={"rows": 1}), *[httpx.ReadError("reset") for _ in range(20)]]
    client, asked = client_of(*answers, timeout=0.3)
    client.push("s", {"ts": 0}, producer="till", sequence=4)
    with pytest.raises(ServerError, match="the connection broke") as caught:
        client.push("s", {"ts": 1}, producer="till", sequence=5)
    assert caught.value.hint is not None and "producer='till', sequence=5" in caught.value.hint
    assert {request.headers["panewise-sequence"] for request in asked[1:]} == {"5"}


def test_a_limit_that_no_time_mends_is_said_at_once() -> None:
    client, asked = client_of(refusal(429, "TooManyRequests", "there are 10,000 queries"))
    with pytest.raises(ServerError, match="10,000 queries"):
        client.execute("CREATE QUERY q AS SELECT v FROM s [NOW]")
    assert len(asked) == 1


def test_the_name_of_a_producer_fits_into_a_header() -> None:
    client, asked = client_of()
    for name in ("", "kasse\n1", "Kaffeemühle"):
        with pytest.raises(DataError, match="printable ASCII"):
            client.push("s", {"ts": 0}, producer=name)
    assert not asked


def test_waits_grow_up_to_a_limit() -> None:
    waits: list[float] = []
    patient = Backoff(1e6, waits.append)
    assert all(patient.wait() for _ in range(12))
    bounds = [min(backoff.FIRST_S * 2**i, backoff.LONGEST_S) for i in range(12)]
    assert all(bound / 2 <= wait <= bound for wait, bound in zip(waits, bounds, strict=True))
    assert not Backoff(0.0, waits.append).wait()


@pytest.mark.parametrize(("header", "seconds"), [("3", 3.0), ("0.5", 0.5), ("-1", 0.0), ("soon", 0.0), ("1e9", 3600.0)])
def test_retry_after_is_read_with_care(header: str, seconds: float) -> None:
    assert retry_after_s({"retry-after": header}) == seconds


# -- refusals --------------------------------------------------------------------------------------------------------


def problem(error: QueryError) -> bytes:
    at = {"line": error.line, "column": error.column, "length": 3} if error.span else None
    told = {"type": type(error).__name__, "message": error.message, "hint": error.hint, "at": at, "text": str(error)}
    return json.dumps({"error": told}).encode()


@pytest.mark.parametrize(
    "text", ["SELECT vv FROM s [NOW]", "SHOW STREAMS;\n  SELECT " + "v + " * 80 + "vv FROM s [NOW]", "SELECT v FRM s"]
)
def test_an_error_of_a_statement_is_the_one_that_the_engine_raises(text: str) -> None:
    engine = pw.Engine()
    engine.execute("CREATE STREAM s (ts TIMESTAMP, v BIGINT)")
    with pytest.raises(QueryError) as caught:
        engine.execute(text)
    raised = caught.value
    assert raised.span is not None
    length = max(1, raised.span.end - raised.span.start)
    body = json.loads(problem(raised))
    body["error"]["at"]["length"] = length
    found = problem_of(400, json.dumps(body).encode(), text, "it")
    assert type(found) is type(raised)
    assert str(found) == str(raised)
    assert isinstance(found, QueryError)
    assert (found.line, found.column, found.hint) == (raised.line, raised.column, raised.hint)


def test_a_place_in_a_text_that_is_not_known_is_a_note() -> None:
    body = {
        "type": "BindError",
        "message": "no",
        "hint": None,
        "at": {"line": 1, "column": 2, "length": 1},
        "text": "x^",
    }
    for statement in (None, "another text"):
        found = problem_of(400, json.dumps({"error": body}).encode(), statement, "it")
        assert type(found) is BindError
        assert (found.message, found.__notes__) == ("no", ["x^"])


@pytest.mark.parametrize(
    ("status", "type_", "expected"),
    [(404, "CatalogError", CatalogError), (400, "DataError", DataError), (410, "Gone", NotHeldError),
     (410, "NotHeldError", NotHeldError), (401, "Unauthorized", ServerError), (403, "Forbidden", ServerError),
     (413, "TooLarge", ServerError), (400, "Span", ServerError), (400, "did_you_mean", ServerError)],
)  # fmt: skip
def test_refusals_become_the_errors_of_the_engine(status: int, type_: str, expected: type) -> None:
    client, asked = client_of(refusal(status, type_, "so it is", hint=None))
    with pytest.raises(expected, match="so it is") as caught:
        client.stats()
    assert type(caught.value) is expected
    assert len(asked) == 1
    if isinstance(caught.value, ServerError):
        assert caught.value.status == status
        assert (caught.value.hint is not None) == (status in (401, 403))


def test_an_answer_of_a_stranger_is_named_as_such() -> None:
    client, _ = client_of(httpx.Response(404, text="<h1>nginx</h1>"))
    with pytest.raises(ServerError, match="answered with 404: <h1>nginx") as caught:
        client.stats()
    assert caught.value.hint == "is this the address of a panewise server?"


@pytest.mark.parametrize(
    "url", ["127.0.0.1:8461", "ftp://host", "", "http://", "http://host?x=1", "http://h:port", None, 8461]
)
def test_a_wrong_address_is_refused(url: Any) -> None:
    with pytest.raises(ServerError, match="is not the address of a server"):
        pw.connect(url)


def test_where_nothing_listens_it_is_said_at_once_or_after_a_wait(pauses: list[float]) -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))  # and does not listen
        url = f"http://127.0.0.1:{bound.getsockname()[1]}/"
        with pytest.raises(ServerError, match=f"there is no server at {url[:-1]}") as caught:
            pw.connect(url)
        assert caught.value.hint is not None and "panewise serve" in caught.value.hint
        assert pauses == []
        with pytest.raises(ServerError, match="there is no server"):
            pw.connect(url, wait=0.2)
        assert 0 < sum(pauses) < 0.2


def test_a_closed_client_says_so() -> None:
    client, _ = client_of()
    client.close()
    with pytest.raises(ServerError, match="this client is closed"):
        client.stats()
