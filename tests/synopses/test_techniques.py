"""Every technique by name x every kind of state x every type of window, in random sequences, against the oracle.

Sequences are those of the engine: slices arrive in batches, all windows that have come due are asked for in one call,
by end and shortest first, and what no window needs any more is evicted. In between groups come and go, strings get
other codes, windows go and their numbers come to mean others, and the state travels through a snapshot's bytes.

    one         a sliding window                         |---------|
    many        several ranges and slides             |------------|---|
    historical  windows that ended a while ago      |-------|  . . .
    irregular   by time, over slices of any length, empty where none lies within the range
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from panewise.aggregates import states
from panewise.aggregates.states import Feed, StateKind
from panewise.arrays import Floats, Ints
from panewise.state.snapshot_format import dumped, loaded
from panewise.synopses.synopsis import Synopsis
from panewise.synopses.techniques import TECHNIQUES, Technique, technique_named
from panewise.synopses.windows.recompute import RecomputeSynopsis
from tests.synopses.random_states import (
    CODES,
    INVERTIBLE,
    KINDS,
    RANKS,
    SELECTIVE,
    affine,
    code_fields,
    equal,
    named,
    partials,
)

WINDOW_TYPES = ("one", "many", "historical", "irregular")
ADMITTED = {"any": KINDS, "invertible": INVERTIBLE, "selective": SELECTIVE}
KINDS_NOW = (states.SUM_INTEGER, states.SUM_FLOAT, states.MAXIMUM[Feed.CODE])
EXAMPLES = max(3, settings.default.max_examples // 40)


@dataclass
class Sliding:
    """One sliding window: where its next report lies, and which slices that is about."""

    range_slices: int
    slide: int
    offset: int
    next_end: int

    def start(self, end: int, edges: list[int]) -> int:
        return end - self.offset - self.range_slices

    def due(self, after: int, edges: list[int]) -> Iterator[tuple[int, int]]:
        while self.next_end <= after:
            yield self.start(self.next_end, edges), self.next_end - self.offset
            self.next_end += self.slide


@dataclass
class SlidingInTime(Sliding):
    """The same by time: edge k is the instant at which slice k begins, and the range is one of time."""

    random: np.random.Generator = field(default_factory=np.random.default_rng)

    def start(self, end: int, edges: list[int]) -> int:
        return min(end, bisect.bisect_left(edges, edges[end] - self.range_slices))

    def due(self, after: int, edges: list[int]) -> Iterator[tuple[int, int]]:
        while self.next_end <= after:
            yield self.start(self.next_end, edges), self.next_end
            self.next_end += int(self.random.integers(1, 4))


def sliding(window_type: str, after: int, random: np.random.Generator) -> Sliding:
    longest = int(random.choice([3, 12, 90]))
    range_slices = int(random.integers(1, longest + 1))
    if window_type == "irregular":
        return SlidingInTime(range_slices, 0, 0, after + 1, random)
    # Slides that divide the range, ones that do not, and ones that leave gaps.
    slide = int(random.choice([1, 1, 2, 3, max(1, range_slices // 3), range_slices, range_slices + 2]))
    offset = int(random.integers(1, 9)) if window_type == "historical" else 0
    return Sliding(range_slices, slide, offset, after - after % slide + slide)


class Run:
    """A technique and the oracle, side by side."""

    def __init__(self, technique: Technique, kind: StateKind, window_type: str, seed: int) -> None:
        random = np.random.default_rng(seed)
        self.technique, self.kind, self.window_type = technique, kind, window_type
        self.tested: Synopsis = technique.made(kind, 2)
        self.oracle = RecomputeSynopsis(kind, 2)
        self.ranks = RANKS
        count = 1 if window_type == "one" else int(random.integers(2, 6))
        self.windows = [sliding(window_type, 0, random) for _ in range(count)]
        self.edges = [0]

    def step(self, action: str, seed: int) -> None:
        random = np.random.default_rng(seed)
        getattr(self, action)(random)
        tested, oracle = self.tested, self.oracle
        assert (tested.first, tested.after, tested.width) == (oracle.first, oracle.after, oracle.width)
        assert tested.bytes_held > 0

    def some(self, random: np.random.Generator) -> None:
        self._arrive(int(random.integers(0, 6)), random)

    def lots(self, random: np.random.Generator) -> None:
        self._arrive(int(random.integers(40, 150)), random)

    def _arrive(self, count: int, random: np.random.Generator) -> None:
        """A batch: slices close, windows come due, old slices go."""
        ints, floats = partials(self.kind, count, self.oracle.width, random)
        order = random.permutation(count)  # slices lie in any rooms of the matrix that they are taken from
        lying = np.argsort(order)
        shape = count * self.oracle.width
        rooms = ints[:, lying].reshape(len(ints), shape), floats[:, lying].reshape(len(floats), shape)
        self.tested.insert_from(*rooms, order.astype(np.int64), self.ranks)
        self.oracle.insert(ints, floats, self.ranks)
        for gap in random.integers(1, 9, count):
            self.edges.append(self.edges[-1] + int(gap))
        self._answer_due(random)
        needed = [max(0, min(window.start(window.next_end, self._edges_until(window.next_end)), self.oracle.after))
                  for window in self.windows]  # fmt: skip
        for synopsis in (self.tested, self.oracle):
            synopsis.evict(min(needed))

    def _edges_until(self, number: int) -> list[int]:
        """Edges up to a slice that may lie ahead: the earliest that they can be, so that nothing needed is evicted."""
        return self.edges + [self.edges[-1]] * max(0, number + 1 - len(self.edges))

    def _answer_due(self, random: np.random.Generator) -> None:
        first, after = self.oracle.first, self.oracle.after
        due = []
        for number, window in enumerate(self.windows):
            for start, end in window.due(after, self.edges):
                end = max(end, first)
                due.append((end, -min(end, max(start, first)), number))
        due.sort()
        groups = int(random.integers(1, self.oracle.width + 1)) if random.random() < 0.3 else None
        starts, ends = np.array([-d[1] for d in due], np.int64), np.array([d[0] for d in due], np.int64)
        numbers = np.array([d[2] for d in due], np.int64)
        self._compare(starts, ends, groups, None if len(self.windows) == 1 else numbers)

    def _compare(self, starts: Ints, ends: Ints, groups: int | None, windows: Ints | None) -> None:
        tested = self.tested.answer(starts, ends, self.ranks, groups, windows)
        wanted = self.oracle.answer(starts, ends, self.ranks, groups)
        for mine, theirs in zip(self._said(*tested), self._said(*wanted), strict=True):
            assert mine.shape == theirs.shape
            assert equal(mine, theirs), (starts, ends, windows, mine, theirs)

    def _said(self, ints: Ints, floats: Floats) -> tuple[Ints, Floats]:
        """The state of a row that was chosen says nothing where there is no row yet, but for that."""
        if self.kind.name.startswith("arg"):
            nothing = ints[3] < 0
            ints, floats = np.where(nothing, -1, ints), np.where(nothing, 0.0, floats)
        return ints, floats

    def back(self, random: np.random.Generator) -> None:
        """Windows in no order, as nobody slides: the answers are right, if not quick."""
        if self.technique.suffix_only:
            return
        pairs = np.sort(random.integers(self.oracle.first, self.oracle.after + 1, (6, 2)), axis=1)
        numbers = random.integers(0, len(self.windows), 6)
        self._compare(np.ascontiguousarray(pairs[:, 0]), np.ascontiguousarray(pairs[:, 1]), None, numbers)

    def replace(self, random: np.random.Generator) -> None:
        number = int(random.integers(0, len(self.windows)))
        self.tested.drop_window(number)
        self.windows[number] = sliding(self.window_type, self.oracle.after, random)

    def widen(self, random: np.random.Generator) -> None:
        width = self.oracle.width + int(random.integers(0, 3))
        self.tested.widen(width)
        self.oracle.widen(width)

    def regroup(self, random: np.random.Generator) -> None:
        kept = random.permutation(self.oracle.width)[: int(random.integers(1, self.oracle.width + 1))]
        width = len(kept) + int(random.integers(0, 2))
        self.tested.regroup(kept, width)
        self.oracle.regroup(kept, width)

    def restore(self, random: np.random.Generator) -> None:
        saved = loaded(dumped(self.tested.snapshot()))
        self.tested = self.technique.made(self.kind, 1)
        self.tested.restore(saved)

    def recode(self, random: np.random.Generator) -> None:
        """The pool of strings forgets those that no slice holds, and gives the others new codes."""
        fields = code_fields(self.kind)
        if not fields or not hasattr(self.tested, "int_arrays"):
            return
        held = self.oracle.snapshot()["ints"]
        width = self.oracle.width
        live = {int(code) for ints in held for place in fields for code in ints.reshape(-1, width)[place]}
        renamed = np.where(np.isin(np.arange(CODES), list(live)), random.permutation(CODES), -1)
        ranks = np.zeros(CODES, np.int64)
        ranks[renamed[renamed >= 0]] = self.ranks[renamed >= 0]
        free = np.setdiff1d(np.arange(CODES), renamed)  # codes of new strings, which sort somewhere
        ranks[free] = np.setdiff1d(np.arange(CODES), self.ranks[renamed >= 0])
        self.ranks = ranks
        for array in [*self.tested.int_arrays(), *(ints for ints, _ in self.oracle._slices)]:
            for place in fields:
                array[place] = np.where(array[place] >= 0, renamed[array[place]], -1)


ACTIONS = ["some", "some", "some", "some", "lots", "back", "replace", "widen", "regroup", "restore", "recode"]
steps = st.lists(st.tuples(st.sampled_from(ACTIONS), st.integers(0, 2**32 - 1)), min_size=4, max_size=20)


def check(technique: Technique, kind: StateKind, window_type: str, seed: int, actions: list[tuple[str, int]]) -> None:
    run = Run(technique, kind, window_type, seed)
    for action, number in [*actions, ("some", 1), ("restore", 2), ("some", 3)]:
        run.step(action, number)


def pairs(*, admitted: bool) -> list[tuple[str, StateKind]]:
    """The oracle is no test of itself."""
    return [
        (name, kind)
        for name, technique in TECHNIQUES.items()
        for kind in KINDS
        if (kind in admitted_by(technique)) == admitted and (not admitted or name != "recompute")
    ]


def admitted_by(technique: Technique) -> list[StateKind]:
    return [*ADMITTED[technique.needs], *(INVERTIBLE if technique.of_invertible else [])]


def types_of(technique: Technique) -> list[str]:
    return [w for w in WINDOW_TYPES if not (technique.suffix_only and w == "historical")]


def now_or_soak(name: str, kind: StateKind) -> object:
    """All pairs would compile for minutes: the files of the techniques have more of them, `make soak` has all."""
    return pytest.param(name, kind, marks=[] if kind in KINDS_NOW else pytest.mark.soak)


@pytest.mark.parametrize(("name", "kind"), [now_or_soak(*pair) for pair in pairs(admitted=True)], ids=named)
@settings(max_examples=EXAMPLES)
@given(seed=st.integers(0, 2**32 - 1), actions=steps)
def test_answers_of_the_oracle(name: str, kind: StateKind, seed: int, actions: list[tuple[str, int]]) -> None:
    technique = technique_named(name)
    for window_type in types_of(technique):
        check(technique, kind, window_type, seed, actions)


ORDERED = [name for name, technique in TECHNIQUES.items() if technique.needs == "any" and name != "recompute"]
# A user's aggregate is compiled in every process, half a minute for all techniques.
ORDERED_NOW = ("two_stacks",)


@pytest.mark.parametrize("name", [pytest.param(n, marks=[] if n in ORDERED_NOW else pytest.mark.soak) for n in ORDERED])
def test_the_order_of_slices_is_kept(name: str) -> None:
    """States of a user's aggregate, which do not commute."""
    technique = technique_named(name)
    assert technique.refusal(affine()) is None
    for window_type in types_of(technique):
        actions = [("some", seed) for seed in range(6)]
        check(technique, affine(), window_type, 7, [*actions, ("lots", 9), ("back", 10), ("replace", 11), *actions])


