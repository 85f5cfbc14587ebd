"""What a worker is told: where it finds the program. Imports little: some processes of Spark load only this module."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from panewise.spark.environment.folder import Folder

if TYPE_CHECKING:
    from panewise.aggregates.aggregate_functions import AggregateFunction


@dataclass(frozen=True)
class Reference:
    """Where a worker finds the program. It is small, because Spark sends it with every task."""

    pipeline: str  # a name that no other run has
    folder: Folder
    partitions: int
    changes: int  # number of changes when the query was started
    aggregates: Mapping[str, AggregateFunction] = field(default_factory=dict, compare=False)
    sharing: str = "weave"
