"""The stages of the Spark pipeline under faults, without Spark: random streams, queries and changes, many times.

A play is what happens to a pipeline, micro-batch by micro-batch: statements, then rows in a few messages, now and then
a punctuation. It is played three times: undisturbed, with workers that lose what they keep and attempts that fail, and
on the embedded engine. Rows are out of order within the delay and never late, because the engine judges lateness row by
row and Spark micro-batch by micro-batch.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import panewise as pw
from panewise.plan import physical_plan as physical
from panewise.spark.buckets import family_pages, row_journal
from panewise.spark.program import known_programs
from panewise.spark.tasks.batch_progress import last_marks
from tests.case_runner import same_rows
from tests.engine.hosting.frail_aggregate import register
from tests.now_or_soak import soaking
from tests.spark.local_run import LocalRun

EPOCH = datetime(2024, 5, 1, tzinfo=UTC)
SECOND = 1_000_000
DELAY_SECONDS = 4
STREAM = (
    "CREATE STREAM t (ts TIMESTAMP, k STRING, v BIGINT, x DOUBLE, w STRING, "
    f"WATERMARK FOR ts AS ts - INTERVAL {DELAY_SECONDS} SECONDS)"
)
# By name. Doubles are multiples of a quarter, so that no sum depends on the order in which it is taken.
QUERIES = {
    "grouped": "SELECT k, SUM(v) AS s, MAX(x) AS m, COUNT(*) AS n FROM t [RANGE 5 SECONDS SLIDE 1 SECOND] GROUP BY k",
    "wider": "SELECT k, AVG(x) AS a, MIN(v) AS low FROM t [RANGE 13 SECONDS SLIDE 3 SECONDS] GROUP BY k",
    "total": "SELECT SUM(v) AS s, COUNT(*) AS n, STDDEV_POP(x) AS d FROM t [RANGE 7 SECONDS SLIDE 2 SECONDS]",
    "several": (
        "SELECT k, COUNT(*) AS n FROM t [RANGE 4 SECONDS SLIDE 1 SECOND] WHERE v > 1 GROUP BY k HAVING COUNT(*) > 1"
    ),
    "earlier": "SELECT k, SUM(v) AS s FROM t [RANGE 3 SECONDS SLIDE 2 SECONDS OFFSET 6 SECONDS] GROUP BY k",
    "sparse": "SELECT w, k, SUM(x) AS s FROM t [RANGE 2 SECONDS SLIDE 5 SECONDS] GROUP BY w, k",
    "texts": (
        "SELECT k, MIN(w) AS low, MAX(w) AS high, FIRST(w) AS f, LAST(v) AS l FROM t [RANGE 6 SECONDS SLIDE 2 SECONDS] "
        "GROUP BY k"
    ),
    "ends": "SELECT FIRST(v) AS f, LAST(w) AS l, ARG_MAX(w, x) AS best FROM t [RANGE 5 SECONDS SLIDE 5 SECONDS]",
    "continuous": "SELECT k, SUM(v) AS s FROM t [RANGE 3 SECONDS] GROUP BY k",
    "counted": "SELECT SUM(v) AS s, MAX(w) AS w FROM t [ROWS 9 SLIDE 4]",
    "by_part": "SELECT k, SUM(v) AS s, COUNT(*) AS n FROM t [PARTITION BY k ROWS 3 SLIDE 2] GROUP BY k",
    "inserted": "SELECT ISTREAM k, COUNT(*) AS n FROM t [RANGE 4 SECONDS SLIDE 2 SECONDS] GROUP BY k",
    "chosen": "SELECT ISTREAM v, w FROM t [RANGE 2 SECONDS] WHERE v > 5",
    "stacked": "SELECT MAX(n) AS most, SUM(s) AS s FROM total [RANGE 6 SECONDS SLIDE 2 SECONDS]",
    "nested": (
        "SELECT SUM(n) AS n FROM (SELECT k, COUNT(*) AS n FROM t [RANGE 3 SECONDS SLIDE 1 SECOND] GROUP BY k) [ROWS 5]"
    ),
    "failing": "SELECT FRAIL(1e18 + v * 1e6) AS s FROM t [RANGE 9 SECONDS SLIDE 3 SECONDS] WHERE v > 6",
}
ALWAYS = ("total", "grouped", "texts", "failing")
# The kinds whose whole windows are the same whenever they come.
PERIODIC = (
    "grouped",
    "wider",
    "total",
    "having",
    "earlier",
    "sparse",
    "texts",
    "ends",
)  # what a new query may be held to
Rows = list[dict[str, Any]]


SMALL = pa.schema([("ts", pa.timestamp("us", tz="UTC")), ("k", pa.int64()), ("v", pa.int64())])


@dataclass
class Turn:
    """One micro-batch."""

    statements: list[str] = field(default_factory=list)
    messages: list[Rows] = field(default_factory=list)
    advance: int | None = None


class Play:
    """Random, but the same for the same seed.

    `first` are there from the beginning to the end, though they may rest; `coming` come later: by name, of which kind
    they are and what the stream had reached. `disturbed` names those of them that rested or went.
    """

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        chosen = set(self._chance.sample([name for name in QUERIES if name not in ALWAYS], 7)) | set(ALWAYS)
        self.first = [name for name in QUERIES if name in chosen]
        self.coming: dict[str, tuple[str, datetime]] = {}
        self.disturbed: set[str] = set()
        self.turns: list[Turn] = []
        self._here: list[str] = []
        self._now = 0.0
        self._under_way: Rows = []
        for _ in range(self._chance.randrange(6, 16)):
            self.turns.append(self._turn())
        rest = sorted(self._under_way, key=lambda row: row["ts"])
        self.turns.append(Turn([], [rest] if rest else [], self._instant(60)))

    def _turn(self) -> Turn:
        chance, turn = self._chance, Turn()
        if self.turns and chance.random() < 0.4:
            turn.statements = [self._statement() for _ in range(chance.choice((1, 1, 2, 3)))]
        for _ in range(chance.choice((0, 1, 1, 2, 3))):
            turn.messages.append(self._letter(chance.choice((1, 2, 10, 30))))
        if chance.random() < 0.1 and not self._under_way:
            turn.advance = self._instant(0)
        return turn

    def _letter(self, count: int) -> Rows:
        """New rows, and some that were under way. None overtakes another one by more than the delay."""
        chance = self._chance
        for _ in range(count):
            self._now += (
                chance.choice((0, 0, 0.1, 0.25, 0.5, 1, 1)) if chance.random() < 0.97 else chance.choice((8, 40))
            )
            self._under_way.append(_row(chance, self._now))
        newest = EPOCH + timedelta(seconds=self._now - DELAY_SECONDS)
        urgent = sorted((row for row in self._under_way if row["ts"] <= newest), key=lambda row: row["ts"])
        others = [row for row in self._under_way if row["ts"] > newest]
        chance.shuffle(others)
        cut = chance.randrange(len(others) + 1)
        self._under_way = others[cut:]
        return urgent + others[:cut]

    def _statement(self) -> str:
        chance = self._chance
        kind = chance.random()
        if kind < 0.5 or not self._here:
            origin = chance.choice(list(QUERIES))
            name = f"{origin}_{len(self.coming)}"
            self.coming[name] = origin, EPOCH + timedelta(seconds=self._now)
            self._here.append(name)
            return f"CREATE QUERY {name} AS {QUERIES[origin]}"
        if kind < 0.7:
            name = self._here.pop(chance.randrange(len(self._here)))
            self.disturbed.add(name)
            return f"DROP QUERY {name}"
        name = chance.choice([name for name in (*self._here, *self.first) if not name.startswith("failing")])
        self.disturbed.add(name)
        return f"{chance.choice(('SUSPEND', 'RESUME', 'RESUME'))} QUERY {name}"

    def _instant(self, ahead: int) -> int:
        return int((EPOCH + timedelta(seconds=self._now + ahead)).timestamp() * SECOND)


def _row(chance: random.Random, seconds: float) -> dict[str, Any]:
    return {
        "ts": EPOCH + timedelta(seconds=seconds),
        "k": chance.choice(("a", "b", "c", "dd", "", None)),
        "v": chance.choice((None, *range(10))),
        "x": chance.choice((None, *(number / 4 for number in range(-6, 9)))),
        "w": chance.choice(("", "p", "q", "\u00fc", None)),
    }


# -- the hosts --------------------------------------------------------------------------------------------------------


class FaultyRun(LocalRun):
    """Besides workers and attempts, drivers die: after a micro-batch has been written, before it has been committed."""

    def run(self) -> dict[str, pa.Table]:
        assert self.chance is not None
        if self.chance.random() < 0.2:
            stores = {key: dict(content) for key, content in self.stores.items()}
            posted = list(self.posted)
            super().run()
            self.batch -= 1
            self.stores, self.posted = stores, posted
            if self.chance.random() < 0.5:
                self.folder.remove(f"marks/{self.batch:012d}.json")
            if self.chance.random() < 0.5:
                known_programs._of_runs.clear()
        return super().run()


@dataclass
class Outcome:
    results: dict[str, Rows]
    marks: dict[str, Any]


def performed(run: LocalRun, played: Play) -> Outcome:
    run.change(STREAM, *(f"CREATE QUERY {name} AS {QUERIES[name]}" for name in played.first))
    results: dict[str, Rows] = {name: [] for name in (*played.first, *played.coming)}
    for turn in played.turns:
        if turn.statements:
            run.change(*turn.statements)
        for message in turn.messages:
            run.push("t", pa.RecordBatch.from_pylist(message, ARROW))
        if turn.advance is not None:
            run.advance("t", turn.advance)
        for name, table in run.run().items():
            results[name] += table.to_pylist()
    return Outcome(results, last_marks(run.folder).to_dict())


def on_engine(played: Play) -> dict[str, Rows]:
    """All queries that can be held to it, those that come too, from the beginning; only rests are the same."""
    engine = register(pw.Engine())
    engine.execute(f"{STREAM};")
    comers = {name: origin for name, (origin, _) in played.coming.items() if origin in PERIODIC}
    for name, origin in ({name: name for name in played.first} | comers).items():
        engine.execute(f"CREATE QUERY {name} AS {QUERIES[origin]};")
    for turn in played.turns:
        for statement in turn.statements:
            if statement.split()[-1] in played.first:
                engine.execute(f"{statement};")
        for message in turn.messages:
            engine.push("t", message)
        if turn.advance is not None:
            engine.advance("t", turn.advance)
    assert engine.stats()["streams"]["t"]["late_rows"] == 0
    return {name: engine.results(name).to_pylist() for name in (*played.first, *comers)}


ARROW = pa.schema(
    [
        ("ts", pa.timestamp("us", tz="UTC")),
        ("k", pa.string()),
        ("v", pa.int64()),
        ("x", pa.float64()),
        ("w", pa.string()),
    ]
)


def compare(played: Play, expected: dict[str, Rows], found: Outcome) -> None:
    for name in played.first:
        if name != "failing":
            _agree(name, expected[name], found.results[name])
    for name, (origin, reached) in played.coming.items():
        if origin not in PERIODIC:
            continue
        ends = {row["window_end"] for row in found.results[name]}
        _agree(name, [row for row in expected[name] if row["window_end"] in ends], found.results[name])
        if name not in played.disturbed:
            # Slices that were there before may reach a few seconds beyond the newest row; without groups the reports
            # begin with the first window that holds a row.
            later = [row for row in expected[name] if row["window_start"] > reached + timedelta(seconds=6)]
            whole = [row["window_end"] for row in later if _holds_a_row(played, row)]
            assert set(whole) <= ends, name


def _holds_a_row(played: Play, report: dict[str, Any]) -> bool:
    times = (row["ts"] for turn in played.turns for message in turn.messages for row in message)
    return any(report["window_start"] <= ts < report["window_end"] for ts in times)


def _agree(name: str, expected: Rows, found: Rows) -> None:
    try:
        same_rows(expected, found)
    except AssertionError as mismatch:
        raise AssertionError(f"{name}: {mismatch}") from None


def check(seed: int, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Few groups are kept densely, many sparsely; here three are many. Pages and journals are turned over soon."""
    monkeypatch.setattr(physical, "SPARSE_ABOVE", 3 if seed % 2 else 4_096)
    monkeypatch.setattr(family_pages, "PAGES_PER_LEVEL", 3)
    monkeypatch.setattr(row_journal, "JOURNAL_LEAST", 4_096 if seed % 3 else 100)
    played = Play(seed)
    undisturbed = performed(LocalRun(folder / "undisturbed"), played)
    faulty = performed(FaultyRun(folder / "faulty", seed=seed), played)
    assert faulty.marks == undisturbed.marks
    for name in undisturbed.results:
        _agree(name, undisturbed.results[name], faulty.results[name])
    compare(played, on_engine(played), undisturbed)


