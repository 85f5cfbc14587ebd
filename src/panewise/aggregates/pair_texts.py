"""Lists of values with their counts as JSON texts: the answers of TOP, FREQUENT and APPROX_TOP.

They are JSON because none of the nine types is a list, and any tool reads JSON. An answer is an array of [value, count]
pairs, most frequent first: `[["a", 3], ["b", 1]]`. Numbers and BOOLEANs are JSON's own; a DECIMAL keeps its digits,
`1.50`; a DATE is "2024-02-29" and a TIMESTAMP "2024-02-29 10:00:00.5", UTC, as CAST to STRING writes them. NaN and the
infinities, which JSON lacks, are the texts "NaN", "Infinity" and "-Infinity".
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from panewise.aggregates.columns import texts
from panewise.schema import DataType


def pair_texts(lists: Iterable[Any], nulls: NDArray[np.bool_] | None, type_: DataType) -> pa.StringArray:
    """One text per pair (values, counts); None stands for an empty list. NULL where the mask is set.

    >>> from panewise.schema import STRING
    >>> pair_texts([(["a", "b"], [3, 1]), None, None], np.array([False, False, True]), STRING).to_pylist()
    ['[["a", 3], ["b", 1]]', '[]', None]
    """
    shown = _shown(type_)
    found: list[str | None] = ["[]" if pairs is None else _text(pairs[0], pairs[1], shown) for pairs in lists]
    if nulls is None:
        return texts(found)
    return texts([None if missing else text for text, missing in zip(found, nulls.tolist(), strict=True)])


def _text(values: Iterable[Any], counts: Iterable[Any], shown: Callable[[Any], str]) -> str:
    pairs = (f"[{shown(value)}, {int(count)}]" for value, count in zip(values, counts, strict=True))
    return f"[{', '.join(pairs)}]"


def _shown(type_: DataType) -> Callable[[Any], str]:
    """The function that writes a value of this type, given in the encoding of its feed."""
    match type_.name:
        case "STRING":
            return lambda value: json.dumps(value, ensure_ascii=False)
        case "BOOLEAN":
            return lambda value: "true" if value else "false"
        case "DECIMAL":
            return lambda value: f"{Decimal(int(value)).scaleb(-type_.scale):f}"
        case "FLOAT":
            # Through the shortest text that identifies the single-precision number.
            return lambda value: _number(float(str(np.float32(value))))
        case "DOUBLE":
            return lambda value: _number(float(value))
        case "DATE":
            return lambda value: f'"{np.datetime64(int(value), "D")}"'
        case "TIMESTAMP":
            return lambda value: f'"{_instant(int(value))}"'
        case _:
            return lambda value: str(int(value))


def _number(value: float) -> str:
    if math.isfinite(value):
        return repr(value)
    return '"NaN"' if math.isnan(value) else '"Infinity"' if value > 0 else '"-Infinity"'


def _instant(micros: int) -> str:
    text = str(np.datetime64(micros, "us")).replace("T", " ")
    return text.rstrip("0").rstrip(".")
