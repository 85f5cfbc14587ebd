"""What a benchmark says: a table, what it was measured against, and its aims with whether they are met.

A report prints as a Rich table and is written as JSON to `build/bench/`, where `make clean` finds it.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).parent.parent
FIGURES = ROOT / "build" / "bench"


@dataclass(frozen=True)
class Aim:
    """One promise and what was measured for it."""

    what: str
    wanted: str
    measured: str
    met: bool

    @classmethod
    def at_least(cls, what: str, wanted: float, measured: float, unit: str = "") -> Aim:
        return cls(what, f">= {figure(wanted)}{unit}", f"{figure(measured)}{unit}", measured >= wanted)

    @classmethod
    def at_most(cls, what: str, wanted: float, measured: float, unit: str = "") -> Aim:
        return cls(what, f"<= {figure(wanted)}{unit}", f"{figure(measured)}{unit}", measured <= wanted)


@dataclass
class Report:
    """The figures of one benchmark. `agree` is False where some answer was wrong: then its speed means nothing."""

    name: str
    title: str
    columns: tuple[str, ...]
    rows: list[dict[str, Any]] = field(default_factory=list)
    aims: list[Aim] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    agree: bool = True

    def show(self, console: Console) -> None:
        table = Table(title=self.title, title_justify="left", title_style="bold")
        for column in self.columns:
            is_text = any(isinstance(row.get(column), str) for row in self.rows)
            table.add_column(column, justify="left" if is_text else "right")
        for row in self.rows:
            table.add_row(*(cell(row.get(column)) for column in self.columns), end_section=bool(row.get("section")))
        console.print(table)
        for note in self.notes:
            console.print(f"  {note}", style="dim", highlight=False)
        for aim in self.aims:
            mark = "[green]met[/]" if aim.met else "[red]NOT MET[/]"
            console.print(f"  aim: {aim.what}: {aim.wanted}; measured {aim.measured}: {mark}", highlight=False)
        if not self.agree:
            console.print("  [bold red]ANSWERS DIFFER[/]: the figures above mean nothing until they agree")
        console.print()

    def save(self, machine: dict[str, Any], quick: bool) -> Path:
        FIGURES.mkdir(parents=True, exist_ok=True)
        path = FIGURES / f"{self.name}{'_quick' if quick else ''}.json"
        path.write_text(json.dumps(asdict(self) | {"machine": machine, "quick": quick}, indent=2, default=str) + "\n")
        return path


def figure(number: float) -> str:
    """A number as people read it: three significant digits."""
    if number != number or number in (float("inf"), float("-inf")):
        return str(number)
    if number and abs(number) < 100:
        return f"{number:.3g}"
    return f"{number:,.0f}"


def cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "[bold red]NO[/]"
    return figure(value) if isinstance(value, int | float) else str(value)
