"""The benchmark of durability: every side answers alike, and a wrong answer would be noticed."""

from __future__ import annotations

import pytest

from bench import durability


def test_every_side_agrees_and_is_measured() -> None:
    figure = durability.measure(count=150_000, repeat=1)
    for name in ("none", *durability.SYNCS):
        assert figure[name]["disagreement"] == ""
        assert figure[name]["seconds"] > 0
    assert figure["none"]["log_bytes"] == 0
    assert figure["batch"]["log_bytes"] > 150_000 * 24
    assert figure["disk"]["to_disk"] == pytest.approx(1.0)
    assert min(figure["replay_s"], figure["close_s"], figure["reopen_s"]) > 0


def test_a_lost_push_is_noticed() -> None:
    import pyarrow as pa

    pushes = durability.window_rows.batches("BIGINT", 150_000)
    _, tables = durability.session(pushes[:-1], None, "batch")
    assert durability.window_rows.disagreement(pa.concat_tables(tables), 150_000, durability.RANGE_S)


def test_many_queries_cost_little_each() -> None:
    figure = durability.many_queries(queries=20)
    assert 0 < figure["bytes"] < 20 * 10_000
