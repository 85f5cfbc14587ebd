"""Spark reads an archive: filters that were handed down leave what they would have left in Spark, and less is read."""

from __future__ import annotations

import math
import pickle
import shutil
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringStartsWith,
)

from panewise.archive import key_directory
from panewise.archive.archive import Archive
from panewise.archive.layout import Layout
from panewise.archive.storage import VanishedFile
from panewise.archive.sub_index import SubIndexFiles
from panewise.errors import ArchiveError
from panewise.spark.archives.archive_frame import read_archive
from panewise.spark.archives.archive_source import (
    ArchiveReader,
    ArchiveSource,
    PushingArchiveReader,
    PushingArchiveSource,
    keeps_scans_apart,
    register_archive,
)
from panewise.state.durable_files import FileSystem

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MINUTE = 60_000_000
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
INSTANT = pa.timestamp("us", tz="UTC")
SCHEMA = pa.schema(
    [
        ("host", pa.string()),
        ("bytes", pa.int64()),
        ("share", pa.float64()),
        ("price", pa.decimal128(8, 2)),
        ("day", pa.date32()),
        ("up", pa.bool_()),
        ("window_end", INSTANT),
    ]
)
Row = dict[str, Any]


def minute(number: float) -> datetime:
    return EPOCH + timedelta(minutes=number)


def row(number: int) -> Row:
    """Some of everything: NULL, NaN, infinity, a negative zero."""
    shares = [math.nan, math.inf, -0.0, 0.0, None, number / 8]
    return {
        "host": None if number % 13 == 0 else f"h{number % 7}",
        "bytes": None if number % 11 == 0 else number % 50,
        "share": shares[number % 6],
        "price": None if number % 5 == 0 else Decimal(number) / 4,
        "day": date(2024, 1, 1) + timedelta(days=number % 9),
        "up": (True, False, None)[number % 3],
        "window_end": minute(number % 40),
        "_inserted": minute(number % 40),
        "_expires": minute(number % 40 + 3 + number % 17),
    }


STORED = pa.schema([*SCHEMA, ("_inserted", INSTANT), ("_expires", INSTANT)])


@pytest.fixture(autouse=True, scope="module")
def _small_and_quick() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FileSystem, "sync", lambda *given: None)
        patch.setattr(FileSystem, "sync_folder", lambda *given: None)
        patch.setattr(key_directory, "BYTES_MIN", 4_096)
        yield


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Archive:
    """Chronological, so that files have times of their own; a part of it has expired and still lies in runs."""
    where = tmp_path_factory.mktemp("archives") / "traffic"
    layout = Layout(4, 2, every_us=5 * MINUTE, lifetime_us=40 * MINUTE, order="chronological", style="no_rebuild")
    made = Archive.create(where, SCHEMA, key="host", layout=layout)
    for begin in (0, 400):
        rows = [row(number) for number in range(begin, begin + 400)]
        made.update(8 * MINUTE + begin, pa.Table.from_pylist(rows, STORED))
    assert len(made.manifest.files) > 6
    return made


def place(archive: Archive) -> str:
    return str(archive.describe()["where"])


def reader_of(archive: Archive, **options: str) -> PushingArchiveReader:
    source = PushingArchiveSource({"path": place(archive), **options})
    reader = source.reader(source.schema())
    assert isinstance(reader, PushingArchiveReader)
    return reader


def read(reader: ArchiveReader) -> list[Row]:
    """As Spark does: the reader and each partition travel to a task."""
    partitions, travelled = reader.partitions(), pickle.dumps(reader)
    found: list[Row] = []
    for partition in partitions:
        for batch in pickle.loads(travelled).read(pickle.loads(pickle.dumps(partition))):
            found += batch.to_pylist()
    return found


# -- what filters mean -------------------------------------------------------------------------------------------------


