"""How the papers' figures are shown: a console, tables, and where a plot went."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from papers.plots import Panel, save_plot


def figures_console() -> Console:
    # A table folded to 80 columns in a file or a log is hard to read.
    return Console(width=None if sys.stdout.isatty() else 150, highlight=False)


@contextmanager
def counted_steps(what: str, total: int) -> Iterator[Callable[[], None]]:
    """A bar on the terminal, where there is one, until the end of a long run; call what it gives after each step."""
    with Progress(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn(),
        console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty(),
    ) as progress:  # fmt: skip
        task = progress.add_task(what, total=total)
        yield lambda: progress.advance(task)


def show_table(console: Console, title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """The first column to the left, all others, figures, to the right."""
    table = Table(title=title, title_justify="left", title_style="bold")
    for number, column in enumerate(columns):
        table.add_column(column, justify="right" if number else "left")
    for row in rows:
        table.add_row(*row)
    console.print(table)


def show_plot(console: Console, name: str, panels: Sequence[Panel]) -> None:
    """Saves the plot and says where."""
    path = save_plot(name, panels)
    console.print(f"plot: {path}" if path else "no plot: pip install 'panewise[bench]' for matplotlib")
