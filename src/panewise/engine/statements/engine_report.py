"""What an engine holds, for people and programs: SHOW, and the parts of `stats()` about queries and families."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from panewise.catalog import (
    ArchiveDefinition,
    Catalog,
    QueryDefinition,
    SinkDefinition,
    StreamDefinition,
    TableDefinition,
)
from panewise.credentials import masked_option
from panewise.engine.books.engine_archives import Archives
from panewise.engine.channels.hosted_query import HostedQuery
from panewise.engine.hosting.lateness import lateness_of
from panewise.engine.hosting.query_registry import QueryRegistry
from panewise.engine.reads.answer_form import answer_since
from panewise.plan.physical_plan import shown_name
from panewise.temporal import format_instant


def shown(catalog: Catalog, hosting: QueryRegistry, archives: Archives, kind: str) -> pa.Table:
    """SHOW STREAMS, TABLES, QUERIES, SINKS or ARCHIVES."""
    rows = []
    for definition in catalog.of_kind({"queries": "query"}.get(kind, kind.rstrip("s"))):
        row: dict[str, str] = {"name": definition.name}
        match definition:
            case StreamDefinition():
                row |= {"columns": str(definition.schema), "timestamp": definition.timestamp}
            case TableDefinition():
                row |= {"columns": str(definition.schema), "primary_key": ", ".join(definition.primary_key)}
                row["changes"] = definition.changes or ""
            case QueryDefinition():
                query = hosting.queries[definition.name.lower()]
                reason = hosting.shown_reason(query.name)
                row |= {"status": query.status, "reason": reason, "statement": definition.text}
            case SinkDefinition():
                options = ", ".join(f"{k} = {masked_option(k, v)}" for k, v in definition.options)
                row |= {"source": definition.source, "options": options}
            case ArchiveDefinition():
                stats = archives[definition.name].stats()
                names = ("source", "path", "status", "reason", "layout", "written_to")
                row |= {name: "" if stats.get(name) is None else str(stats[name]) for name in names}
                # With suspended=True nobody knows how many rows there are.
                known = stats["status"] != "SUSPENDED"
                rows_now = str(stats.get("rows", 0) + stats["held_rows"]) if known else ""
                row |= {"key": ", ".join(definition.key), "rows": rows_now}
        rows.append(row)
    columns = {
        "streams": ["name", "columns", "timestamp"],
        "tables": ["name", "columns", "primary_key", "changes"],
        "queries": ["name", "status", "reason", "statement"],
        "sinks": ["name", "source", "options"],
        "archives": ["name", "source", "status", "reason", "key", "layout", "rows", "written_to", "path"],
    }[kind]
    return pa.table({name: pa.array([row[name] for row in rows], pa.string()) for name in columns})


def query_stats(catalog: Catalog, hosting: QueryRegistry) -> dict[str, Any]:
    """The figures of all queries, by name as it was written."""
    found = {}
    for definition in catalog.of_kind("query"):
        query = hosting.queries[definition.name.lower()]
        found[definition.name] = {
            "status": query.status,
            "reason": hosting.shown_reason(query.name),
            "results": query.rows_out,
            "overflows": hosting.overflows(query.name),
            "results_unread_dropped": query.rows_dropped,
            "lateness": lateness_of(query, hosting),
            "answer_since": _answer_since(query, hosting),
            "bytes": query.bytes_held + _own_bytes(hosting, query.name),
        }
    return found


def _answer_since(query: HostedQuery, hosting: QueryRegistry) -> str | None:
    """Since when a query's answer has been the same; None before its first answer, also in mid-stream."""
    since = answer_since(query.plan, query.block, hosting.consumers[query.name].watermark)
    to_begin = since is not None and query.whole_from is not None and since < query.whole_from
    return None if since is None or to_begin else format_instant(since)


def family_stats(hosting: QueryRegistry, postponed: dict[int, int]) -> list[dict[str, Any]]:
    """The figures of all families. `postponed`: how many reports were postponed, by the id of the consumer."""
    return [
        {
            "source": consumer.channel.name,
            "queries": sorted(map(shown_name, consumer.queries)),
            "groups": consumer.family.group_count,
            "slices": len(consumer.family.store.starts),
            "open_slices": consumer.family.open_slice_count,
            "states": len(consumer.family.states),
            "postponed_reports": postponed.get(id(consumer), 0),
            "bytes": consumer.bytes_held,
        }
        for consumer in hosting.families
    ]


def _own_bytes(hosting: QueryRegistry, name: str) -> int:
    """The bytes of state that a query shares with nobody."""
    consumer = hosting.consumers[name]
    return 0 if consumer.is_shared else consumer.bytes_held
