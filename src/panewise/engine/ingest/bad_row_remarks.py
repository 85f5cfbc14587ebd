"""The remark on bad rows that a stream has set aside: how many there are, why the last one is bad, where they are.

`late_remarks.Remarks` says when a remark is due. After a caller has fetched bad rows there are no more remarks.
"""

from __future__ import annotations

from typing import NamedTuple

from panewise.catalog import StreamDefinition
from panewise.connectors.epochs import advice
from panewise.connectors.options import epoch_of, written_option
from panewise.engine.ingest.window_limit import TOO_MANY, way_across
from panewise.language.sql_text import name_to_sql

NO_TIMESTAMP = " is not a TIMESTAMP"


class BadRows(NamedTuple):
    """How many rows of a stream were set aside so far, and the remark on them."""

    rows: int
    remark: str


def bad_rows(stream: StreamDefinition, bad: int, rows: int, reason: str | None) -> BadRows:
    """The remark on `bad` of `rows` rows; `reason`: why the last one is bad, if that is known."""
    share = "more than half of the rows, " if 2 * bad > rows and rows > 1 else ""
    came = f"{share}{bad:,} of {rows:,} rows of stream '{stream.name}' were bad and set aside"
    why = "" if reason is None else f"; of the last one {reason}"
    way = None if reason is None else remedy(stream, reason)
    ways = [] if way is None else [way]
    return BadRows(bad, ". ".join([came + why, *ways, f"In the engine's process bad_rows('{stream.name}') has them"]))


def remedy(stream: StreamDefinition, reason: str) -> str | None:
    """What the user can do so that rows are not bad for this reason; None if there is nothing."""
    name, has_connector = name_to_sql(stream.name), _has_connector(stream)
    if TOO_MANY in reason:
        return way_across(stream.name, has_connector=has_connector)
    column, is_said, value = reason.removesuffix(NO_TIMESTAMP).partition(" = ")
    if is_said and reason.endswith(NO_TIMESTAMP) and epoch_of(stream.options) is None:
        return advice(column, value, f"STREAM {name}", has_connector=has_connector)
    return None


def _has_connector(stream: StreamDefinition) -> bool:
    return written_option(stream.options, "connector") not in (None, "memory")
