"""Statistics of the pipeline: a JSON file for each micro-batch, written after its results. The newest one counts."""

from __future__ import annotations

from typing import Any

from panewise.spark.environment.folder import Folder


def stats_file(batch: int) -> str:
    return f"stats/{batch:012d}.json"


def last_stats(folder: Folder) -> dict[str, Any]:
    numbers = folder.numbers("stats")
    found: dict[str, Any] | None = folder.read_json(stats_file(numbers[-1])) if numbers else None
    return found or {"queries": {}, "buckets": {}, "batch": -1}
