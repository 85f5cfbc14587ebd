"""Joins, DISTINCT, set operations and EXISTS in the stages of the Spark pipeline: what the embedded engine says.

The stages run without Spark, in this process (`local_run.py`). Each stream's rows come in micro-batches of their own;
every second time workers lose what they keep and attempts fail, so that buckets come back from their journals.
"""

from __future__ import annotations

from pathlib import Path
from random import Random

import pyarrow as pa
import pytest

import panewise as pw
from tests.engine.random_relations import CREATE, SECOND, STREAMS, QueryWriter, random_rows
from tests.now_or_soak import soaking
from tests.spark.local_run import LocalRun

ARROW = pa.schema([("ts", pa.timestamp("us", tz="UTC")), ("k", pa.int64()), ("v", pa.int64()), ("w", pa.string())])


@pytest.mark.parametrize("seed", soaking(range(5), now=[0, 1]))
def test_as_the_engine_says(seed: int, tmp_path: Path) -> None:
    check(seed, tmp_path)


def test_much_is_compared(tmp_path: Path, soak: bool) -> None:
    seeds = range(100, 106) if soak else (102, 103, 105)
    assert sum(check(seed, tmp_path / str(seed)) for seed in seeds) > 100


def check(seed: int, tmp_path: Path) -> int:
    """How many results were the same."""
    chance = Random(seed)
    queries = {f"q{number}": QueryWriter(chance).query() for number in range(3)}
    batches = random_rows(chance, 14)
    engine, run = pw.Engine(), LocalRun(tmp_path, seed=seed if seed % 2 else None)
    for stream in STREAMS:
        engine.execute(CREATE.format(stream))
        run.change(CREATE.format(stream))
    for name, query in queries.items():
        engine.execute(f"CREATE QUERY {name} AS {query.cql}")
        run.change(f"CREATE QUERY {name} AS {query.cql}")
    found: dict[str, list[pa.Table]] = {name: [] for name in queries}
    left = {stream: list(parts) for stream, parts in batches.items()}
    while any(left.values()):
        stream = chance.choice([name for name, parts in left.items() if parts])
        rows = left[stream].pop(0)
        if rows:
            engine.push(stream, rows)
            run.push(stream, pa.RecordBatch.from_pylist(rows, ARROW))
            collect(found, run)
    for stream in STREAMS:
        engine.advance(stream, 60 * SECOND)
        run.advance(stream, 60 * SECOND)
        collect(found, run)
    total = 0
    for name in queries:
        expected = engine.results(name)
        tables = [table.cast(expected.schema) for table in found[name]]
        assert rows_of(pa.concat_tables([expected.schema.empty_table(), *tables])) == rows_of(expected), queries[
            name
        ].cql
        total += expected.num_rows
    return total


def collect(found: dict[str, list[pa.Table]], run: LocalRun) -> None:
    for name, table in run.run().items():
        found[name].append(table)


def rows_of(table: pa.Table) -> list[str]:
    """Of one instant or report they come in any order."""
    return sorted(map(repr, table.to_pylist()))


def test_streams_that_are_read_together_meet_in_one_fragment(tmp_path: Path) -> None:
    run = LocalRun(tmp_path)
    for stream in STREAMS:
        run.change(CREATE.format(stream))
    run.change(
        "CREATE QUERY j AS SELECT ISTREAM a.k, b.v FROM a [RANGE 9 SECONDS], b [RANGE 9 SECONDS] WHERE a.k = b.k"
    )
    run.change("CREATE QUERY o AS SELECT j.v FROM j [RANGE 5 SECONDS], c [RANGE 5 SECONDS] WHERE j.k = c.k")
    run.change("CREATE QUERY s AS SELECT DISTINCT k FROM a [RANGE 5 SECONDS]")
    program = run.program
    version = program.newest
    fragments = {name: program.fragments[query.fragment] for name, query in version.queries.items()}
    names = {name: {version.streams[key].name for key in fragment.streams} for name, fragment in fragments.items()}
    assert names == {"j": {"a", "b"}, "o": {"a", "b", "c"}, "s": {"a"}}
    batch = pa.RecordBatch.from_pylist([{"ts": SECOND, "k": 1, "v": 7, "w": "x"}], ARROW)
    for stream in STREAMS:
        run.push(stream, batch)
    found: dict[str, list[pa.Table]] = {"j": [], "o": [], "s": []}
    collect(found, run)
    for stream in STREAMS:
        run.advance(stream, 4 * SECOND)
    collect(found, run)
    assert [row["v"] for table in found["o"] for row in table.to_pylist()] == [7]
