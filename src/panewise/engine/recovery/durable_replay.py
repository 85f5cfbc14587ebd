"""What was logged happens again, in the same order, to an engine that is at the state the log begins with.

A record says what was going to happen when it was written. Only the last one may have failed then, for what fails is
taken out of the log before anything else is written: where it fails again it is to be taken out now. Anything else that
fails now has not failed before, and the folder is not opened.

That answers are the same rests on the engine: a stream takes rows in the order of the log whatever the batches, and
nothing but the log (no clock, no file) has a say in what a query answers. Only memory has: a query that fails now, and
did not then, is FAILED from now on, and statements that name it are passed over. One that failed then, and does not
now, is whole again: what it could not report at that time is there to be read. And the version has: a query that an
earlier panewise took, and this one refuses because it comes too late, is there, FAILED, and says so.
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
    "if another panewise took it, which refused less, open the folder with that one and close it: that leaves a "
    "snapshot, from which this one goes on"
)


def replay(books: Books, statements: StatementRunner, records: Iterable[LogRecord]) -> Replayed:
    """Everything that was logged happens again."""
    replayed = Replayed()
    for record, last in _with_last(records):
        replayed.records += 1
        books.hosting.taken_before = not last
        try:
            replayed.differences += not _happen(books, statements, record.fields, record.body)
        except (ParseError, BindError) as problem:
            # A statement is bound before it is written down, so this is not what went wrong at that time.
            raise _impossible(record, problem, hint="an aggregate of yours? prepare= registers them first") from problem
        except SnapshotError as problem:  # the query was planned so, whatever became of it
            told = f"record {record.number} of the log cannot happen again ({_told(record)}): {problem.message}"
            raise SnapshotError(told, hint=problem.hint) from problem
        except PanewiseError as problem:
            if not last:
                raise _impossible(record, problem, hint=_OTHER_VERSION) from problem
            replayed.last_failed = True
            warnings.warn(
                f"the last record of the log is left out, as that of a call that failed ({_told(record)}): {problem}",
                DurabilityWarning,
                stacklevel=5,
            )
    books.hosting.taken_before = False
    if replayed.differences:
        warnings.warn(
            f"the log was read, and results that were handed out earlier differ in number {replayed.differences} "
            "time(s): a query has failed, or was dropped",
            DurabilityWarning,
            stacklevel=5,
        )
    return replayed


def _with_last(records: Iterable[LogRecord]) -> Iterator[tuple[LogRecord, bool]]:
    before: LogRecord | None = None
    for record in records:
        if before is not None:
            yield before, False
        before = record
    if before is not None:
        yield before, True


def _happen(books: Books, statements: StatementRunner, fields: dict[str, Any], body: pa.Buffer) -> bool:
    """Does what a record says; False where a query has not as many results as it had."""
    match fields:
        case {"kind": "statement", "text": text, "rows": size}:
            rows = unpacked(body, [size])[0] if size else None
            decided = Decided.of_dict(fields.get("decided", {}))
            statements.execute_again(text, FoundOutside(rows, fields.get("archive_cut", UNKNOWN), decided))
        case {"kind": "push", "stream": name, "sizes": sizes}:
            aside = [(row, reason) for row, reason in fields["aside"]]
            # A log of before there was an oldest row has none: then what is new counts from the newest.
            extent = Extent(fields["newest"], fields.get("oldest", fields["newest"]))
            told = extent, fields["shed"], _stamp(fields["stamp"])
            stream = books.stream(name)
            if not _was_taken(stream, fields["stamp"]) and stream.retake(Taken(unpacked(body, sizes), aside, *told)):
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
            raise DurabilityError(f"the log holds a record of the kind {fields.get('kind')!r}, which is not known")
    return True


def _handed_out(books: Books, query: str, results: int) -> bool:
    """Whether the query has as many results as it had; those that it did not have then are not handed out."""
    books.flush()
    hosted = books.query(query)
    (table,) = read_out(books, [hosted], lambda tables: None)
    if hosted.rows_out > results:  # it had failed then
        hosted.put_back(table.slice(max(0, table.num_rows - (hosted.rows_out - results))))
    return hosted.rows_out == results


def _was_taken(stream: Stream, written: list[Any] | None) -> bool:
    """Whether the push is in the log twice: an interrupt came between its record and the rows, and it was repeated."""
    return written is not None and bool(stream.producers.get(written[0], 0) >= written[1])


def _stamp(written: list[Any] | None) -> Stamp | None:
    return None if written is None else (written[0], written[1])


def unpacked(body: pa.Buffer, sizes: list[int]) -> list[pa.RecordBatch]:
    """The batches of a record's body."""
    result, at = [], 0
    for size in sizes:
        with pa.ipc.open_stream(body.slice(at, size)) as reader:
            result.append(reader.read_next_batch())
        at += size
    return result


def _impossible(record: LogRecord, problem: PanewiseError, hint: str | None = None) -> DurabilityError:
    return DurabilityError(
        f"record {record.number} of the log cannot happen again ({_told(record)}): {problem}", hint=hint
    )


def _told(record: LogRecord) -> str:
    return record.fields.get("text") or f"{record.fields['kind']} {record.fields.get('stream', '')}".strip()
