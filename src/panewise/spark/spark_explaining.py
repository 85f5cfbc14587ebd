"""EXPLAIN on Spark: what the program runs (`hosted_program.py`), what sources are asked for, how rows are spread."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any

from panewise.engine.books.definitions import statement_of
from panewise.optimize.sharing.report.sharing_report import SharingReport
from panewise.plan.explanation import Explanation
from panewise.plan.expressions.spark_sql import to_spark_sql
from panewise.spark.buckets.hosted_program import HostedProgram, Measures
from panewise.spark.environment.session import default_partitions
from panewise.spark.folder_reader import FolderReader
from panewise.spark.program.changes import Change, ChangeStatement
from panewise.spark.program.identity import DefinedPipeline
from panewise.spark.program.program import Program
from panewise.spark.program.reconcile import suspensions
from panewise.spark.program.version import Fragment, PlannedFamily, PlannedQuery


class SparkExplainer:
    """Explains the queries of one pipeline: as its run has planned them, or as a first start would plan them.

    A `reader` is the run of the pipeline, or None. `pending` are statements that the books have run and the program has
    not heard of yet. The class has its own lock, because a change holds the pipeline's while Spark stops and starts.
    """

    def __init__(self, pipeline: DefinedPipeline) -> None:
        self._pipeline = pipeline
        self._lock = threading.RLock()
        self._shown: HostedProgram | None = None
        self._partitions: int | None = None  # number that a first start would choose

    def lines(
        self, query: str | None, reader: FolderReader | None, pending: Sequence[ChangeStatement] = ()
    ) -> list[str]:
        """How a query runs, or all queries together, with lines about Spark."""
        with self._lock:
            hosted = self._hosted(query, reader, pending)
            tables = {} if reader is None else reader.table_stats()
            lines = spark_lines(hosted.program, query, self._pipeline.partitions, tables)
            return [*str(hosted.explanation(query)).split("\n"), *lines]

    def explanation(self, query: str | None, reader: FolderReader | None) -> Explanation:
        """The plan of a query, or of all, as data, without the lines about Spark."""
        with self._lock:
            return self._hosted(query, reader).explanation(query)

    def report(self, reader: FolderReader | None) -> SharingReport:
        """What queries share, at what estimated cost."""
        with self._lock:
            return self._hosted(None, reader).report()

    def _hosted(
        self, query: str | None, reader: FolderReader | None, pending: Sequence[ChangeStatement] = ()
    ) -> HostedProgram:
        """The program that runs, or would run; CatalogError if there is no such query."""
        books = self._pipeline.books
        if query is not None:
            books.catalog.get(query, "query")
        defined = {definition.name.lower() for definition in books.catalog.of_kind("query")}
        program = None if reader is None else self._running(reader.program, pending)
        if reader is None or program is None or set(program.newest.queries) != defined:
            # Nothing runs, or the last change has failed.
            self._shown = HostedProgram(self._planned(), Measures(), self._shown)
        else:
            self._shown = HostedProgram(program, reader.measures(), self._shown)
        return self._shown

    def _running(self, program: Program, pending: Sequence[ChangeStatement]) -> Program:
        if pending:
            program = program.copy()
            texts, bound = tuple(statement.text for statement in pending), [statement.bound for statement in pending]
            program.apply(Change(program.next_version, program.newest.from_batch, texts), bound)
        return program

    def _planned(self) -> Program:
        pipeline = self._pipeline
        partitions = pipeline.partitions or self._partitions or default_partitions(pipeline.spark)
        self._partitions = partitions
        program = Program(partitions, pipeline.books.user_aggregates, pipeline.sharing, made=pipeline.queries_made)
        texts = [statement_of(definition) for definition in pipeline.books.catalog if definition.kind != "sink"]
        program.apply(Change(0, 0, (*texts, *suspensions(pipeline.books))))
        return program


def spark_lines(
    program: Program, query: str | None, partitions: int | None, tables: Mapping[str, Mapping[str, Any]]
) -> list[str]:
    """A few lines for each fragment of the query, or of all queries, and one for each of several families.

    `tables` is what micro-batches have seen of tables, by name (`FolderReader.table_stats`).
    """
    version = program.newest
    lines = ["on Spark:"]
    for number in sorted(version.fragment_numbers):
        fragment = program.fragments[number]
        own = [q for q in version.queries.values() if q.fragment == number]
        if query is not None and query.lower() not in (q.name for q in own):
            continue
        names = ", ".join(q.definition.name for q in own)
        streams = [version.streams[key].name for key in fragment.streams]
        families = program.families_in(version, fragment)
        lines.append(f"  fragment {number} over {', '.join(streams)} answers {names}")
        for key, stream in zip(fragment.streams, streams, strict=True):
            asked = "the source" if len(streams) == 1 else f"the source of {stream}"
            lines.append(f"    {asked} is asked for: {', '.join(program.columns_needed(version, key).names)}")
        lines.append(f"    {_exchanged(fragment, streams, own, partitions) or _spread(fragment, families, partitions)}")
        for family in families if len(families) > 1 else ():
            answered = ", ".join(q.definition.name for q in own if q.family == family.number)
            lines.append(f"      {_selected(family)}{_kept(family)}: {answered}")
        asked_for = [q for q in own if query is None or q.name == query.lower()]
        read = dict.fromkeys(key for q in asked_for for key in version.tables_of(q))
        lines.extend(f"    {_seen(version.tables[key].name, tables)}" for key in read)
    return lines if len(lines) > 1 else []


def _exchanged(
    fragment: Fragment, streams: list[str], queries: list[PlannedQuery], partitions: int | None
) -> str | None:
    """How whole rows are spread over buckets; None in a folded fragment."""
    if fragment.is_folded:
        return None
    if not fragment.exchanged_by:
        reasons = "; ".join(dict.fromkeys(reason for query in queries if (reason := query.node.spread.reason)))
        return "rows are exchanged whole, in order, into one bucket" + (f": {reasons}" if reasons else "")
    keys = [
        " = ".join(f"{stream}.{to_spark_sql(key)}" for stream, key in zip(streams, together, strict=True))
        for together in zip(*fragment.exchanged_by, strict=True)
    ]
    return f"rows are exchanged whole, in order, by {', '.join(keys)} into {_many(partitions)}"


def _spread(fragment: Fragment, families: list[PlannedFamily], partitions: int | None) -> str:
    selected = _selected(families[0]) if len(families) == 1 else "rows"
    keys = ", ".join(to_spark_sql(key) for key in (families[0].shape.keys if len(families) == 1 else fragment.keys))
    folded = f"{selected} are folded per slice{f' and {keys}' if keys else ''} before the exchange"
    if len(families) > 1:
        folded += f", for {len(families)} families"
    return f"{folded}, partials merged in {_many(partitions) if fragment.keys else 'one bucket'}"


def _many(partitions: int | None) -> str:
    return f"{partitions} buckets" if partitions else "a bucket per shuffle partition"


def _seen(name: str, tables: Mapping[str, Mapping[str, Any]]) -> str:
    """The version of a table that results are computed from."""
    table = tables.get(name, {"version": 0})
    if not table["version"]:
        return f"table {name}: the version that each micro-batch finds when it begins"
    rows = f"{table['rows']} row{'' if table['rows'] == 1 else 's'}"
    seen = f"table {name}: version {table['version']}, {rows}, as of micro-batch {table['batch']}"
    return seen + (f"; a later one cannot be read: {table['problem']}" if table["problem"] else "")


def _selected(family: PlannedFamily) -> str:
    where = family.shape.where
    return "rows" if where is None else f"rows where {to_spark_sql(where)}"


def _kept(family: PlannedFamily) -> str:
    shape = family.shape
    order = f" by {', '.join(to_spark_sql(key) for key in shape.keys)}" if shape.keys else ""
    return order + (f", kept by {shape.technique}" if shape.technique else "")
