"""The key directory of a file: row groups hold whole keys, and their ranges of keys say which ones a probe reads.

Rows are sorted by key, NULL last, so the rows of a key lie together. A probe of one key reads the row group that has
it. Only a key of more than `BYTES_MAX` has several row groups. The directory is in the file's footer, as the minima and
maxima of row groups, which any Parquet tool can use.

Cost: O(rows) to cut, O(log row groups) to find a key.

Source: Golab 2006, figure 4.3 (a directory of keys in every sub-index).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

# A closed range of the first key column; instants as microseconds, None for an open end.
KeySpan = tuple[Any, Any]

# A file has about this many row groups, unless they would be so small that footer entries outweigh their rows.
ROW_GROUPS = 128
BYTES_MIN, BYTES_MAX = 1 << 16, 1 << 20
ROW_GROUPS_MAX = 1_024


def row_group_ends(rows: Any, key: Sequence[str]) -> list[int]:
    """Where the row groups of sorted rows end."""
    count: int = rows.num_rows
    row_bytes = max(rows.nbytes / count, 1.0)
    least_bytes = max(min(rows.nbytes / ROW_GROUPS, BYTES_MAX), BYTES_MIN, rows.nbytes / ROW_GROUPS_MAX)
    least, most = int(least_bytes / row_bytes) + 1, int(max(least_bytes, BYTES_MAX) / row_bytes) + 1
    key_ends = _key_ends(rows, key)
    ends, end = [], 0
    while end < count:
        wanted = int(key_ends[np.searchsorted(key_ends, min(end + least, count))])
        end = min(wanted, end + most)
        ends.append(end)
    return ends


def _key_ends(rows: Any, key: Sequence[str]) -> Any:
    """The positions where a key ends, the last being the number of rows."""
    changes = np.zeros(rows.num_rows - 1, np.bool_)
    for name in key:
        column = rows[name].combine_chunks()
        before, after = column.slice(0, len(column) - 1), column.slice(1)
        differs = pc.fill_null(pc.not_equal(before, after), pc.xor(pc.is_null(before), pc.is_null(after)))
        changes |= differs.to_numpy(zero_copy_only=False)
    return np.append(np.flatnonzero(changes) + 1, rows.num_rows)


class KeyDirectory:
    """The ranges of keys of a file's row groups, without those that have only NULL.

    >>> KeyDirectory([1, 4, 4], [3, 4, 9]).row_groups([(2, 4), (7, None)])
    [0, 1, 2]
    >>> KeyDirectory([1, 4, 6], [3, 4, 9]).row_groups([(5, 5)])
    []
    """

    def __init__(self, least: list[Any], greatest: list[Any]) -> None:
        self._least = least
        self._greatest = greatest

    @classmethod
    def of(cls, footer: Any, column: str) -> KeyDirectory | None:
        """The directory of a footer for a column; None if the footer lacks the statistics."""
        schema = footer.schema.to_arrow_schema()
        number = schema.get_field_index(column)
        # Instants are compared as numbers, because Python's datetimes end in the year 9999.
        raw = pa.types.is_temporal(schema.field(number).type)
        least, greatest = [], []
        for group in range(footer.num_row_groups):
            chunk = footer.row_group(group).column(number)
            known = chunk.statistics
            if known is None or not known.has_null_count:
                return None
            if known.has_min_max:
                least.append(known.min_raw if raw else known.min)
                greatest.append(known.max_raw if raw else known.max)
            elif known.null_count < chunk.num_values:
                return None
        return cls(least, greatest)

    def row_groups(self, spans: Sequence[KeySpan]) -> list[int]:
        found: set[int] = set()
        for low, high in spans:
            first = 0 if low is None else bisect_left(self._greatest, low)
            last = len(self._least) if high is None else bisect_right(self._least, high)
            found.update(range(first, last))
        return sorted(found)
