"""Corrupt, cut, foreign and missing files, a full disk, a read-only folder: a clear error, never a wrong answer."""

from __future__ import annotations

import errno
import os
import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from panewise.archive.archive import Archive
from panewise.archive.layout import Layout
from panewise.archive.storage import LocalStorage
from panewise.errors import ArchiveError
from panewise.state.durable_files import FileSystem
from tests.archive.plain_table import EVERY, LIFETIME, SCHEMA, Row, rows_of, table_of

ROWS: list[Row] = [(key % 10, f"row {key}", 1, 50) for key in range(200)]


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    made = Archive.create(tmp_path, SCHEMA, key="key", layout=Layout(1, 1, EVERY, LIFETIME))
    made.update(2, table_of(ROWS[:100]))
    made.update(3, table_of(ROWS[100:]))
    made.close()
    return made


def newest_file(archive: Archive, folder: Path) -> Path:
    return folder / archive.manifest.files[0].name


def test_any_changed_byte_is_noticed_or_does_no_harm(archive: Archive, tmp_path: Path) -> None:
    path = newest_file(archive, tmp_path)
    whole, chance = path.read_bytes(), random.Random(1)
    noticed: list[str] = []
    for place in chance.sample(range(len(whole)), 150):
        damaged = bytearray(whole)
        damaged[place] ^= 1 << chance.randrange(8)
        path.write_bytes(damaged)
        try:
            assert rows_of(Archive.open(tmp_path).scan()) == sorted(ROWS, key=repr)
        except ArchiveError as problem:
            noticed.append(str(problem))
            assert not Archive.open(tmp_path).verify().sound
    # Page indices and bloom filters are not read here: what is wrong there does no harm to answers.
    assert len(noticed) > 75 and all(path.name in told and "hint" in told for told in noticed)
    assert Archive.open(tmp_path, version=2).scan().num_rows == 100


@pytest.mark.parametrize("content", ["cut", "empty", "text", "foreign", "missing"])
def test_a_file_that_is_not_ours(content: str, archive: Archive, tmp_path: Path) -> None:
    path = newest_file(archive, tmp_path)
    whole = path.read_bytes()
    if content == "missing":
        path.unlink()
    elif content == "foreign":
        pq.write_table(pa.table({"key": [1], "other": [2]}), path)
    else:
        path.write_bytes({"cut": whole[: len(whole) // 2], "empty": b"", "text": b"x" * len(whole)}[content])
    again = Archive.open(tmp_path)
    with pytest.raises(ArchiveError, match=path.name):
        again.scan()
    with pytest.raises(ArchiveError, match=path.name):
        again.update(4, table_of([(1, "new", 4, 9)]))
    verified = again.verify()
    assert not verified.sound and path.name in verified.problems[0]
    assert rows_of(Archive.open(tmp_path, version=2).scan()) == sorted(ROWS[:100], key=repr)
    path.write_bytes(whole)
    assert rows_of(again.scan()) == sorted(ROWS, key=repr)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "damaged"),
        (b"{", "damaged"),
        (b"[1, 2]", "not a manifest"),
        (b'{"format": "something else"}', "not a manifest"),
        (b'{"format": "panewise archive", "format_version": 99}', "has format 99"),
        (b'{"format": "panewise archive", "format_version": 1}', "damaged"),
        ("changed", "wrong checksum"),
    ],
)
def test_a_damaged_manifest(content: bytes | str, told: str, archive: Archive, tmp_path: Path) -> None:
    path = tmp_path / "manifests" / "00000003.json"
    path.write_bytes(path.read_bytes().replace(b'"rows": 200', b'"rows": 201') if content == "changed" else content)
    with pytest.raises(ArchiveError, match=told) as caught:
        Archive.open(tmp_path)
    assert "00000003.json" in caught.value.message and caught.value.hint
    assert Archive.open(tmp_path, version=2).scan().num_rows == 100


def test_an_old_damaged_manifest_stops_nothing(archive: Archive, tmp_path: Path) -> None:
    (tmp_path / "manifests" / "00000002.json").write_bytes(b"?")
    again = Archive.open(tmp_path, grace_s=0)
    again.update(4, table_of([(1, "new", 4, 9)]))
    assert again.scan().num_rows == 201


@pytest.mark.parametrize(
    ("number", "told", "hint"),
    [
        (errno.ENOSPC, "No space left on device", "make room"),
        (errno.EROFS, "Read-only file system", "make the folder writable"),
        (errno.EACCES, "Permission denied", "make the folder writable"),
        (errno.EIO, "Input/output error", "nothing committed is lost"),
    ],
)
def test_a_disk_that_refuses(
    number: int, told: str, hint: str, archive: Archive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*given: object) -> int:
        raise OSError(number, os.strerror(number))

    for operation in ("create", "write", "sync", "rename", "sync_folder"):
        with monkeypatch.context() as patch:
            patch.setattr(FileSystem, operation, refuse)
            with pytest.raises(ArchiveError, match=told) as caught:
                archive.update(4, table_of([(1, "new", 4, 9)]), number=3)
        assert hint in str(caught.value) and str(tmp_path) in str(caught.value)
        # The very last operation comes after the version is there: then it is committed, and a repetition says so.
        held = 201 if archive.manifest.update == 3 else 200
        assert archive.scan().num_rows == held and archive.verify().sound
    assert not archive.update(4, table_of([(1, "new", 4, 9)]), number=3).repeated or held == 201
    assert archive.scan().num_rows == 201


def test_a_folder_that_may_only_be_read(archive: Archive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(storage: LocalStorage) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(LocalStorage, "lock", refuse)
    with pytest.raises(ArchiveError, match="take the lock") as caught:
        archive.update(4, table_of([]))
    assert "can be read" in str(caught.value)
    assert archive.scan().num_rows == 200


def test_a_place_that_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("here")
    with pytest.raises(ArchiveError, match="file"):
        Archive.create(tmp_path / "file", SCHEMA, key="key", layout=Layout(1, 1, EVERY, LIFETIME))
    with pytest.raises(ArchiveError, match="cannot be used"):
        Archive.open("nosuchscheme://bucket/folder")
