"""The pipeline through Spark Connect: the same face, the same answers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import panewise as pw
from tests.places import ROOT
from tests.waiting import PATIENCE_S


def slow_at_first(path: Path) -> str:
    """A Python that takes longer than Spark waits for it, the first time for foreachBatch and the first for states."""
    path.write_text(
        f"""#!/bin/sh
for process in foreach_batch_worker transform_with_state_driver_worker; do
    case "$*" in *$process*) [ -e "$0.$process" ] || {{ touch "$0.$process"; sleep 12; }} ;; esac
done
exec {sys.executable} "$@"
"""
    )
    path.chmod(0o755)
    return str(path)


def test_through_spark_connect(tmp_path: Path) -> None:
    engine = pw.Engine()
    engine.execute("""
        CREATE STREAM t (ts TIMESTAMP, k STRING, v BIGINT);
        CREATE QUERY q AS SELECT k, SUM(v) AS total FROM t [RANGE 2 SECONDS SLIDE 1 SECOND] GROUP BY k;
        CREATE QUERY c AS SELECT ISTREAM k, v FROM t [RANGE 1 SECOND];
    """)
    for second in range(3):
        engine.push("t", [{"ts": second * 1_000_000 + i, "k": "ab"[i % 2], "v": i} for i in range(4)])
    engine.execute("CREATE QUERY late AS SELECT k, COUNT(*) AS n FROM t [RANGE 2 SECONDS SLIDE 1 SECOND] GROUP BY k")
    engine.flush()
    reported = engine.results("q").num_rows

    python = slow_at_first(tmp_path / "python")
    environment = os.environ | {"PYSPARK_PYTHON": python, "SPARK_LOCAL_IP": "127.0.0.1", "PYTHONPATH": "src:."}
    command = [sys.executable, "-m", "tests.spark.connect_job", str(tmp_path)]
    outcome = subprocess.run(
        command, capture_output=True, text=True, check=False, env=environment, cwd=ROOT, timeout=PATIENCE_S
    )
    assert outcome.returncode == 0, outcome.stderr[-3000:]
    assert {file.suffix for file in tmp_path.glob("python.*")} == {
        ".foreach_batch_worker", ".transform_with_state_driver_worker",
    }  # fmt: skip
    seen = json.loads(outcome.stdout.strip().splitlines()[-1])
    expected = {name: engine.results(name).num_rows for name in ("c", "late")} | dict.fromkeys(
        ("q", "sink", "own"), reported
    )
    assert expected["late"] > 0  # with history: its slices are there
    assert seen == expected | {"late_rows": 1, "lookup": 0, "name": "through connect", "states": ["RUNNING", "STOPPED"]}
