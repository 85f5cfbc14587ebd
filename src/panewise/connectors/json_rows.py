"""JSON objects to a stream's rows, wherever they come from: lines of a file, values of a message.

A text that is no JSON object raises or, where the stream skips bad rows, becomes a row whose event time is that text,
so that the engine counts it and sets it aside like every other bad row. A missing key is NULL, keys are found in any
case, and keys that are no columns are ignored (`row_keys`). Cost: one `json.loads` per object and one pass per column.
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
    """The rows that binary values hold: at most one batch, then the broken ones.

    A value that is NULL or empty is no row: topics that are compacted hold such values for keys that have gone.

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
    """The objects, and the texts that are none; without `skip` such a text raises, as `unit` number such of `place`."""
    rows: Rows = []
    broken: list[str] = []
    for number, text in enumerate(texts, number_first):
        if not text.strip():
            continue
        try:
            row = json.loads(text)
            if not isinstance(row, dict):
                raise ValueError("it is no object in braces")
            rows.append(row)
        except (ValueError, RecursionError) as error:
            shown = text.decode("utf-8", "replace")
            if not skip:
                hint = str(error)
                if text.lstrip().startswith(b"["):
                    hint = f"each {unit} is one object in braces, and this begins an array: jq -c '.[]' takes it apart"
                raise ConnectorError(
                    f"{unit} {number} of {place} is not a JSON object: {shown[:80]}", hint=hint
                ) from None
            broken.append(shown)
    return rows, broken


def rows_batch(rows: Rows, schema: Schema, place: str, epoch: str | None) -> pa.RecordBatch:
    """One Arrow batch; a column that mixes types and does not convert is a union, whose values are judged apart."""
    import pyarrow as pa

    spelled = {key.lower(): key for row in rows for key in row}
    keys = [spelled.get(name.lower(), name) for name in schema.names]
    arrays = [plain([row.get(key) for row in rows], column.type) for key, column in zip(keys, schema, strict=True)]
    batch = pa.RecordBatch.from_arrays(arrays, names=list(schema.names))
    return conform(batch, schema, place, epoch)


def check_keys(rows: Rows, schema: Schema, timestamp: str, place: str) -> None:
    """ConnectorError where no row has an event time, or where a key looks like a column that no row has.

    Any other column that no row has is NULL.
    """
    keys = dict.fromkeys(key for row in rows for key in row)
    if timestamp.lower() not in {key.lower() for key in keys}:
        raise ConnectorError(f"{place} has no column '{timestamp}'", hint=did_you_mean(timestamp, keys))
    found = misspelled(keys, schema)
    if found is not None:
        raise ConnectorError(f"{place} has no column '{found[1]}'", hint=f"did you mean {found[0]}?")


def broken_rows(texts: list[str], timestamp: str, names: tuple[str, ...]) -> Rows:
    """Rows that carry a text where the event time should be."""
    return [{name: (shown if name == timestamp else None) for name in names} for shown in texts]
