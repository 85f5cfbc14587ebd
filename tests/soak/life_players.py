"""A script of lives on an engine, and what its queries say.

What a query says is cut into *spans* where it is suspended, resumed or dropped: those with even numbers are shown,
those with odd ones are not. A player that leaves out suspensions (`always`) cuts at the same steps.
"""

from __future__ import annotations

import math
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterable
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any
from unittest.mock import patch

import pyarrow as pa

import panewise as pw
from panewise.engine.consumers import bounded_steps
from panewise.engine.consumers.report_schedule import DEFAULT
from panewise.engine.reads.published_answers import watermark_us
from panewise.errors import NotHeldError, PanewiseError
from panewise.language.parse.dialect import ParsedStatement, parse
from tests.soak.lives import Query, Row, Script, Step

ARROW = pa.schema(
    {
        "ts": pa.timestamp("us", "UTC"),
        "k": pa.string(),
        "i": pa.int32(),
        "v": pa.int64(),
        "x": pa.float64(),
        "w": pa.string(),
        "b": pa.bool_(),
    }
)
Values = tuple[Any, ...]
Said = dict[int, Counter[Values]]  # by instant; of a change log the net changes, negative where rows go
NOT_HELD = "not held"
# About so many results in a step, so many rows in the reports of a step, and so many rows in the first step.
SMALL_STEPS = {"RESULTS_MOST": 2, "IN_REPORTS_MOST": 4, "ROWS_FIRST": 1}


@dataclass
class Life:
    """What one query has said; `refused` where it was not created."""

    spans: list[Said] = field(default_factory=lambda: [{}])
    looked: list[tuple[int, int | None, Counter[Values] | str]] = field(default_factory=list)  # span, instant, answer
    refused: str = ""
    is_log: bool = False
    dropped: bool = False


