"""An archive answers like a plain filtered table, through random updates and lifetimes, in every layout and style."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pafs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from panewise.archive.archive import Archive
from panewise.archive.layout import Layout
from panewise.errors import ArchiveError, NotHeldError
from tests.archive.plain_table import EVERY, LAYOUTS, LIFETIME, SCHEMA, PlainTable, random_rows, rows_of, table_of


def compare(archive: Archive, plain: PlainTable, chance: random.Random) -> None:
    """One query of each kind."""
    now = plain.now or 0
    assert rows_of(archive.scan()) == plain.select()
    key = chance.choice([None, *range(13)])
    assert rows_of(archive.probe(key)) == plain.select(lambda row: row[0] == key)
    several = chance.sample(range(60), chance.choice((0, 2, 40)))
    assert rows_of(archive.probe(several)) == plain.select(lambda row: row[0] in several)
    low, high = chance.randrange(12), chance.choice([None, chance.randrange(12)])
    in_range = rows_of(archive.range(low, high))
    assert in_range == plain.select(lambda row: row[0] is not None and low <= row[0] <= (12 if high is None else high))
    at = now + chance.randrange(LIFETIME)
    assert rows_of(archive.probe(key, at=at)) == plain.select(lambda row: row[0] == key and row[2] <= at < row[3])
    begin, end = now - chance.randrange(LIFETIME), now - chance.randrange(EVERY)
    inserted = rows_of(archive.scan(inserted=(begin, end), expires=(at, None)))
    assert inserted == plain.select(lambda row: begin <= row[2] <= end and row[3] >= at)


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.name)
def test_through_hundreds_of_updates(layout: Layout, tmp_path: Path, soak: bool) -> None:
    chance = random.Random(layout.name)
    archive, plain, now = Archive.create(tmp_path, SCHEMA, key="key", layout=layout, grace_s=0), PlainTable(), 0
    for number in range(1, (1_000 if soak else 48) + 1):
        now += chance.choice((EVERY, EVERY, EVERY, 1, 3 * EVERY, 0))
        rows = random_rows(chance, now, chance.choice((0, 5, 30, 60)))
        done = archive.update(now, table_of(rows))
        held_before = len(plain.rows)
        plain.update(now, rows)
        assert (done.number, done.version, done.repeated) == (number, number + 1, False)
        assert held_before + done.inserted - done.removed == len(plain.rows)
        if number % 8 == 0:
            compare(archive, plain, chance)
    assert archive.verify().sound
    assert archive.verify().rows == len(plain.rows)
    # What nobody needs is gone: the files of the newest version are all that is left.
    assert {f"data/{path.name}" for path in (tmp_path / "data").iterdir()} == {f.name for f in archive.manifest.files}
    archive.compact()
    assert len(archive.manifest.files) == len({file.sub_index for file in archive.manifest.files})
    compare(archive, plain, chance)


@st.composite
def histories(draw: st.DrawFn) -> list[tuple[int, list[tuple[int | None, str, int, int]]]]:
    now, updates = draw(st.integers(-500, 500)), []
    for _ in range(draw(st.integers(1, 8))):
        now += draw(st.integers(0, 40))
        times = st.tuples(st.none() | st.integers(0, 3), st.integers(-200, 10), st.integers(1, 300))
        rows = [(key, "", now + begin, now + begin + life) for key, begin, life in draw(st.lists(times, max_size=8))]
        updates.append((now, rows))
    return updates


@settings(max_examples=40)
@given(
    histories(),
    st.sampled_from(LAYOUTS),
    st.sampled_from(LAYOUTS),
    st.integers(0, 7),
    st.randoms(use_true_random=False),
)
def test_any_history_with_a_migration(
    updates: list[tuple[int, list[tuple[int | None, str, int, int]]]],
    layout: Layout,
    following: Layout,
    migrated_at: int,
    chance: random.Random,
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        archive, plain = Archive.create(folder, SCHEMA, key="key", layout=layout, grace_s=0), PlainTable()
        for number, (now, rows) in enumerate(updates):
            archive.update(now, table_of(rows))
            plain.update(now, rows)
            if number == migrated_at:
                archive.migrate(following)
                assert archive.layout == following and not archive.manifest.moving
        compare(archive, plain, chance)
        verified = archive.verify()
        assert verified.sound and verified.rows == len(plain.rows)
        archive.close()


def test_a_repeated_update_changes_nothing(tmp_path: Path) -> None:
    archive = Archive.create(tmp_path, SCHEMA, key="key", layout=LAYOUTS[0])
    rows = table_of([(1, "a", 1, 50)])
    first = archive.update(10, rows, number=7)
    again = archive.update(10, rows, number=7)
    assert (first.repeated, again.repeated, again.version) == (False, True, first.version)
    assert archive.scan().num_rows == 1
    archive.close()
    assert Archive.open(tmp_path).update(12, rows, number=6).repeated
    assert Archive.open(tmp_path).manifest.update == 7


def test_expired_rows_are_not_seen(tmp_path: Path) -> None:
    archive = Archive.create(tmp_path, SCHEMA, key="key", layout=LAYOUTS[0])
    archive.update(10, table_of([(1, "short", 5, 20), (1, "long", 5, 100), (1, "gone", 5, 10), (1, "later", 30, 99)]))

    def seen(at: int | None) -> set[str]:
        return set(archive.probe(1, at=at)["text"].to_pylist())

    assert seen(None) == {"short", "long", "later"}
    assert seen(19) == {"short", "long"}
    assert seen(20) == seen(29) == {"long"}
    assert seen(30) == {"long", "later"}
    with pytest.raises(NotHeldError, match="are gone"):
        archive.scan(at=9)
    assert archive.update(99).removed == 2 and seen(None) == {"long"}


def test_keys_of_several_columns_and_other_types(tmp_path: Path) -> None:
    schema = pa.schema(
        [("day", pa.date32()), ("host", pa.string()), ("price", pa.decimal128(10, 2)), ("up", pa.bool_())]
    )
    archive = Archive.create(tmp_path, schema, key=["host", "day"], layout=LAYOUTS[3])
    table = pa.table(
        {
            "day": pa.array([1, 2, 1, None], pa.int32()).cast(pa.date32()),
            "host": ["b", "a", "a", None],
            "price": pa.array(["1.50", "2.00", "3.25", None]).cast(pa.decimal128(10, 2)),
            "up": [True, None, False, True],
            "_inserted": pa.array([1, 1, 1, 1], pa.timestamp("ns")),
            "_expires": pa.array([40_000, 40_000, 50_000, 60_000], pa.timestamp("ns", tz="Europe/Berlin")),
        }
    )
    archive.update(2, table)
    import datetime

    day = datetime.date(1970, 1, 2)
    assert archive.probe(("a", day), columns=["price"]).to_pylist()[0]["price"].as_tuple().digits == (3, 2, 5)
    assert archive.probe([("a", day), ("b", day)]).num_rows == 2
    assert archive.probe((None, None), columns=["up"]).to_pylist() == [{"up": True}]
    assert archive.range("a", "a").num_rows == 2
    assert archive.scan(where=pc.field("up") == True, columns=["host"])["host"].to_pylist() == ["b", None]  # noqa: E712
    with pytest.raises(ArchiveError, match="is not a key"):
        archive.probe("a")
    with pytest.raises(ArchiveError, match="not a value of the key column 'day'"):
        archive.probe(("a", "monday"))


def test_what_does_not_fit_is_refused(tmp_path: Path) -> None:
    layout = LAYOUTS[0]
    for schema, key in ((SCHEMA, "kee"), (SCHEMA, []), (pa.schema([("_expires", pa.int64())]), "_expires")):
        with pytest.raises(ArchiveError):
            Archive.create(tmp_path / "new", schema, key=key, layout=layout)
    with pytest.raises(ArchiveError, match="list<"):
        Archive.create(tmp_path / "new", pa.schema([("a", pa.list_(pa.int64()))]), key="a", layout=layout)
    archive = Archive.create(tmp_path, SCHEMA, key="key", layout=layout)
    with pytest.raises(ArchiveError, match="already has an archive"):
        Archive.create(tmp_path, SCHEMA, key="key", layout=layout)
    good = table_of([(1, "a", 1, 50)])
    bad = {
        "missing": good.drop_columns(["text"]),
        "not in it": good.append_column("more", pa.array([1])),
        "do not fit": good.set_column(0, "key", pa.array(["x"])),
        "have no _expires": good.set_column(3, "_expires", pa.array([None], pa.int64())),
        "expires at": table_of([(1, "a", 50, 50)]),
        "outside the years": table_of([(1, "a", 1, 2**62)]),
    }
    for message, rows in bad.items():
        with pytest.raises(ArchiveError, match=message):
            archive.update(10, rows)
    archive.update(10, good)
    with pytest.raises(ArchiveError, match="before the last one"):
        archive.update(9, good)
    with pytest.raises(ArchiveError, match="no column 'kye'"):
        archive.scan(columns=["kye"])
    assert archive.scan().num_rows == 1
    with pytest.raises(ArchiveError, match="there is no archive"):
        Archive.open(tmp_path / "elsewhere")


@pytest.mark.parametrize("layout", LAYOUTS[:4], ids=lambda layout: layout.name)
def test_on_another_file_system(layout: Layout) -> None:
    chance = random.Random(3)
    memory = pafs._MockFileSystem()
    archive, plain = (
        Archive.create("bucket/a", SCHEMA, key="key", layout=layout, filesystem=memory, grace_s=0),
        PlainTable(),
    )
    for now in range(EVERY, 12 * EVERY, EVERY):
        rows = random_rows(chance, now, 20)
        archive.update(now, table_of(rows))
        plain.update(now, rows)
    other = Archive.open("bucket/a", filesystem=memory)
    compare(other, plain, chance)
    other.update(now + 1, table_of([]))
    # There is no lock: the version tells that another has written.
    with pytest.raises(ArchiveError, match="made by another writer"):
        archive.update(now + 1, table_of([(1, "a", 1, 900)]))
    assert archive.update(now + 1, table_of([(1, "a", 1, 900)])).version == other.version


def test_without_a_lock_files_of_a_writer_at_work_stay() -> None:
    memory = pafs._MockFileSystem()
    where = {"where": "bucket/a", "filesystem": memory}
    archive = Archive.create(**where, schema=SCHEMA, key="key", layout=LAYOUTS[0], grace_s=0)
    archive.update(10, table_of([(1, "a", 1, 500)]))
    for name in ("data/00000003-I00-abc01234.parquet", "data/00000002-I00-abc01234.parquet"):
        with memory.open_output_stream(f"bucket/a/{name}") as file:
            file.write(b"not named by any version")

    def left() -> list[str]:
        found = memory.get_file_info(pafs.FileSelector("bucket/a/data"))
        return sorted(info.base_name for info in found if "-abc01234." in info.base_name)

    assert Archive.open(**where, grace_s=0).update(11, number=1).repeated
    assert left() == ["00000003-I00-abc01234.parquet"]
    Archive.open(**where, grace_s=0).update(12)
    Archive.open(**where, grace_s=0).update(13)
    assert left() == []


def test_two_writers_at_the_same_time_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = pafs._MockFileSystem()
    archive = Archive.create("bucket/a", SCHEMA, key="key", layout=LAYOUTS[0], filesystem=memory)
    read = archive._storage.read
    monkeypatch.setattr(archive._storage, "read", lambda name: read(name) + b" ")
    with pytest.raises(ArchiveError, match="at the same time"):
        archive.update(10, table_of([(1, "a", 1, 500)]))


def test_one_writer_and_many_versions(tmp_path: Path) -> None:
    archive = Archive.create(tmp_path, SCHEMA, key="key", layout=LAYOUTS[0])
    archive.update(10, table_of([(1, "a", 1, 50)]))
    other = Archive.open(tmp_path)
    with pytest.raises(ArchiveError, match="is being written"):
        other.update(11, table_of([]))
    assert other.scan().num_rows == 1
    archive.update(11, table_of([(1, "b", 1, 50)]))
    assert (other.version, other.scan().num_rows) == (3, 2)
    older = Archive.open(tmp_path, version=2)
    assert older.scan().num_rows == 1
    with pytest.raises(ArchiveError, match="read-only"):
        older.update(12, table_of([]))
    with pytest.raises(ArchiveError, match="is not kept"):
        Archive.open(tmp_path, version=9)
    archive.close()
    other.update(11, table_of([]))
    told = other.describe()
    assert (told["version"], told["versions"], told["rows"], told["layout"]) == (4, [1, 2, 3, 4], 2, "Rebuild2x2")
