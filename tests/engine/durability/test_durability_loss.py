"""Logs that are missing, emptied, shortened, exchanged or damaged: what was acknowledged is never silently gone."""

from __future__ import annotations

import os
import shutil
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

import panewise as pw
from panewise.engine.durability.durable_log import SEGMENT_HEAD
from panewise.engine.recovery.durable_opening import open_folder
from panewise.state.durable_files import FileSystem
from tests.engine.durability.small_durable import QUERY, STREAM, begun, log_of, row


def checkpointed(folder: Path, sync: str = "batch") -> Path:
    """A snapshot with two rows, and a log with three more behind it."""
    engine = begun(folder, sync=sync)
    engine.push("s", [row(0), row(1)])
    engine.checkpoint()
    for second in range(2, 5):
        engine.push("s", row(second))
    engine.close(snapshot=False)
    return log_of(folder)


def exchanged(log: Path) -> None:
    """The log of the same number of another folder, which is as whole as this one."""
    other = checkpointed(log.parent.parent / "other")
    shutil.copyfile(other, log)


DAMAGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "missing": (Path.unlink, r"log-00000001' is missing: acknowledged calls after 'snapshot-00000001' that"),
    "emptied": (lambda log: os.truncate(log, 0), "log-00000001' is empty: acknowledged calls after 'snapshot-"),
    "cut in the head": (lambda log: os.truncate(log, 9), "log-00000001' is not a log of panewise, or its head"),
    "without records": (
        lambda log: os.truncate(log, SEGMENT_HEAD),
        r"has 28 bytes, and had .* are lost",
    ),
    "without the last": (lambda log: os.truncate(log, records(log)[-1]), r"has [\d,]+ bytes, and had .* are lost"),
    "cut in the last": (lambda log: os.truncate(log, log.stat().st_size - 3), "not finished; .* acknowledged are lost"),
    "damaged last": (lambda log: flip(log, -4), "checksum of a record is wrong; .* acknowledged are lost"),
    "exchanged": (exchanged, "is not the log that continues 'snapshot-00000001', but another one"),
    "foreign": (lambda log: log.write_text("Dear diary, today was long and dull."), "is not a log of panewise"),
}


def records(log: Path) -> list[int]:
    """Where they begin."""
    data, found, at = log.read_bytes(), [], 0
    while (at := data.find(b"\xf1PwR", at + 1)) > 0:
        found.append(at)
    return found


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 0x40
    path.write_bytes(data)


def other_boot(folder: Path) -> None:
    """The machine has been started anew since."""
    data = bytearray((folder / "LOCK").read_bytes())
    data[24:32] = (1).to_bytes(8, "little")
    data[32:36] = zlib.crc32(data[:32]).to_bytes(4, "little")
    (folder / "LOCK").write_bytes(data)


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_lost_log_is_refused_until_it_is_given_up(damage: str, tmp_path: Path) -> None:
    folder = tmp_path / "engine"
    log = checkpointed(folder)
    do, words = DAMAGES[damage]
    do(log)
    before = {file.name: file.read_bytes() for file in folder.iterdir()}
    for _ in range(2):
        with pytest.raises(pw.DurabilityError, match=f"(?s){words}.*touch '.*GIVE-UP'"):
            pw.Engine(folder)
        assert {file.name: file.read_bytes() for file in folder.iterdir()} == before
    (folder / "GIVE-UP").touch()
    with pytest.warns(pw.DurabilityWarning, match=f"given up: .*{words}"):
        engine = pw.Engine(folder)
    rows = engine.stats()["streams"]["s"]["rows"]
    assert rows == (4 if "last" in damage else 2)
    assert not (folder / "GIVE-UP").exists()
    engine.push("s", row(9))
    engine.close(snapshot=False)
    assert pw.Engine(folder).stats()["streams"]["s"]["rows"] == rows + 1
    kept = [file.read_bytes() for file in folder.glob("*.given-up")]
    damaged = before.get(log.name, b"")
    assert all(damaged.endswith(part) for part in kept), "what could not be read is set aside"


@pytest.mark.parametrize("damage", ["missing", "emptied", "without records"])
def test_the_first_log_too(damage: str, tmp_path: Path) -> None:
    engine = begun(tmp_path)
    engine.push("s", row(0))
    engine.close(snapshot=False)
    DAMAGES[damage][0](log_of(tmp_path))
    with pytest.raises(pw.DurabilityError, match=r"is lost|are lost"):
        pw.Engine(tmp_path)


def test_a_snapshot_knows_its_log_without_the_note(tmp_path: Path) -> None:
    for damage in ("missing", "emptied", "cut in the head", "exchanged", "damaged last"):
        folder = tmp_path / damage / "engine"
        log = checkpointed(folder)
        (folder / "LOCK").unlink()
        DAMAGES[damage][0](log)
        with pytest.raises(pw.DurabilityError, match="log-00000001' is"):
            pw.Engine(folder)


def test_without_a_note_an_unfinished_record_is_cut_and_doubted(tmp_path: Path) -> None:
    log = checkpointed(tmp_path)
    (tmp_path / "LOCK").unlink()
    os.truncate(log, log.stat().st_size - 3)
    with pytest.warns(pw.DurabilityWarning, match="whether its call returned is not known"):
        assert pw.Engine(tmp_path).stats()["streams"]["s"]["rows"] == 4


