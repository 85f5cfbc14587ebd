"""Random statements on one engine: each works or raises a PanewiseError, and one that is refused changes nothing.

A script plays on an engine without a path, on one with a path that is then closed and opened again, or on the server's
application. Between statements rows flow, and results and lookups are asked for: what was accepted must go on.
"""

from __future__ import annotations

import random
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import orjson

import panewise as pw
from panewise.plan.decided import decided_on
from panewise.plan.physical_plan import HIDDEN
from tests.soak.statement_grammar import Grammar

STATEMENTS = 100  # of one script
KINDS = ("plain", "durable", "durable", "plain", "plain", "durable", "plain", "served")  # by seed
QUERIES_MAX = 12  # that are there at once: then some are dropped
BASE = """
CREATE STREAM s (ts TIMESTAMP, a BIGINT, b BIGINT, k STRING, x DOUBLE, d DECIMAL(10, 2), day DATE, f BOOLEAN, i INT,
                 r FLOAT, at TIMESTAMP) WITH (retain = '10 seconds');
CREATE STREAM u (ts TIMESTAMP, k STRING, a BIGINT, WATERMARK FOR ts AS ts - INTERVAL 2 SECONDS)
  WITH (retain = '1 hour', late = 'keep', on_bad_row = 'skip');
CREATE STREAM v (ts TIMESTAMP, k STRING, x DOUBLE, op STRING) WITH (retain = '1 hour', on_bad_row = 'skip');
CREATE TABLE companies (k STRING PRIMARY KEY, sector STRING, worth DECIMAL(12, 3), since DATE);
CREATE TABLE versions (k STRING PRIMARY KEY, a BIGINT, f BOOLEAN) NON RETROACTIVE;
CREATE TABLE loose (k STRING, x DOUBLE);
CREATE TABLE changed (k STRING PRIMARY KEY, x DOUBLE) NON RETROACTIVE WITH (changes = 'v', operation = 'op');
CREATE QUERY base AS SELECT k, SUM(a) AS s, COUNT(*) AS n FROM s [RANGE 5 SECONDS SLIDE 1 SECOND] GROUP BY k;
CREATE QUERY log AS SELECT k, a FROM s [RANGE 3 SECONDS] WHERE a > 1;
CREATE QUERY fresh AS SELECT ISTREAM a, x FROM s [RANGE 4 SECONDS];
"""
# What EXPLAIN says of the rows that an engine has seen since it was opened, and of what follows from that.
MEASURED = re.compile(r"(COST .*|rows: [\d.,]+ per \w+( assumed, none measured yet)?|,? cost: [^,>]*)")
KEYS = ("a", "b", "c", "", None)


class Stage(Protocol):
    """Where a script plays."""

    engine: pw.Engine

    def execute(self, text: str) -> None:
        """PanewiseError where it is refused; AssertionError where something else came of it."""

    def push(self, stream: str, rows: list[dict[str, Any]]) -> None: ...

    def read(self, query: str) -> None: ...


class Direct:
    """An engine, by its methods."""

    def __init__(self, engine: pw.Engine) -> None:
        self.engine = engine

    def execute(self, text: str) -> None:
        self.engine.execute(text)

    def push(self, stream: str, rows: list[dict[str, Any]]) -> None:
        self.engine.push(stream, rows)

    def read(self, query: str) -> None:
        self.engine.results(query)
        self.engine.lookup(query)


class Served:
    """The server's application, without a network."""

    def __init__(self, client: Any, backend: Any) -> None:
        self._client = client
        self.engine = backend.engine

    def execute(self, text: str) -> None:
        self._answer(self._client.post("/v1/statements", json={"text": text}))

    def push(self, stream: str, rows: list[dict[str, Any]]) -> None:
        body = b"".join(orjson.dumps(row) + b"\n" for row in rows)
        headers = {"Content-Type": "application/x-ndjson"}
        self._answer(self._client.post(f"/v1/streams/{stream}/rows", content=body, headers=headers))

    def read(self, query: str) -> None:
        self._answer(self._client.get(f"/v1/queries/{query}/lookup"))

    @staticmethod
    def _answer(answer: Any) -> None:
        assert answer.status_code < 500, f"HTTP {answer.status_code}: {answer.text}"
        if answer.status_code >= 400:
            raise pw.PanewiseError(answer.text)


