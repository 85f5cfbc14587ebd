"""The lines of the log: one a request, no token, no row, and nothing that a caller could make look like a line."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator

import pytest
from websockets.sync.client import connect

from panewise.serve.http.service import logs
from tests.serve.http.serving import BUSY, NDJSON, READ, TOKENS, WRITE, define, rows, served


class _Kept(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


@pytest.fixture
def lines() -> Iterator[list[logging.LogRecord]]:
    kept, before = _Kept(), logs.LOGGER.level
    logs.LOGGER.addHandler(kept)
    logs.LOGGER.setLevel(logging.INFO)
    yield kept.records
    logs.LOGGER.removeHandler(kept)
    logs.LOGGER.setLevel(before)


@pytest.mark.parametrize("form", [logs.JsonLines(), logs.TextLines()])
def test_a_line_a_request_without_tokens_and_rows(lines, form):
    with served(tokens=TOKENS) as (client, _):
        define(client, f"CREATE QUERY busy AS {BUSY}")
        client.post("/v1/streams/t/rows", content=rows((1, "a-secret-cell", 4711)), headers=NDJSON)
        client.get("/v1/queries/busy/lookup")
        client.get("/v1/stats", headers={"Authorization": "Bearer wrong-token"})
        with client.stream("GET", f"/v1/queries/busy/live?token={READ}"):
            pass
    told = [form.format(line) for line in lines if line.getMessage() == "request"]
    assert len(told) == 6
    text = "\n".join(told)
    for secret in (READ, WRITE, "wrong-token", "a-secret-cell", "4711"):
        assert secret not in text
    assert "writer" in told[0]
    assert "/v1/streams/t/rows" in told[2]
    assert "401" in told[4]


def test_json_lines_are_json(lines):
    logs.request("GET", "/x", 200, 1.2345, "press")
    line = json.loads(logs.JsonLines().format(lines[-1]))
    assert line | {"time": ""} == {
        "time": "", "level": "info", "message": "request", "method": "GET", "path": "/x", "status": 200, "ms": 1.23,
        "token": "press",
    }  # fmt: skip


def test_a_path_cannot_forge_a_line(lines):
    logs.request("GET", "/x\n2026-01-01 info request path=/forged", 200, 1.0, "-")
    for form in (logs.JsonLines(), logs.TextLines()):
        assert len(form.format(lines[-1]).splitlines()) == 1


def test_a_mistake_of_ours_is_told_to_the_log_only(lines, monkeypatch):
    with served() as (client, backend):
        monkeypatch.setattr(backend, "stats", lambda: 1 // 0)
        answer = client.get("/v1/stats")
        assert answer.status_code == 500
        assert answer.json()["error"]["type"] == "InternalError"
        assert "ZeroDivision" not in answer.text
        assert client.get("/healthz").status_code == 200
    assert any(line.exc_info and line.exc_info[0] is ZeroDivisionError for line in lines)
    assert "ZeroDivisionError" in logs.TextLines().format(next(line for line in lines if line.exc_info))


def test_lines_go_to_standard_error(capfd):
    loggers = [logging.getLogger(name) for name in ("panewise.serve", "uvicorn", "uvicorn.error")]
    before = [(list(logger.handlers), logger.propagate, logger.level) for logger in loggers]
    try:
        logs.configure("json")
        logs.event("serving", address="here")
        sys.stderr.flush()
        out, err = capfd.readouterr()
        assert json.loads(err)["address"] == "here"
        assert not out
    finally:
        for logger, (handlers, propagate, level) in zip(loggers, before, strict=True):
            logger.handlers, logger.propagate, logger.level = handlers, propagate, level


def test_a_program_that_logs_everything_does_not_log_tokens(caplog: pytest.LogCaptureFixture) -> None:
    """A server in a program of somebody else, whose loggers write all that is information."""
    with caplog.at_level(logging.INFO), served(tokens=TOKENS) as (client, _):
        address = str(client.base_url).replace("http://", "ws://").rstrip("/")
        with connect(f"{address}/v1/live?token={READ}"):
            pass
    assert READ not in caplog.text
