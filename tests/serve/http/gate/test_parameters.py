"""A parameter that nobody reads is refused, wherever it stands."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from tests.serve.http.serving import BUSY, TOKENS, define, served


@pytest.fixture(scope="module")
def client() -> Iterator[httpx.Client]:
    with served(tokens=TOKENS) as (client, _):
        define(client, f"CREATE QUERY busy AS {BUSY}")
        yield client


REFUSED = {
    "/v1/queries/busy/lookup?ky=a": "did you mean key?",
    "/v1/queries/busy/lookup?key=a&at=1&Key=b": "did you mean key?",
    "/v1/queries/busy/results?strat=0": "did you mean start?",
    "/v1/queries/busy/live?limit=1": "there is after_window, series, start, token",
    "/v1/queries/busy/explain?verbose": "this address takes none",
    "/v1/stats?x=1": "this address takes none",
    "/v1/weave.svg?x=1": "this address takes none",
    "/v1/streams/t/producers/p?x=1": "this address takes none",
    "/v1/queries/busy/lookup?token=abc": "send the header 'Authorization: Bearer TOKEN'",
    "/v1/stats?token=abc": "send the header 'Authorization: Bearer TOKEN'",
}


@pytest.mark.parametrize("address", REFUSED)
def test_a_parameter_that_is_unknown(client: httpx.Client, address: str) -> None:
    answer = client.get(address)
    assert answer.status_code == 400, answer.text
    error = answer.json()["error"]
    assert error["message"].startswith("there is no parameter '")
    assert REFUSED[address] in error["hint"]


def test_one_that_stands_there_twice(client: httpx.Client) -> None:
    answer = client.get("/v1/queries/busy/lookup?key=3&key=x")
    assert (answer.status_code, answer.json()["error"]["message"]) == (
        400,
        "the address has the parameter 'key' twice",
    )


def test_posts_too_and_not_what_monitors_ask(client: httpx.Client) -> None:
    assert client.post("/v1/queries/busy/suspend?now=1").status_code == 400
    assert client.get("/v1/queries/busy").json()["status"] == "RUNNING"
    assert client.get("/healthz?probe=7").status_code == 200
    assert client.get("/metrics?x=1").status_code == 200
