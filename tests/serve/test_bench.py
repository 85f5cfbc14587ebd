"""`panewise bench`: figures of papers by name, on traces small enough to follow."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from typer.testing import CliRunner

from panewise.serve.bench import FIGURES
from panewise.serve.cli import app
from panewise.serve.papers import frequent_items, plots
from panewise.serve.papers.connection_trace import TRACE


def trace(folder: Path, sources: list[str]) -> None:
    lines = [f"{1000 + i}.5\tuid\t{source}" for i, source in enumerate(sources)]
    text = "\n".join(["ts\tuid\tid.orig_h", *reversed(lines)]) + "\n"
    with pa.output_stream(str(folder / TRACE), compression="zstd") as stream:
        stream.write(text.encode())


def test_sources_come_in_the_order_of_time(tmp_path: Path) -> None:
    trace(tmp_path, ["a", "b", "a", "c"])
    assert frequent_items.source_addresses(tmp_path / TRACE).tolist() == [0, 1, 0, 2]


def test_outcomes_follow_the_definitions() -> None:
    # Sub-windows of 20 rows: one item 12 times, another 5 times, three once each; the rare ones change.
    rows = [[0] * 12 + [1] * 5 + [2 + 3 * i, 3 + 3 * i, 4 + 3 * i] for i in range(25)]
    items = np.array(rows, np.int64).reshape(-1)
    found = {(outcome.sub_window, outcome.k): outcome for outcome in frequent_items.measured(items, 500, 3)}
    one, two, three = found[20, 1], found[20, 2], found[20, 3]
    assert (one.delta, one.over, one.reported) == (12 / 20, 0, 0)
    assert np.isnan(one.found)
    assert (two.delta, two.over, two.reported, two.found) == (5 / 20, 1, 1, 1)
    assert (three.delta, three.over, three.reported, three.found, three.error) == (1 / 20, 2, 2, 1, 0)
    assert two.pairs == 25 * 2 + 2  # the lists, and the counters of both items
    assert not any(outcome.false for outcome in found.values())


def test_the_figure_is_printed_and_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(plots, "figures_folder", lambda: tmp_path)
    rng = np.random.default_rng(2)
    trace(tmp_path, [f"10.0.0.{source}" for source in np.minimum(rng.zipf(1.5, 12_000), 250)])
    result = CliRunner().invoke(app, ["bench", "papers-001-6", "--quick", "--data", str(tmp_path)])
    assert result.exit_code == 0, result.output
    assert "aim: false reports: 0; measured 0: met" in result.output
    assert (tmp_path / "papers-001-6_10000.png").stat().st_size > 10_000


def test_what_is_not_there_is_said(tmp_path: Path) -> None:
    runner = CliRunner(env={"COLUMNS": "300"})
    missing = runner.invoke(app, ["bench", "papers-001-6", "--data", str(tmp_path)])
    assert missing.exit_code == 1
    assert "there is no connection trace" in missing.output
    unknown = runner.invoke(app, ["bench", "papers-001-66"])
    assert unknown.exit_code == 1
    assert "did you mean" in unknown.output and "papers-001-6" in unknown.output


@pytest.mark.parametrize("name", FIGURES)
def test_every_figure_has_its_module(name: str) -> None:
    import importlib

    assert callable(importlib.import_module(f"panewise.serve.papers.{FIGURES[name].module}").run)
