"""`panewise run` on the embedded engine: sources in, sinks out, until the sources end.

With `--path` the engine has a folder, batches of sources have numbers and sinks take rows by number: a run that is
killed at any moment and started again leaves in the sinks what an undisturbed one does (docs/durability.md). It reads
its sources from their beginning then, as far as that is what it had read, and passes over what it has.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING

from rich.console import Console, Group
from rich.table import Table

from panewise.connectors.sinks import PrintTable
from panewise.errors import LateRowsWarning
from panewise.runtime.engine import Engine
from panewise.serve.flows import Flow, flows_of, interleaved
from panewise.serve.held_interrupts import interrupts_held
from panewise.serve.outlets import Fetched, HandedOver, Outlet
from panewise.serve.statement_texts import read_statements, split_statements
from panewise.serve.tables import output_console, result_table, short_number

if TYPE_CHECKING:
    import pyarrow as pa
    from rich.progress import Progress, TaskID

DRAIN_SECONDS = 1.0


def run_file(file: Path, *, flush: bool, progress: bool, path: Path | None = None) -> int:
    """Run the file to its end; the exit code is 1 where a query failed. With a `path` a later run goes on."""
    console = output_console()
    with warnings.catch_warnings(), opened(file, path, console) as engine:
        warnings.simplefilter("ignore", LateRowsWarning)  # The summary says it.
        pump = Pump(engine, console, outlet_of(engine, console, path), path)
        code = 0
        try:
            pump.run(progress=progress and console.is_terminal)
            if flush:
                with interrupts_held():
                    engine.flush()
        except KeyboardInterrupt:
            # A second Ctrl-C does not wait and breaks the engine; the next call says so.
            if not engine.turns.broken:
                console.print("interrupted: what was read so far is answered")
            code = 130
        finally:
            with interrupts_held():
                pump.outlet.drain()
                pump.outlet.close()
        console.print(pump.summary())
        failed = any(query["status"] == "FAILED" for query in engine.stats()["queries"].values())
    return code or int(failed)


def opened(file: Path | None, path: Path | None, console: Console) -> Engine:
    """An engine with what the file defines; what its statements return is printed."""

    def show(table: pa.Table) -> None:
        console.print(result_table(table))

    statements = [] if file is None else split_statements(read_statements(file))
    if path is not None:
        from panewise.serve.durable_start import durable_engine

        return durable_engine(path, statements, show)
    engine = Engine()
    for statement in statements:
        table = engine.execute(statement)
        if table is not None:
            show(table)
    return engine


def outlet_of(engine: Engine, console: Console, path: Path | None) -> Outlet:
    if path is None:
        return Fetched(engine, printer(console))
    outlet = HandedOver(engine, printer(console), path / "sinks")
    if (path / "results").exists():  # it was served before
        from panewise.serve.http.result_log import ResultLog
        from panewise.serve.http.settings import Settings

        results = ResultLog(
            path / "results", keep_rows=Settings.keep_rows, keep_bytes=Settings.keep_bytes, limited=False
        )
        try:
            outlet.catch_up(results)
        finally:
            results.close()
    return outlet


def printer(console: Console) -> PrintTable:
    """What console sinks print with."""

    def print_table(title: str, table: pa.Table, rows_max: int) -> None:
        console.print(result_table(table, title=title, rows_max=rows_max))

    return print_table


@dataclass
class Pump:
    """Moves batches from the sources into the engine, and has the outlet bring results to the sinks.

    With a `path` batches are numbered, and those that an earlier run has pushed are passed over. `push` is another way
    into the engine than its own, where there is one; `stop` ends it between two batches.
    """

    engine: Engine
    console: Console
    outlet: Outlet
    path: Path | None = None
    push: Callable[..., object] | None = None
    stop: Event = field(default_factory=Event)
    flows: list[Flow] = field(init=False)
    seconds: float = field(default=0.0, init=False)

    def __post_init__(self) -> None:
        self.flows = flows_of(self.engine.catalog)
        if self.path is not None:
            from panewise.serve.durable_start import check_sources

            check_sources(self.path, self.flows)

    def run(self, *, progress: bool) -> None:
        """Read every source to its end."""
        started = drained = time.monotonic()
        push = self.push or self.engine.push
        done = {flow.stream.name: self._pushed_before(flow.stream.name) for flow in self.flows}
        numbers = dict.fromkeys(done, 0)
        with ExitStack() as stack:
            shown = stack.enter_context(_progress(self.console)) if progress and self.flows else None
            tasks = {flow.stream.name: _task(shown, flow) for flow in self.flows}
            for flow, batch in interleaved(self.flows):
                if self.stop.is_set():
                    break
                name = flow.stream.name
                numbers[name] += 1
                if numbers[name] <= done[name]:
                    continue
                with interrupts_held():
                    if self.path is None:
                        push(name, batch)
                    else:
                        push(name, batch, producer=_producer(name), sequence=numbers[name])
                wanted = self.outlet.pushed()
                now = time.monotonic()
                self.seconds = now - started
                if shown is not None:
                    shown.update(tasks[name], completed=flow.rows, speed=_rate(flow.rows, self.seconds))
                if wanted or now - drained > DRAIN_SECONDS:
                    with interrupts_held():
                        self.outlet.drain()
                    drained = time.monotonic()
        self.seconds = time.monotonic() - started

    def _pushed_before(self, stream: str) -> int:
        return 0 if self.path is None else self.engine.last_sequence(stream, _producer(stream))

    def summary(self) -> Group:
        rows = sum(flow.rows for flow in self.flows)
        table = Table(header_style="bold")
        table.add_column("kind")
        table.add_column("name")
        table.add_column("rows", justify="right")
        table.add_column("status")
        stats = self.engine.stats()
        for flow in self.flows:
            of_stream = stats["streams"][flow.stream.name]
            aside = [f"{of_stream[f'{kind}_rows']:,} {kind}" for kind in ("late", "bad") if of_stream[f"{kind}_rows"]]
            table.add_row("stream", flow.stream.name, f"{flow.rows:,}", ", ".join(["read", *aside]))
        names = [flow.stream.name for flow in self.flows]
        remarks = [f"warning: {text}" for name in names if (text := stats["streams"][name]["late_remark"])]
        for name, count in self.outlet.counts.items():
            status, reason = stats["queries"][name]["status"], stats["queries"][name]["reason"]
            table.add_row("query", name, f"{count:,}", f"{status}: {reason}" if reason else status)
        return Group(table, *remarks, f"{rows:,} rows in {self.seconds:.2f} s: {_rate(rows, self.seconds)}")


def _producer(stream: str) -> str:
    return f"source:{stream.lower()}"


def _progress(console: Console) -> Progress:
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:>12,} rows"),
        TextColumn("{task.fields[speed]}"),
        TimeElapsedColumn(),
        console=console,
        transient=True,
    )


def _task(progress: Progress | None, flow: Flow) -> TaskID:
    from rich.progress import TaskID

    if progress is None:
        return TaskID(0)
    return progress.add_task(flow.stream.name, total=flow.source.rows_total, speed="")


def _rate(rows: int, seconds: float) -> str:
    return f"{short_number(rows / seconds)} rows/s" if seconds > 0 else "0 rows/s"
