"""A broken engine is a 503 with a sentence; a folder that is served with --suspended lets a query be dropped."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from panewise.engine.durability.suspended_folder import REASON
from panewise.engine.engine import Engine
from panewise.engine.ingest.stream import Stream
from panewise.errors import PanewiseError
from panewise.serve.cli.served_run import serve_suspended
from panewise.serve.http.service.metrics import BackendCollector
from panewise.serve.http.service.settings import Settings
from tests.serve.http.serving import BUSY, NDJSON, served
from tests.waiting import until

STREAM = "CREATE STREAM t (ts TIMESTAMP, k STRING, v BIGINT)"
ROWS = [{"ts": second * 1_000_000, "k": "a", "v": 1} for second in range(5)]
BODY = "".join(json.dumps(row) + "\n" for row in ROWS)


def test_every_request_says_that_the_engine_is_broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: Any, **__: Any) -> None:
        raise MemoryError

    with served(path=tmp_path) as (client, backend):
        for text in (STREAM, f"CREATE QUERY busy AS {BUSY}"):
            assert client.post("/v1/statements", json={"text": text}).status_code == 200
        pushed = client.post("/v1/streams/t/rows", content=BODY, headers=NDJSON)
        assert pushed.status_code == 200, pushed.text
        monkeypatch.setattr(Stream, "_process", failing)
        client.post("/v1/streams/t/rows", content=BODY, headers=NDJSON)
        client.post("/v1/statements", json={"text": "SHOW QUERIES"})  # processes what waits, if nobody has by now
        until(lambda: backend.engine.turns.broken)
        answers = [
            client.post("/v1/streams/t/rows", content=BODY, headers=NDJSON),
            client.get("/v1/queries/busy/lookup"),
            client.post("/v1/statements", json={"text": "SHOW QUERIES"}),
            client.get("/readyz"),
        ]
        assert [answer.status_code for answer in answers] == [503] * 4
        assert all("in the middle of a change" in answer.text for answer in answers)
        assert "open" in answers[0].json()["error"]["hint"]
        assert str(tmp_path) not in answers[-1].text
    monkeypatch.undo()
    with Engine(tmp_path / "engine") as again:
        assert again.stats()["streams"]["t"]["rows"] in (5, 10)


def test_a_suspended_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Engine(tmp_path / "engine") as engine:
        for text in (STREAM, f"CREATE QUERY busy AS {BUSY}", f"CREATE QUERY other AS {BUSY}"):
            engine.execute(text)
        engine.push("t", ROWS)

    def drop(settings: Settings, backend: Any) -> None:
        with pytest.raises(Exception, match="suspended=True"):
            backend.push("t", ROWS, producer=None, sequence=None, timeout=None)
        with pytest.raises(Exception, match="suspended=True"):
            backend.last_sequence("t", "p")
        backend.take_results()
        assert backend.ready().summary == REASON
        figures = [sample for family in BackendCollector(backend.stats, int).collect() for sample in family.samples]
        assert not [sample.name for sample in figures if {"stream", "query"} & set(sample.labels)]
        backend.execute("DROP QUERY busy")
        backend.close()

    monkeypatch.setattr("panewise.serve.cli.served_run.run_server", drop)
    serve_suspended(None, Settings(path=tmp_path))
    with Engine(tmp_path / "engine") as engine:
        assert engine.execute("SHOW QUERIES")["name"].to_pylist() == ["other"]
        assert engine.results("other").num_rows == 4


def test_what_cannot_be_served_suspended_is_said(tmp_path: Path) -> None:
    with pytest.raises(PanewiseError, match="--path"):
        serve_suspended(None, Settings())
    with pytest.raises(PanewiseError, match=r"cannot take 'a\.cql'"):
        serve_suspended(Path("a.cql"), Settings(path=tmp_path))
    with pytest.raises(PanewiseError, match="has no folder 'engine'"):
        serve_suspended(None, Settings(path=tmp_path))
    assert not list(tmp_path.iterdir())
