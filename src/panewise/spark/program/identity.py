"""What is fixed with the first start from a checkpoint, and what a run needs to know of its pipeline.

The identity is in `pipeline.json`. A checkpoint of another format is refused before anything else in it is read.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from panewise.connectors.sinks import PrintTable
from panewise.engine.books.made_queries import MadeQueries
from panewise.engine.engine import Engine
from panewise.errors import CatalogError
from panewise.spark.environment.folder import FOLDERS, Folder
from panewise.spark.environment.session import default_partitions
from panewise.state.records import FORMAT, Record

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CHECKPOINT_FORMAT = 4  # of numbers of fragments and families, packets and pages
_FILE = "pipeline.json"


class DefinedPipeline(Protocol):
    """What a run needs to know of its pipeline."""

    spark: SparkSession
    name: str
    partitions: int | None
    retention_us: int
    print_table: PrintTable | None
    books: Engine
    sharing: str
    queries_made: MadeQueries
    frames: dict[str, DataFrame]


@dataclass(frozen=True)
class CheckpointIdentity:
    """What was fixed with the first start. `named_sources`: Spark knows the sources by name, not by their order."""

    id: str
    partitions: int
    named_sources: bool
    sharing: str


IDENTITY = Record(CheckpointIdentity, "id partitions named=named_sources sharing")


def identity_of(pipeline: DefinedPipeline, folder: Folder) -> CheckpointIdentity:
    """The identity of a checkpoint; a folder without one becomes a checkpoint of this pipeline."""
    found = read_identity(folder)
    if found is not None:
        return found
    _check_new(folder)
    identity = CheckpointIdentity(
        uuid.uuid4().hex,
        pipeline.partitions or default_partitions(pipeline.spark),
        named_sources=not pipeline.frames,
        sharing=pipeline.sharing,
    )
    folder.make("")
    folder.write_json(_FILE, {FORMAT: CHECKPOINT_FORMAT} | IDENTITY.to_dict(identity))
    return identity


def read_identity(folder: Folder) -> CheckpointIdentity | None:
    """The identity of a checkpoint; None before the first start from it."""
    data: dict[str, Any] | None = folder.read_json(_FILE)
    if data is None:
        return None
    written = data.get(FORMAT, 1)  # the first format had no number
    if written != CHECKPOINT_FORMAT:
        raise CatalogError(
            f"the checkpoint '{folder.place}' was written by another version of panewise: its state has format "
            f"{written}, and this version reads format {CHECKPOINT_FORMAT}",
            hint="go on with the version that wrote it, or start from another checkpoint",
        )
    return IDENTITY.of_dict(data)


def _check_new(folder: Folder) -> None:
    """Refuses a place with folders of these names: a checkpoint removes files from them."""
    found = [name for name in (*FOLDERS, "spark") if not folder.is_empty(name)]
    if found:
        raise CatalogError(
            f"'{folder.place}' cannot become a checkpoint: it has no pipeline.json, and there is something in "
            f"{', '.join(repr(name) for name in found)}",
            hint="name a folder of its own; if pipeline.json of a checkpoint was lost, bring it back from a copy",
        )
