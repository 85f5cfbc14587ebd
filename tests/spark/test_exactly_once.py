"""Exactly once: kill -9 the Python worker, the driver and an executor at random moments; nothing is lost or repeated.

A driver in a process of its own reads a folder of files, one file a micro-batch, with queries of several kinds into
Parquet and PostgreSQL. It is killed, started again from the checkpoint, on a local session or on a cluster, and told to
add and drop queries meanwhile. What the sinks hold in the end must be what an undisturbed run, the embedded engine's,
has said.
"""

from __future__ import annotations

import json
import os
import queue
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import panewise as pw
from tests.places import ROOT
from tests.postgres import PASSWORD, PostgresServer, postgres
from tests.waiting import PATIENCE_S, until
from tools.spark_cluster import StandaloneCluster, children, command_line, descendants, kill_one

__all__ = ["postgres"]

pytestmark = pytest.mark.spark

EPOCH = datetime(2024, 5, 1, tzinfo=UTC)
ROWS_PER_FILE = 120
SECONDS_PER_FILE = 6
DELAY_SECONDS = 4
STREAM = f"ts TIMESTAMP, k STRING, v BIGINT, w STRING, WATERMARK FOR ts AS ts - INTERVAL {DELAY_SECONDS} SECONDS"
# By name, each with the connectors that it is written to.
QUERIES = {
    "grouped": "SELECT k, SUM(v) AS s, MAX(w) AS m, COUNT(*) AS n FROM t [RANGE 10 SECONDS SLIDE 2 SECONDS] GROUP BY k",
    "total": "SELECT SUM(v) AS s, LAST(v) AS l FROM t [RANGE 7 SECONDS SLIDE 3 SECONDS]",
    "changing": "SELECT k, COUNT(*) AS n FROM t [RANGE 3 SECONDS] WHERE v > 80 GROUP BY k",
    "counted": "SELECT SUM(v) AS s FROM t [ROWS 100 SLIDE 40]",
    "inserted": "SELECT ISTREAM k, COUNT(*) AS n FROM t [RANGE 8 SECONDS SLIDE 4 SECONDS] GROUP BY k",
    "stacked": "SELECT MAX(s) AS most, COUNT(*) AS n FROM total [RANGE 12 SECONDS SLIDE 6 SECONDS]",
}
SINKS = {
    "grouped": ("parquet", "jdbc"),
    "total": ("jdbc",),
    "changing": ("parquet", "jdbc"),
    "counted": ("parquet",),
    "inserted": ("jdbc",),
    "stacked": ("parquet",),
}
PASSING = "SELECT k, MIN(v) AS low, SUM(v) AS s FROM t [RANGE 6 SECONDS SLIDE 2 SECONDS] GROUP BY k"
# What a dead executor has held is given up soon.
QUICK = "--conf spark.shuffle.io.maxRetries=1 --conf spark.shuffle.io.retryWait=100ms"
Rows = list[dict[str, Any]]


# -- the input and what it should lead to ------------------------------------------------------------------------------


def files_of(seed: int, count: int) -> list[Rows]:
    """Rows in order of time but for a shuffle within the delay, cut into files."""
    chance = random.Random(seed)
    rows = []
    for number in range(count * ROWS_PER_FILE):
        second = number * SECONDS_PER_FILE / ROWS_PER_FILE
        ts = EPOCH + timedelta(seconds=second)
        row = {"ts": ts, "k": chance.choice("abcdef"), "v": chance.randrange(100), "w": chance.choice(("", "p", "q"))}
        rows.append((second + chance.random() * (DELAY_SECONDS - 0.5), number, row))
    arrived = [row for _, _, row in sorted(rows, key=lambda one: one[:2])]
    return [arrived[at : at + ROWS_PER_FILE] for at in range(0, len(arrived), ROWS_PER_FILE)]


