"""What EXPLAIN says about Spark: which queries share a fragment, what reaches the source, how the rest is spread."""

from __future__ import annotations

from panewise.plan.spark_sql import to_spark_sql
from panewise.runtime.definitions import statement_of
from panewise.runtime.engine import Engine
from panewise.runtime.spark.program import Change, Fragment, Program


def spark_lines(books: Engine, query: str | None, partitions: int | None) -> list[str]:
    """A line or two per fragment of the query, or of all queries."""
    program = Program(partitions or 1, books.user_aggregates, books.hosting.sharing)
    program.apply(Change(0, 0, tuple(statement_of(d) for d in books.catalog if d.kind != "sink")))
    version = program.versions[0]
    lines = ["on Spark:"]
    for number in sorted(version.fragment_numbers):
        fragment = program.fragments[number]
        names = [q.definition.name for q in version.queries.values() if q.fragment == number]
        if query is not None and query.lower() not in map(str.lower, names):
            continue
        columns = ", ".join(program.columns_needed(version, fragment.stream).names)
        stream = version.streams[fragment.stream].name
        lines.append(f"  fragment {number} over {stream} answers {', '.join(names)}")
        lines.append(f"    the source is asked for: {columns}")
        lines.append(f"    {_spread(fragment, partitions)}")
    return lines if len(lines) > 1 else []


def _spread(fragment: Fragment, partitions: int | None) -> str:
    if not fragment.tree:
        return "rows are exchanged whole, in order, into one bucket"
    selected = f"rows where {to_spark_sql(fragment.where)} are " if fragment.where is not None else "rows are "
    if not fragment.keys:
        return f"{selected}folded per slice before the exchange, partials merged in one bucket"
    keys = ", ".join(to_spark_sql(key) for key in fragment.keys)
    many = f"{partitions} buckets" if partitions else "a bucket per shuffle partition"
    return f"{selected}folded per slice and {keys} before the exchange, partials merged in {many}"
