"""Marks: how far the streams have come at the end of a micro-batch, and at which point each version took hold.

The foreachBatch of micro-batch n writes marks n, and the tasks of micro-batch n + 1 read them. So whether a row is late
depends on one number per stream, which a replay finds again, and all tasks agree on the points from which the edges of
new queries hold. Marks are small: their size depends on streams and versions, not on queries or groups.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from panewise.arrays import INT64_MIN
from panewise.spark.environment.folder import Folder
from panewise.spark.tasks.packing import Packet
from panewise.state.records import FORMAT, Record, check_format

MARKS_FORMAT = 1
KEPT = 50  # micro-batches whose marks are kept, for people to see; a restart needs the last two


@dataclass
class StreamMarks:
    """How far a stream has come: `greatest` and `oldest` are the greatest and the least timestamp of its rows, `floor`
    is the greatest punctuation, and `late_behind` is how far the latest row was behind `greatest`, in microseconds."""

    greatest: int | None = None
    floor: int | None = None
    rows: int = 0
    late_rows: int = 0
    bad_rows: int = 0
    oldest: int | None = None
    late_behind: int = 0

    def watermark(self, delay: int) -> int:
        floor = INT64_MIN if self.floor is None else self.floor
        return floor if self.greatest is None else max(floor, self.greatest - delay)

    def count(self, packet: Packet) -> None:
        """Counts what a task has seen of the stream."""
        if packet.greatest is not None:
            self.greatest = packet.greatest if self.greatest is None else max(self.greatest, packet.greatest)
        if packet.oldest is not None:
            self.oldest = packet.oldest if self.oldest is None else min(self.oldest, packet.oldest)
        if packet.floor is not None:
            self.floor = packet.floor if self.floor is None else max(self.floor, packet.floor)
        self.rows += packet.rows + packet.late_rows + packet.bad_rows
        self.late_rows += packet.late_rows
        self.late_behind = max(self.late_behind, packet.late_behind)
        self.bad_rows += packet.bad_rows

    @property
    def good_rows(self) -> int:
        return self.rows - self.late_rows - self.bad_rows

    @property
    def reached(self) -> int | None:
        """The last point that rows or punctuations have reached; None before the first of them."""
        points = [] if self.greatest is None else [self.greatest]
        if self.floor is not None:
            points.append(self.floor - 1)
        return max(points, default=None)


@dataclass
class Marks:
    """`since[version][stream]` is what the stream had reached when the version took hold, and its good rows so far."""

    batch: int = -1
    streams: dict[str, StreamMarks] = field(default_factory=dict)
    since: dict[int, dict[str, tuple[int | None, int]]] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    message: int = -1  # number of the last message of the inbox that was read

    def of(self, stream: str) -> StreamMarks:
        return self.streams.setdefault(stream, StreamMarks())

    def go_on(self, batch: int, versions: list[int]) -> None:
        """Makes these the marks of a micro-batch, before its packets are counted; `versions` have begun by then."""
        self.take_hold(versions)
        self.batch = batch

    def count(self, packet: Packet) -> None:
        """Counts what a task tells of a stream, or of a message."""
        if packet.message is not None:
            self.message = max(self.message, packet.message)
        if packet.stream:
            self.of(packet.stream).count(packet)

    def fail(self, log_name: str, reason: str) -> None:
        """Notes that a query has failed; its first reason stays."""
        self.failed.setdefault(log_name, reason)

    def take_hold(self, versions: list[int]) -> None:
        """Notes where the streams are for those of the versions that take hold with the next micro-batch."""
        for version in versions:
            if version not in self.since:
                self.since[version] = {name: (s.reached, s.good_rows) for name, s in self.streams.items()}

    def at(self, version: int, stream: str) -> tuple[int | None, int]:
        """What a stream had reached when a version took hold, and its good rows; (None, 0) if it had no rows yet."""
        return self.since[version].get(stream, (None, 0))

    def to_dict(self) -> dict[str, Any]:
        streams = {name: STREAM_MARKS.to_dict(stream) for name, stream in self.streams.items()}
        return {FORMAT: MARKS_FORMAT} | MARKS.to_dict(self) | {"streams": streams}

    @staticmethod
    def of_dict(data: dict[str, Any]) -> Marks:
        check_format(data, MARKS_FORMAT, "the record of a micro-batch's marks")
        marks = MARKS.of_dict(data)
        marks.streams = {name: STREAM_MARKS.of_dict(stream) for name, stream in data["streams"].items()}
        marks.since = {
            int(version): {key: tuple(at) for key, at in points.items()} for version, points in data["since"].items()
        }
        return marks


STREAM_MARKS = Record(StreamMarks, "greatest floor rows late_rows bad_rows oldest late_behind")
MARKS = Record(Marks, "batch streams since failed letter=message")


def read_marks(folder: Folder, batch: int) -> Marks:
    """The marks at the end of a micro-batch; empty ones before the first micro-batch."""
    if batch < 0:
        return Marks()
    data = folder.read_json(marks_file(batch))
    if data is None:
        raise FileNotFoundError(
            f"there are no marks of micro-batch {batch} in '{folder.place}': the driver and all workers must "
            "see the same folder"
        )
    return Marks.of_dict(data)


def write_marks(folder: Folder, marks: Marks) -> None:
    folder.write_json(marks_file(marks.batch), marks.to_dict())
    folder.remove(marks_file(marks.batch - KEPT))


def last_marks(folder: Folder) -> Marks:
    """The newest marks; empty ones before the first micro-batch."""
    numbers = folder.numbers("marks")
    return read_marks(folder, numbers[-1]) if numbers else Marks()


def next_batch(folder: Folder) -> int:
    """The first micro-batch whose offsets Spark has not written yet."""
    return max(folder.numbers("spark/offsets"), default=-1) + 1


def marks_file(batch: int) -> str:
    return f"marks/{batch:012d}.json"
