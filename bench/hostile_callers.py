"""A server beside callers that mean no good: what they do to the others, to its memory, and to what was acknowledged.

Eight writers push to a stream each, eight readers look up at a rate, first alone (`quiet`), then beside three others
(`hostile`), in a server of its own each time:

- one asks for the worst one-time reads that it can: self joins of 20,000 rows of one key;
- one subscribes to the results of every query and never reads a byte of them;
- one pushes rows of the year 9999 to the writers' streams.

Afterwards the results of all queries must be those of an embedded engine that got the writers' rows and no others.
Memory: how much more the server has needed at most than when it had started, against what was configured.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from bench.measure import isolated_on_all_cores
from bench.report import Aim, Report
from bench.server_process import ServerProcess
from bench.server_traffic import Lookups, Producer, opened, request_bytes

WRITERS = READERS = 8
PUSH_EVERY_S = 0.1
ROWS_PER_PUSH = 200
LOOKUPS_PER_S = 400
BIG_ROWS = 20_000
READ_BYTES = 256 << 20
COPIES = 3  # that operators make of what a read holds (docs/isolation.md)
WORST = (
    "SELECT a.v, b.v AS w FROM big [RANGE 1 DAY] AS a, big [RANGE 1 DAY] AS b WHERE a.k = b.k",
    "SELECT SUM(c.v) AS n FROM big [RANGE 1 DAY] a, big [RANGE 1 DAY] b, big [NOW] c WHERE a.k = b.k AND b.k = c.k",
    "SELECT DISTINCT a.v, b.v AS w FROM big [RANGE 1 DAY] AS a, big [RANGE 1 DAY] AS b WHERE a.k = b.k",
)
FINISH_S = 60.0
YEAR_9999 = 253_370_764_800_000_000  # microseconds since 1970


def statements(writer: int) -> list[str]:
    columns = "(ts TIMESTAMP, k BIGINT, v BIGINT, WATERMARK FOR ts AS ts - INTERVAL 50 MILLISECONDS)"
    items, window = "k, SUM(v) AS total, COUNT(*) AS n", "[RANGE 5 SECONDS SLIDE 500 MILLISECONDS]"
    return [
        f"CREATE STREAM w{writer} {columns} WITH (on_bad_row = 'skip')",
        f"CREATE QUERY q{writer} AS SELECT {items} FROM w{writer} {window} GROUP BY k",
    ]


def push_of(writer: int, number: int) -> pa.RecordBatch:
    count = np.arange(number * ROWS_PER_PUSH, (number + 1) * ROWS_PER_PUSH, dtype=np.int64)
    times = pa.array(count * int(1e6 * PUSH_EVERY_S / ROWS_PER_PUSH)).view(pa.timestamp("us", tz="UTC"))
    mixed = (count + writer) * 40503 % 65521
    return pa.RecordBatch.from_arrays([times, pa.array(mixed % 20), pa.array(mixed % 1009)], ["ts", "k", "v"])


def arrow_body(batch: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue().to_pybytes())


class Run:
    """One server, the writers and readers, and those that disturb them."""

    def __init__(self, server: ServerProcess, seconds: float) -> None:
        self.server, self.seconds = server, seconds
        self.push_s: list[float] = []
        self.reads: dict[int, int] = {}  # answers to the worst reads, by status
        self.far_ahead: dict[int, int] = {}  # and to rows of the year 9999
        self._producers = [Producer(server.port) for _ in range(WRITERS)]
        self._over = asyncio.Event()

    async def run(self, hostile: bool) -> dict[str, Any]:
        await self._begin()
        before = self.server.memory_most()
        lookups = Lookups(self.server.port, [f"q{writer}" for writer in range(WRITERS)], LOOKUPS_PER_S, READERS)
        others = [self._ask_the_worst(), self._never_read(), self._push_far_ahead()] if hostile else []
        disturbing = [asyncio.create_task(other) for other in others]
        await asyncio.gather(*(self._write(writer) for writer in range(WRITERS)), lookups.run(self.seconds))
        self._over.set()
        await asyncio.gather(*disturbing)
        wrong = [f"{count} lookups were answered with {status}" for status, count in lookups.refused.items()]
        wrong += await self._compared()
        wrong += [f"{count} reads were answered with {status}" for status, count in self.reads.items() if status >= 500]
        return {
            "pushes": len(self.push_s),
            "push p50 ms": _at(self.push_s, 50),
            "push p99 ms": _at(self.push_s, 99),
            "lookups": len(lookups.latencies_s),
            "lookup p50 ms": _at(lookups.latencies_s, 50),
            "lookup p99 ms": _at(lookups.latencies_s, 99),
            "MB more": (self.server.memory_most() - before) / 1e6,
            "worst reads": sum(self.reads.values()),
            "refused": {str(status): count for status, count in self.reads.items()},
            "far ahead": sum(self.far_ahead.values()),
            "wrong": wrong,
        }

    async def _begin(self) -> None:
        first = ["CREATE STREAM big (ts TIMESTAMP, k BIGINT, v BIGINT) WITH (retain = '1 day')"]
        for text in [*first, *(text for writer in range(WRITERS) for text in statements(writer))]:
            await self._producers[0].until_done(self._post("/v1/statements", json.dumps({"text": text}).encode()))
        rows = np.arange(BIG_ROWS, dtype=np.int64)
        times = pa.array(rows).view(pa.timestamp("us", tz="UTC"))
        big = pa.RecordBatch.from_arrays([times, pa.array(np.zeros_like(rows)), pa.array(rows)], ["ts", "k", "v"])
        await self._producers[0].until_done(self._post("/v1/streams/big/rows", arrow_body(big), arrow=True))
        for number in range(60):  # the first reports, for lookups to find
            await asyncio.gather(*(self._push(writer, number) for writer in range(WRITERS)))
        self.push_s.clear()

    async def _write(self, writer: int) -> None:
        begun, first = time.perf_counter(), self._producers[writer].acknowledged
        for number in range(first, first + round(self.seconds / PUSH_EVERY_S)):
            due = begun + (number - first + writer / WRITERS) * PUSH_EVERY_S
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            await self._push(writer, number)
            self.push_s.append(time.perf_counter() - due)

    async def _push(self, writer: int, number: int) -> None:
        await self._producers[writer].push(f"w{writer}", arrow_body(push_of(writer, number)))

    # -- those that disturb ----------------------------------------------------------------------------------------

    async def _ask_the_worst(self) -> None:
        number = 0
        while not self._over.is_set():
            body = json.dumps({"text": WORST[number % len(WORST)]}).encode()
            status, _ = await self._answer(self._post("/v1/statements", body))
            self.reads[status] = self.reads.get(status, 0) + 1
            number += 1

    async def _never_read(self) -> None:
        """What it does not read fills the buffers of its connections, and then the server has to wait or let it go."""
        connections = []
        for writer in range(WRITERS):
            _, out = await asyncio.open_connection("127.0.0.1", self.server.port, limit=1_024)
            out.write(request_bytes("GET", f"/v1/queries/q{writer}/live?start=0", self.server.port))
            connections.append(out)
        await self._over.wait()
        for out in connections:
            out.close()
            with contextlib.suppress(OSError):
                await out.wait_closed()

    async def _push_far_ahead(self) -> None:
        writer = 0
        while not self._over.is_set():
            row = pa.RecordBatch.from_pydict(
                {"ts": pa.array([YEAR_9999]).view(pa.timestamp("us", tz="UTC")), "k": [0], "v": [1]}
            )
            path = f"/v1/streams/w{writer % WRITERS}/rows"
            status, _ = await self._answer(self._post(path, arrow_body(row), arrow=True))
            self.far_ahead[status] = self.far_ahead.get(status, 0) + 1
            writer += 1
            await asyncio.sleep(PUSH_EVERY_S)

    # -- what has become of it -------------------------------------------------------------------------------------

    async def _compared(self) -> list[str]:
        """What differs from an engine that got the writers' rows alone."""
        import panewise as pw
        from panewise.serve.http.results.row_json import json_rows

        wrong = []
        for writer, producer in enumerate(self._producers):
            end = int(producer.acknowledged * PUSH_EVERY_S * 1e6) + 10_000_000
            await producer.until_done(self._post(f"/v1/streams/w{writer}/advance", json.dumps({"until": end}).encode()))
            engine = pw.Engine()
            for text in statements(writer):
                engine.execute(text)
            for number in range(producer.acknowledged):
                engine.push(f"w{writer}", push_of(writer, number))
            engine.advance(f"w{writer}", end)
            expected = json.loads(json_rows(engine.results(f"q{writer}")))
            found = await self._results(writer, len(expected))
            if found != expected:
                wrong.append(f"q{writer} has {len(found)} results, and {len(expected)} are right")
        return wrong

    async def _results(self, writer: int, wanted: int) -> list[Any]:
        """All of them; those of the last windows come a moment after the rows."""
        found: list[Any] = []
        give_up = time.perf_counter() + FINISH_S
        while len(found) < wanted and time.perf_counter() < give_up:
            path = f"/v1/queries/q{writer}/results?start={len(found)}&limit=10000"
            status, body = await self._answer(request_bytes("GET", path, self.server.port))
            if status != 200:
                return found
            rows = json.loads(body)["rows"]
            found += rows
            if not rows:
                await asyncio.sleep(0.05)
        return found

    async def _answer(self, request: bytes) -> tuple[int, bytes]:
        connection = await opened(self.server.port)
        answer: asyncio.Future[tuple[int, bytes]] = asyncio.get_running_loop().create_future()
        connection.request(request, lambda status, body: answer.set_result((status, body)))
        try:
            return await answer
        finally:
            connection.close()

    def _post(self, path: str, body: bytes, arrow: bool = False) -> bytes:
        kind = "application/vnd.apache.arrow.stream" if arrow else "application/json"
        return request_bytes("POST", path, self.server.port, body, Content_Type=kind)


