"""The shortest slide of the reports that the rows of each stream cause: the limit of windows follows from it.

A query that comes can only shorten it. Where a query goes that had the shortest one, it is found anew when somebody
asks, in a pass over all queries. Everything else takes constant time.
"""

from __future__ import annotations


class ShortestSlides:
    """By stream, as its id."""

    def __init__(self) -> None:
        self._slide_of: dict[str, tuple[int, list[int]]] = {}  # by query: how often it reports, and the streams' ids
        self._shortest: dict[int, int] | None = {}  # by stream; None: to be found anew

    def shortest(self) -> dict[int, int]:
        """In microseconds; a stream that causes no report by time is not there."""
        if self._shortest is None:
            self._shortest = {}
            for slide, streams in self._slide_of.values():
                _shorten(self._shortest, slide, streams)
        return self._shortest

    def note(self, query: str, slide_us: int, streams: list[int]) -> None:
        """A query has come."""
        self._slide_of[query] = slide_us, streams
        if self._shortest is not None:
            _shorten(self._shortest, slide_us, streams)

    def forget(self, query: str) -> None:
        """A query has gone, which may have no slide."""
        slide, streams = self._slide_of.pop(query, (0, []))
        if self._shortest is not None and any(self._shortest[stream] == slide for stream in streams):
            self._shortest = None


def _shorten(shortest: dict[int, int], slide: int, streams: list[int]) -> None:
    for stream in streams:
        shortest[stream] = min(slide, shortest.get(stream, slide))
