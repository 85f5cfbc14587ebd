"""Loads the records of a folder of results: which series exist, and their rows by number.

Records are read in the order in which they were written. The first record of each file lists the series that existed
then, and it overrides earlier records: an older file may end with a record whose write failed, but which could neither
be synced nor cut off. So rows of a series that an `end` has named stay until the next file, or the end of loading,
confirms that the series is gone.

Rows come mostly in the order of their numbers; rows that were written again come twice. They are kept as runs of
consecutive numbers, which are merged at the end. Rows that are aligned in a file stay mapped from it, without a copy.
Memory is linear in the other rows, time in the bytes read.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from panewise.engine.durability.durable_log import LogRecord
from panewise.serve.http.results.numbered_rows import NumberedRows
from panewise.serve.http.results.result_segments import SegmentFile, from_body


class Loading:
    """Call `read` with all records in order. Then `series` has the descriptions; `merged` returns rows of a series."""

    def __init__(self, chunk_rows: int) -> None:
        self.series: dict[str, dict[str, Any]] = {}  # by id
        self._schemas: dict[str, pa.Schema] = {}
        self._runs: dict[str, list[NumberedRows]] = {}  # by id: runs of consecutive numbers, in the order they came
        self._chunk_rows = chunk_rows

    def read(self, file: SegmentFile, record: LogRecord) -> None:
        fields = record.fields
        if "rows" in fields:
            if fields["rows"] in self.series:
                self._add(file, fields["rows"], fields["first"], record)
        elif "end" in fields:
            self.series.pop(fields["end"], None)
        elif "begin" in fields:
            described = fields["begin"]
            for other in [id for id, before in self.series.items() if _same_name(before, described)]:
                self.series.pop(other)
            self._know(described, record.body)
        else:
            self._replace(fields["series"], record.body)

    def _replace(self, all_described: list[dict[str, Any]], schemas: pa.Buffer) -> None:
        """Takes the list of series from the first record of a file, in place of everything known before."""
        self.series.clear()
        there = {described["id"] for described in all_described}
        self._runs = {id: runs for id, runs in self._runs.items() if id in there}
        at = 0
        for described in all_described:
            self._know(described, schemas.slice(at, described["bytes"]))
            at += described["bytes"]

    def _know(self, described: dict[str, Any], schema: pa.Buffer) -> None:
        self.series[described["id"]] = described
        self._schemas[described["id"]] = pa.ipc.read_schema(schema)

    def _add(self, file: SegmentFile, id: str, first: int, record: LogRecord) -> None:
        mapped = file.body_at(record.body_at, record.body.size)
        batch = from_body(record.body if mapped is None else mapped, self._schemas[id])
        file.add(id, first, batch.num_rows, record.body.size)
        runs = self._runs.setdefault(id, [])
        if record.fields.get("again"):
            # These rows are mapped from this file, so earlier copies of them in memory can be dropped.
            for earlier in runs:
                earlier.forget_before(first + batch.num_rows)
        run = next((run for run in reversed(runs) if run.next == first), None)
        if run is None:
            run = NumberedRows(self._schemas[id], first, self._chunk_rows)
            runs.append(run)
        run.append(batch, None if mapped is None else file)

    def merged(self, described: dict[str, Any]) -> NumberedRows:
        """The rows of all runs by number: rows that were written twice once, and rows before a hole not at all."""
        merged = NumberedRows(self._schemas[described["id"]], described["start"], self._chunk_rows)
        merged.given_up_until_us = described["given_up_until_us"]
        runs = [run for run in self._runs.get(described["id"], []) if run.chunks()]
        for run in sorted(runs, key=lambda run: run.first):
            if run.first > merged.next:
                # The description covers rows of removed files, which only precede the first row; not other holes.
                known = merged.next == merged.first and merged.given_up_until_us is not None
                merged.skip_to(run.first)
                if not known:
                    merged.miss_before(next(chunk.batch for chunk in run.chunks()))
            for chunk in run.chunks():
                rest = chunk.batch.slice(max(0, min(chunk.batch.num_rows, merged.next - chunk.first)))
                # Mapped rows must precede rows in memory, so a mapped chunk after those counts as in memory.
                merged.append(rest, chunk.file if merged.in_memory_from == merged.next else None)
        return merged


def _same_name(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return bool(one["name"].lower() == other["name"].lower())