@contextmanager
def staged(kind: str, folder: Path) -> Iterator[Stage]:
    """'plain', 'durable' or 'served'."""
    if kind != "served":
        with pw.Engine(folder / "engine" if kind == "durable" else None, sync="never") as engine:
            yield Direct(engine)
        return
    from starlette.testclient import TestClient

    from panewise.serve.http.app import make_app
    from panewise.serve.http.backends.engine_backend import EngineBackend
    from panewise.serve.http.service.settings import Settings

    settings = Settings(port=0)
    backend = EngineBackend(settings)
    try:
        with TestClient(make_app(backend, settings), "http://localhost", raise_server_exceptions=False) as client:
            yield Served(client, backend)
    finally:
        backend.close()


def books(engine: pw.Engine) -> dict[str, Any]:
    """What a refused statement leaves as it was."""
    hosting = engine.hosting
    with engine.turns:
        engine._flusher.flush_all()  # what rows do has nothing to do with the statement
    channels = {**engine.streams, **hosting.queries}
    return {
        "catalog": engine.catalog.copy(),
        "streams": {
            name: (stream.definition, stream.retain_us, stream.judge.reach) for name, stream in engine.streams.items()
        },
        "tables": {name: [*map(id, table._readers)] for name, table in engine.tables.items()},
        "queries": {name: (query.status, query.reason) for name, query in hosting.queries.items()},
        "feeding": {name: id(consumer) for name, consumer in hosting.consumers.items()},
        "hidden": {name: list(inner) for name, inner in hosting._hidden.items()},
        "trees": {key: sorted(tree.queries) for key, tree in hosting._families._families.items()},
        # A core whose queries have all failed holds nothing, and goes with the next query that goes.
        "cores": {key: sorted(shared.members) for key, shared in hosting._cores._cores.items() if shared.members},
        "consumers": {name: [*map(id, channel.consumers)] for name, channel in channels.items()},
        "archives": sorted(engine.archives.keepers),
        "decided": {name: decided_on(planned.node) for name, planned in hosting.plan.queries.items()},
    }


def shown(engine: pw.Engine) -> tuple[Any, ...]:
    """What an engine that was opened again shows too."""
    queries = engine.execute("SHOW QUERIES")
    plan = MEASURED.sub("", str(engine.explain()))
    return [*engine.catalog], queries.to_pylist(), sorted(engine.hosting.queries), plan


