"""Woven at random in the workers of the Spark pipeline: the answers of each query alone on the engine.

The stages run without Spark, in this process (`local_run.py`), where the weaver can be made to weave at random. Trees
are then woven in each bucket as chance will have it, anew after every rebuild, and queries come and go between the
micro-batches. Rows are never late, because Spark judges that by the micro-batch and the engine row by row.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random, SystemRandom
from typing import Any

import pyarrow as pa
import pytest

from panewise.spark.buckets import family_pages, row_journal
from tests.engine.hosting.random_weaves import STREAM, Row, Script, Woven, long_script, woven_at_random
from tests.engine.hosting.weave_players import Player, Values, compare_results, values
from tests.spark.local_run import LocalRun

ARROW = pa.schema(
    [
        ("ts", pa.timestamp("us", tz="UTC")),
        ("k", pa.string()),
        ("v", pa.int64()),
        ("x", pa.float64()),
        ("w", pa.string()),
    ]
)


class SparkPlayer:
    """A script on a pipeline, a micro-batch for every push; results are taken after each."""

    def __init__(self, script: Script, run: LocalRun) -> None:
        self.script, self.run = script, run
        self.fetched: dict[int, list[Values]] = {number: [] for number in script.queries}
        self.came: dict[int, int] = {}
        self._holders: dict[str, int] = {}  # which query has a name now
        self._reached = -(2**63)

    def play(self) -> SparkPlayer:
        self.run.change(STREAM)
        for verb, *parts in self.script.steps:
            getattr(self, verb)(*parts)
        return self

    def create(self, number: int) -> None:
        query, name = self.script.queries[number], self.script.names[number]
        source = "" if query.over is None else self.script.names[query.over]
        self.came[number] = self._reached
        self._holders[name] = number
        self.run.change(f"CREATE QUERY {name}{query.options} AS {query.text.format(source=source)}")

    def drop(self, number: int) -> None:
        self._change("DROP", number)

    def suspend(self, number: int) -> None:
        self._change("SUSPEND", number)

    def resume(self, number: int) -> None:
        self._change("RESUME", number)

    def _change(self, verb: str, number: int) -> None:
        self.run.change(f"{verb} QUERY {self.script.names[number]}")

    def push(self, rows: list[Row]) -> None:
        self._reached = max(self._reached, *(row["ts"] for row in rows))
        self.run.push("t", pa.RecordBatch.from_pylist(rows, ARROW))
        self._process()

    def advance(self, until: int) -> None:
        self._reached = max(self._reached, until)
        self.run.advance("t", until)
        self._process()

    def settle(self) -> None:
        """A micro-batch has done so."""

    def fetch(self, number: int) -> None:
        """Everything has been fetched."""

    def _process(self) -> None:
        for name, table in self.run.run().items():
            self.fetched[self._holders[name]] += values(table)


def check(seed: int, folder: Path, monkeypatch: pytest.MonkeyPatch, turns: int) -> tuple[SparkPlayer, Woven]:
    """Every second time workers lose what they keep, and attempts fail: buckets are then rebuilt from their pages."""
    monkeypatch.setattr(family_pages, "PAGES_PER_LEVEL", 3)
    monkeypatch.setattr(row_journal, "JOURNAL_LEAST", 4_096 if seed % 3 else 100)
    chance = Random(seed)
    script = long_script(chance, turns, late=False, embedded=False)
    dense_groups = chance.choice((4096, 4096, 4))
    with woven_at_random(chance, dense_groups=dense_groups, often=0.5) as done:
        woven = SparkPlayer(script, LocalRun(folder, seed=seed if seed % 2 else None)).play()
    alone = Player(script, "none", together=True, fetch_before_drop=True).play()
    assert alone.engine.stats()["streams"]["t"]["late_rows"] == 0
    compare_results(script, woven.came, woven.fetched, alone.fetched)
    return woven, done


def test_woven_in_workers_as_alone(tmp_path: Path, soak: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    played = [check(seed, tmp_path / str(seed), monkeypatch, turns=7) for seed in range(4 if soak else 3)]
    assert sum(done.weaves for _, done in played) > 40
    assert sum(done.trees_most > 1 for _, done in played) > 2
    assert sum(done.members_of_trees for _, done in played) > 40
    assert sum(done.joins for _, done in played) > 10
    said: list[Any] = [rows for woven, _ in played for rows in woven.fetched.values()]
    assert sum(map(bool, said)) > 0.6 * len(said)


@pytest.mark.soak
def test_woven_in_workers_for_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, figure: Callable[[str, object], None]
) -> None:
    first = SystemRandom().randrange(1_000, 1_000_000_000)
    for seed in range(first, first + 300):
        try:
            check(seed, tmp_path / str(seed), monkeypatch, turns=12)
        except Exception as problem:
            problem.add_note(f"seed {seed}")
            raise
    figure("woven in workers without Spark, 300 scripts from", first)
