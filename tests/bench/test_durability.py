"""The benchmark of durability: every side answers alike, and a wrong answer would be noticed."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from bench import durability

ROWS = 150_000


@pytest.mark.parametrize("side", durability.ENGINES)
def test_every_side_agrees(side: str, tmp_path: Path) -> None:
    setting = durability.setting_of(side, str(tmp_path), ROWS)
    for _ in range(2):
        setting.session()()
        setting.settle()
    told = setting.after()
    assert told["disagreement"] == ""
    if side == "none":
        assert told["log_bytes"] == 0
    else:
        assert told["log_bytes"] > ROWS * 24
        assert durability.open_and_close(str(tmp_path / side))["close_s"] > 0
        assert durability.open_only(str(tmp_path / side))["snapshot_bytes"] > 0


@pytest.mark.soak
def test_every_side_is_measured() -> None:
    figure = durability.measure(count=ROWS, repeat=1)
    for name in durability.ENGINES:
        assert figure[name]["disagreement"] == ""
        assert figure[name]["seconds"] > 0
    assert figure["disk"]["bytes"] == pytest.approx(figure["batch"]["log_bytes"], rel=0.01)
    assert figure["disk"]["to_disk"] == pytest.approx(1.0)
    assert min(figure["replay_s"], figure["close_s"], figure["reopen_s"]) > 0


def test_a_lost_push_is_noticed() -> None:
    pushes = durability.window_rows.batches("BIGINT", ROWS)
    _, tables = durability.session(pushes[:-1], None, "batch")
    assert durability.window_rows.disagreement(pa.concat_tables(tables), ROWS, durability.RANGE_S)


def test_many_queries_cost_little_each(tmp_path: Path) -> None:
    durability.close_many_queries(str(tmp_path), queries=20)
    assert 0 < durability.open_only(str(tmp_path))["snapshot_bytes"] < 20 * 10_000
