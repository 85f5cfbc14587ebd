"""Replays a log: an engine in the state in which the log begins repeats all records in their order.

A record is written before its change happens. A change that fails is removed from the log before the next record is
written, so only the last record may be of a change that failed. If that one fails again, the caller removes it. If any
other record fails, it did not fail before, and the folder is not opened.

The answers are the same, because streams take rows in the order of the log whatever the batches, and answers depend on
nothing else: no clock, no file. There are two exceptions:

- Memory. A query that fails only now, for want of memory, stays FAILED, and statements that name it are skipped. A
  query that failed only then runs again, and results that it could not report then can be read.
- The version. A query that an earlier panewise accepted, and that this one refuses because it comes too late, is
  created as FAILED, with the reason.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from panewise.engine.books.books import Books
from panewise.engine.durability.durability import Replayed
from panewise.engine.durability.durable_log import LogRecord
from panewise.engine.durability.found_outside import UNKNOWN, FoundOutside
from panewise.engine.ingest.journal import Stamp, Taken
from panewise.engine.ingest.stream import Stream
from panewise.engine.ingest.window_limit import Extent
from panewise.engine.reads.read_out import read_out
from panewise.engine.statements.statement_runner import StatementRunner
from panewise.errors import BindError, DurabilityError, DurabilityWarning, PanewiseError, ParseError, SnapshotError
from panewise.plan.decided import Decided

_OTHER_VERSION = (
    "if an earlier version accepted it, which refused less, open the folder with that one and close it: this leaves a "
    "snapshot, which this version can restore"
)


def replay(books: Books, statements: StatementRunner, records: Iterable[LogRecord]) -> Replayed:
    """Repeats all records. Returns how many there were, how many results differed, and whether the last one failed."""
    count = differences = 0
    last_failed = False
    for record, last in _with_last(records):
        count += 1
        try:
            with books.hosting.repeating(accepted_before=not last):
                agrees = _repeat(books, statements, record.fields, record.body)
            differences += not agrees
        except (ParseError, BindError) as problem:
            # A statement is bound before it is logged, so binding did not fail then.
            raise _impossible(record, problem, hint="an aggregate of yours? prepare= registers them first") from problem
        except SnapshotError as problem:  # A plan that was logged cannot be carried out again.
            message = f"record {record.number} of the log cannot be replayed ({_described(record)}): {problem.message}"
            raise SnapshotError(message, hint=problem.hint) from problem
        except PanewiseError as problem:
            if not last:
                raise _impossible(record, problem, hint=_OTHER_VERSION) from problem
            last_failed = True
            warnings.warn(
                f"the last record of the log is ignored, because its call failed ({_described(record)}): {problem}",
                DurabilityWarning,
                stacklevel=5,
            )
    if differences:
        warnings.warn(
            f"the log was replayed, and {differences} time(s) a query had another number of results than it "
            "handed out before: it has failed, was dropped, or was answered by an earlier version",
            DurabilityWarning,
            stacklevel=5,
        )
    return Replayed(count, differences, last_failed)


def _with_last(records: Iterable[LogRecord]) -> Iterator[tuple[LogRecord, bool]]:
    """Each record, and whether it is the last one."""
    before: LogRecord | None = None
    for record in records:
        if before is not None:
            yield before, False
        before = record
    if before is not None:
        yield before, True


def _repeat(books: Books, statements: StatementRunner, fields: dict[str, Any], body: pa.Buffer) -> bool:
    """Does what a record says. False if a query has handed out another number of results than it had then."""
    match fields:
        case {"kind": "statement", "text": text, "rows": size}:
            rows = _unpacked(body, [size])[0] if size else None
            decided = Decided.of_dict(fields.get("decided", {}))
            statements.execute_again(text, FoundOutside(rows, fields.get("archive_cut", UNKNOWN), decided))
        case {"kind": "push", "stream": name, "sizes": sizes}:
            aside = [(row, reason) for row, reason in fields["aside"]]
            # Logs of earlier versions have no oldest row.
            extent = Extent(fields["newest"], fields.get("oldest", fields["newest"]))
            taken = Taken(_unpacked(body, sizes), aside, extent, fields["shed"], _stamp(fields["stamp"]))
            stream = books.stream(name)
            if not _was_taken(stream, fields["stamp"]) and stream.retake(taken):
                stream.flush()
        case {"kind": "row", "stream": name, "row": row, "stamp": stamp}:
            stream = books.stream(name)
            if not _was_taken(stream, stamp) and stream.retake_row(row, _stamp(stamp)):
                stream.flush()
        case {"kind": "advance", "stream": name, "until": until}:
            books.stream(name).advance(until)
        case {"kind": "read", "queries": counts}:
            agree = [_handed_out(books, query, int(results)) for query, results in counts.items()]
            return all(agree)
        case {"kind": "read", "query": query, "results": results}:
            return _handed_out(books, query, int(results))
        case {"kind": "late", "stream": name}:
            books.flush()
            books.stream(name).late_rows()
        case {"kind": "bad", "stream": name}:
            books.flush()
            books.stream(name).bad_rows()
        case _:
            raise DurabilityError(f"the log holds a record of an unknown kind, {fields.get('kind')!r}")
    return True


def _handed_out(books: Books, query: str, results: int) -> bool:
    """Reads a query's results as far as they were read then; whether there are as many as then."""
    books.flush()
    hosted = books.query(query)
    (table,) = read_out(books, [hosted], lambda tables: None)
    produced = hosted.unread.next_number
    if produced > results:  # It had failed then; results that nobody has read yet stay unread.
        hosted.put_back(table.slice(max(0, table.num_rows - (produced - results))))
    hosted.unread.skip_numbers(results)  # Numbers that were given to other results are not given again.
    return produced == results


def _was_taken(stream: Stream, written: list[Any] | None) -> bool:
    """Whether the push is in the log twice: an interrupt came between its record and its rows, and it was repeated."""
    return written is not None and bool(stream.producers.get(written[0], 0) >= written[1])


def _stamp(written: list[Any] | None) -> Stamp | None:
    return None if written is None else (written[0], written[1])


def _unpacked(body: pa.Buffer, sizes: list[int]) -> list[pa.RecordBatch]:
    """The batches of a record's body."""
    result, at = [], 0
    for size in sizes:
        with pa.ipc.open_stream(body.slice(at, size)) as reader:
            result.append(reader.read_next_batch())
        at += size
    return result


def _impossible(record: LogRecord, problem: PanewiseError, hint: str | None = None) -> DurabilityError:
    return DurabilityError(
        f"record {record.number} of the log cannot be replayed ({_described(record)}): {problem}", hint=hint
    )


def _described(record: LogRecord) -> str:
    return record.fields.get("text") or f"{record.fields['kind']} {record.fields.get('stream', '')}".strip()
