"""The command `panewise`.

Only typer is imported here: each command imports what it needs when it runs, so that `panewise --help` answers at
once.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from panewise import __version__
from panewise.errors import PanewiseError

app = typer.Typer(
    name="panewise",
    help="Many sliding-window queries over streams, answered together.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

archive_app = typer.Typer(help="Look at an archive, verify it, compact it.", no_args_is_help=True)
app.add_typer(archive_app, name="archive")

ArchivePath = Annotated[str, typer.Argument(metavar="PATH", help="The folder of the archive, or a URI such as s3://.")]
AsJson = Annotated[bool, typer.Option("--json", help="As JSON, for programs.")]
CqlFile = Annotated[Path, typer.Argument(metavar="FILE.cql", help="Statements, each ended by a semicolon.")]


def main() -> None:
    app()


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"panewise {__version__}")
        raise typer.Exit()


@app.callback()
def panewise(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Many sliding-window queries over streams, answered together."""


@app.command()
def run(
    file: CqlFile,
    engine: Annotated[str, typer.Option(help="Where it runs: spark, or embedded in this process.")] = "spark",
    master: Annotated[
        str | None, typer.Option(help="Spark's master: local[4], spark://host:7077, sc://host for Spark Connect.")
    ] = None,
    checkpoint: Annotated[
        Path | None, typer.Option(help="The folder that keeps the progress; the next run continues from it.")
    ] = None,
    available_now: Annotated[
        bool, typer.Option("--available-now", help="Process the available data, then end; otherwise run on.")
    ] = False,
    flush: Annotated[
        bool | None,
        typer.Option(help="At the end, close all windows that hold rows; the default of the embedded engine."),
    ] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace definitions in the checkpoint that differ from the file's.")
    ] = False,
    trigger: Annotated[
        str | None, typer.Option(help="The least time between micro-batches, such as '5 seconds'.")
    ] = None,
    progress: Annotated[bool, typer.Option(help="Show progress while it runs.")] = True,
    path: Annotated[
        Path | None,
        typer.Option(help="For the embedded engine: the folder that keeps state; the next run continues from it."),
    ] = None,
    serve: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Answer over HTTP and WebSocket while it runs.")
    ] = None,
    token_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="For --serve, lines of: read|write TOKEN \\[name].")
    ] = None,
) -> None:
    """Run the statements of a file: read its sources and write its sinks."""
    with _errors_shown():
        if engine not in ("spark", "embedded"):
            raise PanewiseError(f"there is no engine '{engine}'", hint="there are spark and embedded")
        if engine == "embedded":
            _refuse_on_embedded(checkpoint, master, trigger, replace)
        elif path is not None:
            raise PanewiseError("--path is for the embedded engine", hint="on Spark the folder is --checkpoint")
        if token_file is not None and serve is None:
            raise PanewiseError("--token-file needs --serve", hint="add --serve")
        settings = None
        if serve is not None:
            from panewise.serve.cli.served_run import serve_file, settings_of

            settings = settings_of(serve, token_file, path)
        if engine == "embedded":
            from panewise.serve.cli.run import run_file

            if settings is not None:
                raise typer.Exit(serve_file(file, settings, flush=flush is not False))
            raise typer.Exit(run_file(file, flush=flush is not False, progress=progress, path=path))
        from panewise.serve.cli.run_spark import SparkRun, run_on_spark

        run = SparkRun(file, master, checkpoint, trigger, available_now, bool(flush), replace, progress, settings)
        raise typer.Exit(run_on_spark(run))


def _refuse_on_embedded(checkpoint: Path | None, master: str | None, trigger: str | None, replace: bool) -> None:
    """Refuses options that only Spark has, instead of ignoring them."""
    instead = {
        "--checkpoint": (checkpoint, "use --path for the folder from which the next run continues"),
        "--master": (master, "it runs in this process"),
        "--trigger": (trigger, "it has no micro-batches: rows are processed as they are read"),
        "--replace": (replace, "change the definitions in the folder by statements, such as DROP QUERY"),
    }
    for option, (value, hint) in instead.items():
        if value:
            raise PanewiseError(f"{option} is for Spark, not for the embedded engine", hint=hint)


