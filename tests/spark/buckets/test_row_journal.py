"""The state of buckets that take rows: pages go with the windows, and what is built from the others says the same.

Rows come in many small micro-batches; workers forget what they keep, attempts fail. Pages are merged early, and
snapshots taken early or never, as the seed says.
"""

from __future__ import annotations

from pathlib import Path
from random import Random

import pyarrow as pa
import pytest

from panewise.spark.buckets import row_journal
from panewise.spark.buckets.bucket_head import Head
from tests.engine.random_relations import CREATE, SECOND
from tests.now_or_soak import soaking
from tests.spark.both_hosts import ARROW, Both
from tests.spark.local_run import LocalRun

A, B = "a [RANGE 3 SECONDS{}] AS x", "b [RANGE 2 SECONDS{}] AS y"
BOTH, SLIDING = (", ".join((A, B)).format(*[slide] * 2) for slide in ("", " SLIDE 1 SECOND"))
QUERIES = {
    "changes": f"SELECT x.k, y.v FROM {BOTH} WHERE x.k = y.k",
    "coming": f"SELECT ISTREAM x.k, y.v FROM {SLIDING} WHERE x.k = y.k",
    "going": f"SELECT DSTREAM x.k, y.v FROM {SLIDING} WHERE x.k = y.k",
    "reports": f"SELECT y.v FROM {SLIDING} WHERE x.k = y.k",
    "added": "SELECT x.v, y.v AS w FROM a [RANGE 3 S INTERNAL] AS x, b [RANGE 2 S INTERNAL] AS y WHERE x.k = y.k",
    "past": "SELECT x.k, y.v FROM a [RANGE 2 S OFFSET 2 S] AS x, b [RANGE 2 S] AS y WHERE x.k = y.k",
    "absent": f"SELECT x.k, x.v FROM {A} WHERE NOT EXISTS (SELECT 1 FROM {B} WHERE y.k = x.k)".replace("{}", ""),
    "minus": f"SELECT x.k FROM {A} EXCEPT SELECT y.k FROM {B}".replace("{}", ""),
    "once": f"SELECT DISTINCT x.k, x.w FROM {A}".replace("{}", ""),
    "groups": f"SELECT x.k, COUNT(*) AS n, SUM(y.v) AS s, MAX(y.w) AS m FROM {BOTH} WHERE x.k = y.k GROUP BY x.k",
}


