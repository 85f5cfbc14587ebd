"""A process that pushes numbered rows into a durable engine and writes down what it is told, to be killed any time.

    python -m tests.engine.durability.durable_job FOLDER

It imports everything once and then, for each line that it reads (a seed), has a child of its own live that life, and
says when it has ended: the child is the process that is killed.

Before a push the child looks up how far it has come (`last_sequence`), as a producer does that has no memory. What was
acknowledged is appended to FOLDER/acknowledged, and each fetch as a line to FOLDER/results.QUERY: the test has no other
way to know what a process was told.
"""

from __future__ import annotations

import json
import os
import random
import sys
from pathlib import Path
from typing import Any

import panewise as pw

ROWS_PER_PUSH = 40
PUSHES_MAX = 100_000  # more than there is time for
STREAM = """CREATE STREAM IF NOT EXISTS s (ts TIMESTAMP, k STRING, v BIGINT,
    WATERMARK FOR ts AS ts - INTERVAL 1 SECOND)"""
QUERIES = {
    "grouped": "SELECT k, SUM(v) AS s, COUNT(*) AS n FROM s [RANGE 4 SECONDS SLIDE 1 SECOND] GROUP BY k",
    "changing": "SELECT k, MAX(v) AS most FROM s [RANGE 2 SECONDS] WHERE v > 900 GROUP BY k",
    "counted": "SELECT SUM(v) AS s FROM s [ROWS 50 SLIDE 25]",
    "matched": "SELECT a.v AS v, b.k AS k FROM s [RANGE 1 SECOND] AS a JOIN s [RANGE 1 SECOND] AS b"
    " ON a.v = b.v WHERE a.k < b.k",
}
# Small, so that a kill often falls into a snapshot.
SNAPSHOT_EVERY_BYTES = 60_000


def rows_of(push: int) -> list[dict[str, Any]]:
    chance = random.Random(push)
    begin = push * ROWS_PER_PUSH * 25_000
    return [
        {"ts": begin + i * 25_000 - chance.randrange(900_000), "k": chance.choice("abcd"), "v": chance.randrange(1000)}
        for i in range(ROWS_PER_PUSH)
    ]


def prepare(engine: pw.Engine) -> None:
    engine.execute(STREAM)
    for name, text in QUERIES.items():
        engine.execute(f"CREATE QUERY IF NOT EXISTS {name} AS {text}")


def live(folder: Path, seed: int) -> None:
    """Pushes and fetches until it is killed, or there is nothing more to push."""
    chance = random.Random(seed)
    acknowledged = os.open(folder / "acknowledged", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    results = {name: os.open(folder / f"results.{name}", os.O_CREAT | os.O_WRONLY | os.O_APPEND) for name in QUERIES}
    print(f"opening {os.getpid()}", flush=True)
    # Not closed: every start but the first finds what a kill has left, or a log without a snapshot.
    engine = pw.Engine(folder / "engine", snapshot_every=SNAPSHOT_EVERY_BYTES)
    prepare(engine)
    print("started", flush=True)
    for push in range(engine.last_sequence("s", "job") + 1, PUSHES_MAX + 1):
        engine.push("s", rows_of(push), producer="job", sequence=push)
        os.write(acknowledged, b"%d\n" % push)
        if chance.random() < 0.3:
            name = chance.choice(list(QUERIES))
            rows = engine.results(name).to_pylist()
            # One write: either the test sees that this process was handed the rows, or it was killed before.
            os.write(results[name], (json.dumps([*map(repr, rows)]) + "\n").encode())
    print("finished", flush=True)


def main(folder: Path) -> None:
    engine = pw.Engine()  # what it compiles or loads, its children have
    prepare(engine)
    for push in range(1, 30):
        engine.push("s", rows_of(push))
    for name in QUERIES:
        engine.results(name).to_pylist()
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            live(folder, int(line))
            os._exit(0)
        os.waitpid(child, 0)
        print("ended", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
