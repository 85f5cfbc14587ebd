"""Which keys of a row are columns of a stream: in any case, and told from those that are misspelled.

A row given as a dict or as a JSON object may lack columns, which are NULL, and may have keys that are no columns, which
are ignored, as other columns of a frame or of a file are. A key that looks like a column which the row lacks is a
mistake, and who made it is told.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from panewise.schema import Schema

_LIKENESS_LEAST = 0.75  # 'prise' and 'price' have 0.8.


def misspelled(keys: Iterable[str], schema: Schema) -> tuple[str, str] | None:
    """A key that is no column, and the column that it was meant to be, which is not among the keys, if there is one.

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
