"""A process that runs an engine with a folder, and is killed while it does.

    python -m tests.engine.run.engine_run_job FOLDER WRITES

It kills itself at the given write of the sink, before that is noted.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import panewise as pw
from panewise.connectors import generator
from panewise.connectors.numbered_sinks import Points
from panewise.engine.run import pump

STATEMENTS = """
CREATE STREAM trades (ts TIMESTAMP, symbol STRING, size BIGINT)
  WITH (connector = 'generator', rows = 20000, rate = 1000, symbols = 3);
CREATE QUERY volume AS SELECT symbol, SUM(size) AS shares FROM trades [RANGE 2 SECONDS SLIDE 1 SECOND] GROUP BY symbol;
CREATE SINK lines FROM volume WITH (connector = 'json', path = '{0}/volume.json');
CREATE SINK parts FROM volume WITH (connector = 'parquet', path = '{0}/parts');
CREATE SINK whole FROM volume WITH (connector = 'parquet', path = '{0}/whole.parquet');
"""


def run(folder: Path, path: Path | None) -> None:
    generator.BATCH_ROWS = 500
    pump.DRAIN_SECONDS = 0.0
    with pw.Engine(path) as engine:
        engine.driver.expect()
        if engine.catalog.find("trades") is None:
            engine.execute(STATEMENTS.format(folder))
        print(engine.run_available(flush=True))


def main(folder: Path, writes: int) -> None:
    add = Points.add

    def killed(self: Points, number: int, size: int) -> None:
        nonlocal writes
        writes -= 1
        if writes == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        add(self, number, size)

    Points.add = killed  # type: ignore[method-assign]
    run(folder, folder / "kept")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
