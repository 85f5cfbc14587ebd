"""Converts JSON objects to rows of a stream. They may be lines of a file or values of messages.

A text that is not a JSON object raises an error. If the stream skips bad rows, it becomes a row with the text in place
of the event time, so that the engine counts and skips it like every other bad row. A missing key is NULL, keys are
found in any case, and keys that are not columns are ignored (`row_keys`). Cost: one `json.loads` per object, one pass
per column.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from panewise.connectors.conform import conform
from panewise.connectors.python_values import plain
from panewise.connectors.row_keys import misspelled
from panewise.errors import ConnectorError, did_you_mean
from panewise.schema import Schema

if TYPE_CHECKING:
    import pyarrow as pa

Row = dict[str, object]
Rows = list[Row]


def decode_json(
    values: pa.Array, schema: Schema, timestamp: str, skip: bool, epoch: str | None = None, place: str = "the topic"
) -> list[pa.RecordBatch | Rows]:
    """The rows in binary values: at most one batch, then the broken rows.

    A value that is NULL or empty is not a row: compacted topics have such values for deleted keys.

    >>> import pyarrow as pa
    >>> from panewise.schema import BIGINT, TIMESTAMP, Column
    >>> schema = Schema((Column("ts", TIMESTAMP), Column("n", BIGINT)))
    >>> values = pa.array([b'{"ts": "2026-01-01", "N": 1}', b"{", None])
    >>> batch, broken = decode_json(values, schema, "ts", skip=True)
    >>> batch["n"].to_pylist(), broken
    ([1], [{'ts': '{', 'n': None}])
    """
    rows, broken = parse_objects([value or b"" for value in values.to_pylist()], skip, "value", place, 1)
    decoded: list[pa.RecordBatch | Rows] = []
    if rows:
        decoded.append(rows_batch(rows, schema, place, epoch))
    if broken:
        decoded.append(broken_rows(broken, timestamp, schema.names))
    return decoded


def parse_objects(
    texts: Sequence[bytes], skip: bool, unit: str, place: str, number_first: int
) -> tuple[Rows, list[str]]:
    """The objects, and the texts that are not objects.

    Without `skip`, such a text raises ConnectorError. The message names it by `unit`, its number and `place`.
    """
    rows: Rows = []
    broken: list[str] = []
    for number, text in enumerate(texts, number_first):
        if not text.strip():
            continue
        try:
            row = json.loads(text)
            if not isinstance(row, dict):
                raise ValueError("it is not an object in braces")
            rows.append(row)
        except (ValueError, RecursionError) as error:
            shown = text.decode("utf-8", "replace")
            if not skip:
                hint = str(error)
                if text.lstrip().startswith(b"["):
                    hint = f"each {unit} is one object in braces, but this begins an array; jq -c '.[]' splits arrays"
                raise ConnectorError(
                    f"{unit} {number} of {place} is not a JSON object: {shown[:80]}", hint=hint
                ) from None
            broken.append(shown)
    return rows, broken


def rows_batch(rows: Rows, schema: Schema, place: str, epoch: str | None) -> pa.RecordBatch:
    """The rows as one Arrow batch. A column that mixes types and does not convert is a union."""
    import pyarrow as pa

    spelled = {key.lower(): key for row in rows for key in row}
    keys = [spelled.get(name.lower(), name) for name in schema.names]
    arrays = [plain([row.get(key) for row in rows], column.type) for key, column in zip(keys, schema, strict=True)]
    batch = pa.RecordBatch.from_arrays(arrays, names=list(schema.names))
    return conform(batch, schema, place, epoch)


def check_keys(rows: Rows, schema: Schema, timestamp: str, place: str) -> None:
    """Raises ConnectorError if no row has an event time, or if a key looks like a misspelled column that no row has.

    Any other column that no row has is NULL.
    """
    keys = dict.fromkeys(key for row in rows for key in row)
    if timestamp.lower() not in {key.lower() for key in keys}:
        raise ConnectorError(f"{place} has no column '{timestamp}'", hint=did_you_mean(timestamp, keys))
    found = misspelled(keys, schema)
    if found is not None:
        raise ConnectorError(f"{place} has no column '{found[1]}'", hint=f"did you mean {found[0]}?")


def broken_rows(texts: list[str], timestamp: str, names: tuple[str, ...]) -> Rows:
    """Rows with each text in place of the event time; all other columns are None."""
    return [{name: (shown if name == timestamp else None) for name in names} for shown in texts]
