"""What EXPLAIN says about Spark: which queries share a fragment, what reaches the source, how the rest is spread."""

from __future__ import annotations

from panewise.plan.spark_sql import to_spark_sql
from panewise.runtime.definitions import statement_of
from panewise.runtime.engine import Engine
from panewise.runtime.spark.program import Change, Fragment, PlannedTree, Program


def spark_lines(books: Engine, query: str | None, partitions: int | None) -> list[str]:
    """A few lines per fragment of the query, or of all queries; of several trees a line each."""
    program = Program(partitions or 1, books.user_aggregates, books.hosting.sharing)
    program.apply(Change(0, 0, tuple(statement_of(d) for d in books.catalog if d.kind != "sink")))
    version = program.versions[0]
    lines = ["on Spark:"]
    for number in sorted(version.fragment_numbers):
        fragment = program.fragments[number]
        own = [q for q in version.queries.values() if q.fragment == number]
        if query is not None and query.lower() not in (q.name for q in own):
            continue
        names = ", ".join(q.definition.name for q in own)
        columns = ", ".join(program.columns_needed(version, fragment.stream).names)
        stream = version.streams[fragment.stream].name
        trees = program.trees_in(version, fragment)
        lines.append(f"  fragment {number} over {stream} answers {names}")
        lines.append(f"    the source is asked for: {columns}")
        lines.append(f"    {_spread(fragment, trees, partitions)}")
        for tree in trees if len(trees) > 1 else ():
            answered = ", ".join(q.definition.name for q in own if q.tree == tree.number)
            lines.append(f"      {_selected(tree)}{_kept(tree)}: {answered}")
    return lines if len(lines) > 1 else []


def _spread(fragment: Fragment, trees: list[PlannedTree], partitions: int | None) -> str:
    if not fragment.tree:
        return "rows are exchanged whole, in order, into one bucket"
    selected = _selected(trees[0]) if len(trees) == 1 else "rows"
    keys = ", ".join(to_spark_sql(key) for key in (trees[0].shape.keys if len(trees) == 1 else fragment.keys))
    folded = f"{selected} are folded per slice{f' and {keys}' if keys else ''} before the exchange"
    if len(trees) > 1:
        folded += f", for {len(trees)} trees"
    many = f"{partitions} buckets" if partitions else "a bucket per shuffle partition"
    return f"{folded}, partials merged in {many if fragment.keys else 'one bucket'}"


def _selected(tree: PlannedTree) -> str:
    where = tree.shape.where
    return "rows" if where is None else f"rows where {to_spark_sql(where)}"


def _kept(tree: PlannedTree) -> str:
    shape = tree.shape
    order = f" by {', '.join(to_spark_sql(key) for key in shape.keys)}" if shape.keys else ""
    return order + (f", kept by {shape.technique}" if shape.technique else "")
