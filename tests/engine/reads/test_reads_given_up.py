"""A statement that is finished outside all turns lets go what it has pinned, and is done, whatever is raised before."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

import panewise as pw
from panewise.temporal import SECOND
from tests.engine.archives.test_archives import archive_at

LARGEST = 2**63 - 1
STREAM = "CREATE STREAM t (ts TIMESTAMP, k STRING, v BIGINT)"


def archived(folder: Path, path: Path | None = None) -> pw.Engine:
    engine = pw.Engine(path)
    engine.execute(STREAM)
    engine.execute(archive_at(folder))
    engine.push("t", [{"ts": second * SECOND, "k": "x", "v": 1} for second in range(100)])
    engine.checkpoint()
    return engine


def pins(engine: pw.Engine) -> int:
    archive = engine.archives["a"].archive
    assert archive is not None
    return sum(archive._pins._held.values())


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT COUNT(*) AS n FROM a",
        "EXPLAIN SELECT COUNT(*) AS n FROM a",
        "SELECT COUNT(*) AS n FROM a JOIN t [RANGE 3 SECONDS] ON a.k = t.k",
        "ALTER ARCHIVE a SET (layout = '1x1')",
    ],
)
def test_an_error_when_the_turn_ends(statement: str, tmp_path: Path) -> None:
    engine = archived(tmp_path)
    engine.execute("CREATE STREAM u (ts TIMESTAMP, v BIGINT)")
    engine.execute("CREATE QUERY q AS SELECT SUM(v) AS s FROM u [RANGE 2 SECONDS SLIDE 1 SECOND]")
    engine.push("u", [{"ts": ts * SECOND, "v": LARGEST} for ts in (0, 0, 9)])  # its reports are made by whoever is next
    with warnings.catch_warnings():
        warnings.simplefilter("error", pw.AnswerOverflowWarning)
        with pytest.raises(pw.AnswerOverflowWarning):
            engine.execute(statement)
    assert pins(engine) == 0
    shown = engine.execute("SHOW ARCHIVES")
    assert shown is not None
    assert shown["layout"].to_pylist() == ["Rebuild1x1" if "ALTER" in statement else "Rebuild2x3"]


def test_explaining_two_archives_one_of_which_cannot_be_read(tmp_path: Path) -> None:
    engine = archived(tmp_path / "a", tmp_path / "engine")
    engine.execute(archive_at(tmp_path / "b").replace("ARCHIVE a", "ARCHIVE b"))
    engine.close()
    (tmp_path / "b").rename(tmp_path / "elsewhere")
    (tmp_path / "b").write_text("no folder")
    with pw.Engine(tmp_path / "engine") as engine:
        with pytest.raises(pw.NotHeldError, match="the archive 'b' cannot be read"):
            engine.execute("EXPLAIN SELECT COUNT(*) AS n FROM a, b")
        assert pins(engine) == 0
