"""`panewise run` and `panewise demo` on Spark, as their users start them: in a process of their own."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from panewise.serve.cli.run_spark import errors_to, spark_log
from tests.serve.cli.test_cli import ANSWERS, CSV, QUERY, STREAM
from tests.waiting import PATIENCE_S


def panewise(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"COLUMNS": "200", "SPARK_LOCAL_IP": "127.0.0.1"}
    command = [sys.executable, "-m", "panewise.serve.cli.cli", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=PATIENCE_S)


def test_the_log_of_spark_is_a_file_that_nobody_could_have_made_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    victim = tmp_path / "victim"
    victim.write_text("mine")
    (tmp_path / f"panewise-spark-{os.getpid()}.log").symlink_to(victim)
    spark_log.cache_clear()
    try:
        with errors_to(spark_log()):
            os.write(2, b"what Spark says\n")
        assert victim.read_text() == "mine"
        assert spark_log().read_text() == "what Spark says\n" and spark_log().parent == tmp_path
        assert spark_log().stat().st_mode & 0o777 == 0o600
    finally:
        spark_log.cache_clear()


def test_a_run_ends_continues_and_shows_a_bad_row(tmp_path: Path, soak: bool) -> None:
    source, out, file = tmp_path / "in", tmp_path / "out", tmp_path / "file.cql"
    source.mkdir()
    (source / "1.csv").write_text(CSV)
    sink = f"CREATE SINK files FROM volume WITH (connector = 'parquet', path = '{out}');"
    file.write_text(STREAM.format(path=source) + QUERY + sink)
    command = "run", str(file), "--checkpoint", str(tmp_path / "checkpoint"), "--available-now"
    first = panewise(*command, "--flush")
    assert first.returncode == 0, first.stderr[-2000:]
    rows = pq.read_table(out).to_pylist()
    assert sorted((str(row["window_end"].time()), row["symbol"], row["shares"]) for row in rows) == ANSWERS
    assert "3 rows, 5 results" in first.stdout
    if not soak:  # tests/spark/test_lifecycle.py goes on and meets a bad row in every run
        return

    (source / "2.csv").write_text("ts,symbol,price,size\n2026-01-05 09:31:00,ECHO,70,many\n")
    second = panewise(*command)
    assert second.returncode == 1
    assert "size = 'many' is not a BIGINT" in second.stderr
    assert "Traceback" not in second.stderr[second.stderr.index("error:") :]
    assert len(pq.read_table(out)) == len(ANSWERS)


@pytest.mark.soak
def test_the_demonstration_ends_by_itself() -> None:
    outcome = panewise("demo", "--seconds", "4", "--master", "local[2]")
    assert outcome.returncode == 0, outcome.stderr[-2000:]
    assert outcome.stdout.startswith("In your browser: http://127.0.0.1:")
    assert "rows through 12 queries on Spark (local[2])" in outcome.stdout
    assert "touched 3 times instead of 12" in outcome.stdout
