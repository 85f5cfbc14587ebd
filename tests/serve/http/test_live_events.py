"""Live results by server-sent events, and pages of results, from a real server."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from typing import Any

import httpx
import pyarrow as pa
import pytest

from panewise.serve.http.live import live_subscribers
from panewise.serve.http.results.result_log import ResultLog
from tests.serve.http.live_server import LiveServer, live_server
from tests.serve.http.results.test_result_log import SCHEMA, rows
from tests.waiting import PATIENCE_S, until


@pytest.fixture
def server() -> Iterator[LiveServer]:
    with live_server() as running:
        running.log.begin("q", SCHEMA)
        yield running


@pytest.fixture
def client(server: LiveServer) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=f"http://{server.address}/v1", trust_env=False, timeout=PATIENCE_S) as running:
        yield running


def events(response: httpx.Response) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Id, kind and data of each event."""
    id = kind = data = ""
    for line in response.iter_lines():
        name, _, value = line.partition(": ")
        if name == "id":
            id = value
        elif name == "event":
            kind = value
        elif name == "data":
            data = value
        elif not line and data:
            yield id, kind, json.loads(data)
            id = kind = data = ""


# -- server-sent events ------------------------------------------------------------------------------------------


def test_events_go_on_after_the_last_one(server: LiveServer, client: httpx.Client) -> None:
    """No row is lost or repeated over many connections, each with the id of the last event."""
    count, found, last = 3_000, list[int](), ""

    def produce() -> None:
        """Not far before the subscriber, so that it comes back many times while rows come."""
        for number in range(0, count, 5):
            until(lambda: number - len(found) < 300)  # noqa: B023 - it is called before the next turn of the loop
            server.log.append("q", rows(number, 5), number)

    producer = threading.Thread(target=produce)
    series = server.log.series("q").id
    connections = 0
    producer.start()
    while len(found) < count:
        connections += 1
        headers = {"Last-Event-ID": last} if last else {}
        address = "queries/q/live" if last else "queries/q/live?start=0"
        with client.stream("GET", address, headers=headers) as response:
            assert response.headers["content-type"].startswith("text/event-stream")
            for number, (id, kind, data) in enumerate(events(response)):
                assert data["type"] == kind == ("hello" if number == 0 else "rows")
                last = id
                if kind == "rows":
                    assert data["first"] == len(found)
                    found += [row[-1] for row in data["rows"]]
                assert id == f"{len(found)}:{series}"
                if number == 3 or len(found) == count:
                    break
    producer.join()
    assert found == list(range(count)) and connections > 3
    until(lambda: server.subscribers == 0)


def test_after_a_window_and_a_gap_and_the_end(client: httpx.Client, server: LiveServer) -> None:
    server.log.append("q", rows(0, 10), 0)
    with client.stream("GET", "queries/q/live?after_window=1970-01-01T00:00:02Z") as response:
        told = events(response)
        assert next(told)[2]["next"] == 9
        assert next(told)[2]["rows"] == [["1970-01-01T00:00:03.000000Z", 9]]
        server.log.forget("q")
        assert [kind for _, kind, _ in told] == ["end"]  # and then the response is over
    server.log.append("q", rows(0, 4, history=1), 0)
    with client.stream("GET", "queries/q/live", headers={"Last-Event-ID": "10:another"}) as response:
        told = events(response)
        assert next(told)[2]["next"] == 0
        assert next(told)[2] == {"type": "gap", "query": "q", "from": 10, "to": 0, "reset": True}
        assert next(told)[2]["rows"][0][-1] == 1_000_000


def test_heartbeats_and_the_end_of_the_server(
    client: httpx.Client, server: LiveServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_subscribers, "HEARTBEAT_SECONDS", 0.02)
    with client.stream("GET", "queries/q/live") as response:
        lines = response.iter_lines()
        assert sum(next(lines) == ": heartbeat" for _ in range(20)) >= 5
        server.end_live()
        rest = list(lines)
    assert "event: end" in rest
    assert client.get("queries/q/live").status_code == 503


def test_a_caller_that_goes_is_noticed_though_nothing_is_sent(client: httpx.Client, server: LiveServer) -> None:
    with client.stream("GET", "queries/q/live") as response:
        lines = response.iter_lines()  # whose end would be the end of the connection
        next(lines)
        until(lambda: server.subscribers == 1)
    until(lambda: server.subscribers == 0)


def test_refusals(client: httpx.Client) -> None:
    assert client.get("queries/none/live").status_code == 404
    assert client.get("queries/q/live", headers={"Last-Event-ID": "soon"}).status_code == 400
    assert client.get("queries/q/live?start=x").status_code == 400
    with live_server(max_subscribers=1) as server:
        server.log.begin("q", SCHEMA)
        with httpx.stream("GET", f"http://{server.address}/v1/queries/q/live", trust_env=False) as response:
            lines = response.iter_lines()  # whose end would be the end of the connection
            next(lines)
            refused = httpx.get(f"http://{server.address}/v1/queries/q/live", trust_env=False)
            assert refused.status_code == 429 and refused.headers["retry-after"]


# -- pages -------------------------------------------------------------------------------------------------------


def test_pages_one_after_the_other(client: httpx.Client, server: LiveServer) -> None:
    server.log.append("q", rows(0, 2_500), 0)
    found: list[int] = []
    start, pages = 0, 0
    while True:
        page = client.get("queries/Q/results", params={"start": start}).json()
        assert (page["first"], page["held_from"], page["end"]) == (start, 0, 2_500)
        if not page["rows"]:
            break
        found += [row[-1] for row in page["rows"]]
        start, pages = page["next"], pages + 1
    assert found == list(range(2_500)) and pages == 3
    page = client.get("queries/q/results?limit=2000").json()
    assert page["next"] == 2_000 and [column["type"] for column in page["columns"]] == ["TIMESTAMP", "BIGINT"]
    assert client.get("queries/q/results?after_window=1970-01-01T00:00:10Z&limit=1").json()["rows"] == [
        ["1970-01-01T00:00:11.000000Z", 33]
    ]


def test_a_page_as_arrow(client: httpx.Client, server: LiveServer) -> None:
    server.log.append("q", rows(0, 20), 0)
    answer = client.get("queries/q/results?start=5&limit=10", headers={"Accept": "application/vnd.apache.arrow.stream"})
    assert pa.ipc.open_stream(answer.content).read_all().equals(rows(5, 10))
    told = {name: answer.headers[f"panewise-{name}"] for name in ("first", "next", "held-from", "end", "series")}
    assert told == {"first": "5", "next": "15", "held-from": "0", "end": "20", "series": server.log.series("q").id}


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("queries/none/results", 404),
        ("queries/q/results?start=-1", 400),
        ("queries/q/results?start=0", 410),
        ("queries/q/results?start=1001", 410),
        ("queries/q/results?start=990&series=another", 410),
        ("queries/q/results?after_window=0", 410),
        ("queries/q/results?limit=0", 400),
        ("queries/q/results?limit=many", 400),
        ("queries/q/results?start=1&after_window=0", 400),
    ],
)
def test_pages_that_are_refused(path: str, status: int) -> None:
    with live_server(ResultLog(None, keep_rows=100, keep_bytes=1 << 30)) as server:
        for first in range(0, 1_000, 10):
            server.log.append("q", rows(first, 10), first)
        answer = httpx.get(f"http://{server.address}/v1/{path}", trust_env=False)
        assert answer.status_code == status and answer.json()["error"]["message"]
