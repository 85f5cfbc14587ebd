"""A folder opened with `suspended=True`: its definitions are known and can be dropped, and nothing runs.

This is for a folder that cannot be opened otherwise, because a query needs more memory than there is. Snapshot and log
are read for their definitions only, and do not change. DROP statements are noted in a file beside them:

    DROPPED     statements, as JSON; whole or not there

The next engine that opens the folder as usual does not run these queries, not even while it replays the log. After the
replay it drops them, writes a snapshot, so that no later engine replays that log and runs them, and removes the file.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from panewise.errors import DurabilityError
from panewise.language import statements as s
from panewise.language.bind.binder import parse
from panewise.state.durable_files import FileSystem, write_all

REASON = "the folder was opened with suspended=True"
GO_ON = "to go on, open the folder as usual: Engine(path), or panewise serve without --suspended"
_OF_DEFINITIONS = ("status", "reason", "source", "path", "queries", "changes")


def check_allowed(statement: s.Statement) -> None:
    """DurabilityError for statements that need more than definitions."""
    if isinstance(statement, s.Show | s.Explain):
        return
    if not isinstance(statement, s.Drop) or statement.kind not in ("query", "sink", "archive"):
        raise DurabilityError(
            f"{REASON}: it accepts only SHOW, EXPLAIN and DROP of queries, sinks and archives",
            hint=GO_ON,
        )


def without_figures(stats: dict[str, Any]) -> dict[str, Any]:
    """The entries of `Engine.stats()` about definitions; all others are None."""

    def known(part: dict[str, Any]) -> dict[str, Any]:
        return {name: value if name in _OF_DEFINITIONS else None for name, value in part.items()}

    by_name = {
        kind: {name: known(part) for name, part in stats[kind].items()}
        for kind in ("streams", "tables", "queries", "archives")
    }
    return stats | by_name | {"trees": [known(tree) for tree in stats["trees"]]}


class Dropped:
    """The DROP statements that are noted in a folder."""

    def __init__(self, folder: Path, files: FileSystem) -> None:
        self._path = folder / "DROPPED"
        self._files = files
        self.statements: list[str] = json.loads(self._path.read_text("utf-8")) if self._path.exists() else []

    def queries(self) -> set[str]:
        """The lower-case names of dropped queries."""
        nodes = [parse(text)[0].node.this.name for text in self.statements if text.upper().startswith("DROP QUERY")]
        return {str(name).lower() for name in nodes}

    def note(self, text: str) -> None:
        self._write([*self.statements, text])

    def take_back(self) -> None:
        """Removes the last statement, which was refused."""
        self._write(self.statements[:-1])

    def forget(self) -> None:
        """Removes the file: the statements have run, and a snapshot was written after them."""
        self._files.remove(self._path)
        self._files.sync_folder(self._path.parent)

    def _write(self, statements: list[str]) -> None:
        unfinished = self._path.with_name("DROPPED.unfinished")
        descriptor = self._files.create(unfinished)
        try:
            write_all(self._files, descriptor, [json.dumps(statements).encode()])
            self._files.sync(descriptor)
        finally:
            os.close(descriptor)
        self._files.rename(unfinished, self._path)
        self._files.sync_folder(self._path.parent)
        self.statements = statements
