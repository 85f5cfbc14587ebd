"""Numbers, instants, names and places that make no sense are refused; those that only look odd are right."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs
import pytest

from panewise.archive.archive import Archive
from panewise.archive.layout import Layout
from panewise.archive.storage import LocalStorage, VanishedFile, storage_at
from panewise.errors import ArchiveError
from panewise.temporal import INSTANT_MAX, INSTANT_MIN
from tests.archive.plain_table import EVERY, LAYOUTS, LIFETIME, SCHEMA, table_of

ROW = table_of([(1, "a", 1, 50)])


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    return Archive.create(tmp_path / "a", SCHEMA, key="key", layout=LAYOUTS[0], grace_s=0)


@pytest.mark.parametrize("number", [0, -1, 2.5, "3"])
def test_an_update_without_a_number_of_its_own_is_refused(archive: Archive, number: Any) -> None:
    """0 is where an archive begins: an update of that number would be passed over as if it were there already."""
    with pytest.raises(ArchiveError, match="not a valid number of an update"):
        archive.update(10, ROW, number=number)
    assert not archive.update(10, ROW, number=1).repeated and archive.scan().num_rows == 1


@pytest.mark.parametrize("now", [INSTANT_MIN - 1, INSTANT_MAX + 1, 2**62, 2**70])
def test_an_update_outside_of_time_is_refused(archive: Archive, now: int) -> None:
    """It could not be followed by any other."""
    with pytest.raises(ArchiveError, match="outside the years"):
        archive.update(now, ROW)
    assert archive.update(10, ROW).inserted == 1


@pytest.mark.parametrize("given", [[{"key": 1}], {"key": [1]}, 5])
def test_rows_that_are_no_table_are_refused(archive: Archive, given: Any) -> None:
    with pytest.raises(ArchiveError, match="Arrow table"):
        archive.update(10, given)


@pytest.mark.parametrize("changed", [{"insertion_parts": 2.0}, {"origin_us": 2**63}, {"every_us": 1.5}])
def test_a_layout_is_made_of_whole_numbers_within_time(changed: dict[str, Any]) -> None:
    with pytest.raises(ArchiveError, match="are not valid numbers of a layout"):
        Layout(**{"insertion_parts": 2, "expiration_parts": 2, "every_us": EVERY, "lifetime_us": LIFETIME, **changed})


def test_instants_of_other_units_keep_their_value_or_are_refused(tmp_path: Path) -> None:
    archive = Archive.create(tmp_path, pa.schema([("at", pa.timestamp("us"))]), key="at", layout=LAYOUTS[0])

    def rows(at: int, unit: str) -> pa.Table:
        return pa.table({"at": pa.array([at], pa.timestamp(unit)), "_inserted": [1], "_expires": [50]})

    with pytest.raises(ArchiveError, match="do not fit"):
        archive.update(2, rows(2**62, "s"))
    far = pa.array([18_446_744_073_711], pa.timestamp("s"))  # as microseconds it is more than 64 bits
    with pytest.raises(ArchiveError, match="do not fit"):
        archive.update(2, rows(0, "s").set_column(2, "_expires", far))
    for number, (at, unit) in enumerate([(-1, "ns"), (1999, "ns"), (-1, "ms"), (7, "s")], 3):
        archive.update(number, rows(at, unit))
    found = archive.scan(columns=["at"])["at"].cast(pa.int64()).to_pylist()
    assert sorted(found) == [-1000, -1, 1, 7_000_000]


@pytest.mark.parametrize("name", ["a.b", "a b", "", "*", "[0]", '"', "é\n"])
def test_columns_may_have_any_name(name: str, tmp_path: Path) -> None:
    archive = Archive.create(tmp_path, pa.schema([(name, pa.int64())]), key=name, layout=LAYOUTS[3])
    archive.update(10, pa.table([[1, 2], [1, 1], [20, 30]], names=[name, "_inserted", "_expires"]))
    archive.update(25)
    found = Archive.open(tmp_path)
    assert found.probe(2, columns=[name])[name].to_pylist() == [2]
    assert found.probe(1).num_rows == 0 and found.range(2, 2).num_rows == 1 and found.verify().sound


def test_but_not_those_that_arrow_gives_to_files(tmp_path: Path) -> None:
    for name in ("__filename", "__fragment_index"):
        with pytest.raises(ArchiveError, match="Arrow"):
            Archive.create(tmp_path, pa.schema([("k", pa.int64()), (name, pa.int64())]), key="k", layout=LAYOUTS[0])


@pytest.mark.parametrize(("where", "filesystem"), [("", None), (" ", None), ("/", pafs._MockFileSystem())])
def test_an_archive_needs_a_place(where: str, filesystem: Any) -> None:
    with pytest.raises(ArchiveError, match="folder of its own"):
        storage_at(where, filesystem)


def test_a_folder_is_the_same_by_any_way_to_it(archive: Archive, tmp_path: Path) -> None:
    archive.update(10, ROW)
    (tmp_path / "linked").symlink_to(tmp_path / "a")
    for where in (tmp_path / "linked", tmp_path / "a" / ".." / "a"):
        with Archive.open(where).snapshot() as snapshot:
            now = archive.manifest.now_us or 0
            archive.update(now + 1, table_of([(2, "b", 1, 50)])), archive.update(now + 1, ROW)
            assert snapshot.scan().num_rows in (1, 3)  # what it holds has not been removed


def test_a_manifest_under_another_name_is_noticed(archive: Archive, tmp_path: Path) -> None:
    archive.update(10, ROW)
    archive.close()
    shutil.copy(tmp_path / "a/manifests/00000002.json", tmp_path / "a/manifests/00000003.json")
    with pytest.raises(ArchiveError, match="is that of version 2"):
        Archive.open(tmp_path / "a")
    assert Archive.open(tmp_path / "a", version=2).scan().num_rows == 1


def test_only_one_of_two_makes_an_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def meanwhile(storage: LocalStorage, folder: str) -> None:
        """Between the look at what is there and the first version."""
        monkeypatch.undo()
        with pytest.raises(ArchiveError, match="is being written"):
            Archive.create(tmp_path, pa.schema([("other", pa.int64())]), key="other", layout=LAYOUTS[1])

    monkeypatch.setattr(LocalStorage, "settle", meanwhile)
    archive = Archive.create(tmp_path, SCHEMA, key="key", layout=LAYOUTS[0])
    assert archive.update(10, ROW).version == 2 and archive.layout == LAYOUTS[0]


def test_verify_does_not_miss_files_that_a_newer_version_has_replaced(
    archive: Archive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As beside a writer of another process that is past its grace period."""
    archive.update(10, ROW)
    reader = Archive.open(tmp_path / "a")
    monkeypatch.setattr(type(archive._pins), "holds", lambda pins, version: False)
    check_footer = reader._files.check_footer

    def replaced(file: Any) -> None:
        archive.update((archive.manifest.now_us or 0) + 1, table_of([(2, "b", 1, 50), (3, "c", 1, 60)]))
        check_footer(file)

    monkeypatch.setattr(reader._files, "check_footer", replaced)
    found = reader.verify()
    assert found.sound and found.files == 0
    monkeypatch.undo()
    # One that the newest version names is missed.
    (tmp_path / "a" / archive.manifest.files[0].name).unlink()
    found = Archive.open(tmp_path / "a").verify()
    assert not found.sound and found.files == len(archive.manifest.files)
    with pytest.raises(VanishedFile):
        Archive.open(tmp_path / "a").scan()
