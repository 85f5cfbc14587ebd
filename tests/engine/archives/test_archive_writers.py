"""An archive has one writer: CREATE ARCHIVE refuses a second engine, which gets the files when the first lets go."""

from __future__ import annotations

import gc
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from panewise.archive.archive import Archive
from panewise.engine.engine import Engine
from panewise.errors import ArchiveError, DurabilityWarning, EngineBroken
from tests.engine.archives.archive_plays import SECOND, STREAM


def archive_at(path: Path) -> str:
    return f"CREATE ARCHIVE a FROM t WITH (path = '{path}', key = 'k', lifetime = '1 hour', every = '10 seconds')"


def engine_at(path: Path | None = None) -> Engine:
    engine = Engine(path) if path else Engine()
    engine.execute(STREAM)
    return engine


def filled(engine: Engine, seconds: range) -> None:
    for second in seconds:
        engine.push("t", {"ts": second * SECOND, "k": "a", "n": 0, "v": second})
    engine.stats()


def refused(engine: Engine, path: Path) -> None:
    with pytest.raises(ArchiveError, match=r"is being written by another.*(?s:.*)close the other engine"):
        engine.execute(archive_at(path))
    assert engine.execute("SHOW ARCHIVES").num_rows == 0  # type: ignore[union-attr]


def test_a_second_engine_is_refused_until_the_first_is_closed(tmp_path: Path) -> None:
    first, second = engine_at(), engine_at()
    first.execute(archive_at(tmp_path / "a"))
    refused(second, tmp_path / "a")
    filled(first, range(30))
    refused(second, tmp_path / "a")
    first.close()
    second.execute(archive_at(tmp_path / "a"))
    filled(second, range(30, 60))
    second.close()
    with Archive.open(tmp_path / "a") as archive:
        assert archive.scan().num_rows == 2 * 26  # of either engine those that its watermark had passed


def test_a_durable_engine_that_is_refused_opens_again(tmp_path: Path) -> None:
    first = engine_at()
    first.execute(archive_at(tmp_path / "a"))
    with engine_at(tmp_path / "engine") as second:
        refused(second, tmp_path / "a")
    with Engine(tmp_path / "engine") as second:
        assert second.execute("SHOW ARCHIVES").num_rows == 0  # type: ignore[union-attr]
        first.execute("DROP ARCHIVE a")
        second.execute(archive_at(tmp_path / "a"))


def test_a_durable_engine_comes_back_beside_another_writer(tmp_path: Path) -> None:
    """Its archive is FAILED with the reason, and goes on when the other has let go."""
    with engine_at(tmp_path / "engine") as first:
        first.execute(archive_at(tmp_path / "a"))
        filled(first, range(30))
    other = engine_at()
    other.execute(archive_at(tmp_path / "a"))
    with Engine(tmp_path / "engine") as first:
        [shown] = first.execute("SHOW ARCHIVES").to_pylist()  # type: ignore[union-attr]
        assert shown["status"] == "FAILED" and "is being written by another" in shown["reason"]
        filled(first, range(30, 60))
        assert first.execute("SELECT * FROM a").num_rows == 56  # type: ignore[union-attr]
        with pytest.raises(ArchiveError, match="is being written by another"):
            first.execute("ALTER ARCHIVE a SET (update = 'rebuild')")
        other.close()
        first.execute("ALTER ARCHIVE a SET (update = 'rebuild')")
        assert first.stats()["archives"]["a"]["status"] == "RUNNING"
    with Archive.open(tmp_path / "a") as archive:
        assert archive.scan().num_rows == 56


def test_an_engine_of_a_snapshot_beside_the_one_that_it_was_taken_from(tmp_path: Path) -> None:
    first = engine_at()
    first.execute(archive_at(tmp_path / "a"))
    filled(first, range(30))
    second = Engine.restore(first.snapshot())
    assert second.stats()["archives"]["a"]["status"] == "FAILED"
    filled(second, range(30, 60))
    assert second.execute("SELECT * FROM a").num_rows == 56  # type: ignore[union-attr]
    first.close()
    second.execute("ALTER ARCHIVE a SET (layout = '2x3')")
    second.close()
    with Archive.open(tmp_path / "a") as archive:
        assert archive.scan().num_rows == 56 and archive.layout.name == "Rebuild2x3"


def test_an_alteration_that_is_refused_changes_nothing(tmp_path: Path) -> None:
    first = engine_at()
    first.execute(archive_at(tmp_path / "a"))
    second = Engine.restore(first.snapshot())
    with pytest.raises(ArchiveError, match="is being written by another"):
        second.execute("ALTER ARCHIVE a SET (layout = '2x3')")
    assert "2x3" not in str(second.archives["a"].definition.options)
    assert second.archives["a"].definition == second.catalog.get("a", "archive")