class Script:
    """One random script, which follows from its seed."""

    def __init__(self, seed: int, stage: Stage, folder: Path | None, statements: int) -> None:
        self.dice = random.Random(seed)
        self.stage = stage
        self.grammar = Grammar(self.dice, stage.engine.catalog, None if folder is None else str(folder))
        self.statements = statements
        self.second = 0
        self.tried = 0
        self.accepted = 0
        self.happened: list[str] = []

    def play(self) -> None:
        for part in BASE.split(";\n"):
            self.stage.execute(part) if part.strip() else None
        if self.dice.random() < 0.5:
            self._rows()
        while self.tried < self.statements:
            self._statement(self.grammar.statement())
            if self.dice.random() < 0.3:
                self._rows()
            if self.dice.random() < 0.2:
                self._read()
            self._make_room()
        self._rows()
        self._read()

    def _statement(self, text: str) -> None:
        engine = self.stage.engine
        before = books(engine)
        self.tried += 1
        self.happened.append(text)
        try:
            self.stage.execute(text)
            self.accepted += 1
        except pw.PanewiseError as error:
            _check_words(error)
            after = books(engine)
            changed = {key: (before[key], after[key]) for key in before if before[key] != after[key]}
            assert not changed, f"refused, and changed {changed}"
        self._nothing_hidden()

    def _nothing_hidden(self) -> None:
        """Queries inside queries are there only as long as those that they are inside of."""
        hosted, catalog = self.stage.engine.hosting.queries, self.stage.engine.catalog
        for name in hosted:
            found = catalog.find(name.partition(HIDDEN)[0])
            assert found is not None and found.kind == "query", f"a query was left behind: {name!r}"

    def _rows(self) -> None:
        dice = self.dice
        self.second += dice.choice([0, 1, 1, 2, 5])
        for stream in [*self.stage.engine.streams.values()]:
            if dice.random() < 0.3:
                continue
            rows = [self._row(stream) for _ in range(dice.randint(1, 4))]
            self.happened.append(f"push {stream.name} {rows}")
            try:
                self.stage.push(stream.name, rows)
            except pw.PanewiseError as error:
                _check_words(error)
        self._no_mistakes()

    def _row(self, stream: Any) -> dict[str, Any]:
        row: dict[str, Any] = {}
        for column in stream.definition.schema:
            if column.name == stream.timestamp:
                row[column.name] = (self.second + self.dice.random()) * 1_000_000 // 1
                row[column.name] = int(row[column.name])
            else:
                row[column.name] = self._value(column)
        return row

    def _value(self, column: Any) -> Any:
        dice = self.dice
        if dice.random() < 0.1:
            return None
        match column.type.name:
            case "BOOLEAN":
                return dice.random() < 0.5
            case "INT" | "BIGINT":
                extreme = 2**31 - 1 if column.type.name == "INT" else 2**63 - 1
                return dice.choice([0, 1, 2, 3, 3, 4, -5, extreme, -extreme - 1])
            case "FLOAT" | "DOUBLE":
                return dice.choice([0.0, 1.5, -2.25, 3.0, 1e300 if column.type.name == "DOUBLE" else 1e30])
            case "DECIMAL":
                return dice.choice([0, 1, -1])
            case "STRING":
                return dice.choice(["upsert", "delete"]) if column.name == "op" else dice.choice(KEYS)
            case "DATE":
                return "2026-01-31"
            case _:
                return self.dice.randint(0, 10**9)

    def _read(self) -> None:
        queries = [query.name for query in self.stage.engine.catalog.of_kind("query")]
        for name in self.dice.sample(queries, min(3, len(queries))):
            self.happened.append(f"read {name}")
            try:
                self.stage.read(name)
            except pw.PanewiseError as error:
                _check_words(error)
        self._no_mistakes()

    def _no_mistakes(self) -> None:
        """A query that has failed did so for a reason that its user can understand."""
        for name, query in self.stage.engine.hosting.queries.items():
            assert "Error" not in query.reason, f"query {name!r} has failed: {query.reason}"

    def _make_room(self) -> None:
        """Drops what scripts have made, readers first, where it has become too much."""
        catalog = self.stage.engine.catalog
        if len(catalog.of_kind("query")) <= QUERIES_MAX:
            return
        made = [definition for definition in catalog if definition.name.startswith("n")]
        for definition in reversed(made):
            if self.dice.random() < 0.7 and not catalog.readers(definition.name):
                text = f'DROP {definition.kind.upper()} "{definition.name}"'
                self.happened.append(text)
                self.stage.execute(text)
        self._nothing_hidden()


def _check_words(error: pw.PanewiseError) -> None:
    """The message of an error can be made, and says something."""
    assert str(error).strip(), type(error)


def play(seed: int, statements: int = STATEMENTS) -> int:
    """Plays the script of a seed; returns how many statements it has tried."""
    kind = KINDS[seed % len(KINDS)]
    with tempfile.TemporaryDirectory(prefix="panewise-statements-") as place:
        folder = Path(place)
        script = None
        try:
            with staged(kind, folder) as stage:
                script = Script(seed, stage, folder if seed % 2 and kind != "served" else None, statements)
                script.play()
                before = shown(stage.engine)
            if kind == "durable":
                _reopened(folder / "engine", before, script)
        except BaseException as problem:
            happened = "\n".join(script.happened if script is not None else [])
            raise AssertionError(f"seed {seed} ({kind}): {type(problem).__name__}: {problem}\n{happened}") from problem
    return script.tried


def _reopened(path: Path, before: tuple[Any, ...], script: Script) -> None:
    with pw.Engine(path, sync="never") as engine:
        after = shown(engine)
        for first, second in zip(before, after, strict=True):
            assert first == second, f"opened again: {first} is now {second}"
        script.stage = Direct(engine)
        script._rows()
        script._read()
