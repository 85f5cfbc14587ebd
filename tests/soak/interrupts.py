"""Interrupts at random points inside the engine: it goes on as if nothing had happened, or says that it is broken.

A script of calls runs on an engine, durable or not, and on an undisturbed one. In some calls a KeyboardInterrupt is
raised at the n-th point where Python itself may raise one: at the beginning of a function of panewise, or after it has
called one written in C. Some are aimed: only the points in the modules that write the log count, or in those of turns
and of what is handed out. After each the engine must be exactly what the undisturbed one is before the call or after
it. Where it is broken, every call says so; a durable one is opened again, and the same must hold. Nothing is doubled:
the rest of the script goes on from whichever of the two it was.
"""

from __future__ import annotations

import random
import sys
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import pyarrow as pa

import panewise as pw
from panewise.engine.engine import Engine
from tests.line_faults import nothing_collected

SOURCE = str(Path(pw.__file__).parent)
STATEMENTS = (
    """CREATE STREAM s (ts TIMESTAMP, k STRING, v BIGINT, WATERMARK FOR ts AS ts - INTERVAL 1 SECOND)
       WITH (late = 'keep', on_bad_row = 'skip', retain = '20 seconds')""",
    "CREATE TABLE names (k STRING, name STRING, PRIMARY KEY (k))",
    "INSERT INTO names VALUES ('a', 'first'), ('b', 'second')",
)
QUERIES = (
    "SELECT k, SUM(v) AS s, COUNT(*) AS n FROM s [RANGE 4 SECONDS SLIDE 1 SECOND] GROUP BY k",
    "SELECT k, MAX(v) AS most FROM s [RANGE 7 SECONDS SLIDE 2 SECONDS] GROUP BY k",
    "SELECT k, MAX(v) AS most, AVG(v) AS mean FROM s [RANGE 3 SECONDS] WHERE v > 30 GROUP BY k",
    "SELECT SUM(v) AS s FROM s [ROWS 7 SLIDE 3]",
    "SELECT ISTREAM k, COUNT(*) AS n FROM s [RANGE 4 SECONDS SLIDE 1 SECOND] GROUP BY k",
    "SELECT n.name AS name, s.v AS v FROM s [RANGE 2 SECONDS] JOIN names AS n ON s.k = n.k",
    "SELECT a.v AS v, b.k AS k FROM s [RANGE 1 SECOND] AS a JOIN s [RANGE 2 SECONDS] AS b ON a.v = b.v WHERE a.k < b.k",
    "SELECT DISTINCT k FROM s [RANGE 2 SECONDS SLIDE 1 SECOND]",
    "SELECT MEDIAN(v) AS m FROM s [RANGE 5 SECONDS SLIDE 1 SECOND]",
    "SELECT MAX(s) AS most FROM q0 [RANGE 6 SECONDS SLIDE 2 SECONDS]",
)
CALLS = {
    "push": 6, "row": 3, "numbered": 5, "create": 2, "drop": 1, "suspend": 1, "update": 1, "results": 3, "hand_over": 3,
    "hand_over_all": 1, "lookup": 3, "past": 1, "select": 1, "advance": 1, "flush": 1, "late": 1, "bad": 1,
    "checkpoint": 1, "close": 1, "open": 1, "subscribe": 1, "stats": 1,
}  # fmt: skip
# The files of which the points count, by how often they are aimed at; none: all files.
AIMS: dict[tuple[str, ...], int] = {
    (): 5,
    ("durable_log.py", "durable_files.py", "durable_note.py", "durability.py"): 3,
    ("engine.py", "turns.py", "ledger.py", "hosted_query.py", "unread_results.py", "published_answers.py"): 1,
    ("stream_calls.py", "statement_calls.py", "result_calls.py", "flusher.py", "pending_rows.py", "stream.py"): 2,
}
Rows = list[dict[str, Any]]


class Interrupt:
    """Raises a KeyboardInterrupt at the `at`-th point of a call, and counts how many there were; `aim`: the names of
    the files in which points count, all where there are none."""

    def __init__(self, at: int | None, aim: tuple[str, ...] = ()) -> None:
        self.at = at
        self.aim = aim
        self.points = 0
        self.place = ""

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        name = frame.f_code.co_filename
        if event in ("call", "c_return") and name.startswith(SOURCE) and (not self.aim or name.endswith(self.aim)):
            self.points += 1
            if self.points == self.at:
                sys.setprofile(None)
                code = frame.f_code
                self.place = f"{event} {Path(code.co_filename).name}:{frame.f_lineno} {code.co_qualname}"
                raise KeyboardInterrupt

    def during(self, call: Callable[[], None]) -> bool:
        """Whether the call was interrupted."""
        with nothing_collected():
            sys.setprofile(self)
            try:
                call()
            except KeyboardInterrupt:
                return True
            finally:
                sys.setprofile(None)
        return False


