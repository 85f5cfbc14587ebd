"""One run of an engine, from its first batch to its last: `Engine.run`, `Engine.run_available` and `panewise run`.

If the engine has a folder, runs are exactly once: batches of sources have numbers, sinks take rows by number, and both
are noted in the folder (docs/durability.md). Without a folder that holds as long as the engine lives: the run after one
that was interrupted or failed continues where that one ended.

    sources --> flows --> pump --> engine --> outlet --> sinks
                           |                    |
                      source_notes          sink_notes
"""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa

from panewise.catalog import Definition, SinkDefinition, StreamDefinition
from panewise.connectors.by_name import is_for_spark
from panewise.connectors.numbered_sinks import NumberedSink
from panewise.connectors.options import written_option
from panewise.engine.books.books import Books
from panewise.engine.run.held_interrupts import interrupts_held
from panewise.engine.run.outlets import EngineOutlet
from panewise.engine.run.pump import DRAIN_SECONDS, Pump
from panewise.engine.run.sink_notes import SinkNotes
from panewise.engine.run.source_notes import SourceNotes, notes_folder
from panewise.errors import ConnectorError, ConnectorWarning

if TYPE_CHECKING:
    from rich.console import Console

    from panewise.connectors.json_rows import Rows

SINKS = "sinks"
RESULTS = "results"  # the folder of a server's results in a data folder


@dataclass(frozen=True)
class RunSummary:
    """What a run has done.

    >>> RunSummary({"trades": 1_200, "clicks": 0}, {"volume": 60}, 0.25)
    <run: 1,200 rows read (trades 1,200, clicks 0), 60 results written (volume 60), 0.25 s>
    """

    streams: dict[str, int]  # rows read in this run, by stream
    queries: dict[str, int]  # results written to sinks in this run, by query
    seconds: float
    interrupted: bool = False

    @property
    def rows_read(self) -> int:
        return sum(self.streams.values())

    @property
    def results_written(self) -> int:
        return sum(self.queries.values())

    def __repr__(self) -> str:
        read = f"{self.rows_read:,} rows read{_by_name(self.streams)}" if self.streams else "no stream has a connector"
        written = (
            f"{self.results_written:,} results written{_by_name(self.queries)}" if self.queries else "there is no sink"
        )
        return f"<run: {read}, {written}, {self.seconds:.2f} s{', interrupted' if self.interrupted else ''}>"


def _by_name(counts: dict[str, int]) -> str:
    return f" ({', '.join(f'{name} {count:,}' for name, count in counts.items())})"


@dataclass
class RunOptions:
    """How a run proceeds.

    `stop`: the run waits for new rows until this is set; without it, it ends when the sources have no more. `flush`:
    windows with rows are closed at the end. `every_query`: results without a sink are counted and dropped. `begin` is
    called with the sinks before anything is read. `bars`: progress is shown if the console is a terminal.
    """

    console: Console
    stop: threading.Event | None = None
    flush: bool = False
    every_query: bool = False
    bars: bool = True
    begin: Callable[[dict[str, list[NumberedSink]]], None] | None = None


class Driven(Protocol):
    """What a run asks of an engine."""

    def push(
        self, stream: str, data: pa.RecordBatch | Rows, *, producer: str | None = None, sequence: int | None = None
    ) -> None: ...

    def hand_over(self, query: str, take: Callable[[pa.Table, int], None]) -> int: ...

    def flush(self) -> None: ...


