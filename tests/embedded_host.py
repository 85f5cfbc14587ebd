"""`pw.Engine` as a host of cases.

Well-formed pushes of several rows go in as Arrow tables, single rows and rows that do not fit as lists of dicts, so
that the cases walk through both doors of the engine.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

import panewise as pw


class EmbeddedHost:
    """See `case_runner.Host` for the verbs."""

    name = "embedded"
    tells_errors = True

    def __init__(self) -> None:
        self.engine = pw.Engine()

    def execute(self, text: str) -> list[dict[str, Any]] | None:
        answer = self.engine.execute(text)
        return None if answer is None else answer.to_pylist()

    def push(self, name: str, rows: list[dict[str, Any]]) -> None:
        self.engine.push(name, rows if len(rows) == 1 else self._arrow(name, rows))

    def _arrow(self, name: str, rows: list[dict[str, Any]]) -> Any:
        definition = self.engine.catalog.find(name)
        if definition is None:
            return rows
        schema = definition.schema.to_arrow()
        if any(set(row) != set(schema.names) for row in rows):
            return rows
        try:
            return pa.Table.from_pylist(rows, schema=schema)
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
            return rows

    def advance(self, name: str, until: int) -> None:
        self.engine.advance(name, until)

    def flush(self) -> None:
        self.engine.flush()

    def results(self, name: str) -> list[dict[str, Any]]:
        return self.engine.results(name).to_pylist()

    def lookup(self, name: str, at: int | None) -> list[dict[str, Any]]:
        return self.engine.lookup(name, at=at).to_pylist()

    def late_count(self, name: str) -> int:
        return int(self.engine.stats()["streams"][name]["late_rows"])

    def late_rows(self, name: str) -> list[dict[str, Any]]:
        return self.engine.late_rows(name).to_pylist()

    def bad_count(self, name: str) -> int:
        return int(self.engine.stats()["streams"][name]["bad_rows"])

    def status(self, name: str) -> str:
        shown = self.engine.execute("SHOW QUERIES").to_pylist()
        return next(row["status"] for row in shown if row["name"].lower() == name.lower())

    def snapshot_and_restore(self) -> None:
        self.engine = pw.Engine.restore(self.engine.snapshot())
