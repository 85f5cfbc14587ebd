"""The inbox: small files, *messages*, beside the checkpoint, which Spark reads as one more source.

A message has pushed rows, a punctuation, a wake-up or a lookup. Messages are numbered in the order in which they were
posted. Spark's file source remembers which it has read: a message arrives once, causes a micro-batch, and is replayed
with it.
"""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from panewise.engine.ingest.journal import Stamp, is_repeated
from panewise.spark.environment.folder import Folder
from panewise.spark.ingest.producers import Producers
from panewise.state.snapshot_format import dumped, loaded


@dataclass(frozen=True)
class InboxMessage:
    """The content is batches of rows for `stream`, or a control row if `stream` is None."""

    number: int
    stream: str | None
    content: Any


class Inbox:
    """Posts messages, in the driver."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._next = max(folder.numbers("inbox"), default=-1) + 1
        self._producers = Producers(folder, self._next)

    def post_rows(self, stream: str, batches: list[pa.RecordBatch], stamp: Stamp | None = None) -> bool:
        """Posts rows for a stream, given by its key; False if a push with this stamp was taken before."""
        with self._lock:
            if stamp is None:
                self._post_rows(stream, batches)
                return True
            if self._is_repeated(stream, stamp):
                return False
            self._producers.begin(stream, stamp, self._next)
            try:
                self._post_rows(stream, batches)
            except BaseException:
                self._producers.give_up()
                raise
            self._producers.took(stream, stamp)
            return True

    def _post_rows(self, stream: str, batches: list[pa.RecordBatch]) -> None:
        if batches:
            self._folder.write(f"inbox/{self._next:012d}.rows", dumped({"stream": stream, "batches": batches}))
            self._next += 1

    def is_repeated(self, stream: str, stamp: Stamp) -> bool:
        """Whether a push with this stamp was taken before; DataError if its number does not follow the last one."""
        with self._lock:
            return self._is_repeated(stream, stamp)

    def _is_repeated(self, stream: str, stamp: Stamp) -> bool:
        producer, sequence = stamp
        name = stream.rpartition("@")[0]
        return is_repeated(name, {producer: self._producers.last(stream, producer)}, producer, sequence)

    def last_sequence(self, stream: str, producer: str) -> int:
        with self._lock:
            return self._producers.last(stream, producer)

    def post_control(self, row: dict[str, Any]) -> int:
        with self._lock:
            number = self._next
            self._folder.write(f"inbox/{number:012d}.json", json.dumps(row).encode())
            self._next += 1
            return number


def remove_messages(folder: Folder, last: int) -> None:
    """Removes messages up to a number, which no replay needs. Keeps the newest message, from which numbers go on."""
    names = folder.names("inbox")
    for name in names[:-1]:
        if int(name.partition(".")[0]) <= last:
            folder.remove(f"inbox/{name}")


def read_message(folder: Folder, name: str) -> InboxMessage:
    data = folder.read(f"inbox/{name}")
    if data is None:
        raise FileNotFoundError(f"inbox/{name} of '{folder.place}' is gone before it was read")
    number, _, ending = name.partition(".")
    if ending == "json":
        return InboxMessage(int(number), None, json.loads(data))
    content = loaded(data)
    return InboxMessage(int(number), content["stream"], content["batches"])
