"""Random queries over random streams on Spark, against the engine.

One pipeline has several streams, with different delays, whose rows come out of order and late, and many queries of
every kind. Some more queries come, and some go, while it runs: they must not disturb the others, and what they report
must be what they would have reported had they been there from the beginning.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pytest
from hypothesis import Phase, given, seed, settings
from hypothesis import strategies as st

from tests.case_names import with_prefix
from tests.case_runner import same_rows
from tests.engine.random_scripts import DELAYS, Manner, Script, pieces, scripts
from tests.engine.test_properties import agree, any_query, periodic
from tests.engine_job import EngineJob
from tests.lockstep import Job
from tests.spark_host import SparkJob

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Drawn = TypeVar("Drawn")
Rows = list[dict[str, Any]]
QUERIES_PER_STREAM, QUERIES_NOW = 14, 7
FRESH_PER_STREAM = 2
SCENE = 2  # in this one late rows and results are many
MANNER = Manner(sizes=(9, 1, 14))

stacked = st.builds(
    lambda aggregate, inner, outer: f"SELECT {aggregate} AS a FROM (SELECT SUM(v) AS s FROM t [{inner}]) [{outer}]",
    st.sampled_from(("SUM(s)", "MAX(s)", "COUNT(*)", "LAST(s)")),
    st.sampled_from(("RANGE 2 SECONDS SLIDE 1 SECOND", "RANGE 3 SECONDS SLIDE 2 SECONDS", "RANGE 4 SECONDS INTERNAL")),
    st.sampled_from(("RANGE 5 SECONDS SLIDE 5 SECONDS", "RANGE 7 SECONDS SLIDE 3 SECONDS", "ROWS 3 SLIDE 2", "ROWS 4")),
)


def drawn(strategy: st.SearchStrategy[Drawn], count: int, number: int) -> list[Drawn]:
    """That many different examples of a strategy, the same for the same number."""
    found: list[Drawn] = []

    @seed(number)
    @settings(max_examples=count, phases=[Phase.generate], derandomize=False, database=None, deadline=None)
    @given(strategy)
    def collect(example: Drawn) -> None:
        found.append(example)

    collect()
    return found


@dataclass(frozen=True)
class Scene:
    """Streams s0_t, s1_t, ..., what happens in them, and their queries by name; `fresh` ones come halfway."""

    scripts: list[Script]
    queries: dict[str, str]
    fresh: dict[str, str]

    @property
    def rounds(self) -> list[tuple[Rows | int | None, ...]]:
        """One piece of every stream at a time: a micro-batch of all."""
        return list(zip_longest(*(pieces(script, MANNER) for script in self.scripts)))


def scene(number: int, per_stream: int = QUERIES_PER_STREAM) -> Scene:
    """For each stream a random script, one of few pieces among several, and random queries over it."""
    streams: list[Script] = []
    queries: dict[str, str] = {}
    fresh: dict[str, str] = {}
    for at, delay in enumerate(DELAYS):
        own = number * len(DELAYS) + at
        candidates = drawn(scripts(most_rows=60, fewest_rows=40, delays=(delay,)), 20, own)
        streams.append(min(candidates[1:], key=lambda script: len(pieces(script, MANNER))))
        texts = drawn(st.one_of(any_query, any_query, any_query, stacked), per_stream, own)
        late_comers = drawn(periodic.filter(lambda text: "UNBOUNDED" not in text), FRESH_PER_STREAM + 1, own)
        queries |= {f"s{at}_q{place}": with_prefix(text, f"s{at}_") for place, text in enumerate(texts)}
        fresh |= {f"s{at}_f{place}": with_prefix(text, f"s{at}_") for place, text in enumerate(late_comers[1:])}
    return Scene(streams, queries, fresh)


@dataclass
class Outcome:
    results: dict[str, Rows]
    late: list[int]


def perform(job: Job, played: Scene, *, fresh_from_the_start: bool) -> Outcome:
    """Plays the scene and gives all results of every query, fetched halfway and at the end."""
    for at, script in enumerate(played.scripts):
        job.execute(with_prefix(script.stream, f"s{at}_"))
    job.execute(_creation(played.queries | (played.fresh if fresh_from_the_start else {})))
    results: dict[str, Rows] = {name: [] for name in played.queries | played.fresh}
    rounds = played.rounds
    for turn, batches in enumerate(rounds):
        if turn == len(rounds) // 2:
            _fetch(job, results, played.queries)
            if not fresh_from_the_start:
                job.execute(_creation(played.fresh | {"passing": next(iter(played.fresh.values()))}))
        elif turn == len(rounds) // 2 + 1 and not fresh_from_the_start:
            job.execute("DROP QUERY passing;")
        for at, piece in enumerate(batches):
            if isinstance(piece, int):
                job.advance(f"s{at}_t", piece)
            elif piece is not None:
                job.push(f"s{at}_t", piece)
        job.process()
    for at, script in enumerate(played.scripts):
        job.advance(f"s{at}_t", script.end)
    job.process()
    _fetch(job, results, played.queries | played.fresh)
    statistics = job.stats()["streams"]
    return Outcome(results, [statistics[f"s{at}_t"]["late_rows"] for at, _ in enumerate(played.scripts)])


def _creation(queries: dict[str, str]) -> str:
    return "\n".join(f"CREATE QUERY {name} AS {text};" for name, text in queries.items())


def _fetch(job: Job, results: dict[str, Rows], names: dict[str, str]) -> None:
    for name in names:
        results[name] += job.results(name).to_pylist()


def compare(played: Scene, expected: Outcome, found: Outcome) -> None:
    assert found.late == expected.late
    for name, text in played.queries.items():
        agree(f"{name}: {text}", expected.results[name], found.results[name])
    for name, text in played.fresh.items():
        ends = {row["window_end"] for row in found.results[name]}
        whole = [row for row in expected.results[name] if row["window_end"] in ends]
        try:
            same_rows(whole, found.results[name])
        except AssertionError as mismatch:
            raise AssertionError(f"{name}, which came halfway: {text}\n{mismatch}") from None


def play_on_spark(
    spark: SparkSession, folder: Path, number: int, per_stream: int = QUERIES_PER_STREAM
) -> tuple[Scene, Outcome]:
    played = scene(number, per_stream)
    job = SparkJob(spark, folder)
    try:
        found = perform(job, played, fresh_from_the_start=False)
    finally:
        job.stop()
    try:
        compare(played, perform(EngineJob(), played, fresh_from_the_start=True), found)
    except AssertionError as mismatch:
        mismatch.add_note(f"scene {number}")
        raise
    return played, found


@pytest.mark.spark
def test_random_queries(spark: SparkSession, tmp_path: Path, soak: bool) -> None:
    played, outcome = play_on_spark(spark, tmp_path, SCENE, QUERIES_PER_STREAM if soak else QUERIES_NOW)
    # What is compared must not be empty: late rows, results of most queries, and of some that came halfway.
    assert sum(outcome.late) > 0
    assert sum(bool(outcome.results[name]) for name in played.queries) > len(played.queries) * 0.7
    assert any(outcome.results[name] for name in played.fresh)


@pytest.mark.spark
@pytest.mark.soak
def test_many_random_queries(spark: SparkSession, tmp_path: Path, figure: Callable[[str, object], None]) -> None:
    first = random.SystemRandom().randrange(1, 1_000_000)
    for number in range(first, first + 20):
        play_on_spark(spark, tmp_path / str(number), number)
    figure("random queries on Spark, scenes from", first)
