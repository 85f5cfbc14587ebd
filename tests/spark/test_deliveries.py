"""Results have the numbers of one count from the beginning, wherever a reader starts and whatever was removed."""

from __future__ import annotations

import tempfile

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from panewise.errors import DataError
from panewise.spark.environment.folder import Folder
from panewise.spark.ingest.inbox import Inbox
from panewise.spark.ingest.producers import NOTE
from panewise.spark.results import deliveries
from panewise.spark.results.batch_log import LogEntry, file_of, read_entries, write_entries
from panewise.spark.results.batch_stats import stats_file
from panewise.spark.results.deliveries import Deliveries, Delivery
from panewise.spark.tasks.batch_progress import Marks, write_marks
from panewise.spark.tasks.packing import LATE, RESULT

NAMES = ("p@0", "q@0", "q@3")
BATCH = st.dictionaries(st.sampled_from(NAMES), st.integers(1, 4))


class Pipeline:
    """Writes what micro-batches leave, as the batch writer does; rows hold their own numbers."""

    def __init__(self, folder: Folder) -> None:
        self.folder, self.batch = folder, -1
        self.totals: dict[str, int] = {}

    def run(self, rows: dict[str, int]) -> Marks:
        self.batch += 1
        entries = [LogEntry(LATE, "p@0", pa.table({"n": [0]}))] if self.batch % 3 == 0 else []
        for name, count in rows.items():
            first = self.totals.get(name, 0)
            entries.append(LogEntry(RESULT, name, pa.table({"n": list(range(first, first + count))})))
            self.totals[name] = first + count
        if entries:
            write_entries(self.folder, self.batch, entries)
        self.folder.write_json(stats_file(self.batch), {"queries": self.totals, "buckets": {}, "batch": self.batch})
        write_marks(self.folder, Marks(self.batch))
        return Marks(self.batch)


def numbered(deliveries: list[Delivery]) -> dict[str, list[int]]:
    """The rows by query; each has the number that it is delivered with."""
    found: dict[str, list[int]] = {}
    for delivery in deliveries:
        rows = delivery.table["n"].to_pylist()
        assert rows == list(range(delivery.first, delivery.first + len(rows)))
        found.setdefault(delivery.name, []).extend(rows)
    return found


@given(st.lists(BATCH, max_size=12), st.integers(0, 12), st.integers(0, 12))
def test_a_reader_that_starts_anywhere_finds_the_same_numbers(
    batches: list[dict[str, int]], start: int, removed: int
) -> None:
    with tempfile.TemporaryDirectory() as place:
        folder = Folder(place)
        folder.make("results", "stats", "marks")
        pipeline = Pipeline(folder)
        marks = Marks()
        for rows in batches[:start]:
            marks = pipeline.run(rows)
        for batch in range(min(removed, start)):
            folder.remove(file_of(batch))  # as the retention does
        reader = Deliveries(folder)
        found = numbered(reader.earlier(marks, set(NAMES), rows_most=1_000, bytes_most=1 << 30))
        for rows in batches[start:]:
            marks = pipeline.run(rows)
        for name, later in numbered(reader.since_then(marks)).items():
            found.setdefault(name, []).extend(later)
        kept = batches[min(removed, start, len(batches)) :]
        for name in NAMES:
            total, held = pipeline.totals.get(name, 0), sum(rows.get(name, 0) for rows in kept)
            assert found.get(name, []) == list(range(total - held, total))
            assert reader.total(name) == total
        assert reader.since_then(marks) == []


@given(st.lists(BATCH, min_size=1, max_size=12), st.integers(1, 6))
def test_a_start_reads_no_more_than_it_keeps(batches: list[dict[str, int]], most: int) -> None:
    with tempfile.TemporaryDirectory() as place:
        folder = Folder(place)
        folder.make("results", "stats", "marks")
        pipeline = Pipeline(folder)
        for rows in batches:
            marks = pipeline.run(rows)
        found = numbered(Deliveries(folder).earlier(marks, {"q@0"}, rows_most=most, bytes_most=1 << 30))
        assert set(found) <= {"q@0"}
        total = pipeline.totals.get("q@0", 0)
        rows_found = found.get("q@0", [])
        assert rows_found == list(range(total - len(rows_found), total))
        assert len(rows_found) >= min(total, most)


def test_what_could_not_be_read_is_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryDirectory() as place:
        folder = Folder(place)
        folder.make("results", "stats", "marks")
        pipeline = Pipeline(folder)
        reader = Deliveries(folder)
        for _ in range(3):
            marks = pipeline.run({"q@0": 2})

        def away(folder: Folder, batch: int, kind: str) -> list[LogEntry] | None:
            if batch == 1:
                raise OSError("the file system is away")
            return read_entries(folder, batch, kind)

        with monkeypatch.context() as patched:
            patched.setattr(deliveries, "read_entries", away)
            with pytest.raises(OSError, match="is away"):
                reader.since_then(marks)
        assert numbered(reader.since_then(marks)) == {"q@0": list(range(6))}


def test_a_numbered_push_is_taken_once_whatever_was_lost_in_between() -> None:
    batch = pa.record_batch({"v": [1]})
    with tempfile.TemporaryDirectory() as place:
        folder = Folder(place)
        folder.make("inbox", "producers")
        assert Inbox(folder).post_rows("s@0", [batch], ("p", 1))
        assert not Inbox(folder).post_rows("s@0", [batch], ("p", 1))
        assert Inbox(folder).post_rows("s@0", [batch], ("p", 2))
        assert len(folder.numbers("inbox")) == 2
        with pytest.raises(DataError, match="pushes between are missing"):
            Inbox(folder).post_rows("s@0", [batch], ("p", 4))
        # Ended after the note: message 2 is not there, and the push was not taken.
        folder.write_json(NOTE, {"stream": "s@0", "producer": "p", "sequence": 3, "letter": 2})
        inbox = Inbox(folder)
        assert inbox.last_sequence("s@0", "p") == 2
        inbox.post_rows("s@0", [batch])  # gets the number of the message that never was
        assert Inbox(folder).last_sequence("s@0", "p") == 2
        # Ended after the message: it is there, and was.
        folder.write_json(NOTE, {"stream": "s@0", "producer": "p", "sequence": 3, "letter": 2})
        assert Inbox(folder).last_sequence("s@0", "p") == 3
        assert Inbox(folder).last_sequence("other@0", "p") == 0
