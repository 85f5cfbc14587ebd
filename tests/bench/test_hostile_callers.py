"""The server beside callers that mean no good, on a small scale: nothing is lost, and what is too much is refused."""

from __future__ import annotations

from bench import hostile_callers


def test_the_others_lose_nothing() -> None:
    figures = hostile_callers.measure(seconds=2.0, hostile=True)
    assert figures["wrong"] == []
    assert figures["worst reads"] > 0 and set(figures["refused"]) == {"413"}
    assert figures["far ahead"] > 0 and figures["pushes"] > 0 and figures["lookups"] > 0
