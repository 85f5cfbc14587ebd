"""The results of micro-batches with numbers: the rows of a query are numbered from 0 in the order of the log.

The numbers are not stored. After each micro-batch `stats/` has the number of results of each query so far, which is the
same when a micro-batch is repeated. So the rows of the last file end at that number, and those of an earlier file end
where the next one begins:

    file of micro-batch       7        9        12
    rows of q                 3        2         4       stats: q has 30 so far
    numbers              21..23   24..25    26..29

Every process finds the same numbers at any time, also after the log's retention has removed files. Only marked
micro-batches count, because the others are not complete. Cost: one file is read for each micro-batch.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from panewise.spark.environment.folder import Folder
from panewise.spark.results.batch_log import file_of, read_entries
from panewise.spark.results.batch_stats import stats_file
from panewise.spark.tasks.batch_progress import Marks, marks_file
from panewise.spark.tasks.packing import RESULT

FILES_MOST = 2_000  # files that `earlier` reads, from the last one backwards


@dataclass(frozen=True)
class Delivery:
    """Rows of a query (by its log name) that one micro-batch has delivered, and when, in seconds since 1970."""

    name: str
    first: int
    table: pa.Table
    at: float | None


class Deliveries:
    """Reads the log: call `earlier` once, then `since_then` again and again."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self.batch = -1  # the last micro-batch that was read
        self.at: float | None = None  # when it was done
        self._totals: dict[str, int] = {}

    def total(self, name: str) -> int:
        """How many rows a query has delivered so far."""
        return self._totals.get(name, 0)

    def earlier(self, marks: Marks, names: set[str], rows_most: int, bytes_most: int) -> list[Delivery]:
        """The last results of some queries, oldest first: of each not much more than `rows_most` and `bytes_most`."""
        if marks.batch < 0:
            return []
        stats = self._folder.read_json(stats_file(marks.batch))
        self._totals = dict(stats["queries"])
        self.batch, self.at = marks.batch, self._done_at(marks.batch)
        begins, wanted, found = dict(self._totals), dict.fromkeys(names, 0), list[Delivery]()
        sizes = dict.fromkeys(names, 0)
        numbers = [number for number in self._folder.numbers("results") if number <= marks.batch]
        for batch in reversed(numbers[-FILES_MOST:]):
            if not wanted:
                break
            at = self._done_at(batch)
            for entry in read_entries(self._folder, batch, RESULT) or []:
                begins[entry.name] -= entry.table.num_rows
                if entry.name in wanted:
                    found.append(Delivery(entry.name, begins[entry.name], entry.table, at))
                    wanted[entry.name] += entry.table.num_rows
                    sizes[entry.name] += entry.table.nbytes
                    if wanted[entry.name] >= rows_most or sizes[entry.name] >= bytes_most or not begins[entry.name]:
                        del wanted[entry.name]
        return found[::-1]

    def since_then(self, marks: Marks) -> list[Delivery]:
        """Results of all queries from later micro-batches. If a file cannot be read, raises and takes none of them."""
        found, totals, at = list[Delivery](), dict(self._totals), self.at
        for batch in range(self.batch + 1, marks.batch + 1):
            at = self._done_at(batch)
            for entry in read_entries(self._folder, batch, RESULT) or []:
                first = totals.get(entry.name, 0)
                found.append(Delivery(entry.name, first, entry.table, at))
                totals[entry.name] = first + entry.table.num_rows
        self._totals, self.batch, self.at = totals, max(self.batch, marks.batch), at
        return found

    def _done_at(self, batch: int) -> float | None:
        return self._folder.written_at(marks_file(batch)) or self._folder.written_at(file_of(batch))
