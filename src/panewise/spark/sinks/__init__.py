"""Sinks on Spark: what CREATE SINK writes, from one foreachBatch, exactly once.

`sink_kind` is the contract of a kind of sinks, and each kind has a module. `sink_kinds` finds a kind by its connector.
"""

from panewise.spark.sinks.sink_kind import PrintTable, SinkKind, SinkTarget, sink_target
from panewise.spark.sinks.sink_kinds import sink_kinds

__all__ = ["PrintTable", "SinkKind", "SinkTarget", "sink_kinds", "sink_target"]
