"""Random scripts of many queries that share trees, and a weaver that weaves them at random.

A script is played twice: on an engine whose weaver is forced to divide and to join trees at random, and on one that
shares nothing, where all queries are there from the beginning. A query that comes in mid-stream begins with its first
whole window, which may be earlier or later than in an engine of its own; from there on both must say the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from random import Random
from typing import Any

import pytest

from panewise.engine.consumers.family_consumer import FamilyConsumer
from panewise.operators.family import eviction as forgetting
from panewise.operators.family import family_slices
from panewise.operators.family.family import Family
from panewise.operators.shared_fold import shared_fold
from panewise.optimize.sharing.weave import weaver
from panewise.optimize.sharing.weave.joining import fits
from panewise.plan import physical_plan as physical
from panewise.plan.family_plan import FamilyPlan, MemberPlan, TreePlan
from panewise.synopses.techniques import TECHNIQUES
from tests.operators.family.divided import moved

MILLISECOND = 1_000
SECOND = 1_000_000
BEGINNING = 1_700_000_000 * SECOND
DELAY = 3 * SECOND
SLIDE_MAX = 12 * SECOND
STREAM = (
    "CREATE STREAM t (ts TIMESTAMP, k STRING, v BIGINT, x DOUBLE, w STRING, "
    f"WATERMARK FOR ts AS ts - INTERVAL {DELAY // SECOND} SECONDS)"
)
EXACT = ("COUNT(*)", "COUNT(v)", "SUM(v)", "MIN(v)", "MAX(x)", "MIN(w)", "AVG(v)", "FIRST(v)", "LAST(w)", "MAX(v)")
AT_FIRST = ("COUNT(*)", "COUNT(v)", "SUM(v)", "MAX(x)", "SUM(x)")
ROUNDED = ("SUM(x)", "AVG(x)", "VAR_POP(x)", "STDDEV_SAMP(v)")
HELD = ("MEDIAN(x)", "COUNT(DISTINCT v)")
FORCED = {"two_stacks": ("MAX(x)", "SUM(v)", "AVG(x)"), "flat_fat": ("MIN(v)", "SUM(x)"), "r_int": ("SUM(v)",)}
SELECTIONS = ("v > 0", "v <= 0", "v > 0 OR v <= 0", "k = 'a'", "k IN ('a', 'b')", "k = 'dd' AND v > 0", "x > 0.5")
# Few are frequent, and in the long run there are more than slices have room for at first.
KEYS = ("a", "b", "c", "dd", None) * 12 + tuple("efghijklmnopqrstuvwxyz")
# What a tree is kept by in short runs: the rest is compiled, at length, where techniques themselves are tested.
TREES_BY = ("b_int", "two_stacks", "panes", "r_int")

Row = dict[str, Any]


# -- queries ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Window:
    """`rows` for windows of rows, whose lengths are numbers of rows; otherwise microseconds."""

    length: int
    slide: int
    offset: int = 0
    rows: bool = False
    align: str = ""

    def __str__(self) -> str:
        if self.rows:
            return f"[ROWS {self.length} SLIDE {self.slide}{f' OFFSET {self.offset}' if self.offset else ''}]"
        parts = [f"RANGE {self.length // MILLISECOND} MS", f"SLIDE {self.slide // MILLISECOND} MS"]
        parts += [f"OFFSET {self.offset // MILLISECOND} MS"] if self.offset else []
        return f"[{' '.join(parts)}{self.align}]"


@dataclass(frozen=True)
class Query:
    """`over`: the query whose results it reads. `unsettled`: how long its reports differ after it has come."""

    text: str
    window: Window
    grouped: bool
    over: int | None = None
    options: str = ""
    unsettled: int = 0
    from_the_start: bool = False  # it cannot come in mid-stream, or not so that it could be compared
    readable: bool = False  # it has a column `n`, and reports no windows of the past


def random_window(chance: Random) -> Window:
    if chance.random() < 0.12:
        return Window(chance.randint(1, 40), chance.randint(1, 15), chance.choice((0, 0, 0, 5)), rows=True)
    if chance.random() < 0.5:  # windows whose edges meet often
        slide = chance.choice((1, 2, 3, 4, 6, 12)) * SECOND
        return Window(slide * chance.randint(1, 6), slide)
    if chance.random() < 0.3:  # gaps between windows
        slide = chance.randint(20, SLIDE_MAX // MILLISECOND // 100) * 100 * MILLISECOND
        return Window(max(100 * MILLISECOND, slide // chance.randint(2, 20) // 100_000 * 100_000), slide)
    length, slide = chance.randint(1, 250) * 100, chance.randint(5, SLIDE_MAX // MILLISECOND // 100) * 100
    offset = chance.choice((0, 0, 0, 400, 7_000))
    align = chance.choice(("", "", "", " ALIGN '1970-01-01 00:00:00.7'"))
    return Window(length * MILLISECOND, slide * MILLISECOND, offset * MILLISECOND, align=align)


def random_query(chance: Random, start: bool, sources: list[int], windows: list[Window]) -> Query:
    """`sources`: queries that may be read, which have a column `n`; `windows`: those that others have."""
    window = chance.choice(windows) if windows and chance.random() < 0.3 else random_window(chance)
    kind = chance.random()
    if kind < 0.08 and sources and not window.rows:
        return _over(chance, window, chance.choice(sources))
    if kind < 0.12 and not window.rows:
        return _nested(chance, window)
    if kind < 0.22:
        return _difference(chance, window, start)
    if kind < 0.28 and not window.offset:
        technique = chance.choice(list(FORCED))
        return _aggregate(chance, window, FORCED[technique], f" WITH (technique = '{technique}')")
    if start:  # so that those to come bring states that nobody has kept so far
        return _aggregate(chance, window, chance.choice((AT_FIRST, AT_FIRST, (*AT_FIRST, *HELD))))
    return _aggregate(chance, window, chance.choice((EXACT + ROUNDED, EXACT + ROUNDED, EXACT + ROUNDED + HELD)))


def _aggregate(chance: Random, window: Window, choices: tuple[str, ...], options: str = "", word: str = "") -> Query:
    """Most are of two families, so that many share; others are folded together with them."""
    group = chance.choice(("", "", "", *["k"] * 5, "w, k", "k, w", "w"))
    where = f" WHERE {chance.choice(SELECTIONS)}" if chance.random() < 0.3 else ""
    having = chance.choice(("",) * 4 + (" HAVING COUNT(*) > 1",)) if not options else ""
    items = chance.sample(choices, min(len(choices), chance.choice((1, 1, 2, 3))))
    listed = [*(group.split(", ") if group else ()), *(f"{item} AS a{at}" for at, item in enumerate(items))]
    listed += [] if options else ["COUNT(*) AS n"]
    by = f" GROUP BY {group}" if group else ""
    text = f"SELECT {word}{', '.join(listed)} FROM t {window}{where}{by}{having}"
    return Query(text, window, bool(group), None, options, readable=not options and not window.offset)


def _difference(chance: Random, window: Window, start: bool) -> Query:
    """ISTREAM and DSTREAM compare values, which are exact therefore."""
    found = _aggregate(chance, window, EXACT, word=chance.choice(("ISTREAM ", "DSTREAM ")))
    held_back = not found.grouped or window.rows
    if held_back and not start:
        return _difference(chance, random_window(chance), start)
    unsettled = 2 * SLIDE_MAX + window.length + window.offset + 2 * window.slide
    return Query(found.text, window, found.grouped, unsettled=unsettled, from_the_start=held_back)


def _over(chance: Random, window: Window, source: int) -> Query:
    item = chance.choice(("SUM(n)", "MAX(n)", "COUNT(*)"))  # the rows of a report are in no order
    return Query(f"SELECT {item} AS a FROM {{source}} {window}", window, False, over=source)


def _nested(chance: Random, window: Window) -> Query:
    inner = Window(chance.randint(1, 5) * SECOND, chance.randint(1, 3) * SECOND)
    text = f"SELECT SUM(n) AS a FROM (SELECT k, COUNT(*) AS n FROM t {inner} GROUP BY k) {window}"
    return Query(text, window, False, unsettled=2 * SLIDE_MAX + inner.length + inner.slide)


# -- scripts ---------------------------------------------------------------------------------------------------------


@dataclass
class Script:
    """Steps are a verb and what it needs; queries are known by their numbers."""

    queries: dict[int, Query] = field(default_factory=dict)
    names: dict[int, str] = field(default_factory=dict)
    steps: list[tuple[Any, ...]] = field(default_factory=list)
    first: list[int] = field(default_factory=list)  # the queries that are there from the start

    @cached_property
    def times(self) -> list[int]:
        """When the rows were that did not come late."""
        watermark, found = -(2**63), []
        for verb, *parts in self.steps:
            if verb == "advance":
                watermark = max(watermark, parts[0])
            for row in parts[0] if verb == "push" else ():
                if row["ts"] >= watermark:
                    found.append(row["ts"])
                    watermark = max(watermark, row["ts"] - DELAY)
        return found

    @property
    def late(self) -> int:
        return sum(len(parts[0]) for verb, *parts in self.steps if verb == "push") - len(self.times)


class ScriptWriter:
    """Random, but the same for the same seeds: one for each query at the start, and one for each turn.

    `late`: whether rows come after the watermark now and then. `embedded`: for the engine, with verbs that a pipeline
    does not have; there, what a query over a query reads begins with it, so it is there from the start.
    """

    def __init__(self, queries: Sequence[int], turns: Sequence[int], late: bool = True, embedded: bool = True) -> None:
        self.chance = Random(0)
        self.script = Script()
        self.late = late
        self.embedded = embedded
        self._here: list[int] = []
        self._heard: set[int] = set()
        self._quiet: set[int] = set()  # queries that nobody fetches before the end
        self._now = BEGINNING
        self._nulls = False  # there are none at first: until then, counts of arguments are no states of their own
        for seed in queries:
            self.chance = Random(seed)
            self._create(start=True)
        for at, seed in enumerate(turns):
            self.chance = Random(seed)
            self._nulls = at >= len(turns) // 2
            self._turn()
        self.script.steps.append(("advance", self._now + 60 * SECOND))
        self.script.steps.extend(("fetch", number) for number in self._here)

    def _turn(self) -> None:
        chance, steps = self.chance, self.script.steps
        for _ in range(chance.choice((1, 1, 3))):
            steps.append(("push", [self._row() for _ in range(chance.choice((1, 3, 10, 20)))]))
            if chance.random() < 0.7:
                steps.append(("settle",))
        if chance.random() < 0.1:
            steps.append(("advance", self._now - DELAY + (chance.choice((0, SECOND)) if self.late else 0)))
        for _ in range(chance.choice((0, 0, 1, 2, 4))):
            self._change()
        for number in self._here:
            if number not in self._quiet and chance.random() < 0.3:
                steps.append(("fetch", number))
        if self.embedded and self._here:
            if chance.random() < 0.3:
                back = chance.choice((None, None, 0, 2, 9))
                at = None if back is None else self._now - DELAY - back * SECOND
                steps.append(("lookup", chance.choice(self._here), at))
            if chance.random() < 0.1:
                steps.append(("restore",))
            if chance.random() < 0.1:
                steps.append(("report",))

    def _row(self) -> Row:
        chance = self.chance
        self._now += chance.choice((0, 0, 100, 100, 333, 500, 900)) * MILLISECOND
        if chance.random() < 0.015:
            self._now += chance.choice((7, 30)) * SECOND
        behind = chance.choice((0, 0, 0, 250, 900, 2_500)) * MILLISECOND
        if self.late and chance.random() < 0.02:
            behind = 8 * SECOND
        return {
            "ts": self._now - behind,
            "k": chance.choice(KEYS),
            "v": chance.choice((None if self._nulls else 0, *range(-4, 10))),
            "x": None if self._nulls and chance.random() < 0.1 else chance.uniform(-10, 10),
            "w": chance.choice(("", "p", "q", "ü", None)),
        }

    def _change(self) -> None:
        chance, script = self.chance, self.script
        kind = chance.random()
        if kind < 0.45 or not self._here:
            self._create(start=False)
        elif kind < 0.7:
            self._drop()
        elif kind < 0.85 or not self.embedded:
            script.steps.append((chance.choice(("suspend", "resume", "resume")), chance.choice(self._here)))
        else:
            number = chance.choice(self._here)
            script.steps.append(("unsubscribe" if number in self._heard else "subscribe", number))
            self._heard ^= {number}

    def _create(self, start: bool) -> None:
        chance, script = self.chance, self.script
        number = len(script.queries)
        readable = [n for n in script.first if n in self._here and script.queries[n].readable]
        readable = readable if start or self.embedded else []
        alike = [q for q in script.queries.values() if q.over is None and (start or not q.from_the_start)]
        if alike and chance.random() < 0.25:
            query = chance.choice(alike)
        else:
            query = random_query(chance, start, readable, [script.queries[n].window for n in self._here])
        # A name may come back after its query has gone.
        free = [f"q{n}" for n in range(number + 1) if f"q{n}" not in {script.names[here] for here in self._here}]
        script.queries[number], script.names[number] = query, chance.choice((free[0], free[-1]))
        self._here.append(number)
        if start:
            script.first.append(number)
        if chance.random() < 0.3:
            self._quiet.add(number)
        script.steps.append(("create", number))

    def _drop(self) -> None:
        queries = self.script.queries
        read = {queries[number].over for number in self._here}
        number = self.chance.choice(self._here)
        if number in read:
            return
        if self.chance.random() < 0.7:
            self.script.steps.append(("fetch", number))
        self.script.steps.append(("drop", number))
        self._here.remove(number)
        self._heard.discard(number)


def long_script(chance: Random, turns: int, late: bool = True, embedded: bool = True) -> Script:
    def seeds(count: int) -> list[int]:
        return [chance.getrandbits(32) for _ in range(count)]

    return ScriptWriter(seeds(chance.randint(6, 18)), seeds(turns), late, embedded).script


# -- weaving at random -----------------------------------------------------------------------------------------------


@dataclass
class Woven:
    """What the weaver was made to do."""

    weaves: int = 0
    trees_most: int = 0
    joins: int = 0
    members_of_trees: int = 0
    folds_for_several: int = 0


@contextmanager
def woven_at_random(
    chance: Random, techniques: tuple[str, ...] = TREES_BY, dense_groups: int = 4096, often: float = 0.3
) -> Iterator[Woven]:
    """The weaver weaves as chance will have it: whenever it looks, with a probability of `often`."""
    found = Woven()

    def planned(present: FamilyPlan, load: weaver.Load) -> tuple[FamilyPlan, float] | None:
        if not present.movable:
            return None
        parts: dict[int, list[MemberPlan]] = {}
        count = chance.randint(1, 5)
        for member in present.movable:
            parts.setdefault(chance.randrange(count), []).append(member)
        kept_by = [_random_techniques(chance, part, techniques) for part in parts.values()]
        trees = [TreePlan(tuple(part), by, ()) for part, by in zip(parts.values(), kept_by, strict=True)]
        own = trees.pop(chance.randrange(len(trees)))
        fixed = tuple(member for member in present.members if not member.can_move)
        return FamilyPlan((replace(own, members=(*fixed, *own.members)), *trees)), 0.0

    become = Family.become

    def become_and_count(self: Family, plan: FamilyPlan) -> None:
        before = {name: member.tree for name, member in self.members.items()}
        trees = self.store.trees
        become(self, plan)
        if self.store.trees is trees:
            found.joins += sum(self.members[name].tree != number for name, number in before.items())
            return
        by_tree = self.members_by_tree
        found.weaves += 1
        found.trees_most = max(found.trees_most, len(by_tree))
        found.members_of_trees += sum(len(members) for number, members in by_tree.items() if number)

    adapt = FamilyConsumer.adapt

    def adapt_and_move(self: FamilyConsumer) -> None:
        """Now and then a member that has been there for long goes to another tree, whatever its edges are."""
        adapt(self)
        family = self.family
        if self.shape.adapting.weave and family.store.trees and chance.random() < 0.2:
            free = [member for member in family.members_by_tree.get(0, []) if member.can_move]
            if free:
                family.become(moved(family, chance.choice(free).name, chance.choice(list(family.store.trees))))

    def judge(host: shared_fold.Host, rows: int, folded: int, guests: list[shared_fold.Guest]) -> None:
        """Guests fold for themselves, or have the host fold for them, as chance will have it."""
        found.folds_for_several += len([guest for guest in guests if guest.partials]) > 1
        for guest in guests:
            guest.rest.until = host._batch + chance.choice((0, 0, 0, 2))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shared_fold, "ROWS_LEAST", chance.choice((1, 1, 4)))
        patch.setattr(shared_fold.Host, "_judge", judge)
        patch.setattr(FamilyConsumer, "adapt", adapt_and_move)
        patch.setattr(weaver, "FEW", 1)
        patch.setattr(weaver, "WORTH", 1e30)
        patch.setattr(weaver, "best_plan", planned)
        patch.setattr(weaver, "fits", lambda classes, cadence: fits(classes, cadence) or chance.random() < 0.6)
        patch.setattr(weaver.Load, "near", lambda load, other: chance.random() >= often)
        patch.setattr(Family, "become", become_and_count)
        patch.setattr(physical, "SPARSE_ABOVE", dense_groups)
        patch.setattr(family_slices, "FAST_PATH_FROM", 1)
        patch.setattr(forgetting, "FORGET_FROM", -1000)  # idle groups are looked for at every step
        yield found


def _random_techniques(chance: Random, members: list[MemberPlan], techniques: tuple[str, ...]) -> dict[Any, str]:
    """For each state one that admits it; now and then none, which means the default."""
    keys = dict.fromkeys(key for member in members for key in member.aggregation.states)
    offsets = int(any(member.cadence.offset for member in members))
    found = {}
    for key in keys:
        admitted = [name for name in techniques if TECHNIQUES[name].refusal(key.kind, offsets) is None]
        if admitted and chance.random() < 0.8:
            found[key] = chance.choice(admitted)
    return found
