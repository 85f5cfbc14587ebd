"""Frequent items of a connection trace, on traces small enough to follow."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from papers import plots
from papers.__main__ import main
from papers.connection_trace import TRACE
from papers.golab2006 import ch6


def trace(folder: Path, sources: list[str]) -> None:
    lines = [f"{1000 + i}.5\tuid\t{source}" for i, source in enumerate(sources)]
    text = "\n".join(["ts\tuid\tid.orig_h", *reversed(lines)]) + "\n"
    with pa.output_stream(str(folder / TRACE), compression="zstd") as stream:
        stream.write(text.encode())


def test_sources_come_in_the_order_of_time(tmp_path: Path) -> None:
    trace(tmp_path, ["a", "b", "a", "c"])
    assert ch6.source_addresses(tmp_path / TRACE).tolist() == [0, 1, 0, 2]


def test_outcomes_follow_the_definitions() -> None:
    # Sub-windows of 20 rows: one item 12 times, another 5 times, three once each; the rare ones change.
    rows = [[0] * 12 + [1] * 5 + [2 + 3 * i, 3 + 3 * i, 4 + 3 * i] for i in range(25)]
    items = np.array(rows, np.int64).reshape(-1)
    found = {(outcome.sub_window, outcome.k): outcome for outcome in ch6.measured(items, 500, 3)}
    one, two, three = found[20, 1], found[20, 2], found[20, 3]
    assert (one.delta, one.over, one.reported) == (12 / 20, 0, 0)
    assert np.isnan(one.found)
    assert (two.delta, two.over, two.reported, two.found) == (5 / 20, 1, 1, 1)
    assert (three.delta, three.over, three.reported, three.found, three.error) == (1 / 20, 2, 2, 1, 0)
    assert two.pairs == 25 * 2 + 2  # the lists, and the counters of both items
    assert not any(outcome.false for outcome in found.values())


def test_the_figure_is_printed_and_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(plots, "figures_folder", lambda: tmp_path)
    rng = np.random.default_rng(2)
    trace(tmp_path, [f"10.0.0.{source}" for source in np.minimum(rng.zipf(1.5, 12_000), 250)])
    assert main(["golab2006-ch6", "--quick", "--data", str(tmp_path)]) == 0
    assert "aim: false reports: 0; measured 0: met" in capsys.readouterr().out
    assert (tmp_path / "papers-golab2006-ch6_10000.png").stat().st_size > 10_000
