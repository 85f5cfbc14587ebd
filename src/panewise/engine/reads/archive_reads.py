"""SELECT over an archive: a version of its files and the rows that are not in files yet, as one table.

Both are pinned inside a turn and scanned outside all turns, so that nobody waits for a long scan. Conditions on key and
time limit which files are read (`archive_conditions`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from panewise.catalog import TableDefinition
from panewise.engine.archives.archive_keeper import Keeper
from panewise.engine.reads.archive_conditions import SoughtRows, sought_in
from panewise.engine.reads.one_time_query import rows_of_answer
from panewise.engine.reads.published_answers import with_watermark
from panewise.engine.reads.read_isolation import ReadIsolation
from panewise.errors import NotHeldError
from panewise.operators.once.partial_relation import relation_in_parts
from panewise.operators.read_budget import ReadBudget
from panewise.plan.blocks import Block, block_of
from panewise.plan.explanation import Explanation
from panewise.plan.inputs import has_several_inputs
from panewise.plan.nodes import Emit, Scan

EVERYTHING = SoughtRows()


class ArchiveView:
    """An archive as it is now, for one reader. Made inside a turn; `close` releases its version."""

    def __init__(self, keeper: Keeper) -> None:
        if keeper.archive is None and keeper.status == "FAILED":
            raise NotHeldError(f"the archive '{keeper.definition.name}' cannot be read: {keeper.reason}")
        self.definition = keeper.definition
        self._names = list(keeper.definition.schema.names)
        self._oldest = keeper.oldest
        self.watermark = None if self._oldest is None else keeper.channel.watermark  # that of the archive's source
        self._archive = keeper.archive  # None: there are only books, and no rows
        self._snapshot = None if keeper.archive is None else keeper.archive.snapshot()
        self._held = keeper.stored(keeper.held(None if self._snapshot is None else self._snapshot.manifest.now_us))

    def close(self) -> None:
        if self._snapshot is not None:
            self._snapshot.close()

    def table(self, sought: SoughtRows, each: Callable[[pa.RecordBatch], None]) -> pa.Table:
        """The rows that are sought, and perhaps others, in any order, without expired ones.

        `each` is called with every batch that is read from files.
        """
        if self._archive is None or self._snapshot is None:
            return self.definition.schema.to_arrow().empty_table()
        if sought.keys is not None:
            self._archive.usage.probes += 1
            files = self._snapshot.probe(*sought.keys, each=each, **self._options(sought))
        elif sought.first != (None, None):
            self._archive.usage.probes += 1
            files = self._snapshot.range(*sought.first, each=each, **self._options(sought))
        else:
            self._archive.usage.scans += 1
            files = self._snapshot.scan(each=each, **self._options(sought))
        held = self._held
        if self._oldest is not None:
            held = held.filter(pc.field("_expires") > _moment(self._oldest))
        held = held.select(self._names).cast(files.schema)
        return pa.concat_tables([files, held])

    def touched(self, sought: SoughtRows) -> dict[str, str]:
        """How much of the archive a read touches, for EXPLAIN."""
        if self._snapshot is None:
            return {"reads": sought.how}
        asked = self._snapshot.sought(sought.keys, sought.first)
        touched = self._snapshot.touched(asked, **self._options(sought))
        manifest = self._snapshot.manifest
        parts = len({(file.generation, file.sub_index) for file in manifest.files})
        return {
            "reads": sought.how,
            "sub-indices": f"{touched.sub_indices} of {parts}",
            "files": f"{touched.files} of {len(manifest.files)}",
            "row groups": str(touched.row_groups),
            "held": f"{self._held.num_rows} rows",
        }

    def _options(self, sought: SoughtRows) -> dict[str, Any]:
        alive = {} if self._oldest is None else {"expires": (self._oldest + 1, None)}
        return {"columns": self._names, "inserted": sought.inserted, **alive}


def _moment(instant: int) -> pa.Scalar:
    return pa.scalar(instant, pa.int64()).cast(pa.timestamp("us", tz="UTC"))


class ArchiveRead:
    """One SELECT over one archive. Made inside a turn, finished outside all turns."""

    def __init__(self, isolation: ReadIsolation, block: Block, keeper: Keeper, budget: ReadBudget) -> None:
        self._isolation = isolation
        self._budget = budget
        self._block = block
        self._view = ArchiveView(keeper)

    def finish(self) -> pa.Table:
        definition = self._view.definition
        try:
            self._isolation.pause()
            sought = sought_in(self._block.where, definition.schema, definition.key, definition.timestamp)
            found = rows_of_answer(self._view.table(sought, self._budget.take_batch))
            table = relation_in_parts(self._block, found, self._budget)
        finally:
            self.give_up()
        self._isolation.committed(inside=False)
        return with_watermark(table, self._view.watermark)

    def give_up(self) -> None:
        """Releases the version of the archive; the answer is not wanted any more."""
        self._view.close()


class ArchiveTable:
    """An archive as one of several inputs of a one-time query: all its rows, like those of a table.

    Made inside a turn. `batch` may be called outside; `close` releases the version of its files.
    """

    changes = None
    last_change = None

    def __init__(self, keeper: Keeper, each: Callable[[pa.RecordBatch], None]) -> None:
        self._view = ArchiveView(keeper)
        self._each = each
        self.name = keeper.definition.name
        self.definition = TableDefinition(self.name, keeper.definition.schema, (), retroactive=True)
        self.close = self._view.close

    def batch(self) -> pa.RecordBatch:
        return rows_of_answer(self._view.table(EVERYTHING, self._each)).batch


class ArchiveExplanation:
    """EXPLAIN of a one-time query over archives, with how much of them it touches, from the footers of their files.

    Made inside a turn, finished outside all turns.
    """

    def __init__(self, plan: Emit, explanation: Explanation, keeper_of: Callable[[str], Keeper]) -> None:
        self._plan = plan
        self._explanation = explanation
        scans = {node.name for node in plan.walk() if isinstance(node, Scan) and node.kind == "archive"}
        self._views: dict[str, ArchiveView] = {}
        try:
            for name in sorted(scans):
                self._views[name] = ArchiveView(keeper_of(name))
        except BaseException:
            self.give_up()
            raise

    def finish(self) -> pa.Table:
        found = {}
        where = None if has_several_inputs(self._plan) else block_of(self._plan).where
        try:
            for name, view in self._views.items():
                definition = view.definition
                sought = sought_in(where, definition.schema, definition.key, definition.timestamp)
                found[f"ARCHIVE {name}"] = view.touched(sought)
        finally:
            self.give_up()
        return explained_table(_with(self._explanation, found))

    def give_up(self) -> None:
        """Releases the versions of the archives; the answer is not wanted any more."""
        for view in self._views.values():
            view.close()


def explained_table(explanation: Explanation) -> pa.Table:
    """An explanation as the table of EXPLAIN, a row per line."""
    return pa.table({"plan": pa.array(str(explanation).split("\n"), pa.string())})


def _with(explanation: Explanation, found: dict[str, dict[str, str]]) -> Explanation:
    inputs = tuple(_with(part, found) for part in explanation.inputs)
    return replace(explanation, properties=explanation.properties | found.get(explanation.title, {}), inputs=inputs)
