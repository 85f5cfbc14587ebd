"""A random script on a host, and whether two hosts have said the same.

What may differ: where a query begins that comes in mid-stream (see `random_weaves`), and the order of the rows of one
report. Integers, texts and instants are compared exactly, doubles within 1e-12.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import groupby
from typing import Any

import pyarrow as pa

import panewise as pw
from panewise.arrays import INT64_MIN
from panewise.errors import NotHeldError
from tests.engine.hosting.random_weaves import SLIDE_MAX, STREAM, Query, Row, Script

Values = tuple[Any, ...]


def values(table: pa.Table) -> list[Values]:
    """Rows as tuples, instants as microseconds, the two of the window first."""
    columns = [c.cast(pa.int64()) if pa.types.is_timestamp(c.type) else c for c in table.columns]
    return list(zip(*(column.to_pylist() for column in columns), strict=True))


class Player:
    """A script on an engine, and what its queries have said. `together`: all queries come at the start."""

    def __init__(self, script: Script, sharing: str, together: bool, fetch_before_drop: bool = False) -> None:
        self.script = script
        self._fetch_before_drop = fetch_before_drop
        self.sharing = sharing
        self.engine = pw.Engine(sharing=sharing)
        self.engine.execute(STREAM)
        self.together = together
        self.fetched: dict[int, list[Values]] = {number: [] for number in script.queries}
        self.heard: dict[int, list[Values]] = {number: [] for number in script.queries}
        self.counts: dict[int, int] = {}
        self.looked: list[tuple[int, list[Values] | None]] = []
        self.came: dict[int, int] = {}  # how far the stream had come when a query came
        self._ends: dict[int, Callable[[], None]] = {}
        self._reached = INT64_MIN

    def play(self) -> Player:
        if self.together:
            for number in self.script.queries:
                self._register(number)
        for verb, *parts in self.script.steps:
            getattr(self, verb)(*parts)
        return self

    def name(self, number: int) -> str:
        return f"own{number}" if self.together else self.script.names[number]

    def create(self, number: int) -> None:
        self.came[number] = self._reached
        if not self.together:
            self._register(number)

    def _register(self, number: int) -> None:
        query = self.script.queries[number]
        text = query.text.format(source="" if query.over is None else self.name(query.over))
        self.engine.execute(f"CREATE QUERY {self.name(number)}{query.options} AS {text}")

    def drop(self, number: int) -> None:
        if number in self._ends:
            self.unsubscribe(number)
        self._count(number)
        if self._fetch_before_drop:
            self.fetch(number)
        self.engine.execute(f"DROP QUERY {self.name(number)}")

    def _count(self, number: int) -> None:
        self.counts[number] = self.engine.stats()["queries"][self.name(number)]["results"]

    def suspend(self, number: int) -> None:
        self.engine.execute(f"SUSPEND QUERY {self.name(number)}")

    def resume(self, number: int) -> None:
        self.engine.execute(f"RESUME QUERY {self.name(number)}")

    def push(self, rows: list[Row]) -> None:
        self._reached = max(self._reached, *(row["ts"] for row in rows))
        self.engine.push("t", rows)

    def settle(self) -> None:
        """Rows do not wait for others."""
        self.engine.late_rows("t")

    def advance(self, until: int) -> None:
        self._reached = max(self._reached, until)
        self.engine.advance("t", until)

    def fetch(self, number: int) -> None:
        self.fetched[number] += values(self.engine.results(self.name(number)))
        self._count(number)

    def subscribe(self, number: int) -> None:
        heard = self.heard[number]
        self._ends[number] = self.engine.subscribe(
            self.name(number), lambda batch: heard.extend(values(pa.Table.from_batches([batch])))
        )

    def unsubscribe(self, number: int) -> None:
        self._ends.pop(number)()

    def lookup(self, number: int, at: int | None) -> None:
        try:
            found = values(self.engine.lookup(self.name(number), at=at))
        except NotHeldError:
            self.looked.append((number, None))
        else:
            self.looked.append((number, found))

    def restore(self) -> None:
        self.engine = pw.Engine.restore(self.engine.snapshot(), pw.Engine(sharing=self.sharing))
        for number in self._ends:
            self.subscribe(number)

    def report(self) -> None:
        self.engine.sharing_report()
        self.engine.explain()


# -- what should have come out ---------------------------------------------------------------------------------------


def close(found: Values, expected: Values) -> bool:
    """Integers, texts and instants exactly, doubles within 1e-12 of them or of the stream's values squared."""
    return len(found) == len(expected) and all(
        math.isclose(a, b, rel_tol=1e-12, abs_tol=1e-10) if isinstance(a, float) and isinstance(b, float) else a == b
        for a, b in zip(found, expected, strict=True)
    )


