"""The reference as a host of cases: streams, queries and the same verbs as the engine, all by recomputation.

A call outside of what the reference covers raises `NotCovered`. A query that is created when its stream has already
moved starts with its first whole window: rows from the watermark of that moment on, reports whose window begins there
or later.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal
from typing import Any

from tests.reference import cql
from tests.reference.cql import Select
from tests.reference.relations import Relation, Result, Row, item_names, report_at, results, state_at
from tests.reference.tokens import EPOCH, MICROSECOND, NotCovered, TimeWindow

PYTHON_TYPES: dict[str, tuple[type, ...]] = {
    "BOOLEAN": (bool,),
    "INT": (int,),
    "BIGINT": (int,),
    "FLOAT": (float, int),
    "DOUBLE": (float, int),
    "DECIMAL": (Decimal,),
    "STRING": (str,),
    "TIMESTAMP": (datetime,),
}


class BadRow(Exception):
    """A row does not fit its stream and the stream refuses such batches."""


class NoSuchName(Exception):
    """A query or stream is asked for that does not exist."""


@dataclass
class StreamState:
    definition: cql.Stream
    rows: list[Row] = field(default_factory=list)
    watermark: int | None = None
    late: list[dict[str, Any]] = field(default_factory=list)
    bad: list[dict[str, Any]] = field(default_factory=list)

    def take(self, values: dict[str, Any]) -> None:
        ts = (values[self.definition.timestamp] - EPOCH) // MICROSECOND
        if self.watermark is not None and ts < self.watermark:
            self.late.append(values)
            return
        self.rows.append(Row(ts, values))
        self.advance(ts - self.definition.delay)

    def advance(self, until: int) -> None:
        self.watermark = until if self.watermark is None else max(self.watermark, until)

    def fits(self, values: dict[str, Any]) -> bool:
        for name, kind in self.definition.columns:
            value = values[name]
            if value is None:
                if name == self.definition.timestamp:
                    return False
            elif not isinstance(value, PYTHON_TYPES.get(kind, (object,))) or (
                kind in ("INT", "BIGINT")
                and not -(2 ** (31 if kind == "INT" else 63)) <= value < 2 ** (31 if kind == "INT" else 63)
            ):
                return False
        return True

    def relation(self) -> Relation:
        columns = tuple(name for name, _ in self.definition.columns)
        # sorted() is stable: ties keep the order of arrival.
        return Relation(columns, sorted(self.rows, key=lambda row: row.ts), self.watermark)


@dataclass
class QueryState:
    name: str
    select: Select
    mode: str
    since: int | None  # the watermark of its stream when it was created
    delivered: int = 0


class ReferenceHost:
    """See `case_runner.Host` for the verbs."""

    name = "reference"
    tells_errors = False

    def __init__(self) -> None:
        self.streams: dict[str, StreamState] = {}
        self.queries: dict[str, QueryState] = {}

    # Statements and rows

    def execute(self, text: str) -> list[dict[str, Any]] | None:
        answer = None
        for statement in cql.statements(text):
            match statement:
                case cql.Stream():
                    self.streams[statement.name.lower()] = StreamState(statement)
                case cql.CreateQuery():
                    self.create_query(statement)
                case cql.AlterStream():
                    state = self.stream(statement.name)
                    options = {**state.definition.options, **statement.options}
                    state.definition = replace(state.definition, options=options)
                case cql.Drop():
                    del self.queries[statement.name.lower()]
                case cql.OneTime():
                    answer = self.once(statement.select)
        return answer

    def create_query(self, statement: cql.CreateQuery) -> None:
        since = self.relation(statement.select.source).watermark
        if since is not None and not (
            isinstance(statement.select.window, TimeWindow) and statement.select.window.slide
        ):
            raise NotCovered("a query without SLIDE that comes in mid-stream")
        mode = statement.options.get("mode", "push")
        self.queries[statement.name.lower()] = QueryState(statement.name, statement.select, mode, since)

    def once(self, select: Select) -> list[dict[str, Any]]:
        relation = self.relation(select.source)
        if select.window.slide is not None or relation.watermark is None:
            raise NotCovered("a one-time query over reports or before the first row")
        return state_at(select, relation, relation.watermark - 1)

    def push(self, name: str, rows: list[dict[str, Any]]) -> None:
        state = self.stream(name)
        nothing = {column: None for column, _ in state.definition.columns}
        rows = [nothing | row for row in rows]
        bad = [row for row in rows if not state.fits(row)]
        if bad and state.definition.options.get("on_bad_row", "fail") == "fail":
            raise BadRow(str(bad[0]))
        for row in rows:
            if row in bad:
                state.bad.append(row)
            else:
                state.take(row)

    def advance(self, name: str, until: int) -> None:
        self.stream(name).advance(until)

    def flush(self) -> None:
        """Far enough for every window that holds a row; only where no empty report can tell how far that is."""
        if any(not isinstance(query.select.window, TimeWindow) or not query.select.group_by for query in self.all()):
            raise NotCovered("flush beside queries whose empty reports tell how far it went")
        reach = max(
            ((query.select.window.range or 0) + query.select.window.offset + (query.select.window.slide or 0))
            for query in self.all()
        )
        for state in self.streams.values():
            if state.rows:
                state.advance(max(row.ts for row in state.rows) + reach)

    # Answers

    def results(self, name: str) -> list[dict[str, Any]]:
        query = self.query(name)
        if query.mode == "lookup":
            return []
        found = [result.as_dict() for result in self.compute(query)]
        fresh = found[query.delivered :]
        query.delivered = len(found)
        return fresh

    def lookup(self, name: str, at: int | None) -> list[dict[str, Any]]:
        query = self.query(name)
        relation = self.relation(query.select.source)
        if relation.watermark is None:
            return []
        if query.select.emit is not None or query.since is not None:
            raise NotCovered("lookups of ISTREAM and DSTREAM and of queries created in mid-stream")
        if query.mode == "lookup" or query.select.window.slide is None:
            return state_at(query.select, relation, relation.watermark - 1 if at is None else at)
        return report_at(query.select, relation, relation.watermark if at is None else at)

    def late_count(self, name: str) -> int:
        return len(self.stream(name).late)

    def late_rows(self, name: str) -> list[dict[str, Any]]:
        return self.stream(name).late

    def bad_count(self, name: str) -> int:
        return len(self.stream(name).bad)

    def status(self, name: str) -> str:
        self.compute(self.query(name))
        return "RUNNING"

    def snapshot_and_restore(self) -> None:
        """Nothing to do: everything is recomputed from all rows anyway."""

    # Inside

    def all(self) -> list[QueryState]:
        return list(self.queries.values())

    def stream(self, name: str) -> StreamState:
        if name.lower() not in self.streams:
            raise NoSuchName(name)
        return self.streams[name.lower()]

    def query(self, name: str) -> QueryState:
        if name.lower() not in self.queries:
            raise NoSuchName(name)
        return self.queries[name.lower()]

    def compute(self, query: QueryState) -> list[Result]:
        """Everything that the query has ever reported."""
        found = results(query.select, self.relation(query.select.source, query.since))
        return [result for result in found if query.since is None or self.whole(query, result)]

    def whole(self, query: QueryState, result: Result) -> bool:
        """Whether the window of a report lies wholly after the creation of its query."""
        window = query.select.window
        assert isinstance(window, TimeWindow) and query.since is not None
        if window.range is None:
            raise NotCovered("an unbounded window that comes in mid-stream")
        return result.ts - window.range - window.offset >= query.since

    def relation(self, source: str | Select, since: int | None = None) -> Relation:
        """What is known of an input, from the instant `since` on."""
        if isinstance(source, Select):
            inner = self.relation(source.source, since)
            return derived(source, inner, list(results(source, inner)))
        if source.lower() in self.streams:
            relation = self.stream(source).relation()
        else:
            query = self.query(source)
            relation = derived(query.select, self.relation(query.select.source), self.compute(query))
        if since is None:
            return relation
        return replace(relation, rows=[row for row in relation.rows if row.ts >= since])


def derived(select: Select, inner: Relation, found: list[Result]) -> Relation:
    """The results of a query as an input: their event time is the report's end or the change's instant."""
    columns = item_names(select, inner.columns)
    return Relation(columns, [Row(result.ts, result.values) for result in found], inner.watermark)
