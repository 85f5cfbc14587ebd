"""The demonstration in this process. Rates are of the engine alone: the generator's own time is not counted."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from rich.console import Console

from panewise.catalog import QueryDefinition
from panewise.runtime.engine import Engine
from panewise.serve.flows import flows_of, interleaved

if TYPE_CHECKING:
    import pyarrow as pa


class EmbeddedDemo:
    """See `demo.DemoHost`."""

    place = "in this process"

    def __init__(self, statements: str) -> None:
        self.engine = Engine()
        self.engine.execute(statements)
        (self.stream,) = flows_of(self.engine.catalog)
        self.batches = interleaved([self.stream])
        self.rows = 0
        self.busy_seconds = 0.0

    @property
    def touches(self) -> int:
        return len(self.engine.stats()["trees"])

    def queries(self) -> list[QueryDefinition]:
        return [query for query in self.engine.catalog.of_kind("query") if isinstance(query, QueryDefinition)]

    def warm_up(self, console: Console) -> None:
        """The first batch, during which operators are compiled where no earlier run left them in the cache."""
        with console.status("compiling the operators (the first time this takes a few seconds)"):
            self.work()
        self.rows, self.busy_seconds = 0, 0.0

    def work(self) -> None:
        flow, batch = next(self.batches)
        began = time.perf_counter()
        self.engine.push(flow.stream.name, batch)
        self.busy_seconds += time.perf_counter() - began
        self.rows += len(batch)

    def fetch(self, query: str) -> pa.Table:
        began = time.perf_counter()
        table = self.engine.results(query)
        self.busy_seconds += time.perf_counter() - began
        return table

    def close(self) -> None:
        pass