@pytest.mark.parametrize(("name", "kind"), pairs(admitted=True), ids=named)
def test_admissible_pairs_are_admitted(name: str, kind: StateKind) -> None:
    assert technique_named(name).refusal(kind) is None


@pytest.mark.parametrize(("name", "kind"), pairs(admitted=False), ids=named)
def test_inadmissible_pairs_are_refused(name: str, kind: StateKind) -> None:
    reason = technique_named(name).refusal(kind)
    assert reason is not None
    assert kind.name in reason


@pytest.mark.parametrize("technique", TECHNIQUES.values(), ids=lambda technique: technique.name)
def test_user_aggregates_are_neither_subtracted_nor_selected(technique: Technique) -> None:
    assert (technique.refusal(affine()) is None) == (technique.needs == "any")


@pytest.mark.parametrize("technique", TECHNIQUES.values(), ids=lambda technique: technique.name)
def test_windows_of_the_past_are_refused_by_techniques_of_suffixes(technique: Technique) -> None:
    kind = ADMITTED[technique.needs][0]
    assert technique.refusal(kind, offset=0) is None
    assert (technique.refusal(kind, offset=1) is not None) == technique.suffix_only


@pytest.mark.parametrize("technique", TECHNIQUES.values(), ids=lambda technique: technique.name)
def test_a_technique_says_what_it_costs_and_whence_it_comes(technique: Technique) -> None:
    assert technique.cost
    assert technique.source
    assert technique_named(technique.name.upper()) is technique


def test_the_classes_of_kinds_are_those_of_their_algebra() -> None:
    """What the lists above say by hand, the algebra of each kind says too: sums of doubles do not subtract exactly."""
    assert [kind for kind in KINDS if kind.algebra.invertible] == INVERTIBLE
    assert [kind for kind in KINDS if kind.algebra.selective] == SELECTIVE
    assert states.SUM_FLOAT not in INVERTIBLE
    assert {feed for kind in KINDS for feed in kind.feeds} == set(Feed)
