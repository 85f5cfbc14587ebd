"""`panewise serve --path`: killed with kill -9, ended with SIGTERM, and started again, with nothing lost or doubled."""

from __future__ import annotations

import signal
import threading
from pathlib import Path

import httpx

from tests.serve.http.serving import BUSY, NDJSON, all_results, define, process, rows
from tests.waiting import PATIENCE_S

COUNT = "SELECT k, COUNT(*) AS n FROM t [RANGE 1 SECOND SLIDE 1 SECOND] GROUP BY k"


def _push(client: httpx.Client, producer: str, number: int) -> httpx.Response:
    stamp = {**NDJSON, "Panewise-Producer": producer, "Panewise-Sequence": str(number)}
    content = rows((0, producer, number), (0, producer, number))
    return client.post("/v1/streams/t/rows", content=content, headers=stamp)


def test_what_was_acknowledged_is_there_after_kill_9(tmp_path: Path):
    """Two producers push as fast as they can; the server is killed in the middle; they go on with the same numbers."""
    path = str(tmp_path / "data")
    acknowledged = {"one": 0, "two": 0}
    begun = {producer: threading.Event() for producer in acknowledged}
    with process("--path", path) as server:
        define(server.client, f"CREATE QUERY counts AS {COUNT}")

        def produce(producer: str) -> None:
            with httpx.Client(base_url=server.client.base_url) as client:
                while True:
                    try:
                        answer = _push(client, producer, acknowledged[producer] + 1)
                    except httpx.TransportError:
                        return
                    assert answer.json() == {"rows": 2, "repeated": False}
                    acknowledged[producer] += 1
                    if acknowledged[producer] == 20:
                        begun[producer].set()

        threads = [threading.Thread(target=produce, args=(producer,)) for producer in acknowledged]
        for thread in threads:
            thread.start()
        for enough in begun.values():
            assert enough.wait(PATIENCE_S)
        server.kill()
        for thread in threads:
            thread.join()

    with process("--path", path) as server:
        taken = {}
        for producer, sure in acknowledged.items():
            taken[producer] = server.client.get(f"/v1/streams/t/producers/{producer}").json()["sequence"]
            assert taken[producer] in (sure, sure + 1)  # the one that nobody heard about may be there
        assert server.client.get("/v1/stats").json()["streams"]["t"]["rows"] == 2 * sum(taken.values())
        for producer in taken:
            for number in (1, taken[producer]):  # sent again
                assert _push(server.client, producer, number).json() == {"rows": 0, "repeated": True}
            assert _push(server.client, producer, taken[producer] + 1).json() == {"rows": 2, "repeated": False}
        assert server.client.post("/v1/streams/t/advance", json={"until": 1_000_000}).status_code == 204
        counted = {row[2]: row[3] for row in all_results(server.client, "counts", 2)}
        assert counted == {producer: 2 * (number + 1) for producer, number in taken.items()}


def test_results_keep_their_numbers_over_kill_9(tmp_path: Path):
    path = str(tmp_path / "data")
    with process("--path", path) as server:
        define(server.client, f"CREATE QUERY busy AS {BUSY}")
        server.client.post("/v1/streams/t/rows", content=rows(*((s, "a", s) for s in range(30))), headers=NDJSON)
        before = all_results(server.client, "busy", 29)
        server.kill()
    with process("--path", path) as server:
        assert all_results(server.client, "busy", 29) == before
        server.client.post("/v1/streams/t/rows", content=rows(*((s, "a", s) for s in range(30, 60))), headers=NDJSON)
        after = all_results(server.client, "busy", 59)
        assert after[: len(before)] == before
        assert [row[3] for row in after] == [0] + [2 * s + 1 for s in range(58)]


def test_a_clean_end_loses_nothing(tmp_path: Path):
    """Pushes go on while SIGTERM comes: each is acknowledged and kept, or refused, or not heard at all."""
    path = str(tmp_path / "data")
    acknowledged = 0
    with process("--path", path) as server:
        define(server.client, f"CREATE QUERY busy AS {BUSY}")
        try:
            while _push(server.client, "p", acknowledged + 1).status_code == 200:
                acknowledged += 1
                if acknowledged == 50:
                    server.process.send_signal(signal.SIGTERM)
        except httpx.TransportError:
            pass
        assert server.process.wait(PATIENCE_S) == 0
    assert acknowledged >= 50
    with process("--path", path) as server:
        assert server.client.get("/v1/streams/t/producers/p").json()["sequence"] in (acknowledged, acknowledged + 1)
        assert server.end() == 0


def test_live_connections_do_not_hold_the_end_up(tmp_path: Path):
    with process("--path", str(tmp_path / "data")) as server:
        define(server.client, f"CREATE QUERY busy AS {BUSY}")
        with httpx.stream("GET", f"{server.client.base_url}/v1/queries/busy/live?start=0") as live:
            assert live.status_code == 200
            server.process.send_signal(signal.SIGTERM)
            assert "event: end" in live.read().decode()
        assert server.process.wait(PATIENCE_S) == 0
