"""Rows of the last instants of the year 9999 are archived as all others: their life ends after everything."""

from __future__ import annotations

from pathlib import Path

import pytest

from panewise.archive.archive import Archive
from panewise.engine.engine import Engine
from panewise.errors import DurabilityWarning

LAST = "9999-12-31 23:59:59.999999"
OPTIONS = "key = 'k', lifetime = '1 hour'"


def ended(place: Path, path: Path | None = None) -> Engine:
    """An engine that has come to the end of time, with archives of a stream and of a query."""
    engine = Engine(path) if path else Engine()
    engine.execute("CREATE STREAM s (ts TIMESTAMP, k STRING) WITH (ahead = 'off')")
    engine.execute("CREATE QUERY q AS SELECT k FROM s [RANGE 1 MINUTE]")
    for name in "sq":
        engine.execute(f"CREATE ARCHIVE of_{name} FROM {name} WITH (path = '{place}/{name}', {OPTIONS})")
    engine.push("s", {"ts": "9999-12-31 22:00:00", "k": "expired"})
    engine.push("s", {"ts": "9999-12-31 23:59:00", "k": "alive"})
    engine.push("s", {"ts": LAST, "k": "last"})
    engine.flush()
    return engine


def keys(engine: Engine, archive: str) -> list[str]:
    table = engine.execute(f"SELECT k FROM {archive}")
    assert table is not None
    return sorted(table["k"].to_pylist())


@pytest.mark.parametrize("durable", [False, True])
def test_the_last_rows_are_there(durable: bool, tmp_path: Path) -> None:
    engine = ended(tmp_path, tmp_path / "engine" if durable else None)
    for archive in ("of_s", "of_q"):
        assert keys(engine, archive) == ["alive", "last"]
    engine.close()
    for name in "sq":
        with Archive.open(tmp_path / name) as archive:
            assert sorted(archive.scan(at=LAST)["k"].to_pylist()) == ["alive", "last"]
            assert archive.verify().sound
    if durable:
        engine = Engine(tmp_path / "engine")
        assert keys(engine, "of_s") == keys(engine, "of_q") == ["alive", "last"]
        engine.close()
    again = Engine()  # it goes on with files after which nothing can come
    again.execute("CREATE STREAM s (ts TIMESTAMP, k STRING) WITH (ahead = 'off')")
    again.execute(f"CREATE ARCHIVE a FROM s WITH (path = '{tmp_path}/s', {OPTIONS})")
    assert again.stats()["archives"]["a"]["written_to"] == LAST
    assert keys(again, "a") == ["alive", "last"]


def test_a_report_that_is_due_after_the_last_instant_is_told(tmp_path: Path) -> None:
    engine = Engine()
    engine.execute("CREATE STREAM s (ts TIMESTAMP, k STRING) WITH (ahead = 'off')")
    engine.execute("CREATE QUERY q AS SELECT k, COUNT(*) AS n FROM s [RANGE 1 MINUTE SLIDE 1 MINUTE] GROUP BY k")
    engine.execute(f"CREATE ARCHIVE a FROM q WITH (path = '{tmp_path}', {OPTIONS})")
    engine.push("s", {"ts": LAST, "k": "last"})
    engine.flush()
    with pytest.warns(DurabilityWarning, match="1 rows of archive 'a' are not in .*: .* due after the year 9999"):
        engine.close()
