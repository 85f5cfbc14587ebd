"""The streaming query that Spark runs: sources, stage 1, a union, an exchange by bucket, stage 2."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from panewise.catalog import StreamDefinition
from panewise.plan.expressions.spark_sql import to_spark_sql
from panewise.schema import Schema
from panewise.spark.ingest.row_decoders import FileDecoder, FrameDecoder, RowDecoder
from panewise.spark.ingest.stream_sources import INBOX, connector_of, source_frame, source_name
from panewise.spark.program.program import Program
from panewise.spark.program.reference import Reference
from panewise.spark.stages.stage_one import INBOX_SOURCE, fold_stage, kept_column, path_stage
from panewise.spark.stages.stage_two import FragmentProcessor
from panewise.spark.tasks.packing import OUTPUT_TYPE, PACKED_TYPE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_LISTING = "path string, modificationTime timestamp, length long, content binary"


def output_frame(
    spark: SparkSession,
    reference: Reference,
    program: Program,
    frames: Mapping[str, DataFrame],
    named: bool,
    first: int,
) -> DataFrame:
    """The streaming DataFrame of packed results.

    `frames` are the user's own DataFrames, by stream name. `named`: Spark knows sources by name, not by order. `first`
    is the version of the next micro-batch, which is not the newest if a micro-batch is to be replayed.
    """
    reader = spark.readStream.name("panewise_inbox") if named else spark.readStream
    messages = reader.format("binaryFile").schema(_LISTING).load(reference.folder.path("inbox"))
    paths = messages.selectExpr(f"{INBOX_SOURCE} AS source", "path")
    files: dict[int, tuple[str, RowDecoder]] = {}
    folded = []
    for number, (key, stream) in enumerate(read_streams(program, named, first).items(), INBOX_SOURCE + 1):
        needed = _needed(program, key, first)
        if stream.name.lower() in frames:
            frame = frames[stream.name.lower()].selectExpr(*_projection(program, key, needed))
            decoder: RowDecoder = FrameDecoder()
        else:
            frame, decoder = source_frame(spark, stream, source_name(key) if named else None, needed)
        if isinstance(decoder, FileDecoder):
            files[number] = key, decoder
            paths = paths.union(frame.selectExpr(f"{number} AS source", "path"))
        else:
            folded.append(frame.mapInArrow(fold_stage(reference, key, number, decoder), PACKED_TYPE))
    packed = paths.mapInArrow(path_stage(reference, files), PACKED_TYPE)
    for frame in folded:
        packed = packed.union(frame)
    processor = FragmentProcessor(reference)
    return packed.groupBy("key").transformWithStateInPandas(processor, OUTPUT_TYPE, "Append", "None")


def read_streams(program: Program, named: bool, first: int) -> dict[str, StreamDefinition]:
    """The streams that have a source of their own, of the versions from `first` on.

    If Spark knows sources by their order, no source may be removed: then the streams of all versions.
    """
    found: dict[str, StreamDefinition] = {}
    for version in program.versions if not named else program.versions_from(first):
        found |= {key: stream for key, stream in version.streams.items() if connector_of(stream) not in INBOX}
    return found


def _projection(program: Program, stream: str, needed: Schema) -> list[str]:
    """What Spark SQL evaluates before stage 1: the needed columns, and for each WHERE whether it keeps the row.

    No row is left out here, because a row that no WHERE keeps still moves the stream's time.
    """
    columns = ["`" + column.name.replace("`", "``") + "`" for column in needed]
    version = program.newest
    families = [found for f in program.fragments_over(version, stream) for found in program.families_in(version, f)]
    selections = {kept_column(family): family.shape.where for family in families}
    return columns + [f"{to_spark_sql(where)} AS {name}" for name, where in selections.items() if where is not None]


def _needed(program: Program, stream: str, first: int) -> Schema:
    """The columns that queries read now, or in a micro-batch that is to be replayed."""
    holding = [version for version in program.versions if stream in version.streams]
    versions = [version for version in program.versions_from(first) if stream in version.streams] or holding[-1:]
    schemas = [program.columns_needed(version, stream) for version in versions]
    names = {column.name for schema in schemas for column in schema}
    whole = versions[-1].streams[stream].schema
    return Schema(tuple(column for column in whole if column.name in names))
