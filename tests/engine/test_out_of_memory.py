"""Memory runs out in one query: it fails or is spared by smaller steps, and all others go on, after a reopening too."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from panewise.engine.consumers.bounded_steps import RESULTS_MOST
from panewise.engine.engine import Engine
from panewise.operators.joins.window_join import WindowJoin
from tests.places import ROOT

STREAM = "CREATE STREAM s (ts TIMESTAMP, k STRING, v BIGINT)"


def same_key(count: int) -> pa.Table:
    times = pa.array(np.arange(count) * 1000, pa.timestamp("us", tz="UTC"))
    return pa.table({"ts": times, "k": pa.array(["a"] * count), "v": np.arange(count)})


@pytest.mark.parametrize("slide", ["", " SLIDE 1 HOUR"])
def test_a_step_makes_about_so_many_results(slide: str, soak: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    results = WindowJoin._results

    def counting(self: WindowJoin, *arguments: object) -> object:
        result = results(self, *arguments)  # type: ignore[arg-type]
        made.append(len(result))
        return result

    monkeypatch.setattr(WindowJoin, "_results", counting)
    engine, count = Engine(), 3000 if soak else 2000
    engine.execute(STREAM)
    joined = f"FROM s [RANGE 1 HOUR{slide}] AS a JOIN s [RANGE 1 HOUR{slide}] AS b ON a.k = b.k"
    engine.execute(f"CREATE QUERY pairs AS SELECT {'COUNT(*) AS n' if slide else 'a.v AS v, b.v AS w'} {joined}")
    engine.push("s", same_key(count))
    engine.advance("s", 10**10)
    assert engine.stats()["queries"]["pairs"]["status"] == "RUNNING"
    assert sum(made) == count * count
    assert max(made) <= 2 * RESULTS_MOST


JOB = """
import resource, sys
import numpy as np, pyarrow as pa, panewise as pw
from tests.engine.test_out_of_memory import STREAM, same_key
from tests.places import ROOT

def engine_of(path):
    engine = pw.Engine(path, sync="never")
    engine.execute(STREAM.replace("STREAM", "STREAM IF NOT EXISTS"))
    engine.execute("CREATE QUERY IF NOT EXISTS pairs AS SELECT a.v AS v, b.v AS w, a.k AS k, b.k AS l"
                   " FROM s [RANGE 1 HOUR] AS a JOIN s [RANGE 1 HOUR] AS b ON a.k = b.k")
    engine.execute("CREATE QUERY IF NOT EXISTS sums AS SELECT k, SUM(v) AS s FROM s"
                   " [RANGE 1 SECOND SLIDE 1 SECOND] GROUP BY k")
    return engine

with engine_of(None) as warm:
    warm.push("s", same_key(100))
    warm.stats(), warm.results("pairs"), warm.results("sums")
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (150 << 20), used + (150 << 20)))
engine = engine_of(sys.argv[1])
if len(sys.argv) > 2:
    # All of one instant, which no step divides.
    rows = same_key(8000)
    engine.push("s", rows.set_column(0, "ts", pa.array(np.zeros(8000, np.int64), pa.timestamp("us", tz="UTC"))))
    engine.push("s", pa.table({"ts": pa.array([5_000_000], pa.timestamp("us", tz="UTC")), "k": ["b"], "v": [1]}))
print({row["name"]: row["status"] + " " + row["reason"] for row in engine.execute("SHOW QUERIES").to_pylist()})
print(engine.lookup("sums").num_rows, engine.stats()["queries"]["sums"]["results"])
engine.close(snapshot=False)
"""


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="the address space in use is read from /proc")
def test_a_query_without_memory_fails_alone_and_its_folder_opens_again(tmp_path: Path) -> None:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    for arguments in ([str(tmp_path / "e"), "push"], [str(tmp_path / "e")]):
        done = subprocess.run(
            [sys.executable, "-c", JOB, *arguments],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-3000:]
        assert "'pairs': 'FAILED memory ran out" in done.stdout, done.stdout
        assert "'sums': 'RUNNING '" in done.stdout
        assert done.stdout.splitlines()[-1].endswith("1"), "the report of the first second is there"
