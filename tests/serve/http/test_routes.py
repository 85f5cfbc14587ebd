"""What the routes answer where everything is right."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator

import httpx
import pyarrow as pa
import pytest

from panewise.engine.engine import Engine
from panewise.serve.http.service.settings import Settings, Token
from tests.engine.hosting.frail_aggregate import register
from tests.serve.http.serving import ARROW, BUSY, NDJSON, WRITE, all_results, define, ipc, rows, served

WANTS_ARROW = {"Accept": "application/vnd.apache.arrow.stream"}
VALUES = [(s, "ab"[s % 2], s) for s in range(10)]


@pytest.fixture
def client() -> Iterator[httpx.Client]:
    with served() as (client, _):
        define(client)
        yield client


@pytest.fixture
def expected() -> Engine:
    """The same, asked directly."""
    engine = Engine()
    engine.execute("CREATE STREAM t (ts TIMESTAMP, k STRING, v BIGINT)")
    engine.execute(f"CREATE QUERY busy AS {BUSY}")
    engine.push("t", [{"ts": s * 1_000_000, "k": k, "v": v} for s, k, v in VALUES])
    return engine


def _create(client: httpx.Client) -> httpx.Response:
    return client.post("/v1/queries", json={"name": "busy", "select": BUSY})


def _arrow(answer: httpx.Response) -> pa.Table:
    assert answer.headers["content-type"] == "application/vnd.apache.arrow.stream"
    return pa.ipc.open_stream(io.BytesIO(answer.content)).read_all()


def test_the_life_of_a_query(client):
    created = _create(client)
    assert created.status_code == 201
    query = created.json()
    assert (query["name"], query["status"], query["inputs"]) == ("busy", "RUNNING", ["t"])
    assert query["columns"][-1] == {"name": "total", "type": "BIGINT"}
    assert _create(client).status_code == 409
    assert [q["name"] for q in client.get("/v1/queries").json()["queries"]] == ["busy"]
    assert client.post("/v1/queries/BUSY/suspend").json()["status"] == "SUSPENDED"
    assert client.get("/v1/queries/busy").json()["status"] == "SUSPENDED"
    assert client.post("/v1/queries/busy/resume").json()["status"] == "RUNNING"
    explained = client.get("/v1/queries/busy/explain").json()
    assert "SUM" in explained["text"] and explained["plan"]
    catalog = client.get("/v1/catalog").json()
    assert [d["name"] for d in catalog["streams"]] == ["t"] and catalog["queries"][0]["statement"].startswith(
        "CREATE QUERY busy"
    )
    assert client.delete("/v1/queries/busy").status_code == 204
    assert client.delete("/v1/queries/busy").status_code == 404
    assert client.get("/v1/queries/busy/results").status_code == 404


def test_the_place_of_an_error_is_that_in_the_select(client):
    error = client.post("/v1/queries", json={"name": "q", "select": "SELECT SUM(\nw) AS x FROM t [NOW]"}).json()[
        "error"
    ]
    assert error["type"] == "BindError"
    assert error["at"] == {"line": 2, "column": 1, "length": 1}
    assert "^" in error["text"] and error["hint"]


def test_names_that_need_quotes(client):
    name = 'odd "name'
    assert client.post("/v1/queries", json={"name": name, "select": BUSY}).status_code == 201
    assert client.get("/v1/queries/odd%20%22name").json()["name"] == name
    assert client.delete("/v1/queries/odd%20%22name").status_code == 204


def test_options_of_a_query(client):
    created = client.post("/v1/queries", json={"name": "q", "select": BUSY, "options": {"technique": "recompute"}})
    assert created.status_code == 201, created.text
    assert "recompute" in created.json()["statement"]


@pytest.mark.parametrize("form", ["ndjson", "arrow", "packed arrow", "large strings"])
def test_rows_in_every_form_give_the_engines_answers(client, expected, form):
    _create(client)
    if form == "ndjson":
        pushed = client.post("/v1/streams/t/rows", content=rows(*VALUES), headers=NDJSON)
    else:
        table = pa.table({
            "ts": pa.array([s * 1_000_000 for s, _, _ in VALUES], pa.timestamp("us", tz="UTC")),
            "k": pa.array([k for _, k, _ in VALUES], pa.large_string() if form.startswith("large") else pa.string()),
            "v": [v for _, _, v in VALUES],
        })  # fmt: skip
        body = ipc(table, "zstd" if form.startswith("packed") else None)
        pushed = client.post("/v1/streams/t/rows", content=body, headers=ARROW)
    assert pushed.json() == {"rows": 10, "repeated": False}, pushed.text
    want = expected.lookup("busy")
    assert _arrow(client.get("/v1/queries/busy/lookup", headers=WANTS_ARROW)).to_pylist() == want.to_pylist()
    for _ in range(2):  # the second time it is published
        found = client.get("/v1/queries/busy/lookup").json()
        assert [row[2:] for row in found["rows"]] == [[r["k"], r["total"]] for r in want.to_pylist()]
        assert found["watermark"] == "1970-01-01T00:00:09.000000Z"
        assert found["age_seconds"] == 0.0
    results = [row[2:] for row in all_results(client, "busy", 17)]
    assert results == [[r["k"], r["total"]] for r in expected.results("busy").to_pylist()]


def test_a_push_with_late_rows_is_told_of_them(client):
    _create(client)
    assert "late" not in client.post("/v1/streams/t/rows", content=rows((9, "a", 1)), headers=NDJSON).json()
    told = client.post("/v1/streams/t/rows", content=rows((3, "a", 1), (12, "a", 1)), headers=NDJSON).json()
    assert (told["rows"], told["late"]["rows"]) == (2, 1)
    assert "1 of 3 rows of stream 't' came late" in told["late"]["remark"]
    assert "INTERVAL 6 SECONDS" in told["late"]["remark"]
    client.post("/v1/statements", json={"text": "ALTER STREAM t SET (late = 'drop')"})
    assert "late" not in client.post("/v1/streams/t/rows", content=rows((4, "a", 1)), headers=NDJSON).json()


def test_a_punctuation_far_ahead_is_refused(client):
    _create(client)
    refused = client.post("/v1/streams/t/advance", json={"until": "9999-12-31T00:00:00Z"})
    assert refused.status_code == 400, refused.text
    assert "ahead of the clock" in refused.json()["error"]["message"]
    late = client.post("/v1/streams/t/rows", content=rows((3, "a", 1)), headers=NDJSON).json()
    assert late == {"rows": 1, "repeated": False}


def test_lookups_by_key_and_at_an_instant(client, expected):
    _create(client)
    client.post("/v1/streams/t/rows", content=rows(*VALUES), headers=NDJSON)
    for key in ("a", '"a"', '{"k": "a"}', '["a"]'):
        found = client.get("/v1/queries/busy/lookup", params={"key": key}).json()
        assert [row[2] for row in found["rows"]] == ["a"]
    assert client.get("/v1/queries/busy/lookup", params={"key": "zebra"}).json()["rows"] == []
    end = expected.lookup("busy")["window_end"][0].as_py()
    now = client.get("/v1/queries/busy/lookup").json()["rows"]
    for at in (end.isoformat(), str(int(end.timestamp() * 1e6))):
        assert client.get("/v1/queries/busy/lookup", params={"at": at}).json()["rows"] == now
    assert client.get("/v1/queries/busy/lookup", params={"at": "1970-01-01T00:00:02Z"}).status_code == 410
    assert client.get("/v1/queries/busy/lookup", params={"at": "2970-01-01T00:00:02Z"}).status_code == 410


def test_a_lookup_sees_what_was_pushed_before_it(client):
    """Over and over, by one caller, through whichever threads of the server."""
    client.post("/v1/queries", json={"name": "n", "select": "SELECT COUNT(*) AS n FROM t [RANGE 1 DAY SLIDE 1 SECOND]"})
    for second in range(1, 60):
        client.post("/v1/streams/t/rows", content=rows((second, "a", 1)), headers=NDJSON)
        found = client.get("/v1/queries/n/lookup").json()["rows"]
        assert [row[-1] for row in found] == ([second - 1] if second > 1 else [])


def test_statements_as_json_and_arrow(client):
    answer = client.post("/v1/statements", json={"text": "SHOW STREAMS"})
    assert answer.json()["columns"][0] == {"name": "name", "type": "STRING"}
    assert answer.json()["rows"][0][0] == "t"
    shown = _arrow(client.post("/v1/statements", json={"text": "SHOW STREAMS"}, headers=WANTS_ARROW))
    assert shown["name"].to_pylist() == ["t"]
    nothing = client.post("/v1/statements", json={"text": "CREATE STREAM u (ts TIMESTAMP)"}, headers=WANTS_ARROW)
    assert _arrow(nothing).num_columns == 0


def test_statements_before_a_wrong_one_have_been_executed_and_that_is_said(client):
    text = "CREATE STREAM u (ts TIMESTAMP); CREATE STREAM w (ts TIMESTAMP); DROP STREAM nowhere; DROP STREAM u"
    error = client.post("/v1/statements", json={"text": text}).json()["error"]
    assert error["executed"] == 2
    assert [d["name"] for d in client.get("/v1/catalog").json()["streams"]] == ["t", "u", "w"]


LARGE_SUM = ((1, "a", 2**62), (1, "a", 2**62), (1, "a", 2**62), (5, "a", 1))


def test_a_failed_query_is_a_conflict():
    with served() as (client, backend):
        register(backend.engine)
        define(client)
        select = "SELECT FRAIL(v) AS s FROM t [RANGE 9 SECONDS SLIDE 1 SECOND]"
        client.post("/v1/queries", json={"name": "sum", "select": select})
        client.post("/v1/streams/t/rows", content=rows(*LARGE_SUM), headers=NDJSON)
        assert client.get("/v1/queries/sum").json()["status"] == "FAILED"
        assert client.get("/v1/queries/sum/lookup").status_code == 409
        assert client.post("/v1/queries/sum/resume").status_code == 409
        assert client.delete("/v1/queries/sum").status_code == 204


def test_a_sum_that_overflows_is_null_and_its_query_says_so(client):
    select = "SELECT SUM(v) AS s FROM t [RANGE 9 SECONDS SLIDE 1 SECOND]"
    client.post("/v1/queries", json={"name": "sum", "select": select})
    client.post("/v1/streams/t/rows", content=rows(*LARGE_SUM), headers=NDJSON)
    found = client.get("/v1/queries/sum").json()
    assert (found["status"], found["reason"][:14]) == ("RUNNING", "answers of SUM")
    assert client.get("/v1/stats").json()["queries"]["sum"]["overflows"] > 0
    assert client.get("/v1/queries/sum/lookup").status_code == 200


def test_a_full_queue_says_to_come_back(client):
    with served(push_timeout_s=0.05, tokens=(Token("write", WRITE, "w"),)) as (client, backend):
        define(client, "ALTER STREAM t SET (queue = 1)")
        queue = backend.engine.streams["t"].queue
        assert queue is not None
        with backend.engine.turns:  # nobody takes anything out of the queue
            answers = [client.post("/v1/streams/t/rows", content=rows((s, "a", 1)), headers=NDJSON) for s in range(3)]
        assert answers[-1].status_code == 503
        assert answers[-1].headers["retry-after"]
        assert answers[-1].json()["error"]["type"] == "OverloadError"


def test_unknown_names_and_methods(client):
    for path in ("/v1/queries/no", "/v1/queries/no/explain", "/v1/queries/no/lookup", "/v1/queries/t/lookup",
                 "/v1/queries/no/results", "/v1/streams/no/producers/p", "/v1/nothing"):  # fmt: skip
        answer = client.get(path)
        assert answer.status_code == 404, path
        assert set(answer.json()["error"]) == {"type", "message", "hint", "at", "text"}
    assert client.post("/v1/streams/no/rows", content=rows((1, "a", 1)), headers=NDJSON).status_code == 404
    assert client.post("/v1/streams/no/advance", json={"until": 5}).status_code == 404
    assert client.put("/v1/catalog").status_code == 405
    assert client.put("/v1/catalog").json()["error"]["type"] == "MethodNotAllowed"


def test_too_many_rows_are_refused_in_words():
    with served(max_result_rows=5) as (client, _):
        define(client, f"CREATE QUERY busy AS {BUSY}", "ALTER STREAM t SET (retain = '1 hour')")
        client.post(
            "/v1/streams/t/rows", content=rows(*((1, f"k{i}", 1) for i in range(9)), (5, "z", 1)), headers=NDJSON
        )
        answer = client.post("/v1/statements", json={"text": "SELECT k, v FROM t [RANGE 1 MINUTE]"})
        assert answer.status_code == 413
        assert "at most 5 are sent" in answer.json()["error"]["message"]
        assert client.get("/v1/queries/busy/lookup").status_code in (200, 413)


def test_figures_for_prometheus(client):
    _create(client)
    client.post("/v1/streams/t/rows", content=rows(*VALUES), headers=NDJSON)
    client.get("/v1/queries/busy/lookup")
    lines = client.get("/metrics").text.splitlines()
    assert 'panewise_stream_rows_total{stream="t"} 10.0' in lines
    assert 'panewise_queries{status="running"} 1.0' in lines
    assert 'panewise_stream_watermark_seconds{stream="t"} 9.0' in lines
    assert any(line.startswith('panewise_query_results_total{query="busy"} 17') for line in lines)
    assert 'panewise_http_requests_total{method="POST",route="/v1/streams/{name}/rows",status="200"} 1.0' in lines
    assert any(line.startswith("panewise_http_request_seconds_bucket") for line in lines)


def test_health_and_readiness(tmp_path):
    with served(path=tmp_path) as (client, backend):
        assert client.get("/healthz").json() == {"status": "ok"}
        assert client.get("/readyz").json() == {"status": "ready"}
        backend.close()
        assert client.get("/healthz").status_code == 200
        answer = client.get("/readyz")
        assert (answer.status_code, answer.json()["status"]) == (503, "the server is ending")
        define_again = client.post("/v1/statements", json={"text": "CREATE STREAM t (ts TIMESTAMP)"})
        assert define_again.status_code == 503


def test_what_is_shared(client):
    _create(client)
    client.post("/v1/queries", json={"name": "calm", "select": BUSY.replace("2 SECONDS", "4 SECONDS")})
    odd = "<script>alert(1)</script>&"
    assert client.post("/v1/queries", json={"name": odd, "select": BUSY}).status_code == 201
    assert client.get("/v1/weave").json()["queries"] == 3
    assert "<script" not in client.get("/v1/weave.svg").text
    svg = client.get("/v1/weave.svg")
    assert svg.headers["content-type"].startswith("image/svg+xml") and svg.text.lstrip().startswith("<")
    assert client.get("/v1/explain").json()["text"].startswith("PLAN")
    assert client.get("/v1/stats").json()["kind"] == "embedded"


def test_settings_that_make_no_sense():
    from panewise.errors import PanewiseError

    for wrong in ({"port": -1}, {"log": "xml"}, {"max_queries": 0}, {"requests_per_second": -1}):
        with pytest.raises(PanewiseError):
            Settings(**wrong).check()
    assert json.dumps(Settings().port) == "8461"
