"""What is fixed with the first start from a checkpoint: a name, how far the work spreads, and the format of the state.

It stands in `pipeline.json`. A checkpoint of another format is refused before anything in it is read.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any, Protocol

from panewise.connectors.sinks import PrintTable
from panewise.engine.books.made_queries import MadeQueries
from panewise.engine.engine import Engine
from panewise.errors import CatalogError
from panewise.spark.environment.folder import FOLDERS, Folder
from panewise.spark.environment.session import default_partitions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FORMAT = 4  # The format of a checkpoint: numbers of fragments and trees, packets, pages.


class Defined(Protocol):
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


def identity_of(pipeline: Defined, folder: Folder) -> dict[str, Any]:
    """What was fixed with the first start from this checkpoint, which this may be."""
    identity: dict[str, Any] | None = folder.read_json("pipeline.json")
    if identity is None:
        _check_new(folder)
        identity = {
            "format": FORMAT,
            "id": uuid.uuid4().hex,
            "partitions": pipeline.partitions or default_partitions(pipeline.spark),
            "named": not pipeline.frames,
            "sharing": pipeline.sharing,
        }
        folder.make("")
        folder.write_json("pipeline.json", identity)
    written = identity.get("format", 1)  # the first had no number
    if written != FORMAT:
        raise CatalogError(
            f"the checkpoint '{folder.place}' was written by another version of panewise: its state has format "
            f"{written}, and this version reads format {FORMAT}",
            hint="go on with the version that wrote it, or start from another checkpoint",
        )
    return identity


def _check_new(folder: Folder) -> None:
    """A new checkpoint writes to folders of these names, and removes from them what it does not need any more."""
    found = [name for name in (*FOLDERS, "spark") if not folder.is_empty(name)]
    if found:
        raise CatalogError(
            f"'{folder.place}' cannot become a checkpoint: it has no pipeline.json, and there is something in "
            f"{', '.join(repr(name) for name in found)}",
            hint="name a folder of its own; if pipeline.json of a checkpoint was lost, bring it back from a copy",
        )
