"""A process that runs a file with `--path` again and again, each time in a child that is killed at any moment.

    python -m tests.serve.cli.durable_run_job FOLDER

It imports everything once; for each line that it reads a child runs FOLDER/file.cql on FOLDER/kept and says when it
begins, when it has pushed for the first time, and when it has come to the end. Batches are small and sinks are written
often, so that a kill falls into everything that a run does.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from panewise.connectors import generator, sources
from panewise.engine.engine import Engine
from panewise.engine.run import pump
from panewise.serve.cli import run

BATCH_ROWS = 500
DRAIN_SECONDS = 0.01
FILE = """
CREATE STREAM trades (ts TIMESTAMP, symbol STRING, price DOUBLE, size BIGINT,
                      WATERMARK FOR ts AS ts - INTERVAL 1 SECOND)
  WITH (connector = 'generator', rows = {rows}, rate = 1000, disorder = '1 second', symbols = 5);
CREATE STREAM clicks (ts TIMESTAMP, page STRING, n BIGINT) WITH (connector = 'csv', path = '{folder}/clicks');
CREATE TABLE pages (page STRING PRIMARY KEY, owner STRING);
INSERT INTO pages VALUES ('a', 'ann'), ('b', 'bob');
CREATE QUERY volume AS SELECT symbol, SUM(size) AS shares FROM trades [RANGE 3 SECONDS SLIDE 1 SECOND] GROUP BY symbol;
CREATE QUERY highest AS SELECT symbol, MAX(price) AS most FROM trades [RANGE 2 SECONDS] GROUP BY symbol;
CREATE QUERY visits AS SELECT page, SUM(n) AS n FROM clicks [RANGE 5 SECONDS SLIDE 1 SECOND] GROUP BY page;
CREATE SINK parts FROM volume WITH (connector = 'parquet', path = '{out}/parts');
CREATE SINK whole FROM volume WITH (connector = 'parquet', path = '{out}/whole.parquet');
CREATE SINK lines FROM volume WITH (connector = 'json', path = '{out}/volume.json');
CREATE SINK changes FROM highest WITH (connector = 'json', path = '{out}/highest.json', existing = 'replace');
CREATE SINK visited FROM visits WITH (connector = 'parquet', path = '{out}/visits', existing = 'append');
"""


def prepare(folder: Path, rows: int, out: Path) -> None:
    """The file, and the csv files that it reads."""
    (folder / "clicks").mkdir(parents=True, exist_ok=True)
    for file in range(3):
        lines = [
            f"2026-01-01 09:30:{(file * 200 + i) // 10:02d}.{i % 10},{'abc'[i % 3]},{i}" for i in range(200)
        ]  # fmt: skip
        (folder / "clicks" / f"{file}.csv").write_text("\n".join(["ts,page,n", *lines]) + "\n")
    (folder / "file.cql").write_text(FILE.format(rows=rows, folder=folder, out=out))


def make_small() -> None:
    generator.BATCH_ROWS = sources.BATCH_ROWS = BATCH_ROWS
    pump.DRAIN_SECONDS = DRAIN_SECONDS


def live(folder: Path) -> None:
    print(f"opening {os.getpid()}", flush=True)
    push = Engine.push

    def told(engine: Engine, *arguments: Any, **named: Any) -> None:
        Engine.push = push  # type: ignore[method-assign]
        print("started", flush=True)
        engine.push(*arguments, **named)

    Engine.push = told  # type: ignore[method-assign,assignment]
    code = run.run_file(folder / "file.cql", flush=True, progress=False, path=folder / "kept")
    print(f"finished {code}", flush=True)


def main(folder: Path) -> None:
    make_small()
    prepare(folder / "warm", 2_000, folder / "warm" / "out")  # what it compiles or loads, its children have
    run.run_file(folder / "warm" / "file.cql", flush=True, progress=False, path=folder / "warm" / "kept")
    print("ready", flush=True)
    for _ in sys.stdin:
        child = os.fork()
        if child == 0:
            live(folder)
            os._exit(0)
        os.waitpid(child, 0)
        print("ended", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
