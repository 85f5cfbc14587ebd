"""The standalone cluster on loopback: shipped code runs on every executor, and goes on when one is killed."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from panewise.spark.environment.shipping import package_zip
from tests.places import ROOT
from tests.spark import cluster_job
from tests.waiting import PATIENCE_S
from tools.spark_cluster import StandaloneCluster, descendants, environment_of, is_alive, main

pytestmark = pytest.mark.spark

# Windows of five seconds see every row five times.
TOTALS = [number * cluster_job.SECONDS * 5 for number in range(cluster_job.TASKS)]


def test_a_shipped_tree_runs_on_both_executors_and_survives_a_killed_one() -> None:
    with StandaloneCluster(workers=2, cores=1) as cluster:
        assert cluster.alive_workers() == 2
        paths = f"{ROOT / 'src'}{os.pathsep}{ROOT}"
        job = subprocess.Popen(
            [sys.executable, "-m", "tests.spark.cluster_job"],
            env=os.environ | environment_of(cluster) | {"PYTHONPATH": paths}, cwd=ROOT,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        try:
            first = _line(job)
            assert first["totals"] == TOTALS
            assert len(first["executors"]) == 2
            (package,) = first["packages"]
            assert re.search(r"panewise-[^/]+\.zip/panewise/__init__\.pyc?$", package), package

            assert cluster.python_workers() != []
            executors = cluster.executors()
            assert len(executors) == 2
            assert cluster.kill_executor() in executors
            print(file=job.stdin, flush=True)
            again = _line(job)
            assert again["totals"] == TOTALS
            job.communicate(timeout=PATIENCE_S)
            assert job.returncode == 0
        finally:
            job.kill()
            job.wait()
        processes = [pid for worker in cluster._workers for pid in (worker.pid, *descendants(worker.pid))]
    assert processes
    assert [pid for pid in processes if is_alive(pid)] == []


def _line(job: subprocess.Popen[str]) -> dict[str, list[str]]:
    assert job.stdout is not None and job.stderr is not None
    line = job.stdout.readline()
    assert line, job.stderr.read()
    answer: dict[str, list[str]] = json.loads(line)
    return answer


def test_the_command_gets_the_master_and_its_exit_code_is_kept(capfd: pytest.CaptureFixture[str]) -> None:
    says = "import os, sys; print(sys.argv[1] == os.environ['SPARK_MASTER'], sys.argv[1]); sys.exit(7)"
    assert main(["--workers", "1", "--", sys.executable, "-c", says, "{master}"]) == 7
    assert capfd.readouterr().out.startswith("True spark://127.0.0.1:")


def test_the_archive_holds_every_module_once_as_source_and_once_compiled() -> None:
    package = ROOT / "src" / "panewise"
    sources = {path.relative_to(package.parent).as_posix() for path in package.rglob("*.py")}
    with zipfile.ZipFile(package_zip()) as zipped:
        names = set(zipped.namelist())
    assert {name for name in names if name.endswith(".py")} == sources
    assert {name for name in names if name.endswith(".pyc")} == {f"{name}c" for name in sources}
    assert not any("__pycache__" in name for name in names)


def test_a_panewise_in_a_zip_caches_its_loops_by_content(tmp_path: Path) -> None:
    """The same archive at two places: the second process compiles nothing."""
    script = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from tests.spark import cluster_job\n"
        "cluster_job.total(3)\n"
        "from panewise.slicing import open_slices\n"
        "loops = [loop for loop in vars(open_slices).values() if hasattr(loop, 'stats') and loop.signatures]\n"
        "print(sum(sum(loop.stats.cache_hits.values()) for loop in loops),"
        " sum(sum(loop.stats.cache_misses.values()) for loop in loops))\n"
    )
    counts = []
    for place in ("one", "two"):
        archive = tmp_path / place / package_zip().name
        archive.parent.mkdir()
        archive.write_bytes(package_zip().read_bytes())
        run = subprocess.run(
            [sys.executable, "-c", script, str(archive)],
            env=os.environ | {"PYTHONPATH": str(ROOT), "NUMBA_CACHE_DIR": str(tmp_path / "compiled")},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert run.returncode == 0, run.stderr
        hits, misses = map(int, run.stdout.split())
        counts.append((hits > 0, misses > 0))
    assert counts == [(False, True), (True, False)]
