"""An archive as a data source of Spark: `spark.read.format("panewise_archive").load(path)`.

    register_archive(spark)
    frame = spark.read.format("panewise_archive").load("s3://bucket/traffic")

Columns are those of the archive, `_inserted` and `_expires`. Options: `version` reads one version, as long as it is
kept. `columns` ('host, bytes') reads only these columns, because Spark does not tell a Python source which it needs.
`single_use` ('true') takes filters, see below. Works on every file system of Arrow. A task reads one sub-index, and
gives rows as Arrow batches. `archive_frame.py` reads with Spark's own Parquet reader, and is faster on local disks.

Filters choose files by the manifest when a query is planned, and row groups by their footers in the tasks
(`archive_filters.py`). But Spark 4.3 keeps pushed filters with the *frame*, for all its readers: after
`frame.where(...)` a `frame.count()` counts only those rows, and both sides of a self-join get the filters of one. So
filters are taken only if Spark keeps scans apart, or if the caller promises with `single_use` that the frame is used
once and in one query. Otherwise Spark filters all rows, and the answer is right.

Invariant: a query reads one committed version, the newest when the frame was first planned. Its tasks get the names of
the files and read no manifest. A task that begins later than the writer's grace period after a newer version may not
find a file; its error says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from panewise.archive.manifest import Manifest, Manifests
from panewise.archive.snapshot import Snapshot, may_hold
from panewise.archive.storage import LocalStorage, storage_at
from panewise.archive.sub_index import SubIndexFiles, stored_schema
from panewise.archive.writing import by_sub_index
from panewise.errors import ArchiveError, did_you_mean
from panewise.spark.archives.archive_filters import PushedFilters
from panewise.spark.environment.session import check_version, is_connect, settings
from panewise.spark.environment.shipping import ship

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.datasource import Filter
    from pyspark.sql.types import StructType

NAME = "panewise_archive"
_PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
_FRAME_CLASS = "org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceV2"


def register_archive(spark: SparkSession) -> None:
    """Makes archives readable in a session, and lets Spark push filters down to Python sources."""
    check_version(spark)
    ship(spark)
    spark.conf.set(_PUSHDOWN, "true")
    with settings(spark, {}):  # its workers run this interpreter
        spark.dataSource.register(PushingArchiveSource if keeps_scans_apart(spark) else ArchiveSource)


def keeps_scans_apart(spark: SparkSession) -> bool:
    """Whether this Spark keeps pushed filters with the scan, and not with the frame.

    A Spark that keeps them with the frame has a method for it in the frame's class. False through Spark Connect, where
    classes cannot be inspected.
    """
    if is_connect(spark):
        return False
    jvm: Any = spark.sparkContext._jvm
    methods = jvm.java.lang.Thread.currentThread().getContextClassLoader().loadClass(_FRAME_CLASS).getMethods()
    return "setReadInfo" not in [method.getName() for method in methods]


class ArchiveSource(DataSource):
    """See the module. Spark creates one, in a separate process, whenever it needs one."""

    takes_filters = False

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> StructType:
        from pyspark.sql.types import StructType

        whole = _spark_schema(self._manifest())
        written = self.options.get("columns")
        if written is None:
            return whole
        return StructType([_field(whole, name.strip()) for name in written.split(",")])

    def reader(self, schema: StructType) -> ArchiveReader:
        manifest = self._manifest()
        whole = _spark_schema(manifest)
        for field in schema.fields:  # perhaps those of `spark.read.schema(...)`
            own = _field(whole, field.name)
            if (own.name, own.dataType) != (field.name, field.dataType):
                shown = [f"{one.name} {one.dataType.simpleString()}" for one in (own, field)]
                raise ArchiveError(f"the archive has the column '{shown[0]}', and not '{shown[1]}'")
        pushing = self.takes_filters or self.options.get("single_use", "false").lower() == "true"
        return (PushingArchiveReader if pushing else ArchiveReader)(self._place(), manifest, schema)

    def _place(self) -> str:
        written = self.options.get("path")
        if not written:
            raise ArchiveError(
                "an archive is read from a path, and none is given", hint=f'spark.read.format("{NAME}").load(path)'
            )
        storage = storage_at(written)
        # A relative path is relative to the driver's folder; executors have other working folders.
        return storage.root if isinstance(storage, LocalStorage) else written

    def _manifest(self) -> Manifest:
        storage = storage_at(self._place())
        versions = Manifests(storage).versions()
        if not versions:
            raise ArchiveError(f"there is no archive in '{storage.where}'")
        written = self.options.get("version", str(versions[-1]))
        if written not in map(str, versions):
            raise ArchiveError(
                f"version {written} of the archive '{storage.where}' is not kept",
                hint=f"there is {', '.join(map(str, versions[-8:]))}",
            )
        return Manifests(storage).load(int(written))


class PushingArchiveSource(ArchiveSource):
    """The source for a Spark that keeps scans apart."""

    takes_filters = True


class ArchiveReader(DataSourceReader):
    """Reads one version: planned once, read in tasks."""

    def __init__(self, place: str, manifest: Manifest, schema: StructType) -> None:
        self._place = place
        self._manifest = manifest
        self._schema = schema
        self._pushed = PushedFilters()

    def partitions(self) -> Sequence[InputPartition]:
        """One partition for each sub-index, of the files that may have rows that pass the filters. Opens no file."""
        pushed = self._pushed
        files = [file for file in self._manifest.files if may_hold(file, None, pushed.inserted, pushed.expires)]
        return [InputPartition(tuple(own)) for own in by_sub_index(files).values()]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        from pyspark.sql.pandas.types import to_arrow_schema

        given = to_arrow_schema(self._schema, timezone="UTC")
        manifest = replace(self._manifest, files=partition.value or ())  # None if there is nothing to read
        files = SubIndexFiles(storage_at(self._place), manifest.schema, manifest.key)
        with Snapshot(manifest, files, lambda: None) as snapshot:
            for batch in snapshot.batches(self._pushed.condition, self._schema.names):
                if batch.num_rows:
                    columns = [column.cast(field.type) for column, field in zip(batch.columns, given, strict=True)]
                    yield pa.RecordBatch.from_arrays(columns, schema=given)

    def __getstate__(self) -> dict[str, Any]:
        # A task has the names of its files; the whole list would be sent with each task.
        return self.__dict__ | {"_manifest": replace(self._manifest, files=())}


class PushingArchiveReader(ArchiveReader):
    """Reads one version, and takes filters."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        kinds = {field.name: field.type for field in stored_schema(self._manifest.schema)}
        own = {name: kinds[name] for name in self._schema.names}
        for filter in filters:
            pushed = self._pushed.narrowed(filter, own)
            if pushed is None:
                yield filter
            else:
                self._pushed = pushed


def _spark_schema(manifest: Manifest) -> StructType:
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(stored_schema(manifest.schema))


def _field(schema: StructType, name: str) -> Any:
    for field in schema.fields:
        if field.name.lower() == name.lower():
            return field
    raise ArchiveError(f"the archive has no column '{name}'", hint=did_you_mean(name, schema.names))
