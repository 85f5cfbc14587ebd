"""The client against a server: the same answers and the same errors as an engine, over connections that break."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import panewise as pw
from panewise.serve.http.service.settings import Settings, Token
from tests.free_port import free_port
from tests.serve.client.running_server import Proxy, Running, running_server
from tests.waiting import PATIENCE_S

DEFINITIONS = """
    CREATE STREAM t (ts TIMESTAMP, k STRING, v BIGINT) WITH (retain = '2 seconds');
    CREATE QUERY sums AS SELECT k, SUM(v) AS total FROM t [RANGE 3 SECONDS SLIDE 1 SECOND] GROUP BY k;
    CREATE QUERY now AS SELECT k, MAX(v) AS most FROM t [RANGE 2 SECONDS] GROUP BY k;
"""
LATER = datetime(1970, 1, 1, 0, 1)
ROWS = [{"ts": 100_000 * i, "k": "abc"[i % 3], "v": i} for i in range(100)]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Running]:
    with running_server(Settings(port=0, path=tmp_path / "data")) as running:
        yield running


@pytest.fixture
def client(server: Running) -> Iterator[pw.Client]:
    with pw.connect(server.url, timeout=PATIENCE_S) as connected:
        yield connected


def hosts(client: pw.Client) -> tuple[pw.Engine, pw.Client]:
    engine = pw.Engine()
    for host in (engine, client):
        host.execute(DEFINITIONS)
        host.push("t", ROWS)
    return engine, client


READS: list[Callable[[Any], Any]] = [
    lambda host: host.lookup("sums"),
    lambda host: host.lookup("sums", key="b"),
    lambda host: host.lookup("sums", key={"k": "c"}),
    lambda host: host.lookup("sums", key=["c"]),
    lambda host: host.lookup("sums", key=("b",)),
    lambda host: host.lookup("sums", key=[None]),
    lambda host: host.lookup("now", at=9_850_000),
    lambda host: host.lookup("now", at=datetime(1970, 1, 1, 0, 0, 9, 850_000, tzinfo=UTC)),
    lambda host: host.lookup("now", at="1970-01-01 00:00:09.850000", key="a"),
    lambda host: host.execute("SHOW QUERIES"),
    lambda host: host.execute("SELECT k, COUNT(*) AS n FROM t [RANGE 1 SECOND] GROUP BY k"),
    lambda host: host.execute("SUSPEND QUERY now; RESUME QUERY now"),
    lambda host: str(host.explain()),
    lambda host: host.explain("sums").to_dict()["node"],
    lambda host: host.stats()["streams"]["t"]["rows"],
    lambda host: host.last_sequence("t", "nobody"),
    lambda host: host.results("sums"),
    lambda host: host.results("now"),
    lambda host: host.results("now"),
    lambda host: [host.advance("t", 20_000_000), host.results("sums")],
    lambda host: [host.push("t", pa.table({"ts": [LATER], "k": ["z"], "v": [1]})), host.results("sums")],
]


def test_answers_are_those_of_an_engine(client: pw.Client) -> None:
    engine, _ = hosts(client)
    for read in READS:
        assert read(client) == read(engine)
    assert client.lookup("sums").schema.metadata == engine.lookup("sums").schema.metadata
    assert [query["name"] for query in client.queries()] == ["sums", "now"]


WRONG: list[Callable[[Any], Any]] = [
    lambda host: host.execute("CREATE QUERY bad AS\n  SELECT vv FROM t [RANGE 1 SECOND]"),
    lambda host: host.execute("CREATE STREAM u (ts TIMESTAMP, v BIGINT);\nSELEC 1"),
    lambda host: host.execute("CREATE STREAM t (ts TIMESTAMP)"),
    lambda host: host.execute("DROP STREAM t"),
    lambda host: host.push("t", {"ts": 10**8, "k": "a", "v": "many"}),
    lambda host: host.push("t", {"k": "a", "v": 1}),
    lambda host: host.push("u", {"ts": 10**8}),
    lambda host: host.push("t", ROWS, producer="p", sequence=7),
    lambda host: host.lookup("nobody"),
    lambda host: host.lookup("now", at=10**12),
    lambda host: host.lookup("sums", at="yesterday"),
    lambda host: host.explain("nobody"),
    lambda host: host.last_sequence("nobody", "p"),
    lambda host: host.advance("nobody", 0),
    lambda host: host.results("nobody"),
    lambda host: host.subscribe("nobody", print),
]


def test_errors_are_those_of_an_engine(client: pw.Client) -> None:
    both = hosts(client)
    for wrong in WRONG:
        said = []
        for host in both:
            with pytest.raises(pw.PanewiseError) as caught:
                wrong(host)
            said.append((type(caught.value), str(caught.value)))
        assert said[1] == said[0]
    assert client.stats()["streams"]["t"]["rows"] == len(ROWS)


def test_tokens_and_their_scopes() -> None:
    tokens = Token("read", "reading-1", "reader"), Token("write", "writing-1", "writer")
    with running_server(Settings(port=0, tokens=tokens)) as server:
        for wrong, status in ((None, 401), ("reading-2", 401)):
            with pytest.raises(pw.ServerError, match="token") as caught:
                pw.connect(server.url, wrong)
            assert caught.value.status == status
            assert caught.value.hint is not None
        with pw.connect(server.url, "writing-1") as writer, pw.connect(server.url, "reading-1") as reader:
            writer.execute(DEFINITIONS)
            writer.push("t", ROWS)
            with reader.live("sums", start=0) as live:
                assert next(live).num_rows > 0
            assert reader.lookup("sums").equals(writer.lookup("sums"))
            for change in (
                lambda: reader.push("t", ROWS),
                lambda: reader.execute("DROP QUERY now"),
                lambda: reader.advance("t", 10**9),
            ):
                with pytest.raises(pw.ServerError) as caught:
                    change()
                assert caught.value.status == 403
        with pytest.raises(pw.ServerError) as caught:
            pw.Client(server.url, "reading-2").live("sums")
        assert caught.value.status == 401


def test_another_program_at_the_address_is_noticed(server: Running) -> None:
    with pytest.raises(pw.ServerError, match="there is nothing at"):
        pw.connect(server.url + "/elsewhere")


# -- connections that break ------------------------------------------------------------------------------------------


def test_pushes_whose_answers_are_lost_are_counted_once(server: Running) -> None:
    with Proxy(server.port) as proxy, pw.connect(proxy.url, timeout=PATIENCE_S) as client:
        client.execute(DEFINITIONS)
        for number, row in enumerate(ROWS):
            if number % 10 == 3:
                proxy.swallow_answer()
            if number % 20 == 8:
                proxy.cut()
            client.push("t", row, producer="till" if number % 2 else None)
        assert client.stats()["streams"]["t"]["rows"] == len(ROWS)
        assert client.last_sequence("t", "till") == len(ROWS) // 2
        assert proxy.cuts > 10


def test_live_results_over_cut_connections_come_once(server: Running) -> None:
    engine = pw.Engine()
    engine.execute(DEFINITIONS)
    rows = [{"ts": 100_000 * i, "k": "abc"[i % 3], "v": i} for i in range(600)]
    with (
        Proxy(server.port) as proxy,
        pw.connect(server.url, timeout=PATIENCE_S) as producer,
        pw.connect(proxy.url, timeout=PATIENCE_S) as client,
    ):
        producer.execute(DEFINITIONS)
        batches: list[pa.RecordBatch] = []
        come = threading.Event()

        def callback(batch: pa.RecordBatch) -> None:
            batches.append(batch)
            come.set()

        with client.subscribe("sums", callback, start=0) as subscription:
            for first in range(0, len(rows), 20):
                come.clear()
                producer.push("t", rows[first : first + 20])
                engine.push("t", rows[first : first + 20])
                if first:
                    assert come.wait(PATIENCE_S)
                if first % 60 == 40:
                    proxy.cut()
            expected = engine.results("sums")
            while subscription.next < expected.num_rows:
                come.clear()
                assert subscription.next >= expected.num_rows or come.wait(PATIENCE_S)
        assert pa.Table.from_batches(batches).equals(expected)
        assert proxy.cuts == 10


def test_a_restarted_server_is_found_again(tmp_path: Path) -> None:
    settings = Settings(port=free_port(), path=tmp_path / "data")
    with ExitStack() as first:
        server = first.enter_context(running_server(settings))
        client = pw.connect(server.url, timeout=PATIENCE_S)
        client.execute(DEFINITIONS)
        client.push("t", ROWS[:50])
        live = client.live("sums", start=0)
        batches = [next(live)]
    pushing = threading.Thread(target=client.push, args=("t", ROWS[50:]))
    pushing.start()  # while nothing listens
    with client, running_server(settings):
        pushing.join(PATIENCE_S)
        expected = client.results("sums")
        while sum(batch.num_rows for batch in batches) < expected.num_rows:
            batches.append(next(live))
        assert pa.Table.from_batches(batches).equals(expected)
        assert client.stats()["streams"]["t"]["rows"] == len(ROWS)


def test_a_dropped_query_ends_its_subscriptions(client: pw.Client) -> None:
    client.execute(DEFINITIONS)
    batches: list[pa.RecordBatch] = []
    subscription = client.subscribe("sums", batches.append)
    live = client.live("sums", start=0)
    client.push("t", ROWS)
    assert next(live).num_rows
    client.execute("DROP QUERY sums")
    assert subscription.wait(PATIENCE_S)
    assert subscription.ended == "the query was dropped"
    assert sum(batch.num_rows for batch in batches) == subscription.next
    for batch in live:
        assert batch.num_rows
    client.execute("CREATE QUERY sums AS SELECT v FROM t [RANGE 1 SECOND]")
    again = client.live("sums", start=0, series=subscription.series)
    assert list(again) == []
    assert again.ended is not None and "created again" in again.ended


def test_a_subscription_begins_with_what_comes_after_it(client: pw.Client) -> None:
    client.execute(DEFINITIONS)
    before = 0
    for first in range(0, len(ROWS), 20):
        client.push("t", ROWS[first : first + 20])
        with client.live("sums") as live:
            before += client.results("sums").num_rows
            assert live.next == before


def test_what_is_no_longer_held_is_said(tmp_path: Path) -> None:
    with running_server(Settings(port=0, keep_rows=20)) as server, pw.connect(server.url, timeout=PATIENCE_S) as client:
        client.execute(DEFINITIONS)
        reader = pw.connect(server.url, timeout=PATIENCE_S)
        assert reader.results("now").num_rows == 0
        for row in ROWS:
            client.push("t", row)
        server.backend.settle()
        with pytest.raises(pw.NotHeldError, match="no longer held"):
            reader.results("now")
        kept = reader.results("now")
        assert 20 <= kept.num_rows < len(ROWS)
        assert kept.equals(pw.connect(server.url, timeout=PATIENCE_S).results("now"))
        with pytest.raises(pw.NotHeldError, match=r"rows 0 to \d+ of query 'now' are no longer held"):
            next(client.live("now", start=0))
        told: list[tuple[int, int]] = []
        live = client.live("now", start=0, on_gap=lambda *gap: told.append(gap))
        assert next(live).num_rows == kept.num_rows
        assert told[0][0] == 0 and told[0][1] == live.next - kept.num_rows


def test_threads_share_a_client(client: pw.Client) -> None:
    client.execute(DEFINITIONS)
    failures: list[Exception] = []

    def work(name: int) -> None:
        try:
            for count in range(20):
                client.push("t", {"ts": 1, "k": f"{name}", "v": count})
                client.lookup("now")
        except pw.PanewiseError as problem:
            failures.append(problem)

    threads = [threading.Thread(target=work, args=(name,)) for name in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert client.stats()["streams"]["t"]["rows"] == 160


def test_closing_a_client_ends_what_it_has_opened(server: Running) -> None:
    client = pw.connect(server.url, timeout=PATIENCE_S)
    client.execute(DEFINITIONS)
    subscription, live = client.subscribe("sums", print), client.live("sums")
    client.close()
    assert (subscription.ended, list(live), subscription.wait(PATIENCE_S)) == ("closed", [], True)


UNSORTED = [{"ts": second * 1_000_000, "k": "a", "v": 1} for second in (50, 10, 60, 20, 70)]


def test_late_rows_are_told_as_the_engine_tells_them(client: pw.Client) -> None:
    engine, remarks = pw.Engine(), []
    for host in (engine, client):
        host.execute("CREATE STREAM t (ts TIMESTAMP, k STRING, v BIGINT)")
        with pytest.warns(pw.LateRowsWarning, match="2 of 5 rows of stream 't' came late") as caught:
            host.push("t", UNSORTED)
        remarks.append(str(caught[0].message))
        assert (len(caught), caught[0].filename) == (1, __file__)
    assert remarks[0] == remarks[1]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        client.push("t", UNSORTED)  # There are not ten times as many.


@pytest.mark.parametrize("ordered_first", [True, False])
def test_another_stream_of_the_name_is_warned_of_anew(client: pw.Client, ordered_first: bool) -> None:
    for unsorted in (UNSORTED * 3, UNSORTED):
        client.execute("CREATE STREAM t (ts TIMESTAMP, k STRING, v BIGINT)")
        if ordered_first:
            client.push("t", UNSORTED[:1])
        with pytest.warns(pw.LateRowsWarning):
            client.push("t", unsorted)
        client.execute("DROP STREAM t")


def test_a_push_is_taken_where_a_filter_makes_an_error_of_its_warning(client: pw.Client) -> None:
    client.execute("CREATE STREAM t (ts TIMESTAMP, k STRING, v BIGINT)")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(pw.LateRowsWarning):
            client.push("t", UNSORTED)
        client.push("t", {"ts": 80_000_000, "k": "a", "v": 1})
    assert client.stats()["streams"]["t"]["rows"] == 6


def test_who_says_what_becomes_of_late_rows_is_not_warned(client: pw.Client) -> None:
    client.execute("CREATE STREAM t (ts TIMESTAMP, k STRING, v BIGINT) WITH (late = 'drop')")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        client.push("t", UNSORTED)
    assert client.stats()["streams"]["t"]["late_rows"] == 2
