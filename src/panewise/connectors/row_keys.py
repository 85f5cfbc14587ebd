"""Finds keys of a row that are misspelled columns of a stream.

A row passed as a dict or a JSON object may lack columns, which are then NULL. Keys that are not columns are ignored,
like further columns of a frame or a file. But a key that looks like a column which the row lacks is an error.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from panewise.schema import Schema

_LIKENESS_LEAST = 0.75  # 'prise' and 'price' have 0.8.


def misspelled(keys: Iterable[str], schema: Schema) -> tuple[str, str] | None:
    """A key that is not a column, and the similar column missing among the keys. None if there is no such pair.

    >>> from panewise.schema import DOUBLE, TIMESTAMP, Column
    >>> trades = Schema((Column("ts", TIMESTAMP), Column("price", DOUBLE)))
    >>> misspelled(["ts", "prise"], trades), misspelled(["ts", "venue"], trades)
    (('prise', 'price'), None)
    """
    found = {key.lower(): key for key in keys}
    lacking = {column.name.lower(): column.name for column in schema if column.name.lower() not in found}
    if not lacking:
        return None
    for low, key in found.items():
        if schema.find(low) is None:
            near = difflib.get_close_matches(low, lacking, n=1, cutoff=_LIKENESS_LEAST)
            if near:
                return key, lacking[near[0]]
    return None
