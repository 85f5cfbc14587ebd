"""How many windows a stream may close in a micro-batch (`window_limit`), from the marks before it.

The watermark does not move until the micro-batch ends, so the span from the oldest to the newest row counts. A task
sees only its own rows. That matters in the first micro-batch with rows, which no marks limit: there the buckets, which
get the extents of all tasks, fail the queries that would close too many windows. Whether a row is too far ahead of the
clock is judged by the clock's time before the micro-batch ran (`batch_clock`), so that a retry judges alike.
"""

from __future__ import annotations

from panewise.engine.ingest.window_limit import Extent, WindowLimit, ahead_of, reach_of
from panewise.spark.program.program import Program
from panewise.spark.program.version import Version
from panewise.spark.tasks.batch_progress import Marks


def extent_of(marks: Marks, stream: str) -> Extent:
    """The oldest and the newest row of all micro-batches before."""
    of_stream = marks.of(stream)
    return Extent(of_stream.greatest, of_stream.oldest)


def limit_of(program: Program, version: Version, marks: Marks, stream: str, now: int | None) -> WindowLimit:
    """The limit of rows in the next micro-batch, and of punctuations. `now` is the clock's time when it began."""
    of_stream, delay = marks.of(stream), version.streams[stream].delay_us
    slides = [
        slide
        for fragment in program.fragments_over(version, stream)
        for query in version.hosted(fragment).values()
        if (slide := query.block.slide_us) is not None
    ]
    return WindowLimit(
        delay,
        reach=reach_of(min(slides, default=None)),
        stands=of_stream.watermark(delay),
        others_begun=lambda: _begun_beside(program, version, marks, stream),
        now=now,
        ahead=ahead_of(program.options(stream)),
    )


def _begun_beside(program: Program, version: Version, marks: Marks, stream: str) -> int | None:
    """The oldest row of other streams that periodic queries over both have seen: their reports begin there."""
    begun = []
    for fragment in program.fragments_over(version, stream):
        beside = [other for other in fragment.streams if other != stream]
        oldest = [time for other in beside if (time := marks.of(other).oldest) is not None]
        for query in version.hosted(fragment).values() if oldest else ():
            if query.block.slide_us is not None:
                points = marks.since.get(query.created, {})
                came = [
                    reached - version.streams[other].delay_us
                    for other in beside
                    if (reached := points.get(other, (None, 0))[0]) is not None
                ]
                begun.append(max([min(oldest), *came]))
    return min(begun, default=None)