def test_the_same_path_is_dropped_and_created_in_one_engine(tmp_path: Path) -> None:
    engine = engine_at()
    for start in range(0, 60, 20):
        engine.execute(archive_at(tmp_path / "a"))
        filled(engine, range(start, start + 20))
        engine.execute("DROP ARCHIVE a")
    refused_columns = archive_at(tmp_path / "a").replace("key = 'k'", "key = 'v'")
    with pytest.raises(ArchiveError, match="another key"):
        engine.execute(refused_columns)
    engine_at().execute(archive_at(tmp_path / "a"))  # what was refused holds nothing


def test_a_folder_that_was_replaced_is_not_written_by_its_former_writer(tmp_path: Path) -> None:
    """The lock that it holds is on a file that is gone."""
    first, second = engine_at(), engine_at()
    first.execute(archive_at(tmp_path / "a"))
    filled(first, range(60))
    shutil.rmtree(tmp_path / "a")
    second.execute(archive_at(tmp_path / "a"))
    filled(second, range(30))
    filled(first, range(60, 90))
    stats = first.stats()["archives"]["a"]
    assert stats["status"] == "FAILED" and "were removed or replaced" in stats["reason"]
    with pytest.raises(ArchiveError, match="is being written by another"):
        first.execute("ALTER ARCHIVE a SET (update = 'rebuild')")
    filled(second, range(30, 40))
    second.close()
    with Archive.open(tmp_path / "a") as archive:
        assert archive.verify().sound and archive.scan().num_rows == 36
    with pytest.warns(DurabilityWarning, match="it goes on there without them"):
        first.execute("ALTER ARCHIVE a SET (update = 'rebuild')")
    first.close()
    with Archive.open(tmp_path / "a") as archive:
        assert archive.verify().sound and archive.scan().num_rows == 36 + 35  # with what it held


@pytest.mark.parametrize("other", ["older", "of other rows"])
def test_an_archive_that_is_another_one_now_is_not_written(other: str, tmp_path: Path) -> None:
    first = engine_at()
    first.execute(archive_at(tmp_path / "a"))
    for start in range(0, 60, 10):
        filled(first, range(start, start + 10))
    first.archives.close(logged=False)  # it goes on, and takes the lock again
    shutil.rmtree(tmp_path / "a")
    second = engine_at()
    key = "k" if other == "older" else "v"
    second.execute(archive_at(tmp_path / "a").replace("key = 'k'", f"key = '{key}'"))
    for start in range(0, 30 if other == "older" else 90, 10):
        filled(second, range(start, start + 10))
    second.close()
    filled(first, range(60, 90))
    stats = first.stats()["archives"]["a"]
    assert stats["status"] == "FAILED" and "were removed or replaced" in stats["reason"]


def test_an_engine_that_nobody_closed_holds_nothing_when_it_is_gone(tmp_path: Path) -> None:
    first = engine_at()
    first.execute(archive_at(tmp_path / "a"))
    filled(first, range(30))
    del first
    gc.collect()
    engine_at().execute(archive_at(tmp_path / "a"))


def test_a_broken_engine_lets_its_archives_go(tmp_path: Path) -> None:
    engine = engine_at()
    engine.execute(archive_at(tmp_path / "a"))
    with pytest.raises(KeyboardInterrupt), engine.turns, engine.turns.change:
        raise KeyboardInterrupt
    with pytest.raises(EngineBroken):
        engine.stats()
    engine.close()
    engine_at().execute(archive_at(tmp_path / "a"))


CREATE = """
import sys
from panewise.engine.engine import Engine
engine = Engine()
for statement in sys.argv[1:]:
    engine.execute(statement)
"""


def test_another_process(tmp_path: Path) -> None:
    def in_another() -> subprocess.CompletedProcess[str]:
        """It ends without a close, as one that dies does."""
        statements = [STREAM, archive_at(tmp_path / "a")]
        return subprocess.run([sys.executable, "-c", CREATE, *statements], capture_output=True, text=True)

    assert in_another().returncode == 0
    engine = engine_at()
    engine.execute(archive_at(tmp_path / "a"))
    assert "is being written by another process" in in_another().stderr
    engine.close()
    assert in_another().returncode == 0


def test_a_forked_child_neither_takes_nor_ends_the_right_to_write(tmp_path: Path) -> None:
    engine = engine_at()
    engine.execute(archive_at(tmp_path / "a"))
    child = os.fork()
    if child == 0:
        code = 1
        try:
            refused(engine_at(), tmp_path / "a")
            engine.close()
            code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    refused(engine_at(), tmp_path / "a")
    filled(engine, range(30))
    assert engine.stats()["archives"]["a"]["status"] == "RUNNING"
