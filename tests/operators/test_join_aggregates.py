"""Aggregates over a shared join, against their definition and against plans that run for themselves.

times of the parts     2   5        8            a result is born at 8 and, with windows of 4 and 10, dies at
windows                |===4===)                 min(2 + 4, 5 + 10): it is in reports e with 8 < e <= 6, in none
                           |=====10======)
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import panewise as pw
from panewise.aggregates.aggregate_functions import BUILT_IN
from panewise.errors import NotHeldError
from panewise.language.bind.binder import bind_one, parse
from panewise.language.expressions import ColumnRef, Expression
from panewise.language.statements import SelectItem
from panewise.operators.deltas.delta_plan import DeltaPlan
from panewise.operators.deltas.series_start import first_of_inputs
from panewise.operators.deltas.windowed_source import WindowedSource
from panewise.operators.joins.ordered_join import OrderedJoin
from panewise.operators.lifetimes import FOREVER, NEVER
from panewise.operators.result_columns import microseconds
from panewise.operators.row_batch import Rows
from panewise.operators.shared_core import join_aggregates, join_reports, join_slices
from panewise.operators.shared_core.join_aggregates import JoinAggregates
from panewise.optimize.first_orders import joins_planned
from panewise.optimize.sharing.selections.core_folds import can_be_folded
from panewise.plan.aggregation import Aggregation
from panewise.plan.build import build
from panewise.plan.inputs import report_window
from panewise.plan.join_layers import in_join
from panewise.plan.nodes import Aggregate, Emit, Filter, Join, Project
from panewise.schema import BIGINT, DOUBLE, STRING, Column, Schema
from panewise.state.snapshot_format import dumped, loaded
from panewise.temporal import TimeWindow
from tests.now_or_soak import examples

STREAM = "CREATE STREAM {} (ts TIMESTAMP, k BIGINT, g STRING, v BIGINT, x DOUBLE)"
SCHEMA = pa.schema(
    [("ts", pa.timestamp("us", "UTC")), ("k", pa.int64()), ("g", pa.string()), ("v", pa.int64()), ("x", pa.float64())]
)
KEYS = {"": "", "a.g": "a.g AS g, ", "a.g, b.g": "a.g AS g, b.g AS h, "}
SELECTED = [
    "COUNT(*) AS n",
    "COUNT(b.v) AS n, SUM(a.v) AS s, AVG(b.x) AS m",
    "MIN(a.v) AS low, MAX(b.x) AS high, MIN(b.g) AS first_name",
    "VAR_POP(a.x) AS spread, SUM(a.x + b.x) AS total",
]
HAVING = ["", "", " HAVING COUNT(*) > 2", " HAVING SUM(a.v) > 0"]


@dataclass
class Query:
    cql: str
    plan: Emit
    ranges: tuple[int, int]
    slide: int
    align: int

    @property
    def aggregation(self) -> Aggregation:
        node, having = self.plan.input, None
        assert isinstance(node, Project)
        below = node.input
        if isinstance(below, Filter):
            below, having = below.input, below.predicate
        assert isinstance(below, Aggregate)
        bound = tuple(aggregated.bound for aggregated in below.aggregates)
        arguments = tuple(aggregated.arguments for aggregated in below.aggregates)
        return Aggregation(below.keys, bound, arguments, node.items, having)


def planned(cql: str) -> Emit:
    engine = pw.Engine()
    for name in "ab":
        engine.execute(STREAM.format(name))
    (parsed,) = parse(f"EXPLAIN {cql}")
    statement = bind_one(parsed, engine.catalog, engine.find_aggregate, engine.aggregate_names)
    return build(statement.query, engine.find_aggregate)  # type: ignore[union-attr]


def window(range_: int, slide: int, align: int) -> str:
    aligned = f" ALIGN '1970-01-01 00:00:00.{align:06}'" if align else ""
    return f"[RANGE {range_} MICROSECONDS SLIDE {slide} MICROSECONDS{aligned}]"


def random_query(chance: Random, keys: str, ranges: tuple[int, int] | None = None) -> Query:
    if ranges is None:
        shortest, more = chance.randint(1, 12), chance.choice([0, 0, 0, 2, 5])
        ranges = (shortest, shortest + more) if chance.random() < 0.5 else (shortest + more, shortest)
    slide, align = chance.choice([1, 2, 3, 5, 7]), chance.choice([0, 0, 1, 3])
    selected = KEYS[keys] + chance.choice(SELECTED)
    inputs = ", ".join(f"{name} {window(range_, slide, align)}" for name, range_ in zip("ab", ranges, strict=True))
    group = f" GROUP BY {keys}" if keys else ""
    having = chance.choice(HAVING)
    cql = f"SELECT {selected} FROM {inputs} WHERE a.k = b.k{group}{having}"
    return Query(cql, planned(cql), ranges, slide, align)


def random_rows(chance: Random, count: int, end: int) -> Rows:
    rows = [
        {
            "ts": ts,
            "k": chance.randint(0, 2),
            "g": chance.choice([None, "p", "q", "rr"]),
            "v": chance.choice([None, *range(-3, 9)]),
            "x": chance.choice([None, 0.5, 1.0, -2.25, 1e3]),
        }
        for ts in sorted(chance.randint(0, end) for _ in range(count))
    ]
    batch = pa.RecordBatch.from_pylist(rows, SCHEMA)
    return Rows(batch, np.array([row["ts"] for row in rows], np.int64), 0)


class SharedJoin:
    """A join over the longest windows that anybody wants, and where its results go."""

    def __init__(self, by_name: dict[str, Query], operator: JoinAggregates) -> None:
        self.operator = operator
        self.queries = by_name
        self.starts = dict.fromkeys(by_name, FOREVER)
        queries = list(by_name.values())
        node = queries[0].plan
        while not isinstance(node, Join):
            node = node.input  # type: ignore[attr-defined, assignment]
        ranges = [max(query.ranges[i] for query in queries) for i in range(2)]
        self.sources = [
            WindowedSource(TimeWindow(range_), part.schema, None)
            for range_, part in zip(ranges, node.inputs, strict=True)
        ]
        self.names = [
            Schema(tuple(Column(f"{name}.{column.name}", column.type) for column in part.schema))
            for name, part in zip("ab", node.inputs, strict=True)
        ]
        self.join = OrderedJoin([names.to_arrow() for names in self.names], in_join(node.condition))
        self.since = NEVER + 1

    def process(self, rows: list[Rows], until: int) -> dict[str, pa.Table]:
        deltas = []
        for source, part, names in zip(self.sources, rows, self.names, strict=True):
            delta = source.take(part, until)
            deltas.append(delta.with_batch(delta.batch.rename_columns(names.names)))
        for name, query in self.queries.items():
            first = first_of_inputs(rows, query.ranges, report_window(query.plan))
            self.starts[name] = min(self.starts[name], first)
        delta = self.join.process(deltas, self.since, until)
        self.since = until
        times = [microseconds(delta.batch.column(f"{name}.ts")) for name in "ab"]
        return self.operator.process(delta.batch, delta.births, times, until, self.starts)


def multiset(table: pa.Table) -> Counter[Any]:
    return Counter(tuple(_rounded(value) for value in row.values()) for row in table.to_pylist())


def _rounded(value: Any) -> Any:
    if isinstance(value, float) and not math.isnan(value):
        return f"{value * 1.0000012345:.8g}" if abs(value) > 1e-9 else "0"  # not exactly between two
    return value


def play(seed: int, keys: str, end: int = 60, count: int = 45) -> int:
    """Queries that come and go, random steps, snapshots in between; each compared with a plan of its own."""
    chance = Random(seed)
    queries = {f"q{i}": random_query(chance, keys) for i in range(chance.randint(1, 5))}
    late = [name for name in queries if chance.random() < 0.3] if len(queries) > 1 else []
    first = next(iter(queries.values()))
    operator = JoinAggregates(first.aggregation.keys, 2)
    shared = SharedJoin(queries, operator)
    plans: dict[str, DeltaPlan] = {}
    added: list[tuple[str, int]] = []

    def add(name: str, begins: int) -> None:
        query = queries[name]
        operator.add(name, query.aggregation, query.ranges, query.slide, query.align, begins)
        plans[name] = DeltaPlan(query.plan, [None if begins == NEVER else begins] * 2, joins_planned(query.plan))
        added.append((name, begins))

    for name in sorted(queries.keys() - set(late)):
        add(name, NEVER)
    rows = [random_rows(chance, count, end) for _ in range(2)]
    cuts = sorted({*(chance.randint(1, end) for _ in range(chance.randint(0, 12))), end + 40})
    done, found, since = [0, 0], 0, 0
    for until in cuts:
        parts = []
        for i, all_rows in enumerate(rows):
            cut = int(np.searchsorted(all_rows.times, until))
            parts.append(all_rows.slice(done[i], cut))
            done[i] = cut
        mine = shared.process(parts, until)
        assert mine.keys() <= plans.keys()
        for name, plan in plans.items():
            wanted = plan.process(parts, until)
            got = mine.get(name, wanted.schema.empty_table())
            assert got.schema.equals(wanted.schema)
            assert multiset(got) == multiset(wanted), (queries[name].cql, since, until)
            ends = microseconds(got.column("window_end"))
            assert (np.diff(ends) >= 0).all()
            assert multiset(operator.lookup(name, until)) == multiset(plan.lookup(until))
            found += wanted.num_rows
        since = until
        if late and chance.random() < 0.4:
            add(late.pop(), until)
        if len(plans) > 1 and chance.random() < 0.15:
            gone = chance.choice(sorted(plans))
            operator.remove(gone)
            del plans[gone]
            added = [entry for entry in added if entry[0] != gone]
        if chance.random() < 0.3:
            saved = loaded(dumped(operator.snapshot()))
            operator = shared.operator = JoinAggregates(first.aggregation.keys, 2)
            for name, begins in added:
                query = queries[name]
                operator.add(name, query.aggregation, query.ranges, query.slide, query.align, begins)
            operator.restore(saved)
    assert operator.bytes_held > 0 and not operator.failed
    return found


@pytest.fixture
def little_room() -> Iterator[None]:
    with with_little_room(True):
        yield


@contextmanager
def with_little_room(little: bool) -> Iterator[None]:
    """Slices become sparse, steps are cut, groups are forgotten, all with very few rows."""
    with pytest.MonkeyPatch.context() as patch:
        if little:
            patch.setattr(join_slices, "DENSE_SLOTS_MAX", 60)
            patch.setattr(join_slices, "ANSWERS_MAX", 3)
            patch.setattr(join_reports, "LISTED_MAX", 4)
            patch.setattr(join_aggregates, "ROWS_MAX", 5)
            patch.setattr(join_aggregates, "FORGET_FROM", 2)
            patch.setattr(join_aggregates, "LAST_MAX", 2)
        yield


@pytest.mark.parametrize("keys", KEYS)
def test_reports_are_those_of_plans_of_their_own(keys: str) -> None:
    assert sum(play(seed, keys) for seed in range(6)) > 200


@pytest.mark.parametrize("keys", KEYS)
def test_the_same_with_little_room(keys: str, little_room: None) -> None:
    assert sum(play(seed, keys) for seed in range(100, 104)) > 100


# ---- against the definition -----------------------------------------------------------------------------------------

G, V, X, S = (
    ColumnRef(type_, f"a.{name}") for name, type_ in zip("gvxs", (BIGINT, BIGINT, DOUBLE, STRING), strict=True)
)


def aggregation(*calls: tuple[str, Expression | None], keys: tuple[Expression, ...] = (G,)) -> Aggregation:
    """Its items are the keys, then the aggregates."""
    arguments = tuple(() if argument is None else (argument,) for _, argument in calls)
    bound = tuple(
        BUILT_IN[name].bound(tuple(argument.type for argument in some))
        for (name, _), some in zip(calls, arguments, strict=True)
    )
    items = [SelectItem(f"k{i}", ColumnRef(key.type, f"key_{i}")) for i, key in enumerate(keys)]
    items += [SelectItem(f"a{i}", ColumnRef(one.result_type, f"aggregate_{i}")) for i, one in enumerate(bound)]
    return Aggregation(keys, bound, arguments, tuple(items), None)


SHAPES = [
    aggregation(("COUNT", None)),
    aggregation(("SUM", V), ("MAX", V), ("COUNT", X)),
    aggregation(("AVG", X), ("VAR_POP", X)),
    aggregation(("MIN", S), ("MAX", S)),
]


@dataclass
class JoinResults:
    times: NDArray[np.int64]  # inputs x results
    batch: pa.RecordBatch

    @property
    def births(self) -> NDArray[np.int64]:
        return self.times.max(axis=0)

    def step(self, operator: JoinAggregates, since: int, until: int) -> dict[str, pa.Table]:
        begin, end = np.searchsorted(self.births, [since, until])
        part = self.batch.slice(begin, end - begin)
        return operator.process(part, self.births[begin:end], [t[begin:end] for t in self.times], until)

    def defined(self, ranges: tuple[int, ...], e: int) -> dict[Any, list[dict[str, Any]]]:
        """The results in the report at e, by group."""
        found: dict[Any, list[dict[str, Any]]] = {}
        dies = (self.times + np.array(ranges)[:, None]).min(axis=0)
        for i in np.flatnonzero((self.births < e) & (e <= dies)).tolist():
            row = {name: self.batch.column(name)[i].as_py() for name in self.batch.schema.names}
            found.setdefault(row["a.g"], []).append(row)
        return found


def random_results(chance: Random, inputs: int, count: int, longest: int, end: int) -> JoinResults:
    births = sorted(chance.randint(0, end) for _ in range(count))
    times = np.array([[birth - chance.randint(0, longest) for birth in births] for _ in range(inputs)], np.int64)
    for i, birth in enumerate(births):
        times[chance.randrange(inputs), i] = birth
    columns = {
        "a.g": pa.array([chance.choice([None, 1, 2, 10**12]) for _ in births], pa.int64()),
        "a.v": pa.array([chance.choice([None, 2**55, *range(-9, 9)]) for _ in births], pa.int64()),
        "a.x": pa.array([chance.choice([None, 0.1, 1e9, -3.7]) for _ in births], pa.float64()),
        "a.s": pa.array([chance.choice([None, "", "x", "yy"]) for _ in births], pa.string()),
    }
    return JoinResults(times, pa.record_batch(columns))


def by_hand(name: str, values: list[Any]) -> Any:
    present = [value for value in values if value is not None]
    if name == "COUNT":
        return len(present)
    if not present:
        return None
    if name in ("MIN", "MAX", "SUM"):
        return {"MIN": min, "MAX": max, "SUM": sum}[name](present)
    mean = math.fsum(present) / len(present)
    return mean if name == "AVG" else math.fsum((value - mean) ** 2 for value in present) / len(present)


def expected(results: JoinResults, one: Aggregation, ranges: tuple[int, ...], ends: range) -> Counter[Any]:
    found: Counter[Any] = Counter()
    for e in ends:
        for group, rows in results.defined(ranges, e).items():
            answers = []
            for bound, arguments in zip(one.aggregates, one.arguments, strict=True):
                values = [row[arguments[0].name] for row in rows] if arguments else [1] * len(rows)  # type: ignore[attr-defined]
                answers.append(_rounded(by_hand(bound.name, values)))
            found[(e - max(ranges), e, group, *answers)] += 1
    return found


def in_numbers(table: pa.Table) -> Counter[Any]:
    edges = [microseconds(table.column(name)).tolist() for name in ("window_start", "window_end")]
    values = [table.column(i).to_pylist() for i in range(2, table.num_columns)]
    return Counter((*row[:2], *map(_rounded, row[2:])) for row in zip(*edges, *values, strict=True))


@examples(40, soak=2_000)
@given(seed=st.integers(0, 2**32 - 1), little=st.booleans())
def test_definition(seed: int, little: bool) -> None:
    chance = Random(seed)
    inputs = chance.choice([2, 2, 3])
    longest = chance.choice([3, 8, 30])
    results = random_results(chance, inputs, chance.randint(0, 60), longest, 80)
    queries = {}
    for i in range(chance.randint(1, 6)):
        ranges = (chance.randint(1, longest),) * inputs
        if chance.random() < 0.5:
            ranges = tuple(chance.randint(1, longest) for _ in range(inputs))
        queries[f"q{i}"] = chance.choice(SHAPES), ranges, chance.randint(1, 9), chance.randint(-20, 20)
    operator, wholly = JoinAggregates((G,), inputs), JoinAggregates((G,), inputs)
    for name, query in queries.items():
        operator.add(name, *query, NEVER)
        wholly.add(name, *query, NEVER)
    since, found = -100, dict[str, list[pa.Table]]()
    for until in [*sorted(chance.randint(0, 80) for _ in range(chance.randint(0, 9))), 200]:
        with with_little_room(little):
            step = results.step(operator, since, until)
        for name, table in step.items():
            found.setdefault(name, []).append(table)
        since = until
    at_once = results.step(wholly, -100, 200)
    assert found.keys() == at_once.keys()
    for name, (one, ranges, slide, align) in queries.items():
        ends = range(align - slide * 40, 201, slide)
        got = pa.concat_tables(found[name]) if name in found else one.timed_schema.empty_table()
        assert in_numbers(got) == expected(results, one, ranges, ends)
        # To the last bit, however time is cut.
        order = [(field, "ascending") for field in ("window_end", "k0")]
        assert got.sort_by(order).equals(at_once.get(name, got).sort_by(order))


def test_a_result_that_is_too_old_when_it_is_born() -> None:
    """The drawing above: in no report, though its younger part is in its window."""
    operator = JoinAggregates((G,), 2)
    operator.add("q", SHAPES[0], (4, 10), 1, 0, NEVER)
    batch = random_results(Random(1), 2, 1, 1, 1).batch
    found = operator.process(batch, np.array([8]), [np.array([2]), np.array([8])], 30)
    assert not found
    found = operator.process(batch, np.array([30]), [np.array([28]), np.array([30])], 60)
    assert found["q"].column("window_end").cast(pa.int64()).to_pylist() == [31, 32]


def test_one_row_from_the_first_row_of_an_input_on() -> None:
    operator = JoinAggregates((), 2)
    operator.add("q", aggregation(("COUNT", None), ("SUM", V), keys=()), (4, 4), 2, 1, NEVER)
    batch = random_results(Random(1), 2, 1, 1, 1).batch.slice(0, 0)
    nothing = np.empty(0, np.int64)
    assert not operator.process(batch, nothing, [nothing, nothing], 6)
    found = operator.process(batch, nothing, [nothing, nothing], 12, {"q": 7})["q"]
    assert found.column("window_end").cast(pa.int64()).to_pylist() == [9, 11]
    assert found.column("a0").to_pylist() == [0, 0] and found.column("a1").to_pylist() == [None, None]


@pytest.mark.parametrize("already", [None, (6, 7, 1), (20, 3, 0)])
def test_a_query_that_comes_later(already: tuple[int, int, int] | None) -> None:
    """It reports when its windows lie behind its beginning, whatever older queries still needed."""
    operator = JoinAggregates((G,), 2)
    if already is not None:
        operator.add("old", SHAPES[0], (already[0],) * 2, *already[1:], NEVER)
    results = random_results(Random(3), 2, 300, 12, 100)
    results.step(operator, -100, 43)
    operator.add("new", SHAPES[0], (10, 8), 2, 1, 43)
    found = results.step(operator, 43, 80)["new"]
    assert in_numbers(found) == expected(results, SHAPES[0], (10, 8), range(53, 81, 2))


def test_who_overflows_is_counted_alone() -> None:
    operator = JoinAggregates((G,), 2)
    for name, one in (("sum", aggregation(("SUM", V))), ("max", aggregation(("MAX", V)))):
        operator.add(name, one, (10, 10), 5, 0, NEVER)
    operator.add("short", aggregation(("SUM", V)), (1, 1), 1, 0, NEVER)
    values = pa.record_batch({"a.g": [1, 1], "a.v": [2**62, 2**62], "a.x": [1.0, 1.0], "a.s": ["", ""]})
    times = np.array([1, 3])
    found = operator.process(values, times, [times, times], 10)
    assert found.keys() == {"sum", "max", "short"}
    assert operator.overflows == {"sum": found["sum"].num_rows, "short": 0}
    assert found["sum"].columns[-1].null_count == found["sum"].num_rows > 0
    assert found["short"].columns[-1].null_count == 0


def test_only_the_last_report_is_held() -> None:
    operator = JoinAggregates((G,), 2)
    operator.add("q", SHAPES[0], (10, 10), 5, 0, NEVER)
    results = random_results(Random(5), 2, 40, 5, 40)
    with pytest.raises(NotHeldError, match="not held"):
        operator.lookup("q", 0)
    results.step(operator, -100, 33)
    assert in_numbers(operator.lookup("q", 33)) == expected(results, SHAPES[0], (10, 10), range(30, 31))
    assert in_numbers(operator.lookup("q", 33)) == in_numbers(operator.lookup("q", 30))
    for at in (29, 35):
        with pytest.raises(NotHeldError, match="not held"):
            operator.lookup("q", at)
    results.step(operator, 33, 200)
    assert operator.lookup("q", 200).num_rows == 0


def test_memory_follows_the_windows() -> None:
    """Slices, groups and strings that no report needs any more are forgotten."""
    operator = JoinAggregates((G,), 2)
    operator.add("q", aggregation(("COUNT", None), ("MIN", S)), (50, 50), 10, 0, NEVER)
    held = []
    for step in range(60):
        times = np.arange(100 * step, 100 * step + 100)
        groups, names = pa.array(times * 7), pa.array([f"name {time}" for time in times])
        batch = pa.record_batch({"a.g": groups, "a.v": groups, "a.x": times.astype(np.float64), "a.s": names})
        operator.process(batch, times, [times, times - 20], 100 * step + 100)
        held.append(operator.bytes_held)
    assert max(held[30:]) <= max(held[:30])


def test_a_long_silence_costs_nothing() -> None:
    operator = JoinAggregates((G,), 2)
    operator.add("q", SHAPES[0], (10, 10), 1, 0, NEVER)
    batch = random_results(Random(1), 2, 2, 1, 1).batch
    times = np.array([0, 10**15])
    found = operator.process(batch, times, [times, times], 2 * 10**15)
    assert found["q"].num_rows == 20
    operator.remove("q")
    assert operator.process(batch, times + 3 * 10**15, [times + 3 * 10**15] * 2, 5 * 10**15) == {}
    operator.add("q", SHAPES[0], (10, 10), 1, 0, NEVER)  # what has gone by is not known any more
    last = np.array([5 * 10**15, 5 * 10**15 + 100])
    ends = microseconds(operator.process(batch, last, [last, last], 6 * 10**15)["q"].column("window_end"))
    assert (ends - 5 * 10**15).tolist() == [10, *range(101, 111)]


def test_what_is_supported() -> None:
    assert all(map(can_be_folded, SHAPES))
    assert not can_be_folded(aggregation(("FIRST", V)))
    assert not can_be_folded(aggregation(("LAST", S)))
    median = planned(f"SELECT MEDIAN(a.v) AS m FROM a {window(5, 1, 0)}, b {window(5, 1, 0)} WHERE a.k = b.k")
    assert not can_be_folded(Query("", median, (5, 5), 1, 0).aggregation)