@pytest.mark.parametrize("seed", soaking(range(5), now=[0, 1, 2]))
def test_faults_change_nothing(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check(seed, tmp_path, monkeypatch)


def test_large_pages_are_cut(tmp_path: Path, soak: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("panewise.spark.buckets.family_pages.PAGE_MOST", 500)
    for seed in range(40, 43 if soak else 41):
        check(seed, tmp_path / str(seed), monkeypatch)


@pytest.mark.soak
def test_faults_change_nothing_for_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, figure: Callable[[str, object], None]
) -> None:
    first = random.SystemRandom().randrange(1_000, 1_000_000)
    for seed in range(first, first + 300):
        try:
            check(seed, tmp_path / str(seed), monkeypatch)
        except AssertionError as mismatch:
            mismatch.add_note(f"seed {seed}")
            raise
    figure("faults without Spark, 300 plays from", first)


def test_plays_are_worth_playing(tmp_path: Path) -> None:
    """What is compared must not be empty: queries that come later deliver, one fails, others rest."""
    plays = [Play(seed) for seed in range(15)]
    assert all(sum(len(message) for turn in played.turns for message in turn.messages) > 20 for played in plays)
    outcomes = [performed(LocalRun(tmp_path / str(at)), played) for at, played in enumerate(plays[:6])]
    assert all(outcome.results["grouped"] and outcome.results["total"] for outcome in outcomes)
    delivered = [name for outcome in outcomes for name, rows in outcome.results.items() if "_" in name and rows]
    assert len(delivered) > 4
    assert any(name.startswith("failing") for outcome in outcomes for name in outcome.marks["failed"])
    assert any(name in played.first for played in plays for name in played.disturbed)


@pytest.mark.parametrize(
    ("slide", "told"),
    soaking(product(["SLIDE 1 SECOND", ""], [True, False]), now=[("SLIDE 1 SECOND", True), ("", False)]),
)
def test_a_query_that_comes_back_knows_what_it_has_missed(slide: str, told: bool, tmp_path: Path) -> None:
    """Where a driver dies before it has told the buckets that a fragment is gone, they find out by themselves."""
    run = LocalRun(tmp_path)
    query = f"CREATE QUERY q AS SELECT k, COUNT(*) AS n FROM t [RANGE 10 SECONDS {slide}] GROUP BY k"
    other = "CREATE QUERY other AS SELECT COUNT(*) AS n FROM t [RANGE 10 SECONDS SLIDE 1 SECOND]"
    run.change("CREATE STREAM t (ts TIMESTAMP, k BIGINT, v BIGINT)", query, other)
    found: Rows = []
    for second in range(60):
        if second == 20:
            run.change("DROP QUERY q")
            if not told:
                run.folder.remove(f"inbox/{run.folder.numbers('inbox')[-1]:012d}.json")
        if second == 24:
            run.change(query)
        run.push("t", pa.RecordBatch.from_pylist([{"ts": second * SECOND, "k": 1, "v": 0}], SMALL))
        tables = run.run()
        found += tables["q"].to_pylist() if "q" in tables else []
    time = "window_end" if slide else "instant"
    later = [row for row in found if row[time] >= datetime.fromtimestamp(24, UTC)]
    assert [row["n"] for row in later] == [10] * (26 if slide else 1)
    assert later[0][time] == datetime.fromtimestamp(34 if slide else 33, UTC)


# -- how much is kept and written ------------------------------------------------------------------------------------


def hour(run: LocalRun, groups: int, range_seconds: int, step_seconds: int, minutes: int = 60) -> list[tuple[int, int]]:
    """Each group has a row a second. By micro-batch: bytes of state, and bytes that the micro-batch has written."""
    run.change(
        "CREATE STREAM t (ts TIMESTAMP, k BIGINT, v BIGINT)",
        "CREATE QUERY q AS SELECT k, SUM(v) AS s, MAX(v) AS m "
        f"FROM t [RANGE {range_seconds} SECONDS SLIDE 1 SECOND] GROUP BY k HAVING COUNT(*) < 0",
    )
    keys = np.tile(np.arange(groups, dtype=np.int64), step_seconds)
    offsets = np.repeat(np.arange(step_seconds, dtype=np.int64) * SECOND, groups)
    found = []
    for second in range(0, minutes * 60, step_seconds):
        times = pa.array(offsets + second * SECOND).cast(pa.timestamp("us", tz="UTC"))
        values = pa.array((keys * 7 + second) % 1_000)
        run.push("t", pa.RecordBatch.from_arrays([times, pa.array(keys), values], names=["ts", "k", "v"]))
        run.run()
        kept = sum(len(data) for content in run.stores.values() for data in content.values())
        found.append((kept, run.written))
    return found


def check_state(groups: int, folder: Path, figure: Callable[[str, object], None], minutes: int = 60) -> None:
    figures = hour(LocalRun(folder / "wide"), groups, range_seconds=300, step_seconds=30, minutes=minutes)
    kept = [bytes_kept for bytes_kept, _ in figures]
    full = max(kept[10:20])  # the range is full after the tenth micro-batch
    assert max(kept[20:]) <= full * 1.1
    written = [bytes_written for _, bytes_written in figures]
    assert max(written) < full / 2
    figure(f"state at {groups} groups, range 300 s: kept, written a micro-batch of 30 s", (full, max(written)))
    # What is written follows from what is new, not from what is kept.
    narrow = hour(LocalRun(folder / "narrow"), groups, range_seconds=60, step_seconds=30, minutes=20)
    assert max(bytes_kept for bytes_kept, _ in narrow) < full / 2
    assert sum(written[:40]) < 1.5 * sum(bytes_written for _, bytes_written in narrow)
    short = hour(LocalRun(folder / "short"), groups, range_seconds=300, step_seconds=10, minutes=20)
    assert sum(bytes_written for _, bytes_written in short) < 2.5 * sum(written[:40])


def test_state_levels_off_and_a_micro_batch_writes_what_is_new(
    tmp_path: Path, soak: bool, figure: Callable[[str, object], None]
) -> None:
    check_state(50, tmp_path, figure, minutes=60 if soak else 25)


@pytest.mark.soak
def test_state_of_many_groups_levels_off(tmp_path: Path, figure: Callable[[str, object], None]) -> None:
    check_state(10_000, tmp_path, figure)


def test_many_small_micro_batches_keep_few_pages(tmp_path: Path, soak: bool) -> None:
    run = LocalRun(tmp_path)
    run.change(
        "CREATE STREAM t (ts TIMESTAMP, k BIGINT, v BIGINT)",
        "CREATE QUERY q AS SELECT k, SUM(v) AS s FROM t [RANGE 2 MINUTES SLIDE 1 SECOND] GROUP BY k",
        "CREATE QUERY n AS SELECT COUNT(*) AS n FROM t [ROWS 100 SLIDE 50]",
    )
    most = 0
    for number in range(600 if soak else 300):
        rows = [{"ts": number * SECOND // 4, "k": number % 3, "v": number}]
        run.push("t", pa.RecordBatch.from_pylist(rows, SMALL))
        run.run()
        # Every bucket's content has its head beside the pages.
        most = max(most, *(len(content) - 1 for key, content in run.stores.items() if _of_families(run, key)))
    # A page for each micro-batch would make 100 to 480 of them.
    assert most < 5 * family_pages.PAGES_PER_LEVEL
    assert max(len(content) for content in run.stores.values()) < 1_000


def _of_families(run: LocalRun, key: int) -> bool:
    return any(
        fragment.is_folded and key in run.program.keys_of(fragment) for fragment in run.program.fragments.values()
    )
