"""The inbox: small files beside the checkpoint that Spark reads as one more source.

Pushed rows, punctuations, wake-ups and lookups are letters, numbered in the order in which they were posted. Because
Spark's file source remembers what it has read, they arrive once, cause a micro-batch, and are replayed with it.
"""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from panewise.runtime.spark.folder import Folder
from panewise.state.snapshot_format import dumped, loaded


@dataclass(frozen=True)
class Letter:
    """`stream`: the content is batches of rows for it; None: the content is a control row."""

    number: int
    stream: str | None
    content: Any


class Inbox:
    """The writing side, in the driver."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._next = max(folder.numbers("inbox"), default=-1) + 1

    def post_rows(self, stream: str, batches: list[pa.RecordBatch]) -> int:
        with self._lock:
            number = self._next
            content = dumped({"stream": stream, "batches": batches})
            self._folder.write(f"inbox/{number:012d}.rows", content)
            self._next += 1
            return number

    def post_control(self, row: dict[str, Any]) -> int:
        with self._lock:
            number = self._next
            self._folder.write(f"inbox/{number:012d}.json", json.dumps(row).encode())
            self._next += 1
            return number


def remove_letters(folder: Folder, last: int) -> None:
    """Letters up to a number have been read for good. The newest one stays: numbers go on behind it."""
    names = folder.names("inbox")
    for name in names[:-1]:
        if int(name.partition(".")[0]) <= last:
            folder.remove(f"inbox/{name}")


def read_letter(folder: Folder, name: str) -> Letter:
    data = folder.read(f"inbox/{name}")
    if data is None:
        raise FileNotFoundError(f"inbox/{name} of '{folder.place}' is gone before it was read")
    number, _, ending = name.partition(".")
    if ending == "json":
        return Letter(int(number), None, json.loads(data))
    content = loaded(data)
    return Letter(int(number), content["stream"], content["batches"])
