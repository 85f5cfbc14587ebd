"""`panewise run` on the embedded engine: runs the statements of a file, then its sources and sinks to their end.

With `--path` the engine has a folder: a run that is killed at any moment and started again writes the same rows to the
sinks as an uninterrupted one (docs/durability.md).
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from panewise.connectors.numbered_sinks import NumberedSink
from panewise.engine.engine import Engine
from panewise.engine.run.driver import RESULTS, RunOptions, RunSummary
from panewise.engine.run.terminal_tables import output_console, rate, result_table
from panewise.errors import BadRowsWarning, LateRowsWarning
from panewise.serve.cli.statement_texts import read_statements, split_statements

if TYPE_CHECKING:
    import pyarrow as pa


def run_file(file: Path, *, flush: bool, progress: bool, path: Path | None = None) -> int:
    """Runs the file to its end; returns 1 if a query failed, 130 if interrupted. With `path`, a later run continues."""
    console = output_console()
    with warnings.catch_warnings(), opened(file, path, console) as engine:
        for said in (LateRowsWarning, BadRowsWarning):
            warnings.simplefilter("ignore", said)  # The summary says it.
        options = RunOptions(console, None, flush, every_query=True, bars=progress)
        if path is not None and (path / RESULTS).exists():  # it was served before
            options.begin = lambda sinks: _catch_up(path / RESULTS, sinks)
        summary = engine.driver.run(options)
        if summary.interrupted:
            console.print("interrupted: what was read so far is answered")
        console.print(summary_table(engine, summary))
        failed = any(query["status"] == "FAILED" for query in engine.stats()["queries"].values())
    return 130 if summary.interrupted else int(failed)


def opened(file: Path | None, path: Path | None, console: Console) -> Engine:
    """An engine with the definitions of the file; tables that its statements return are printed."""

    def show(table: pa.Table) -> None:
        console.print(result_table(table))

    statements = [] if file is None else split_statements(read_statements(file))
    if path is not None:
        from panewise.serve.cli.durable_start import durable_engine

        return durable_engine(path, statements, show)
    engine = Engine()
    engine.driver.expect()
    for statement in statements:
        table = engine.execute(statement)
        if table is not None:
            show(table)
    return engine


def _catch_up(folder: Path, sinks: dict[str, list[NumberedSink]]) -> None:
    """Writes to the sinks the rows that a killed server took from the engine and did not deliver."""
    from panewise.serve.cli.subscribed import read_on
    from panewise.serve.http.results.result_log import ResultLog
    from panewise.serve.http.service.settings import Settings

    results = ResultLog(folder, keep_rows=Settings.keep_rows, keep_bytes=Settings.keep_bytes, limited=False)
    try:
        read_on(results, sinks)
    finally:
        results.close()


def row_remarks(streams: Iterable[dict[str, Any]]) -> list[Text]:
    """Warnings about late and bad rows, from the streams' figures; in bold red if most rows were not processed."""
    said = []
    for stream in streams:
        for kind in ("late", "bad"):
            if text := stream[f"{kind}_remark"]:
                most = 2 * stream[f"{kind}_rows"] > stream["rows"]
                said.append(Text(f"warning: {text}", style="bold red" if most else "yellow"))
    return said


def summary_table(engine: Engine, summary: RunSummary) -> Group:
    """Rows of each stream and query, the status of each query, and the rate of the run."""
    table = Table(header_style="bold")
    table.add_column("kind")
    table.add_column("name")
    table.add_column("rows", justify="right")
    table.add_column("status")
    stats = engine.stats()
    for name, count in summary.streams.items():
        of_stream = stats["streams"][name]
        aside = [f"{of_stream[f'{kind}_rows']:,} {kind}" for kind in ("late", "bad") if of_stream[f"{kind}_rows"]]
        table.add_row("stream", name, f"{count:,}", ", ".join(["read", *aside]))
    remarks = row_remarks(stats["streams"][name] for name in summary.streams)
    for name, count in summary.queries.items():
        status, reason = stats["queries"][name]["status"], stats["queries"][name]["reason"]
        table.add_row("query", name, f"{count:,}", f"{status}: {reason}" if reason else status)
    rows, seconds = summary.rows_read, summary.seconds
    return Group(table, *remarks, f"{rows:,} rows in {seconds:.2f} s: {rate(rows, seconds)}")
