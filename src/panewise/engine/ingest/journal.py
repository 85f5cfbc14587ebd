"""The journal that a stream writes to before it changes, and the numbers by which a push may be repeated.

A producer that does not know whether a push was taken repeats it with the same number. The numbers of one producer on
one stream are 1, 2, 3 and so on. A push whose number was taken before is acknowledged and ignored. A push that skips a
number is refused, because the rows between would be missing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from panewise.engine.ingest.window_limit import Extent
from panewise.errors import DataError

Stamp = tuple[str, int]  # A producer, and the number of its push.


@dataclass(frozen=True)
class Taken:
    """The part of a push that a stream takes in: rows in its types; bad rows as text, with the reasons; the extent of
    all rows so far; the number of shed rows by reason; and the stamp of the push."""

    batches: list[pa.RecordBatch]
    aside: list[tuple[str, str]]
    extent: Extent
    shed: dict[str, int]
    stamp: Stamp | None


class Journal(Protocol):
    """Called first in every change of a stream. If it raises, it has called `undone`, and the stream does not
    change."""

    def took(self, stream: str, taken: Taken) -> None:
        """The rows of a push are taken in."""

    def took_row(self, stream: str, row: list[Any], stamp: Stamp | None) -> None:
        """A single row is taken in, as plain values."""

    def advanced(self, stream: str, until: int) -> None:
        """A punctuation is taken in."""

    def hands_out_rows(self, stream: str, which: str) -> None:
        """Kept rows are handed out; `which` is 'late' or 'bad'."""


def is_repeated(stream: str, producers: dict[str, int], producer: str | None, sequence: int | None) -> bool:
    """Whether a push with this number was taken before; DataError if the number is not valid.

    >>> is_repeated("s", {"p": 2}, "p", 2), is_repeated("s", {"p": 2}, "p", 3)
    (True, False)
    """
    if producer is None or sequence is None:
        raise DataError("a push has both a producer and a sequence, or neither")
    if not isinstance(producer, str):
        raise DataError(f"the producer of a push is a text, not a {type(producer).__name__}")
    if isinstance(sequence, bool) or not isinstance(sequence, int) or sequence < 1:
        raise DataError(f"the sequence of a push is a whole number from 1 on, not {sequence!r}")
    last = producers.get(producer, 0)
    if sequence > last + 1:
        before = f"{last} was the last" if last else "there was none before"
        raise DataError(
            f"producer '{producer}' pushes number {sequence} to '{stream}', and {before}: pushes between are missing",
            hint=f"push number {last + 1} first; last_sequence('{stream}', '{producer}') says how far it has come",
        )
    return sequence <= last
