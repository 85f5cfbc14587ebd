"""A Spark standalone cluster on loopback: `python tools/spark_cluster.py [--workers 2] [--cores 1] -- COMMAND ...`.

A master and workers are started from the installed pyspark, with ports, logs and work folders of their own. The command
finds the master's address in SPARK_MASTER, in place of `{master}` among its arguments, and in PYSPARK_SUBMIT_ARGS, so
that a stock `SparkSession.builder.getOrCreate()` already runs there. Whatever happens, the processes that were started
are stopped by their ids at the end. Executors do not inherit PYTHONPATH: they have what is installed or shipped.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

HOST = "127.0.0.1"
START_SECONDS = 60.0
STOP_SECONDS = 10.0
POLL_SECONDS = 0.1
DEPLOY = "org.apache.spark.deploy"


class ClusterFailed(Exception):
    """The cluster did not come up; the message holds the last lines of its log."""


class StandaloneCluster:
    """A master and its workers, from `with` to the end of the block.

    with StandaloneCluster() as cluster:
        session = SparkSession.builder.master(cluster.url).getOrCreate()
    """

    def __init__(self, workers: int = 2, cores: int = 1, memory: str = "1g") -> None:
        self.workers = workers
        self.cores = cores
        self.memory = memory
        self.url = ""
        self._folder = Path()
        self._master: subprocess.Popen[bytes] | None = None
        self._workers: list[subprocess.Popen[bytes]] = []
        self._status_url = ""

    def __enter__(self) -> StandaloneCluster:
        self._folder = Path(tempfile.mkdtemp(prefix="spark-cluster-"))
        try:
            self._start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    # -- the processes -------------------------------------------------------------------------------------------------

    def _start(self) -> None:
        port, status_port = free_ports(2)
        self.url = f"spark://{HOST}:{port}"
        self._status_url = f"http://{HOST}:{status_port}/json/"
        self._master = self._spawn(
            "master", f"{DEPLOY}.master.Master", "--host", HOST, "--port", str(port), "--webui-port", str(status_port)
        )
        self._wait("the master answers", lambda: self.status() is not None)
        for number in range(self.workers):
            self._workers.append(
                self._spawn(
                    f"worker-{number}", f"{DEPLOY}.worker.Worker", "--host", HOST, "--webui-port", "0",
                    "--cores", str(self.cores), "--memory", self.memory,
                    "--work-dir", str(self._folder / f"work-{number}"), self.url,
                )
            )  # fmt: skip
        self._wait(f"{self.workers} workers are registered", lambda: self.alive_workers() == self.workers)

    def _spawn(self, name: str, *command: str) -> subprocess.Popen[bytes]:
        home = spark_home()
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        environment |= {
            "SPARK_HOME": str(home),
            "SPARK_LOCAL_IP": HOST,
            "SPARK_DAEMON_MEMORY": "512m",
            "SPARK_LOCAL_DIRS": str(self._folder / "local"),
            "PYSPARK_PYTHON": sys.executable,
        }
        with (self._folder / f"{name}.log").open("wb") as log:
            # spark-class becomes the Java process, so that this id is its id. A session of its own, so that Ctrl-C
            # reaches the command first and the cluster only through `stop`.
            return subprocess.Popen(
                [str(home / "bin" / "spark-class"), *command],
                env=environment, cwd=self._folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True,
            )  # fmt: skip

    def _wait(self, what: str, reached: Any) -> None:
        deadline = time.monotonic() + START_SECONDS
        while not reached():
            processes = [process for process in (self._master, *self._workers) if process is not None]
            if time.monotonic() > deadline or any(process.poll() is not None for process in processes):
                raise ClusterFailed(f"waited in vain until {what}\n{self.log_tail()}")
            time.sleep(POLL_SECONDS)

    def stop(self) -> None:
        """Ends what was started, executors too; a second call does nothing."""
        processes = [process for process in (*self._workers, self._master) if process is not None]
        below = [pid for process in processes for pid in descendants(process.pid)]
        born = {pid: _birth(pid) for pid in below}
        for process in processes:
            process.terminate()
        for process in processes:
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        # A worker ends its executors as it stops; one that was killed cannot. An id may meanwhile be another process's.
        left = [pid for pid in below if born[pid] is not None and _birth(pid) == born[pid]]
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        # A killed process takes a moment to go: whoever looks after `stop` shall find none.
        deadline = time.monotonic() + STOP_SECONDS
        while any(_birth(pid) == born[pid] for pid in left) and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)
        self._master, self._workers = None, []
        shutil.rmtree(self._folder, ignore_errors=True)

    # -- what runs -----------------------------------------------------------------------------------------------------

    def status(self) -> dict[str, Any] | None:
        """What the master says of itself, None while it does not answer."""
        try:
            with urllib.request.urlopen(self._status_url, timeout=5) as answer:
                found: dict[str, Any] = json.load(answer)
                return found
        except (urllib.error.URLError, OSError, ValueError):
            return None

    def alive_workers(self) -> int:
        status = self.status() or {}
        return sum(worker["state"] == "ALIVE" for worker in status.get("workers", []))

    def log_tail(self, lines: int = 15) -> str:
        logs = sorted(self._folder.glob("*.log"))
        return "\n".join(line for log in logs for line in log.read_text(errors="replace").splitlines()[-lines:])

    def executors(self) -> list[int]:
        """The process ids of the executors: children of the workers."""
        return [
            pid
            for worker in self._workers
            for pid in children(worker.pid)
            if "CoarseGrainedExecutorBackend" in command_line(pid)
        ]

    def python_workers(self) -> list[int]:
        """The process ids of the Python workers that run tasks: what the executors' daemons have forked."""
        daemons = [pid for executor in self.executors() for pid in children(executor)]
        return [pid for daemon in daemons for pid in children(daemon)]

    def kill_executor(self, choose: random.Random | None = None) -> int | None:
        """Kills one executor, as kill -9 does; gives its id, None where none runs. Its worker starts another."""
        return kill_one(self.executors(), choose)

    def kill_python_worker(self, choose: random.Random | None = None) -> int | None:
        """Kills one Python worker of an executor; gives its id, None where none runs."""
        return kill_one(self.python_workers(), choose)


