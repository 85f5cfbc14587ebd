"""The package as a whole: what importing it costs, and that its public names are there."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import panewise

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_importing_the_package_imports_nothing_heavy() -> None:
    heavy = {"pyspark", "numba", "pyarrow", "pandas", "sqlglot"}
    script = f"import sys, panewise; print(sorted({heavy} & set(sys.modules)))"
    outcome = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert outcome.stdout.strip() == "[]"


def test_every_public_name_resolves() -> None:
    for name in panewise.__all__:
        assert getattr(panewise, name) is not None


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Motor'"):
        panewise.Motor  # noqa: B018


def test_the_version_is_that_of_the_project_file() -> None:
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))
    assert project["project"]["version"] == panewise.__version__


@pytest.mark.spark
def test_a_spark_session_starts(spark: SparkSession) -> None:
    assert spark.range(3).count() == 3
