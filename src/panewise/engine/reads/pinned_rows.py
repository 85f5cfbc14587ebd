"""Rows of a channel that a reader holds while the channel goes on: immutable, and found by their times.

A channel retains rows in pieces (`Channel.retained_pieces`). Pieces never change, so to pin them is to hold a list of
them. They are cut or joined into chunks of about one size, each with its least and its greatest time. Rows below the
watermark are complete, because late rows are dropped.

    pieces    |---------------|--|-|-----|--|     as they came
    chunks    |-----|-----|----|------------|     overlapping in time by as much as rows are out of order
    edges     0     1     2    3                  the times at which a reader cuts: each chunk's least

Cost: pinning takes O(pieces) and one pass over the times, and copies nothing. Reading a stretch takes one pass over the
chunks that overlap with it, and a copy unless it is exactly one chunk.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from panewise.operators.row_batch import Rows, concatenated


@dataclass(frozen=True)
class PinnedChunk:
    """Rows in order of arrival, in one piece or in several small ones."""

    pieces: tuple[Rows, ...]
    least: int
    greatest: int

    def __len__(self) -> int:
        return sum(map(len, self.pieces))


class PinnedRows:
    """The pinned pieces of a channel. `nothing`: rows of the channel, of which there are none."""

    def __init__(self, nothing: Rows, chunk_rows: int) -> None:
        self._nothing = nothing
        self._chunk_rows = chunk_rows
        self._chunks: list[PinnedChunk] = []

    def add(self, pieces: Sequence[Rows]) -> None:
        """Adds pieces that came after those that are pinned."""
        small: list[Rows] = []
        waiting = 0
        for piece in pieces:
            for start in range(0, len(piece), self._chunk_rows):
                stop = min(start + self._chunk_rows, len(piece))
                part = piece if stop - start == len(piece) else piece.slice(start, stop)
                small.append(part)
                waiting += len(part)
                if waiting >= self._chunk_rows:
                    self._chunks.append(_chunk(small))
                    small, waiting = [], 0
        if small:
            self._chunks.append(_chunk(small))

    def __len__(self) -> int:
        return sum(map(len, self._chunks))

    def edges(self, start: int, end: int, most: int) -> list[int]:
        """`start`, instants at which to cut, and `end`, ascending: at most `most` stretches of about one size."""
        every = max(1, -(-len(self._chunks) // most))
        edges, greatest = [start], start
        for chunk in self._chunks[::every]:
            if chunk.least > greatest and chunk.least < end:
                edges.append(chunk.least)
                greatest = chunk.least
        return [*edges, end]

    def count(self, start: int, end: int) -> int:
        """How many rows there are from `start` to before `end`."""
        return sum(
            len(piece) if _within(chunk, start, end) else int(np.count_nonzero(_inside(piece, start, end)))
            for chunk in self._overlapping(start, end)
            for piece in chunk.pieces
        )

    def between(self, start: int, end: int) -> Rows:
        """The rows from `start` to before `end`, in order of time and arrival."""
        parts = [
            piece if _within(chunk, start, end) else _cut(piece, start, end)
            for chunk in self._overlapping(start, end)
            for piece in chunk.pieces
        ]
        return in_order(concatenated(parts or [self._nothing]))

    def _overlapping(self, start: int, end: int) -> list[PinnedChunk]:
        return [chunk for chunk in self._chunks if chunk.greatest >= start and chunk.least < end]


def _chunk(pieces: list[Rows]) -> PinnedChunk:
    least = min(int(piece.times[0] if piece.ascends else piece.times.min()) for piece in pieces)
    greatest = max(int(piece.times[-1]) if piece.ascends else int(piece.times.max()) for piece in pieces)
    return PinnedChunk(tuple(pieces), least, greatest)


def _within(chunk: PinnedChunk, start: int, end: int) -> bool:
    return chunk.least >= start and chunk.greatest < end


def _inside(piece: Rows, start: int, end: int) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    inside: np.ndarray[tuple[int], np.dtype[np.bool_]] = (piece.times >= start) & (piece.times < end)
    return inside


def _cut(piece: Rows, start: int, end: int) -> Rows:
    if piece.ascends:
        first, last = np.searchsorted(piece.times, [start, end], side="left")
        return piece.slice(int(first), int(last))
    return piece.take(_inside(piece, start, end))


def in_order(rows: Rows) -> Rows:
    """Rows in order of arrival, sorted by time and then by arrival."""
    if rows.ascends or not len(rows) or bool((rows.times[1:] >= rows.times[:-1]).all()):
        return rows
    return rows.take(np.argsort(rows.times, kind="stable"))
