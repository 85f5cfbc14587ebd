"""Tables on Spark: their versions in the pipeline's folder, and which version a micro-batch sees.

The driver holds each table and checks the statements that change it. It logs every change as the next *version*, in
`tables/`. A change has the numbers of the rows that it removes, and the rows that it adds, with their numbers:

    tables/companies_1f2e3d4c/000001.whole     all rows
                              000002.change    what version 2 has changed
                              000003.change
                              000003.whole     all rows again, because the changes had outgrown the last ones
    tables/newest.json                         the newest version of each table, written for all tables at once
    pins/000000000042.json                     the versions that micro-batch 42 sees, written before its first task runs

A micro-batch sees one version of each table. The version is *pinned* when Spark hands the micro-batch over and before
anything of it runs (`table_pins.py`), so that every task, retry and restart sees the same. It holds for all rows of the
micro-batch, from the watermark at which the micro-batch begins.

A bucket keeps the rows as part of its state. It reads the changes since the last version that it saw from the folder,
and writes them to its own journal. So no bucket needs an old version again, and versions before the last pinned one are
removed. A change costs O(rows changed), and now and then O(rows of the table).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from panewise.aggregates.columns import wrapped
from panewise.arrays import Ints
from panewise.catalog import TableDefinition
from panewise.engine.tables.table import Table
from panewise.spark.environment.folder import Folder
from panewise.spark.ingest.stream_sources import source_name
from panewise.state.records import Record
from panewise.state.snapshot_format import dumped, loaded

WHOLE_LEAST = 64 * 1024  # bytes; with fewer bytes of changes all rows are not written again
NEWEST = "tables/newest.json"
PINS_KEPT = 50


@dataclass(frozen=True)
class TableChange:
    """The change that leads to a version: numbers of the rows that it removes, and the rows that it adds."""

    version: int
    ended: Ints
    rows: pa.RecordBatch
    numbers: Ints


CHANGE = Record(TableChange, "version ended rows numbers")


class TableLog:
    """The versions of one table. `key` is the table's name with the change that created it."""

    def __init__(self, folder: Folder, key: str, definition: TableDefinition) -> None:
        self._folder = folder
        self._definition = definition
        self._place = f"tables/{source_name(key)}"

    # -- reading -------------------------------------------------------------------------------------------------

    def at(self, version: int) -> Table:
        """The table at a version."""
        table = Table(self._definition)
        first = max(number for number in self._numbers("whole") if number <= version)
        table.restore(self._read(first, "whole"))
        for number in range(first + 1, version + 1):
            change = self._read(number, "change")
            table.follow(change["ended"], change["rows"], change["numbers"])
        return table

    def since(self, version: int, known: Table, want: int) -> TableChange | None:
        """The change that brings a table from `version` to the version `want`; None if they are equal."""
        if version == want:
            return None
        between = range(version + 1, want + 1)
        if version and set(between) <= set(self._numbers("change")):
            return _together(want, [self._read(number, "change") for number in between])
        wanted = self.at(want)
        # A number is never given to another row, so comparing numbers is enough.
        ended = known.numbers[~np.isin(known.numbers, wanted.numbers)]
        fresh = ~np.isin(wanted.numbers, known.numbers)
        return TableChange(want, ended, wanted.batch().filter(wrapped(fresh)), wanted.numbers[fresh])

    def _read(self, version: int, kind: str) -> dict[str, Any]:
        name = f"{self._place}/{version:06d}.{kind}"
        data = self._folder.read(name)
        if data is None:
            raise FileNotFoundError(f"{name} of '{self._folder.place}' is gone, and a micro-batch needs it")
        found: dict[str, Any] = loaded(data)
        return found

    def _numbers(self, kind: str) -> list[int]:
        return [int(name[:6]) for name in self._folder.names(self._place) if name.endswith(kind)]

    # -- writing, in the driver ----------------------------------------------------------------------------------

    def begin(self, table: Table) -> int:
        """Writes the first version."""
        self._folder.make(self._place)
        self._write(1, "whole", table.snapshot())
        return 1

    def write(self, version: int, before: Ints, table: Table) -> int:
        """Writes the next version, unless the numbers of the rows are those `before`. Returns the table's version."""
        ended = before[~np.isin(before, table.numbers)]
        fresh = ~np.isin(table.numbers, before)
        if not len(ended) and not fresh.any():
            return version
        for name in self._folder.names(self._place):
            if int(name[:6]) > version:  # written by a driver that died before it was visible
                self._folder.remove(f"{self._place}/{name}")
        rows, numbers = table.batch().filter(wrapped(fresh)), table.numbers[fresh]
        self._write(version + 1, "change", {"ended": ended, "rows": rows, "numbers": numbers})
        last = max(self._numbers("whole"))
        changes = sum(self._size(number, "change") for number in range(last + 1, version + 2))
        if changes > max(WHOLE_LEAST, self._size(last, "whole")):
            self._write(version + 1, "whole", table.snapshot())
        return version + 1

    def _write(self, version: int, kind: str, content: dict[str, Any]) -> None:
        self._folder.write(f"{self._place}/{version:06d}.{kind}", dumped(content))

    def _size(self, version: int, kind: str) -> int:
        return self._folder.size(f"{self._place}/{version:06d}.{kind}")

    def forget(self, before: int | None) -> None:
        """Removes the files that are not needed for version `before` and later ones; all files if it is None."""
        needed = None if before is None else max(number for number in self._numbers("whole") if number <= before)
        for name in self._folder.names(self._place):
            if needed is None or int(name[:6]) < needed:
                self._folder.remove(f"{self._place}/{name}")


