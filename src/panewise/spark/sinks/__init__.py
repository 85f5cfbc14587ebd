"""Sinks of the Spark runtime: what CREATE SINK writes, from one foreachBatch, exactly once.

`contract` says what a sink is told and what it promises; one module per kind; `registry` finds the kind by name.
"""

from panewise.spark.sinks.sink_kind import PrintTable, SinkKind, SinkTarget, sink_target
from panewise.spark.sinks.sink_kinds import sink_kinds

__all__ = ["PrintTable", "SinkKind", "SinkTarget", "sink_kinds", "sink_target"]
