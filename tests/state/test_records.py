"""Dataclasses as they are written down: names that stay, and a number for their format."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from panewise.errors import SnapshotError
from panewise.spark.buckets.bucket_head import Head, Page, PagePart
from panewise.spark.tasks.batch_progress import Marks, StreamMarks
from panewise.state.records import FORMAT, Record, check_format
from panewise.state.snapshot_format import dumped, loaded


@dataclass
class Thing:
    name: str
    size: int = 1
    seen: list[str] = field(default_factory=list)


def test_a_field_may_be_renamed_added_and_taken_away() -> None:
    record = Record(Thing, "label=name size", unwritten="seen")
    assert record.to_dict(Thing("a", 2, ["x"])) == {"label": "a", "size": 2}
    assert record.of_dict({"label": "a", "size": 2}) == Thing("a", 2)
    assert record.of_dict({"label": "a", "of old": None}) == Thing("a")
    with pytest.raises(SnapshotError, match="a Thing lacks label"):
        record.of_dict({"name": "a"})


def test_every_field_is_written_or_said_not_to_be() -> None:
    with pytest.raises(AssertionError, match="fields of Thing without a name"):
        Record(Thing, "name size")


@pytest.mark.parametrize("format", [2, 0, "1"])
def test_a_format_that_nobody_knows_is_refused_in_words(format: object) -> None:
    check_format({}, 1, "it")
    with pytest.raises(SnapshotError, match=f"it has format {format}, and this panewise reads formats up to 1"):
        check_format({FORMAT: format}, 1, "it")


def test_heads_and_marks_come_back_and_newer_ones_are_refused() -> None:
    head = Head(3, [(7, "t")], [Page(1, 0, 2, 7, 90, [PagePart(0, 1, 2, 90)])], 2, None, {"since": {}}, written=5)
    again = Head.unpacked(head.packed())
    head.written = 0
    assert again == head
    with pytest.raises(SnapshotError, match="the head of a bucket has format 99"):
        Head.unpacked(dumped(loaded(head.packed()) | {FORMAT: 99}))
    marks = Marks(4, {"s": StreamMarks(9, None, 5)}, {2: {"s": (8, 4)}}, {"q": "why"}, 3)
    assert Marks.of_dict(marks.to_dict()) == marks
    with pytest.raises(SnapshotError, match="the record of a micro-batch's marks has format 99"):
        Marks.of_dict(marks.to_dict() | {FORMAT: 99})
