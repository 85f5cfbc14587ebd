"""One-time queries over HTTP: refused where they need too much, and nobody else waits for them."""

from __future__ import annotations

import threading

import pytest

from panewise.errors import ReadLimitError
from panewise.operators.read_budget import ReadBudget
from panewise.serve.client.problems import problem_of
from panewise.serve.http.backends.engine_backend import EngineBackend
from panewise.serve.http.service.settings import Settings
from tests.serve.http.serving import NDJSON, READ, TOKENS, served
from tests.waiting import PATIENCE_S

DEFINED = """CREATE STREAM t (ts TIMESTAMP, k BIGINT, v BIGINT) WITH (retain = '1 hour');
    CREATE QUERY q AS SELECT COUNT(*) AS n FROM t [RANGE 1 HOUR]"""
JOIN = "SELECT a.v FROM t [RANGE 1 HOUR] AS a, t [RANGE 1 HOUR] AS b WHERE a.k = b.k"
ROWS = "\n".join(f'{{"ts": {second * 1_000_000}, "k": 1, "v": {second}}}' for second in range(300))
AS_READER = {"Authorization": f"Bearer {READ}"}


def define(client) -> None:
    assert client.post("/v1/statements", json={"text": DEFINED}).status_code == 200
    assert client.post("/v1/streams/t/rows", content=ROWS, headers=NDJSON).status_code == 200


@pytest.mark.parametrize(
    ("limit", "value"),
    [("read_rows", 1_000), ("read_bytes", 10_000), ("read_seconds", 1e-9)],
    ids=lambda given: str(given),
)
def test_a_select_that_needs_too_much_is_refused_and_says_why(limit, value):
    with served(tokens=TOKENS, **{limit: value}) as (client, _):
        define(client)
        answer = client.post("/v1/statements", json={"text": JOIN}, headers=AS_READER)
        assert answer.status_code == 413
        error = answer.json()["error"]
        assert error["type"] == "ReadLimitError"
        assert limit in error["message"]
        assert limit in error["hint"]
        assert isinstance(problem_of(413, answer.content, JOIN, "a SELECT"), ReadLimitError)
        few = client.post("/v1/statements", json={"text": "SHOW STREAMS"}, headers=AS_READER)
        assert few.status_code == 200


def test_pushes_lookups_and_statements_go_on_while_as_many_read_as_may(monkeypatch):
    begun, over = threading.Semaphore(0), threading.Event()
    take = ReadBudget.take

    def slow(budget, rows=0, size=0):
        begun.release()
        assert over.wait(PATIENCE_S)
        take(budget, rows, size)

    with served(tokens=TOKENS, worker_threads=1, max_reads=2) as (client, backend):
        define(client)
        monkeypatch.setattr(ReadBudget, "take", slow)
        answers = []

        def read():
            answers.append(client.post("/v1/statements", json={"text": JOIN}, headers=AS_READER).status_code)

        readers = [threading.Thread(target=read) for _ in range(4)]
        for reader in readers:
            reader.start()
        try:
            assert begun.acquire(timeout=PATIENCE_S)
            assert begun.acquire(timeout=PATIENCE_S)
            row = '{"ts": 400000000, "k": 2, "v": 0}'
            assert client.post("/v1/streams/t/rows", content=row, headers=NDJSON).status_code == 200
            assert client.post("/v1/statements", json={"text": "CREATE TABLE names (v BIGINT)"}).status_code == 200
            assert client.get("/v1/queries/q/lookup").status_code == 200
            assert backend.engine.stats()["reads"]["begun"] == 2, "the others wait without a turn"
        finally:
            over.set()
        for reader in readers:
            reader.join(PATIENCE_S)
        assert answers == [200] * 4


def test_the_limits_of_the_server_are_those_of_its_engine():
    backend = EngineBackend(Settings(read_rows=5, read_bytes=6, read_seconds=7.5))
    limits = backend.engine.reads.limits
    backend.close()
    assert (limits.rows, limits.bytes, limits.seconds) == (5, 6, 7.5)
