"""What a stream may close in a micro-batch (`window_limit`): the same in every task, from the marks before it.

The watermark stands until the micro-batch ends, so its rows count from the oldest to the newest. A task sees its own
rows only. That matters in the first micro-batch with rows, where no mark limits them: then the buckets, which hear of
the rows of all tasks, fail the queries whose windows would be too many. How far a row is ahead of the clock is judged
by what it showed before the micro-batch ran (`batch_clock`), so that a retry judges alike.
"""

from __future__ import annotations

from panewise.engine.ingest.window_limit import Extent, WindowLimit, ahead_of, reach_of
from panewise.spark.program.program import Program
from panewise.spark.program.version import Version
from panewise.spark.tasks.batch_progress import Marks


def extent_of(marks: Marks, stream: str) -> Extent:
    """Of the rows of all micro-batches before."""
    of_stream = marks.of(stream)
    return Extent(of_stream.greatest, of_stream.oldest)


def limit_of(program: Program, version: Version, marks: Marks, stream: str, now: int | None) -> WindowLimit:
    """Of rows in the next micro-batch, and of punctuations. `now`: what the clock showed when it began."""
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
    """The oldest row that periodic queries have seen which wait for this stream too: they report from there on."""
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
