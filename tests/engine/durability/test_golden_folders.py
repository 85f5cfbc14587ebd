"""Folders that earlier commits have written open, and give the answers that were recorded with them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import panewise as pw
from tests.golden_folders import FOLDER, SCENES, played, recorded, same, unpack


@pytest.mark.parametrize("name", list(recorded()))
def test_a_folder_of_before_opens_and_goes_on(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    unpack((FOLDER / f"{name}.tar.xz").read_bytes(), tmp_path)
    monkeypatch.chdir(tmp_path)  # paths of archives are relative
    told = json.loads((FOLDER / f"{name}.json").read_text())
    with pw.Engine("engine", sharing=told["sharing"]) as engine:
        for part in told["steps"]:
            (answer,) = played(engine, [part["step"]])
            assert same(answer, part["answer"]), (part["step"][:2], answer, part["answer"])


def test_every_scene_is_recorded() -> None:
    assert set(recorded()) == set(SCENES)
