"""A server under load: 200 WebSocket subscribers, a steady producer and 2,000 lookups a second, on one machine.

`panewise serve` runs in a process of its own, with a data folder. Rows come in event time as fast as in real time. At
the end every subscriber must have got every result of its query once and in order, the results must be those of an
embedded engine that was fed with the same rows and never disturbed, and a sample of the lookups must be whole reports
of that engine.

In the second case the server is killed (kill -9) and started again on the same folder and port, several times, while
subscribers listen and the producer pushes; both go on by numbers, and the same must hold.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import tempfile
import time
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from bench.measure import isolated_on_all_cores
from bench.report import Aim, Report
from bench.server_process import ServerProcess
from bench.server_traffic import Lookups, Producer, Row, Subscriber, request_bytes

SUBSCRIBERS = 200
LOOKUPS_WANTED_PER_S = 2_000
LOOKUPS_OFFERED_PER_S = 2_050  # a little more, so that the rate of answers shows whether it was kept
LATENCY_WANTED_MS = 50.0
CONNECTIONS = 32
PUSH_EVERY_S = 0.1
ROWS_PER_PUSH = 100
GROUPS = 20
FINISH_S = 30.0  # for the last results to arrive
LINGER_S = 0.5  # for what should not come any more
KILLS = 5
WARM_PUSHES = 30  # the first reports of all queries, for lookups to find

STREAM = "CREATE STREAM s (ts TIMESTAMP, k BIGINT, v BIGINT, WATERMARK FOR ts AS ts - INTERVAL 50 MILLISECONDS)"
QUERIES = {
    "totals": "SELECT k, SUM(v) AS total, COUNT(*) AS n FROM s [RANGE 10 SECONDS SLIDE 500 MILLISECONDS] GROUP BY k",
    "peaks": "SELECT k, MAX(v) AS most, MIN(v) AS least FROM s [RANGE 5 SECONDS SLIDE 1 SECOND] GROUP BY k",
    "means": "SELECT k, AVG(v) AS mean FROM s [RANGE 3 SECONDS SLIDE 1 SECOND] WHERE v > 100 GROUP BY k",
    "whole": "SELECT COUNT(*) AS n, SUM(v) AS total FROM s [RANGE 1 SECOND SLIDE 250 MILLISECONDS]",
    "busy": "SELECT k, COUNT(*) AS n FROM s [RANGE 4 SECONDS SLIDE 2 SECONDS] GROUP BY k HAVING COUNT(*) > 15",
    "counted": "SELECT SUM(v) AS total FROM s [ROWS 500 SLIDE 100]",
}
PERIODIC = [name for name in QUERIES if name != "counted"]


def push_of(number: int) -> pa.RecordBatch:
    """The rows of one push: they follow from its number, so that both engines get the same."""
    count = np.arange(number * ROWS_PER_PUSH, (number + 1) * ROWS_PER_PUSH, dtype=np.int64)
    times = pa.array(count * int(1e6 * PUSH_EVERY_S / ROWS_PER_PUSH)).view(pa.timestamp("us", tz="UTC"))
    mixed = count * 40503 % 65521
    return pa.RecordBatch.from_arrays([times, pa.array(mixed % GROUPS), pa.array(mixed % 1009)], ["ts", "k", "v"])


def end_us(pushes: int) -> int:
    """An instant by which every window has closed that holds a row."""
    return int(pushes * PUSH_EVERY_S * 1e6) + 20_000_000


@dataclass
class Outcome:
    """What one run saw."""

    seconds: float = 0.0
    server_cpu_s: float = 0.0
    generator_cpu_s: float = 0.0
    pushes: int = 0
    kills: int = 0
    lookups: Lookups | None = None
    subscribers: list[Subscriber] = field(default_factory=list)
    queries: list[str] = field(default_factory=list)  # of each subscriber
    rows: dict[str, dict[int, Row]] = field(default_factory=lambda: defaultdict(dict))
    wrong: list[str] = field(default_factory=list)


class Session:
    """One server and its traffic."""

    def __init__(self, server: ServerProcess, subscribers: int) -> None:
        self.server = server
        self.outcome = outcome = Outcome()
        outcome.queries = [list(QUERIES)[number % len(QUERIES)] for number in range(subscribers)]
        outcome.subscribers = [Subscriber(server.port, name, outcome.rows[name]) for name in outcome.queries]
        self._producer = Producer(server.port)

    async def run(self, seconds: float, lookups_per_s: float, kills: int) -> Outcome:
        outcome, server = self.outcome, self.server
        for statement in (STREAM, *(f"CREATE QUERY {name} AS {text}" for name, text in QUERIES.items())):
            body = json.dumps({"text": statement}).encode()
            await self._producer.until_done(self._request("/v1/statements", body))
        for number in range(WARM_PUSHES):
            await self._push(number)
        listening = [asyncio.create_task(subscriber.run()) for subscriber in outcome.subscribers]
        await self._until(lambda: all(subscriber.next for subscriber in outcome.subscribers), "subscribers began")
        outcome.lookups = Lookups(server.port, PERIODIC, lookups_per_s, CONNECTIONS)
        begun, generator_cpu, server_cpu = time.perf_counter(), time.process_time(), server.cpu_s()
        work = [self._produce(seconds), outcome.lookups.run(seconds) if lookups_per_s else self._kill(seconds, kills)]
        async with asyncio.timeout(seconds + FINISH_S * (kills + 1)):
            await asyncio.gather(*work)
        outcome.seconds = time.perf_counter() - begun
        outcome.generator_cpu_s = time.process_time() - generator_cpu
        outcome.server_cpu_s = server.cpu_s() - server_cpu if not kills else float("nan")
        outcome.pushes, outcome.kills = self._producer.acknowledged, server.kills
        await self._finish(expected_rows(outcome.pushes))
        for task in listening:
            task.cancel()
        await asyncio.gather(*listening, return_exceptions=True)
        return outcome

    async def _produce(self, seconds: float) -> None:
        begun, first = time.perf_counter(), self._producer.acknowledged
        for number in range(first, first + round(seconds / PUSH_EVERY_S)):
            # One that was held up by a dead server catches up.
            await asyncio.sleep(max(0.0, begun + (number - first) * PUSH_EVERY_S - time.perf_counter()))
            await self._push(number)

    async def _push(self, number: int) -> None:
        sink = pa.BufferOutputStream()
        batch = push_of(number)
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        await self._producer.push("s", sink.getvalue().to_pybytes())

    async def _kill(self, seconds: float, kills: int) -> None:
        """Kills the server at even distances of the time that it lives."""
        for _ in range(kills):
            await asyncio.sleep(seconds / (kills + 1))
            self.server.kill()
            await asyncio.to_thread(self.server.start)

    async def _finish(self, expected: dict[str, list[Row]]) -> None:
        """The last windows close; everybody gets the last results, and nothing more."""
        outcome = self.outcome
        body = json.dumps({"until": end_us(outcome.pushes)}).encode()
        await self._producer.until_done(self._request("/v1/streams/s/advance", body))

        def complete() -> bool:
            subscribed = zip(outcome.subscribers, outcome.queries, strict=True)
            return all(subscriber.next >= len(expected[name]) for subscriber, name in subscribed)

        with contextlib.suppress(TimeoutError):
            await self._until(complete, "the last results")
        await asyncio.sleep(LINGER_S)
        outcome.wrong += disagreements(outcome, expected)

    async def _until(self, condition: Any, what: str) -> None:
        give_up = time.perf_counter() + FINISH_S
        while not condition():
            if time.perf_counter() > give_up:
                raise TimeoutError(f"{what}: not within {FINISH_S:.0f} s; the server said\n{self.server.said()}")
            await asyncio.sleep(0.02)

    def _request(self, path: str, body: bytes) -> bytes:
        return request_bytes("POST", path, self.server.port, body, Content_Type="application/json")


def expected_rows(pushes: int) -> dict[str, list[Row]]:
    """What an embedded engine answers that gets the same rows, in the form in which the server sends them."""
    import panewise as pw
    from panewise.serve.http.results.row_json import json_rows

    engine = pw.Engine()
    engine.execute(STREAM)
    for name, text in QUERIES.items():
        engine.execute(f"CREATE QUERY {name} AS {text}")
    for number in range(pushes):
        engine.push("s", push_of(number))
    engine.advance("s", end_us(pushes))
    return {name: json.loads(json_rows(engine.results(name))) for name in QUERIES}


def disagreements(outcome: Outcome, expected: dict[str, list[Row]]) -> list[str]:
    """What is not as it should be; an empty list where all is well."""
    wrong = []
    for number, (subscriber, name) in enumerate(zip(outcome.subscribers, outcome.queries, strict=True)):
        if subscriber.next != len(expected[name]):
            wrong.append(f"subscriber {number} of {name} has {subscriber.next} of {len(expected[name])} rows")
        wrong += [f"subscriber {number} of {name}: {what}" for what in subscriber.wrong]
    for name, rows in outcome.rows.items():
        if [rows.get(number) for number in range(len(rows))] != expected[name]:
            wrong.append(f"the results of {name} differ from those of the embedded engine")
    lookups = outcome.lookups
    if lookups is not None:
        wrong += [f"{count} lookups were answered with {status}" for status, count in lookups.refused.items()]
        reports = {name: _reports(expected[name]) for name in PERIODIC}
        for name, answer in lookups.sample:
            end = answer["rows"][0][1] if answer["rows"] else "no instant"
            if sorted(answer["rows"], key=str) != reports[name].get(end):
                wrong.append(f"a lookup of {name} is not the report at {end}")
    return wrong


def _reports(rows: list[Row]) -> dict[str, list[Row]]:
    """The rows of each report, by the end of its window, which is the second column."""
    reports: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        reports[row[1]].append(row)
    return {end: sorted(of_end, key=str) for end, of_end in reports.items()}


def measure(seconds: float, subscribers: int, lookups_per_s: float, kills: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder, ServerProcess(Path(folder) / "data", "--log", "json") as server:
        outcome = asyncio.run(Session(server, subscribers).run(seconds, lookups_per_s, kills))
    assert outcome.lookups is not None
    latencies_ms = sorted(1e3 * latency for latency in outcome.lookups.latencies_s)
    figures: dict[str, Any] = {
        "seconds": outcome.seconds,
        "subscribers": subscribers,
        "rows pushed": outcome.pushes * ROWS_PER_PUSH,
        "rows delivered": sum(subscriber.next for subscriber in outcome.subscribers),
        "messages": sum(subscriber.messages for subscriber in outcome.subscribers),
        "kills": outcome.kills,
        "reconnections": sum(subscriber.connections - 1 for subscriber in outcome.subscribers),
        "generator cores": outcome.generator_cpu_s / outcome.seconds,
        "agrees": not outcome.wrong,
        "wrong": outcome.wrong[:10],
    }
    if latencies_ms:
        figures |= {
            "lookups/s": len(latencies_ms) / outcome.seconds,
            "p50 ms": latencies_ms[len(latencies_ms) // 2],
            "p99 ms": latencies_ms[len(latencies_ms) * 99 // 100],
            "max ms": latencies_ms[-1],
            "lookups checked": len(outcome.lookups.sample),
            "server cores": outcome.server_cpu_s / outcome.seconds,
        }
    return figures


def run(quick: bool) -> Report:
    report = Report(
        "server_load",
        f"server_load: {SUBSCRIBERS} subscribers, lookups at {LOOKUPS_OFFERED_PER_S:,}/s, and kill -9",
        ("case", "seconds", "rows pushed", "rows delivered", "lookups/s", "p50 ms", "p99 ms", "max ms", "server cores",
         "generator cores", "kills", "reconnections", "agrees"),
    )  # fmt: skip
    cases = {
        "steady": {"seconds": 3.0 if quick else 60.0, "lookups_per_s": LOOKUPS_OFFERED_PER_S, "kills": 0},
        "kill -9": {"seconds": 3.0 if quick else 20.0, "lookups_per_s": 0, "kills": 1 if quick else KILLS},
    }
    for name, case in cases.items():
        figures = isolated_on_all_cores(measure, subscribers=SUBSCRIBERS, **case)
        report.rows.append({"case": name, **figures})
        report.agree &= figures["agrees"]
        report.notes += [f"{name}: {what}" for what in figures["wrong"]]
    steady = report.rows[0]
    report.aims.append(Aim.at_least("lookups/s", LOOKUPS_WANTED_PER_S, steady["lookups/s"]))
    report.aims.append(Aim.at_most("p99 of a lookup, from when it was due", LATENCY_WANTED_MS, steady["p99 ms"], " ms"))
    report.notes.append("cores: seconds of the processor per second, of all threads")
    return report
