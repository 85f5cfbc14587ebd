"""A process that appends to a log of results is killed again and again, with the real files and the real signal."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import warnings
from pathlib import Path

from panewise.errors import DurabilityWarning
from panewise.serve.http.results.result_log import ResultLog
from tests.places import ROOT
from tests.serve.http.results.test_result_log import held


def test_what_was_acknowledged_survives_the_process(tmp_path: Path, soak: bool) -> None:
    chance = random.Random(3)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    command = [sys.executable, "-m", "tests.serve.http.result_log_job", str(tmp_path / "log")]
    acknowledged, id = 0, None
    for _ in range(30 if soak else 4):
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=environment) as job:
            assert job.stdout is not None
            for _ in range(chance.randint(1, 200)):
                acknowledged = int(job.stdout.readline())
            job.kill()
            # What it had said when it died, and nobody had read yet.
            acknowledged = max([acknowledged, *map(int, job.stdout.read().split("\n")[:-1])])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DurabilityWarning)
            log = ResultLog(tmp_path / "log", keep_rows=2_000, keep_bytes=1 << 30, segment_bytes=20_000)
        first, end = log.bounds("q")
        assert acknowledged <= end <= acknowledged + 7 and first <= max(0, end - 2_000)
        assert held(log, "q") == list(range(first, end))
        assert id in (None, log.series("q").id)
        id = log.series("q").id
        log.close()
