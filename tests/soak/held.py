"""What is held does not depend on interruptions: an engine that is restored or reopened answers as one that goes on.

A script creates queries of many kinds, pushes rows, moves time and now and then asks: lookups of now and of many
instants, one-time queries over retained rows, and new queries for their first results. Two engines play it. One of them
is replaced by its snapshot, or closed and opened again, at random points. Whatever one answers, the other answers; what
one does not hold, the other does not hold either.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import panewise as pw
from panewise.errors import PanewiseError

SECOND = 1_000_000
STREAM = "CREATE STREAM {0} (ts TIMESTAMP, k BIGINT, v BIGINT, WATERMARK FOR ts AS ts - INTERVAL {1} SECONDS){2}"
QUERIES = [
    "SELECT k, SUM(v) AS s FROM a [RANGE {r} SECONDS SLIDE {s} SECONDS] GROUP BY k",
    "SELECT COUNT(*) AS n, MAX(v) AS m FROM a [RANGE {r} SECONDS SLIDE {s} SECONDS]",
    "SELECT MEDIAN(v) AS m FROM a [RANGE {r} SECONDS SLIDE {s} SECONDS]",
    "SELECT k, v FROM a [RANGE {r} SECONDS SLIDE {s} SECONDS] WHERE v > 1",
    "SELECT ISTREAM k, COUNT(*) AS n FROM a [RANGE {r} SECONDS SLIDE {s} SECONDS] GROUP BY k",
    "SELECT SUM(v) AS s FROM a [RANGE {r} SECONDS]",
    "SELECT k, v FROM a [RANGE {r} SECONDS]",
    "SELECT k, MIN(v) AS m FROM a [RANGE {r} SECONDS OFFSET {s} SECONDS] GROUP BY k",
    "SELECT k, v FROM a [ROWS {r}]",
    "SELECT SUM(v) AS s FROM a [ROWS {r} SLIDE {s}]",
    "SELECT k, SUM(v) AS s FROM a [PARTITION BY k ROWS {s}] GROUP BY k",
    "SELECT COUNT(*) AS n FROM a [UNBOUNDED SLIDE {s} SECONDS]",
    "SELECT a.k, b.v FROM a [RANGE {r} SECONDS], b [RANGE {s} SECONDS] WHERE a.k = b.k",
    (
        "SELECT a.k, COUNT(*) AS n FROM a [RANGE {r} SECONDS SLIDE 2 SECONDS], b [RANGE {r} SECONDS SLIDE 2 SECONDS] "
        "WHERE a.k = b.k GROUP BY a.k"
    ),
    "SELECT DISTINCT k FROM a [RANGE {r} SECONDS]",
    "SELECT k FROM a [RANGE {r} SECONDS] EXCEPT SELECT k FROM b [RANGE {r} SECONDS]",
]
ONCE = [
    "SELECT k, v FROM a [RANGE {r} SECONDS]",
    "SELECT COUNT(*) AS n FROM a [RANGE {r} SECONDS SLIDE {s} SECONDS]",
    "SELECT k, SUM(v) AS s FROM a [RANGE {r} SECONDS SLIDE {s} SECONDS] GROUP BY k",
    "SELECT k, v FROM a [ROWS {s}]",
    "SELECT COUNT(*) AS n FROM a [UNBOUNDED]",
    "SELECT a.v FROM a [RANGE {r} SECONDS], b [RANGE {r} SECONDS] WHERE a.k = b.k",
]


def play(seed: int) -> int:
    """Plays one script; returns how many answers were compared."""
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory() as place:
        pair = _Pair(Path(place), chance, seed)
        pair.begin()
        for _ in range(chance.randrange(8, 30)):
            pair.step()
        pair.ask_all()
        pair.end()
    return pair.compared


class _Pair:
    """The engine that goes on, and the one that is interrupted."""

    def __init__(self, place: Path, chance: random.Random, seed: int) -> None:
        self.chance = chance
        self.seed = seed
        self.durable = place if chance.random() < 0.5 else None
        self.sharing = chance.choice(["weave", "full", "none"])
        self.whole = pw.Engine(sharing=self.sharing)
        self.cut = pw.Engine(self.durable, sharing=self.sharing)
        self.told: list[str] = []
        self.queries: list[str] = []
        self.made = 0
        self.now = 0
        self.compared = 0

    def both(self, what: str, *arguments: Any) -> None:
        self.told.append(f"{what}{arguments}")
        found = [_outcome(engine, what, arguments) for engine in (self.whole, self.cut)]
        self.compared += 1
        if found[0] != found[1]:
            script = "\n".join(self.told)
            raise AssertionError(
                f"seed {self.seed}, durable {self.durable is not None}, sharing {self.sharing}: "
                f"{what}{arguments}\nwhole: {found[0]}\ncut:   {found[1]}\n{script}"
            )

    def begin(self) -> None:
        for stream in ("a", "b"):
            retain = self.chance.choice(["", f" WITH (retain = '{self.chance.randrange(1, 30)} seconds')"])
            self.both("execute", STREAM.format(stream, self.chance.randrange(3), retain))
        for _ in range(self.chance.randrange(1, 5)):
            self.create()

    def create(self) -> None:
        self.made += 1
        name = f"q{self.made}"
        text = self._filled(self.chance.choice(QUERIES))
        self.both("execute", f"CREATE QUERY {name} AS {text}")
        if name in self.whole.hosting.queries:
            self.queries.append(name)
            self.both("results", name)

    def _filled(self, text: str) -> str:
        slide = self.chance.randrange(1, 5)
        return text.format(r=self.chance.randrange(1, 12), s=slide)

    def step(self) -> None:
        kind = self.chance.random()
        if kind < 0.45:
            self.push()
        elif kind < 0.52:
            self.now += self.chance.randrange(0, 6) * SECOND
            self.both("advance", self.chance.choice("ab"), self.now)
        elif kind < 0.62:
            self.create()
        elif kind < 0.66 and self.queries:
            self.both("execute", f"DROP QUERY {self.queries.pop(self.chance.randrange(len(self.queries)))}")
        elif kind < 0.70:
            retain = self.chance.randrange(0, 30)
            self.both("execute", f"ALTER STREAM a SET (retain = '{retain} seconds')")
        elif kind < 0.85:
            self.interrupt()
        else:
            self.ask_all()

    def push(self) -> None:
        for _ in range(self.chance.randrange(1, 4)):
            rows = []
            for _ in range(self.chance.randrange(1, 6)):
                self.now += self.chance.randrange(0, 2 * SECOND, SECOND // 2)
                time = max(0, self.now - self.chance.choice([0, 0, SECOND, 2 * SECOND]))
                rows.append({"ts": time, "k": self.chance.randrange(3), "v": self.chance.randrange(5)})
            self.both("push", self.chance.choice("aab"), rows)

    def interrupt(self) -> None:
        how = self.chance.choice(["snapshot", "close", "log"]) if self.durable is not None else "snapshot"
        self.told.append(f"-- {how}")
        if how == "snapshot":
            if self.durable is None:
                self.cut = pw.Engine.restore(self.cut.snapshot())
            else:
                self.cut.checkpoint()
            return
        self.cut.close(snapshot=how == "close")
        self.cut = pw.Engine(self.durable, sharing=self.sharing)

    def ask_all(self) -> None:
        for name in self.queries:
            self.both("lookup", name)
            for at in self._instants():
                self.both("lookup", name, at)
            self.both("results", name)
        for text in ONCE:
            self.both("execute", self._filled(text))

    def _instants(self) -> Iterator[int]:
        for _ in range(4):
            yield max(0, self.now - self.chance.randrange(0, 25 * SECOND, SECOND // 2))

    def end(self) -> None:
        self.cut.close()


def _outcome(engine: pw.Engine, what: str, arguments: tuple[Any, ...]) -> Any:
    try:
        table = getattr(engine, what)(*arguments)
    except PanewiseError as problem:
        return type(problem).__name__, problem.message
    if table is None:
        return None
    return table.schema.names, sorted(zip(*(column.to_pylist() for column in table.columns), strict=True), key=repr)