class Player:
    """Plays a script for some of its queries.

    `always`: they are all there from the beginning, and are never suspended or dropped.
    """

    def __init__(self, script: Script, numbers: Iterable[str], *, always: bool = False, beside: bool = False) -> None:
        self.script, self.always, self.beside = script, always, beside
        self.lives = {number: Life() for number in numbers}
        self.texts: dict[str, Query] = {number: script.queries[number] for number in self.lives}
        self._archives = script.archived and not always  # a query that is always there has no use for the past
        self._folder = tempfile.mkdtemp() if self._archives or (beside and script.durable) else ""
        self._used = {name for query in self.texts.values() for name in query.inputs}

    def play(self) -> Player:
        steps = SMALL_STEPS if self.beside and self.script.small_steps else {}
        with patch.multiple(bounded_steps, **steps) if steps else nullcontext():
            return self._play()

    def _play(self) -> Player:
        try:
            self.engine = self._engine()
            for name, statements in self.script.setup.items():
                if name in self._used:
                    self._execute(statements)
                if name in self._used and self._archives and statements.startswith("CREATE STREAM"):
                    self.engine.execute(archive_of(name, self._folder))
            for number in self.lives if self.always else ():
                self._create(number)
            for step in self.script.steps:
                self._step(step)
            for number in self.lives:
                self._fetch(number)
            self._check_states()
            self.engine.close()
        finally:
            if self._folder:
                shutil.rmtree(self._folder, ignore_errors=True)
        return self

    def _engine(self) -> pw.Engine:
        if not self.beside:
            return pw.Engine(sharing="none")
        return self._scheduled(self._folder if self.script.durable else None)

    def _scheduled(self, path: str | None = None) -> pw.Engine:
        script = self.script
        engine = pw.Engine(path, sync="never", sharing=script.sharing, schedule=script.schedule or DEFAULT)
        if script.behind:
            engine.schedule.begins_behind = engine.schedule.stays_behind = lambda stream: True
            engine.schedule.budget = lambda seconds: 0.0
        return engine

    def _step(self, step: Step) -> None:
        match step:
            case ("push", stream, rows):
                if stream in self._used:  # as rows beside others, as a table otherwise: both doors of the engine
                    self.engine.push(stream, list(rows) if self.beside else as_table(rows))
            case ("advance", stream, until):
                if stream in self._used:
                    self.engine.advance(stream, until)
            case ("execute", table, text):
                if table in self._used:
                    self._execute(text)
            case ("flush",):
                self.engine.flush()
            case ("restore",) if self.beside:
                snapshot = self.engine.snapshot()
                self.engine.archives.release()  # they have one writer
                self.engine = pw.Engine.restore(snapshot, self._scheduled())
            case (("reopen" | "replay") as verb,) if self.beside:
                self.engine.close(snapshot=verb == "reopen")
                self.engine = self._engine()
            case ("create", number) if number in self.lives and not self.always:
                self._create(number)
            case (verb, number, *rest) if number in self.lives and self._there(number):
                self._of_query(verb, number, rest)

    def _there(self, number: str) -> bool:
        return not self.lives[number].refused and not self.lives[number].dropped

    def _create(self, number: str) -> None:
        life = self.lives[number]
        if any(self.lives[inner].refused for inner in self.script.queries[number].reads):
            life.refused = "what it reads was refused"
            return
        try:
            self._execute(self.texts[number].statement)
        except PanewiseError as error:
            life.refused = str(error)

    def _execute(self, text: str) -> None:
        for parsed in parsed_once(text):
            self.engine.execute_parsed(parsed)

    def _of_query(self, verb: str, number: str, rest: list[Any]) -> None:
        life, name = self.lives[number], self.texts[number].name
        match verb:
            case "fetch" if self.beside:
                self._fetch(number)
            case "suspend" | "resume" | "drop":
                self._fetch(number)
                if verb != "drop" or len(life.spans) % 2:  # else it is suspended already
                    life.spans.append({})
                if not self.always:
                    self.engine.execute(f"{verb.upper()} QUERY {name}")
                    life.dropped = verb == "drop"
            case "lookup" if not self.always:
                life.looked.append((len(life.spans) - 1, *self._looked_up(self.texts[number], rest[0])))

    def _looked_up(self, query: Query, at: int | None) -> tuple[int | None, Counter[Values] | str]:
        """The instant of the answer, where it is known, and the answer."""
        try:
            table = self.engine.lookup(query.name, at=at)
        except NotHeldError:
            return at, NOT_HELD
        reached = watermark_us(table)
        if at is None and reached is not None:  # rows enter when the watermark has passed them, and cause reports then
            at = reached if "window_end" in table.column_names and "ROWS" not in query.text else reached - 1
        return at, Counter(values for _, values, _ in said_in(table, False))

    def _fetch(self, number: str) -> None:
        life = self.lives[number]
        if not self._there(number):
            return
        table = self.engine.results(self.texts[number].name)
        life.is_log = "change" in table.column_names
        said = life.spans[-1]
        for instant, values, change in said_in(table, life.is_log):
            said.setdefault(instant, Counter())[values] += change

    def _check_states(self) -> None:
        hosted = self.engine.hosting.queries
        there = [number for number in self.lives if self._there(number)]
        failed = [number for number in there if hosted[self.texts[number].name].status == "FAILED"]
        assert not failed, f"{failed} FAILED"


@lru_cache(256)
def parsed_once(text: str) -> list[ParsedStatement]:
    return parse(text)


def archive_of(stream: str, folder: str) -> str:
    options = f"path = '{folder}/past_{stream}', key = 'k', lifetime = '1 day', every = '2 seconds'"
    return f"CREATE ARCHIVE past_{stream} FROM {stream} WITH ({options})"


def as_table(rows: tuple[Row, ...]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), ARROW)


def said_in(table: pa.Table, is_log: bool) -> list[tuple[int, Values, int]]:
    """Rows as instant, values and change; the values are without the change, and NaN equals itself."""
    names = table.column_names
    columns = [
        column.cast(pa.int64()).to_pylist() if pa.types.is_timestamp(column.type) else column.to_pylist()
        for column in table.columns
    ]
    columns = [list(map(plain, column)) for column in columns]
    timed = next((name for name in ("window_end", "instant") if name in names), None)
    time = [0] * table.num_rows if timed is None else columns[names.index(timed)]
    changes = columns[names.index("change")] if is_log else [1] * table.num_rows
    left_out = ("instant", "change") if is_log else ("instant",)
    kept = [column for name, column in zip(names, columns, strict=True) if name not in left_out]
    values = list(zip(*kept, strict=True)) if kept else [()] * table.num_rows
    return list(zip(time, values, changes, strict=True))


def plain(value: Any) -> Any:
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    return value
