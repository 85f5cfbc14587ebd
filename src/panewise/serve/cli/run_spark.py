"""`panewise run` on Spark: runs the statements of a file as one streaming query and shows its progress."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from panewise.engine.run.terminal_tables import output_console, result_table, short_number
from panewise.errors import PanewiseError
from panewise.serve.cli.run import row_remarks
from panewise.serve.cli.statement_texts import read_statements, split_statements
from panewise.spark.environment.spark_problems import reason_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from panewise.serve.http.service.settings import Settings
    from panewise.spark.handle import Handle
    from panewise.spark.pipeline import SparkPipeline

REFRESH_SECONDS = 0.5


@dataclass(frozen=True)
class SparkRun:
    """The options of a run."""

    file: Path
    master: str | None = None
    checkpoint: Path | None = None
    trigger: str | None = None
    available_now: bool = False
    flush: bool = False
    replace: bool = False
    progress: bool = True
    serve: Settings | None = None


@cache
def spark_log() -> Path:
    """Spark's log file. It is new and has an unpredictable name, so no other user can have created or linked it."""
    descriptor, name = tempfile.mkstemp(prefix="panewise-spark-", suffix=".log")
    os.close(descriptor)
    return Path(name)


def spark_session(console: Console, master: str | None) -> SparkSession:
    """A standard session whose log goes to a file and which shows no progress bars: both would disturb our table."""
    from panewise.spark.environment.session import prepare_python

    prepare_python()
    from pyspark.sql import SparkSession

    with console.status("starting Spark"), errors_to(spark_log()):
        builder = SparkSession.builder.appName("panewise").config("spark.ui.showConsoleProgress", "false")
        if master is not None:
            builder = builder.remote(master) if master.startswith("sc://") else builder.master(master)
        spark = builder.getOrCreate()
        if master is None or not master.startswith("sc://"):
            spark.sparkContext.setLogLevel("ERROR")
        return spark


@contextmanager
def errors_to(file: Path) -> Iterator[None]:
    """Redirects standard error to a file. Processes started in the block keep the redirection while they live."""
    own = os.dup(2)
    try:
        with file.open("ab") as log:
            os.dup2(log.fileno(), 2)
        yield
    finally:
        os.dup2(own, 2)
        os.close(own)


def run_on_spark(run: SparkRun) -> int:
    """Runs until the sources end or a signal comes; returns 1 if a query failed, 130 if interrupted."""
    if run.serve is not None and (run.available_now or run.flush):
        raise PanewiseError("--available-now and --flush end a run, but --serve runs until it is interrupted")
    from panewise.spark.pipeline import SparkPipeline

    console = output_console()
    statements = split_statements(read_statements(run.file))
    spark = spark_session(console, run.master)
    try:
        checkpoint = None if run.checkpoint is None else str(run.checkpoint)
        pipeline = SparkPipeline(spark, checkpoint, name=run.file.stem)
        pipeline.print_table = PrintTable()
        for statement in statements:
            table = pipeline.execute(statement)
            if table is not None:
                console.print(result_table(table))
        with console.status("starting the pipeline"):
            handle = pipeline.start(trigger=run.trigger, available_now=run.available_now, replace=run.replace)
        code = _follow(handle, console, run) if run.serve is None else _served(pipeline, handle, run.serve)
        console.print(summary(handle))
        failed = any(query["status"] == "FAILED" for query in handle.stats()["queries"].values())
        return code or int(failed)
    finally:
        spark.stop()


def _served(pipeline: SparkPipeline, handle: Handle, settings: Settings) -> int:
    from panewise.serve.cli.served_run import serve_pipeline

    try:
        serve_pipeline(pipeline, handle, settings, spark_log())
    finally:
        handle.stop()
    return 0


def _follow(handle: Handle, console: Console, run: SparkRun) -> int:
    live = run.progress and console.is_terminal
    try:
        with Live(console=console, auto_refresh=False, transient=True) if live else nullcontext() as display:
            while not handle.wait(REFRESH_SECONDS):
                if display is not None:
                    display.update(summary(handle), refresh=True)
        if run.flush:
            handle.flush()
    except KeyboardInterrupt:
        console.print("interrupted: rows read so far are processed; a run with the same checkpoint continues from here")
        return 130
    except PanewiseError:
        raise
    except Exception as problem:  # noqa: BLE001 - Spark may raise anything when a query fails
        hint = f"Spark's log is {spark_log()}"
        raise PanewiseError(f"the pipeline has failed: {reason_of(problem)}", hint=hint) from None
    finally:
        handle.stop()
    return 0


class PrintTable:
    """Prints the rows of console sinks. A class, because Spark Connect pickles it."""

    def __call__(self, title: str, table: pa.Table, rows_max: int) -> None:
        output_console().print(result_table(table, title=title, rows_max=rows_max))


def summary(handle: Handle) -> Group:
    """Rows and watermarks of streams, results and status of queries, and figures of the pipeline."""
    stats, metrics = handle.stats(), handle.metrics()
    table = Table(header_style="bold")
    table.add_column("kind")
    table.add_column("name")
    table.add_column("rows", justify="right")
    table.add_column("status")
    for name, stream in stats["streams"].items():
        remarks = [f"{stream[f'{kind}_rows']:,} {kind}" for kind in ("late", "bad") if stream[f"{kind}_rows"]]
        until = f"come to {stream['watermark']}" if stream["watermark"] else "nothing yet"
        table.add_row("stream", name, f"{stream['rows']:,}", ", ".join([until, *remarks]))
    for name, query in stats["queries"].items():
        status = f"{query['status']}: {query['reason']}" if query["reason"] else query["status"]
        table.add_row("query", name, f"{query['results']:,}", status)
    return Group(table, *row_remarks(stats["streams"].values()), Text(_figures(metrics)))


def _figures(metrics: dict[str, Any]) -> str:
    state = short_number(metrics["state_bytes"])
    return (
        f"{metrics['batches']:,} micro-batches, the last in {metrics['trigger_seconds']:.2f} s; "
        f"{metrics['rows']:,} rows, {metrics['results']:,} results, {state}B of state"
    )