def holds(filter: Filter, row: Row) -> bool:
    """The slow and obvious meaning of a filter, as Spark has it: NaN equals NaN and is above all numbers."""
    if isinstance(filter, Not):
        raise AssertionError("not made here")
    value = row[filter.attribute[0]]  # type: ignore[attr-defined]
    match filter:
        case IsNull():
            return value is None
        case IsNotNull():
            return value is not None
        case EqualNullSafe(value=None):
            return value is None
    if value is None:
        return False
    if isinstance(filter, In):
        return any(_rank(value) == _rank(other) for other in filter.value if other is not None)
    other = filter.value  # type: ignore[attr-defined]
    match filter:
        case EqualTo() | EqualNullSafe():
            return bool(_rank(value) == _rank(other))
        case LessThan():
            return bool(_rank(value) < _rank(other))
        case LessThanOrEqual():
            return bool(_rank(value) <= _rank(other))
        case GreaterThan():
            return bool(_rank(value) > _rank(other))
        case GreaterThanOrEqual():
            return bool(_rank(value) >= _rank(other))
        case StringStartsWith():
            return bool(value.startswith(other))
    raise AssertionError(filter)


def _rank(value: Any) -> Any:
    if isinstance(value, float):
        return (1, 0.0) if math.isnan(value) else (0, value)
    return value


VALUES: dict[str, st.SearchStrategy[Any]] = {
    "host": st.sampled_from(["h0", "h3", "h6", "h", "", "z"]),
    "bytes": st.integers(-1, 51),
    "share": st.sampled_from([math.nan, math.inf, -math.inf, 0.0, -0.0, 1.5, 40.125, 0.1]),
    "price": st.sampled_from([Decimal("1.25"), Decimal(7), Decimal("1.255"), Decimal("499.75")]),
    "day": st.integers(0, 9).map(lambda days: date(2024, 1, 1) + timedelta(days=days)),
    "up": st.booleans(),
    **dict.fromkeys(("window_end", "_inserted", "_expires"), st.integers(0, 60).map(minute)),
}
COMPARISONS = [EqualTo, EqualNullSafe, LessThan, LessThanOrEqual, GreaterThan, GreaterThanOrEqual]


@st.composite
def filters(draw: st.DrawFn) -> Filter:
    name = draw(st.sampled_from(sorted(VALUES)))
    kind = draw(st.sampled_from(["compare", "compare", "compare", "in", "null", "starts"]))
    if kind == "in":
        return In((name,), tuple(draw(st.lists(st.none() | VALUES[name], max_size=5))))
    if kind == "null":
        return draw(st.sampled_from([IsNull((name,)), IsNotNull((name,)), EqualNullSafe((name,), None)]))
    if kind == "starts":
        return StringStartsWith(("host",), draw(st.sampled_from(["h", "h1", ""])))
    return draw(st.sampled_from(COMPARISONS))((name,), draw(VALUES[name]))


def shown(rows: list[Row]) -> list[str]:
    return sorted(repr(sorted(row.items())) for row in rows)


@given(asked=st.lists(filters(), min_size=1, max_size=3))
def test_filters_that_were_taken_leave_what_spark_would_have_left(archive: Archive, asked: list[Filter]) -> None:
    reader = reader_of(archive)
    left = list(reader.pushFilters(list(asked)))
    assert all(any(filter is one for one in asked) for filter in left)
    found = [row for row in read(reader) if all(holds(filter, row) for filter in left)]
    expected = [row for row in archive.scan().to_pylist() if all(holds(filter, row) for filter in asked)]
    assert shown(found) == shown(expected)


def test_filters_are_taken_only_where_scans_are_kept_apart_or_the_frame_is_used_once(archive: Archive) -> None:
    for options, taken in (({}, False), ({"single_use": "true"}, True)):
        source = ArchiveSource({"path": place(archive)} | options)
        assert isinstance(source.reader(source.schema()), PushingArchiveReader) == taken


def test_keys_and_times_are_taken(archive: Archive) -> None:
    reader = reader_of(archive)
    late = minute(20)
    taken = [
        EqualTo(("host",), "h1"),
        In(("host",), ("h1", "h2", None)),
        LessThan(("host",), "h3"),
        GreaterThanOrEqual(("window_end",), late),
        LessThanOrEqual(("_inserted",), late),
        GreaterThan(("_expires",), late),
        IsNotNull(("host",)),
        LessThan(("share",), 3.0),
    ]
    spark_s = [GreaterThan(("share",), 3.0), EqualTo(("share",), math.nan), StringStartsWith(("host",), "h")]
    assert list(reader.pushFilters([*taken, *spark_s])) == spark_s


