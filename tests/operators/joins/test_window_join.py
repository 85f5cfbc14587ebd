"""The window join against its definition: at every instant, all combinations of alive rows that fulfil the condition.

rows of an input, by pattern          result of a row of each input
MONOTONIC   |==========>              |=====)
WEAKEST     |====)  all as long         |======)
WEAK        |==)    any length            |====>
STRICT      |==?    may end earlier       |==)       latest birth to earliest death
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from panewise.language.expressions import ColumnRef, Expression, Literal
from panewise.language.functions import resolve
from panewise.operators.joins import join_keys, probing
from panewise.operators.joins.window_join import WindowJoin
from panewise.operators.relation_delta import FOREVER, Delta
from panewise.optimize.first_orders import unmeasured_orders
from panewise.plan.nodes import Pattern
from panewise.schema import BIGINT, BOOLEAN, DOUBLE, STRING
from panewise.state.snapshot_format import dumped, loaded

NAMES = "abcd"
END = 24
TYPES = {"k": BIGINT, "x": DOUBLE, "s": STRING, "f": BOOLEAN}


@pytest.fixture(autouse=True)
def small_rooms(monkeypatch: pytest.MonkeyPatch) -> None:
    """Little room, so that walks stop and go on, and keys are forgotten early."""
    monkeypatch.setattr(probing, "CANDIDATES", 5)
    monkeypatch.setattr(probing, "RESULTS_MIN", 3)
    monkeypatch.setattr(join_keys, "KEYS_MIN", 2)


@dataclass
class Row:
    birth: int
    death: int  # as said at birth
    values: dict[str, Any]
    end: int | None = None  # where it comes earlier

    @property
    def leaves(self) -> int:
        return self.death if self.end is None else self.end


@dataclass
class Conjunct:
    expression: Expression
    holds: Callable[[tuple[Row, ...]], bool]


@dataclass
class Case:
    patterns: list[Pattern]
    inputs: list[list[Row]]
    conjuncts: list[Conjunct]
    orders: list[list[int]] | None
    cuts: list[int] = field(default_factory=list)

    @property
    def condition(self) -> Expression | None:
        whole: Expression | None = None
        for conjunct in self.conjuncts:
            whole = conjunct.expression if whole is None else resolve("and", (whole, conjunct.expression))
        return whole

    @property
    def schemas(self) -> list[pa.Schema]:
        return [
            pa.schema([(f"{NAMES[i]}.{column}", type_.to_arrow()) for column, type_ in TYPES.items()])
            for i in range(len(self.inputs))
        ]

    def join(self) -> WindowJoin:
        strict = [pattern is Pattern.STRICT for pattern in self.patterns]
        orders = self.orders or unmeasured_orders(self.schemas, self.condition)
        return WindowJoin(self.schemas, self.condition, orders, strict)

    def steps(self) -> list[tuple[int, int]]:
        edges = [0, *sorted(set(self.cuts)), END]
        return [(since, until) for since, until in itertools.pairwise(edges) if since < until]

    def delta(self, i: int, since: int, until: int) -> Delta:
        rows = self.inputs[i]
        new = [n for n, row in enumerate(rows) if since <= row.birth < until]
        ends = sorted(
            (row.end, 3 * n) for n, row in enumerate(rows) if row.end is not None and since <= row.end < until
        )
        columns = [pa.array([rows[n].values[column] for n in new], type_.to_arrow()) for column, type_ in TYPES.items()]
        return Delta(
            pa.RecordBatch.from_arrays(columns, schema=self.schemas[i]),
            np.array([3 * n for n in new], np.int64),  # numbers have gaps
            np.array([rows[n].birth for n in new], np.int64),
            np.array([rows[n].death for n in new], np.int64),
            np.array([sequence for _, sequence in ends], np.int64),
            np.array([instant for instant, _ in ends], np.int64),
        )

    def expected(self, instant: int) -> Counter[Any]:
        alive = [[row for row in rows if row.birth <= instant < row.leaves] for rows in self.inputs]
        matches = (
            parts for parts in itertools.product(*alive) if all(conjunct.holds(parts) for conjunct in self.conjuncts)
        )
        return Counter(shown([value for row in parts for value in row.values.values()]) for parts in matches)


def shown(values: list[Any]) -> tuple[str, ...]:
    """Values that can be counted: NaN is one of them, the zeros are two."""
    return tuple(map(repr, values))


# ---- conjuncts, each with its meaning in Python ----------------------------------------------------------------------


def same(left: Any, right: Any) -> bool:
    if left is None or right is None:
        return False
    return left == right or (isinstance(left, float) and math.isnan(left) and math.isnan(right))


def column(i: int, name: str) -> ColumnRef:
    return ColumnRef(TYPES[name], name, NAMES[i]) if i % 2 else ColumnRef(TYPES[name], f"{NAMES[i]}.{name}")


def equality(i: int, j: int, name: str) -> Conjunct:
    return Conjunct(
        resolve("eq", (column(i, name), column(j, name))),
        lambda parts: same(parts[i].values[name], parts[j].values[name]),
    )


def shifted(i: int, j: int) -> Conjunct:
    def holds(parts: tuple[Row, ...]) -> bool:
        left, right = parts[i].values["k"], parts[j].values["k"]
        return left is not None and right is not None and left + 1 == right

    return Conjunct(resolve("eq", (resolve("add", (column(i, "k"), Literal(BIGINT, 1))), column(j, "k"))), holds)


def inequality(i: int, j: int) -> Conjunct:
    def holds(parts: tuple[Row, ...]) -> bool:
        left, right = parts[i].values["k"], parts[j].values["k"]
        return left is not None and right is not None and left < right

    return Conjunct(resolve("lt", (column(i, "k"), column(j, "k"))), holds)


def positive(i: int, _: int) -> Conjunct:
    return Conjunct(
        resolve("gt", (column(i, "k"), Literal(BIGINT, 0))),
        lambda parts: parts[i].values["k"] is not None and parts[i].values["k"] > 0,
    )


KINDS: list[Callable[[int, int], Conjunct]] = [
    lambda i, j: equality(i, j, "k"),
    lambda i, j: equality(i, j, "k"),
    lambda i, j: equality(i, j, "x"),
    lambda i, j: equality(i, j, "s"),
    lambda i, j: equality(i, j, "f"),
    shifted,
    inequality,
    positive,
]


ANY_VALUES: dict[str, list[Any]] = {
    "k": [None, 0, 1, 1, 2],
    "x": [None, 0.0, -0.0, math.nan, 1.5],
    "s": [None, "", "a", "longer than fifteen bytes"],
    "f": [None, True, False],
}
FEW_VALUES: dict[str, list[Any]] = {"k": [None, 1, 1, 1], "x": [None, 1.5], "s": [None, "a", "a", "b"], "f": [True]}


@st.composite
def rows_of(draw: st.DrawFn, pattern: Pattern, least: int, most: int, choices: dict[str, list[Any]]) -> list[Row]:
    births = sorted(draw(st.lists(st.integers(0, END - 1), min_size=least, max_size=most)))
    length = draw(st.integers(1, 8))
    rows = []
    for birth in births:
        values = {name: draw(st.sampled_from(options)) for name, options in choices.items()}
        end = None
        if pattern is Pattern.MONOTONIC:
            death = FOREVER
        elif pattern is Pattern.WEAKEST:
            death = birth + length
        else:
            death = birth + draw(st.integers(0, 10))
            if pattern is Pattern.STRICT:
                death = draw(st.sampled_from([death, FOREVER]))
                last = min(death, END) - 1
                end = draw(st.none() | st.integers(birth, last)) if birth <= last else None
        rows.append(Row(birth, death, values, end))
    return rows


@st.composite
def cases(draw: st.DrawFn, patterns: tuple[Pattern, ...] = tuple(Pattern)) -> Case:
    count = draw(st.integers(2, 4))
    chosen = [draw(st.sampled_from(patterns)) for _ in range(count)]
    inputs = [draw(rows_of(pattern, 0, {2: 12, 3: 7, 4: 5}[count], ANY_VALUES)) for pattern in chosen]
    conjuncts = []
    for _ in range(draw(st.integers(0, count + 1))):
        i, j = draw(st.permutations(range(count)))[:2]
        conjuncts.append(draw(st.sampled_from(KINDS))(i, j))
    orders = None
    if draw(st.booleans()):
        orders = [draw(st.permutations([j for j in range(count) if j != i])) for i in range(count)]
    return Case(chosen, inputs, conjuncts, orders, draw(st.lists(st.integers(1, END - 1), max_size=5)))


@st.composite
def strict_cases(draw: st.DrawFn) -> Case:
    """Many results that hold rows of several STRICT inputs."""
    count = draw(st.integers(2, 3))
    chosen = [Pattern.STRICT] * count if draw(st.booleans()) else [Pattern.WEAK] + [Pattern.STRICT] * (count - 1)
    inputs = [draw(rows_of(pattern, 6, {2: 12, 3: 8}[count], FEW_VALUES)) for pattern in chosen]
    names = draw(st.sampled_from([["k"], ["k", "s"], ["s", "k"], []]))
    conjuncts = [equality(i, i + 1, name) for name in names for i in range(count - 1)]
    return Case(chosen, inputs, conjuncts, None, draw(st.lists(st.integers(1, END - 1), min_size=2, max_size=6)))


# ---- what came out ---------------------------------------------------------------------------------------------------


class Outcome:
    """The relation that deltas describe, with what every edge promises checked at each of them."""

    def __init__(self) -> None:
        self.rows: dict[int, list[Any]] = {}  # birth, death, values
        self.ended: set[int] = set()

    def take(self, delta: Delta, since: int, until: int) -> None:
        for numbers in (delta.births, delta.sequences, delta.ended_at):
            assert (np.diff(numbers) >= 0).all()
        assert ((delta.births >= since) & (delta.births < until) & (delta.births < delta.deaths)).all()
        assert ((delta.ended_at >= since) & (delta.ended_at < until)).all()
        values = [column.to_pylist() for column in delta.batch.columns]
        for n, sequence in enumerate(delta.sequences.tolist()):
            assert sequence not in self.rows
            self.rows[sequence] = [int(delta.births[n]), int(delta.deaths[n]), shown([column[n] for column in values])]
        for sequence, instant in zip(delta.ended.tolist(), delta.ended_at.tolist(), strict=True):
            assert sequence not in self.ended, "a row ends once"
            assert self.rows[sequence][0] <= instant < self.rows[sequence][1], "an end comes earlier than was said"
            self.ended.add(sequence)
            self.rows[sequence][1] = instant

    def at(self, instant: int) -> Counter[Any]:
        return Counter(values for birth, death, values in self.rows.values() if birth <= instant < death)


def check(case: Case, outcome: Outcome) -> None:
    for instant in range(END):
        assert outcome.at(instant) == case.expected(instant), instant


relaxed = settings(
    max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


@relaxed
@given(case=cases() | strict_cases())
def test_the_relation_is_that_of_the_definition_at_every_instant(case: Case) -> None:
    join, outcome = case.join(), Outcome()
    for since, until in case.steps():
        inputs = [case.delta(i, since, until) for i in range(len(case.inputs))]
        outcome.take(join.process(inputs, since, until), since, until)
    check(case, outcome)


@relaxed
@given(case=cases((Pattern.MONOTONIC, Pattern.WEAKEST, Pattern.WEAK)))
def test_nothing_ends_without_a_strict_input(case: Case) -> None:
    join, outcome = case.join(), Outcome()
    for since, until in case.steps():
        outcome.take(
            join.process([case.delta(i, since, until) for i in range(len(case.inputs))], since, until), since, until
        )
    assert not outcome.ended
    check(case, outcome)


@relaxed
@given(case=cases() | strict_cases(), at=st.integers(0, 5), data=st.data())
def test_restored_from_bytes_or_reordered_in_mid_run(case: Case, at: int, data: st.DataObject) -> None:
    join, outcome, undisturbed = case.join(), Outcome(), case.join()
    for n, (since, until) in enumerate(case.steps()):
        if n == at:
            state = loaded(dumped(join.snapshot()))
            join = case.join()
            join.restore(state)
        if n == at + 1:
            count = len(case.inputs)
            join.reorder([data.draw(st.permutations([j for j in range(count) if j != i])) for i in range(count)])
        inputs = [case.delta(i, since, until) for i in range(len(case.inputs))]
        result = join.process(inputs, since, until)
        outcome.take(result, since, until)
        if n <= at:
            assert result.sequences.tolist() == undisturbed.process(inputs, since, until).sequences.tolist()
    check(case, outcome)


def test_only_the_columns_asked_for_are_held_and_shown() -> None:
    case = Case([Pattern.WEAKEST] * 2, [[Row(0, 5, {"k": 1, "x": 2.0, "s": "l", "f": True})],
                                        [Row(1, 6, {"k": 1, "x": 3.0, "s": "r", "f": None})]], [], None)  # fmt: skip
    condition = resolve("and", (equality(0, 1, "k").expression, resolve("lt", (column(0, "x"), column(1, "x")))))
    join = WindowJoin(case.schemas, condition, columns=["a.s", "b.f"])
    result = join.process([case.delta(0, 0, 9), case.delta(1, 0, 9)], 0, 9)
    assert result.batch.to_pydict() == {"a.s": ["l"], "b.f": [None]}
    assert [batch.schema.names for batch in join.snapshot()["columns"]] == [["a.x", "a.s"], ["b.x", "b.f"]]


@pytest.mark.parametrize("strict", [False, True])
def test_state_levels_off_though_keys_are_ever_new(strict: bool) -> None:
    schemas = [pa.schema([(f"{name}.k", pa.int64()), (f"{name}.s", pa.string())]) for name in "ab"]
    condition = resolve("eq", (ColumnRef(BIGINT, "a.k"), ColumnRef(BIGINT, "b.k")))
    join = WindowJoin(schemas, condition, strict=[strict, False])
    held = []
    for step in range(60):
        births = np.arange(1000 * step, 1000 * (step + 1), dtype=np.int64)
        deaths = np.full(1000, FOREVER) if strict else births + 2000
        ended = births - 2000 if strict and step >= 2 else births[:0]
        inputs = []
        for i, schema in enumerate(schemas):
            batch = pa.RecordBatch.from_arrays([pa.array(births), pa.array(births.astype(str))], schema=schema)
            own = (ended, ended + 2000) if i == 0 else (births[:0], births[:0])
            inputs.append(Delta(batch, births, births, deaths if i == 0 else births + 2000, *own))
        assert len(join.process(inputs, 1000 * step, 1000 * (step + 1))) == 1000
        held.append(join.bytes_held)
    assert max(held[30:]) <= max(held[:30])
    assert max(join.rows_held) <= 5000


def test_rows_and_keys_are_counted_while_they_are_alive() -> None:
    rows = [Row(n, n + 5, {"k": n % 3, "x": 0.0, "s": "s", "f": True}) for n in range(12)]
    case = Case([Pattern.WEAKEST] * 2, [rows, rows[:1]], [equality(0, 1, "k")], None)
    join = case.join()
    join.process([case.delta(i, 0, 12) for i in range(2)], 0, 12)
    assert join.classes == [frozenset({0, 1})]
    assert [join.rows_alive(0), join.distinct_keys(0, 0)] == [4, 3]  # born at 8, 9, 10, 11
    assert [join.rows_alive(1), join.distinct_keys(1, 0)] == [0, 0]


def test_a_condition_that_is_never_true_gives_nothing() -> None:
    rows = [Row(0, 9, {"k": 1, "x": 0.0, "s": "s", "f": True})]
    case = Case([Pattern.WEAKEST] * 2, [rows, rows], [], None)
    for condition, count in ((Literal(BOOLEAN, False), 0), (Literal(BOOLEAN, None), 0), (Literal(BOOLEAN, True), 1)):
        join = WindowJoin(case.schemas, condition)
        assert len(join.process([case.delta(i, 0, 9) for i in range(2)], 0, 9)) == count


def test_an_order_that_does_not_name_all_others_is_refused() -> None:
    schemas = [pa.schema([(name, pa.int64())]) for name in "abc"]
    with pytest.raises(AssertionError, match="must name the others"):
        WindowJoin(schemas, None, [[1], [0, 2], [0, 1]])
