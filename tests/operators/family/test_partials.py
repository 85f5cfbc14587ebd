"""Trees fed by other trees say what one tree says that is fed the rows, whatever happens in between.

A script is drawn from a seed alone: drawn step by step by hypothesis, nearly all scripts would be too short to hold a
query that joins while slices are open and a fault while they are still needed.
"""

from __future__ import annotations

from datetime import timedelta
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from panewise.arrays import INT64_MIN
from panewise.operators.family import eviction as forgetting
from panewise.operators.family import family_slices
from panewise.operators.family.family import Family
from panewise.plan import physical_plan as physical
from panewise.slicing.pairs import Cadence
from tests.engine.random_scripts import CONDITIONS, CONDITIONS_OF_GROUPS, EPOCH, EXACT, GROUPS, HELD, ROUNDED
from tests.operators.family.spread_families import Spread, aggregation, block, rows_of

USER = ("NEWEST(x)", "NEWEST(v)", "PARITY(v)", "PARITY(i)", "LARGEST_PRODUCT(v, x)")
AHEAD = (-1, -1, 0, 0, 1, 7, 30)
CHANGES = "add add add remove remove rebuild rebuild shadow fewer_pages new_tasks".split()
seeds = st.integers(0, 2**32 - 1)
# Each takes half a second: a quarter of them, but in long runs.
EXAMPLES = settings.default.max_examples
FEWER = settings(max_examples=EXAMPLES if EXAMPLES > 1_000 else EXAMPLES // 4)


class Dice:
    """A script from a seed: queries over one selection and grouping, rows, changes and faults."""

    def __init__(self, seed: int, grouped: bool) -> None:
        self.random = Random(seed)
        self.group = self.random.choice([name for name in GROUPS if bool(name) is grouped])
        self.condition = self.random.choice(CONDITIONS)
        # Few of each, so that queries share states, edges and cursors, and those that join find history.
        self.items = self.random.sample(EXACT + ROUNDED + USER, 3)
        if self.random.random() < 0.5:
            self.items = [*self.random.sample(HELD, 2), *self.items[:1]]
        self.slides = [self.random.randint(3, 60) for _ in range(2)]
        self.ranges = [self.random.randint(3, 150) for _ in range(2)]
        self.shifted = self.random.random() < 0.6
        if not self.shifted:
            slide = self.random.randint(3, 20)
            self.slides = [slide, 2 * slide, 3 * slide]
            self.ranges = [2 * slide, 4 * slide, 9 * slide]

    def select(self) -> str:
        items = self.random.sample(self.items, self.random.randint(1, 3))
        names = [f"{part} AS g{at}" for at, part in enumerate(self.group.split(", "))] if self.group else []
        columns = names + [f"{item} AS a{at}" for at, item in enumerate(items)]
        text = f"SELECT {', '.join(columns)} FROM t [RANGE 1 SECOND SLIDE 1 SECOND]"
        text += f" WHERE {self.condition}" if self.condition else ""
        text += f" GROUP BY {self.group}" if self.group else ""
        having = self.random.choice(CONDITIONS_OF_GROUPS)
        return text + (f" HAVING {having}" if having else "")

    def cadence(self) -> Cadence:
        choice = self.random.choice
        offset, align = (choice([0, 0, 0, 3, 20]), choice([0, 0, 0, 5, -7])) if self.shifted else (0, 0)
        return Cadence(choice(self.ranges), choice(self.slides), offset, align)

    def rows(self, base: int) -> list[dict[str, Any]]:
        """Ahead of the watermark, many at one instant: then it matters which of them came first."""
        reach = self.random.choice([1, 10, 70])
        return [self.row(base + self.random.randint(0, reach)) for _ in range(self.random.randint(0, 15))]

    def row(self, ts: int) -> dict[str, Any]:
        choice, number = self.random.choice, self.random.randint
        return {
            "ts": EPOCH + timedelta(microseconds=ts),
            "k": choice(("a", "a", "b", "c", "", None)),
            "i": choice((None, number(-5, 9))),
            "v": choice((None, number(-5, 9), number(-5, 9))),
            "x": choice((number(-5, 9) / 4, number(-5, 9) / 4, None, float("nan"), float("inf"), -0.0)),
            "w": choice(("", "p", "q", "é", None)),
            "b": choice((True, False, None)),
        }


def play(seed: int, grouped: bool, dense_groups: int, buckets: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(physical, "SPARSE_ABOVE", dense_groups)
        patch.setattr(forgetting, "FORGET_FROM", -1000)  # idle groups and strings are looked for at every step
        patch.setattr(family_slices, "FAST_PATH_FROM", 1)
        dice = Dice(seed, grouped)
        number = dice.random.randint
        first = dice.select()
        spread = Spread(aggregation(first).keys, block(first).where, buckets)
        spread.add("q0", first, dice.cadence(), 0)
        for extra in range(number(0, 2)):
            spread.add(f"p{extra}", dice.select(), dice.cadence(), 0)
        now = number(-60, 0)
        for turn in range(1, number(10, 30)):
            if turn > 2 and number(0, 9) < 7:
                change = dice.random.choice(CHANGES)
                if change == "add":
                    spread.add(f"q{turn}", dice.select(), dice.cadence(), dice.random.choice(AHEAD))
                elif change == "remove":
                    spread.remove(number(0, 9), dice.random.choice(AHEAD))
                elif change == "new_tasks":
                    spread.new_tasks()
                else:
                    getattr(spread, change)(number(0, 9))
            rows = dice.rows(now)
            now += dice.random.choice([0, 1, 5, 5, 12, 12, 30, 30, 100])
            spread.step(rows, [number(0, 6), number(0, 6)], now)
        spread.step([], [0, 0], now + 200)


@FEWER
@given(seeds, st.integers(1, 3))
def test_groups_in_buckets(seed: int, buckets: int) -> None:
    play(seed, True, 4096, buckets)


@FEWER
@given(seeds, st.sampled_from([0, 1, 3]), st.integers(1, 2))
def test_groups_that_become_many(seed: int, dense_groups: int, buckets: int) -> None:
    """With 0 every tree is sparse from its first row on, otherwise when it has so many groups."""
    play(seed, True, dense_groups, buckets)


@FEWER
@given(seeds)
def test_without_groups(seed: int) -> None:
    play(seed, False, 4096, 1)


# -- by hand ---------------------------------------------------------------------------------------------------------


COUNTED = "SELECT k AS g0, COUNT(*) AS a0 FROM t [RANGE 1 SECOND SLIDE 1 SECOND] GROUP BY k"


def rows_at(*instants: int) -> list[dict[str, Any]]:
    """One row at each."""
    blank = {"k": "a", "i": 1, "v": 1, "x": 1.0, "w": "", "b": True}
    return [blank | {"ts": EPOCH + timedelta(microseconds=ts)} for ts in instants]


def test_pages_that_only_a_later_query_needs() -> None:
    """Windows far apart need nothing for long; a query that joins needs what comes from then on all the same.

    rows       3   6  7  |  9                    far      [999 1000)
    watermark      5     7                       near  [4 6) [6 8) [8 10)
    """
    spread = Spread(aggregation(COUNTED).keys, None, 1)
    spread.add("far", COUNTED, Cadence(1, 1000), 0)
    spread.step(rows_at(3), [1, 0], 5)
    spread.add("near", COUNTED, Cadence(2, 2), 0)
    spread.step(rows_at(6, 7), [1, 0], 7)
    spread.rebuild(0)
    spread.step(rows_at(9), [1, 0], 10)
    assert spread.buckets[0].tree.members["near"].reported >= 10


def test_a_query_that_joins_with_history(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cursor that has gone past the first report of a query that joins turns back, in every tree alike."""
    monkeypatch.setattr(physical, "SPARSE_ABOVE", 0)
    spread = Spread(aggregation(COUNTED).keys, None, 2)
    spread.add("short", COUNTED, Cadence(20, 10), 0)
    spread.add("long", COUNTED, Cadence(90, 10), 0)
    spread.step(rows_at(22, 22, *range(0, 52, 3)), [4, 4], 52)
    spread.add("joins", COUNTED, Cadence(20, 20), 0)
    found = spread.one.due()["joins"]
    assert [batch.column("a0").to_pylist() for batch in found] == [[9]], "the rows 21, 24, ... 39 and 22, twice"


def test_a_query_that_joins_before_any_watermark() -> None:
    """Slices that are open already may straddle its windows: its first one begins at the cut or later.

    rows           1        4 |5    8            all   |0               10)
                                                 fine  |0    3)|3    6)|6    9)
    """
    tree = Family(aggregation(COUNTED).keys, None)
    tree.add("all", aggregation(COUNTED), Cadence(10, 10), INT64_MIN)
    tree.fold(rows_of(rows_at(1, 4), 0))
    tree.add("fine", aggregation(COUNTED), Cadence(3, 3), 5)
    tree.fold(rows_of(rows_at(5, 8), 2))
    reports = tree.advance(10)
    assert [batch.column("a0").to_pylist() for batch in reports["all"]] == [[4]]
    assert [batch.column("a0").to_pylist() for batch in reports["fine"]] == [[1]]


def test_partials_of_other_members() -> None:
    """States are known by name: one that a batch lacks is empty, one that nobody keeps is left out."""
    two = "SELECT k AS g0, SUM(v) AS a0, MAX(w) AS a1 FROM t [RANGE 1 SECOND SLIDE 1 SECOND] GROUP BY k"
    folds = Family(aggregation(two).keys, None)
    folds.add("q", aggregation(two), Cadence(10, 10), INT64_MIN)
    folds.fold(rows_of(rows_at(1, 2), 0))
    merges = Family(aggregation(two).keys, None)
    merges.add("sum", aggregation(two.replace(", MAX(w) AS a1", "")), Cadence(10, 10), INT64_MIN)
    merges.add("last", aggregation(two.replace("MAX(w)", "LAST(w)")), Cadence(10, 10), INT64_MIN)
    partials = folds.take_partials()
    assert partials is not None and folds.take_partials() is None
    merges.merge(partials)
    reports = merges.advance(10)
    assert [batch.column("a0").to_pylist() for batch in reports["sum"]] == [[2]]
    assert [batch.column("a1").to_pylist() for batch in reports["last"]] == [[None]]


def test_a_worker_does_not_hoard(monkeypatch: pytest.MonkeyPatch) -> None:
    """Groups and strings of micro-batches long gone leave a tree that only folds."""
    monkeypatch.setattr(forgetting, "FORGET_FROM", 50)
    text = "SELECT k AS g0, MAX(w) AS a0 FROM t [RANGE 1 SECOND SLIDE 1 SECOND] GROUP BY k"
    tree = Family(aggregation(text).keys, None, folds_only=True)
    tree.add("q", aggregation(text), Cadence(10, 10), INT64_MIN)
    for turn in range(40):
        rows = [row | {"k": f"k{turn}-{i}", "w": f"w{turn}-{i}"} for i, row in enumerate(rows_at(*[turn] * 20))]
        tree.fold(rows_of(rows, 0))
        partials = tree.take_partials()
        assert partials is not None and sorted(partials.column("key_0").to_pylist()) == sorted(r["k"] for r in rows)
        assert tree.group_count <= 130 and all(len(pool) <= 130 for pool in tree.store.pools.values())


@pytest.mark.parametrize("dense_groups", [0, 4096])
def test_a_query_that_fails_between_cuts(monkeypatch: pytest.MonkeyPatch, dense_groups: int) -> None:
    """It leaves without a cut: edges stay as they are for all trees, and what only it needed goes all the same."""
    monkeypatch.setattr(physical, "SPARSE_ABOVE", dense_groups)
    spread = Spread(aggregation(COUNTED).keys, None, 2)
    spread.add("short", COUNTED, Cadence(20, 10), 0)
    spread.add("long", COUNTED, Cadence(90, 7), 0)
    spread.step(rows_at(*range(0, 52, 3)), [4, 4], 52)
    del spread.texts["long"]
    for tree in (spread.one, *(tree for bucket in spread.buckets for tree in (bucket.tree, bucket.shadow))):
        tree.remove("long")  # the tasks learn it later
    for begin in range(60, 400, 20):
        spread.step(rows_at(begin, begin + 9), [1, 0], begin)
    assert len(spread.one.store.starts) < 10
    spread.add("joins", COUNTED, Cadence(20, 5), 0)
    spread.step(rows_at(400, 410), [1, 0], 420)


def test_windows_without_a_beginning_have_no_outline() -> None:
    tree = Family(aggregation(COUNTED).keys, None)
    tree.add("q", aggregation(COUNTED), Cadence(None, 10), INT64_MIN)
    with pytest.raises(AssertionError):
        tree.outline()
