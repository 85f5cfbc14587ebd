"""The stages of the Spark pipeline without Spark: the same functions, called in one process.

A micro-batch is given as messages; tasks, buckets and the foreachBatch run as in a Spark job, the state store is a
dictionary. Workers are several `kept` dictionaries that take turns, and an attempt may fail after it has computed, as
tasks do: what it kept is then a lie that the next attempt must see through.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa

import panewise as pw
from panewise.engine.ingest.window_limit import Extent
from panewise.spark.buckets.bucket_step import bucket_outputs
from panewise.spark.delivery.batch_writer import BatchWriter
from panewise.spark.environment.folder import FOLDERS, Folder
from panewise.spark.ingest.inbox import Inbox, read_message
from panewise.spark.program.changes import Change, ChangeStatement
from panewise.spark.program.known_programs import add_change
from panewise.spark.program.program import Program
from panewise.spark.program.reference import Reference
from panewise.spark.results.batch_log import read_entries
from panewise.spark.stages.stage_one import _message_packets, packed_rows
from panewise.spark.tasks import worker
from panewise.spark.tasks.packing import OUTPUT
from panewise.spark.tasks.worker import BatchTask, task_at
from tests.engine.hosting import frail_aggregate


class DictStore:
    """See `bucket_head.Store`."""

    def __init__(self, content: dict[Any, bytes]) -> None:
        self.content = content
        self.writes = 0

    def head(self) -> bytes | None:
        return self.content.get("head")

    def set_head(self, data: bytes) -> None:
        self.content["head"] = data

    def page(self, number: int) -> bytes:
        return self.content[number]

    def set_page(self, number: int, data: bytes) -> None:
        self.content[number] = data
        self.writes += len(data)

    def drop_page(self, number: int) -> None:
        del self.content[number]

    def clear(self) -> None:
        self.content.clear()


class _Frame:
    def __init__(self, outputs: list[tuple[Any, ...]]) -> None:
        self._outputs = outputs
        self.sparkSession = None

    def toArrow(self) -> pa.Table:  # noqa: N802
        columns = list(zip(*self._outputs, strict=True)) or [[]] * len(OUTPUT)
        types = [pa.string(), pa.string(), pa.int64(), pa.int64(), pa.binary()]
        arrays = [pa.array(column, type_) for column, type_ in zip(columns, types, strict=True)]
        return pa.table(dict(zip(OUTPUT, arrays, strict=True)))


class LocalRun:
    """One pipeline. With a `seed` workers lose what they keep, and attempts fail, in a fifth of all cases.

    `forgetful`: workers keep nothing, so that every bucket is built anew in every micro-batch.
    """

    def __init__(
        self,
        place: Path,
        partitions: int = 2,
        seed: int | None = None,
        sharing: str = "weave",
        forgetful: bool = False,
    ) -> None:
        self.folder = Folder(str(place))
        self.folder.make(*FOLDERS)
        self.partitions = partitions
        self.chance = random.Random(seed) if seed is not None else None
        self.sharing = sharing
        self.forgetful = forgetful
        self.program = Program(partitions, frail_aggregate.register(pw.Engine()).user_aggregates, sharing)
        self.inbox = Inbox(self.folder)
        self.stores: dict[int, dict[Any, bytes]] = {}
        self.workers: list[dict[Any, Any]] = [{}, {}, {}]
        self.batch = 0
        self.posted: list[int] = []
        self.identity = str(place)
        self.written = 0

    def change(self, *statements: str) -> None:
        self.change_to(*map(ChangeStatement, statements))

    def change_to(self, *statements: ChangeStatement) -> None:
        texts, bound = tuple(statement.text for statement in statements), [statement.bound for statement in statements]
        change = add_change(self.folder, self.program, Change(self.program.next_version, self.batch, texts), bound)
        if change.version:
            self.inbox.post_control({"wake": change.version})

    def push(self, stream: str, batch: pa.RecordBatch) -> None:
        self.inbox.post_rows(self.program.newest.stream_key(stream), [batch])

    def advance(self, stream: str, until: int) -> None:
        self.inbox.post_control({"advance": {"stream": self.program.newest.stream_key(stream), "until": until}})

    def run(self) -> dict[str, pa.Table]:
        """One micro-batch of all messages since the last one; the results by query."""
        names = [n for n in self.folder.names("inbox") if int(n.split(".")[0]) not in self.posted]
        while True:
            stores = {key: dict(content) for key, content in self.stores.items()}
            outputs = self._attempt(names, stores)
            if self.chance is None or self.chance.random() > 0.2:
                break
        self.stores = stores
        self.posted.extend(int(name.split(".")[0]) for name in names)
        writer = BatchWriter(self.reference, self.program.at(self.batch).number, self.identity, 1e9, no_print)
        self.deliver(writer, _Frame(outputs))
        entries = read_entries(self.folder, self.batch, "result") or []
        self.batch += 1
        return {entry.name.partition("@")[0]: entry.table for entry in entries}

    def deliver(self, writer: BatchWriter, frame: _Frame) -> None:
        """The foreachBatch of a micro-batch."""
        writer(frame, self.batch)  # type: ignore[arg-type]

    def _attempt(self, names: list[str], stores: dict[int, dict[Any, bytes]]) -> list[tuple[Any, ...]]:
        received: dict[int, list[tuple[int, bytes]]] = {}
        extents: dict[str, Extent] = {}
        for name in names:
            message = read_message(self.folder, name)
            for batch in packed_rows(_message_packets(self._task(), message, extents), message.number):
                for row in batch.to_pylist():
                    received.setdefault(row["key"], []).append((row["ordinal"], row["payload"]))
        outputs: list[tuple[Any, ...]] = []
        self.written = 0
        for key, payloads in received.items():
            payloads.sort(key=lambda pair: pair[0])
            store = DictStore(stores.setdefault(key, {}))
            outputs += bucket_outputs(self._task(), key, [payload for _, payload in payloads], store)
            self.written += store.writes
        return outputs

    @property
    def reference(self) -> Reference:
        changes = self.program.next_version
        return Reference(self.identity, self.folder, self.partitions, changes, self.program.aggregates, self.sharing)

    def _task(self) -> BatchTask:
        worker._marks.clear()
        task = task_at(self.reference, self.batch, 0)
        if self.chance is None:
            task.kept = {} if self.forgetful else self.workers[0]
            return task
        task.kept = self.chance.choice(self.workers)
        if self.chance.random() < 0.2:
            task.kept.clear()
        return task


def no_print(title: str, table: pa.Table, rows: int) -> None:
    pass