# -- what is read ------------------------------------------------------------------------------------------------------


def test_a_time_filter_opens_only_files_of_that_time(archive: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    check = SubIndexFiles.check_footer
    monkeypatch.setattr(SubIndexFiles, "check_footer", lambda self, file: (opened.append(file.name), check(self, file)))
    files = archive.manifest.files
    reader = reader_of(archive)
    assert not list(reader.pushFilters([GreaterThan(("_inserted",), minute(31)), LessThan(("_expires",), minute(48))]))
    assert read(reader)
    wanted = {f.name for f in files if f.inserted_max > 31 * MINUTE and f.expires_min < 48 * MINUTE}
    assert set(opened) == wanted
    assert 0 < len(wanted) <= len(files) / 2


def damage_all_but(where: Path, kept: str) -> None:
    """An archive of hosts h0 to h19, of which all pages with keys are damaged but those of one host's row groups."""
    with Archive.create(where, SCHEMA, key="host", layout=Layout(1, 1, MINUTE, MINUTE)) as archive:
        rows = [row(number) | {"host": f"h{number // 200}"} for number in range(4_000)]
        archive.update(0, pa.Table.from_pylist(rows, STORED))
        (file,) = archive.manifest.files
    path = where / file.name
    footer, data, damaged = pq.ParquetFile(path).metadata, bytearray(path.read_bytes()), 0
    for number in range(footer.num_row_groups):
        keys = footer.row_group(number).column(0)
        if not keys.statistics.min <= kept <= keys.statistics.max:
            begin = keys.dictionary_page_offset or keys.data_page_offset
            for at in range(begin, begin + keys.total_compressed_size):
                data[at] ^= 0xFF
            damaged += 1
    assert damaged > 5
    path.write_bytes(data)


def test_a_key_filter_reads_only_row_groups_with_the_key(tmp_path: Path) -> None:
    """Whoever reads another one is told of the damage."""
    damage_all_but(tmp_path / "a", "h12")
    with Archive.open(tmp_path / "a") as archive:
        reader = reader_of(archive)
        assert not list(reader.pushFilters([In(("host",), ("h12",))]))
        assert len(read(reader)) == 200
        with pytest.raises(ArchiveError):
            read(reader_of(archive))


def test_a_query_reads_the_version_that_it_was_planned_with(tmp_path: Path) -> None:
    layout = Layout(1, 1, MINUTE, MINUTE)
    with Archive.create(tmp_path / "a", SCHEMA, key="host", layout=layout, grace_s=0) as archive:
        for number in (1, 2):
            archive.update(number, pa.Table.from_pylist([row(number)], STORED))
        reader = reader_of(archive)
        with archive.snapshot():
            archive.update(3, pa.Table.from_pylist([row(3)], STORED))
            assert len(read(reader)) == 2
            assert len(read(reader_of(archive))) == 3
            assert len(read(reader_of(archive, version="3"))) == 2
        archive.compact()
        with pytest.raises(VanishedFile, match="open the archive again"):
            read(reader)
        with pytest.raises(ArchiveError, match=r"version 3 .* is not kept"):
            reader_of(archive, version="3")


def test_columns_and_schemas_of_the_caller(archive: Archive) -> None:
    reader = reader_of(archive, columns="BYTES, host")
    assert not list(reader.pushFilters([EqualTo(("host",), "h1")]))
    (first, *_) = read(reader)
    assert list(first) == ["bytes", "host"]
    with pytest.raises(ArchiveError, match="no column 'hots'"):
        reader_of(archive, columns="hots")
    from pyspark.sql.types import LongType, StructType

    with pytest.raises(ArchiveError, match="'host string', and not 'host bigint'"):
        ArchiveSource({"path": place(archive)}).reader(StructType().add("host", LongType()))
    with pytest.raises(ArchiveError, match="there is no archive in"):
        ArchiveSource({"path": place(archive) + "/data"}).schema()
    with pytest.raises(ArchiveError, match="none is given"):
        ArchiveSource({}).schema()


# -- Spark itself ------------------------------------------------------------------------------------------------------

ASKED = [
    "host = 'h3'",
    "host IN ('h1', 'h2') AND window_end BETWEEN '1970-01-01 00:10:00' AND '1970-01-01 00:20:00'",
    "host >= 'h4' AND _expires > '1970-01-01 00:45:00' AND share > 3",
    "_inserted < '1970-01-01 00:12:00' AND (up OR price = 7) AND day = DATE'2024-01-04'",
    "host <=> NULL AND share = double('NaN') AND NOT bytes = 3",
    "price <= 1.25 AND share IN (0.0, 1.5) OR bytes IS NULL AND up",
]


@pytest.mark.spark
def test_spark_finds_what_it_finds_in_a_plain_table(spark: SparkSession, archive: Archive, soak: bool) -> None:
    """Of one frame, many queries; of a frame a query; and of Spark's own reader."""
    register_archive(spark)
    loader = spark.read.format("panewise_archive")
    frame, native = loader.load(place(archive)), read_archive(spark, place(archive))
    plain = spark.createDataFrame(archive.scan())
    for one in (frame, native):
        assert [(f.name, f.dataType) for f in one.schema] == [(f.name, f.dataType) for f in plain.schema]
    for text in (*(ASKED if soak else ASKED[::3]), "true"):
        expected = shown(plain.where(text).toArrow().to_pylist())
        assert expected, text
        single = loader.option("single_use", "true").load(place(archive))
        assert shown(single.where(text).toArrow().to_pylist()) == expected, text
        loader.option("single_use", "false")
        for one in (frame, native):
            assert shown(one.where(text).toArrow().to_pylist()) == expected, text


@pytest.mark.spark
def test_scans_of_one_frame_do_not_get_the_filters_of_another(spark: SparkSession, archive: Archive) -> None:
    """They would, if filters were taken where Spark keeps them with the frame."""
    register_archive(spark)
    for frame in (
        spark.read.format("panewise_archive").option("columns", "host").load(place(archive)),
        read_archive(spark, place(archive)).select("host"),
    ):
        both = frame.where("host = 'h1'").union(frame.where("host = 'h2'")).union(frame)
        found = [row.host for row in both.collect()]
        hosts = archive.scan(columns=["host"])["host"].to_pylist()
        assert len(found) == len(hosts) + hosts.count("h1") + hosts.count("h2")
        assert found.count("h1") == 2 * hosts.count("h1")
    assert not keeps_scans_apart(spark) or spark.version > "4.3.0"


@pytest.mark.spark
def test_spark_does_not_touch_files_of_other_times(spark: SparkSession, archive: Archive, tmp_path: Path) -> None:
    """They are gone, and nobody misses them."""
    register_archive(spark)
    copy = tmp_path / "copy"
    shutil.copytree(place(archive), copy)
    others = [file for file in archive.manifest.files if file.inserted_max <= 31 * MINUTE]
    assert others
    for file in others:
        (copy / file.name).unlink()
    expected = shown([r for r in archive.probe("h3").to_pylist() if r["_inserted"] >= minute(32)])
    assert expected
    source = spark.read.format("panewise_archive").option("single_use", "true").load(str(copy))
    native = read_archive(spark, copy, inserted=(minute(32), None))
    for frame in (source.where("_inserted >= '1970-01-01 00:32:00'"), native):
        assert shown(frame.where("host = 'h3'").toArrow().to_pylist()) == expected
    with pytest.raises(Exception, match="cannot read 'data/"):
        spark.read.format("panewise_archive").load(str(copy)).count()


@pytest.mark.spark
def test_sparks_own_reader_skips_row_groups_by_key(spark: SparkSession, tmp_path: Path) -> None:
    damage_all_but(tmp_path / "a", "h12")
    frame = read_archive(spark, tmp_path / "a").select("host")
    assert frame.where("host = 'h12'").count() == 200
    with pytest.raises(Exception, match=r"(?i)parquet|corrupt|read"):
        frame.where("host >= ''").collect()