def write_files(folder: Path, files: list[Rows], first: int = 0) -> None:
    folder.mkdir(exist_ok=True)
    began = time.time() - 10_000
    schema = pa.schema(
        [("ts", pa.timestamp("us", tz="UTC")), ("k", pa.string()), ("v", pa.int64()), ("w", pa.string())]
    )
    for number, rows in enumerate(files, first):
        path = folder / f"{number:05d}.parquet"
        pq.write_table(pa.Table.from_pylist(rows, schema), path)
        # Spark reads files in the order of their dates.
        os.utime(path, (began + number, began + number))


def undisturbed(files: list[Rows]) -> dict[str, Rows]:
    engine = pw.Engine()
    engine.execute(f"CREATE STREAM t ({STREAM});")
    for name, text in (QUERIES | {"passing": PASSING}).items():
        engine.execute(f"CREATE QUERY {name} AS {text};")
    for rows in files:
        engine.push("t", rows)
    engine.flush()
    assert engine.stats()["streams"]["t"]["late_rows"] == 0
    return {name: engine.results(name).to_pylist() for name in (*QUERIES, "passing")}


def counted(rows: Rows) -> Counter[tuple[Any, ...]]:
    """A multiset of rows; every value of these queries is exact."""
    return Counter(tuple(sorted(row.items())) for row in rows)


# -- the driver and its processes --------------------------------------------------------------------------------------


@dataclass
class Scene:
    """The places of one test. `killed` says what was killed, `failures` what drivers said of failed queries."""

    folder: Path
    server: PostgresServer
    prefix: str
    chance: random.Random
    killed: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    @property
    def statements(self) -> str:
        path = f"connector = 'parquet', path = '{self.folder}/input', max_files_per_trigger = 1"
        texts = [f"CREATE STREAM t ({STREAM}) WITH ({path});"]
        for name, text in QUERIES.items():
            texts.append(f"CREATE QUERY {name} AS {text};")
            texts += [f"{self.sink(name, connector)};" for connector in SINKS[name]]
        return "\n".join(texts)

    def sink(self, query: str, connector: str) -> str:
        if connector == "parquet":
            options = f"path = '{self.folder}/out/{query}'"
        else:
            url = f"url = '{self.server.url}', password = '{PASSWORD}'"
            options = f"{url}, table = '{self.prefix}_{query}', batches_table = '{self.prefix}_batches'"
        return f"CREATE SINK {query}_{connector} FROM {query} WITH (connector = '{connector}', {options})"

    def written(self, query: str, connector: str) -> Rows:
        if connector == "parquet":
            parts = sorted((self.folder / "out" / query).glob("*.parquet"))
            return [row for part in parts for row in pq.read_table(part).to_pylist()]
        with self.server.connect() as connection:
            cursor = connection.execute(f'SELECT * FROM "{self.prefix}_{query}"')
            names = [column.name for column in cursor.description or ()]
            return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]

    @property
    def batch(self) -> int:
        """The last micro-batch that is complete."""
        return max((int(mark.stem) for mark in (self.folder / "checkpoint" / "marks").glob("[0-9]*.json")), default=-1)