class Driver:
    """The runs of one engine, one at a time, and what later runs know of earlier ones."""

    def __init__(self, books: Books, driven: Driven) -> None:
        self._is_expected = False
        self._in_data_folder = False
        self._books = books
        self._driven = driven
        self._running = threading.Lock()
        self._unannounced: list[Definition] = []  # new sources and sinks, until `tell` warns of them
        self._notes: tuple[SourceNotes, SinkNotes] | None = None

    def expect(self, *, in_data_folder: bool = False) -> None:
        """The owner of the engine runs it, or knows that only a run reads sources: no warning is needed.

        `in_data_folder`: the engine's folder lies in that of a server or of a run with --path.
        """
        self._is_expected = True
        self._in_data_folder = self._in_data_folder or in_data_folder

    # -- definitions ---------------------------------------------------------------------------------------------

    def created(self, definition: Definition) -> None:
        """A statement has created a definition."""
        connected = isinstance(definition, StreamDefinition) and written_option(definition.options, "connector")
        is_expected = self._is_expected or self._running.locked()
        if (connected or isinstance(definition, SinkDefinition)) and not is_expected:
            self._unannounced.append(definition)

    def dropped(self, definition: Definition) -> None:
        """A statement has dropped a definition; not called during a replay."""
        if isinstance(definition, SinkDefinition) and self.folder is not None:
            self.sinks.forget(definition)

    def tell(self) -> None:
        """Warns once of new sources and sinks that no run reads or feeds yet. Called by `Engine.execute`."""
        unannounced, self._unannounced = self._unannounced, []
        if not unannounced:
            return
        waiting = [definition for definition in unannounced if not is_for_spark(definition)]
        what = [
            f"sink '{definition.name}' gets no results of query '{definition.source}'"
            if isinstance(definition, SinkDefinition)
            else f"the rows of stream '{definition.name}' are not read"
            for definition in waiting
        ]
        told = [f"{', and '.join(what)} until engine.run() or engine.run_available() is called"] if what else []
        told += [
            f"only Spark has the connector of '{definition.name}': this engine cannot run it"
            for definition in unannounced
            if definition not in waiting
        ]
        warnings.warn("; ".join(told), ConnectorWarning, stacklevel=3)

    # -- notes ---------------------------------------------------------------------------------------------------

    @property
    def folder(self) -> Path | None:
        """Where runs keep their notes; None if the engine has no folder."""
        log = self._books.log
        if log is None:
            return None
        return notes_folder(log.folder.path, in_data_folder=self._in_data_folder)

    @property
    def sources(self) -> SourceNotes:
        return self._both_notes()[0]

    @property
    def sinks(self) -> SinkNotes:
        return self._both_notes()[1]

    def _both_notes(self) -> tuple[SourceNotes, SinkNotes]:
        if self._notes is None:
            folder = self.folder
            self._notes = SourceNotes(self._books, folder), SinkNotes(None if folder is None else folder / SINKS)
        return self._notes

    # -- a run ---------------------------------------------------------------------------------------------------

    def run(self, options: RunOptions) -> RunSummary:
        """Runs once. If a source or a sink fails, the other sinks get all results so far."""
        if not self._running.acquire(blocking=False):
            raise ConnectorError(
                "the engine is running already, and its sources have one reader at a time",
                hint="end the other run first: set its `stop`, or interrupt it",
            )
        try:
            self._check()
            return self._run(options)
        finally:
            self._running.release()

    def _check(self) -> None:
        """Refuses to run an engine that takes no rows, before a sink is opened."""
        self._books.turns.check()
        self._books.check_open()
        if self._books.log is not None:
            self._books.log.check_open()
            self._books.log.check_state()

    def _run(self, options: RunOptions) -> RunSummary:
        from panewise.engine.run.terminal_tables import printer

        books, console, folder = self._books, options.console, self.folder
        # In a data folder, results may have been read by a server. A sink must not miss them.
        gaps = folder is None or not (folder / RESULTS).exists()
        own = books, self._driven.hand_over, self.sinks, printer(console)
        outlet = EngineOutlet(*own, every_query=options.every_query, gaps=gaps)
        pump = Pump(self._driven.push, outlet, self.sources, stop=options.stop or threading.Event())
        interrupted, started = False, time.monotonic()
        with ExitStack() as stack:
            flows = pump.open()  # Before sinks: a sink may replace its file, and must not if no source can be read.
            stack.callback(self.sources.close)
            stack.callback(_held, outlet.close)
            outlet.open()
            if options.begin is not None:
                options.begin(outlet.by_query())
            if options.bars and console.is_terminal:
                from panewise.engine.run.progress import Bars

                pump.show_by(stack.enter_context(Bars(console)))
            try:
                pump.run(flows)
                while options.stop is not None and not options.stop.wait(DRAIN_SECONDS):
                    with interrupts_held():
                        outlet.open()
                        outlet.drain()
                    pump.run(pump.open())
                if options.flush:
                    with interrupts_held():
                        self._driven.flush()
            except KeyboardInterrupt as interrupt:
                interrupted = True
                if books.turns.broken:  # by a second Ctrl-C, which does not wait
                    raise books.turns.refusal() from interrupt
            except Exception:
                with suppress(Exception), interrupts_held():
                    outlet.drain()  # Whatever this raises, the first error is reported.
                raise
            with interrupts_held():
                outlet.drain()
        return RunSummary(dict(pump.rows), dict(outlet.counts), time.monotonic() - started, interrupted)


def _held(end: Callable[[], None]) -> None:
    with interrupts_held():
        end()