def same(found: list[Values], expected: list[Values]) -> bool:
    """The same reports in the same order; the rows of one report in any."""
    if [row[1] for row in found] != [row[1] for row in expected]:
        return False
    for (_, ours), (_, theirs) in zip(groupby(found, end_of), groupby(expected, end_of), strict=True):
        left = list(theirs)
        for row in ours:
            partner = next((at for at, other in enumerate(left) if close(row, other)), None)
            if partner is None:
                return False
            left.pop(partner)
    return True


def end_of(row: Values) -> int:
    return int(row[1])


def compare(script: Script, woven: Player, alone: Player) -> None:
    compare_results(script, woven.came, woven.fetched, alone.fetched)
    everything = {number: woven.fetched[number] + woven.heard[number] for number in script.queries}
    compare_results(script, woven.came, woven.heard, alone.heard, everything)
    for number in script.first:
        # Of the others one may have begun earlier than the other.
        assert woven.counts[number] == alone.counts[number], script.queries[number].text
    compare_lookups(script, woven, alone)
    for player in (woven, alone):
        assert player.engine.stats()["streams"]["t"]["late_rows"] == script.late


def compare_results(
    script: Script,
    came: dict[int, int],
    woven: dict[int, list[Values]],
    alone: dict[int, list[Values]],
    everything: dict[int, list[Values]] | None = None,
) -> None:
    """`everything`: what a query has said in any way, which tells where it began."""
    for number, query in script.queries.items():
        found, expected = woven[number], alone[number]
        if number not in script.first:
            known = (everything or woven)[number]
            found, expected = comparable(script, query, came[number], known, found, expected)
        assert [row[1] for row in found] == sorted(row[1] for row in found)
        assert same(found, expected), describe(number, query, found, expected)


def comparable(
    script: Script, query: Query, came: int, everything: list[Values], found: list[Values], expected: list[Values]
) -> tuple[list[Values], list[Values]]:
    """Of a query that came in mid-stream: what it says from its first whole window on, which is soon enough."""
    first = min((row[1] for row in everything), default=2**62)
    if query.unsettled:
        settled = came + query.unsettled
        first = max(first, settled) if not query.grouped else settled
        return [row for row in found if row[0] >= settled and row[1] > first], [
            row for row in expected if row[0] >= settled and row[1] > first
        ]
    # Slices that were there before may reach a slide beyond the newest row. Without groups, reports begin with the
    # first window that holds a row; and how far rows reach is not looked into for windows of rows.
    certain = 2**62
    if query.over is None and not query.window.rows:
        held = [r[1] for r in expected if r[0] > came + SLIDE_MAX and (query.grouped or holds_a_row(script, r, query))]
        certain = min(held, default=certain)
    kept = [row for row in expected if row[1] > first or row[1] >= certain]
    # Several windows of rows may end at one instant, of which the first is not whole.
    at_first = [row for row in found if row[1] == first and row[1] < certain]
    assert all(any(close(row, other) for other in expected) for row in at_first), (query.text, at_first)
    return [row for row in found if row[1] > first or row[1] >= certain], kept


def holds_a_row(script: Script, report: Values, query: Query) -> bool:
    return any(report[0] <= time < report[1] - query.window.offset for time in script.times)


def compare_lookups(script: Script, woven: Player, alone: Player) -> None:
    """What is held alone is held together; of empty windows of the past an engine may say that they have gone."""
    for (number, found), (_, expected) in zip(woven.looked, alone.looked, strict=True):
        query = script.queries[number]
        of_stream = query.over is None and not query.unsettled
        if found is None:
            held = any(holds_a_row(script, row, query) for row in expected or ())
            assert not (held and of_stream and number in script.first), (query.text, expected)
        elif expected is not None and (number in script.first or (found and expected and of_stream)):
            assert same(found, expected), (query.text, found, expected)


def describe(number: int, query: Query, found: list[Values], expected: list[Values]) -> str:
    at = next((i for i, (a, b) in enumerate(zip(found, expected, strict=False)) if not close(a, b)), -1)
    begin = max(at, 0)
    return (
        f"q{number}{query.options} {query.text}: {len(found)} for {len(expected)}, from {at}: "
        f"{found[begin : begin + 3]} for {expected[begin : begin + 3]}"
    )
