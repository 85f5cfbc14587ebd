"""The package as a whole: what importing it costs, that its public names are there, and what it is installed with."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hatchling.builders.sdist import SdistBuilder
from hatchling.builders.wheel import WheelBuilder
from packaging.requirements import Requirement

import panewise

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
DEPENDENCIES = [Requirement(text) for text in PROJECT["project"]["dependencies"]]

PRIVATE_IMPORT = re.compile(r"^ *from (\w+)(?:[\w.]*\._[a-z]\w*[\w.]* import|[\w.]* import.*\b_[A-Za-z])", re.MULTILINE)


def is_bounded(requirement: Requirement) -> bool:
    return any(specifier.operator == "<" for specifier in requirement.specifier)


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
    assert PROJECT["project"]["version"] == panewise.__version__


@pytest.mark.parametrize(
    "package", ["fastapi", "httptools", "numba", "pyspark", "sqlglot", "starlette", "uvicorn", "websockets"]
)
def test_what_is_used_behind_its_interface_is_bounded_above(package: str) -> None:
    """A version that does not exist yet may change what no document promises; the next one is tried first."""
    (found,) = [requirement for requirement in DEPENDENCIES if requirement.name == package]
    assert is_bounded(found), found


def test_no_internals_are_imported_of_what_is_not_bounded() -> None:
    bounded = {requirement.name for requirement in DEPENDENCIES if is_bounded(requirement)}
    texts = (file.read_text(encoding="utf-8") for file in (ROOT / "src").rglob("*.py"))
    private = {package for text in texts for package in PRIVATE_IMPORT.findall(text)}
    assert "numba" in private
    assert private - {"panewise"} <= bounded


@pytest.mark.parametrize("lock", ["build", "run", "dev", "bench"])
def test_every_package_of_a_lock_has_hashes_and_the_version_of_the_constraints(lock: str) -> None:
    versions = {line for line in (ROOT / "constraints.txt").read_text().splitlines() if line[:1].isalnum()}
    text = (ROOT / "locks" / f"{lock}.txt").read_text()
    packages = [part for part in re.split(r"\n(?=[a-z0-9])", text) if part[:1].isalnum()]
    assert packages
    for part in packages:
        assert part.split(" \\")[0] in versions
        assert "--hash=sha256:" in part, part
    assert "://" not in text  # an index is the affair of who installs


def test_the_locks_have_what_the_project_asks_for() -> None:
    """After a change of the dependencies in pyproject.toml: make lock, or make hashes for the same versions."""
    project = PROJECT["project"]
    wanted = {
        "build": PROJECT["dependency-groups"]["build"],
        "run": project["dependencies"],
        "dev": [*project["dependencies"], *project["optional-dependencies"]["dev"]],
        "bench": [*project["dependencies"], *project["optional-dependencies"]["bench"]],
    }
    for lock, requirements in wanted.items():
        lines = (ROOT / "locks" / f"{lock}.txt").read_text().splitlines()
        locked = [Requirement(line.rstrip(" \\")) for line in lines if line[:1].isalnum()]
        for requirement in map(Requirement, requirements):
            versions = [str(next(iter(found.specifier)).version) for found in locked if found.name == requirement.name]
            assert versions and all(requirement.specifier.contains(version) for version in versions), requirement


@pytest.mark.parametrize(
    ("builder", "rooms"), [(WheelBuilder, {"panewise"}), (SdistBuilder, {"src", "bench", "papers", "tests", "tools"})]
)
def test_what_stands_beside_the_package_is_in_the_sdist_and_not_in_the_wheel(
    builder: type[WheelBuilder] | type[SdistBuilder], rooms: set[str]
) -> None:
    files = [file.distribution_path for file in builder(str(ROOT)).recurse_included_files()]
    assert {file.partition("/")[0] for file in files if file.endswith(".py")} == rooms


@pytest.mark.spark
def test_a_spark_session_starts(spark: SparkSession) -> None:
    assert spark.range(3).count() == 3
