"""An archive as a DataFrame over Spark's own Parquet reader: the files of one version, without expired rows.

Spark pushes filters and columns down to its reader: it skips row groups and pages by their minima and maxima (rows of a
key are in one or two row groups of a file), and rows never pass through Python. With `inserted` or `expires`, files of
other times are not opened, as the manifest says; Spark itself does not know it.

Invariant: a frame reads one committed version, the newest at the time of the call, as long as the writer keeps its
files. Cost: only a manifest is read here.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from panewise.archive.archive import Archive
from panewise.archive.snapshot import may_hold
from panewise.archive.sought import EXPIRES, INSERTED, Span
from panewise.archive.storage import LocalStorage, storage_at
from panewise.archive.sub_index import stored_schema
from panewise.temporal import instant_us

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.column import Column


def read_archive(
    spark: SparkSession,
    where: str | Path,
    *,
    version: int | None = None,
    inserted: Span = (None, None),
    expires: Span = (None, None),
) -> DataFrame:
    """The rows of an archive. `inserted` and `expires` are pairs of instants, both included; None is an open end.

    `where` is a path, or a URI that both Arrow and this Spark can read.
    """
    from pyspark.sql.functions import lit, timestamp_micros
    from pyspark.sql.pandas.types import from_arrow_schema

    storage = storage_at(where)
    root = f"file://{storage.root}" if isinstance(storage, LocalStorage) else str(where).rstrip("/")
    with Archive.open(where, version=version) as archive:
        manifest = archive.manifest
    now = manifest.now_us
    alive: Span = (None if now is None else now + 1, None)
    files = [f for f in manifest.files if may_hold(f, None, inserted, expires) and may_hold(f, None, inserted, alive)]
    schema = from_arrow_schema(stored_schema(manifest.schema))
    if not files:
        return spark.createDataFrame([], schema)
    frame = spark.read.schema(schema).parquet(*(f"{root}/{file.name}" for file in files))
    spans = [(INSERTED, inserted), (EXPIRES, expires)]
    if now is not None and any(file.expires_min <= now for file in files):
        spans.append((EXPIRES, alive))
    for column, span in spans:
        low, high = (None if end is None else timestamp_micros(lit(instant_us(end))) for end in span)
        frame = _between(frame, column, low, high)
    return frame


def _between(frame: DataFrame, column: str, low: Column | None, high: Column | None) -> DataFrame:
    if low is not None:
        frame = frame.where(frame[column] >= low)
    return frame if high is None else frame.where(frame[column] <= high)
