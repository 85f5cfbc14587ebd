"""`panewise bench NAME`: figures of the papers by name; every other name is a benchmark of the source tree.

A figure of a paper is part of the package, because it needs nothing but the package and, for some, data that the user
has. Its module below `panewise.serve.papers` is imported when it runs and has

    def run(quick: bool, folder: Path | None) -> int

which prints its tables, saves its plots (`papers.plots.save_plot`) and returns the exit code. `folder` holds the data
of those figures that need some; `quick` is a small version, as tests run it.
"""

from __future__ import annotations

import importlib
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import typer

from panewise.errors import PanewiseError, did_you_mean


@dataclass(frozen=True)
class PaperFigure:
    """What is reproduced, and the module below `panewise.serve.papers` that does it."""

    module: str
    what: str


# Sorted by name.
FIGURES: dict[str, PaperFigure] = {
    "papers-000": PaperFigure(
        "papers_000", "shared aggregates and substream filters: Arasu and Widom 2004, figures 9 to 12"
    ),
    "papers-001-3": PaperFigure("papers_001_3", "update-pattern-aware plans: Golab 2006, figures 3.8 to 3.15"),
    "papers-001-4": PaperFigure(
        "papers_001_4", "rows with lifetimes on disk: Golab 2006, figures 4.4 to 4.8, appendix A"
    ),
    "papers-001-4-large": PaperFigure("papers_001_4_large", "the same at 5 GB: Golab 2006, figures 4.9 to 4.11"),
    "papers-001-5": PaperFigure(
        "papers_001_5", "orders and algorithms of joins: Golab 2006, tables 5.3 to 5.6 and figures 5.2 to 5.4"
    ),
    "papers-001-6": PaperFigure("frequent_items", "frequent items: Golab 2006, figure 6.3 (a) to (f)"),
    "papers-001-7": PaperFigure(
        "papers_001_7", "isolation of readers from window moves: Golab 2006, figures 7.8 to 7.14"
    ),
    "papers-001-8": PaperFigure(
        "papers_001_8", "schedules of periodic queries: Golab 2006, section 8.4.4 and figures 8.7 to 8.10"
    ),
    "papers-002": PaperFigure("papers_002", "subsumed windows: Patroumpas and Sellis 2011, figures 10 to 12"),
    "papers-003": PaperFigure(
        "papers_003",
        "multi-way joins: Golab and Özsu 2003, tables 5 to 8 and figures 2 to 4",
    ),
    "papers-004": PaperFigure("papers_004", "weaving many queries: Shein and Chrysanthis 2020, experiments 1 to 7"),
}


def run_benchmark(name: str | None, quick: bool = False, data: Path | None = None) -> int:
    """Runs a figure of a paper, or one or all benchmarks of the source tree; returns the exit code."""
    figure = FIGURES.get(name) if name else None
    if figure is not None:
        module = importlib.import_module(f"panewise.serve.papers.{figure.module}")
        code: int = module.run(quick, data)
        return code
    if name and name.startswith("papers"):
        raise PanewiseError(f"there is no figure '{name}' of a paper", hint=did_you_mean(name, FIGURES))
    return _run_source_tree(name, quick)


def _run_source_tree(name: str | None, quick: bool) -> int:
    root = Path(__file__).parents[3]
    if not (root / "bench" / "__main__.py").is_file():
        typer.echo("The benchmarks are part of the source tree, and this panewise was installed without it.", err=True)
        return 1
    command = [sys.executable, "-m", "bench", *([name] if name else []), *(["--quick"] if quick else [])]
    return subprocess.run(command, cwd=root, check=False).returncode
