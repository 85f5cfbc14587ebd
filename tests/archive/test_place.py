"""An archive takes an empty folder only, touches names of its own making, and lies in no other archive."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs
import pytest

import panewise as pw
from panewise.archive.archive import Archive
from panewise.archive.layout import Layout
from panewise.archive.storage import storage_at
from panewise.errors import ArchiveError, CatalogError

SCHEMA = pa.schema([("key", pa.int64()), ("text", pa.string())])
LAYOUT = Layout(2, 3, every_us=10, lifetime_us=60)


def created(where: Any, filesystem: Any = None) -> Archive:
    return Archive.create(where, SCHEMA, key="key", layout=LAYOUT, filesystem=filesystem, grace_s=0)


def updated(archive: Archive, times: range) -> None:
    for now in times:
        rows = pa.table({"key": [now], "text": ["x"], "_inserted": [now], "_expires": [now + 30]})
        archive.update(now, rows)


def tree(folder: Path) -> dict[str, bytes | None]:
    """Everything below a folder, with the content of files."""
    found = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*")}
    return {name: path.read_bytes() if path.is_file() else None for name, path in found.items()}


FOREIGN = ["data/sales.parquet", "data/part-00000.parquet", "notes.txt", "data/2024/january.csv", "manifests/a.json"]


@pytest.mark.parametrize("name", [*FOREIGN, "LOCK", "data", ".hidden"])
def test_a_folder_with_other_files_is_refused_and_untouched(name: str, tmp_path: Path) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
    (tmp_path / name).write_text("mine")
    before = tree(tmp_path)
    with pytest.raises(ArchiveError, match=f"cannot become an archive: it holds '{name[:4]}.*(?s:.*)is empty or does"):
        created(tmp_path)
    assert tree(tmp_path) == before


def test_create_archive_refuses_and_leaves_no_trace(tmp_path: Path) -> None:
    path = tmp_path / "mine"
    (path / "data").mkdir(parents=True)
    (path / "data" / "sales.parquet").write_bytes(b"the user's")
    engine = pw.Engine()
    engine.execute("CREATE STREAM t (ts TIMESTAMP, k STRING)")
    with pytest.raises(ArchiveError, match=r"cannot become an archive: it holds 'data/sales.parquet'"):
        engine.execute(f"CREATE ARCHIVE a FROM t WITH (path = '{path}', key = 'k', lifetime = '1 hour')")
    assert engine.execute("SHOW ARCHIVES").num_rows == 0
    for second in range(300):
        engine.push("t", {"ts": second * 1_000_000, "k": "x"})
    engine.close()
    assert tree(path) == {"data": None, "data/sales.parquet": b"the user's"}


@pytest.mark.parametrize("name", FOREIGN)
def test_what_comes_later_is_not_touched(name: str, tmp_path: Path) -> None:
    archive = created(tmp_path)
    updated(archive, range(1, 20))
    archive.close()
    (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
    (tmp_path / name).write_text("mine")
    lost = tmp_path / "data" / "00000021-I01-0123abcd.parquet"  # as an update of the next version leaves it
    lost.write_text("torn")
    with Archive.open(tmp_path, grace_s=0) as again:
        updated(again, range(20, 40))
        again.compact()
        assert again.verify().sound
    assert (tmp_path / name).read_text() == "mine"
    assert not lost.exists()


def test_data_files_without_manifests_are_kept(tmp_path: Path) -> None:
    archive = created(tmp_path)
    updated(archive, range(1, 5))
    archive.close()
    for manifest in (tmp_path / "manifests").iterdir():
        manifest.unlink()
    before = tree(tmp_path)
    with pytest.raises(ArchiveError, match=r"cannot become an archive: it holds 'data/0000"):
        created(tmp_path)
    assert tree(tmp_path) == before


def test_links_to_other_folders(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "archive").mkdir()
    (tmp_path / "archive" / "data").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ArchiveError, match="it holds 'data'"):
        created(tmp_path / "archive")
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    with created(tmp_path / "link") as archive:
        updated(archive, range(1, 5))
    assert (tmp_path / "elsewhere" / "manifests").is_dir()
    with pytest.raises(ArchiveError, match=r"lies in the folder of another archive, '.*elsewhere'"):
        created(tmp_path / "link" / "inner")


def test_what_an_unfinished_creation_left_is_no_obstacle(tmp_path: Path) -> None:
    for name in ("data", "manifests"):
        (tmp_path / name).mkdir()
    (tmp_path / "LOCK").touch()
    (tmp_path / "manifests" / "00000001.json.unfinished").write_text('{"for')
    with created(tmp_path) as archive:
        updated(archive, range(1, 5))


def test_no_archive_in_another(tmp_path: Path) -> None:
    created(tmp_path / "outer").close()
    for inner in ("outer/data/inner", "outer/inner", "outer/manifests/deep/er"):
        with pytest.raises(ArchiveError, match=r"lies in the folder of another archive, '.*outer'"):
            created(tmp_path / inner)
        assert not (tmp_path / inner).exists()
    created(tmp_path / "above" / "further" / "inner").close()
    for outer in ("above", "above/further"):
        with pytest.raises(ArchiveError, match="cannot become an archive: it holds"):
            created(tmp_path / outer)
    created(tmp_path / "outer-2").close()  # beside it


def test_no_archive_in_another_of_the_engine(tmp_path: Path) -> None:
    engine = pw.Engine()
    engine.archives.keep_only_books()  # the files need not be there yet, as before a pipeline is started
    engine.execute("CREATE STREAM t (ts TIMESTAMP, k STRING)")

    def create(name: str, path: str) -> None:
        engine.execute(f"CREATE ARCHIVE {name} FROM t WITH (path = '{path}', key = 'k', lifetime = '1 hour')")

    create("a", f"{tmp_path}/x/y")
    create("b", f"{tmp_path}/x/yz")
    create("c", "s3://bucket/x/y")
    create("d", "s3://bucket/x/y-2/")
    for path in (
        f"{tmp_path}/x/y/z", f"{tmp_path}/x", f"file://{tmp_path}/x/y/", f"{tmp_path}/x/../x/yz/data",
        "s3://bucket/x", "s3://bucket/x/y/", "s3://bucket/x/y-2/z",
    ):  # fmt: skip
        with pytest.raises(CatalogError, match="each archive needs a folder of its own"):
            create("e", path)


@pytest.fixture
def memory() -> pafs.FileSystem:
    return pafs._MockFileSystem()


def test_an_object_store(memory: Any) -> None:
    memory.create_dir("bucket/mine/data", recursive=True)
    with memory.open_output_stream("bucket/mine/data/sales.parquet") as file:
        file.write(b"mine")
    with pytest.raises(ArchiveError, match=r"cannot become an archive: it holds 'data/sales.parquet'"):
        created("bucket/mine", memory)
    with created("bucket/archive", memory) as archive:
        updated(archive, range(1, 10))
        for name in ("bucket/archive/data/00000002-sales.parquet", "bucket/archive/manifests/copy.json.unfinished"):
            with memory.open_output_stream(name) as file:
                file.write(b"mine")
    with Archive.open("bucket/archive", filesystem=memory, grace_s=0) as archive:
        updated(archive, range(10, 20))
    names = {info.path for info in memory.get_file_info(pafs.FileSelector("bucket/archive", recursive=True))}
    assert {"bucket/archive/data/00000002-sales.parquet", "bucket/archive/manifests/copy.json.unfinished"} <= names
    with pytest.raises(ArchiveError, match="lies in the folder of another archive"):
        created("bucket/archive/inner", memory)
    with pytest.raises(ArchiveError, match="it holds 'archive'"):
        created("bucket", memory)


def test_the_folders_above_a_place(tmp_path: Path, memory: Any) -> None:
    assert [s.root for s in storage_at("b/c/d", memory).above()] == ["b/c", "b"]
    assert [s.root for s in storage_at(tmp_path).above()] == [str(p).rstrip("/") for p in tmp_path.resolve().parents]


@pytest.mark.parametrize("root", ["/", "//", "/tmp/..", "file:///"])
def test_the_root_of_everything_is_no_place(root: str) -> None:
    with pytest.raises(ArchiveError, match="needs a folder of its own"):
        storage_at(root)


def test_links_that_lead_in_a_circle(tmp_path: Path) -> None:
    (tmp_path / "one").symlink_to(tmp_path / "two")
    (tmp_path / "two").symlink_to(tmp_path / "one")
    engine = pw.Engine()
    engine.execute("CREATE STREAM t (ts TIMESTAMP, k STRING)")
    for path in (f"{tmp_path}/one", f"{tmp_path}/one/inner", f"file://{tmp_path}/two"):
        with pytest.raises(ArchiveError, match=r"a symbolic link in it leads back to itself"):
            engine.execute(f"CREATE ARCHIVE a FROM t WITH (path = '{path}', key = 'k', lifetime = '1 hour')")


def test_a_durable_engine_opens_where_links_of_its_archive_lead_in_a_circle(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "a")
    engine = pw.Engine(tmp_path / "engine")
    engine.execute("CREATE STREAM t (ts TIMESTAMP, k STRING)")
    engine.execute(f"CREATE ARCHIVE a FROM t WITH (path = '{tmp_path}/link', key = 'k', lifetime = '1 hour')")
    engine.close(snapshot=False)
    (tmp_path / "a").rename(tmp_path / "b")
    (tmp_path / "a").symlink_to(tmp_path / "link")
    with pw.Engine(tmp_path / "engine") as engine:
        [shown] = engine.execute("SHOW ARCHIVES").to_pylist()  # type: ignore[union-attr]
        assert shown["status"] == "FAILED" and "leads back to itself" in shown["reason"]


def refusal(engine: pw.Engine, statement: str) -> str:
    with pytest.raises(ArchiveError) as caught:
        engine.execute(statement)
    assert type(caught.value) is ArchiveError
    return str(caught.value)


def test_a_place_where_no_folder_can_be_made_is_refused_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    engine = pw.Engine()
    engine.execute("CREATE STREAM t (ts TIMESTAMP, k STRING)")
    places = {
        f"{tmp_path}/file": "is a file",
        f"{tmp_path}/file/inner": f"'{tmp_path}/file' is a file",
        f"{tmp_path}/file/inner/more": f"'{tmp_path}/file' is a file",
        "/proc/archive": "the system does not allow new folders there",
    }
    for path, reason in places.items():
        told = refusal(engine, f"CREATE ARCHIVE a FROM t WITH (path = '{path}', key = 'k', lifetime = '1 hour')")
        assert told.startswith(f"no archive can be made in '{path}': ") and reason in told, told
        assert "name a folder that can be made" in told
    told = refusal(engine, f"CREATE ARCHIVE a FROM t WITH (path = '/{'x' * 300}', key = 'k', lifetime = '1 hour')")
    assert "name a shorter path" in told


def test_the_shell_s_name_of_the_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    engine = pw.Engine()
    engine.execute("CREATE STREAM t (ts TIMESTAMP, k STRING)")
    for path in ("~/a", "~", "~somebody/a"):
        told = refusal(engine, f"CREATE ARCHIVE a FROM t WITH (path = '{path}', key = 'k', lifetime = '1 hour')")
        assert "begins with '~'" in told and "write the path of the home folder in full" in told
        assert not any(tmp_path.iterdir())
    with created("./~/a") as archive:
        updated(archive, range(1, 5))
    with Archive.open("~/a") as archive:  # it was made there before this was refused, and is found again
        assert archive.version == 5


def test_an_archive_whose_folder_was_removed_says_so(tmp_path: Path) -> None:
    engine = pw.Engine()
    engine.execute("CREATE STREAM t (ts TIMESTAMP, k STRING)")
    create = f"CREATE ARCHIVE a FROM t WITH (path = '{tmp_path}/a', key = 'k', lifetime = '1 hour')"
    engine.execute(create)
    shutil.rmtree(tmp_path / "a")
    for statement in ("SELECT * FROM a", "ALTER ARCHIVE a SET (layout = '2x3')"):
        told = refusal(engine, statement)
        assert f"there is no archive in '{tmp_path}/a'" in told and "DROP and CREATE ARCHIVE" in told
    [shown] = engine.execute("SHOW ARCHIVES").to_pylist()  # type: ignore[union-attr]
    assert "there is no archive" in shown["reason"]
    engine.execute(f"DROP ARCHIVE a; {create}")
    assert engine.execute("SELECT * FROM a").num_rows == 0  # type: ignore[union-attr]
