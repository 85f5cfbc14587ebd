"""The streaming query that Spark runs: sources through stage 1, united, exchanged by bucket, through stage 2."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from panewise.catalog import StreamDefinition
from panewise.plan.spark_sql import to_spark_sql
from panewise.runtime.spark.doors import FrameDoor
from panewise.runtime.spark.packing import OUTPUT_TYPE, PACKED_TYPE
from panewise.runtime.spark.program import Program
from panewise.runtime.spark.sources import INBOX, connector_of, source_frame, source_name
from panewise.runtime.spark.stage_one import fold_stage, inbox_stage, kept_column
from panewise.runtime.spark.stage_two import FragmentProcessor
from panewise.runtime.spark.worker import Reference
from panewise.schema import Schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_LISTING = "path string, modificationTime timestamp, length long, content binary"


def output_frame(
    spark: SparkSession, reference: Reference, program: Program, frames: Mapping[str, DataFrame], named: bool
) -> DataFrame:
    """Packed results as a streaming DataFrame. `frames` are the user's own, by stream; `named`: sources have names."""
    reader = spark.readStream.name("panewise_inbox") if named else spark.readStream
    letters = reader.format("binaryFile").schema(_LISTING).load(reference.folder.path("inbox")).select("path")
    packed = letters.mapInArrow(inbox_stage(reference), PACKED_TYPE)
    for number, (stream, created) in enumerate(read_streams(program, named), 1):
        needed = _needed(program, stream.name.lower())
        if stream.name.lower() in frames:
            frame, door = frames[stream.name.lower()].selectExpr(*_projection(program, stream, needed)), FrameDoor()
        else:
            frame, door = source_frame(  # type: ignore[assignment]
                spark, stream, source_name(stream, created) if named else None, needed
            )
        stage = fold_stage(reference, stream.name.lower(), number, door)
        packed = packed.union(frame.mapInArrow(stage, PACKED_TYPE))
    processor = FragmentProcessor(reference)
    return packed.groupBy("key").transformWithStateInPandas(processor, OUTPUT_TYPE, "Append", "None")


def read_streams(program: Program, named: bool) -> list[tuple[StreamDefinition, int]]:
    """The streams that have a source of their own, with the version that created each.

    Where sources have no names Spark knows them by their order: one that was there stays, read or not.
    """
    found: dict[str, tuple[StreamDefinition, int]] = {}
    for version in program.versions:
        for name in [name for name in found if name not in version.streams]:
            if named:
                del found[name]
        for name, stream in version.streams.items():
            if connector_of(stream) not in INBOX:
                found[name] = stream, found[name][1] if name in found else version.number
    return list(found.values())


def _projection(program: Program, stream: StreamDefinition, needed: Schema) -> list[str]:
    """Stage 0 as Spark SQL: the columns that are needed, and per WHERE whether it keeps the row.

    A row that no WHERE keeps still moves the stream's time on, so none is left out here.
    """
    columns = ["`" + column.name.replace("`", "``") + "`" for column in needed]
    fragments = program.fragments_over(program.versions[-1], stream.name.lower())
    selections = [
        f"{to_spark_sql(fragment.where)} AS {kept_column(fragment)}"
        for fragment in fragments
        if fragment.tree and fragment.where is not None
    ]
    return columns + selections


def _needed(program: Program, stream: str) -> Schema:
    """The columns that the newest versions read; a micro-batch of the one before may have to be replayed."""
    versions = [version for version in program.versions[-2:] if stream in version.streams]
    versions = versions or [next(v for v in reversed(program.versions) if stream in v.streams)]
    schemas = [program.columns_needed(version, stream) for version in versions]
    names = {column.name for schema in schemas for column in schema}
    whole = versions[-1].streams[stream].schema
    return Schema(tuple(column for column in whole if column.name in names))
