"""Console sinks: print a table for each batch in the driver's terminal, with at most the last `rows` rows.

A batch that is repeated in the same process is not printed again. After a restart it is; the title has its number.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from panewise.connectors.options import read_options
from panewise.connectors.sinks import ConsoleSink
from panewise.spark.sinks.sink_kind import PrintTable, SinkTarget, Tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class ConsoleSinks:
    """See the module."""

    def __init__(self, print_table: PrintTable) -> None:
        self._print_table = print_table
        self._printed: dict[str, int] = {}

    def check(self, targets: Sequence[SinkTarget], spark: SparkSession | None = None) -> None:
        for target in targets:
            _rows(target)

    def prepare(self, targets: Sequence[SinkTarget], first_batch: int) -> None:
        for target in targets:
            self._printed.pop(target.name, None)

    def write(self, batch_id: int, tables: Tables, spark: SparkSession | None) -> None:
        for target, table in tables:
            if table.num_rows and batch_id > self._printed.get(target.name, -1):
                self._print_table(f"{target.query}, batch {batch_id}", table, _rows(target))
                self._printed[target.name] = batch_id


def _rows(target: SinkTarget) -> int:
    rows = read_options(target.owner, target.options, ConsoleSink.options)["rows"]
    assert isinstance(rows, int)
    return rows
