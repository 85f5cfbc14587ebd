"""`panewise archive ls | files | verify | compact`: inspect, check and compact an archive.

All commands but `compact` only read, and may run while an engine writes.
"""

from __future__ import annotations

import json
from typing import Any

import typer
from rich.table import Table

from panewise.archive.archive import Archive
from panewise.engine.run.terminal_tables import output_console


def show_archive(path: str, as_json: bool) -> None:
    """Prints the versions, the layout and each sub-index."""
    told = Archive.open(path).describe()
    if as_json:
        typer.echo(json.dumps(told))
        return
    versions = told["versions"]
    kept = f" ({len(versions)} kept, from {versions[0]})" if len(versions) > 1 else ""
    gone = "no update yet" if told["now"] is None else f"rows that expired by {told['now']} are gone"
    moving = "; a migration has begun and not ended" if told["migrating"] else ""
    _say(f"{told['where']}: version {told['version']}{kept}, {told['layout']}")
    _say(f"key ({', '.join(told['key'])}) of {told['schema']}")
    _say(f"{told['rows']:,} rows, {told['bytes']:,} bytes; {gone}{moving}")
    shown = Table("sub-index", "layout", "files", "rows", "bytes")
    for part in told["sub_indices"]:
        cells = [part["sub_index"], part["layout"], part["files"], f"{part['rows']:,}", f"{part['bytes']:,}"]
        shown.add_row(*map(str, cells))
    output_console().print(shown)


def show_files(path: str, as_json: bool) -> None:
    """Prints the Parquet files of the newest version, for other tools."""
    archive = Archive.open(path)
    with archive.snapshot() as snapshot:
        files = [archive.path(file.name) for file in snapshot.files]
        told = {"version": snapshot.version, "files": files}
    for line in [json.dumps(told)] if as_json else files:
        typer.echo(line)


def verify_archive(path: str, as_json: bool) -> int:
    """Reads every file and prints the problems; returns 1 if there are any, else 0."""
    found = Archive.open(path).verify()
    told: dict[str, Any] = {
        "version": found.version,
        "files": found.files,
        "rows": found.rows,
        "sound": found.sound,
        "problems": list(found.problems),
    }
    if as_json:
        typer.echo(json.dumps(told))
    else:
        for problem in found.problems:
            _say(problem, style="red")
        state = "sound" if found.sound else f"damaged (problems: {len(found.problems)})"
        _say(f"version {found.version}: {found.files} files, {found.rows:,} rows, {state}")
    return 0 if found.sound else 1


def compact_archive(path: str, as_json: bool) -> None:
    """Merges each sub-index into one file, and removes old versions after their grace period."""
    with Archive.open(path) as archive:
        before = archive.describe()
        archive.compact()
        after = archive.describe()
    files = [sum(part["files"] for part in told["sub_indices"]) for told in (before, after)]
    told = {"version": after["version"], "files": files, "bytes": [before["bytes"], after["bytes"]]}
    if as_json:
        typer.echo(json.dumps(told))
        return
    _say(
        f"version {after['version']}: {files[0]} files became {files[1]}, "
        f"{before['bytes']:,} bytes became {after['bytes']:,}"
    )


def _say(line: str, style: str | None = None) -> None:
    """Prints a line unchanged: no markup, because paths may contain brackets, and no wrapping, so it can be copied."""
    output_console().print(line, style=style, highlight=False, markup=False, soft_wrap=True)