class Driver:
    """The process of `exactly_once_job`, its JVM and its Python workers."""

    def __init__(self, scene: Scene, master: str, finish: bool = False) -> None:
        self._scene = scene
        statements = scene.folder / "statements.cql"
        statements.write_text(scene.statements)
        options = {"checkpoint": str(scene.folder / "checkpoint"), "statements": str(statements), "finish": finish}
        environment = os.environ | {
            "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}",
            "PYSPARK_PYTHON": sys.executable,
            "PYSPARK_SUBMIT_ARGS": f"--master {master} --driver-memory 1g {QUICK} pyspark-shell",
            "SPARK_LOCAL_IP": "127.0.0.1",
        }
        self._log = (scene.folder / "driver.log").open("ab")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.spark.exactly_once_job", json.dumps(options)],
            env=environment, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log,
            text=True, start_new_session=True,
        )  # fmt: skip
        self._events: queue.Queue[dict[str, Any] | None] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            event = json.loads(line)
            if event["event"] == "failed":
                self._scene.failures.append(event["message"])
            else:
                self._events.put(event)
        self._events.put(None)

    def wait_for(self, event: str) -> dict[str, Any]:
        found = self._events.get(timeout=PATIENCE_S)
        log = (self._scene.folder / "driver.log").read_text(errors="replace")[-3_000:]
        assert found is not None and found["event"] == event, f"{found} instead of {event}\n{log}"
        return found

    def tell(self, line: str) -> None:
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            print(line, file=self._process.stdin, flush=True)

    def wait_until_batch(self, number: int) -> None:
        def state() -> str:
            log = (self._scene.folder / "driver.log").read_text(errors="replace")[-3_000:]
            return f"micro-batch {number} does not come: {self._scene.failures}\n{log}"

        until(lambda: self._scene.batch >= number or self._process.poll() is not None, state)
        assert self._scene.batch >= number, state()

    def python_workers(self) -> list[int]:
        """What the daemons of the driver's own JVM have forked."""
        below = descendants(self._process.pid)
        daemons = [pid for pid in below if "pyspark.daemon" in command_line(pid)]
        return [pid for daemon in daemons for pid in children(daemon) if pid in daemons]

    def kill(self) -> None:
        """The Python process and its JVM, with all below, as when the machine goes."""
        below = descendants(self._process.pid)
        for pid in (self._process.pid, *below):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.wait()
        self._log.close()

    def end(self) -> int:
        self.tell("end")
        return self._process.wait(PATIENCE_S)


@contextmanager
def driver(scene: Scene, master: str, finish: bool = False) -> Iterator[Driver]:
    running = Driver(scene, master, finish)
    try:
        yield running
    finally:
        running.kill()


def some_time_later(scene: Scene, running: Driver, batches: int) -> None:
    """At a random moment of a micro-batch or between two."""
    running.wait_until_batch(scene.batch + batches)
    time.sleep(scene.chance.random())


def kill_drivers_and_finish(scene: Scene, kills: int) -> None:
    """Drivers that are killed in the midst of it, and one that ends."""
    for _ in range(kills):
        with driver(scene, "local[2]") as running:
            running.wait_for("running")
            some_time_later(scene, running, 2)
    with driver(scene, "local[3]", finish=True) as last:
        last.wait_for("finished")
        assert last.end() == 0


def kill_python_worker(scene: Scene, find: Callable[[], list[int]]) -> None:
    until(lambda: kill_one(find(), scene.chance) is not None, lambda: "no Python worker runs")
    scene.killed.append("worker")


# -- the tests ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def scene(tmp_path: Path, postgres: PostgresServer) -> Scene:
    number = random.SystemRandom().randrange(1_000_000)
    return Scene(tmp_path, postgres, f"once_{number}", random.Random(number))


def finish_and_compare(scene: Scene, files: list[Rows]) -> None:
    with driver(scene, "local[3]", finish=True) as last:
        finished = last.wait_for("finished")
        assert last.end() == 0
    stream = finished["stats"]["streams"]["t"]
    assert (stream["rows"], stream["late_rows"]) == (len(files) * ROWS_PER_FILE, 0)
    expected = undisturbed(files)
    for query, connectors in SINKS.items():
        assert expected[query]
        for connector in connectors:
            found = scene.written(query, connector)
            assert counted(found) == counted(expected[query]), f"{query} in {connector}, killed: {scene.killed}"
    compare_passing(scene, expected["passing"])


def compare_passing(scene: Scene, expected: Rows) -> None:
    """What came while it ran has whole windows only, one after the other, each of them once."""
    names = [path.name for path in (scene.folder / "out").iterdir() if path.name.startswith("passing")]
    assert names
    for name in names:
        found = scene.written(name, "parquet")
        seen = {row["window_end"] for row in found}
        if seen:
            between = [row for row in expected if min(seen) <= row["window_end"] <= max(seen)]
            assert counted(found) == counted(between), f"{name}, killed: {scene.killed}"


