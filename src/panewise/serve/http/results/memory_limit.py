"""Limits the memory that the results of all queries use together, and chooses which rows leave it first.

The query with the most bytes in memory loses its oldest chunk first, so a query with few results keeps them. Cost:
O(log queries) for each chunk that leaves.
"""

from __future__ import annotations

from collections.abc import Collection
from heapq import heapify, heappop, heappush

from panewise.serve.http.results.numbered_rows import Chunk
from panewise.serve.http.results.result_series import Series


class MemoryLimit:
    """`bytes_most` limits the rows of all queries that are not mapped from files."""

    def __init__(self, bytes_most: int) -> None:
        self.bytes_most = bytes_most
        self.rows_given_up = 0

    def excess(self, all_series: Collection[Series]) -> int:
        """The number of bytes that must leave the memory; 0 or less if none."""
        return sum(series.bytes_in_memory for series in all_series) - self.bytes_most

    def give_up(self, all_series: Collection[Series], size: int) -> None:
        """Drops about `size` bytes of rows for ever; the newest chunk of each query stays."""
        largest = [(-series.bytes_in_memory, number, series) for number, series in enumerate(all_series)]
        heapify(largest)
        while size > 0 and largest:
            before, number, series = heappop(largest)
            rows = series.give_up_oldest()
            if rows:
                self.rows_given_up += rows
                size -= -before - series.bytes_in_memory
                heappush(largest, (-series.bytes_in_memory, number, series))

    def oldest(self, all_series: Collection[Series], size: int) -> list[tuple[Series, Chunk]]:
        """The chunks in memory, about `size` bytes in all, that should move to files."""
        found = []
        largest = []
        for number, series in enumerate(all_series):
            chunks = [chunk for chunk in series.chunks() if chunk.file is None]
            if chunks:
                largest.append((-sum(chunk.bytes for chunk in chunks), number, series, iter(chunks)))
        heapify(largest)
        while size > 0 and largest:
            left, number, series, rest = heappop(largest)
            chunk = next(rest, None)
            if chunk is not None:
                found.append((series, chunk))
                size -= chunk.bytes
                heappush(largest, (left + chunk.bytes, number, series, rest))
        return found
