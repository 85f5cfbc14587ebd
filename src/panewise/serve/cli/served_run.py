"""`panewise serve` and `panewise run --serve`: a run with a server, on the embedded engine or on Spark.

The server runs in the main thread, which receives signals. SIGTERM and SIGINT stop the server first and the run second,
so that no push is acknowledged and then lost. On the embedded engine a second thread reads the sources and writes the
sinks; after the sources end, the server runs until a signal comes. On Spark the pipeline runs by itself; if it fails,
the server ends too.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from panewise.catalog import StreamDefinition
from panewise.engine.engine import Engine
from panewise.engine.run.driver import RunSummary
from panewise.engine.run.flows import Flow
from panewise.engine.run.pump import DRAIN_SECONDS, Pump
from panewise.engine.run.terminal_tables import output_console, printer
from panewise.errors import PanewiseError
from panewise.serve.cli.durable_start import engine_folder
from panewise.serve.cli.run import opened, summary_table
from panewise.serve.cli.subscribed import Subscribed
from panewise.serve.http.backends.engine_backend import EngineBackend, data_folder
from panewise.serve.http.gate.access import tokens_from
from panewise.serve.http.server import run as run_server
from panewise.serve.http.service import logs
from panewise.serve.http.service.settings import Settings

if TYPE_CHECKING:
    from panewise.spark.handle import Handle
    from panewise.spark.pipeline import SparkPipeline


def settings_of(address: str, token_file: Path | None = None, path: Path | None = None) -> Settings:
    """The settings of a server at HOST:PORT; the host may be left out.

    >>> settings_of("127.0.0.1:0").port, settings_of(":8461").host, settings_of("[::1]:80").host
    (0, '127.0.0.1', '::1')
    """
    host, _, port = address.rpartition(":")
    if not (port.isascii() and port.isdigit() and len(port) <= 5):
        raise PanewiseError(
            f"'{address}' is not an address to serve at", hint="write HOST:PORT, such as 127.0.0.1:8461"
        )
    tokens = tokens_from(token_file)
    host = host.strip("[]") or "127.0.0.1"
    found = Settings(host=host, port=int(port), path=path, tokens=tokens, token_file=token_file)
    found.check()
    return found


# -- the embedded engine -----------------------------------------------------------------------------------------------


def serve_file(file: Path | None, settings: Settings, *, flush: bool) -> int:
    """Runs the file and serves it until a signal comes; returns 1 if a query or a source failed, else 0.

    Without a file the engine holds what its data folder defines, or is empty. The file is trusted: its statements may
    name any path.
    """
    settings.check()
    console = output_console()
    folder = None if settings.path is None else data_folder(settings.path)
    settings = replace(settings, path=folder)
    engine = opened(file, folder, console)
    backend = EngineBackend(settings, engine, limited=False)
    try:
        reading = SourceReading.of(backend, console, flush)
        backend.results.limit()  # only now: the sinks have told which rows they still need
    except BaseException:
        backend.close()
        raise
    backend.before_close.append(reading.stop)
    reading.start()
    run_server(settings, backend)
    if reading.pump.rows:
        pump = reading.pump
        console.print(summary_table(engine, RunSummary(dict(pump.rows), pump.outlet.counts, pump.seconds)))
    failed = any(query["status"] == "FAILED" for query in engine.stats()["queries"].values())
    return int(failed or bool(reading.problem))


def serve_suspended(file: Path | None, settings: Settings) -> None:
    """Serves the definitions of a data folder without running them, so that a query can be dropped."""
    settings.check()
    if settings.path is None:
        raise PanewiseError("--suspended needs a data folder", hint="name it: --path DIR")
    if file is not None:
        raise PanewiseError(f"--suspended runs no statements, so it cannot take '{file}'", hint="leave out the file")
    if not engine_folder(settings.path).is_dir():
        raise PanewiseError(f"'{settings.path}' is not a data folder: it has no folder 'engine'", hint="check --path")
    settings = replace(settings, path=data_folder(settings.path))
    assert settings.path is not None
    engine = Engine(engine_folder(settings.path), suspended=True)
    run_server(settings, EngineBackend(settings, engine, limited=False))


@dataclass
class SourceReading:
    """The thread that reads the sources and writes results to the sinks while the server runs."""

    backend: EngineBackend
    pump: Pump
    flows: list[Flow]
    outlet: Subscribed
    flush: bool
    problem: str = ""
    _unread: dict[str, StreamDefinition] = field(default_factory=dict)  # stream name -> stream whose source failed
    _thread: threading.Thread = field(init=False)

    @staticmethod
    def of(backend: EngineBackend, console: Console, flush: bool) -> SourceReading:
        engine = backend.engine
        outlet = Subscribed(backend.results, engine.catalog, engine.driver.sinks, printer(console))

        def push(stream: str, batch: Any, producer: str | None = None, sequence: int | None = None) -> None:
            backend.push(stream, batch, producer=producer, sequence=sequence, timeout=None)
            backend.settle()

        pump = Pump(push, outlet, engine.driver.sources)
        reading = SourceReading(backend, pump, pump.open(), outlet, flush)
        pump.failed = reading.fail
        return reading

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="panewise sources", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stops reading, and returns when the sinks have all results."""
        self.pump.stop.set()
        self._thread.join()
        try:
            self._drain()
            self.pump.outlet.close()
            self.pump.notes.close()
        except (PanewiseError, OSError) as error:  # the caller still has to close the engine
            self.problem = str(error)
            logs.LOGGER.error("the last results are not in the sinks: %s", error)

    def fail(self, stream: StreamDefinition, problem: Exception) -> None:
        """Records that a source failed; it is not read again until its stream is altered."""
        self._unread[stream.name] = stream
        self.problem = self.backend.unread[stream.name] = told(problem)
        logs.LOGGER.error("the source of stream '%s' is no longer read: %s", stream.name, told(problem))

    def _run(self) -> None:
        try:
            self._read(self.flows, self.pump.rows)
            if self.flows and not self._unread and not self.pump.stop.is_set():
                rows = self.pump.rows_total
                logs.event("the sources have ended, and the server goes on until it is interrupted", rows=rows)
            while not self.pump.stop.wait(DRAIN_SECONDS):
                altered = self._altered()
                self._read(altered, [flow.stream.name for flow in altered])
        except Exception as error:  # noqa: BLE001 - any failure is logged and shown by the server
            self.problem = self.backend.unread[""] = told(error)
            logs.LOGGER.error("the run has stopped: %s", told(error))
            self.outlet.release()

    def _read(self, flows: list[Flow], streams: Iterable[str]) -> None:
        """Reads the sources to their ends, and then closes the windows of the streams if `flush` is set."""
        self.pump.run(flows)
        here = self.backend.engine.catalog.find
        ended = [name for name in streams if name not in self._unread and here(name) is not None]
        if self.flush and ended and not self.pump.stop.is_set():  # only these: clients may still push to other streams
            self.backend.engine.flush(ended)
        self._drain()

    def _altered(self) -> list[Flow]:
        """Opens again the failed sources whose streams have been altered since."""
        find = self.backend.engine.catalog.find
        altered = {name: find(name) for name, stream in self._unread.items() if find(name) is not stream}
        if not altered:
            return []
        for name in altered:
            del self._unread[name], self.backend.unread[name]
        streams = [stream for stream in altered.values() if isinstance(stream, StreamDefinition)]  # None: dropped
        try:
            return self.pump.open([stream.name for stream in streams])
        except Exception as problem:  # noqa: BLE001 - logged; the other sources are still read
            for stream in streams:
                self.fail(stream, problem)
            return []

    def _drain(self) -> None:
        self.backend.take_results()
        self.pump.outlet.drain()


def told(problem: Exception) -> str:
    """The message of an exception; with its class name if the message is not panewise's or the system's."""
    return str(problem) if isinstance(problem, PanewiseError | OSError) else f"{type(problem).__name__}: {problem}"


# -- Spark -------------------------------------------------------------------------------------------------------------


def serve_pipeline(pipeline: SparkPipeline, handle: Handle, settings: Settings, log: Path) -> None:
    """Serves a running pipeline until a signal comes or it fails; stops the pipeline before it returns."""
    from panewise.serve.http.backends.spark_backend import SparkBackend

    def end() -> None:
        os.kill(os.getpid(), signal.SIGTERM)  # ends the server as a user would

    backend = SparkBackend(pipeline, handle, settings, end)
    run_server(settings, backend)
    if backend.failed:
        raise PanewiseError(f"the pipeline has failed: {backend.failed}", hint=f"Spark's log is {log}")
