"""`panewise demo`: a generated trade stream, a dozen queries (`demo.cql`), and a live table of their last answers.

Rows are pushed as fast as the host accepts them, for a few seconds. The demonstration runs on Spark or, with `--engine
embedded`, in this process. Without a terminal it prints lines instead of a live table. A server runs in the same
process; the first line printed is the address of its dashboard.
"""

from __future__ import annotations

import re
import time
from contextlib import nullcontext
from dataclasses import dataclass, field
from importlib import resources
from typing import TYPE_CHECKING, Any, Protocol

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from panewise.catalog import QueryDefinition
from panewise.engine.run.terminal_tables import output_console, short_number, value_text
from panewise.temporal import duration_us

if TYPE_CHECKING:
    import pyarrow as pa

REFRESH_SECONDS = 0.25
LINE_SECONDS = 3.0


class DemoHost(Protocol):
    """Where the queries run. It has processed `rows` in `busy_seconds`, not counting the warm-up."""

    place: str
    address: str | None  # of the server that runs in this process
    rows: int
    busy_seconds: float

    @property
    def touches(self) -> int:
        """The number of trees: each row is folded once into each."""

    def queries(self) -> list[QueryDefinition]: ...
    def warm_up(self, console: Console) -> None: ...
    def work(self) -> None:
        """Processes rows for a fraction of a second."""

    def fetch(self, query: str) -> list[pa.Table]:
        """The results of the query since the last call."""

    def close(self) -> None: ...


def demo_statements() -> str:
    return resources.files("panewise.serve.cli").joinpath("demo.cql").read_text(encoding="utf-8")


def run_demo(seconds: float, engine: str = "embedded", master: str | None = None) -> None:
    console = output_console()
    statements = demo_statements()
    syntax = Syntax("", "sql", theme="ansi_dark", background_color="default")
    host: DemoHost
    if engine == "spark":
        from panewise.serve.cli.demo_spark import SparkDemo

        host = SparkDemo(statements, console, master)
    else:
        from panewise.serve.cli.demo_embedded import EmbeddedDemo

        host = EmbeddedDemo(statements)
    try:
        if host.address is not None:
            console.print(dashboard_line(host.address, seconds), soft_wrap=True)
            console.print()
        console.print(syntax.highlight(statements.strip()), soft_wrap=True)
        console.print()
        demonstration = Demonstration(console, host)
        host.warm_up(console)
        demonstration.flow(seconds)
        console.print(demonstration.closing(), soft_wrap=True)
    finally:
        host.close()


def dashboard_line(address: str, seconds: float) -> Text:
    """The line with the address of the dashboard, and how long it will answer."""
    line = Text("In your browser: ", style="bold")
    line.append(address, style=f"bold underline link {address}")
    line.append(f"  (for {seconds:g} seconds; --seconds 600 runs longer)", style="dim")
    return line


@dataclass
class LastAnswers:
    """The number of results of one query, and the last of them."""

    query: QueryDefinition
    rows: int = 0
    last: dict[str, Any] = field(default_factory=dict)

    def take(self, table: pa.Table) -> None:
        self.rows += table.num_rows
        if table.num_rows == 0:
            return
        last = table.slice(max(0, table.num_rows - 100)).to_pylist()
        end = last[-1]["window_end"]
        # Always show the same symbol, so that a viewer can follow how its answer changes.
        followed = [row for row in last if row["window_end"] == end and row.get("symbol") == "ALFA"]
        self.last = followed[0] if followed else last[-1]

    def line(self) -> Text:
        text = Text(no_wrap=True, overflow="ellipsis")
        for name, value in self.last.items():
            if name in ("window_start", "window_end"):
                continue
            text.append(f"{name} ", style="dim")
            shown = f"{value:.2f}" if isinstance(value, float) else value_text(value).plain
            text.append(f"{shown}  ")
        return text


class Demonstration:
    """Runs a host for some seconds and shows the answers of its queries."""

    def __init__(self, console: Console, host: DemoHost) -> None:
        self.console = console
        self.host = host
        self.answers = [LastAnswers(query) for query in host.queries()]

    def flow(self, seconds: float) -> None:
        live = self.console.is_terminal
        started = shown = time.monotonic()
        with Live(console=self.console, auto_refresh=False) if live else nullcontext() as display:
            while (now := time.monotonic()) - started < seconds:
                self.host.work()
                for answers in self.answers:
                    for table in self.host.fetch(answers.query.name):
                        answers.take(table)
                if display is not None and now - shown > REFRESH_SECONDS:
                    display.update(self._picture((now - started) / seconds), refresh=True)
                    shown = now
                elif display is None and now - shown > LINE_SECONDS:
                    self.console.print(self._progress_line())
                    shown = now
            if display is not None:
                display.update(self._picture(1.0), refresh=True)
        if not live:
            self.console.print(self._table())

    def closing(self) -> Group:
        host, queries = self.host, len(self.answers)
        results = sum(answers.rows for answers in self.answers)
        rate = host.rows / host.busy_seconds if host.busy_seconds else 0.0
        copies = sum(window_copies(answers.query) for answers in self.answers)
        busy = f"{host.rows:,} rows through {queries} queries {host.place} at {short_number(rate)} rows/s"
        saved = f"{short_number(host.rows * host.touches)} touches instead of {short_number(host.rows * queries)}"
        return Group(
            Text(f"{busy}, {results:,} result rows.", style="bold"),
            Text(
                f"The queries share {host.touches} trees: each row was read once and touched {host.touches} times "
                f"instead of {queries}, {saved}."
            ),
            Text(
                f"Copied into every window that it belongs to, each row would be there {copies:,.0f} times: "
                f"{copies / host.touches:,.0f} times the work."
            ),
        )

    def _picture(self, part: float) -> Group:
        below = Table.grid(padding=(0, 2))
        below.add_row(ProgressBar(total=1.0, completed=min(1.0, part), width=40), self._progress_line())
        return Group(self._table(), below)

    def _progress_line(self) -> Text:
        rate = self.host.rows / self.host.busy_seconds if self.host.busy_seconds else 0.0
        return Text(f"{self.host.rows:,} rows, {short_number(rate)} rows/s, event time {self._event_time()}")

    def _event_time(self) -> str:
        ends = [answers.last["window_end"] for answers in self.answers if answers.last]
        return max(ends).strftime("%H:%M:%S") if ends else "unknown"

    def _table(self) -> Table:
        table = Table(header_style="bold", expand=True)
        table.add_column("query", no_wrap=True)
        table.add_column("until", no_wrap=True)
        table.add_column("results", justify="right", no_wrap=True)
        table.add_column("last answer", ratio=1, no_wrap=True, overflow="ellipsis")
        for answers in self.answers:
            until = answers.last["window_end"].strftime("%H:%M:%S") if answers.last else ""
            table.add_row(answers.query.name, until, f"{answers.rows:,}", answers.line())
        return table


def window_copies(query: QueryDefinition) -> float:
    """The number of windows of the query that contain a row."""
    match = re.search(r"\[RANGE (\d+ \w+) SLIDE (\d+ \w+)", query.text)
    assert match is not None, query.text
    return duration_us(match[1]) / duration_us(match[2])
