"""Every file operation of updates, a migration and a compaction fails, is torn, or is the last before the end.

Whatever happens, the archive reads as of an update that was committed, none that returned is missing, and the script
goes on from there to the same end.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from panewise.archive.archive import Archive
from panewise.archive.layout import Layout
from panewise.archive.storage import LocalStorage, Storage
from panewise.errors import ArchiveError
from tests.archive.faulty_storage import FaultyStorage
from tests.archive.plain_table import EVERY, LAYOUTS, LIFETIME, SCHEMA, PlainTable, Row, random_rows, rows_of, table_of
from tests.faulty_files import FAILURES, KILLS, Killed

UPDATES = 7
FIRST, SECOND = Layout(2, 2, EVERY, LIFETIME), Layout(2, 3, EVERY, LIFETIME, style="no_rebuild")


@dataclass(frozen=True)
class Script:
    """Updates, and what is held after each number of them."""

    updates: list[tuple[int, list[Row]]]
    held: list[list[Row]]


@pytest.fixture(scope="module")
def script() -> Script:
    chance, plain, updates = random.Random(5), PlainTable(), []
    held: list[list[Row]] = [[]]
    for number in range(UPDATES):
        now = (number + 1) * 2 * EVERY
        rows = random_rows(chance, now, 12)
        plain.update(now, rows)
        updates.append((now, rows))
        held.append(plain.select())
    return Script(updates, held)


def play(archive: Archive, script: Script, begin: int) -> None:
    """From the update after number `begin`; a migration after the third, a compaction after the sixth."""
    for number in range(begin, UPDATES + 1):
        if number:
            now, rows = script.updates[number - 1]
            archive.update(now, table_of(rows), number=number)
        if number == 3:
            archive.migrate(SECOND)
        if number == 6:
            archive.compact()


def run(folder: Path, script: Script, at: int | None, how: str) -> tuple[int, bool]:
    """Plays to the end, whatever happens on the way; how many operations there were, and whether something happened."""
    folder.mkdir()
    Archive.create(folder, SCHEMA, key="key", layout=FIRST)
    storage = FaultyStorage(folder, at, how)
    archive, told = Archive(storage, grace_s=0), ""
    try:
        play(archive, script, 0)
    except Killed:
        archive = committed(LocalStorage(folder), script)
    except ArchiveError as problem:
        told = str(problem)
        committed(LocalStorage(folder), script)
    else:
        assert rows_of(archive.scan()) == script.held[-1]
        archive.close()
        return storage.count, False
    assert how in KILLS or ("No space left" in told and "make room" in told)
    play(archive, script, archive.manifest.update)
    assert rows_of(archive.scan()) == script.held[-1]
    assert archive.manifest.layout == SECOND and not archive.manifest.moving and archive.verify().sound
    archive.close()
    # The next writer has removed what was left over.
    versions = [Archive.open(folder, version=version).manifest for version in archive.describe()["versions"]]
    named = {file.name for manifest in versions for file in manifest.files}
    assert {f"data/{path.name}" for path in (folder / "data").iterdir()} == named
    assert all(path.suffix == ".json" for path in (folder / "manifests").iterdir())
    return storage.count, True


def committed(storage: Storage, script: Script) -> Archive:
    """The archive as a new process finds it: exactly what it held after some update."""
    archive = Archive(storage, grace_s=0)
    assert rows_of(archive.scan()) == script.held[archive.manifest.update]
    assert archive.verify().sound
    return archive


@pytest.mark.parametrize("how", [*KILLS, *FAILURES])
def test_at_every_file_operation(
    how: str, tmp_path: Path, script: Script, soak: bool, figure: Callable[[str, object], None]
) -> None:
    """Each operation in turn; a part of them, each time the same, where time is short."""
    count, _ = run(tmp_path / "counted", script, None, how)
    operations = range(1, count + 1)
    chosen = operations if soak else random.Random(how).sample(operations, 10)
    disturbed = sum(run(tmp_path / str(at), script, at, how)[1] for at in sorted(chosen))
    # What cannot be removed now can be removed later, and is no failure.
    assert disturbed > len(chosen) // 2
    figure(f"archive: '{how}' at file operations", f"{len(chosen)} of {count}, nothing committed lost")


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.name)
def test_updates_in_every_layout(layout: Layout, tmp_path: Path, script: Script, soak: bool) -> None:
    """The update that returned is there; the one that died is there as a whole, or not at all."""

    def updates(folder: Path, at: int | None, how: str) -> int:
        folder.mkdir()
        Archive.create(folder, SCHEMA, key="key", layout=layout)
        storage = FaultyStorage(folder, at, how)
        archive, returned = Archive(storage, grace_s=0), 0
        try:
            for number, (now, rows) in enumerate(script.updates, 1):
                archive.update(now, table_of(rows), number=number)
                returned = number
        except Killed:
            archive = committed(LocalStorage(folder), script)
            assert returned <= archive.manifest.update <= returned + 1
        archive.close()
        return storage.count

    count = updates(tmp_path / "counted", None, "before")
    chance = random.Random(layout.name)
    for at in range(1, count + 1) if soak else sorted(chance.sample(range(1, count + 1), 5)):
        updates(tmp_path / str(at), at, chance.choice(KILLS))


def test_one_death_after_another(tmp_path: Path, script: Script, soak: bool) -> None:
    chance, deaths = random.Random(9), 0
    for trial in range(200 if soak else 10):
        folder = tmp_path / str(trial)
        folder.mkdir()
        Archive.create(folder, SCHEMA, key="key", layout=FIRST)
        while True:
            at = chance.randint(1, 60) if chance.random() < 0.8 else None
            archive = Archive(FaultyStorage(folder, at, chance.choice(KILLS)), grace_s=0)
            try:
                play(archive, script, archive.manifest.update)
                break
            except Killed:
                deaths += 1
                committed(LocalStorage(folder), script)
        assert rows_of(archive.scan()) == script.held[-1]
        archive.close()
    assert deaths > trial