@dataclass
class Play:
    """The two engines. `folder` None: the disturbed one has no path."""

    chance: random.Random
    folder: Path | None
    engine: Engine = field(init=False)
    undisturbed: Engine = field(default_factory=Engine)
    told: list[str] = field(default_factory=list)  # what happened, for whoever looks at a failure
    points: dict[object, int] = field(default_factory=dict)  # in the last call of a kind and aim
    interrupts: int = 0
    clock: int = 0
    queries: int = 0
    number: int = 0  # of pushes that have one
    sink: dict[int, Rows] = field(default_factory=dict)
    expected_sink: Rows = field(default_factory=list)
    lost: bool = False

    def run(self, calls: int, share: float) -> None:
        self.engine = self.opened()
        for text in STATEMENTS:
            self.both(lambda engine, text=text: engine.execute(text))
        for query in self.chance.sample(range(len(QUERIES) - 1), 4):
            self.create(QUERIES[query])
        for _ in range(calls):
            kind = self.chance.choices(list(CALLS), list(CALLS.values()))[0]
            self.told.append(kind)
            call = getattr(self, f"_{kind}")()
            self.disturbed(kind, call, self.chance.random() < share)
            if self.lost:
                return
        self.told.append("the end")
        self.both(self._hand_over())
        self.compare_sink()
        same(fingerprint(self.engine), fingerprint(self.undisturbed))
        self.engine.close()
        if self.folder is not None:
            self.engine = self.opened()
            same(fingerprint(self.engine), fingerprint(self.undisturbed))
            self.engine.close()

    def opened(self) -> Engine:
        return Engine() if self.folder is None else Engine(self.folder, sync=self.sync, snapshot_every=self.every)

    @property
    def sync(self) -> str:
        return self.chance.choice(("batch", "never"))

    @property
    def every(self) -> int:
        return self.chance.choice((4_000, 1 << 30))

    def both(self, call: Callable[[Engine], object]) -> None:
        call(self.engine)
        call(self.undisturbed)

    def disturbed(self, kind: str, call: Callable[[Engine], Any], wanted: bool) -> None:
        """Makes a call on both engines, with an interrupt in that of the disturbed one."""
        before, sunk = fingerprint(self.undisturbed) if wanted else None, list(self.expected_sink)
        copy = Engine.restore(self.undisturbed.snapshot()) if wanted else self.undisturbed
        expected = answered(lambda: call(copy))
        aim = self.chance.choices(list(AIMS), list(AIMS.values()))[0]
        known = self.points.get((kind, aim), 30 if aim else 300)
        at = self.chance.randint(1, known if self.chance.random() < 0.6 else min(known, 80)) if wanted else None
        interrupt, found = Interrupt(at, aim), []
        if not interrupt.during(lambda: found.append(answered(lambda: call(self.engine)))):
            if interrupt.points:
                self.points[kind, aim] = interrupt.points
            self.undisturbed = copy
            assert found[0] == expected, f"{kind}: {found[0]} instead of {expected}"
            return
        assert before is not None
        self.interrupts += 1
        self.told[-1] += f" (interrupted at point {at}: {interrupt.place})"
        self.settle()
        if self.lost:
            return
        now = fingerprint(self.engine)
        if now == fingerprint(copy) and (now != before or self.chance.random() < 0.5):
            self.undisturbed = copy
            self.told[-1] += ", and has happened"
        else:
            self.expected_sink = sunk
            same(now, before)

    def settle(self) -> None:
        """After an interrupt: the engine is whole, or broken and opened again, or lost."""
        try:
            self.engine.stats()
            closed = self.engine.durability is not None and self.engine.durability.closed
        except pw.EngineBroken as problem:
            self.told[-1] += ", broken"
            names = [definition.name for definition in self.undisturbed.catalog.of_kind("query")]
            lookups = [lambda name=name: self.engine.lookup(name) for name in names]
            for refused in (*lookups, lambda: self.engine.push("s", []), self.engine.snapshot):
                try:
                    refused()
                except pw.EngineBroken:
                    continue
                raise AssertionError("a broken engine has answered") from problem
            self.engine.close()
            self.lost = self.folder is None
            said, closed = str(problem), True
            if ("lost" if self.lost else "again") not in said:
                raise AssertionError(said) from problem
        if closed and self.folder is not None:
            self.engine.close()
            self.engine = self.opened()

    def compare_sink(self) -> None:
        rows: Rows = []
        for first, part in sorted(self.sink.items()):
            assert first <= len(rows), f"results {len(rows)} to {first} were never handed over"
            rows[first:] = part
        assert rows == self.expected_sink, f"of the sink: {rows} instead of {self.expected_sink}"

    # -- the calls -----------------------------------------------------------------------------------------------

    def create(self, text: str) -> None:
        name = f"q{self.queries}"
        self.queries += 1
        self.both(lambda engine: engine.execute(f"CREATE QUERY {name} AS {text}"))

    def rows(self, count: int) -> Rows:
        rows = []
        for _ in range(count):
            self.clock += self.chance.randrange(400_000)
            ts = self.clock - self.chance.randrange(1_300_000)
            rows.append({"ts": ts, "k": self.chance.choice("abc"), "v": self.chance.randrange(100)})
        if self.chance.random() < 0.2:
            rows.append({"ts": None, "k": "bad", "v": 1})
        return rows

    def name(self) -> str:
        found = [definition.name for definition in self.undisturbed.catalog.of_kind("query")]
        return self.chance.choice(found)

    def _push(self) -> Callable[[Engine], Any]:
        rows = self.rows(self.chance.choice((3, 20)))
        return lambda engine: engine.push("s", rows)

    def _row(self) -> Callable[[Engine], Any]:
        row = self.rows(1)[0]
        return lambda engine: engine.push("s", row)

    def _numbered(self) -> Callable[[Engine], Any]:
        rows = self.rows(5)
        number = self.undisturbed.last_sequence("s", "p") + 1
        return lambda engine: engine.push("s", rows, producer="p", sequence=number)

    def _create(self) -> Callable[[Engine], Any]:
        text = self.chance.choice(QUERIES)
        self.queries += 1
        name = f"q{self.queries - 1}"
        return lambda engine: engine.execute(f"CREATE QUERY {name} AS {text}")

    def _drop(self) -> Callable[[Engine], Any]:
        name = self.name()
        return (lambda engine: engine.execute(f"DROP QUERY {name}")) if name not in ("q0", "q1") else self._row()

    def _suspend(self) -> Callable[[Engine], Any]:
        word, name = self.chance.choice(("SUSPEND", "RESUME")), self.name()
        return (lambda engine: engine.execute(f"{word} QUERY {name}")) if name != "q0" else self._row()

    def _update(self) -> Callable[[Engine], Any]:
        value = self.chance.randrange(1000)
        return lambda engine: engine.execute(f"UPDATE names SET name = 'name {value}' WHERE k = 'a'")

    def _results(self) -> Callable[[Engine], Any]:
        name = self.name()
        return lambda engine: plain(engine.results(name)) if name != "q1" else None

    def _hand_over(self) -> Callable[[Engine], Any]:
        """Of q1, of which all results go to the sink."""

        def call(engine: Engine) -> Any:
            if engine is self.engine:
                return engine.hand_over("q1", lambda table, first: self.sink.__setitem__(first, plain(table)))
            handed: list[tuple[int, Rows]] = []
            count = engine.hand_over("q1", lambda table, first: handed.append((first, plain(table))))
            for first, rows in handed:
                self.expected_sink[first:] = rows
            return count

        return call

    def _hand_over_all(self) -> Callable[[Engine], Any]:
        def call(engine: Engine) -> Any:
            def take(parts: list[tuple[str, pa.Table, int]]) -> None:
                for name, table, first in parts:
                    if name == "q1" and engine is self.engine:
                        self.sink[first] = plain(table)
                    elif name == "q1":
                        self.expected_sink[first:] = plain(table)

            return engine.hand_over_all(take)

        return call

    def _lookup(self) -> Callable[[Engine], Any]:
        name = self.name()
        return lambda engine: plain(engine.lookup(name))

    def _past(self) -> Callable[[Engine], Any]:
        at = max(0, self.clock - self.chance.randrange(4_000_000))
        return lambda engine: engine.lookup("q0", at=at) and None

    def _select(self) -> Callable[[Engine], Any]:
        text = "SELECT k, SUM(v) AS s, MAX(v) AS m FROM s [RANGE 5 SECONDS] GROUP BY k"
        return lambda engine: plain(engine.execute(text))

    def _advance(self) -> Callable[[Engine], Any]:
        until = self.clock + self.chance.randrange(1_500_000)
        return lambda engine: engine.advance("s", until)

    def _flush(self) -> Callable[[Engine], Any]:
        return lambda engine: engine.flush()

    def _late(self) -> Callable[[Engine], Any]:
        return lambda engine: plain(engine.late_rows("s"))

    def _bad(self) -> Callable[[Engine], Any]:
        return lambda engine: plain(engine.bad_rows("s"))

    def _checkpoint(self) -> Callable[[Engine], Any]:
        return lambda engine: engine.checkpoint()

    def _stats(self) -> Callable[[Engine], Any]:
        return lambda engine: engine.stats()["streams"]["s"]["rows"]

    def _subscribe(self) -> Callable[[Engine], Any]:
        return lambda engine: engine.subscribe("q0", lambda batch: None) and None

    def _close(self) -> Callable[[Engine], Any]:
        def call(engine: Engine) -> None:
            if engine is self.engine and self.folder is not None:
                engine.close()
                self.engine = self.opened()

        return call

    def _open(self) -> Callable[[Engine], Any]:
        """An interrupt while the folder is opened leaves it to the next one."""

        def call(engine: Engine) -> None:
            if engine is self.engine and self.folder is not None:
                sys.setprofile(None)
                engine.close(snapshot=self.chance.random() < 0.5)
                at = self.chance.randint(1, self.points.get("opening", 2_000))
                opening = Interrupt(at)
                if opening.during(lambda: setattr(self, "engine", self.opened())):
                    self.interrupts += 1
                    self.told[-1] += f" (interrupted at point {at}: {opening.place})"
                    self.engine = self.opened()
                else:
                    self.points["opening"] = opening.points

        return call


