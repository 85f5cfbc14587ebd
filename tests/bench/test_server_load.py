"""The load of a server on a small scale: everything arrives once, and it would be noticed if it did not."""

from __future__ import annotations

import copy

import pytest

from bench import server_load
from bench.server_load import Outcome, disagreements, expected_rows
from bench.server_traffic import Lookups, Subscriber
from tests.waiting import PATIENCE_S


def test_subscribers_and_lookups_agree_with_the_embedded_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_load, "FINISH_S", PATIENCE_S)
    figures = server_load.measure(seconds=1.5, subscribers=12, lookups_per_s=200, kills=0)
    assert figures["agrees"], figures["wrong"]
    assert figures["rows delivered"] > 0
    assert figures["lookups checked"] > 0


def test_what_is_lost_repeated_or_wrong_is_noticed() -> None:
    expected = expected_rows(pushes=30)
    rows = {"totals": dict(enumerate(expected["totals"]))}
    outcome = Outcome(queries=["totals"], rows=rows)
    outcome.subscribers = [subscriber := Subscriber(1, "totals", rows["totals"])]
    outcome.lookups = Lookups(1, ["totals"], 1, 1)
    subscriber._take({"type": "rows", "first": 0, "rows": expected["totals"]})
    last = [row for row in expected["totals"] if row[1] == expected["totals"][-1][1]]
    outcome.lookups.sample = [("totals", {"rows": last})]
    assert disagreements(outcome, expected) == []

    outcome.lookups.sample.append(("totals", {"rows": last[:-1]}))
    outcome.lookups.refused[503] = 2
    subscriber._take({"type": "rows", "first": 3, "rows": expected["totals"][3:5]})
    wrong = copy.copy(expected["totals"][5])
    wrong[-1] += 1
    subscriber._take({"type": "rows", "first": 5, "rows": [wrong]})
    found = "\n".join(disagreements(outcome, expected))
    for said in ("row 3 where", "another subscriber got", "has 6 of", "answered with 503", "is not the report at"):
        assert said in found
    rows["totals"][0] = wrong
    assert "differ from those of the embedded engine" in "\n".join(disagreements(outcome, expected))
