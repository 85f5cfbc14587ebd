"""`panewise archive`: what it shows of an archive, and how it ends where one is damaged."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from typer.testing import CliRunner, Result

import panewise as pw
from panewise.archive.archive import Archive
from panewise.archive.layout import Layout
from panewise.serve.cli.cli import app


def archive_command(*arguments: str) -> Result:
    return CliRunner(env={"COLUMNS": "200"}).invoke(app, ["archive", *arguments], catch_exceptions=False)


@pytest.fixture
def path(tmp_path: Path) -> str:
    with pw.Engine() as engine:
        engine.execute("CREATE STREAM t (ts TIMESTAMP, k STRING, v BIGINT)")
        options = f"path = '{tmp_path / 'a'}', key = 'k', lifetime = '10 minutes', every = '10 seconds', layout = '2x3'"
        engine.execute(f"CREATE ARCHIVE a FROM t WITH ({options}, update = 'no_rebuild')")
        for second in range(101):
            engine.push("t", {"ts": second * 1_000_000, "k": "ab"[second % 2], "v": second})
            if second % 10 == 0:
                engine.stats()
    return str(tmp_path / "a")


def test_ls_shows_layout_and_rows(path: str) -> None:
    shown = archive_command("ls", path)
    assert shown.exit_code == 0 and "NoRebuild2x3" in shown.output and "100 rows" in shown.output
    told = json.loads(archive_command("ls", path, "--json").output)
    assert (told["rows"], told["key"]) == (100, ["k"]) and sum(part["rows"] for part in told["sub_indices"]) == 100


def test_files_are_those_of_the_newest_version(path: str) -> None:
    duckdb = pytest.importorskip("duckdb")
    files = archive_command("files", path).output.split()
    assert json.loads(archive_command("files", path, "--json").output)["files"] == files
    assert duckdb.sql(f"SELECT count(*), sum(v) FROM read_parquet({files})").fetchall() == [(100, sum(range(100)))]


def test_compact_leaves_one_file_a_sub_index(path: str) -> None:
    told = json.loads(archive_command("compact", path, "--json").output)
    assert told["files"][0] > told["files"][1] == 6
    assert "6 files became 6" in archive_command("compact", path).output
    assert archive_command("verify", path).exit_code == 0


def test_verify_ends_with_one_where_a_file_is_damaged(path: str) -> None:
    assert "sound" in archive_command("verify", path).output
    damaged = Path(archive_command("files", path).output.split()[0])
    damaged.write_bytes(damaged.read_bytes()[:-9])
    found = archive_command("verify", path)
    assert found.exit_code == 1 and damaged.name in found.output
    told = archive_command("verify", path, "--json")
    assert (
        told.exit_code == 1 and not json.loads(told.output)["sound"] and len(json.loads(told.output)["problems"]) == 1
    )


def test_a_folder_without_an_archive_is_said_to_have_none(tmp_path: Path) -> None:
    for command in ("ls", "files", "verify", "compact"):
        assert archive_command(command, str(tmp_path)).exit_code == 1


def test_names_and_paths_are_shown_as_they_are(tmp_path: Path) -> None:
    """Brackets are no markup, and a path is not cut in two where the screen ends."""
    where = tmp_path / "[bold]of[/bold]" / ("long" * 30)
    schema = pa.schema([("k [x]", pa.int64())])
    archive = Archive.create(where, schema, key="k [x]", layout=Layout(1, 1, 10, 100))
    shown = archive_command("ls", str(where)).output
    assert f"{where}: version 1" in shown and "key (k [x]) of k [x] BIGINT" in shown and "no update yet" in shown
    assert archive_command("files", str(where)).output == ""
    archive.update(1, pa.table({"k [x]": [1], "_inserted": [1], "_expires": [50]}))
    Path(archive.path(archive.manifest.files[0].name)).unlink()
    found = archive_command("verify", str(where))
    assert found.exit_code == 1 and f"of the archive '{where}'" in found.output and "problems: 1" in found.output
