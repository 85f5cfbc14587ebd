"""Runs of an engine that are interrupted, fail and go on: every sink ends with each result once, in order.

Files come one after the other, some of them with a mistake that is mended later. A sink fails now and then, before or
after another one of its query has written. An engine with a folder is closed and opened again. In the end all is well,
and the sinks are compared with what an engine answers that got all rows at once.
"""

from __future__ import annotations

import json
import os
import random
import signal
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

import panewise as pw
from panewise.connectors import numbered_sinks, sinks, sources
from panewise.engine.ingest.stream import Stream

QUERIES = """
CREATE QUERY sums AS SELECT k, SUM(v) AS s FROM a [RANGE 5 SECONDS SLIDE 1 SECOND] GROUP BY k;
CREATE QUERY changes AS SELECT v FROM b [RANGE 2 SECONDS] WHERE v > 10;
"""
COLUMNS = "(ts TIMESTAMP, k STRING, v BIGINT)"


class Play:
    """One script."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.dice = random.Random(seed)
        self.folder = folder
        self.path = folder / "kept" if self.dice.random() < 0.5 else None
        self.clock = {"a": 0, "b": 0}
        self.files = {"a": 0, "b": 0}
        self.rows: dict[str, list[dict[str, Any]]] = {"a": [], "b": []}
        self.wrong: dict[Path, str] = {}  # what a file should have been
        self.chance = 0.0  # of a fault
        self.queue = ", queue = 50" if self.dice.random() < 0.3 else ""
        self.tried = 0
        for name in self.files:
            (folder / name).mkdir()
            self.add(name)

    def statements(self) -> str:
        existing = self.dice.choice(["", ", existing = 'replace'", ", existing = 'fail'"])
        sink = "CREATE SINK {0} FROM {1} WITH (connector = '{2}', path = '" + str(self.folder) + "/out/{3}'{4});"
        streams = "".join(
            f"CREATE STREAM {name} {COLUMNS} WITH (connector = 'csv', path = '{self.folder}/{name}'{self.queue});"
            for name in self.files
        )
        made = [
            sink.format("lines", "sums", "json", "sums.json", existing),
            sink.format("parts", "sums", "parquet", "sums", existing),
            sink.format("more", "changes", "json", "changes.json", existing),
            sink.format("one", "changes", "parquet", "one.parquet", existing),
        ]
        self.dice.shuffle(made)
        return streams + QUERIES + "".join(made)

    def add(self, name: str) -> None:
        """A new file behind the others; sometimes with a row that is none."""
        rows = []
        for _ in range(self.dice.randint(1, 40)):
            self.clock[name] += self.dice.randint(0, 700_000)
            rows.append({"ts": self.clock[name], "k": self.dice.choice("xyz"), "v": self.dice.randint(0, 30)})
        self.rows[name] += rows
        lines = [f"{datetime.fromtimestamp(row['ts'] / 1e6, UTC):%F %T.%f},{row['k']},{row['v']}" for row in rows]
        text = "\n".join(["ts,k,v", *lines]) + "\n"
        file = self.folder / name / f"{self.files[name]:04d}.csv"
        self.files[name] += 1
        if self.dice.random() < 0.2:
            self.wrong[file] = text
            text = "\n".join(["ts,k,v", "1970-01-01 00:00:00,x,many", *lines]) + "\n"
        file.write_text(text)

    def mend(self) -> None:
        for file, text in self.wrong.items():
            file.write_text(text)
        self.wrong.clear()

    def fault(self) -> bool:
        self.tried += 1
        return self.dice.random() < self.chance

    def run(self, engine: pw.Engine) -> None:
        try:
            engine.run_available(progress=False)
        except (pw.ConnectorError, OSError) as error:
            if "No space left" not in str(error):
                raise
        except pw.DataError as error:
            if "many" not in str(error) or not self.wrong:
                raise
        except KeyboardInterrupt:
            assert self.chance

    def play(self) -> None:
        engine = pw.Engine(self.path)
        engine.execute(self.statements())
        for _ in range(self.dice.randint(2, 12)):
            self.chance = self.dice.choice([0.0, 0.1, 0.4])
            match self.dice.randrange(5):
                case 0:
                    self.add(self.dice.choice("ab"))
                case 1:
                    self.mend()
                case 2 if self.path is not None:
                    engine.close(snapshot=self.dice.random() < 0.5)
                    engine = pw.Engine(self.path)
                case _:
                    self.run(engine)
        self.chance = 0.0
        self.mend()
        engine.run_available(flush=True, progress=False)
        assert engine.run_available(progress=False).rows_read == 0
        engine.close()
        self.judge()

    def judge(self) -> None:
        """The sinks have what an engine answers that gets all rows at once."""
        engine = pw.Engine()
        engine.execute("".join(f"CREATE STREAM {name} {COLUMNS};" for name in self.rows) + QUERIES)
        for name, rows in self.rows.items():
            engine.push(name, rows)
        engine.flush()
        sums, changes = engine.results("sums"), engine.results("changes")
        out = self.folder / "out"
        assert lines(out / "sums.json") == text_of(sums)
        assert lines(out / "changes.json") == text_of(changes)
        parts = sorted((out / "sums").glob("part-*.parquet"))
        assert [row for part in parts for row in pq.read_table(part).to_pylist()] == sums.to_pylist()
        one = pq.read_table(out / "one.parquet").to_pylist() if (out / "one.parquet").exists() else []
        assert one == changes.to_pylist()


def lines(file: Path) -> list[Any]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def text_of(table: Any) -> list[Any]:
    return [json.loads(line) for line in sinks.json_lines(table)]


def play(seed: int) -> int:
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        script = Play(seed, Path(folder))
        with _faults(script):
            try:
                script.play()
            except (AssertionError, pw.PanewiseError, OSError) as problem:
                raise AssertionError(
                    f"tests.soak.engine_runs.play({seed}), path {script.path is not None}"
                ) from problem
    return script.tried


@contextmanager
def _faults(script: Play) -> Iterator[None]:
    """Batches are small; writes fail, and interrupts come, by the script's dice."""
    push, json_lines, write_table, batch = Stream.push, sinks.json_lines, pq.write_table, sources.BATCH_ROWS

    def failing(real: Callable[..., Any]) -> Callable[..., Any]:
        def called(*arguments: Any, **named: Any) -> Any:
            if script.fault():
                raise OSError(28, "No space left on device")
            return real(*arguments, **named)

        return called

    def interrupted(self: Stream, *arguments: Any) -> bool:
        if threading.current_thread() is threading.main_thread() and script.fault():
            os.kill(os.getpid(), signal.SIGINT)
        return push(self, *arguments)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    sources.BATCH_ROWS = script.dice.choice([3, 10, 100])
    Stream.push = interrupted  # type: ignore[method-assign]
    sinks.json_lines = numbered_sinks.json_lines = failing(json_lines)
    pq.write_table = failing(write_table)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        sources.BATCH_ROWS, Stream.push = batch, push  # type: ignore[method-assign]
        sinks.json_lines = numbered_sinks.json_lines = json_lines
        pq.write_table = write_table
