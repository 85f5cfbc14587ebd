"""`panewise archive ls | files | verify | compact`: what an archive holds, whether it is whole, and making it small.

All but `compact` only read, and may be used while an engine writes.
"""

from __future__ import annotations

import json
from typing import Any

import typer
from rich.table import Table

from panewise.archive.archive import Archive
from panewise.serve.tables import output_console


def show_archive(path: str, as_json: bool) -> None:
    """The versions, the layout and each sub-index."""
    told = Archive.open(path).describe()
    if as_json:
        typer.echo(json.dumps(told))
        return
    console = output_console()
    versions = told["versions"]
    kept = f" ({len(versions)} kept, from {versions[0]})" if len(versions) > 1 else ""
    console.print(f"{told['where']}: version {told['version']}{kept}, {told['layout']}", highlight=False)
    console.print(f"key ({', '.join(told['key'])}) of {told['schema']}", highlight=False)
    moving = "; a migration has begun and not ended" if told["migrating"] else ""
    console.print(
        f"{told['rows']:,} rows, {told['bytes']:,} bytes; rows that expired by {told['now']} are gone{moving}",
        highlight=False,
    )
    shown = Table("sub-index", "layout", "files", "rows", "bytes")
    for part in told["sub_indices"]:
        cells = [part["sub_index"], part["layout"], part["files"], f"{part['rows']:,}", f"{part['bytes']:,}"]
        shown.add_row(*map(str, cells))
    console.print(shown)


def show_files(path: str, as_json: bool) -> None:
    """The Parquet files of the newest version, for other tools."""
    archive = Archive.open(path)
    with archive.snapshot() as snapshot:
        files = [archive.path(file.name) for file in snapshot.files]
        told = {"version": snapshot.version, "files": files}
    typer.echo(json.dumps(told) if as_json else "\n".join(files))


def verify_archive(path: str, as_json: bool) -> int:
    """Reads everything; 1 where something is wrong, else 0."""
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
        console = output_console()
        for problem in found.problems:
            console.print(problem, style="red", highlight=False, markup=False)
        state = "sound" if found.sound else f"{len(found.problems)} of its files damaged or misplaced"
        console.print(f"version {found.version}: {found.files} files, {found.rows:,} rows, {state}", highlight=False)
    return 0 if found.sound else 1


def compact_archive(path: str, as_json: bool) -> None:
    """One file for each sub-index, and no older versions past their grace."""
    with Archive.open(path) as archive:
        before = archive.describe()
        archive.compact()
        after = archive.describe()
    files = [sum(part["files"] for part in told["sub_indices"]) for told in (before, after)]
    told = {"version": after["version"], "files": files, "bytes": [before["bytes"], after["bytes"]]}
    if as_json:
        typer.echo(json.dumps(told))
        return
    output_console().print(
        f"version {after['version']}: {files[0]} files became {files[1]}, "
        f"{before['bytes']:,} bytes became {after['bytes']:,}",
        highlight=False,
    )