def answered(call: Callable[[], Any]) -> Any:
    """What a call returns, or the user's mistake that it raises."""
    try:
        return call()
    except pw.EngineBroken:
        raise
    except pw.PanewiseError as problem:
        return type(problem).__name__


def plain(table: pa.Table) -> Rows:
    return table.to_pylist()


def fingerprint(engine: Engine) -> dict[str, Any]:
    """All that an engine says now, and all that it would say if its windows closed; it stays as it is."""
    copy = Engine.restore(engine.snapshot())
    names = [definition.name for definition in copy.catalog.of_kind("query")]
    stream = copy.stats()["streams"]["s"]
    found: dict[str, Any] = {name: stream[name] for name in ("rows", "late_rows", "bad_rows", "watermark")}
    found["names"] = ordered(plain(copy.execute("SELECT k, name FROM names")))
    found["numbers"] = copy.last_sequence("s", "p")
    found["shown"] = [plain(copy.execute(f"SHOW {kind}")) for kind in ("QUERIES", "STREAMS", "TABLES")]
    found["kept"] = [plain(copy.late_rows("s")), plain(copy.bad_rows("s"))]
    found["answers"] = {name: ordered(answered(lambda name=name: plain(copy.lookup(name)))) for name in names}
    found["unread"] = {name: plain(copy.results(name)) for name in names}
    copy.flush()
    found["to come"] = {name: plain(copy.results(name)) for name in names}
    found["in the end"] = {name: ordered(answered(lambda name=name: plain(copy.lookup(name)))) for name in names}
    return found


def ordered(rows: Any) -> Any:
    return sorted(map(repr, rows)) if isinstance(rows, list) else rows


def same(found: dict[str, Any], expected: dict[str, Any]) -> None:
    for name in expected:
        assert found[name] == expected[name], f"{name}: {found[name]} instead of {expected[name]}"


def play(seed: int, calls: int = 40, share: float = 0.4) -> int:
    """One script; returns how many interrupts there were."""
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore", pw.DurabilityWarning)
        made = Play(chance, Path(folder) / "engine" if chance.random() < 0.75 else None)
        try:
            made.run(calls, share)
        except (AssertionError, pw.PanewiseError) as problem:
            history = "\n  ".join(made.told)
            raise AssertionError(f"seed {seed}, {made.interrupts} interrupts:\n  {history}\n{problem}") from problem
        finally:
            sys.setprofile(None)
            if hasattr(made, "engine"):
                made.engine.close(snapshot=False)
    return made.interrupts


if __name__ == "__main__":
    print(play(int(sys.argv[1])))
