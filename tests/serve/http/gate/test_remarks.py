"""Who else on the machine may read what a server keeps: modes of what it makes, remarks on what it finds."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

import panewise as pw
from panewise.serve.http.gate.remarks import remarks
from panewise.serve.http.service.settings import Settings
from tests.serve.http.serving import BUSY, NDJSON, READ, define, process, rows, served
from tests.waiting import PATIENCE_S, until


@pytest.fixture(autouse=True)
def usual_umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def modes(folder: Path) -> dict[str, int]:
    """Of a folder and all that is in it."""
    return {str(path.relative_to(folder)): path.stat().st_mode & 0o777 for path in (folder, *folder.rglob("*"))}


def assert_private(folder: Path) -> None:
    wanted = {str(path.relative_to(folder)): 0o700 if path.is_dir() else 0o600 for path in (folder, *folder.rglob("*"))}
    assert len(wanted) > 1 and modes(folder) == wanted


def test_a_data_folder_is_made_for_its_user_alone(tmp_path: Path) -> None:
    with served(path=tmp_path / "data") as (client, backend):
        define(client, f"CREATE QUERY busy AS {BUSY}")
        client.post("/v1/streams/t/rows", content=rows((1, "a", 1), (3, "b", 2)), headers=NDJSON)
        until(lambda: backend.results.bounds("busy")[1])
        assert_private(tmp_path / "data")
        assert {"engine", "results", "files"} <= modes(tmp_path / "data").keys()
    assert_private(tmp_path / "data")  # with the snapshot


def test_an_engine_makes_its_folder_for_its_user_alone(tmp_path: Path) -> None:
    with pw.Engine(tmp_path / "around" / "engine") as engine:
        engine.execute("CREATE STREAM t (ts TIMESTAMP)")
    assert_private(tmp_path / "around")


@pytest.mark.parametrize(
    ("mode", "open"), [(0o600, False), (0o640, False), (0o660, False), (0o644, True), (0o602, True)]
)
def test_a_token_file_that_is_open_to_all_is_remarked_on(tmp_path: Path, mode: int, open: bool) -> None:
    file = tmp_path / "tokens"
    file.write_text(f"read {READ}\n")
    file.chmod(mode)
    found = list(remarks(Settings(token_file=file)))
    assert len(found) == open
    assert all(str(file) in remark and READ not in remark for remark in found)


@pytest.mark.parametrize(("mode", "open"), [(0o700, False), (0o750, False), (0o755, True), (0o711, True)])
def test_a_data_folder_that_is_open_to_all_is_remarked_on(tmp_path: Path, mode: int, open: bool) -> None:
    tmp_path.chmod(mode)
    assert len(list(remarks(Settings(path=tmp_path)))) == open
    assert list(remarks(Settings(path=tmp_path / "nothing", token_file=tmp_path / "none"))) == []


def test_remarks_stand_on_standard_error_at_the_start(tmp_path: Path) -> None:
    tokens, data = tmp_path / "tokens", tmp_path / "data"
    tokens.write_text(f"read {READ}\n")
    data.mkdir(0o755)
    with process("--token-file", str(tokens), "--path", str(data)) as server:
        server.process.send_signal(signal.SIGTERM)
        said = server.process.communicate(timeout=PATIENCE_S)[1]
    assert f"the token file '{tokens}' is open to all users" in said
    assert f"the data folder '{data}' is open to all users" in said
    assert said.index("token file") < said.index("serving")
    assert data.stat().st_mode & 0o777 == 0o755  # said, and not changed
