"""Live results by WebSocket, from a real server: nothing is lost or repeated, and nobody holds up anybody else."""

from __future__ import annotations

import asyncio
import gc
import json
import socket as sockets
import threading
import time
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from panewise.serve.http.live import live_subscribers
from panewise.serve.http.results.result_log import ResultLog
from panewise.serve.http.results.row_json import json_columns
from panewise.serve.http.service.settings import Token
from tests.serve.http.live_server import LiveServer, live_server, receive, values
from tests.serve.http.results.test_result_log import SCHEMA, rows
from tests.waiting import until, until_async


@pytest.fixture
def server() -> Iterator[LiveServer]:
    with live_server() as running:
        running.log.begin("q", SCHEMA)
        yield running


def produce(log: ResultLog, count: int, step: int, pause: float = 0.0, query: str = "q", first: int = 0) -> None:
    for number in range(first, first + count, step):
        log.append(query, rows(number, min(step, first + count - number)), number)
        time.sleep(pause)


# -- one query ---------------------------------------------------------------------------------------------------


def test_hello_and_what_comes_from_now_on(server: LiveServer) -> None:
    async def main() -> None:
        server.log.append("q", rows(0, 5), 0)
        async with server.socket("queries/Q/live") as socket:
            hello = await receive(socket)
            assert hello == {
                "type": "hello",
                "query": "q",
                "series": server.log.series("q").id,
                "columns": json_columns(SCHEMA),
                "held_from": 0,
                "next": 5,
            }
            server.log.append("q", rows(5, 2), 5)
            message = await receive(socket)
            assert message["first"] == 5 and message["next"] == 7
            assert message["rows"] == [["1970-01-01T00:00:01.000000Z", 5], ["1970-01-01T00:00:02.000000Z", 6]]

    asyncio.run(main())


def test_resume_by_number_and_by_window(server: LiveServer) -> None:
    async def main() -> None:
        server.log.append("q", rows(0, 30), 0)
        for asked, start in (
            ("start=0", 0),
            ("start=17", 17),
            ("start=30", 30),
            ("after_window=4000000", 15),
            ("after_window=1970-01-01T00:00:04Z", 15),
            ("after_window=1970-01-02T00:00:00Z", 30),
            (f"start=3&series={server.log.series('q').id}", 3),
        ):
            async with server.socket(f"queries/q/live?{asked}") as socket:
                assert (await receive(socket))["next"] == start
                assert await values(socket, start, 30) == list(range(start, 30))

    asyncio.run(main())


def test_no_row_is_lost_or_repeated_over_many_connections(server: LiveServer) -> None:
    """A producer does not stop, and the subscriber goes and comes back to its number all the time."""
    count, found = 5_000, list[int]()

    def produce_in_step() -> None:
        """Not far before the subscriber, so that it comes back many times while rows come."""
        for number in range(0, count, 7):
            until(lambda: number - len(found) < 500)  # noqa: B023 - it is called before the next turn of the loop
            server.log.append("q", rows(number, min(7, count - number)), number)

    producer = threading.Thread(target=produce_in_step)

    async def main() -> list[int]:
        connections = 0
        while len(found) < count:
            connections += 1
            async with server.socket(f"queries/q/live?start={len(found)}") as socket:
                assert (await receive(socket))["type"] == "hello"
                for _ in range(connections % 5 + 1):
                    if len(found) == count:
                        break
                    message = await receive(socket)
                    assert message["first"] == len(found)
                    found.extend(row[-1] for row in message["rows"])
        assert connections > 3
        return found

    producer.start()
    assert asyncio.run(main()) == list(range(count))
    producer.join()


def test_gap_where_rows_are_not_held_any_more() -> None:
    async def main() -> None:
        log = server.log
        produce(log, 1_000, 10)
        held_from, end = log.bounds("q")
        assert held_from > 0
        async with server.socket("queries/q/live?start=3") as socket:
            assert (await receive(socket))["next"] == held_from
            assert await receive(socket) == {"type": "gap", "query": "q", "from": 3, "to": held_from}
            assert await values(socket, held_from, end) == list(range(held_from, end))
            await socket.send('{"type": "pause"}')
            await until_async(lambda: server.paused == 1)
            produce(log, 1_000, 10, first=1_000)
            later = log.bounds("q")[0]
            await socket.send('{"type": "resume"}')
            assert await receive(socket) == {"type": "gap", "query": "q", "from": end, "to": later}
            await values(socket, later, 2_000)
        async with server.socket("queries/q/live?after_window=0") as socket:
            assert (await receive(socket))["next"] == later
            assert await receive(socket) == {"type": "gap", "query": "q", "from": None, "to": later}

    with live_server(ResultLog(None, keep_rows=100, keep_bytes=1 << 30)) as server:
        asyncio.run(main())


