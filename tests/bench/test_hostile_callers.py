"""The server beside callers that mean no good, on a small scale: nothing is lost, and what is too much is refused."""

from __future__ import annotations

import pytest

from bench import hostile_callers
from tests.waiting import PATIENCE_S


def test_the_others_lose_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hostile_callers, "FINISH_S", PATIENCE_S)
    figures = hostile_callers.measure(seconds=2.0, hostile=True)
    assert figures["wrong"] == []
    assert figures["worst reads"] > 0 and set(figures["refused"]) == {"413"}
    assert figures["far ahead"] > 0 and figures["pushes"] > 0 and figures["lookups"] > 0