@app.command()
def explain(
    file: CqlFile,
    query: Annotated[str | None, typer.Option(help="Only this query; otherwise everything registered.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON, for programs.")] = False,
    graph: Annotated[
        str | None,
        typer.Option(
            metavar="OUT.svg|OUT.dot|-", help="Draw what is shared: an SVG, or Graphviz text, with - to the screen."
        ),
    ] = None,
) -> None:
    """Show how the queries of a file would be answered."""
    with _errors_shown():
        from panewise.serve.cli.explain import explain_file, graph_file

        if graph is not None:
            typer.echo(graph_file(file, graph, query=query, as_json=as_json), nl=False)
        else:
            typer.echo(explain_file(file, query=query, as_json=as_json))


@app.command()
def shell(
    file: Annotated[Path | None, typer.Argument(metavar="[FILE.cql]", help="Statements to begin with.")] = None,
) -> None:
    """Type statements and see their answers."""
    with _errors_shown():
        from panewise.serve.cli.shell import run_shell

        raise typer.Exit(run_shell(file))


@app.command()
def demo(
    seconds: Annotated[float, typer.Option(min=0.1, help="How long the stream flows.")] = 15.0,
    engine: Annotated[str, typer.Option(help="Where it runs: spark, or embedded in this process.")] = "spark",
    master: Annotated[str | None, typer.Option(help="Spark's master; local[*] unless told otherwise.")] = None,
) -> None:
    """A generated trade stream and a dozen queries over it, live in the terminal and in a browser."""
    with _errors_shown():
        if engine not in ("spark", "embedded"):
            raise PanewiseError(f"there is no engine '{engine}'", hint="there are spark and embedded")
        from panewise.serve.cli.demo import run_demo

        run_demo(seconds, engine, master)