def test_numbers_of_another_series_are_not_taken_for_its_own(server: LiveServer) -> None:
    async def main() -> None:
        server.log.append("q", rows(0, 50), 0)
        old = server.log.series("q").id
        server.log.forget("q")
        server.log.append("q", rows(0, 20, history=1), 0)
        async with server.socket(f"queries/q/live?start=10&series={old}") as socket:
            hello = await receive(socket)
            assert hello["next"] == 0 and hello["series"] != old
            assert await receive(socket) == {"type": "gap", "query": "q", "from": 10, "to": 0, "reset": True}
            assert (await values(socket, 0, 20))[0] == 1_000_000
        # Without the series only a number that is too great gives it away.
        async with server.socket("queries/q/live?start=50") as socket:
            assert (await receive(socket))["next"] == 20
            assert await receive(socket) == {"type": "gap", "query": "q", "from": 50, "to": 20, "reset": True}

    asyncio.run(main())


def test_pause_and_resume(server: LiveServer) -> None:
    async def main() -> None:
        async with server.socket("queries/q/live") as socket:
            await receive(socket)
            await socket.send('{"type": "pause"}')
            await until_async(lambda: server.paused == 1)
            produce(server.log, 100, 10)
            with pytest.raises(TimeoutError):
                await receive(socket, seconds=0.2)
            await socket.send('{"type": "resume"}')
            assert await values(socket, 0, 100) == list(range(100))

    asyncio.run(main())


def test_a_dropped_query_ends_its_subscribers_after_the_last_row(server: LiveServer) -> None:
    async def main() -> None:
        async with server.socket("queries/q/live") as reading, server.socket("queries/q/live") as paused:
            await receive(reading)
            await receive(paused)
            await paused.send('{"type": "pause"}')
            await until_async(lambda: server.paused == 1)
            produce(server.log, 5_000, 500)
            server.log.forget("q")
            assert await values(reading, 0, 5_000) == list(range(5_000))
            for socket in (reading, paused):
                assert await receive(socket) == {"type": "end", "query": "q", "reason": "the query was dropped"}
                with pytest.raises(ConnectionClosed) as closed:
                    await receive(socket)
                assert closed.value.rcvd is not None and closed.value.rcvd.code == 1000
        await until_async(lambda: server.subscribers == 0)

    asyncio.run(main())


def test_the_end_of_the_server_comes_after_what_the_log_has(server: LiveServer) -> None:
    async def main() -> None:
        async with server.socket("queries/q/live") as one, server.socket("live") as many, server.socket("live") as idle:
            await receive(one)
            await many.send('{"type": "subscribe", "query": "q"}')
            await receive(many)
            produce(server.log, 10_000, 1_000)
            ending = asyncio.create_task(asyncio.to_thread(server.end_live))
            for socket in (one, many):
                assert await values(socket, 0, 10_000) == list(range(10_000))
                assert (await receive(socket))["reason"] == "the server ends"
            for socket in (one, many, idle):
                with pytest.raises(ConnectionClosed) as closed:
                    await receive(socket)
                assert closed.value.rcvd is not None and closed.value.rcvd.code == 1001
            await ending
            with pytest.raises(InvalidStatus, match="503"):
                async with server.socket("queries/q/live"):
                    pass

    asyncio.run(main())


# -- many queries ------------------------------------------------------------------------------------------------


