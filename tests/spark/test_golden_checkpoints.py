"""Checkpoints that earlier commits have written go on, with the results that were recorded with them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.golden_checkpoints import FOLDER, SCENES, recorded, run, taken_out
from tests.golden_folders import same

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("name", list(recorded()))
def test_a_checkpoint_of_before_goes_on(name: str, spark: SparkSession, tmp_path: Path) -> None:
    place = taken_out((FOLDER / f"{name}.tar.xz").read_bytes(), tmp_path)
    told = json.loads((FOLDER / f"{name}.json").read_text())
    found = run(spark, place, told["steps"])
    assert set(found) == set(told["results"])
    for query, results in found.items():
        assert same(results, told["results"][query]), (query, results, told["results"][query])


def test_every_scene_is_recorded() -> None:
    assert set(recorded()) == set(SCENES)
