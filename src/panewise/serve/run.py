"""`panewise run` on the embedded engine: sources in, sinks out, until the sources end.

Results go to the sinks about once a second and at the end, so that a folder gets few part files and a watcher still
sees it grow.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console, Group
from rich.table import Table

from panewise.catalog import QueryDefinition, SinkDefinition
from panewise.connectors.registry import open_sink
from panewise.connectors.sinks import Sink
from panewise.runtime.engine import Engine
from panewise.serve.flows import Flow, flows_of, interleaved
from panewise.serve.statement_texts import read_statements, split_statements
from panewise.serve.tables import output_console, result_table, short_number

if TYPE_CHECKING:
    import pyarrow as pa
    from rich.progress import Progress, TaskID

DRAIN_SECONDS = 1.0


def run_file(file: Path, *, flush: bool, progress: bool) -> int:
    """Run the file to its end; the exit code is 1 where a query failed."""
    console = output_console()
    engine = Engine()
    for statement in split_statements(read_statements(file)):
        table = engine.execute(statement)
        if table is not None:
            console.print(result_table(table))
    pump = Pump(engine, console)
    code = 0
    try:
        pump.run(progress=progress and console.is_terminal)
        if flush:
            engine.flush()
    except KeyboardInterrupt:
        console.print("interrupted: what was read so far is answered")
        code = 130
    finally:
        pump.drain()
        pump.close()
    console.print(pump.summary())
    failed = any(query["status"] == "FAILED" for query in engine.stats()["queries"].values())
    return code or int(failed)


@dataclass
class Pump:
    """Moves batches from the sources into the engine and results from the engine to the sinks."""

    engine: Engine
    console: Console
    flows: list[Flow] = field(init=False)
    sinks: dict[str, list[Sink]] = field(init=False)
    results: dict[str, int] = field(init=False)
    waiting: dict[str, list[pa.Table]] = field(init=False)
    seconds: float = field(default=0.0, init=False)

    def __post_init__(self) -> None:
        catalog = self.engine.catalog
        self.flows = flows_of(catalog)
        self.sinks = {}
        self.results = {d.name: 0 for d in catalog if isinstance(d, QueryDefinition)}
        # Last, when everything else has been found right: opening a sink makes folders and files.
        for definition in catalog:
            if isinstance(definition, SinkDefinition):
                query = catalog.get(definition.source).name
                self.sinks.setdefault(query, []).append(open_sink(definition, self._print_table))
        self.waiting = {query: [] for query in self.sinks}

    def run(self, *, progress: bool) -> None:
        """Read every source to its end."""
        started = drained = time.monotonic()
        with ExitStack() as stack:
            shown = stack.enter_context(_progress(self.console)) if progress and self.flows else None
            tasks = {flow.stream.name: _task(shown, flow) for flow in self.flows}
            for flow, batch in interleaved(self.flows):
                self.engine.push(flow.stream.name, batch)
                # The engine keeps only so many results that nobody reads.
                self.fetch()
                now = time.monotonic()
                self.seconds = now - started
                if shown is not None:
                    rate = _rate(flow.rows, self.seconds)
                    shown.update(tasks[flow.stream.name], completed=flow.rows, speed=rate)
                if now - drained > DRAIN_SECONDS:
                    self.drain()
                    drained = time.monotonic()
        self.seconds = time.monotonic() - started

    def fetch(self) -> None:
        """Take all new results from the engine; those without a sink are counted and let go."""
        for name in self.results:
            table = self.engine.results(name)
            self.results[name] += table.num_rows
            if table.num_rows and name in self.sinks:
                self.waiting[name].append(table)

    def drain(self) -> None:
        """Hand all new results to their sinks."""
        import pyarrow as pa

        self.fetch()
        for name, tables in self.waiting.items():
            if tables:
                table = pa.concat_tables(tables)
                for sink in self.sinks[name]:
                    sink.write(table)
                tables.clear()

    def close(self) -> None:
        for sinks in self.sinks.values():
            for sink in sinks:
                sink.close()

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
            remarks = [f"{of_stream[f'{kind}_rows']:,} {kind}" for kind in ("late", "bad") if of_stream[f"{kind}_rows"]]
            table.add_row("stream", flow.stream.name, f"{flow.rows:,}", ", ".join(["read", *remarks]))
        for name, count in self.results.items():
            status, reason = stats["queries"][name]["status"], stats["queries"][name]["reason"]
            table.add_row("query", name, f"{count:,}", f"{status}: {reason}" if reason else status)
        return Group(table, f"{rows:,} rows in {self.seconds:.2f} s: {_rate(rows, self.seconds)}")

    def _print_table(self, title: str, table: pa.Table, rows_max: int) -> None:
        self.console.print(result_table(table, title=title, rows_max=rows_max))


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