def test_many_queries_on_one_connection(server: LiveServer) -> None:
    async def main() -> None:
        server.log.append("r", rows(0, 3), 0)
        async with server.socket("live") as socket:
            await socket.send('{"type": "subscribe", "query": "R", "start": 1}')
            assert (await receive(socket))["query"] == "r"
            assert await values(socket, 1, 3) == [1, 2]
            await socket.send('{"type": "subscribe", "query": "q"}')
            assert (await receive(socket))["query"] == "q"
            server.log.append("q", rows(0, 2), 0)
            message = await receive(socket)
            assert (message["query"], message["first"], message["next"]) == ("q", 0, 2)
            await socket.send('{"type": "unsubscribe", "query": "q"}')
            assert await receive(socket) == {"type": "unsubscribed", "query": "q"}
            server.log.append("q", rows(2, 2), 2)
            server.log.forget("r")
            assert await receive(socket) == {"type": "end", "query": "r", "reason": "the query was dropped"}
            await socket.send('{"type": "subscribe", "query": "q", "start": 2}')
            assert (await receive(socket))["type"] == "hello"
            assert await values(socket, 2, 4) == [2, 3]
        await until_async(lambda: server.subscribers == 0)

    asyncio.run(main())


# -- what clients do wrong ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("queries/none/live", 404),
        ("queries/q/live?start=-1", 400),
        ("queries/q/live?start=soon", 400),
        ("queries/q/live?start=99999999999999999999999", 400),
        ("queries/q/live?after_window=yesterday", 400),
        ("queries/q/live?start=1&after_window=0", 400),
        ("queries/plain/live?after_window=0", 400),
    ],
)
def test_refused_before_it_is_accepted(server: LiveServer, path: str, status: int) -> None:
    async def main() -> None:
        server.log.append("plain", pa.table({"n": [1]}), 0)
        with pytest.raises(InvalidStatus) as refused:
            async with server.socket(path):
                pass
        assert refused.value.response.status_code == status
        assert json.loads(refused.value.response.body or b"")["error"]["message"]
        assert server.subscribers == 0

    asyncio.run(main())


def test_messages_that_are_not_understood_are_answered_and_in_the_end_the_connection_is_closed(
    server: LiveServer,
) -> None:
    wrong = [
        "{",
        "[]",
        "7",
        '"pause"',
        '{"type": 7}',
        '{"type": "subscribe"}',
        '{"type": "subscribe", "query": "none"}',
        '{"type": "subscribe", "query": "q", "start": -1}',
        '{"type": "unsubscribe", "query": "q"}',
        '{"type": "pause", "query": {}}',
    ]

    async def main() -> None:
        async with server.socket("live") as socket:
            for text in wrong:
                await socket.send(text)
                message = await receive(socket)
                assert message["type"] == "error" and message["error"]["message"], text
            with pytest.raises(ConnectionClosed) as closed:
                await receive(socket)
            assert closed.value.rcvd is not None and closed.value.rcvd.code == 1008
        async with server.socket("queries/q/live") as socket:
            await receive(socket)
            await socket.send("x" * 100_000)
            with pytest.raises(ConnectionClosed) as closed:
                await receive(socket)
            assert closed.value.rcvd is not None and closed.value.rcvd.code == 1009
        await until_async(lambda: server.subscribers == 0)

    asyncio.run(main())


def test_so_many_subscribers_and_no_more() -> None:
    async def main() -> None:
        async with server.socket("queries/q/live"), server.socket("live") as many:
            await many.send('{"type": "subscribe", "query": "q"}')
            assert (await receive(many))["type"] == "hello"
            with pytest.raises(InvalidStatus, match="429"):
                async with server.socket("queries/q/live"):
                    pass
            await many.send('{"type": "subscribe", "query": "r"}')
            assert (await receive(many))["type"] == "error"
        await until_async(lambda: server.subscribers == 0)
        async with server.socket("queries/q/live") as socket:
            assert (await receive(socket))["type"] == "hello"

    with live_server(max_subscribers=3) as server:
        server.log.begin("q", SCHEMA)
        server.log.begin("r", SCHEMA)
        asyncio.run(main())


def test_tokens() -> None:
    async def main() -> None:
        for path, headers in (("live", {}), ("queries/q/live", {}), ("live", {"Authorization": "Bearer wrong-wrong"})):
            with pytest.raises(InvalidStatus, match="401"):
                async with server.socket(path, additional_headers=headers):
                    pass
        async with server.socket("queries/q/live?token=reading-token") as socket:
            assert (await receive(socket))["type"] == "hello"
        async with server.socket("live", additional_headers={"Authorization": "Bearer reading-token"}) as socket:
            await socket.send('{"type": "subscribe", "query": "q"}')
            assert (await receive(socket))["type"] == "hello"

    with live_server(tokens=(Token("read", "reading-token", "reader"),)) as server:
        server.log.begin("q", SCHEMA)
        asyncio.run(main())


