"""`panewise run --serve` on Spark: answers with their age, statements, pushes, and numbers that survive a kill."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path
from typing import Any

from websockets.sync.client import connect

from panewise.serve.http.backends.spark_answers import ASKED_SECONDS
from tests.dashboard_host import chromium, chromium_path
from tests.serve.http.served_process import Served, served
from tests.waiting import PATIENCE_MS, PATIENCE_S, until

FILE = """
CREATE STREAM pushed (ts TIMESTAMP, k STRING, v BIGINT);
CREATE STREAM files (ts TIMESTAMP, v BIGINT) WITH (connector = 'json', path = '{0}/in');
CREATE QUERY sums AS SELECT k, SUM(v) AS s FROM pushed [RANGE 2 SECONDS SLIDE 1 SECOND] GROUP BY k;
CREATE QUERY newest AS SELECT k, MAX(v) AS most FROM pushed [RANGE 5 SECONDS] GROUP BY k;
CREATE QUERY low AS SELECT k, MAX(v) AS most FROM pushed [ROWS 2 SLIDE 2] GROUP BY k HAVING MAX(v) < 2;
"""


def seconds(first: int, last: int) -> list[dict[str, Any]]:
    return [{"ts": second * 1_000_000, "k": "ab"[second % 2], "v": second} for second in range(first, last)]


def expected(last: int) -> list[list[Any]]:
    """The reports of `sums` as far as a row at `last` closes them: of each second that before and its own."""
    found = []
    for end in range(1, last + 1):
        held = [second for second in (end - 2, end - 1) if second >= 0]
        found.append({"ab"[second % 2]: second for second in held})
    return found  # type: ignore[return-value]


def reports(rows: list[list[Any]]) -> list[dict[str, int]]:
    """Rows of `sums` by window end."""
    found: dict[str, dict[str, int]] = {}
    for _, end, key, total in rows:
        found.setdefault(end, {})[key] = total
    return list(found.values())


def read_live(server: Served, start: int, until: int, series: str | None = None) -> tuple[list[list[Any]], str]:
    """The rows of `sums` between two numbers as a subscriber gets them, and the series that they are of."""
    address = f"{server.address.replace('http', 'ws', 1)}/v1/queries/sums/live?start={start}"
    rows: list[list[Any]] = []
    with connect(address + (f"&series={series}" if series else "")) as socket:
        while start + len(rows) < until:
            message = json.loads(socket.recv(timeout=PATIENCE_S))
            assert message["type"] in ("hello", "rows", "heartbeat"), message
            if message["type"] == "hello":
                series = message["series"]
            elif message["type"] == "rows":
                assert message["first"] == start + len(rows)
                rows += message["rows"]
    assert series is not None
    return rows, series


def test_served_changed_killed_and_served_again(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.json").write_text('{"ts": "2026-01-01T00:00:00Z", "v": 1}\n')
    (tmp_path / "file.cql").write_text(FILE.format(tmp_path))
    command = (
        "run", str(tmp_path / "file.cql"), "--master", "local[2]", "--checkpoint", str(tmp_path / "checkpoint"),
        "--serve", "127.0.0.1:0",
    )  # fmt: skip
    with served(tmp_path, *command) as server:
        server.wait_until_ready()
        assert server.push("pushed", seconds(0, 6), 1).json() == {"rows": 6, "repeated": False}
        rows = server.rows("sums", 9)
        assert reports(rows) == expected(5)
        answers(server)
        dashboard(server)
        refusals(server)
        comes_and_goes(server)
        live, series = read_live(server, 0, 9)
        assert live == rows
        server.end(signal.SIGKILL)
    with served(tmp_path, *command) as server:
        assert server.push("pushed", seconds(0, 6), 1).json() == {"rows": 0, "repeated": True}
        assert server.push("pushed", seconds(6, 10), 2).json() == {"rows": 4, "repeated": False}
        later, again = read_live(server, 9, 17, series)
        assert again == series
        assert reports(rows + later) == expected(9)
        assert server.get("queries/sums/results", start=0)["rows"] == rows + later
        figures = server.get("stats")
        assert figures["streams"]["pushed"]["rows"] == 10
        assert figures["queries"]["sums"]["results"] == 17
        assert figures["spark"]["state"] == "RUNNING"
        code, printed = server.end(signal.SIGTERM)
        assert (code, "17" in printed) == (0, True), server.log.read_text()[-2_000:]


def answers(server: Served) -> None:
    """Now, then and by key, with the age of the micro-batch that delivered them."""
    now = server.get("queries/sums/lookup")
    assert sorted(row[2:] for row in now["rows"]) == [["a", 4], ["b", 3]]
    assert now["watermark"] == "1970-01-01T00:00:05.000000Z"
    assert now["age_seconds"] > 0
    batches = server.get("stats")["spark"]["batches"]
    later = server.get("queries/sums/lookup")
    assert later["rows"] == now["rows"]
    assert later["age_seconds"] > now["age_seconds"]
    then = server.get("queries/sums/lookup", at="1970-01-01T00:00:02Z", key='"a"')
    assert [row[2:] for row in then["rows"]] == [["a", 0]]
    assert server.get("stats")["spark"]["batches"] == batches, "a lookup has started a micro-batch"
    # A continuous query has to be asked, once for all that want to know within a second.
    began = time.monotonic()
    asked = [server.get("queries/newest/lookup") for _ in range(5)]
    assert all(sorted(answer["rows"]) == sorted(asked[0]["rows"]) for answer in asked)
    assert sorted(row[-2:] for row in asked[0]["rows"]) == [["a", 4], ["b", 3]]
    took = time.monotonic() - began
    assert server.get("stats")["spark"]["batches"] <= batches + 2 + took / ASKED_SECONDS


def dashboard(server: Served) -> None:
    """It shows the last report of a window of rows, which has no rows, and not one that is over."""
    assert server.rows("low", 2) != []
    if chromium_path() is None:
        return
    from playwright.sync_api import expect

    with chromium() as browser:
        page = browser.new_page()
        page.goto(f"{server.address}/#low")
        answer = page.locator("#panel-answer")
        expect(answer).to_have_text("The answer at 1970-01-01 00:00:05 UTC has no rows.", timeout=PATIENCE_MS)
        batches = server.get("stats")["spark"]["batches"]
        with page.expect_response("**/v1/stats"):
            pass
        assert server.get("stats")["spark"]["batches"] <= batches + 1, "a page where nothing moves asks for nothing"


def refusals(server: Served) -> None:
    """What Spark cannot do is said in words, and changes nothing."""
    refused = server.push("files", [{"ts": 0, "v": 1}])
    assert refused.status_code == 409
    assert "is read by Spark from its connector 'json'" in refused.json()["error"]["message"]
    once = server.execute("SELECT COUNT(*) AS n FROM pushed [RANGE 1 SECOND]")
    assert once.status_code == 409
    assert "on Spark a one-time query reads the answer of a registered query" in once.json()["error"]["message"]
    assert server.execute("CREATE QUERY sums AS SELECT COUNT(*) AS n FROM pushed [NOW]").status_code in (400, 409)
    assert server.execute("CREATE QUERY x AS SELECT nothing FROM pushed [NOW]").status_code == 400
    assert server.execute("SELECT k, s FROM sums").json()["rows"] != []
    names = [definition["name"] for definition in server.get("catalog")["queries"]]
    assert names == ["sums", "newest", "low"]
    assert server.client.get("/v1/queries/absent/lookup").status_code == 404


def comes_and_goes(server: Served) -> None:
    """A query is created and dropped while the pipeline runs."""
    created = server.execute("CREATE QUERY counts AS SELECT COUNT(*) AS n FROM pushed [RANGE 1 SECOND SLIDE 1 SECOND]")
    assert created.status_code == 200, created.text
    assert "fragment" in server.get("queries/counts/explain")["text"]
    assert server.client.get("/v1/weave.svg").text.lstrip().startswith("<svg")
    assert "counts" in json.dumps(server.get("weave"))
    assert server.client.get("/v1/queries/counts/lookup").json()["rows"] == []
    assert server.execute("DROP QUERY counts").status_code == 200
    assert server.client.get("/v1/queries/counts/results").status_code == 404
    until(lambda: server.get("stats")["spark"]["state"] == "RUNNING")
