"""Trees of periodic aggregates against folding every window anew: dense, sparse, and changing from one to the other.

A script is a list of steps over one tree: rows ahead of the watermark and how far it moves, queries that join and
leave, pauses, and a snapshot and restore in between. Whatever happens, a report that comes out is exact, comes once and
in order, and none is missing from a query's first report on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import panewise as pw
from panewise.operators.due_reports import EmptyReports, due_reports
from panewise.operators.family import eviction as forgetting
from panewise.operators.family import family_slices
from panewise.operators.family.family import Family
from panewise.plan import physical_plan as physical
from panewise.slicing.pairs import Cadence
from panewise.state.snapshot_format import dumped, loaded
from tests.now_or_soak import soaking
from tests.operators.family.divided import divided, moved
from tests.operators.timelines import POSITIVE, K, Query, Row, Values, multiset, passes, rows_of

SHAPES: list[list[tuple[str, str | None]]] = [
    [("COUNT", None)],
    [("COUNT", None), ("SUM", "n"), ("MIN", "x")],
    [("COUNT", None), ("FIRST", "n"), ("MAX", "g")],
    [("COUNT", None), ("AVG", "x"), ("COUNT", "n")],
]
TECHNIQUES = [None, "b_int", "two_stacks"]  # of trees of the weave
# Three times as many as elsewhere, in long runs.
EXAMPLES = settings.default.max_examples * (3 if settings.default.max_examples > 1_000 else 1)


@dataclass
class Watched:
    """A member: what it is, since when, and what it has said."""

    query: Query
    cadence: Cadence
    joined: int | None  # no row had reached this point when it joined; None: it was there from the beginning
    reports: dict[int, Counter[Values]] = field(default_factory=dict)
    left: int | None = None


class Checked:
    """A tree that is driven by a script, and the rows it has seen."""

    def __init__(self, grouped: bool, where: bool, by_cuts: bool = False) -> None:
        self.grouped, self.where, self.by_cuts = grouped, where, by_cuts
        self.tree = self.new_tree()
        self.rows: list[Row] = []
        self.watermark: int | None = None
        self.cuts: list[int] = []
        self.members: dict[str, Watched] = {}

    def new_tree(self) -> Family:
        return Family((K,) if self.grouped else (), POSITIVE if self.where else None, timed=False)

    def cut(self, ahead: int) -> int | None:
        """Where a host lets edges change: at a point that no row has reached, whatever slice is open there."""
        if not self.by_cuts:
            return None
        if not self.rows:
            return -(2**63)
        return max(self.watermark or -(2**62), *(row[0] + 1 for row in self.rows)) + ahead

    def add(self, shape: int, having: bool, cadence: Cadence, ahead: int) -> None:
        query = Query(["k"] if self.grouped else [], SHAPES[shape])
        if having:
            query.with_having()
        name = f"q{len(self.members)}"
        greatest = max((row[0] for row in self.rows), default=None)
        joined = None if greatest is None else max(greatest + 1, self.watermark or greatest)
        if joined is not None and cadence.range is None:
            return  # hosts give a query that never forgets a tree of its own where it comes in mid-stream
        if self.by_cuts and cadence.range is None:
            return  # what never forgets is not spread over trees
        cut = self.cut(ahead)
        # States that others have brought are held from the cut on at which those came.
        self.cuts.append(-(2**63) if cut is None else cut)
        self.members[name] = Watched(query, cadence, joined if joined is None or cut is None else max(self.cuts))
        self.tree.add(name, query.aggregation(), cadence, cut)
        self.collect(self.tree.due() if self.watermark is not None else {})

    def step(self, rows: list[Row], watermark: int) -> None:
        before = self.watermark
        self.rows.extend(rows)
        self.watermark = watermark if before is None else max(watermark, before)
        batch = rows_of(rows, len(self.rows))
        pieces = self.tree.process(batch, batch.times, self.watermark)
        self.collect(pieces)
        assert not self.tree.take_failures()

    def collect(self, pieces: dict[str, list[Any]]) -> None:
        for name, parts in pieces.items():
            watched = self.members[name]
            last = max(watched.reports, default=-(2**62))
            for part in parts:
                for start, end, *values in self.values(name, part):
                    assert end >= last, "reports come in order of time"
                    assert watched.cadence.start(end) == start
                    last = end
                    watched.reports.setdefault(end, Counter())[next(iter(multiset([tuple(values)])))] += 1

    def values(self, name: str, part: pa.RecordBatch | EmptyReports) -> list[Values]:
        if isinstance(part, EmptyReports):
            ends = part.first + part.slide * np.arange(part.count, dtype=np.int64)
            made = self.tree.empty_batch(self.tree.members[name], ends)
            if made is None:
                return []
            part = made
        return list(zip(*(column.to_pylist() for column in part.columns), strict=True))

    def remove(self, choice: int, ahead: int) -> None:
        names = list(self.tree.members)
        if len(names) > 1:
            name = names[choice % len(names)]
            self.tree.remove(name, self.cut(ahead))
            self.members[name].left = -(2**62) if self.watermark is None else self.watermark

    def weave(self, numbers: list[int]) -> None:
        """Members are divided into trees by some numbers; those of the last one keep the store's own slices."""
        trees: dict[int, list[str]] = {}
        for place, name in enumerate(self.tree.members):
            trees.setdefault(numbers[place % len(numbers)], []).append(name)
        woven = [(TECHNIQUES[number], names) for number, names in trees.items() if number < len(TECHNIQUES)]
        self.tree.become(divided(self.tree, woven))

    def join_tree(self, choice: int) -> None:
        """One member joins the first tree, if there is one."""
        free = [member for member in self.tree.members.values() if not member.tree and member.can_move]
        if free and getattr(self.tree.store, "trees", None):
            self.tree.become(moved(self.tree, free[choice % len(free)].name, 1))

    def restore(self) -> None:
        saved = loaded(dumped(self.tree.snapshot()))
        old = self.tree
        self.tree = self.new_tree()
        for name in old.members:
            cut = -(2**63) if self.by_cuts else None
            self.tree.add(name, self.members[name].query.aggregation(), self.members[name].cadence, cut)
        self.tree.restore(saved)

    # -- what should have come out -----------------------------------------------------------------------------------

    def check(self) -> None:
        for watched in self.members.values():
            self.check_member(watched)

    def check_member(self, watched: Watched) -> None:
        cadence = watched.cadence
        until = watched.left if watched.left is not None else self.watermark
        if not self.rows or until is None:
            assert not watched.reports
            return
        expected = self.expected(watched, until)
        for end, found in watched.reports.items():
            assert found == expected.get(end), (cadence, end)
        first = min(watched.reports, default=2**62)
        reach = 0 if cadence.range is None else cadence.range + cadence.offset
        certain = -(2**62) if watched.joined is None else cadence.next_report(watched.joined + reach - 1)
        missing = set(expected) - set(watched.reports)
        # An ungrouped query that joined begins with the first row that came after, which is not looked into here.
        certain = certain if self.grouped or watched.joined is None else 2**62
        missing = {end for end in missing if expected[end] and (end > first or end >= certain)}
        assert not missing, (cadence, sorted(missing), sorted(watched.reports))

    def expected(self, watched: Watched, until: int) -> dict[int, Counter[Values]]:
        """The reports that the watermark has passed: of windows that hold rows and, ungrouped, of all after those."""
        cadence, rows = watched.cadence, sorted(self.rows, key=lambda row: row[0])
        found: dict[int, Counter[Values]] = {}
        begun = False
        end = cadence.next_report(rows[0][0] + cadence.offset - 1)
        while end <= until:
            start = cadence.start(end)
            inside = [r for r in rows if (start is None or start <= r[0]) and r[0] < end - cadence.offset]
            begun = begun or bool(inside)
            inside = [r for r in inside if passes(r, self.where)]
            if inside or (begun and not self.grouped):
                found[end] = multiset(watched.query.answer(inside))
            end += cadence.slide
        return found


