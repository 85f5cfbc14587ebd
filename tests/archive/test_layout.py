"""Which sub-index a row belongs to, which an update touches: against algorithm 1 as written, and by counting."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from panewise.archive.archive import Archive
from panewise.archive.layout import Layout
from panewise.errors import ArchiveError
from tests.archive.plain_table import SCHEMA, table_of


class AlgorithmOne:
    """Golab 2006, algorithm 1, with ranges as lists; sub-indices are numbered from 1, instants are whole."""

    def __init__(self, tau: int, g: int, e: int, s: int, delta: int) -> None:
        self.s, self.delta = s, delta
        self.insertion: dict[int, list[tuple[int, int]]] = {number: [] for number in range(1, g * e + 1)}
        self.expiration: dict[int, list[tuple[int, int]]] = {number: [] for number in range(1, g * e + 1)}
        for i in range(s // (delta * g)):
            for j in range(g):
                own = (tau - s + (i * g + j) * delta + 1, tau - s + (i * g + j + 1) * delta)
                for number in range(j * e + 1, (j + 1) * e + 1):
                    self.insertion[number].append(own)
        for i in range(s // (delta * e)):
            for j in range(e):
                own = (tau + (i * e + j) * delta + 1, tau + (i * e + j + 1) * delta)
                for number in range(j + 1, g * e + 1, e):
                    self.expiration[number].append(own)

    def update(self, now: int) -> set[int]:
        touched = set()
        for ranges, left in ((self.expiration, 0), (self.insertion, self.s)):
            for number, own in ranges.items():
                ending = (now - left - self.delta + 1, now - left)
                if ending in own:
                    own.remove(ending)
                    own.append((ending[0] + self.s, ending[1] + self.s))
                    touched.add(number)
        return touched

    def place(self, inserted: int, expires: int) -> int:
        (found,) = [
            number
            for number in self.insertion
            if any(low <= inserted <= high for low, high in self.insertion[number])
            and any(low <= expires <= high for low, high in self.expiration[number])
        ]
        return found


@pytest.mark.parametrize(("g", "e"), [(2, 2), (3, 3), (4, 4), (2, 3), (1, 6), (6, 1)])
def test_round_robin_is_algorithm_one(g: int, e: int) -> None:
    delta, s, tau = 2, 24, 48
    layout, algorithm = Layout(g, e, delta, s), AlgorithmOne(tau, g, e, s, delta)
    numbers: dict[int, int] = {}  # ours for theirs: theirs count from the first slot, wherever it begins
    for now in range(tau + delta, tau + 2 * s, delta):
        touched = algorithm.update(now)
        for inserted in range(now - s + 1, now + 1):
            for expires in range(now + 1, min(now, inserted) + s + 1):
                ours = layout.place(inserted, expires)
                assert numbers.setdefault(algorithm.place(inserted, expires), ours) == ours
        assert {numbers[number] for number in touched} == layout.touched(now)
    assert len(set(numbers.values())) == g * e


@given(
    st.integers(1, 6), st.integers(1, 6), st.sampled_from(["round_robin", "chronological"]),
    st.integers(-10_000, 10_000), st.integers(0, 50),
)  # fmt: skip
def test_an_update_touches_a_row_and_a_column(g: int, e: int, order: str, now: int, origin: int) -> None:
    layout = Layout(g, e, 7, 7 * 36, order=order, origin_us=origin)  # type: ignore[arg-type]
    touched = layout.touched(now)
    assert len(touched) == g + e - 1
    slot_begin = origin + (layout.slot(now) - 1) * 7
    for inside in range(slot_begin + 1, slot_begin + 8):
        # Whatever is inserted in this slot, and whatever expires in it.
        assert {layout.place(inside, inside + life) for life in range(1, 300, 5)} <= touched
        assert {layout.place(inside - life, inside) for life in range(1, 300, 5)} <= touched


@given(st.sampled_from(["round_robin", "chronological"]), st.integers(-500, 500), st.integers(0, 100))
def test_an_update_after_a_pause_touches_all_slots_since(order: str, before: int, pause: int) -> None:
    layout = Layout(3, 4, 5, 60, order=order)  # type: ignore[arg-type]
    touched = layout.touched(before + pause, before)
    slots = {min(before + later, before + pause) for later in range(0, pause + 5, 5) if later} | {before + pause}
    assert touched == frozenset().union(
        *(layout.touched(at) for at in slots if layout.slot(at) > layout.slot(before) or at == before + pause)
    )


def test_what_updates_write_is_what_they_touch(tmp_path: object) -> None:
    """Every sub-index that an update changes is one of the G + E - 1, and in a full index all of them change."""
    layout = Layout(4, 4, 10, 160)
    archive = Archive.create(str(tmp_path), SCHEMA, key="key", layout=layout, grace_s=0)
    counts = []
    for now in range(10, 400, 10):
        rows = [
            (1, "", now - part, now - part + life) for part in range(10) for life in range(1, 161, 4) if life > part
        ]
        done = archive.update(now, table_of(rows))
        assert done.touched <= layout.touched(now)
        counts.append(len(done.touched))
    assert set(counts[20:]) == {7}


def test_names_and_refusals() -> None:
    assert Layout(4, 4, 1, 9, "chronological", "no_rebuild").name == "NoRebuild4x4chr"
    assert Layout.wave_by_insertion(16, 1, 9).name == "R-ins16"
    assert Layout.wave_by_expiration(9, 1, 9, "no_rebuild").name == "D-exp9"
    assert Layout.from_dict(Layout(2, 3, 5, 70, origin_us=4).to_dict()) == Layout(2, 3, 5, 70, origin_us=4)
    for wrong in (
        (0, 2, 1, 9),
        (40, 40, 1, 9),
        (2, 2, 0, 9),
        (2, 2, 10, 9),
        (2, 2, 1, 9, "sorted"),
        (2, 2, 1, 9, "chronological", "x"),
    ):
        with pytest.raises(ArchiveError):
            Layout(*wrong)  # type: ignore[arg-type]
