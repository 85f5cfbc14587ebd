"""Rates, counts and sizes: what is allowed, what is refused, and that a place is given back."""

from __future__ import annotations

import asyncio
import threading

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.requests import Request

from panewise.serve.http.gate.limits import Limits, TokenBuckets
from panewise.serve.http.service.error_answers import Problem
from panewise.serve.http.service.settings import Settings
from tests.serve.http.serving import BUSY, NDJSON, READ, TOKENS, WRITE, define, rows, served
from tests.waiting import PATIENCE_S, until


@given(st.integers(1, 20), st.lists(st.floats(0.0, 0.6), max_size=60))
def test_a_bucket_never_gives_more_than_its_rate(per_second, pauses):
    """In any interval of time, at most what the bucket holds and what flowed into it meanwhile."""
    buckets, now, taken = TokenBuckets(per_second), 100.0, []
    for pause in pauses:
        now += pause
        wait = buckets.wait_s("a", now)
        if not wait:
            taken.append(now)
        else:
            assert not buckets.wait_s("b", now) or "b" in buckets._buckets  # others have buckets of their own
    for i, first in enumerate(taken):
        for j, last in enumerate(taken[i:], i):
            assert j - i + 1 <= per_second + per_second * (last - first) + 1e-6


@given(st.integers(1, 50))
def test_who_waits_as_long_as_told_is_let_in(per_second):
    buckets, now = TokenBuckets(per_second), 0.0
    for _ in range(per_second * 3):
        wait = buckets.wait_s("a", now)
        if wait:
            now += wait + 1e-9
            assert buckets.wait_s("a", now) == 0.0


@pytest.fixture
def no_time(monkeypatch):
    """In which no bucket fills again, however slow the machine is."""
    monkeypatch.setattr("panewise.serve.http.gate.limits.monotonic", lambda: 100.0)


def test_each_token_has_a_rate_of_its_own(no_time):
    with served(tokens=TOKENS, requests_per_second=5) as (client, _):
        answers = [client.get("/v1/stats") for _ in range(12)]
        refused = [answer for answer in answers if answer.status_code == 429]
        assert len(refused) == 7
        assert int(refused[0].headers["retry-after"]) >= 1
        assert refused[0].json()["error"]["type"] == "TooManyRequests"
        other = {"Authorization": f"Bearer {READ}"}
        assert client.get("/v1/stats", headers=other).status_code == 200


def test_who_guesses_tokens_is_slowed_down(no_time, monkeypatch):
    monkeypatch.setattr("panewise.serve.http.gate.limits.STRANGERS_A_SECOND", 5)
    with served(tokens=TOKENS) as (client, _):
        wrong = {"Authorization": "Bearer not-a-token"}
        assert {client.get("/v1/stats", headers=wrong).status_code for _ in range(15)} == {401, 429}
        assert client.get("/v1/stats", headers={"Authorization": f"Bearer {WRITE}"}).status_code == 200


def test_so_many_queries_and_no_more():
    with served(max_queries=2) as (client, _):
        define(client)
        create = [client.post("/v1/queries", json={"name": f"q{i}", "select": BUSY}) for i in range(3)]
        assert [answer.status_code for answer in create] == [201, 201, 429]
        by_statement = client.post("/v1/statements", json={"text": f"CREATE QUERY q9 AS {BUSY}"})
        assert by_statement.status_code == 429
        assert client.delete("/v1/queries/q0").status_code == 204
        assert client.post("/v1/queries", json={"name": "q9", "select": BUSY}).status_code == 201


def test_the_number_of_queries_holds_when_many_create_at_once():
    with served(max_queries=5) as (client, _):
        define(client)
        statuses: list[int] = []

        def create(number: int) -> None:
            answer = httpx.post(
                f"{client.base_url}/v1/queries", json={"name": f"q{number}", "select": BUSY}, timeout=PATIENCE_S
            )
            statuses.append(answer.status_code)

        threads = [threading.Thread(target=create, args=(number,)) for number in range(12)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(statuses) == [201] * 5 + [429] * 7
        assert len(client.get("/v1/queries").json()["queries"]) == 5


def test_so_many_definitions_and_no_more():
    with served(max_definitions=2) as (client, _):
        define(client, "CREATE STREAM u (ts TIMESTAMP)")
        assert client.post("/v1/statements", json={"text": "CREATE STREAM w (ts TIMESTAMP)"}).status_code == 429


def test_so_many_subscribers_and_no_more():
    with served(max_subscribers=2) as (client, _):
        define(client, f"CREATE QUERY busy AS {BUSY}")
        with client.stream("GET", "/v1/queries/busy/live") as one, client.stream("GET", "/v1/queries/busy/live") as two:
            assert one.status_code == two.status_code == 200
            assert client.get("/v1/queries/busy/live").status_code == 429
        until(lambda: "panewise_subscribers 0.0" in client.get("/metrics").text)
        with client.stream("GET", "/v1/queries/busy/live") as three:
            assert three.status_code == 200


def _request(chunks: list[bytes]) -> Request:
    waiting = list(chunks)

    async def receive() -> dict[str, object]:
        chunk = waiting.pop(0)
        return {"type": "http.request", "body": chunk, "more_body": bool(waiting)}

    return Request({"type": "http", "method": "POST", "headers": []}, receive)


@given(st.lists(st.binary(max_size=30), min_size=1, max_size=8), st.integers(1, 120))
def test_bodies_are_counted_and_given_back(chunks, most):
    async def read(limits: Limits) -> bytes:
        async with limits.body(_request(chunks)) as body:
            assert limits.body_bytes_held == len(body)
            return body

    limits = Limits(Settings(max_body_bytes=most))
    whole = b"".join(chunks)
    if len(whole) > most:
        with pytest.raises(Problem) as refused:
            asyncio.run(read(limits))
        assert refused.value.status_code == 413
    else:
        assert asyncio.run(read(limits)) == whole
    assert limits.body_bytes_held == 0


def test_all_bodies_together_are_limited():
    async def read(limits: Limits) -> None:
        async with limits.body(_request([b"x" * 10])):
            pass

    limits = Limits(Settings(max_body_bytes=10))
    limits.body_bytes_held = 75
    with pytest.raises(Problem) as refused:
        asyncio.run(read(limits))
    assert refused.value.status_code == 503
    assert limits.body_bytes_held == 75


def test_a_large_push_within_the_limit_is_taken():
    with served() as (client, _):
        define(client)
        many = rows(*((s, "a", s) for s in range(50_000)))
        assert client.post("/v1/streams/t/rows", content=many, headers=NDJSON).json() == {
            "rows": 50_000,
            "repeated": False,
        }