@pytest.mark.parametrize("sync", ["always", "never"])
def test_after_a_loss_of_power(sync: str, tmp_path: Path) -> None:
    """What was brought to the disk must be there; what was not may be gone, which is said."""
    for damage in ("without the last", "damaged last", "cut in the last"):
        folder = tmp_path / damage
        DAMAGES[damage][0](checkpointed(folder, sync))
        other_boot(folder)
        if sync == "always":
            with pytest.raises(pw.DurabilityError, match="acknowledged are lost"):
                pw.Engine(folder)
        else:
            with pytest.warns(pw.DurabilityWarning, match="acknowledged bytes had not been brought to the disk"):
                assert pw.Engine(folder).stats()["streams"]["s"]["rows"] == 4


def test_a_complete_record_after_the_note_of_a_log_that_is_always_synced(tmp_path: Path) -> None:
    """The note of a machine that lost its power may be old: nobody knows whether the last call returned."""
    engine = begun(tmp_path, sync="always")
    note = (tmp_path / "LOCK").read_bytes()
    engine.push("s", row(0))
    engine.close(snapshot=False)
    (tmp_path / "LOCK").write_bytes(note)
    other_boot(tmp_path)
    flip(log_of(tmp_path), -4)
    with pytest.raises(pw.DurabilityError, match="It is complete, so the call that wrote it may have"):
        pw.Engine(tmp_path)


def test_the_note_follows_what_is_taken_back(tmp_path: Path) -> None:
    engine = begun(tmp_path)
    for _ in range(3):
        with pytest.raises(pw.PanewiseError):
            engine.execute("DROP STREAM s")  # 'q' reads it
    engine.close(snapshot=False)
    engine = pw.Engine(tmp_path)
    assert engine.stats()["durability"]["bytes_cut"] == 0
    engine.close(snapshot=False)


class InterruptedNote(FileSystem):
    """Ctrl-C comes when a record is written and its length is being noted: before, or after that."""

    how = ""

    def note(self, descriptor: int, data: bytes, at: int) -> None:
        how, self.how = self.how, ""
        if how == "before":
            raise KeyboardInterrupt
        super().note(descriptor, data, at)
        if how == "after":
            raise KeyboardInterrupt


@pytest.mark.parametrize("how", ["before", "after"])
def test_an_interrupt_while_a_record_is_noted(how: str, tmp_path: Path) -> None:
    files, engine = InterruptedNote(), pw.Engine()
    open_folder(engine.books, engine.statements, tmp_path, files=files)
    engine.execute(f"{STREAM}; {QUERY}")
    for second in range(3):
        files.how = how
        with pytest.raises(KeyboardInterrupt):
            engine.push("s", row(second))
        engine.push("s", row(second))
    assert engine.stats()["streams"]["s"]["rows"] == 3
    engine.close(snapshot=False)
    engine = pw.Engine(tmp_path)
    assert engine.stats()["streams"]["s"]["rows"] == 3
    assert engine.stats()["durability"]["bytes_cut"] == 0


def test_files_of_others_with_such_names_stay(tmp_path: Path) -> None:
    """Only what begins like a log of panewise is one that a crash has left."""
    names = {"log-00000000": "my diary", "log-20261116": "my diary", "snapshot-20261116.unfinished": "a photo"}
    for name, text in names.items():
        (tmp_path / name).write_text(text)
    with pytest.raises(pw.DurabilityError, match="log-00000000' is not a log of panewise"):
        pw.Engine(tmp_path)
    (tmp_path / "log-00000000").unlink()
    with pytest.raises(pw.DurabilityError, match="log-00000000' is missing"):
        pw.Engine(tmp_path)
    (tmp_path / "log-20261116").rename(tmp_path / "log of 2026-11-16")
    with begun(tmp_path) as engine:
        engine.push("s", row(0))
    pw.Engine(tmp_path).close()
    assert (tmp_path / "snapshot-20261116.unfinished").read_text() == "a photo"


def test_a_missing_snapshot_is_named_and_not_the_log_that_it_replaced(tmp_path: Path) -> None:
    checkpointed(tmp_path)
    (tmp_path / "snapshot-00000001").unlink()
    with pytest.raises(pw.DurabilityError, match=r"snapshot-00000001' is missing, which the log continues: .* lost"):
        pw.Engine(tmp_path)


def test_a_damaged_snapshot_is_brought_back_and_not_given_up(tmp_path: Path) -> None:
    checkpointed(tmp_path)
    flip(tmp_path / "snapshot-00000001", 200)
    with pytest.raises(pw.DurabilityError, match=r"(?s)snapshot-00000001' .*is damaged.*copy.*GIVE-UP does not help"):
        pw.Engine(tmp_path)


def test_a_give_up_made_too_early_gives_nothing_up_later(tmp_path: Path) -> None:
    log = checkpointed(tmp_path)
    (tmp_path / "GIVE-UP").touch()
    with pytest.warns(pw.DurabilityWarning, match="nothing was lost, and '.*GIVE-UP' has been removed"):
        engine = pw.Engine(tmp_path)
    engine.close(snapshot=False)
    log.unlink()
    with pytest.raises(pw.DurabilityError, match="is missing"):
        pw.Engine(tmp_path)
