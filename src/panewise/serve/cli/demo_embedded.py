"""The demonstration on the embedded engine, with a server in the same process.

Rates count the engine's time only, not the generator's. The terminal reads results from the server's result log.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from rich.console import Console

from panewise.catalog import QueryDefinition
from panewise.engine.run.flows import flows_of
from panewise.errors import CatalogError
from panewise.serve.http.backends.engine_backend import EngineBackend
from panewise.serve.http.background_server import ServerBeside
from panewise.serve.http.service.settings import Settings

if TYPE_CHECKING:
    import pyarrow as pa

KEEP_ROWS = 100_000  # results kept for each query, for the charts of the dashboard


class EmbeddedDemo:
    """See `demo.DemoHost`."""

    place = "in this process"

    def __init__(self, statements: str) -> None:
        settings = Settings(keep_rows=KEEP_ROWS)
        self._backend = EngineBackend(settings)
        self.engine = self._backend.engine
        self.engine.execute(statements)
        self._next: dict[str, int] = {}  # query -> number of the first result not fetched yet
        self._server = ServerBeside(settings, self._backend)
        self.address: str | None = self._server.address
        (self.flow,) = flows_of(self.engine.catalog)
        self.batches = self.flow.read()
        self.rows = 0
        self.busy_seconds = 0.0

    @property
    def touches(self) -> int:
        # A user may have dropped all queries in the dashboard.
        return max(1, len(self.engine.stats()["trees"]))

    def queries(self) -> list[QueryDefinition]:
        return [query for query in self.engine.catalog.of_kind("query") if isinstance(query, QueryDefinition)]

    def warm_up(self, console: Console) -> None:
        """Processes the first batch, which compiles operators that are not in the cache yet."""
        with console.status("compiling the operators (the first time this takes a few seconds)"):
            self.work()
        self.rows, self.busy_seconds = 0, 0.0

    def work(self) -> None:
        batch = next(self.batches)
        began = time.perf_counter()
        self._backend.push(self.flow.stream.name, batch, producer=None, sequence=None, timeout=None)
        # Process here instead of in the thread that collects results, so that the time is counted.
        while self.engine.process(self.engine.stream(self.flow.stream.name)):
            pass
        self.busy_seconds += time.perf_counter() - began
        self.rows += len(batch)

    def fetch(self, query: str) -> list[pa.Table]:
        results = self._backend.results
        try:
            start = max(self._next.get(query, 0), results.bounds(query)[0])
            first, table = results.read(query, start, KEEP_ROWS)
        except CatalogError:  # dropped in the dashboard
            return []
        self._next[query] = first + table.num_rows
        return [table]

    def close(self) -> None:
        self._server.close()
