"""Durable engines on folders that are damaged, in use, full or broken."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import panewise as pw
from panewise.engine.durability.durable_folder import DurableFolder
from panewise.engine.durability.durable_log import LogRecord, Segment, Tail, read_segment
from panewise.engine.durability.durable_sync import BackgroundSync
from panewise.engine.durability.found_outside import NOTHING_YET
from panewise.engine.recovery.durable_opening import open_folder
from panewise.language.statements import Drop
from panewise.state.durable_files import FileSystem
from tests.engine.durability.small_durable import QUERY, SECOND_US, STREAM, begun, log_of, row, totals

# -- damage ------------------------------------------------------------------------------------------------------------


def test_a_torn_end_is_cut_and_said(tmp_path: Path) -> None:
    engine = begun(tmp_path / "whole")
    for second in range(4):
        # As it was before the last call: what that one has written was never acknowledged.
        note = (tmp_path / "whole" / "LOCK").read_bytes()
        engine.push("s", [row(second), row(second)])
    engine.close(snapshot=False)
    (tmp_path / "whole" / "LOCK").write_bytes(note)
    whole = log_of(tmp_path / "whole").read_bytes()
    last = whole.rindex(b"\xf1PwR")
    for size in (last + 1, last + 20, last + 100, len(whole) - 1):
        folder = tmp_path / f"cut-{size}"
        shutil.copytree(tmp_path / "whole", folder)
        os.truncate(log_of(folder), size)
        with pytest.warns(
            pw.DurabilityWarning,
            match=rf"was torn and has been cut off: {size - last} bytes .* they belong to a call that never returned",
        ):
            engine = pw.Engine(folder)
        assert engine.stats()["durability"]["bytes_cut"] == size - last
        assert engine.stats()["streams"]["s"]["rows"] == 6
        engine.push("s", row(9))
        engine.close(snapshot=False)
        assert pw.Engine(folder).stats()["streams"]["s"]["rows"] == 7


@given(data=st.data())
def test_damage_in_the_middle_is_refused(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("engine")
    log = folder / "log"
    files = FileSystem()
    segment = Segment.create(files, log, 7)
    sizes = [segment.size]
    for number in range(5):
        segment.append({"n": number}, bytes(number * 3))
        sizes.append(segment.size)
    os.close(segment.descriptor)
    assert [item.fields["n"] for item in read_segment(log) if isinstance(item, LogRecord)] == [0, 1, 2, 3, 4]
    place = data.draw(st.integers(sizes[0], sizes[-1] - 1))
    flip(log, place)
    *records, tail = read_segment(log)
    damaged = sum(size <= place for size in sizes) - 1
    assert isinstance(tail, Tail)
    assert [item.fields["n"] for item in records if isinstance(item, LogRecord)] == list(range(damaged))
    assert tail.valid_bytes == sizes[damaged]
    assert tail.more_records == (damaged < 4)


def test_a_damaged_folder_says_where(tmp_path: Path) -> None:
    engine = begun(tmp_path)
    places = []
    for second in range(3):
        places.append(log_of(tmp_path).stat().st_size)
        engine.push("s", [row(second)] * 2)
    engine.close(snapshot=False)
    flip(log_of(tmp_path), places[1] + 60)
    with pytest.raises(pw.DurabilityError, match=rf"(?s)log-00000000' is damaged at byte {places[1]:,} of .*GIVE-UP"):
        pw.Engine(tmp_path)
    (tmp_path / "GIVE-UP").touch()
    with pytest.warns(pw.DurabilityWarning, match=rf"given up: .* is damaged at byte {places[1]:,} of"):
        engine = pw.Engine(tmp_path)
    assert engine.stats()["streams"]["s"]["rows"] == 2
    engine.close(snapshot=False)
    assert sorted(file.name for file in tmp_path.iterdir()) == [
        "LOCK",
        "log-00000000.given-up",
        "log-00000001",
        "snapshot-00000001",
    ]


def test_a_damaged_snapshot_or_a_missing_log(tmp_path: Path) -> None:
    with begun(tmp_path) as engine:
        engine.push("s", row(0))
    flip(tmp_path / "snapshot-00000001", 500)
    with pytest.raises(pw.DurabilityError, match="snapshot-00000001' cannot be read: the snapshot is damaged"):
        pw.Engine(tmp_path)
    (tmp_path / "snapshot-00000001").unlink()
    with pytest.raises(pw.DurabilityError, match="snapshot-00000001' is missing"):
        pw.Engine(tmp_path)


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 0x40
    path.write_bytes(data)


# -- what is refused ---------------------------------------------------------------------------------------------------


def test_one_engine_at_a_time(tmp_path: Path) -> None:
    engine = pw.Engine(tmp_path)
    with pytest.raises(pw.DurabilityError, match="is open in another engine"):
        pw.Engine(tmp_path)
    engine.close()
    engine.close()
    pw.Engine(tmp_path).close()
    with pytest.raises(pw.DurabilityError, match="has been closed"):
        engine.execute(STREAM)


def test_a_path_that_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(pw.DurabilityError, match="cannot be used"):
        pw.Engine(tmp_path / "file")
    with pytest.raises(pw.PlanError, match="there is no sync 'sometimes'"):
        pw.Engine(tmp_path / "engine", sync="sometimes")


class FullDisk(FileSystem):
    """A disk without room for anything, as long as it is said to be full."""

    full = False

    def write(self, descriptor: int, parts: Any) -> int:
        if self.full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return super().write(descriptor, parts)


def test_a_full_disk_takes_nothing_and_the_engine_stays(tmp_path: Path) -> None:
    files = FullDisk()
    engine = pw.Engine()
    open_folder(engine.books, engine.statements, tmp_path, files=files)
    engine.execute(f"{STREAM}; {QUERY}")
    engine.push("s", [row(0, 1), row(1, 2), row(2, 4)])
    files.full = True
    for _ in range(2):
        for call in (
            lambda: engine.push("s", row(3, 8)),
            lambda: engine.push("s", [row(3, 8), row(3, 8)], producer="p", sequence=1),
            lambda: engine.advance("s", 10 * SECOND_US),
            lambda: engine.execute("DROP QUERY q"),
            lambda: engine.results("q"),
            engine.checkpoint,
        ):
            with pytest.raises(pw.DurabilityError, match="No space left on device"):
                call()
    assert engine.lookup("q")["total"].to_pylist() == [3]
    assert engine.last_sequence("s", "p") == 0
    files.full = False
    engine.push("s", row(3, 8))
    assert totals(engine) == [1, 3, 6]
    engine.close(snapshot=False)
    engine = pw.Engine(tmp_path)
    assert engine.stats()["streams"]["s"]["rows"] == 4
    assert totals(engine) == []


class NoSync(FileSystem):
    """A disk that takes writes and cannot bring them to its medium."""

    failing = False

    def sync(self, descriptor: int) -> None:
        if self.failing:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        super().sync(descriptor)


def test_what_cannot_be_brought_to_the_disk_breaks_the_log(tmp_path: Path) -> None:
    files = NoSync()
    engine = pw.Engine()
    durability = open_folder(engine.books, engine.statements, tmp_path, sync="never", files=files)
    engine.execute(f"{STREAM}; {QUERY}")
    background = BackgroundSync(durability.folder, files, interval_seconds=3600)
    files.failing = True
    background.sync_now()
    with pytest.raises(pw.DurabilityError, match=r"takes no more records: .*Input/output error"):
        engine.push("s", row(0))
    files.failing = False
    # The state is whole, and a snapshot of it is as good as the log.
    engine.checkpoint()
    engine.push("s", row(0))
    background.sync_now()
    background.stop()
    engine.close(snapshot=False)
    assert pw.Engine(tmp_path).stats()["streams"]["s"]["rows"] == 1


@pytest.mark.parametrize("sync", ["batch", "always", "never"])
def test_every_sync_keeps_what_it_was_given(sync: str, tmp_path: Path) -> None:
    engine = begun(tmp_path, sync=sync)
    engine.push("s", row(0))
    # As a process that dies: nothing is closed, flushed or written in order; another engine reads the same bytes.
    shutil.copytree(tmp_path, tmp_path / "copy")
    assert pw.Engine(tmp_path / "copy").stats()["streams"]["s"]["rows"] == 1


def test_a_folder_is_let_go_with_its_engine(tmp_path: Path) -> None:
    import gc

    engine = begun(tmp_path)
    engine.push("s", row(0))
    del engine
    gc.collect()
    assert pw.Engine(tmp_path).stats()["streams"]["s"]["rows"] == 1


def test_a_statement_that_failed_and_was_not_taken_out_of_the_log(tmp_path: Path) -> None:
    engine = begun(tmp_path)
    assert engine.durability is not None
    # The process dies after it has written the statement down and before it has found out that it fails: 'q' reads 's'.
    engine.durability.begin_statement(Drop("DROP STREAM s", "stream", "s"), NOTHING_YET)
    engine.close(snapshot=False)
    for rows in range(3):
        engine = pw.Engine(tmp_path)
        assert engine.stats()["streams"]["s"]["rows"] == rows
        engine.push("s", row(rows))
        engine.close(snapshot=False)


def test_leftovers_of_a_snapshot_that_was_not_finished(tmp_path: Path) -> None:
    engine = begun(tmp_path)
    engine.push("s", row(0))
    engine.close(snapshot=False)
    (tmp_path / "snapshot-00000001.unfinished").write_bytes(b"half")
    (tmp_path / "log-00000001").write_bytes(b"PANE")
    engine = pw.Engine(tmp_path)
    assert engine.stats()["streams"]["s"]["rows"] == 1
    engine.close(snapshot=False)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["LOCK", "log-00000000"]
    folder = DurableFolder.open(tmp_path, FileSystem())
    assert len(list(folder.records())) == 3
    folder.release()


class NoRename(FileSystem):
    """A disk on which nothing gets its final name."""

    failing = True

    def rename(self, path: Path, name: Path) -> None:
        if self.failing:
            raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))
        super().rename(path, name)


def push_all(engine: pw.Engine, seconds: range) -> None:
    for second in seconds:
        engine.push("s", [row(second), row(second)])


def test_a_snapshot_that_fails_is_told_and_tried_again(tmp_path: Path) -> None:
    files = NoRename()
    engine = pw.Engine()
    open_folder(engine.books, engine.statements, tmp_path, snapshot_every=1_500, files=files)
    engine.execute(f"{STREAM}; {QUERY}")
    with pytest.warns(pw.DurabilityWarning, match=r"no snapshot: .* cannot be written: Disk quota exceeded") as told:
        push_all(engine, range(30))
    assert 2 <= len(told) < 20  # not with every push
    assert engine.stats()["durability"]["snapshots"] == 0
    assert sorted(file.name for file in tmp_path.iterdir()) == ["LOCK", "log-00000000"]
    files.failing = False
    push_all(engine, range(30, 60))
    assert engine.stats()["durability"]["snapshots"] >= 1
    engine.close(snapshot=False)
    assert pw.Engine(tmp_path).stats()["streams"]["s"]["rows"] == 120


@pytest.mark.parametrize("path", ["", " ", "a\0b", 5, b"engine"])
def test_what_names_no_folder_is_refused(path: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(pw.DurabilityError, match="folder is a path"):
        pw.Engine(path)
    assert not list(tmp_path.iterdir())
