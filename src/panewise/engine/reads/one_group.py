"""One group of an answer: the rows with the key that a lookup asks for."""

from __future__ import annotations

import json
import reprlib
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc

from panewise.errors import NotHeldError, did_you_mean
from panewise.language.expressions import ColumnRef
from panewise.plan.blocks import Block
from panewise.schema import STRING, from_arrow


def of_key(query: str, block: Block, table: pa.Table, key: Any) -> pa.Table:
    """The rows of one group of a query's answer.

    `key`: a value, a tuple or list in the order of GROUP BY, or a dict of columns.
    """
    shown = {
        item.expression.name: item.name
        for item in block.items
        if isinstance(item.expression, ColumnRef) and item.expression.name.startswith("key_")
    }
    names = [shown[name] for name in sorted(shown, key=lambda name: int(name.removeprefix("key_")))]
    if isinstance(key, dict):
        wanted = {str(name): value for name, value in key.items()}
    else:
        values = tuple(key) if isinstance(key, tuple | list) else (key,)
        if len(values) != len(names):
            raise NotHeldError(
                f"'{query}' is grouped by {', '.join(names) or 'nothing'}, not by {len(values)} value(s)"
            )
        wanted = dict(zip(names, values, strict=True))
    for name, value in wanted.items():
        if name not in names:
            raise NotHeldError(f"'{name}' is not a selected grouping column", hint=did_you_mean(name, names))
        column = table.column(name)
        try:
            wanted_value = pa.scalar(value, column.type)
            cut = pa.types.is_integer(column.type) and wanted_value.as_py() != value  # Arrow cuts off fractions.
        except (pa.ArrowException, OverflowError, TypeError, ValueError, AttributeError):
            raise _unfit(name, column.type, value) from None
        if cut:
            raise _unfit(name, column.type, value)
        mask = pc.is_null(column) if value is None else pc.equal(column, wanted_value)
        table = table.filter(pc.fill_null(mask, False))
    return table


def _unfit(name: str, type_: pa.DataType, value: Any) -> NotHeldError:
    hint = None
    if from_arrow(type_) == STRING:
        shown = str(value)
        quoted = json.dumps(shown)
        hint = f"write key={quoted}; in an address, where a value is JSON, key={quote(quoted, safe='')}"
    return NotHeldError(f"{name} is {type_}, and {reprlib.repr(value)} is not", hint=hint)