cadences = st.builds(
    Cadence,
    st.none() | st.integers(1, 60),
    st.integers(1, 25),
    st.sampled_from([0, 0, 0, 3, 20]),
    st.sampled_from([0, 0, 5, -7]),
)
ahead = st.sampled_from([0, 0, 1, 9, 40])
joins = st.tuples(st.just("add"), st.integers(0, len(SHAPES) - 1), st.booleans(), cadences, ahead)
rows = st.lists(
    st.tuples(
        st.integers(0, 70),
        st.none() | st.sampled_from("abcdefgh"),
        st.none() | st.sampled_from(["", "x", "y"]),
        st.none() | st.integers(-3, 9),
        st.none() | st.integers(-8, 8).map(lambda eighths: eighths / 8),
    ),
    max_size=12,
)
moves = st.tuples(st.just("step"), rows, st.integers(0, 50) | st.sampled_from([0, 300]))
changes = st.one_of(
    moves,
    moves,
    moves,
    joins,
    st.tuples(st.just("remove"), st.integers(0, 9), ahead),
    st.tuples(st.just("restore")),
    st.tuples(st.just("weave"), st.lists(st.integers(0, len(TECHNIQUES)), min_size=1, max_size=4)),
    st.tuples(st.just("join_tree"), st.integers(0, 9)),
)


