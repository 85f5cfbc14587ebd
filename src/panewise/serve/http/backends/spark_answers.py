"""Keeps the answers of a running Spark pipeline, so that most lookups start no Spark job and read no file.

After each committed micro-batch, `refresh` takes the last report of each periodic aggregate from its deliveries.
Queries of other kinds deliver changes instead of reports. Their answers come from the state of the buckets, which needs
a request to the pipeline and a micro-batch. Such an answer is kept until there is a newer micro-batch and ASKED_SECONDS
have passed; callers meanwhile get it with its age. So Spark is asked for a query at most about once per second, however
many callers there are.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from panewise.serve.http.service.backend import Lookup
from panewise.spark.handle import Handle
from panewise.spark.program.version import PlannedQuery
from panewise.spark.results.deliveries import Delivery
from panewise.spark.tasks.batch_progress import Marks
from panewise.temporal import TimeWindow

ASKED_SECONDS = 1.0


@dataclass(frozen=True)
class KeptAnswer:
    """An answer. `table` stays the same object while the answer is unchanged; `at` is when it was delivered."""

    table: pa.Table
    watermark_us: int | None
    at: float  # seconds since 1970
    batch: int

    def lookup(self, table: pa.Table | None = None) -> Lookup:
        age_s = max(0.0, time.time() - self.at)
        return Lookup(self.table if table is None else table, self.watermark_us, age_s)


class SparkAnswers:
    """Answers by the query's name in the log. One thread calls `refresh`; `found` never waits."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle
        self._asking = threading.Lock()
        self._reports: dict[str, tuple[pa.Table, float]] = {}  # name -> the last delivery and its time
        self._now: dict[str, KeptAnswer] = {}
        self._empty: dict[str, pa.Table] = {}

    def found(self, query: PlannedQuery, batch: int) -> KeptAnswer | None:
        """The answer now, if it is kept and recent enough; else None."""
        answer = self._now.get(query.log_name)
        if answer is None or query.is_folded:
            return answer
        fresh = answer.batch >= batch or time.time() - answer.at < ASKED_SECONDS
        return answer if fresh else None

    def refresh(self, marks: Marks, deliveries: list[Delivery], at: float, never: set[str]) -> None:
        """Call after a micro-batch was committed. `never` are the queries that have delivered nothing so far."""
        queries = {query.log_name: query for query in self._handle.version.queries.values()}
        for delivery in deliveries:
            if delivery.name in queries:
                self._reports[delivery.name] = delivery.table, delivery.at or at
        for name in set(self._reports) - set(queries):
            del self._reports[name]
        now = {}
        for name, query in queries.items():
            if not query.is_folded:
                if name in self._now:
                    now[name] = self._now[name]
            elif name in self._reports or name in never:
                report = self._report(query, marks, at)
                if report is not None:
                    now[name] = report
        self._now = now

    def _report(self, query: PlannedQuery, marks: Marks, at: float) -> KeptAnswer | None:
        """The last report that the watermark has reached; without rows if it has no groups. None if the query was
        suspended when it was due."""
        name, watermark = query.log_name, self._handle.watermark_of(query, marks)
        no_rows = KeptAnswer(self._no_rows(query), watermark, at, marks.batch)
        if watermark is None:
            return no_rows
        delivered, delivered_at = self._reports.get(name, (no_rows.table, at))
        window = query.block.window
        assert isinstance(window, TimeWindow) and window.slide_us is not None
        report = window.last_report(watermark)
        ends = delivered.column("window_end").cast(pa.int64())
        table = delivered.filter(pc.equal(ends, report))
        before = self._now.get(name)
        if not table.num_rows:
            return None if self._handle.was_silent(query, report, marks) else no_rows
        if before is not None and before.at == delivered_at and before.table.num_rows:
            table = before.table
        return KeptAnswer(table, watermark, delivered_at, marks.batch)

    def _no_rows(self, query: PlannedQuery) -> pa.Table:
        name = query.log_name
        if name not in self._empty:
            self._empty[name] = query.definition.schema.to_arrow().empty_table()
        return self._empty[name]

    def asked(self, query: PlannedQuery) -> KeptAnswer:
        """The answer now of a query whose answers are not delivered; waiting callers share one request."""
        with self._asking:
            marks = self._handle.marks()
            answer = self.found(query, marks.batch)
            if answer is None:
                table = self._handle.lookup(query.name)
                marks = self._handle.marks()
                answer = KeptAnswer(table, self._handle.watermark_of(query, marks), time.time(), marks.batch)
                self._now = self._now | {query.log_name: answer}
            return answer