def _together(version: int, changes: list[dict[str, Any]]) -> TableChange:
    """Successive changes as one, without the rows that one of them adds and a later one removes."""
    ended = np.concatenate([change["ended"] for change in changes])
    numbers = np.concatenate([change["numbers"] for change in changes])
    rows = pa.Table.from_batches([change["rows"] for change in changes])
    stays = ~np.isin(numbers, ended)
    batches = rows.filter(wrapped(stays)).combine_chunks().to_batches()
    left = batches[0] if batches else changes[0]["rows"].slice(0, 0)
    return TableChange(version, np.sort(ended[~np.isin(ended, numbers)]), left, numbers[stays])


# -- what a micro-batch sees ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Pin:
    """The version of a table that a micro-batch sees; `seen` identifies its content in the connector, if it has one."""

    version: int
    rows: int
    seen: str = ""
    problem: str = ""  # why the connector's newest content is not seen


PIN = Record(Pin, "version rows seen problem")


def pins_file(batch: int) -> str:
    return f"pins/{batch:012d}.json"


def read_pins(folder: Folder, batch: int) -> dict[str, Pin] | None:
    """The pins of a micro-batch, by table; None if it has not been handed over yet."""
    data = folder.read_json(pins_file(batch))
    return None if data is None else {key: PIN.of_dict(pin) for key, pin in data.items()}


def last_pins(folder: Folder, until: int) -> dict[str, Pin]:
    """The pins of the last micro-batch up to `until` that had tables."""
    numbers = [number for number in folder.numbers("pins") if number <= until]
    return (read_pins(folder, numbers[-1]) or {}) if numbers else {}


def write_pins(folder: Folder, batch: int, pins: dict[str, Pin]) -> None:
    folder.write_json(pins_file(batch), {key: PIN.to_dict(pin) for key, pin in pins.items()})
    folder.remove(pins_file(batch - PINS_KEPT))


class PinnedTables:
    """The tables as the buckets of a micro-batch see them. Reads the pins when the first bucket asks."""

    def __init__(self, folder: Folder, batch: int) -> None:
        self._folder = folder
        self._batch = batch
        self._pins: dict[str, Pin] | None = None

    def change(self, key: str, table: FollowedTable) -> TableChange | None:
        """The change that brings a bucket's table to the version of this micro-batch; None if it is there."""
        if self._pins is None:
            self._pins = read_pins(self._folder, self._batch)
        if self._pins is None or key not in self._pins:
            raise FileNotFoundError(
                f"'{self._folder.place}' has no pinned version of '{key}' for micro-batch {self._batch}: the driver "
                "and all workers must see the same folder"
            )
        log = TableLog(self._folder, key, table.definition)
        return log.since(table.version, table, self._pins[key].version)


class FollowedTable(Table):
    """A bucket's copy of a table, at a version; version 0 is the empty table before the first."""

    def __init__(self, definition: TableDefinition) -> None:
        super().__init__(definition)
        self.version = 0

    def go_to(self, change: TableChange) -> None:
        self.follow(change.ended, change.rows, change.numbers)
        self.version = change.version

    def snapshot(self) -> dict[str, Any]:
        return super().snapshot() | {"version": self.version}

    def restore(self, snapshot: dict[str, Any]) -> None:
        super().restore(snapshot)
        self.version = snapshot["version"]
