"""An archive as a data source of Spark: `spark.read.format("panewise_archive").load(path)`.

    register_archive(spark)
    frame = spark.read.format("panewise_archive").load("s3://bucket/traffic")

Columns are those of the archive, `_inserted` and `_expires`. Options: `version` reads one version for as long as it is
kept; `columns` ('host, bytes') reads only these, for Spark tells a source written in Python nothing of what it needs;
`single_use` ('true') hands filters down, see below. Read wherever Arrow reads. A task is a sub-index, and rows leave as
Arrow batches. `archive_frame.py` reads with Spark's own reader of Parquet, and is the faster one on local disks.

Filters reach the files (`archive_filters.py`): which files are read is decided by the manifest when a query is planned,
which row groups by their footers in the tasks. But Spark 4.3 keeps what was handed down with the *frame*, for all that
read it: after `frame.where("a = 1")` a `frame.count()` counts those rows only, and of two sides of a self-join both get
the filters of one. So filters are taken where Spark keeps scans apart, or where the caller promises with `single_use`
that the frame is loaded for one query and stands in it once. Elsewhere Spark filters all rows, and the answer is right.

Invariant: a query reads one committed version, the newest when the frame was first planned; its tasks get the names of
its files and read no manifest. Tasks that begin later than the writer's grace period after a newer version may meet a
file that is gone, and fail with words that say so.
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
    """Makes archives readable in a session, and has Spark hand filters down to sources written in Python."""
    check_version(spark)
    ship(spark)
    spark.conf.set(_PUSHDOWN, "true")
    with settings(spark, {}):  # its workers are ours
        spark.dataSource.register(PushingArchiveSource if keeps_scans_apart(spark) else ArchiveSource)


def keeps_scans_apart(spark: SparkSession) -> bool:
    """Whether this Spark keeps filters with the scan that handed them down, and not with the frame.

    Where they stay with the frame, its class has a method for it. Of a Connect server's classes nothing is known.
    """
    if is_connect(spark):
        return False
    jvm: Any = spark.sparkContext._jvm
    methods = jvm.java.lang.Thread.currentThread().getContextClassLoader().loadClass(_FRAME_CLASS).getMethods()
    return "setReadInfo" not in [method.getName() for method in methods]


class ArchiveSource(DataSource):
    """See the module. Made anew, in a process of its own, wherever Spark needs one."""

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
        for field in schema.fields:  # they may be the caller's, of `spark.read.schema(...)`
            own = _field(whole, field.name)
            if (own.name, own.dataType) != (field.name, field.dataType):
                shown = [f"{one.name} {one.dataType.simpleString()}" for one in (own, field)]
                raise ArchiveError(f"the archive has the column '{shown[0]}', and not '{shown[1]}'")
        pushing = self.takes_filters or self.options.get("single_use", "false").lower() == "true"
        return (PushingArchiveReader if pushing else ArchiveReader)(self._place(), manifest, schema)

    def _place(self) -> str:
        written = self.options.get("path")
        if not written:
            raise ArchiveError("which archive to read is not said", hint=f'spark.read.format("{NAME}").load(path)')
        storage = storage_at(written)
        # A relative path is one of the driver's; executors have folders of their own.
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
    """For a Spark that keeps scans apart."""

    takes_filters = True


class ArchiveReader(DataSourceReader):
    """One version, planned once and read in tasks."""

    def __init__(self, place: str, manifest: Manifest, schema: StructType) -> None:
        self._place = place
        self._manifest = manifest
        self._schema = schema
        self._pushed = PushedFilters()

    def partitions(self) -> Sequence[InputPartition]:
        """A sub-index each, of files that may hold what is sought; none is opened for it."""
        pushed = self._pushed
        files = [file for file in self._manifest.files if may_hold(file, None, pushed.inserted, pushed.expires)]
        return [InputPartition(tuple(own)) for own in by_sub_index(files).values()]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        from pyspark.sql.pandas.types import to_arrow_schema

        given = to_arrow_schema(self._schema, timezone="UTC")
        manifest = replace(self._manifest, files=partition.value or ())  # None: there was nothing to read
        files = SubIndexFiles(storage_at(self._place), manifest.schema, manifest.key)
        with Snapshot(manifest, files, lambda: None) as snapshot:
            for batch in snapshot.batches(self._pushed.condition, self._schema.names):
                if batch.num_rows:
                    columns = [column.cast(field.type) for column, field in zip(batch.columns, given, strict=True)]
                    yield pa.RecordBatch.from_arrays(columns, schema=given)

    def __getstate__(self) -> dict[str, Any]:
        # Tasks know their files; a manifest of thousands would travel with each of them.
        return self.__dict__ | {"_manifest": replace(self._manifest, files=())}


class PushingArchiveReader(ArchiveReader):
    """Takes filters, too."""

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
