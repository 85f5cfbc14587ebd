"""Progress bars in a terminal, one for each stream that is read."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from panewise.engine.run.terminal_tables import rate

if TYPE_CHECKING:
    from panewise.engine.run.flows import Flow


class Bars:
    """Progress bars that are shown while a run reads, and removed when it has ended."""

    def __init__(self, console: Console) -> None:
        self._tasks: dict[str, TaskID] = {}
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.completed:>12,} rows"),
            TextColumn("{task.fields[speed]}"),
            TimeElapsedColumn(),
            console=console,
            transient=True,
        )

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._progress.stop()

    def show(self, flow: Flow, seconds: float) -> None:
        name = flow.stream.name
        if name not in self._tasks:
            self._tasks[name] = self._progress.add_task(name, total=flow.source.rows_total, speed="")
        self._progress.update(self._tasks[name], completed=flow.rows, speed=rate(flow.rows, seconds))