# -- many subscribers, and slow ones -----------------------------------------------------------------------------


def test_many_subscribers_share_the_work(server: LiveServer) -> None:
    subscribers, count, step = 50, 2_000, 20

    async def follow(in_step: asyncio.Barrier) -> None:
        async with server.socket("queries/q/live") as socket:
            assert (await receive(socket))["next"] == 0
            for first in range(0, count, step):
                await in_step.wait()
                assert await values(socket, first, first + step) == list(range(first, first + step))

    async def main() -> None:
        in_step = asyncio.Barrier(subscribers + 1)
        following = [asyncio.create_task(follow(in_step)) for _ in range(subscribers)]
        for first in range(0, count, step):
            await in_step.wait()
            server.log.append("q", rows(first, step), first)
        await asyncio.gather(*following)

    asyncio.run(main())
    # A text for each append, not for each subscriber.
    assert server.app.state.subscribers.blocks.made == count // step


def unread(server: LiveServer, path: str) -> sockets.socket:
    """A subscriber that never reads."""
    slow = sockets.create_connection(("127.0.0.1", server.port))
    slow.setsockopt(sockets.SOL_SOCKET, sockets.SO_RCVBUF, 4_096)
    slow.sendall(
        f"GET /v1/{path} HTTP/1.1\r\nHost: {server.address}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n".encode()
    )
    assert b"101" in slow.recv(20)
    return slow


def wide(first: int, count: int) -> pa.Table:
    return pa.table({"text": ["x" * 500] * count, "value": list(range(first, first + count))})


def test_a_slow_subscriber_holds_up_nobody_and_no_memory(server: LiveServer) -> None:
    """One never reads; what waits for it is what the connection takes, while the others get everything."""
    count, log = 40_000, server.log

    def produce_wide() -> None:
        for first in range(0, count, 500):
            log.append("wide", wide(first, 500), first)

    log.begin("wide", wide(0, 0).cast(pa.schema([("text", pa.string()), ("value", pa.int64())])).schema)
    slow = unread(server, "queries/wide/live?start=0")

    async def main() -> None:
        async with server.socket("queries/wide/live?start=0") as socket:
            await receive(socket)
            producer = threading.Thread(target=produce_wide)
            producer.start()
            assert await values(socket, 0, count) == list(range(count))
            producer.join()

    asyncio.run(main())
    readers = [subscriber.reader for subscriber in list(server.app.state.subscribers._running.values())]
    behind = [reader for reader in readers if reader.next < count]
    assert len(behind) == 1 and behind[0].next < count // 2
    gc.collect()
    waiting = [transport.get_write_buffer_size() for transport in _transports(server)]
    assert max(waiting) < 2_000_000  # of twenty megabytes and more
    slow.close()
    asyncio.run(until_async(lambda: server.subscribers == 0))


@pytest.mark.parametrize("path", ["queries/wide/live?start=0", "live"])
def test_who_takes_nothing_is_disconnected(server: LiveServer, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_subscribers, "STALLED_SECONDS", 0.3 if path != "live" else 3.0)
    for first in range(0, 20_000, 500):
        server.log.append("wide", wide(first, 500), first)
    slow = unread(server, path)
    if path == "live":
        slow.sendall(masked(b'{"type": "subscribe", "query": "wide", "start": 0}'))
        asyncio.run(until_async(lambda: server.subscribers == 2))
    asyncio.run(until_async(lambda: server.subscribers == 0))
    slow.close()


def masked(text: bytes) -> bytes:
    """A frame of a client, with a mask of nothing."""
    assert len(text) < 126
    return bytes([0x81, 0x80 | len(text), 0, 0, 0, 0]) + text


def test_heartbeats(server: LiveServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_subscribers, "HEARTBEAT_SECONDS", 0.02)

    async def main() -> None:
        async with server.socket("queries/q/live") as socket:
            await receive(socket)
            for _ in range(3):
                assert json.loads(await socket.recv()) == {"type": "heartbeat", "query": "q", "next": 0}

    asyncio.run(main())


def _transports(server: LiveServer) -> list[Any]:
    return [connection.transport for connection in server._server.server_state.connections]
