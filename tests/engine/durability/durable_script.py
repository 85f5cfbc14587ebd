"""A script of calls on a durable engine, run to its end whatever happens in between, and what must come of it.

A player makes the calls one by one. Where the process dies in one, the next engine on the folder is asked to do that
call again, as a careful caller would: a push with the number it had, a statement that may have been done already. What
the player has been handed and what the engine answers in the end must be what an undisturbed engine gave.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any

import panewise as pw
from panewise.engine.recovery.durable_opening import open_folder
from tests.faulty_files import FaultyFiles, Killed

STREAM = """CREATE STREAM IF NOT EXISTS s (ts TIMESTAMP, k STRING, v BIGINT, x DOUBLE,
    WATERMARK FOR ts AS ts - INTERVAL 2 SECONDS) WITH (late = 'keep', on_bad_row = 'skip')"""
TABLE = "CREATE TABLE IF NOT EXISTS names (k STRING, name STRING, PRIMARY KEY (k))"
QUERIES = {
    "grouped": "SELECT k, SUM(v) AS s, AVG(x) AS a FROM s [RANGE 6 SECONDS SLIDE 2 SECONDS] GROUP BY k",
    "changing": "SELECT k, COUNT(*) AS n FROM s [RANGE 3 SECONDS] WHERE v > 30 GROUP BY k",
    "counted": "SELECT SUM(v) AS s FROM s [ROWS 7 SLIDE 3]",
    "named": "SELECT n.name AS name, s.v AS v FROM s [RANGE 2 SECONDS] JOIN names AS n ON s.k = n.k",
}
# Handed over to a sink, which keeps each part under the number that it came with.
SUNK = "SELECT ISTREAM k, COUNT(*) AS n, MAX(v) AS most FROM s [RANGE 4 SECONDS SLIDE 1 SECOND] GROUP BY k"
SECOND_US = 1_000_000
Call = tuple[str, Any]
Rows = list[dict[str, Any]]


def rows_of(push: int) -> Rows:
    """The rows of a push: mostly in order, now and then a late one, and one that is bad."""
    rows: Rows = []
    for i in range(5):
        at = (push * 5 + i) * 400_000 + (push * 7919 + i * 104_729) % 900_000
        rows.append({"ts": at, "k": "abc"[(push + i) % 3], "v": (push * 31 + i * 17) % 97, "x": 1 / (push + i + 1)})
    if push % 4 == 3:
        rows.append({"ts": 0, "k": "late", "v": 1, "x": 0.5})
        rows.append({"ts": None, "k": "bad", "v": 1, "x": 0.5})
    return rows


def script(pushes: int = 8) -> Iterator[Call]:
    """The calls, in order."""
    yield "execute", STREAM
    yield "execute", TABLE
    yield "execute", "INSERT INTO names VALUES ('a', 'first'), ('b', 'second')"
    for name, text in QUERIES.items():
        yield "execute", f"CREATE QUERY IF NOT EXISTS {name} AS {text}"
    yield "execute", f"CREATE QUERY IF NOT EXISTS sunk AS {SUNK}"
    for number in range(1, pushes + 1):
        yield "push", number
        if number % 2:
            yield "sink", None
        match number % 8:
            case 2:
                yield "results", "grouped"
                yield "refused", "INSERT INTO names VALUES ('c', 'one'), ('c', 'two')"
                yield "row", number
            case 3:
                yield "execute", f"UPDATE names SET name = 'changed {number}' WHERE k = 'a'"
                yield "checkpoint", None
                yield "results", "changing"
            case 4:
                yield "late", None
                yield "bad", None
            case 5:
                yield "results", "grouped"
                yield "advance", (number * 5 + 3) * 400_000
                yield "reopen", None
            case 6:
                yield "results", "counted"
                yield "execute", f"DELETE FROM names WHERE name = 'changed {number - 3}'"
                yield "results", "named"
    yield "look", None
    yield "flush", None


@dataclass
class Player:
    """Makes the calls on an engine whose files may fail; `handed` is what it was given, by query or kind of row."""

    folder: Path | None
    files: FaultyFiles = field(default_factory=FaultyFiles)
    sync: str = "always"
    snapshot_every: int = 1 << 30
    handed: dict[str, list[Rows]] = field(default_factory=dict)
    interrupted: set[tuple[str, int]] = field(default_factory=set)  # reads that ended before they returned
    later: list[FaultyFiles] = field(
        default_factory=list
    )  # the files of processes that start after a death, last first
    deaths: int = 0
    refusals: int = 0
    sink: dict[int, Rows] = field(default_factory=dict)
    seen: dict[str, Any] = field(default_factory=dict)  # all answers before the end
    engine: pw.Engine = field(init=False)

    def __post_init__(self) -> None:
        self.survive(self.open)

    def open(self) -> None:
        self.engine = pw.Engine()
        if self.folder is not None:
            open_folder(
                self.engine.books, self.engine.statements, self.folder, self.sync, self.snapshot_every, self.files
            )

    def survive(self, work: Callable[[], None]) -> None:
        """Does it, again by an engine that starts anew where the process died, again where a file failed."""
        for _ in range(5):
            try:
                work()
                return
            except Killed:
                self.deaths += 1
                self.engine.close(snapshot=False)
                self.files = self.later.pop() if self.later else FaultyFiles()
                if work != self.open:
                    self.survive(self.open)
            except pw.DurabilityError:
                self.refusals += 1
                if self.engine.durability is not None and self.engine.durability.stats()["broken"]:
                    self.engine.close(snapshot=False)
                    self.survive(self.open)
        raise AssertionError("refused again and again")

    def play(self, pushes: int = 8) -> None:
        for name, argument in script(pushes):
            call = getattr(self, f"_{name}")
            rows_before = self.engine.stats()["streams"]
            refused_before = self.refusals
            self.survive(lambda call=call, argument=argument: call(argument))  # type: ignore[misc]
            if self.refusals > refused_before and name in ("push", "row"):
                after = self.engine.stats()["streams"]["s"]["rows"]
                assert after - rows_before["s"]["rows"] == (len(rows_of(argument)) if name == "push" else 1)

    # -- the calls -----------------------------------------------------------------------------------------------

    def _execute(self, text: str) -> None:
        # An INSERT that was done, though its call did not return, is refused the second time: its keys are there.
        with suppress(pw.DataError):
            self.engine.execute(text)

    def _refused(self, text: str) -> None:
        try:
            self.engine.execute(text)
        except pw.DataError:
            return
        raise AssertionError(text)

    def _push(self, number: int) -> None:
        self.engine.push("s", rows_of(number), producer="p", sequence=number)

    def _row(self, number: int) -> None:
        row = {"ts": number * 2 * SECOND_US, "k": "a", "v": number, "x": float("nan")}
        last = self.engine.last_sequence("s", "single")
        sequence = len([push for push in range(1, number + 1) if push % 8 == 2])
        assert last in (sequence - 1, sequence)
        self.engine.push("s", row, producer="single", sequence=sequence)

    def _advance(self, until: int) -> None:
        self.engine.advance("s", until)

    def _flush(self, _: None) -> None:
        self.engine.flush()

    def _checkpoint(self, _: None) -> None:
        self.engine.checkpoint()

    def _reopen(self, _: None) -> None:
        if self.folder is not None:
            self.engine.close(snapshot=False)
            self.survive(self.open)

    def _look(self, _: None) -> None:
        self.seen = self.answers()

    def _sink(self, _: None) -> None:
        def take(table: Any, first: int) -> None:
            self.sink[first] = table.to_pylist()

        self.engine.hand_over("sunk", take)

    def _results(self, query: str) -> None:
        self._hand(query, lambda: self.engine.results(query))

    def _late(self, _: None) -> None:
        self._hand("late", lambda: self.engine.late_rows("s"))

    def _bad(self, _: None) -> None:
        self._hand("bad", lambda: self.engine.bad_rows("s"))

    def _hand(self, what: str, fetch: Callable[[], Any]) -> None:
        parts = self.handed.setdefault(what, [])
        try:
            parts.append(fetch().to_pylist())
        except Killed:
            self.interrupted.add((what, len(parts)))
            raise

    # -- what has come of it -------------------------------------------------------------------------------------

    def read_all(self) -> None:
        for query in QUERIES:
            self.survive(lambda query=query: self._results(query))  # type: ignore[misc]
        self.survive(lambda: self._sink(None))
        self.survive(lambda: self._late(None))
        self.survive(lambda: self._bad(None))

    def answers(self) -> dict[str, Any]:
        """What does not depend on who has read what."""
        stats = self.engine.stats()
        kept = ("rows", "late_rows", "bad_rows", "watermark")
        return {
            "lookups": {query: in_order(self.engine.lookup(query).to_pylist()) for query in QUERIES},
            "stream": {name: stats["streams"]["s"][name] for name in kept},
            "results": {query: stats["queries"][query]["results"] for query in QUERIES},
            "table": self.engine.tables["names"].batch().to_pylist(),
            "last": [self.engine.last_sequence("s", "p"), self.engine.last_sequence("s", "single")],
        }


def sunk(player: Player) -> Rows:
    """What the sink holds: its parts by number."""
    return [row for _, rows in sorted(player.sink.items()) for row in rows]


def in_order(rows: Rows) -> list[str]:
    return sorted(map(repr, rows))


def undisturbed(pushes: int = 8) -> Player:
    player = Player(None)
    player.play(pushes)
    player.read_all()
    return player


def check(player: Player, expected: Player) -> None:
    """Everything as it would have been: nothing lost, nothing twice."""
    answers = expected.answers()
    assert repr(player.seen) == repr(expected.seen)
    assert repr(player.answers()) == repr(answers)
    player.read_all()
    assert repr(sunk(player)) == repr(sunk(expected))
    for what, parts in expected.handed.items():
        found = repr([row for part in player.handed[what] for row in part])
        # Who dies while he is handed results has had them, or has them yet to come: all of them either way.
        interrupted = sorted(number for query, number in player.interrupted if query == what)
        possible = (gone for count in range(len(interrupted) + 1) for gone in combinations(interrupted, count))
        kept = ([row for i, part in enumerate(parts) if i not in gone for row in part] for gone in possible)
        assert any(found == repr(rows) for rows in kept), what


def run(folder: Path, files: FaultyFiles, expected: Player, pushes: int = 8, **options: Any) -> Player:
    """The script on a folder with these files, and everything compared, also after one more start."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pw.DurabilityWarning)
        player = Player(folder, files, **options)
        player.play(pushes)
        check(player, expected)
        assert player.engine.stats()["durability"]["replay_differences"] == 0
        player.engine.close(snapshot=False)
        player.files = FaultyFiles()
        player.open()
        assert repr(player.answers()) == repr(expected.answers())
        assert all(player.engine.results(query).num_rows == 0 for query in QUERIES)
        player.engine.close()
    return player
