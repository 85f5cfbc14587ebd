"""Open slices against a dictionary: the same slices, one slot for each (slice, group), none shared."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from panewise.slicing.open_slices import OpenSlices
from panewise.slicing.pairs import Cadence, edge_classes
from panewise.slicing.window_set import WindowSet

WIDTH = 8
windows = st.lists(
    st.builds(Cadence, st.none() | st.integers(1, 40), st.integers(1, 25), st.integers(0, 9), st.integers(-9, 9)),
    min_size=1,
    max_size=3,
)


class Slices(RuleBasedStateMachine):
    """Rows in any order ahead of the watermark, edges that change, slices that close, in random sequences."""

    width: int | None = None

    @initialize(cadences=windows)
    def begin(self, cadences: list[Cadence]) -> None:
        self.open = OpenSlices(self.width)
        self.open.cut_from(-(2**63), WindowSet(cadences))
        self.epochs = [(-(2**63), cadences)]
        self.watermark = -1000
        self.reached = -1000  # no row has reached this point
        self.held: dict[tuple[int, int], dict[int, int]] = {}  # slice -> group -> slot
        self.slots_seen = 0

    def bounds(self, point: int) -> tuple[int, int]:
        index = max(i for i, (start, _) in enumerate(self.epochs) if start <= point)
        start, cadences = self.epochs[index]
        after = self.epochs[index + 1][0] if index + 1 < len(self.epochs) else 2**63 - 1
        slides, phases = edge_classes(cadences)
        low = max(
            point - (point - phase) % slide for slide, phase in zip(slides.tolist(), phases.tolist(), strict=True)
        )
        high = min(
            point - (point - phase) % slide + slide
            for slide, phase in zip(slides.tolist(), phases.tolist(), strict=True)
        )
        return max(low, start), min(high, after)

    @rule(rows=st.lists(st.tuples(st.integers(0, 200), st.integers(0, WIDTH - 1)), max_size=30))
    def assign(self, rows: list[tuple[int, int]]) -> None:
        self.take([(self.watermark + ahead, group) for ahead, group in rows])

    @rule(count=st.integers(60, 200), step=st.integers(1, 30))
    def assign_many(self, count: int, step: int) -> None:
        """More slices, and groups, than there is room for at first."""
        self.take([(self.watermark + i * step, i % WIDTH) for i in range(count)])

    def take(self, rows: list[tuple[int, int]]) -> None:
        points = np.array([point for point, _ in rows], np.int64)
        groups = np.array([group for _, group in rows], np.int64)
        slots = self.open.assign(points, groups).tolist()
        for (point, group), slot in zip(rows, slots, strict=True):
            self.reached = max(self.reached, point + 1)
            known = next((s for s in self.held if s[0] <= point < s[1]), None)
            slice_ = self.held.setdefault(known if known is not None else self.bounds(point), {})
            assert slice_.setdefault(group, slot) == slot
        assert all(0 <= slot < self.open.slots for slot in slots)

    @rule(cadences=windows)
    def cut(self, cadences: list[Cadence]) -> None:
        """At the first point that no row has reached; the slice around it ends there."""
        point = max(self.reached, self.watermark)
        self.open.cut_from(point, WindowSet(cadences))
        self.held = {(start, min(end, point)): groups for (start, end), groups in self.held.items()}
        assert self.open.has_edges_of(WindowSet(cadences))
        self.epochs = [(start, held) for start, held in self.epochs if start < point] + [(point, cadences)]

    @rule(ahead=st.integers(0, 150))
    def close(self, ahead: int) -> None:
        self.watermark += ahead
        count = self.open.closable(self.watermark)
        closing = sorted(slice_ for slice_ in self.held if slice_[1] <= self.watermark)
        assert count == len(closing)
        for position, slice_ in enumerate(closing):
            if self.width is None:
                slots, groups = self.open.entries_of(position)
                assert dict(zip(groups.tolist(), slots.tolist(), strict=True)) == self.held[slice_]
            del self.held[slice_]
        self.open.close(count)
        if count:
            self.open.forget_epochs(self.watermark)
            gone = max(sum(start <= self.watermark for start, _ in self.epochs[1:]) - 1, 0)
            self.epochs = [(-(2**63), self.epochs[gone][1]), *self.epochs[gone + 1 :]]

    @precondition(lambda self: self.held)
    @rule()
    def snapshot_and_restore(self) -> None:
        saved = {k: v.copy() if isinstance(v, np.ndarray) else v for k, v in self.open.snapshot().items()}
        self.open = OpenSlices(self.width)
        self.open.restore(saved)

    @invariant()
    def slices_are_the_same(self) -> None:
        if not hasattr(self, "open"):
            return
        found = list(zip(self.open.starts.tolist(), self.open.ends.tolist(), strict=True))
        assert found == sorted(self.held)
        slots = [slot for groups in self.held.values() for slot in groups.values()]
        assert len(slots) == len(set(slots)), "two (slice, group) pairs share a slot"


class DenseSlices(Slices):
    width = WIDTH


TestSparse = Slices.TestCase
TestDense = DenseSlices.TestCase


def test_an_ungrouped_row_has_the_slot_of_its_slice() -> None:
    open_ = OpenSlices(1)
    open_.cut_from(-(2**63), WindowSet([Cadence(10, 10)]))
    slots = open_.assign(np.array([1, 9, 10, -1]), np.empty(0, np.int64))
    assert slots[0] == slots[1]
    assert len({*slots[[0, 2, 3]].tolist()}) == 3
    assert open_.starts.tolist() == [-10, 0, 10]


@pytest.mark.parametrize("width", [None, 4])
@given(seed=st.integers(0, 2**32 - 1))
def test_long_runs_reuse_their_rooms(width: int | None, seed: int) -> None:
    random = np.random.default_rng(seed)
    open_ = OpenSlices(width)
    open_.cut_from(-(2**63), WindowSet([Cadence(7, 3)]))
    for step in range(30):
        points = random.integers(step * 20, step * 20 + 60, 50)
        open_.assign(points, random.integers(0, 4, 50))
        count = open_.closable(step * 20 + 20)
        for position in range(count if width is None else 0):
            open_.entries_of(position)
        open_.close(count)
    assert open_.slots == (1024 if width is None else 64 * 4)


def test_edges_at_the_ends_of_time() -> None:
    least, greatest = -62_135_596_800_000_000, 253_402_300_799_999_999
    open_ = OpenSlices(1)
    open_.cut_from(
        -(2**63), WindowSet([Cadence(315_537_897_599_999_999, 604_800_000_000, 315_537_897_599_999_999, greatest)])
    )
    open_.assign(np.array([least, greatest]), np.empty(0, np.int64))
    assert (open_.starts <= [least, greatest]).all()
    assert (open_.ends > [least, greatest]).all()
    assert (open_.ends - open_.starts <= 604_800_000_000).all()
