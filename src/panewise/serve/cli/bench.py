"""`panewise bench NAME`: runs a benchmark or an experiment of the source tree in a process of its own.

`papers-NAME` is an experiment of a paper (`python -m papers NAME`); every other name is a benchmark (`python -m bench
NAME`). If panewise was installed without its source tree, the command prints where to get it.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import typer

PAPERS = "papers"


def source_tree() -> Path | None:
    """The root of the source tree that contains this package; None if it was installed without one."""
    root = Path(__file__).parents[4]
    return root if all((root / room / "__main__.py").is_file() for room in ("bench", PAPERS)) else None


def run_benchmark(name: str | None, quick: bool = False, data: Path | None = None) -> int:
    """Runs an experiment of a paper, or one or all benchmarks of the source tree; returns the exit code."""
    root = source_tree()
    if root is None:
        typer.echo(
            "The benchmarks and the papers' experiments are part of the source tree, and this panewise was installed "
            "without it.\nUnpack the source distribution, or clone the repository, and run `make bench` there, or "
            "`python -m papers`.",
            err=True,
        )
        return 1
    return subprocess.run(bench_command(name, quick, data), cwd=root, check=False).returncode


def bench_command(name: str | None, quick: bool, data: Path | None) -> list[str]:
    """The command to run in the root of the source tree.

    >>> bench_command("papers-golab2006-ch6", True, None)[1:]
    ['-m', 'papers', 'golab2006-ch6', '--quick']
    >>> bench_command("windows", False, None)[1:]
    ['-m', 'bench', 'windows']
    """
    room, own = "bench", name
    if name is not None and name.partition("-")[0] == PAPERS:
        room, own = PAPERS, name.partition("-")[2]
    command = [sys.executable, "-m", room, *([own] if own else []), *(["--quick"] if quick else [])]
    if room == PAPERS and data is not None:
        command += ["--data", str(data.resolve())]  # absolute, because the command runs in another folder
    return command
