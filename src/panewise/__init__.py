"""panewise: many sliding-window queries at once, in this process or on Spark.

Public names load on first use, so that `import panewise` stays far below a second and imports no Spark, no Numba
and no Arrow.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from panewise.engine.engine import Engine
    from panewise.errors import (
        AnswerOverflowWarning,
        BadRowsWarning,
        BindError,
        CatalogError,
        ConnectorError,
        ConnectorWarning,
        DataError,
        DurabilityError,
        DurabilityWarning,
        EngineBroken,
        LateRowsWarning,
        NotHeldError,
        OverloadError,
        PanewiseError,
        ParseError,
        PlanError,
        QueryError,
        QueryFailed,
        ServerError,
        SnapshotError,
    )
    from panewise.serve.client.client import Client, connect
    from panewise.spark.archives.archive_frame import read_archive
    from panewise.spark.archives.archive_source import register_archive
    from panewise.spark.pipeline import SparkPipeline

__version__ = "0.1.0"

__all__ = [
    "AnswerOverflowWarning",
    "BadRowsWarning",
    "BindError",
    "CatalogError",
    "Client",
    "ConnectorError",
    "ConnectorWarning",
    "DataError",
    "DurabilityError",
    "DurabilityWarning",
    "Engine",
    "EngineBroken",
    "LateRowsWarning",
    "NotHeldError",
    "OverloadError",
    "PanewiseError",
    "ParseError",
    "PlanError",
    "QueryError",
    "QueryFailed",
    "ServerError",
    "SnapshotError",
    "SparkPipeline",
    "__version__",
    "connect",
    "read_archive",
    "register_archive",
]

# The modules of the public names that are not errors.
_HOMES = {
    "Client": "panewise.serve.client.client",
    "Engine": "panewise.engine.engine",
    "SparkPipeline": "panewise.spark.pipeline",
    "connect": "panewise.serve.client.client",
    "read_archive": "panewise.spark.archives.archive_frame",
    "register_archive": "panewise.spark.archives.archive_source",
}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'panewise' has no attribute '{name}'")
    value = getattr(importlib.import_module(_HOMES.get(name, "panewise.errors")), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