@pytest.fixture
def early(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> int:
    """The seed; what is usually done with many or large pages is done with few and small ones."""
    seed: int = request.param
    monkeypatch.setattr(row_journal, "PAGES_PER_LEVEL", (2, 3, 5)[seed % 3])
    monkeypatch.setattr(row_journal, "JOURNAL_LEAST", (100, 1 << 30)[seed % 2])
    monkeypatch.setattr(row_journal, "JOURNAL_TO_STATE", 1)
    return seed


def feed(both: Both, chance: Random, time: int, steps: int, delay: int = 0) -> int:
    """Rows of both streams in so many micro-batches, some of them of one stream only; how far time has come."""
    for _ in range(steps):
        for stream in chance.choice(("ab", "ab", "ba", "a", "b")):
            rows = [
                {
                    "ts": max(0, time - chance.choice((0, delay))),
                    "k": chance.choice((None, 1, 2, 3, 4, 5, 6, 7)),
                    "v": chance.choice((1, 2, None)),
                    "w": chance.choice("pq"),
                }
                for _ in range(chance.choice((1, 1, 2, 5)))
            ]
            both.push(stream, rows, runs=False)
        both.go_on()
        time += chance.choice((0, SECOND // 4, SECOND // 4, SECOND))
    return time


@pytest.mark.parametrize("early", soaking(range(4), now=[0, 1]), indirect=True)
def test_as_the_engine_says(early: int, tmp_path: Path) -> None:
    chance = Random(early)
    both = Both(tmp_path, seed=early, buckets=2)
    both.execute(CREATE.format("a"), CREATE.format("b"))
    names = chance.sample(list(QUERIES), 4)
    both.execute(*(f"CREATE QUERY {name} AS {QUERIES[name]}" for name in names))
    time = feed(both, chance, 0, 25, SECOND)
    both.advance(time + 20 * SECOND, ("a", "b"))
    assert all(both.compare(name) for name in names)


@pytest.mark.parametrize("early", soaking(range(2), now=[0]), indirect=True)
def test_queries_that_come_while_pages_go(early: int, tmp_path: Path) -> None:
    """A query that has begun, but whose windows are not whole, keeps the pages from which it can be begun again."""
    chance = Random(early)
    both = Both(tmp_path, buckets=2, forgetful=True)
    both.execute(*(CREATE.format(stream).replace(" - INTERVAL 2 SECONDS", "") for stream in "ab"))
    names = ["changes", *chance.sample([name for name in QUERIES if name not in ("changes", "past")], 2), "past"]
    time, created = 0, {}
    for name in names:
        both.execute(f"CREATE QUERY {name} AS {QUERIES[name]}")
        created[name] = time
        time = feed(both, chance, time, 8)
    both.execute("DROP QUERY changes")
    time = feed(both, chance, time, 6)
    both.advance(time + 20 * SECOND, ("a", "b"))
    assert sum(both.compare(name, created[name] + 5 * SECOND) for name in names[1:]) > 10


def test_what_is_built_anew_begins_when_it_would_have(tmp_path: Path) -> None:
    """Of two runs one keeps its buckets and the other builds them anew in every micro-batch.

    A stream that was said to have come far long ago, and a query that has only just begun, are not forgotten.
    """
    runs = [LocalRun(tmp_path / name, partitions=2, forgetful=name == "forgetful") for name in ("kept", "forgetful")]
    found: list[dict[str, list[str]]] = [{}, {}]

    def go_on() -> None:
        for run, results in zip(runs, found, strict=True):
            for name, table in run.run().items():
                results.setdefault(name, []).extend(sorted(map(repr, table.to_pylist())))
        assert found[0] == found[1]

    for run in runs:
        run.change(*(CREATE.format(stream) for stream in "ab"), f"CREATE QUERY absent AS {QUERIES['absent']}")
        run.advance("b", 30 * SECOND)
    for step in range(24):
        rows = [{"ts": 2 * step * SECOND, "k": k, "v": step, "w": "p"} for k in (1, 2, 3)]
        for run in runs:
            if step == 18:
                run.advance("b", 90 * SECOND)
            if step in (8, 16):
                name = {8: "minus", 16: "once"}[step]
                run.change(f"CREATE QUERY {name} AS {QUERIES[name].replace('3 SECONDS', '6 SECONDS')}")
            run.push("a", pa.RecordBatch.from_pylist(rows, ARROW))
        go_on()
    assert all(found[0][name] for name in ("absent", "minus", "once"))


def test_every_row_is_written_once_and_goes(tmp_path: Path) -> None:
    both = Both(tmp_path, buckets=2)
    both.execute(CREATE.format("a"), CREATE.format("b"), f"CREATE QUERY q AS {QUERIES['changes']}")
    chance = Random(1)
    written, stored, pages = [], [], []
    for step in range(40):
        for stream in "ab":
            times = range(step * SECOND // 2, (step + 1) * SECOND // 2, SECOND // 200)
            rows = [{"ts": time, "k": chance.randrange(1000), "v": 1, "w": "p"} for time in times]
            both.push(stream, rows, runs=False)
        both.go_on()
        written.append(both.run.written)
        contents = both.run.stores.values()
        stored.append(sum(len(data) for content in contents for data in content.values()))
        pages += [len(Head.unpacked(content["head"]).pages) for content in contents if "head" in content]
    # Three seconds of a range and two of delay are 10 micro-batches; one more holds the last row of the oldest.
    assert max(written) < 1.2 * written[0]
    assert max(stored) < 14 * written[0]
    assert max(pages) <= 13
    both.advance(200 * SECOND, ("a", "b"))
    assert both.compare("q")


def test_small_pages_become_few(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_journal, "PAGES_PER_LEVEL", 3)
    both = Both(tmp_path, buckets=1)
    wide = QUERIES["changes"].replace("3 SECONDS", "60 SECONDS")
    both.execute(CREATE.format("a"), CREATE.format("b"), f"CREATE QUERY q AS {wide}")
    pages = []
    for step in range(70):
        both.push("ab"[step % 2], [{"ts": step * SECOND, "k": step % 5, "v": 1, "w": "p"}])
        pages += [len(Head.unpacked(c["head"]).pages) for c in both.run.stores.values() if "head" in c]
    # 60 micro-batches are within the window.
    assert 6 < max(pages) < 20
    both.advance(200 * SECOND, ("a", "b"))
    assert both.compare("q")


def test_a_query_that_keeps_little_of_what_it_reads_has_snapshots(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_journal, "JOURNAL_LEAST", 10_000)
    monkeypatch.setattr(row_journal, "JOURNAL_TO_STATE", 1)
    both, total = Both(tmp_path, buckets=1), 0
    text = QUERIES["changes"].replace("3 SECONDS", "600 SECONDS") + " AND x.v = 77 AND y.v = 77"
    both.execute(*(CREATE.format(stream).replace(" - INTERVAL 2 SECONDS", "") for stream in "ab"))
    both.execute(f"CREATE QUERY q AS {text}")
    stored = []
    for step in range(20):
        for stream in "ab":
            rows = [{"ts": step * SECOND, "k": 1, "v": 0 if v else 77, "w": "p"} for v in range(1000)]
            both.push(stream, rows, runs=False)
        both.go_on()
        total += both.run.written
        stored.append(sum(len(data) for content in both.run.stores.values() for data in content.values()))
    assert max(stored) < total / 3
    both.run.workers = [{}]
    both.advance(900 * SECOND, ("a", "b"))
    assert both.compare("q")
