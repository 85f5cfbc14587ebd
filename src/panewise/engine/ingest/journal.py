"""What a stream tells of before it changes, and the numbers by which producers may repeat themselves.

A producer that did not hear whether a push was taken pushes it again, with the number it had: numbers of one producer
on one stream are 1, 2, 3 and so on, and a number that was taken already is acknowledged and ignored. A number that
skips one is refused, for the rows between them would be missing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from panewise.engine.ingest.window_limit import Extent
from panewise.errors import DataError

Stamp = tuple[str, int]  # a producer and the number of its push


@dataclass(frozen=True)
class Taken:
    """What a stream takes of a push: rows in its types; rows as text, with what is wrong with them; the extent of
    all that came; how many rows were shed, by reason; and the stamp of the push."""

    batches: list[pa.RecordBatch]
    aside: list[tuple[str, str]]
    extent: Extent
    shed: dict[str, int]
    stamp: Stamp | None


class Journal(Protocol):
    """Told first in a stream's change. Where it raises, the stream does not change, and it has called `undone`."""

    def took(self, stream: str, taken: Taken) -> None:
        """Rows of a push."""

    def took_row(self, stream: str, row: list[Any], stamp: Stamp | None) -> None:
        """A single row in plain values."""

    def advanced(self, stream: str, until: int) -> None:
        """A punctuation."""

    def hands_out_rows(self, stream: str, which: str) -> None:
        """`which` is 'late' or 'bad': rows that were kept, handed out once."""


def is_repeated(stream: str, producers: dict[str, int], producer: str | None, sequence: int | None) -> bool:
    """Whether a push with this number was taken before; DataError where the number cannot be.

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
