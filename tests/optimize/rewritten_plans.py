"""Plans to rewrite, by the text of queries at random, and what they answer: every change of their relations."""

from __future__ import annotations

from collections import Counter
from functools import cache
from itertools import pairwise
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa

import panewise as pw
from panewise.language.bind.binder import bind_one
from panewise.language.parse.dialect import parse
from panewise.language.statements import CreateQuery
from panewise.operators.deltas.delta_plan import DeltaPlan
from panewise.operators.row_batch import Rows
from panewise.optimize.first_orders import joins_planned
from panewise.plan.build import build
from panewise.plan.inputs import windowed_inputs
from panewise.plan.nodes import Emit, Scan
from panewise.plan.supported.supported_plans import check_supported

SECOND = 1_000_000
STREAMS = ("a", "b", "c", "d")
CREATE = "CREATE STREAM {} (ts TIMESTAMP, k BIGINT, v BIGINT, w STRING, x DOUBLE, WATERMARK FOR ts AS ts)"
ZEROS = (0.0, -0.0, 1.5, float("nan"), None)

Streams = dict[str, Rows]


@cache
def _engine() -> pw.Engine:
    engine = pw.Engine()
    for stream in STREAMS:
        engine.execute(CREATE.format(stream))
    return engine


def plan_of(text: str) -> Emit:
    """The plan of a query over the streams, as it is written."""
    engine = _engine()
    (parsed,) = parse(f"CREATE QUERY q AS {text}")
    statement = bind_one(parsed, engine.catalog, engine.find_aggregate, engine.aggregate_names)
    assert isinstance(statement, CreateQuery)
    plan = build(statement.query, engine.find_aggregate)
    check_supported(plan)
    return plan


def random_streams(chance: Random, count: int) -> Streams:
    """Few values, many of them equal, NULL or equal without being the same; in order of time."""
    found = {}
    schema = _engine().streams["a"].schema.to_arrow()
    for stream in STREAMS:
        times = np.cumsum([chance.choice((0, 1, SECOND // 2, SECOND)) for _ in range(chance.randint(1, count))])
        rows = [
            (
                int(time),
                chance.choice((1, 1, 2, 3, None)),
                chance.choice((0, 1, 2, 3, None)),
                chance.choice(("p", "q", None)),
                chance.choice(ZEROS),
            )
            for time in times
        ]
        columns = [pa.array(values, f.type) for values, f in zip(zip(*rows, strict=True), schema, strict=True)]
        batch = pa.RecordBatch.from_arrays(columns, schema=schema)
        found[stream] = Rows(batch, times.astype(np.int64), np.arange(len(times), dtype=np.int64))
    return found


def answers(plan: Emit, streams: Streams, chance: Random) -> Counter[tuple[Any, ...]]:
    """All that the plan says, in small steps of time; of a change log, what is left of every instant."""
    inputs = windowed_inputs(plan)
    running = DeltaPlan(plan, [None] * len(inputs), joins_planned(plan))
    said: Counter[tuple[Any, ...]] = Counter()
    done, end = -1, 40 * SECOND
    while done < end:
        until = min(end, done + chance.choice((1, SECOND // 2, SECOND, 3 * SECOND, 20 * SECOND)))
        parts = []
        for node in inputs:
            assert isinstance(node.input, Scan)
            rows = streams[node.input.name]
            parts.append(rows.slice(*map(int, np.searchsorted(rows.times, (done, until)))))
        said.update(tuple(map(str, row.values())) for row in running.process(parts, until).to_pylist())
        done = until
    return said


class TextWriter:
    """Writes random queries to which rules apply."""

    def __init__(self, chance: Random) -> None:
        self.chance = chance
        self._slide = chance.choice(("", "", " SLIDE 1 SECOND"))

    def text(self) -> str:
        chance = self.chance
        kind = chance.random()
        if kind < 0.2:
            sides = [self._select(1, ["c0"]) for _ in range(2)]
            return chance.choice((" UNION ", " UNION ALL ", " EXCEPT ", " EXCEPT ALL ")).join(sides)
        return self._select(chance.choice((1, 2, 2, 3)), ["c0", "c1"][: chance.choice((1, 2))])

    def _select(self, inputs: int, items: list[str]) -> str:
        chance = self.chance
        names = list(STREAMS[:inputs]) if len(items) > 1 or inputs > 1 else [chance.choice(STREAMS[:3])]
        where = [f"{first}.k = {second}.k" for first, second in pairwise(names)]
        where += [self._condition(chance.choice(names)) for _ in range(chance.choice((0, 1, 1, 2)))]
        if chance.random() < 0.5:
            outer = chance.choice(names)
            inner = f"d.k = {outer}.{chance.choice('kv')}"
            inner += f" AND {self._condition('d')}" if chance.random() < 0.3 else ""
            word = chance.choice(("EXISTS", "NOT EXISTS", "NOT EXISTS"))
            where.append(f"{word} (SELECT 1 FROM {self._window('d')} WHERE {inner})")
        rest = f"FROM {', '.join(map(self._window, names))}" + (f" WHERE {' AND '.join(where)}" if where else "")
        column = self._column(names)
        if chance.random() < 0.2 and len(items) > 1:
            having = chance.choice(("", f" HAVING {column} > 1", f" HAVING {column} > 0 AND COUNT(*) > 1"))
            distinct = chance.choice(("", "DISTINCT "))
            return f"SELECT {distinct}{column} AS c0, COUNT(*) AS c1 {rest} GROUP BY {column}{having}"
        distinct = chance.choice(("", "DISTINCT ", "DISTINCT "))
        chosen = ", ".join(f"{self._item(names)} AS {name}" for name in items)
        return f"SELECT {distinct}{chosen} {rest}"

    def _column(self, names: list[str]) -> str:
        return f"{self.chance.choice(names)}.{self.chance.choice('kkv')}"

    def _item(self, names: list[str]) -> str:
        column = self._column(names)
        negative = f"CASE WHEN CAST({self.chance.choice(names)}.x AS STRING) = '-0.0' THEN 1 ELSE 0 END"
        return self.chance.choice((column, column, column, f"{column} + 1", f"CAST({negative} AS BIGINT)"))

    def _condition(self, name: str) -> str:
        return self.chance.choice(
            (
                f"{name}.k > 1",
                f"{name}.k = 1",
                f"{name}.v < 3",
                f"{name}.w = 'p'",
                f"{name}.k IS NOT NULL",
                f"{name}.x >= 0.0",
                f"CAST({name}.x AS STRING) <> '-0.0'",
            )
        )

    def _window(self, name: str) -> str:
        chance = self.chance
        if chance.random() < 0.15:
            return f"{name} [ROWS {chance.randint(1, 3)}]"
        return f"{name} [RANGE {chance.choice((1, 2, 5))} SECONDS{self._slide}]"
