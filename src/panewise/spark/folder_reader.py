"""Reads a pipeline's folder: how far the pipeline has come, and what its queries have delivered.

Everything here comes from files that micro-batches have written. So it works whether the pipeline runs or not, and
never waits. `Handle` adds what only a running Spark query can tell.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from panewise.arrays import INT64_MIN
from panewise.catalog import Catalog, QueryDefinition, StreamDefinition
from panewise.connectors.tables import table_connector
from panewise.engine.channels.hosted_query import overflow_remark, overflow_warning
from panewise.engine.ingest.bad_row_remarks import BadRows, bad_rows
from panewise.engine.ingest.late_remarks import Lateness, Remarks, lateness, nothing_kept, remark_of, warn
from panewise.engine.reads.answer_form import answer_since
from panewise.errors import BadRowsWarning, LateRowsWarning, NotHeldError
from panewise.spark.buckets.hosted_program import Measures
from panewise.spark.environment.folder import Folder
from panewise.spark.program.program import Program
from panewise.spark.program.version import PlannedQuery, Version
from panewise.spark.results.batch_log import forgotten, read_entries
from panewise.spark.results.batch_stats import last_stats
from panewise.spark.tables.table_log import Pin, last_pins
from panewise.spark.tasks.batch_progress import Marks, StreamMarks, last_marks
from panewise.spark.tasks.packing import BAD, LATE, RESULT
from panewise.temporal import TimeWindow, format_instant


class FolderReader:
    """Reads one folder. `catalog` has the definitions of the caller, `program` those of the folder."""

    def __init__(self, folder: Folder, catalog: Catalog, program: Program) -> None:
        self._folder = folder
        self._catalog = catalog
        self.program = program
        self._fetched: dict[tuple[str, str], int] = {}  # last micro-batch that was fetched, by kind and name
        self._overflowed = set(last_stats(folder).get("overflows", {}))  # log names of queries with a warning so far
        earlier = last_marks(folder).streams
        self._late_remarks = {key: Remarks(stream.late_rows) for key, stream in earlier.items()}
        self._bad_remarks = {key: Remarks(stream.bad_rows) for key, stream in earlier.items()}
        self._asked_for_bad: set[str] = set()  # streams whose bad rows were fetched

    @property
    def folder(self) -> Folder:
        return self._folder

    @property
    def version(self) -> Version:
        """The definitions that hold now."""
        return self.program.newest

    def marks(self) -> Marks:
        """How far the streams have come."""
        return last_marks(self._folder)

    def watermark_of(self, query: PlannedQuery, marks: Marks) -> int | None:
        """How far a query has come: the least watermark of the streams below it; None before there is one."""
        version = self.version
        keys = {stream.name.lower(): key for key, stream in version.streams.items()}
        reached, names = [], list(query.definition.inputs)
        while names:
            name = names.pop().lower()
            if name in keys:
                reached.append(marks.of(keys[name]).watermark(version.streams[keys[name]].delay_us))
            elif name in version.queries:
                names.extend(version.queries[name].definition.inputs)
        least = min(reached, default=INT64_MIN)
        return None if least == INT64_MIN else least

    def stream_keys(self) -> dict[str, str]:
        """The keys under which the marks of streams are kept, by lower-case name."""
        return {stream.name.lower(): key for key, stream in self.program.newest.streams.items()}

    def begins_late(self, name: str) -> bool:
        """Whether a new reader of a query would lack earlier rows.

        So it is if the query began in mid-stream and does not just hand rows on, or if the reader's fragment would
        compute a copy of it that begins now.
        """
        query, marks = self.version.queries.get(name), self.marks()
        if query is None or query.created not in marks.since:
            return False
        fragment = self.program.fragments[query.fragment]
        if any(self.begins_late(source.lower()) for source in query.definition.inputs):
            return True
        in_mid_stream = any(marks.at(query.created, key)[0] is not None for key in fragment.streams)
        if in_mid_stream and not query.block.hands_rows_on:
            return True
        if not fragment.is_folded and not fragment.exchanged_by:
            return False  # readers are placed in its fragment and use no copy
        now = {key: (stream.reached, stream.good_rows) for key, stream in marks.streams.items()}
        return any(marks.at(query.created, key) != now.get(key, (None, 0)) for key in fragment.streams)

    def _key(self, stream: str) -> str:
        return self.program.newest.stream_key(stream)

    # -- state of the pipeline -----------------------------------------------------------------------------------

    def failed(self) -> dict[str, str]:
        """The queries that have failed, with the reason of each."""
        failed = self.marks().failed
        queries = self.program.newest.queries
        return {name: failed[query.log_name] for name, query in queries.items() if query.log_name in failed}

    def overflows(self) -> dict[str, int]:
        """The queries with answers outside their type, and the number of these."""
        counted = last_stats(self._folder).get("overflows", {})
        queries = self.program.newest.queries
        return {name: counted[query.log_name] for name, query in queries.items() if query.log_name in counted}

    def measures(self) -> Measures:
        """The measurements that EXPLAIN shows."""
        return Measures(self.marks(), last_stats(self._folder)["buckets"])

    def metrics(self) -> dict[str, Any]:
        """A few figures: micro-batches, rows, results, bytes of state held and last written."""
        marks, stats = self.marks(), last_stats(self._folder)
        live = self.program.newest.fragment_numbers
        buckets = [bucket for bucket in stats["buckets"].values() if bucket["fragment"] in live]
        return {
            "batches": marks.batch + 1,
            "rows": sum(stream.rows for stream in marks.streams.values()),
            "results": sum(stats["queries"].values()),
            "state_bytes": sum(bucket["stored_bytes"] for bucket in buckets),
            "written_bytes": sum(bucket["written_bytes"] for bucket in buckets),
        }

    def stats(self) -> dict[str, Any]:
        """Rows, late rows, slices and bytes of state by stream, query and fragment, as `pw.Engine.stats` has them."""
        marks, stats = self.marks(), last_stats(self._folder)
        version = self.program.newest
        streams = {}
        for key, stream in version.streams.items():
            of_stream = marks.of(key)
            watermark = of_stream.watermark(stream.delay_us)
            streams[stream.name] = {
                "rows": of_stream.rows,
                "late_rows": of_stream.late_rows,
                "late_remark": remark_of(self._lateness(key, of_stream)),
                "bad_rows": of_stream.bad_rows,
                "bad_remark": remark_of(self._badness(key, of_stream)),
                "watermark": None if watermark == INT64_MIN else format_instant(watermark),
            }
        queries, overflows = {}, stats.get("overflows", {})
        tables = self.table_stats(marks)
        for query in version.queries.values():
            reason = marks.failed.get(query.log_name)
            status = "FAILED" if reason is not None else ("SUSPENDED" if query.suspended else "RUNNING")
            queries[query.definition.name] = {
                "status": status,
                "reason": reason or overflow_remark(overflows.get(query.log_name, 0)),
                "results": stats["queries"].get(query.log_name, 0),
                "overflows": overflows.get(query.log_name, 0),
                "answer_since": self._answer_since(query, marks),
            }
            if read := [version.tables[key].name for key in version.tables_of(query)]:
                queries[query.definition.name]["tables"] = {name: tables[name]["version"] for name in read}
        return {"streams": streams, "tables": tables, "queries": queries, "trees": self._fragment_stats(version, stats)}

    def _answer_since(self, query: PlannedQuery, marks: Marks) -> str | None:
        watermark = self.watermark_of(query, marks)
        since = None if watermark is None else answer_since(query.plan, query.block, watermark)
        return None if since is None else format_instant(since)

    def table_stats(self, marks: Marks | None = None) -> dict[str, dict[str, Any]]:
        """For each table the version that the last micro-batch saw, its rows, and why a later one cannot be read.

        Version 0 means that no micro-batch has seen the table.
        """
        marks = marks or self.marks()
        pins = last_pins(self._folder, marks.batch)
        found = {}
        for key, table in self.program.newest.tables.items():
            pin = pins.get(key, Pin(0, 0))
            changes = table_connector(table) or "statements"
            found[table.name] = {
                "version": pin.version, "rows": pin.rows, "batch": marks.batch, "changes": changes,
                "problem": pin.problem,
            }  # fmt: skip
        return found

    def _fragment_stats(self, version: Version, stats: dict[str, Any]) -> list[dict[str, Any]]:
        found = []
        for number in sorted(version.fragment_numbers):
            buckets = [bucket for bucket in stats["buckets"].values() if bucket["fragment"] == number]
            fragment = self.program.fragments[number]
            summed = ("groups", "slices", "open_slices", "bytes", "stored_bytes", "written_bytes", "pages")
            found.append(
                {
                    "source": version.streams[fragment.stream].name,
                    "queries": sorted(q.definition.name for q in version.queries.values() if q.fragment == number),
                    "trees": max(1, len(self.program.families_in(version, fragment))),
                    "buckets": len(buckets),
                    **{name: sum(bucket[name] for bucket in buckets) for name in summed},
                }
            )
        return found

    # -- results and rows set aside ------------------------------------------------------------------------------

    def fetch(self, query: str) -> pa.Table:
        """The results that the query has delivered since the last call."""
        definition = self._catalog.get(query, "query")
        assert isinstance(definition, QueryDefinition)
        log_name = self.program.newest.queries[definition.name.lower()].log_name
        tables = self._fetch(RESULT, log_name)
        self._warn_of_rows()
        self._warn_of_overflows(definition.name, log_name)
        return pa.concat_tables([definition.schema.to_arrow().empty_table(), *tables])

    def late_rows(self, stream: str) -> pa.Table:
        """The late rows since the last call, if the stream has late = 'keep'; otherwise warns with LateRowsWarning."""
        definition = self._catalog.get(stream, "stream")
        assert isinstance(definition, StreamDefinition)
        key, empty = self._key(definition.name), definition.schema.to_arrow().empty_table()
        found = self._fetch(LATE, key)
        if not found and dict(self.program.options(key)).get("late") != "keep":
            warn(LateRowsWarning(nothing_kept(definition, self.marks().of(key).late_rows)))
        return pa.concat_tables([empty, *found], promote_options="default")

    def lateness(self, stream: str) -> Lateness | None:
        """The number of late rows so far, with a remark; None if there are none or the stream has the option `late`."""
        key = self._key(self._catalog.get(stream, "stream").name)
        return self._lateness(key, self.marks().of(key))

    def _lateness(self, key: str, marks: StreamMarks) -> Lateness | None:
        if not marks.late_rows or "late" in dict(self.program.options(key)):
            return None
        return lateness(self.version.streams[key], marks.late_rows, marks.rows, marks.late_behind)

    def _warn_of_overflows(self, name: str, log_name: str) -> None:
        """Warns once for each query."""
        if log_name not in self._overflowed and last_stats(self._folder).get("overflows", {}).get(log_name):
            self._overflowed.add(log_name)
            warn(overflow_warning(name))

    def badness(self, stream: str) -> BadRows | None:
        """The number of bad rows so far, with a remark; None if there are none or `bad_rows` was called for them."""
        key = self._key(self._catalog.get(stream, "stream").name)
        return self._badness(key, self.marks().of(key))

    def _badness(self, key: str, marks: StreamMarks) -> BadRows | None:
        if not marks.bad_rows or key in self._asked_for_bad:
            return None
        return bad_rows(self.version.streams[key], marks.bad_rows, marks.rows, None)

    def _warn_of_rows(self) -> None:
        """Warns of late and of bad rows."""
        marks = self.marks()
        for key in self.version.streams:
            late = self._lateness(key, marks.of(key))
            if late is not None and self._late_remarks.setdefault(key, Remarks()).due(late.rows):
                warn(LateRowsWarning(late.remark))
            bad = self._badness(key, marks.of(key))
            if bad is not None and self._bad_remarks.setdefault(key, Remarks()).due(bad.rows):
                warn(BadRowsWarning(bad.remark))

    def bad_rows(self, stream: str) -> pa.Table:
        """The bad rows since the last call, if the stream has on_bad_row = 'skip'."""
        definition = self._catalog.get(stream, "stream")
        empty = pa.table({"row": pa.array([], pa.string()), "reason": pa.array([], pa.string())})
        self._asked_for_bad.add(self._key(definition.name))
        return pa.concat_tables([empty, *self._fetch(BAD, self._key(definition.name))])

    def _fetch(self, kind: str, name: str) -> list[pa.Table]:
        # Only marked micro-batches are complete, sinks included.
        done = self.marks().batch
        last = self._fetched.get((kind, name), -1)
        batches = [batch for batch in self._folder.numbers("results") if last < batch <= done]
        self._fetched[kind, name] = max(done, last)
        found = (read_entries(self._folder, batch, kind, name) or [] for batch in batches)
        return [entry.table for entries in found for entry in entries]

    def _reported(self, query: PlannedQuery, at: int | None) -> pa.Table:
        """The report of a periodic query at an instant, or its last one, from the log."""
        name, window = query.definition.name, query.block.window
        empty = query.definition.schema.to_arrow().empty_table()
        assert isinstance(window, TimeWindow) and window.slide_us is not None
        key = self.program.fragments[query.fragment].stream
        stream = self.program.newest.streams[key]
        marks = self.marks()
        watermark = marks.of(key).watermark(stream.delay_us)
        if watermark == INT64_MIN:
            return empty
        moment = watermark if at is None else at
        if moment > watermark:
            raise NotHeldError(
                f"'{name}' has no report at {format_instant(moment)} yet",
                hint=f"it has come to {format_instant(watermark)}",
            )
        report = window.last_report(moment)
        found = self._logged(query, report, marks)
        if found is not None and found.num_rows:
            return found
        if self.was_silent(query, report, marks):
            raise NotHeldError(
                f"the report of '{name}' at {format_instant(report)} is not in the log: it was due while the query was "
                "suspended",
                hint="the first report after RESUME QUERY is",
            )
        # No point is known for a query that no micro-batch has seen yet.
        reached, _ = marks.at(query.created, key) if query.created in marks.since else (None, 0)
        is_too_old = self._is_forgotten(query, report) or (at is not None and reached is not None and report <= reached)
        if found is None and is_too_old:
            raise NotHeldError(f"the report of '{name}' at {format_instant(report)} is not in the log")
        return empty

    def _logged(self, query: PlannedQuery, report: int, marks: Marks) -> pa.Table | None:
        """The rows of a report; None if the log has neither rows of it nor of an earlier one."""
        for batch in reversed([n for n in self._folder.numbers("results") if n <= marks.batch]):
            for entry in read_entries(self._folder, batch, RESULT, query.log_name) or []:
                ends = entry.table.column("window_end").cast(pa.int64())
                if pc.min(ends).as_py() <= report:
                    return entry.table.filter(pc.equal(ends, report))
        return None

    def was_silent(self, query: PlannedQuery, report: int, marks: Marks) -> bool:
        """Whether a periodic query may have been suspended when a report was due of which the log has no rows."""
        if query.suspended or query.resumed is None:
            return query.suspended
        if query.resumed not in marks.since:
            return True
        reached, _ = marks.at(query.resumed, self.program.fragments[query.fragment].stream)
        return reached is not None and report <= reached

    def _is_forgotten(self, query: PlannedQuery, report: int) -> bool:
        """Whether retention may have removed a report from the log."""
        marks = forgotten(self._folder)
        if marks is None or marks.batch < self.program.version(query.created).from_batch:
            return False
        watermark = self.watermark_of(query, marks)
        return watermark is not None and report <= watermark
