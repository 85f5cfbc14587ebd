"""A server in a thread of a program that has something else to do."""

from __future__ import annotations

import httpx
import pytest

from panewise.serve.http.backends.engine_backend import EngineBackend
from panewise.serve.http.background_server import ServerBeside
from panewise.serve.http.service.settings import Settings


def test_it_answers_until_it_is_closed() -> None:
    settings = Settings(port=0)
    server = ServerBeside(settings, EngineBackend(settings))
    assert httpx.get(f"{server.address}/healthz").status_code == 200
    server.close()
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{server.address}/healthz")


def test_a_port_that_is_taken_is_passed_over() -> None:
    first = ServerBeside(Settings(port=0), EngineBackend(Settings()))
    taken = Settings(port=int(first.address.rpartition(":")[2]))
    second = ServerBeside(taken, EngineBackend(taken))
    try:
        assert first.address != second.address
        assert httpx.get(f"{second.address}/healthz").status_code == 200
    finally:
        second.close()
        first.close()