def come_and_go(scene: Scene, running: Driver, number: int, present: list[str]) -> None:
    """A query comes with a sink; those of its kind that are there go."""
    name = f"passing_{number}"
    texts = [f"CREATE QUERY {name} AS {PASSING}", scene.sink(name, "parquet")]
    for other in present:
        texts += [f"DROP SINK {other}_parquet", f"DROP QUERY {other}"]
    running.tell("; ".join(texts) + ";")
    running.wait_for("changed")


def passing_of(event: dict[str, Any]) -> list[str]:
    return [name for name in event["queries"] if name.startswith("passing")]


def kill_a_worker_and_the_driver(scene: Scene, files: list[Rows], micro_batches: int) -> None:
    """Begins with the files on two cores; the driver dies so many micro-batches after a change of queries."""
    write_files(scene.folder / "input", files)
    with driver(scene, "local[2]") as first:
        first.wait_for("running")
        some_time_later(scene, first, 1)
        kill_python_worker(scene, first.python_workers)
        come_and_go(scene, first, 0, [])
        some_time_later(scene, first, micro_batches)
        scene.killed.append("driver")


def test_a_worker_and_a_driver_are_killed(scene: Scene) -> None:
    """On two cores, then on three."""
    files = files_of(1, 10)
    kill_a_worker_and_the_driver(scene, files, micro_batches=1)
    finish_and_compare(scene, files)


@pytest.mark.soak
def test_one_kill_of_each_kind(scene: Scene) -> None:
    """On two cores, then on a cluster of two executors, at last on three cores."""
    files = files_of(1, 16)
    kill_a_worker_and_the_driver(scene, files[:13], micro_batches=2)
    with StandaloneCluster(workers=2, cores=1) as cluster, driver(scene, cluster.url) as second:
        assert passing_of(second.wait_for("running")) == ["passing_0"]
        come_and_go(scene, second, 1, ["passing_0"])
        some_time_later(scene, second, 1)
        assert cluster.kill_executor(scene.chance) is not None
        scene.killed.append("executor")
        some_time_later(scene, second, 1)
        assert second.end() == 0
    # Something is left for the last run, however fast these were.
    write_files(scene.folder / "input", files[13:], first=13)
    finish_and_compare(scene, files)


@pytest.mark.soak
def test_twenty_kills(scene: Scene, figure: Callable[[str, object], None]) -> None:
    harass(scene, kills=20, files=files_of(2, 250))
    figure("killed in one run", dict(Counter(scene.killed)))


def harass(scene: Scene, kills: int, files: list[Rows]) -> None:
    """Drivers on one master after the other; each ends by being killed."""
    write_files(scene.folder / "input", files)
    chance, number = scene.chance, 0
    with StandaloneCluster(workers=2, cores=1) as cluster:
        while len(scene.killed) < kills:
            # With the second one Spark tries a task again where a worker has died; with the first one the query fails.
            master = chance.choice(("local[2]", "local[2,4]", cluster.url))
            with driver(scene, master) as running:
                present = passing_of(running.wait_for("running"))
                if chance.random() < 0.6:
                    come_and_go(scene, running, number, present)
                    number += 1
                for _ in range(chance.randrange(3)):
                    some_time_later(scene, running, chance.randrange(1, 3))
                    if master == cluster.url and chance.random() < 0.6:
                        cluster.kill_executor(chance)
                        scene.killed.append("executor")
                    else:
                        find = cluster.python_workers if master == cluster.url else running.python_workers
                        kill_python_worker(scene, find)
                some_time_later(scene, running, chance.randrange(1, 4))
                scene.killed.append("driver")
    assert scene.batch < len(files)
    finish_and_compare(scene, files)
