"""Windows of rows that come, pause, are asked and dropped in mid-stream, against a plain evaluation of their meaning.

A script pushes rows out of order to a stream, and creates queries over it, and over a query that hands its rows on, at
any moment. What a query says is computed from the list of all rows: which reports exist, and what each holds, follows
from the row numbers since the stream or partition began. A query that was created in mid-stream says those of its
reports all of whose rows came after it, and may begin earlier where the engine holds more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from tempfile import TemporaryDirectory
from typing import Any
from unittest import mock

import panewise as pw
from panewise.errors import NotHeldError, PlanError
from panewise.operators.family import dense_reporting

SECOND = 1_000_000
Value = tuple[Any, ...]
Result = tuple[Any, ...]


@dataclass(frozen=True)
class Row:
    ts: int
    k: str
    v: int


@dataclass(frozen=True)
class Report:
    """`cause`: the number, from 0, of the row with which it is due."""

    cause: int
    start: int
    end: int
    values: tuple[Value, ...]


@dataclass
class Query:
    """A query as it was written, and what has become of it; `base`: rows that had gone by when it was created."""

    name: str
    source: str
    rows: int
    slide: int | None
    offset: int
    partitioned: bool
    where: int | None
    aggregated: bool
    grouped: bool
    having: bool
    emit: str
    internal: bool
    base: int = 0
    created_at: int = 0  # the watermark then
    counted: bool = True  # the rows of each partition are known from its beginning
    everything: bool = False  # all rows were retained when it was created
    results: list[Result] = field(default_factory=list)
    silent: list[tuple[int, int]] = field(default_factory=list)  # rows that went by while it was suspended
    suspended_at: int | None = None

    @property
    def emission(self) -> str:
        if self.emit:
            return self.emit
        if self.slide is None:
            return "ISTREAM" if self.internal else "CHANGES"
        return "ISTREAM" if self.internal and not self.aggregated else "RSTREAM"

    @property
    def cql(self) -> str:
        items = "k, v"
        if self.aggregated:
            items = ("k, " if self.grouped else "") + "SUM(v) AS s, COUNT(*) AS n"
        parts = ["PARTITION BY k "] if self.partitioned else []
        parts.append(f"ROWS {self.rows}")
        if self.slide is not None:
            parts.append(f" SLIDE {self.slide}")
        if self.offset:
            parts.append(f" OFFSET {self.offset}")
        if self.internal:
            parts.append(" INTERNAL")
        text = f"SELECT {self.emit} {items} FROM {self.source} [{''.join(parts)}]"
        if self.where is not None:
            text += f" WHERE v > {self.where}"
        if self.grouped:
            text += " GROUP BY k"
        return text + (" HAVING COUNT(*) > 1" if self.having else "")

    # -- what it means -------------------------------------------------------------------------------------------------

    def values(self, rows: Sequence[Row]) -> tuple[Value, ...]:
        """What is selected of the rows in the window."""
        passing = [row for row in rows if self.where is None or row.v > self.where]
        if not self.aggregated:
            return tuple((row.k, row.v) for row in passing)
        groups: dict[Value, list[int]] = {} if self.grouped else {(): []}
        for row in passing:
            groups.setdefault((row.k,) if self.grouped else (), []).append(row.v)
        found = [(*key, sum(vs) if vs else None, len(vs)) for key, vs in groups.items()]
        return tuple(value for value in found if not self.having or value[-1] > 1)

    def reports(self, rows: Sequence[Row]) -> list[tuple[Report, bool]]:
        """All reports there are since the stream began, and whether all rows of each came after the query."""
        assert self.slide is not None
        members: dict[str, list[int]] = {}
        found = []
        for number, row in enumerate(rows):
            own = members.setdefault(row.k if self.partitioned else "", [])
            own.append(number)
            last = len(own) - self.offset
            if len(own) % self.slide == 0 and last > 0:
                inside = own[max(0, last - self.rows) : last]
                covered = [rows[i] for i in inside]
                report = Report(number, covered[0].ts, covered[-1].ts, self.values(covered))
                found.append((report, inside[0] >= self.base))
        return found

    def shown(self, rows: Sequence[Row], instant: int, early: bool) -> list[Row] | None:
        """The rows in the window at an instant, without those of partitions that are not whole; None: it has not begun.

        `early`: it began with rows of the past.
        """
        members: dict[str, list[int]] = {}
        for number, row in enumerate(rows):
            if row.ts <= instant:
                members.setdefault(row.k if self.partitioned else "", []).append(number)
        shown, begun = [], early or not self.base
        for own in members.values():
            missed = sum(number < self.base for number in own) if not early else 0
            if self.partitioned and self.base and not early and not self.counted:
                missed = max(missed, 1)  # nobody knows that it has not missed any
            since = sum(number >= self.base for number in own)
            if missed and since < self.rows + self.offset:
                continue
            begun = begun or bool(own[: len(own) - self.offset])
            shown += own[max(0, len(own) - self.offset - self.rows) : max(0, len(own) - self.offset)]
        return [rows[number] for number in sorted(shown)] if begun else None


class Play:
    """One script."""

    def __init__(self, seed: int, place: str) -> None:
        self.seed = seed
        self.chance = Random(seed)
        self.delay = self.chance.choice([0, 0, 3, 6])
        self.retained = self.chance.random() < 0.25
        self.log: list[str] = []
        self.sharing = self.chance.choice(["weave", "full", "none"])
        self.path = None if self.chance.random() < 0.7 else f"{place}/engine"
        self.engine = pw.Engine(self.path, sharing=self.sharing)
        retain = " WITH (retain = '1 day')" if self.retained else ""
        self.execute(
            "CREATE STREAM s (ts TIMESTAMP, k STRING, v BIGINT, "
            f"WATERMARK FOR ts AS ts - INTERVAL {self.delay} SECONDS){retain}"
        )
        self.pushed: list[Row] = []
        self.watermark = -(10**9)
        self.passed_at: int | None = None  # rows of `s` that had gone by when the query in between was created
        self.queries: dict[str, Query] = {}
        self.tried = 0

    def execute(self, text: str) -> None:
        self.log.append(text)
        self.engine.execute(text)

    def rows(self, source: str) -> list[Row]:
        """The rows that have left the reorder buffer, in order."""
        gone = sorted((row for row in self.pushed if row.ts < self.watermark), key=lambda row: row.ts)
        return gone if source == "s" else gone[self.passed_at :]

    # -- steps ---------------------------------------------------------------------------------------------------------

    def push(self) -> None:
        rows = []
        for _ in range(self.chance.randint(1, 6)):
            least = max(self.watermark, 0)
            row = Row(
                least + self.chance.randint(0, self.delay + 2), self.chance.choice("abc"), self.chance.randint(0, 4)
            )
            rows.append(row)
            self.watermark = max(self.watermark, row.ts - self.delay)
        self.pushed += rows
        self.log.append(f"push {[(row.ts, row.k, row.v) for row in rows]}")
        self.engine.push("s", [{"ts": row.ts * SECOND, "k": row.k, "v": row.v} for row in rows])

    def advance(self) -> None:
        self.watermark = max(self.watermark, 0) + self.chance.randint(0, 3)
        self.log.append(f"advance {self.watermark}")
        self.engine.advance("s", self.watermark * SECOND)

    def create(self) -> None:
        chance = self.chance
        if self.passed_at is None and chance.random() < 0.3:
            self.passed_at = len(self.rows("s"))
            self.execute("CREATE QUERY passed AS SELECT ISTREAM k, v FROM s [UNBOUNDED]")
        slide = chance.choice([None, 1, 2, 3, 4])
        aggregated = chance.random() < 0.6
        query = Query(
            name=f"q{len(self.log)}",
            source="passed" if self.passed_at is not None and chance.random() < 0.5 else "s",
            rows=chance.randint(1, 5),
            slide=slide,
            offset=chance.choice([0, 0, 0, 1, 2]),
            partitioned=chance.random() < 0.5,
            where=chance.choice([None, None, 1]),
            aggregated=aggregated,
            grouped=aggregated and chance.random() < 0.5,
            having=aggregated and chance.random() < 0.2,
            emit=chance.choice(["", "", "ISTREAM", "DSTREAM"]),
            internal=chance.random() < 0.1,
        )
        query.base, query.created_at = len(self.rows(query.source)), self.watermark
        query.everything = self.retained and query.source == "s"
        query.counted = (
            not query.base
            or query.everything
            or not query.partitioned
            or any(
                other.counted and other.partitioned and other.source == query.source for other in self.queries.values()
            )
        )
        across = slide is None and aggregated and not query.grouped
        late = query.partitioned and query.base and not query.everything
        compared = slide is not None and query.emission != "RSTREAM"
        refused = late and (across or compared or (slide is not None and not query.counted))
        try:
            self.execute(f"CREATE QUERY {query.name} AS {query.cql}")
        except PlanError as problem:
            self.log[-1] += "  -- refused"
            if not refused or "has had rows already" not in str(problem):
                raise AssertionError(self.told(query, problem)) from problem
            return
        assert not refused, self.told(query, "it should have been refused")
        if slide is None and query.everything and query.base:
            query.counted = False  # it has begun with the last rows of the partitions, not with their counts
        self.queries[query.name] = query
        self.tried += 1

    def drop(self) -> None:
        query = self.chance.choice(list(self.queries.values()))
        self.check(query)
        self.execute(f"DROP QUERY {query.name}")
        del self.queries[query.name]

    def suspend(self) -> None:
        query = self.chance.choice(list(self.queries.values()))
        if query.emission != "RSTREAM":
            return  # what a log says after a pause is another test's
        self.read(query)
        at = len(self.rows(query.source))
        if query.suspended_at is None:
            self.execute(f"SUSPEND QUERY {query.name}")
            query.suspended_at = at
        else:
            self.execute(f"RESUME QUERY {query.name}")
            query.silent.append((query.suspended_at, at))
            query.suspended_at = None

    def restore(self) -> None:
        if self.path is None:
            self.log.append("snapshot")
            self.engine = pw.Engine.restore(self.engine.snapshot())
            return
        self.log.append("reopened")
        self.engine.close()
        self.engine = pw.Engine(self.path, sharing=self.sharing)

    def read(self, query: Query) -> None:
        table = self.engine.results(query.name)
        for name in ("window_start", "window_end", "instant"):
            if name in table.column_names:
                at = table.column_names.index(name)
                table = table.set_column(at, name, table.column(name).cast("int64"))
        query.results += [tuple(row.values()) for row in table.to_pylist()]

    # -- what is compared ----------------------------------------------------------------------------------------------

    def told(self, query: Query, what: object) -> str:
        script = "\n".join(self.log)
        return f"seed {self.seed}: {query.name} ({query.cql}), created after {query.base} rows: {what}\n{script}"

    def check(self, query: Query) -> None:
        self.read(query)
        rows = self.rows(query.source)
        if query.slide is None:
            self.check_changes(query, rows)
        else:
            self.check_reports(query, rows)

    def check_reports(self, query: Query, rows: list[Row]) -> None:
        found = query.reports(rows)
        exact = [report for report, whole in found if whole and report.cause >= query.base]
        candidates = [(exact, None)]
        if not query.partitioned or query.everything:
            # The engine may hold more than the query has seen: it may begin with any report from the last one on,
            # which has been due before it came.
            before = [report for report, _ in found if report.cause < query.base]
            after = [report for report, _ in found if report.cause >= query.base]
            candidates += [
                (after[said:], (before + after[:said])[-1] if before + after[:said] else None)
                for said in range(len(after) - len(exact) + 1)
            ]
            if before:
                last = before[-2] if len(before) > 1 and not query.partitioned else None
                candidates.append((before[-1:] + after, last))
        options = [
            self.expected(query, reports, previous)
            for reports, last in candidates
            for previous in {(), last.values if last is not None else ()}
        ]
        silent = [*query.silent, *([(query.suspended_at, len(rows))] if query.suspended_at is not None else [])]
        heard = [
            [part for cause, part in option if not any(begin <= cause < end for begin, end in silent)]
            for option in options
        ]
        assert any(_matches(query.results, option) for option in heard), self.told(
            query, f"said\n{query.results}\nand not\n{[sorted(part.items(), key=str) for part in heard[0]]}\n"
        )
        self.check_last_report(query, [reports for reports, _ in candidates])

    def expected(
        self, query: Query, reports: list[Report], previous: tuple[Value, ...]
    ) -> list[tuple[int, Counter[Result]]]:
        found = []
        before: Counter[Value] = Counter(previous)
        for report in reports:
            now = Counter(report.values)
            said = {"RSTREAM": now, "ISTREAM": now - before, "DSTREAM": before - now}[query.emission]
            results = Counter(
                {(report.start * SECOND, report.end * SECOND, *value): count for value, count in said.items()}
            )
            found.append((report.cause, results))
            before = now
        return found

    def check_last_report(self, query: Query, candidates: list[list[Report]]) -> None:
        if query.suspended_at is not None:
            return
        table = self.engine.lookup(query.name)
        got = Counter(tuple(row.values())[2:] for row in table.to_pylist())
        wanted = [Counter(reports[-1].values) if reports else Counter() for reports in candidates]
        assert got in wanted, self.told(query, f"its last report is\n{got}\nand not\n{wanted[0]}\n")

    def check_changes(self, query: Query, rows: list[Row]) -> None:
        early = query.everything and query.partitioned and bool(query.base)
        # One that begins with rows of the past says at first what was there just before it came.
        begins = query.created_at * SECOND - 1
        instants = sorted({row.ts * SECOND for row in rows})
        if early:
            instants = [begins, *(instant for instant in instants if instant > begins)]
        before: Counter[Value] = Counter()
        wanted: list[Counter[Result]] = []
        for at in instants:
            now = self.answer(query, rows, at // SECOND, early) or Counter()
            came, gone = now - before, before - now
            before = now
            parts: dict[str, list[tuple[int, Counter[Value]]]] = {
                "CHANGES": [(-1, gone), (1, came)],
                "ISTREAM": [(1, came)],
                "DSTREAM": [(-1, gone)],
            }
            for sign, changed in parts[query.emission]:
                signed = (sign,) if query.emission == "CHANGES" else ()
                wanted.append(Counter({(at, *signed, *value): count for value, count in changed.items()}))
        assert _matches(query.results, wanted), self.told(
            query, f"said\n{query.results}\nand not\n{[dict(part) for part in wanted if part]}\n"
        )
        self.check_answer(query, rows, early)

    def answer(self, query: Query, rows: list[Row], instant: int, early: bool) -> Counter[Value] | None:
        """What a query without SLIDE answers at an instant; None where it has not begun."""
        shown = query.shown(rows, instant, early)
        if shown is None:
            return None
        unstarted = query.aggregated and not query.grouped and not shown  # an ungrouped answer begins with a row
        return Counter() if unstarted else Counter(query.values(shown))

    def check_answer(self, query: Query, rows: list[Row], early: bool) -> None:
        """The answer now, and one of the past, which may not be held any more."""
        if self.watermark < 0:
            return
        past = self.chance.randint(-1, self.watermark - 1) if self.watermark > 0 else None
        for instant, at in ((self.watermark - 1, None), *(((past, past * SECOND),) if past is not None else ())):
            wanted = self.answer(query, rows, instant, early)
            try:
                table = self.engine.lookup(query.name, at=at)
            except NotHeldError:
                assert wanted is None or at is not None, self.told(query, f"its answer is not held, and not {wanted}")
                continue
            got = Counter(tuple(row.values()) for row in table.to_pylist())
            if query.everything and at is not None:
                truth = self.answer(query, rows, instant, early=True)  # computed from retained rows
                wanted = truth if got == truth else wanted
            assert wanted is not None, self.told(query, f"it has not begun at {at} and answers {got}")
            assert got == wanted, self.told(query, f"its answer at {at} is\n{got}\nand not\n{wanted}\n")

    def run(self) -> int:
        steps = [self.push] * 6 + [self.create] * 4 + [self.advance, self.restore]
        for _ in range(self.chance.randint(5, 30)):
            step = self.chance.choice(steps + ([self.drop, self.suspend, self.suspend] if self.queries else []))
            step()
        self.advance()
        for query in self.queries.values():
            self.check(query)
        return self.tried


def _matches(results: list[Result], parts: list[Counter[Result]]) -> bool:
    """Whether results are these parts one after the other, each in any order."""
    at = 0
    for part in parts:
        size = part.total()
        if Counter(results[at : at + size]) != part:
            return False
        at += size
    return at == len(results)


def play(seed: int) -> int:
    """Plays the script of a seed; returns how many queries it created."""
    # Long runs of empty reports are kept in another way than short ones.
    with TemporaryDirectory() as place, mock.patch.object(dense_reporting, "GAP_MATERIALISED", 3 if seed % 2 else 1024):
        script = Play(seed, place)
        try:
            return script.run()
        finally:
            script.engine.close()
