"""Change logs on Spark: suspended and resumed between micro-batches, also where every bucket is built anew."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

import panewise as pw
from tests.engine.durability.suspended_logs import CREATES, LOGS, STREAMS, Replayed, random_rows
from tests.spark.local_run import LocalRun

SECOND = 1_000_000
TYPES = pa.schema([("ts", pa.timestamp("us", tz="UTC")), ("k", pa.int64()), ("v", pa.int64())])


@pytest.mark.parametrize("forgetful", [False, True])
def test_every_log_can_be_replayed(tmp_path: Path, forgetful: bool) -> None:
    chance = random.Random(forgetful)
    run = LocalRun(tmp_path, forgetful=forgetful)
    engine = pw.Engine()  # never suspended: what the relations are
    run.change(*STREAMS, *CREATES)
    for statement in STREAMS + CREATES:
        engine.execute(statement)
    replayed = {name: Replayed() for name in LOGS}
    suspended: set[str] = set()
    for second in range(10):
        changes = []
        for name in LOGS:
            if chance.random() < 0.3:
                changes.append(f"{'RESUME' if name in suspended else 'SUSPEND'} QUERY {name}")
                suspended ^= {name}
        if changes:
            run.change(*changes)
        for stream in ("a", "b"):
            rows = random_rows(chance, second * SECOND)
            run.push(stream, pa.RecordBatch.from_pylist(rows, schema=TYPES))
            engine.push(stream, rows)
        results = run.run()
        for name in LOGS:
            log = results.get(name)
            if log is not None:
                replayed[name].take(log.take(pa.compute.sort_indices(log, [(log.schema.names[0], "ascending")])))
            if name not in suspended:
                now = zip(*(column.to_pylist() for column in engine.lookup(name).columns), strict=True)
                assert replayed[name].rows == Counter(now), (name, second)
