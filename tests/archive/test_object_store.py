"""Archives on an object store: Arrow's S3 client, over HTTP, against a store that a test starts on loopback."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

import panewise as pw
from panewise.archive.archive import Archive
from panewise.archive.layout import Layout
from panewise.errors import ArchiveError
from tests.archive.plain_table import EVERY, LIFETIME, SCHEMA, PlainTable, random_rows, rows_of, table_of
from tests.archive.s3_server import BUCKET, ObjectStore, object_store

LAYOUT = Layout(2, 3, EVERY, LIFETIME)


@pytest.fixture
def store() -> Iterator[ObjectStore]:
    with object_store() as store:
        yield store


def place(store: ObjectStore) -> str:
    """As one would name it in CREATE ARCHIVE."""
    options = f"scheme=http&endpoint_override={store.endpoint}&region=us-east-1&allow_bucket_creation=false"
    return f"s3://key:secret@{BUCKET}/past/archive?{options}"


def test_it_answers_like_a_plain_table(store: ObjectStore) -> None:
    chance = random.Random(3)
    plain, now = PlainTable(), 0
    with Archive.create(place(store), SCHEMA, key="key", layout=LAYOUT, grace_s=0) as archive:
        for _ in range(12):
            now += EVERY
            rows = random_rows(chance, now, 30)
            archive.update(now, table_of(rows))
            plain.update(now, rows)
            assert rows_of(archive.scan()) == plain.select()
            assert rows_of(archive.probe(5)) == plain.select(lambda row: row[0] == 5)
            assert rows_of(archive.range(2, 4)) == plain.select(lambda row: row[0] in (2, 3, 4))
        with archive.snapshot() as before:
            archive.migrate(Layout(3, 2, EVERY, LIFETIME, style="no_rebuild"))
            archive.compact()
            assert rows_of(before.scan()) == rows_of(archive.scan()) == plain.select()
        assert archive.verify().sound
    again = Archive.open(place(store))
    assert rows_of(again.scan()) == plain.select() and again.layout.name == "NoRebuild3x2"
    # What is in the bucket is what the newest version names: superseded files are gone.
    there = {key.removeprefix("past/archive/") for key in store.objects if key.endswith(".parquet")}
    assert {file.name for file in again.manifest.files} <= there


def test_files_of_many_parts_and_ranges_of_them(store: ObjectStore) -> None:
    """More than one request a file: Arrow sends parts of 10 MB, and a probe reads a range of the object."""
    chance = random.Random(4)
    text = [f"{chance.getrandbits(2_400):x}" for _ in range(40_000)]  # hexadecimal digits do not get shorter than half
    rows = [(number % 100, text[number], 1, 100) for number in range(40_000)]
    with Archive.create(place(store), SCHEMA, key="key", layout=Layout(1, 1, EVERY, LIFETIME)) as archive:
        archive.update(1, table_of(rows))
        (file,) = archive.manifest.files
        assert file.bytes > 12_000_000 and ("POST", f"past/archive/{file.name}") in store.requests
        store.sent = 0
        assert archive.probe(7).num_rows == 400 and store.sent < file.bytes / 20


def test_a_second_writer_is_found(store: ObjectStore) -> None:
    one = Archive.create(place(store), SCHEMA, key="key", layout=LAYOUT)
    other = Archive.open(place(store))
    one.update(10, table_of([(1, "one", 5, 90)]))
    other.update(20, table_of([(2, "other", 15, 90)]))
    with pytest.raises(ArchiveError):
        one.update(30, table_of([(3, "late", 25, 90)]))
    assert [row[0] for row in rows_of(Archive.open(place(store)).scan())] == [1, 2]


def test_a_store_that_refuses_leaves_the_last_version(store: ObjectStore) -> None:
    archive = Archive.create(place(store), SCHEMA, key="key", layout=LAYOUT)
    archive.update(10, table_of([(1, "one", 5, 90)]))
    store.refuse_writes = True
    with pytest.raises(ArchiveError, match=r"cannot write .* of the archive 's3:bucket/past/archive'"):
        archive.update(20, table_of([(2, "two", 15, 90)]))
    assert [row[0] for row in rows_of(archive.scan())] == [1]
    store.refuse_writes = False
    archive.update(20, table_of([(2, "two", 15, 90)]))
    assert [row[0] for row in rows_of(Archive.open(place(store)).scan())] == [1, 2]


def test_an_engine_archives_there(store: ObjectStore) -> None:
    engine = pw.Engine()
    engine.execute("CREATE STREAM t (ts TIMESTAMP, k STRING, v BIGINT)")
    engine.execute(
        f"CREATE ARCHIVE a FROM t WITH (path = '{place(store)}', key = 'k', lifetime = '1 hour', every = '10 s')"
    )
    for second in range(60):
        engine.push("t", {"ts": second * 1_000_000, "k": "ab"[second % 2], "v": second})
    assert engine.execute("SELECT SUM(v) AS total FROM a WHERE k = 'a'")["total"].to_pylist() == [sum(range(0, 59, 2))]
    engine.execute("CREATE QUERY late AS SELECT COUNT(*) AS n FROM t [RANGE 50 SECONDS SLIDE 1 SECOND]")
    assert engine.results("late")["n"].to_pylist() == [50]
    engine.close()
    assert any(key.startswith("past/archive/data/") for key in store.objects)