def play(grouped: bool, where: bool, steps: list[tuple[Any, ...]], dense_groups: int, by_cuts: bool = False) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(physical, "SPARSE_ABOVE", dense_groups)
        patch.setattr(forgetting, "FORGET_FROM", -1000)  # idle groups are looked for at every step
        checked = Checked(grouped, where, by_cuts)
        now = -50
        for action, *parts in steps:
            if action == "step":
                base = now
                now += parts[1]
                checked.step([(base + row[0], *row[1:]) for row in parts[0]], now)
            else:
                getattr(checked, action)(*parts)
        checked.step([], now + 200)
        checked.check()


scripts = st.tuples(st.lists(joins, min_size=1, max_size=4), st.lists(changes, min_size=1, max_size=14)).map(
    lambda drawn: [*drawn[0], *drawn[1]]
)


@pytest.fixture(autouse=True, scope="module")
def fast_path() -> Iterator[None]:
    """Small batches take the fast path too, which is meant for large ones."""
    before, family_slices.FAST_PATH_FROM = family_slices.FAST_PATH_FROM, 1
    yield
    family_slices.FAST_PATH_FROM = before


@settings(max_examples=EXAMPLES)
@given(st.booleans(), st.booleans(), scripts)
def test_dense_trees(grouped: bool, where: bool, steps: list[tuple[Any, ...]]) -> None:
    play(grouped, where, steps, dense_groups=4096)


@settings(max_examples=EXAMPLES)
@given(st.booleans(), scripts, st.sampled_from([0, 2, 4]))
def test_trees_that_become_sparse(where: bool, steps: list[tuple[Any, ...]], dense_groups: int) -> None:
    """With 0 from the first row on, otherwise when there are so many groups."""
    play(True, where, steps, dense_groups)


@settings(max_examples=EXAMPLES)
@given(st.booleans(), st.booleans(), scripts, st.sampled_from([0, 3, 4096, 4096]))
def test_trees_whose_host_cuts(grouped: bool, where: bool, steps: list[tuple[Any, ...]], dense_groups: int) -> None:
    play(grouped, where, steps, dense_groups if grouped else 4096, by_cuts=True)


@pytest.mark.parametrize("seed", soaking(range(60), now=range(30)))
def test_long_scripts_of_a_host_that_cuts(seed: int) -> None:
    """Longer ones than hypothesis draws: queries that join, with history, while slices of others are open."""
    random = Random(seed)
    blank: tuple[Any, ...] = (None, None)

    def join() -> tuple[Any, ...]:
        cadence = Cadence(random.choice([8, 20, 45]), random.choice([2, 4, 9]), random.choice([0, 0, 3]))
        return "add", random.randrange(len(SHAPES)), random.random() < 0.3, cadence, random.choice([0, 1, 9, 40])

    steps = [join()]
    for _ in range(25):
        rows = [(random.randint(0, 40), random.choice("abcd"), *blank, random.randint(1, 9)) for _ in range(8)]
        rows = [(at, k, g, n, x) for at, k, g, x, n in rows]
        steps.append(("step", rows, random.choice([0, 3, 12, 12, 30])))
        if random.random() < 0.3:
            steps.append(("weave", [random.randrange(len(TECHNIQUES) + 1) for _ in range(5)]))
        if random.random() < 0.4:
            steps.append(join() if random.random() < 0.7 else ("remove", random.randrange(9), random.choice([0, 5])))
    play(random.random() < 0.7, False, steps, random.choice([2, 4096]), by_cuts=True)


