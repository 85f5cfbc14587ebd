"""The experiments are found by name, and what is not there is said."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from papers.__main__ import main
from papers.experiments import PAPER_EXPERIMENTS


@pytest.mark.parametrize("name", PAPER_EXPERIMENTS)
def test_every_experiment_has_its_function(name: str) -> None:
    experiment = PAPER_EXPERIMENTS[name]
    assert callable(getattr(importlib.import_module(f"papers.{experiment.module}"), experiment.function))


def test_without_a_name_they_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    names = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert names == sorted(PAPER_EXPERIMENTS)


def test_what_is_not_there_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    assert main(["golab2006-ch6", "--data", str(tmp_path)]) == 1
    assert "there is no connection trace" in capsys.readouterr().err
    assert main(["golab2006-ch66"]) == 1
    unknown = capsys.readouterr().err
    assert "did you mean" in unknown and "golab2006-ch6" in unknown
