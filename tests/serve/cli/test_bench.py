"""`panewise bench`: what it runs in the source tree, and what it says where there is none."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from panewise.serve.cli import bench
from panewise.serve.cli.cli import app


def started(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "panewise.serve.cli.cli", "bench", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_experiments_of_papers_are_listed_and_found_by_name(tmp_path: Path) -> None:
    listed = started("papers")
    assert listed.returncode == 0, listed.stderr
    assert "golab2006-ch6" in listed.stdout
    missing = started("papers-golab2006-ch6", "--data", str(tmp_path))
    assert missing.returncode == 1
    assert "there is no connection trace" in missing.stderr


def test_a_benchmark_that_is_not_there_is_refused() -> None:
    unknown = started("paper")
    assert unknown.returncode != 0
    assert "there is no benchmark 'paper'" in unknown.stderr


def test_names_and_options_reach_what_is_run(tmp_path: Path) -> None:
    papers = bench.bench_command("papers-golab2006-ch4-large", False, tmp_path)[2:]
    assert papers == ["papers", "golab2006-ch4-large", "--data", str(tmp_path)]
    assert bench.bench_command(None, True, None)[2:] == ["bench", "--quick"]


@pytest.mark.parametrize("name", [[], ["windows"], ["papers-golab2006-ch4"]])
def test_without_a_source_tree_it_says_where_there_is_one(name: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "source_tree", lambda: None)
    result = CliRunner().invoke(app, ["bench", *name])
    assert result.exit_code == 1
    assert "installed without it" in result.output and "make bench" in result.output
    assert "python -m papers" in result.output