# -- which reports are due -------------------------------------------------------------------------------------------


@given(
    cadences,
    st.lists(st.integers(0, 30), max_size=6),
    st.integers(-40, 60),
    st.integers(-40, 300),
)
def test_due_reports(cadence: Cadence, gaps: list[int], after: int, upto: int) -> None:
    """Slices between neighbouring edges of the cadence, some of them, against trying every instant."""
    edges = [p for p in range(-30, 250) if _is_edge(cadence, p)]
    numbers = [n for n in np.cumsum([g + 1 for g in gaps]).tolist() if n + 1 < len(edges)]
    starts = np.array([edges[n] for n in numbers], np.int64)
    ends = np.array([edges[n + 1] for n in numbers], np.int64)
    expected = []
    for report in range(after + 1, upto + 1):
        if (report - cadence.align) % cadence.slide == 0:
            start, end = cadence.start(report), report - cadence.offset
            if any((start is None or start <= a) and b <= end for a, b in zip(starts, ends, strict=True)):
                expected.append(report)
    assert due_reports(cadence, starts, ends, after, upto).tolist() == expected


def _is_edge(cadence: Cadence, point: int) -> bool:
    end = (point + cadence.offset - cadence.align) % cadence.slide == 0
    return end or (
        cadence.range is not None and (point + cadence.offset + cadence.range - cadence.align) % cadence.slide == 0
    )


def test_a_whole_window_before_one_that_is_not() -> None:
    """The last window due may be answered by the slices held, and the next one not: it straddles a slice of the others.

    rows      * *                       others' slices |-50  -48|-48  -46|
             -50 -49                    new windows    |--------|
                                                           |--------|   begins inside a slice
    """
    blank: tuple[Any, ...] = (None, None, None, None)
    play(
        True,
        False,
        [
            ("add", 0, False, Cadence(None, 2), 0),
            ("step", [(0, *blank), (1, *blank)], 0),
            ("add", 0, False, Cadence(2, 1), 0),
        ],
        4096,
    )


def test_nulls_in_large_batches() -> None:
    """Counts of an argument part from the count of rows at its first NULL, also where rows are counted in passing."""
    engine = pw.Engine()
    engine.execute(
        """CREATE STREAM t (ts TIMESTAMP, k BIGINT, v DOUBLE);
        CREATE QUERY q AS SELECT k, COUNT(*) AS n, COUNT(v) AS c, SUM(v) AS s, MIN(v) AS m
          FROM t [RANGE 4 SECONDS SLIDE 2 SECONDS] GROUP BY k"""
    )
    count = 12_000
    keys = [i % 7 for i in range(count)]
    # No NULLs in the first batch, some in the second and third, nothing else in the windows of key 3 after that.
    values = [None if i > 5000 and (i % 5 == 0 or i % 7 == 3) else float(i) for i in range(count)]
    table = pa.table(
        {
            "ts": pa.array([i * 1000 for i in range(count)], pa.timestamp("us")),
            "k": keys,
            "v": pa.array(values, pa.float64()),
        }
    )
    for begin in range(0, count, 4000):
        engine.push("t", table.slice(begin, 4000))
        engine.stats()  # so that each push is processed by itself
    engine.flush()
    for row in engine.results("q").to_pylist():
        end = int(row["window_end"].timestamp() * 1000)
        rows = [v for i, v in enumerate(values) if end - 4000 <= i < end and keys[i] == row["k"]]
        held = [v for v in rows if v is not None]
        assert (row["n"], row["c"]) == (len(rows), len(held))
        assert (row["s"], row["m"]) == ((sum(held), min(held)) if held else (None, None))