def kill_one(pids: list[int], choose: random.Random | None = None) -> int | None:
    """Kills one of the processes, the last or a chosen one; a process that has gone meanwhile counts as killed."""
    if not pids:
        return None
    pid = pids[-1] if choose is None else choose.choice(pids)
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    return pid


# -- processes ---------------------------------------------------------------------------------------------------------


def children(parent: int) -> list[int]:
    """The ids of a process's children, oldest first."""
    return sorted(pid for pid, parent_of_pid in _processes() if parent_of_pid == parent)


def descendants(ancestor: int) -> list[int]:
    """The ids of all processes below one."""
    below: dict[int, list[int]] = {}
    for pid, parent in _processes():
        below.setdefault(parent, []).append(pid)
    found: list[int] = []
    waiting = [ancestor]
    while waiting:
        nearest = below.get(waiting.pop(), [])
        found += nearest
        waiting += nearest
    return found


def cpu_seconds(ancestor: int) -> float:
    """Processor seconds of a process and of all below it, those that have ended included; 0 where this is no Linux."""
    ticks = 0
    for pid in (ancestor, *descendants(ancestor)):
        fields = _stat(pid)
        # User and system time, and both again of the children that were waited for.
        ticks += 0 if fields is None else sum(map(int, fields[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text(errors="replace").replace("\0", " ")
    except OSError:
        return _asked("-o", "command=", "-p", str(pid))


def _processes() -> Iterator[tuple[int, int]]:
    """Every process's id and its parent's."""
    if not Path("/proc/self/stat").exists():  # not a Linux
        yield from ((int(pid), int(parent)) for pid, parent in map(str.split, _asked("-Ao", "pid=,ppid=").splitlines()))
        return
    for folder in Path("/proc").glob("[0-9]*"):
        fields = _stat(int(folder.name))
        if fields is not None:
            yield int(folder.name), int(fields[1])


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that has ended and is only waiting to be asked for its exit code does not."""
    return _birth(pid) is not None


def _birth(pid: int) -> str | None:
    """When a process began, None where it has ended: with its id this names it for ever."""
    if not Path("/proc/self/stat").exists():
        return _asked("-o", "lstart=", "-p", str(pid)) or None
    fields = _stat(pid)
    return None if fields is None or fields[0] == "Z" else fields[19]


def _stat(pid: int) -> list[str] | None:
    """The fields of /proc/PID/stat from the third (the state) on: the second is a name that may hold spaces."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None


def _asked(*options: str) -> str:
    return subprocess.run(["ps", *options], capture_output=True, text=True, check=False).stdout


def free_ports(count: int) -> list[int]:
    """Ports of loopback that nobody listens on now, all different."""
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind((HOST, 0))
        return [one.getsockname()[1] for one in sockets]


def spark_home() -> Path:
    """The folder of the installed pyspark, without importing it."""
    found = importlib.util.find_spec("pyspark")
    if found is None or found.origin is None:
        raise ClusterFailed("pyspark is not installed")
    return Path(found.origin).parent


# -- the command -------------------------------------------------------------------------------------------------------


def environment_of(cluster: StandaloneCluster) -> dict[str, str]:
    """What a program needs in its environment so that it runs on the cluster."""
    return {
        "SPARK_MASTER": cluster.url,
        "SPARK_LOCAL_IP": HOST,
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_SUBMIT_ARGS": f"--master {cluster.url} pyspark-shell",
    }


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="spark_cluster", description="Runs a command beside a local Spark cluster.")
    parser.add_argument("--workers", type=int, default=2, help="how many workers (2)")
    parser.add_argument("--cores", type=int, default=1, help="cores of each worker (1)")
    parser.add_argument("--memory", default="1g", help="memory that each worker gives to executors (1g)")
    parser.add_argument("command", nargs="+", metavar="COMMAND", help="after --; {master} is the master's address")
    options = parser.parse_args(arguments)
    # A plain kill takes the way of an exception too, so that the cluster is stopped.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    with StandaloneCluster(options.workers, options.cores, options.memory) as cluster:
        print(f"{cluster.url}: {options.workers} workers with {options.cores} cores each", file=sys.stderr)
        command = [part.replace("{master}", cluster.url) for part in options.command]
        try:
            return subprocess.run(command, env=os.environ | environment_of(cluster), check=False).returncode
        except FileNotFoundError as problem:
            print(f"cannot run {command[0]}: {problem.strerror}", file=sys.stderr)
            return 127
        except KeyboardInterrupt:
            return 130


if __name__ == "__main__":
    sys.exit(main())
