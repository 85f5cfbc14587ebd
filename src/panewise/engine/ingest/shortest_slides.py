"""The shortest slide of the queries that read each stream, directly or not. The limit of windows follows from it.

A new query can only shorten it. When a query with the shortest slide is dropped, the shortest slide is found again in a
pass over all queries, when it is needed. Everything else takes constant time.
"""

from __future__ import annotations


class ShortestSlides:
    """The shortest slide by the id of each stream."""

    def __init__(self) -> None:
        self._slide_of: dict[str, tuple[int, list[int]]] = {}  # By query: its slide, and its streams.
        self._shortest: dict[int, int] | None = {}  # By stream; None: to be found again.

    def shortest(self) -> dict[int, int]:
        """The shortest slides in microseconds, without streams whose rows cause no reports by time."""
        if self._shortest is None:
            self._shortest = {}
            for slide, streams in self._slide_of.values():
                _shorten(self._shortest, slide, streams)
        return self._shortest

    def note(self, query: str, slide_us: int, streams: list[int]) -> None:
        """A query was created."""
        self._slide_of[query] = slide_us, streams
        if self._shortest is not None:
            _shorten(self._shortest, slide_us, streams)

    def forget(self, query: str) -> None:
        """A query was dropped, which may have no slide."""
        slide, streams = self._slide_of.pop(query, (0, []))
        if self._shortest is not None and any(self._shortest[stream] == slide for stream in streams):
            self._shortest = None


def _shorten(shortest: dict[int, int], slide: int, streams: list[int]) -> None:
    for stream in streams:
        shortest[stream] = min(slide, shortest.get(stream, slide))
