"""The demonstration on Spark: the same statements as one streaming query.

A server runs in the same process, over the same pipeline.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from typing import TYPE_CHECKING

from rich.console import Console

from panewise.catalog import QueryDefinition
from panewise.errors import CatalogError
from panewise.serve.cli.run_spark import spark_session
from panewise.serve.http.backends.spark_backend import SparkBackend
from panewise.serve.http.background_server import ServerBeside
from panewise.serve.http.service.settings import Settings
from panewise.spark.pipeline import SparkPipeline

if TYPE_CHECKING:
    import pyarrow as pa

PAUSE_SECONDS = 0.2
KEEP_ROWS = 100_000  # results kept for each query, for the charts of the dashboard


class SparkDemo:
    """See `demo.DemoHost`. Rows are counted when their micro-batch is complete."""

    def __init__(self, statements: str, console: Console, master: str | None) -> None:
        self._folder = tempfile.mkdtemp(prefix="panewise-demo-")
        self._spark = spark_session(console, master)
        self._pipeline = SparkPipeline(self._spark, self._folder, name="panewise demo")
        self._pipeline.execute(statements)
        self.place = f"on Spark ({master or 'local[*]'})"
        settings = Settings(keep_rows=KEEP_ROWS)
        self._handle = self._pipeline.start()
        self._server = ServerBeside(settings, SparkBackend(self._pipeline, self._handle, settings))
        self.address: str | None = self._server.address
        self.rows = 0
        self.busy_seconds = 0.0
        self._rows_before = 0

    @property
    def touches(self) -> int:
        # A user may have dropped all queries in the dashboard.
        trees: int = sum(fragment["trees"] for fragment in self._handle.stats()["trees"])
        return max(1, trees)

    def queries(self) -> list[QueryDefinition]:
        return self._pipeline.queries()

    def warm_up(self, console: Console) -> None:
        """Waits until the first micro-batch is complete: Spark plans, workers start, operators are compiled."""
        with console.status("the first micro-batch (workers start and, the first time, compile the operators)"):
            while self._handle.marks().batch < 0 and not self._handle.wait(PAUSE_SECONDS):
                pass
        self._rows_before = self._rows_now()
        self._started = time.monotonic()

    def _rows_now(self) -> int:
        return sum(stream.rows for stream in self._handle.marks().streams.values())

    def work(self) -> None:
        self._handle.wait(PAUSE_SECONDS)
        self.rows = self._rows_now() - self._rows_before
        self.busy_seconds = time.monotonic() - self._started

    def fetch(self, query: str) -> list[pa.Table]:
        try:
            return [self._handle.fetch(query)]
        except CatalogError:  # dropped in the dashboard
            return []

    def close(self) -> None:
        self._server.close()
        self._spark.stop()
        shutil.rmtree(self._folder, ignore_errors=True)