def _at(seconds: list[float], percent: int) -> float:
    """A percentile, in milliseconds."""
    return 1e3 * sorted(seconds)[len(seconds) * percent // 100]


def measure(seconds: float, hostile: bool) -> dict[str, Any]:
    options = ("--log", "json", "--read-bytes", str(READ_BYTES), "--max-reads", "1")
    with tempfile.TemporaryDirectory() as folder, ServerProcess(Path(folder) / "data", *options) as server:
        return asyncio.run(_measured(server, seconds, hostile))


async def _measured(server: ServerProcess, seconds: float, hostile: bool) -> dict[str, Any]:
    return await Run(server, seconds).run(hostile)


def run(quick: bool) -> Report:
    report = Report(
        "hostile_callers",
        f"hostile_callers: {WRITERS} writers and {READERS} readers, alone and beside three that mean no good",
        ("case", "pushes", "push p50 ms", "push p99 ms", "lookups", "lookup p50 ms", "lookup p99 ms", "MB more",
         "worst reads", "far ahead"),
    )  # fmt: skip
    cases = {
        name: isolated_on_all_cores(measure, seconds=4.0 if quick else 60.0, hostile=name == "hostile")
        for name in ("quiet", "hostile")
    }
    for name, figures in cases.items():
        report.rows.append({"case": name, **figures})
        report.agree &= not figures["wrong"]
        report.notes += [f"{name}: {what}" for what in figures["wrong"]]
    quiet, hostile = cases["quiet"], cases["hostile"]
    for what in ("push p99 ms", "lookup p99 ms"):
        report.aims.append(Aim.at_most(f"{what}, hostile / quiet", 3.0, hostile[what] / quiet[what]))
    allowed = quiet["MB more"] + COPIES * READ_BYTES / 1e6
    report.aims.append(Aim.at_most("memory of the hostile case", allowed, hostile["MB more"], " MB more"))
    report.notes.append(f"answers to the worst reads, by status: {hostile['refused']}")
    return report
