"""What the records of a folder of results say: which series there are, and their rows by number.

Records are read in the order in which they were written. The first of each file says which series there were then, and
that is believed rather than what came before: the end of an older file may hold a record whose writer was told that it
had failed, because it could neither be brought to the disk nor be cut off. So rows of a series that an `end` has named
stay until the next file, or the end of all, says that it is gone.

Rows come mostly in the order of their numbers, and twice where they were written again. They are kept as runs of
consecutive numbers, which merge at the end. Those that lie aligned in a file are not copied: they stay mapped from it.
Memory is linear in the others, time in what is read.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from panewise.engine.durability.durable_log import LogRecord
from panewise.serve.http.results.numbered_rows import NumberedRows
from panewise.serve.http.results.result_segments import SegmentFile, from_body


class Loading:
    """Takes all records in their order; then `series` says what there is, and `merged` gives the rows of one."""

    def __init__(self, chunk_rows: int) -> None:
        self.series: dict[str, dict[str, Any]] = {}  # by id
        self._schemas: dict[str, pa.Schema] = {}
        self._runs: dict[str, list[NumberedRows]] = {}  # rows of consecutive numbers that came one after the other
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
        """What a file says at its beginning of all series is what is true of them."""
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
            # These rows are in files for good: what came before of them need not be in memory meanwhile.
            for earlier in runs:
                earlier.forget_before(first + batch.num_rows)
        run = next((run for run in reversed(runs) if run.next == first), None)
        if run is None:
            run = NumberedRows(self._schemas[id], first, self._chunk_rows)
            runs.append(run)
        run.append(batch, None if mapped is None else file)

    def merged(self, described: dict[str, Any]) -> NumberedRows:
        """The rows of all runs by number; what was written twice once, and what lies before a hole not at all."""
        merged = NumberedRows(self._schemas[described["id"]], described["start"], self._chunk_rows)
        merged.given_up_until_us = described["given_up_until_us"]
        runs = [run for run in self._runs.get(described["id"], []) if run.chunks()]
        for run in sorted(runs, key=lambda run: run.first):
            if run.first > merged.next:
                # What files that are gone held is known; what was never there is not.
                known = merged.next == merged.first and merged.given_up_until_us is not None
                merged.skip_to(run.first)
                if not known:
                    merged.miss_before(next(chunk.batch for chunk in run.chunks()))
            for chunk in run.chunks():
                rest = chunk.batch.slice(max(0, min(chunk.batch.num_rows, merged.next - chunk.first)))
                # After rows in memory all count as such: those of files come before them.
                merged.append(rest, chunk.file if merged.in_memory_from == merged.next else None)
        return merged


def _same_name(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return bool(one["name"].lower() == other["name"].lower())
