"""kill -9 of a server, again and again, under subscribers and a producer: no result is missing, none comes twice."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import panewise as pw
from bench.server_process import ServerProcess
from tests.waiting import PATIENCE_S, until

SUBSCRIBERS = 10
ROWS_PER_PUSH = 20
STREAM = "CREATE STREAM s (ts TIMESTAMP, k BIGINT, v BIGINT, WATERMARK FOR ts AS ts - INTERVAL 10 MILLISECONDS)"
QUERIES = {
    "grouped": "SELECT k, SUM(v) AS total FROM s [RANGE 400 MILLISECONDS SLIDE 100 MILLISECONDS] GROUP BY k",
    "changing": "SELECT k, MAX(v) AS most FROM s [RANGE 50 MILLISECONDS] WHERE v > 90 GROUP BY k",
    "counted": "SELECT SUM(v) AS total FROM s [ROWS 50 SLIDE 25]",
}


def push_of(number: int) -> list[dict[str, Any]]:
    """Rows a millisecond apart that follow from their numbers."""
    first = number * ROWS_PER_PUSH
    return [{"ts": 1000 * i, "k": i % 3, "v": i * 40503 % 101} for i in range(first, first + ROWS_PER_PUSH)]


def define(host: pw.Engine | pw.Client) -> None:
    host.execute(STREAM)
    for name, text in QUERIES.items():
        host.execute(f"CREATE QUERY {name} AS {text}")


class Collector:
    """A subscriber that keeps what it gets."""

    def __init__(self, client: pw.Client, query: str) -> None:
        self.query = query
        self.batches: list[pa.RecordBatch] = []
        self.subscription = client.subscribe(query, self.batches.append, start=0)

    @property
    def count(self) -> int:
        return sum(batch.num_rows for batch in list(self.batches))


def survive(path: Path, kills: int, pushes: int) -> None:
    with ServerProcess(path, "--log", "json") as server, pw.connect(server.url, timeout=PATIENCE_S) as client:
        define(client)
        collectors = [Collector(client, list(QUERIES)[i % len(QUERIES)]) for i in range(SUBSCRIBERS)]
        over, pushed, failures = threading.Event(), 0, []

        def produce() -> None:
            nonlocal pushed
            try:
                while not over.is_set():
                    client.push("s", push_of(pushed))
                    pushed += 1
                    over.wait(0.005)
            except pw.PanewiseError as problem:
                failures.append(problem)

        producer = threading.Thread(target=produce)
        producer.start()
        try:
            for kill in range(kills):
                until(lambda: pushed >= (kill + 1) * pushes or failures)  # noqa: B023 - called at once
                server.kill()
                server.start()
            until(lambda: pushed >= (kills + 1) * pushes or failures)
        finally:
            over.set()
            producer.join()
        assert not failures
        client.advance("s", end := pushed * ROWS_PER_PUSH * 1000 + 1_000_000)

        undisturbed = pw.Engine()
        define(undisturbed)
        for number in range(pushed):
            undisturbed.push("s", push_of(number))
        undisturbed.advance("s", end)
        expected = {name: undisturbed.results(name) for name in QUERIES}
        assert all(table.num_rows > kills for table in expected.values())

        until(lambda: all(c.count >= expected[c.query].num_rows for c in collectors))
        for collector in collectors:
            collector.subscription.close()
            assert collector.subscription.error is None
            found = pa.Table.from_batches(collector.batches)
            assert found.equals(expected[collector.query])
            assert collector.subscription.next == found.num_rows
        for name, table in expected.items():
            assert client.results(name).equals(table)
            assert client.results(name).num_rows == 0
        assert client.stats()["streams"]["s"]["rows"] == pushed * ROWS_PER_PUSH
        assert server.stop() == 0


def test_two_kills(tmp_path: Path) -> None:
    survive(tmp_path / "data", kills=2, pushes=80)


@pytest.mark.soak
def test_twenty_kills(tmp_path: Path) -> None:
    survive(tmp_path / "data", kills=20, pushes=200)