@app.command()
def serve(
    file: Annotated[Path | None, typer.Argument(metavar="[FILE.cql]", help="Statements to begin with.")] = None,
    host: Annotated[
        str, typer.Option(help="The address to listen on; tokens are required unless it is loopback.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65_535, help="The port; 0 picks a free one.")] = 8461,
    path: Annotated[
        Path | None, typer.Option(metavar="DIR", help="The data folder; without one, all state is lost at the end.")
    ] = None,
    token_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Lines of: read|write TOKEN \\[name]. Also PANEWISE_TOKENS.")
    ] = None,
    log: Annotated[str, typer.Option(metavar="text|json", help="The format of the log on standard error.")] = "text",
    max_body_bytes: Annotated[int, typer.Option(help="Bytes of one request's body.")] = 64 << 20,
    max_statement_chars: Annotated[int, typer.Option(help="Characters of one request's statements.")] = 100_000,
    max_queries: Annotated[int, typer.Option(help="Queries registered at the same time.")] = 10_000,
    max_subscribers: Annotated[int, typer.Option(help="Live connections at the same time.")] = 1_000,
    max_rate: Annotated[int, typer.Option(help="Requests per second and token; 0 for no limit.")] = 20_000,
    keep_rows: Annotated[int, typer.Option(help="Result rows kept for each query.")] = 1_000_000,
    keep_bytes: Annotated[int, typer.Option(help="Bytes of results kept for each query.")] = 256 << 20,
    keep_total: Annotated[int, typer.Option(help="Bytes of all queries' results in memory.")] = 512 << 20,
    read_rows: Annotated[int, typer.Option(help="Rows that a one-time query may produce.")] = 10_000_000,
    read_bytes: Annotated[int, typer.Option(help="Bytes that a one-time query may need.")] = 1 << 30,
    read_seconds: Annotated[float, typer.Option(help="Seconds that a one-time query may take.")] = 30.0,
    max_reads: Annotated[int, typer.Option(help="One-time queries at the same time; others wait.")] = 2,
    suspended: Annotated[
        bool, typer.Option("--suspended", help="Run nothing, so that a query that prevents a start can be dropped.")
    ] = False,
) -> None:
    """Serve an embedded engine over HTTP and WebSocket, with a dashboard."""
    with _errors_shown():
        from panewise.serve.cli.served_run import serve_file, serve_suspended
        from panewise.serve.http.gate.access import tokens_from
        from panewise.serve.http.service.settings import Settings

        settings = Settings(
            host=host, port=port, path=path, tokens=tokens_from(token_file), token_file=token_file, log=log,
            max_body_bytes=max_body_bytes, max_statement_chars=max_statement_chars, max_queries=max_queries,
            max_subscribers=max_subscribers, requests_per_second=max_rate, keep_rows=keep_rows, keep_bytes=keep_bytes,
            keep_total=keep_total,
            read_rows=read_rows, read_bytes=read_bytes, read_seconds=read_seconds, max_reads=max_reads,
        )  # fmt: skip
        if suspended:
            serve_suspended(file, settings)
            return
        raise typer.Exit(serve_file(file, settings, flush=False))


@app.command()
def calibrate() -> None:
    """Measure the costs of operations on this machine; the optimizer chooses trees and techniques by them."""
    with _errors_shown():
        from panewise.optimize.sharing.costs.calibration import calibrated, calibration_path

        typer.echo("measuring for some seconds; longer if loops have to be compiled first ...")
        figures = calibrated(refresh=True).figures
        folds = ", ".join(f"{state} {ns:.2f} ns" for state, ns in figures.fold_ns.items())
        typer.echo(f"a row enters a state: {folds}")
        kept = calibration_path()
        typer.echo(f"kept in {kept}" if kept.is_file() else f"not kept: '{kept}' cannot be written")


@app.command()
def bench(
    name: Annotated[
        str | None,
        typer.Argument(metavar="[NAME]", help="Only this benchmark, or an experiment: papers-golab2006-ch6."),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Run a small version.")] = False,
    data: Annotated[
        Path | None, typer.Option(help="The folder with the recorded streams that some experiments need.")
    ] = None,
) -> None:
    """Run the benchmarks of the source tree, or an experiment of a paper."""
    with _errors_shown():
        from panewise.serve.cli.bench import run_benchmark

        raise typer.Exit(run_benchmark(name, quick=quick, data=data))


@archive_app.command("ls")
def archive_ls(path: ArchivePath, as_json: AsJson = False) -> None:
    """Show the layout of an archive, its rows, and each sub-index."""
    with _errors_shown():
        from panewise.serve.cli.archive_commands import show_archive

        show_archive(path, as_json)


@archive_app.command("files")
def archive_files(path: ArchivePath, as_json: AsJson = False) -> None:
    """Print the Parquet files of the newest version, for other tools."""
    with _errors_shown():
        from panewise.serve.cli.archive_commands import show_files

        show_files(path, as_json)


@archive_app.command("verify")
def archive_verify(path: ArchivePath, as_json: AsJson = False) -> None:
    """Read all files of the newest version; the exit code is 1 if something is damaged."""
    with _errors_shown():
        from panewise.serve.cli.archive_commands import verify_archive

        raise typer.Exit(verify_archive(path, as_json))


@archive_app.command("compact")
def archive_compact(path: ArchivePath, as_json: AsJson = False) -> None:
    """Merge each sub-index into one file, and remove old versions after their grace period."""
    with _errors_shown():
        from panewise.serve.cli.archive_commands import compact_archive

        compact_archive(path, as_json)


@contextmanager
def _errors_shown() -> Iterator[None]:
    """Prints a user's mistake as a message without a traceback, and exits with 1."""
    try:
        yield
    except PanewiseError as error:
        from panewise.engine.run.terminal_tables import error_console, error_text

        error_console().print(error_text(error))
        raise typer.Exit(1) from None


if __name__ == "__main__":
    main()
