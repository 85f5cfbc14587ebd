"""One-time queries: run once, over what is held now.

A query without a window reads another query's answer, or a table. A window over a stream is answered from the rows that
the stream retains (`retain`), or from an archive if it reaches further back. With SLIDE, it may be answered from the
slices of a registered query with the same selection and grouping. `answer_inputs` answers several inputs and DISTINCT.
What is read here does not change meanwhile: the caller is inside a turn, or has pinned it in one (`window_reads`).
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from panewise.arrays import INT64_MIN
from panewise.engine.archives.archive_history import minds_order
from panewise.engine.archives.past_rows import shown_rows
from panewise.engine.channels.channel import Channel
from panewise.engine.channels.window_ends import cadence_of
from panewise.engine.consumers.family_consumer import FamilyConsumer
from panewise.engine.reads.one_time_inputs import Sources, WindowRows, answer_inputs, check_answer_columns
from panewise.errors import NotHeldError
from panewise.operators.once.partial_relation import relation_in_parts
from panewise.operators.read_budget import ReadBudget
from panewise.operators.row_batch import Rows
from panewise.plan.aggregation import aggregation_of
from panewise.plan.blocks import Block
from panewise.plan.nodes import Emit, Scan
from panewise.plan.once import Once, OnceQuery
from panewise.state.group_table import GroupTable
from panewise.temporal import RowsWindow, TimeWindow, Window, duration_us, format_duration, format_instant


def answer_once(node: OnceQuery, sources: Sources, budget: ReadBudget) -> pa.Table:
    """The answer of a one-time query, read as its node says. A single archive is read elsewhere (`archive_reads`)."""
    if node.way is Once.INPUTS:
        return answer_inputs(node.plan, sources, budget)
    block = node.block
    assert block is not None
    source = block.source
    assert isinstance(source, Scan)
    match node.way:
        case Once.ANSWER:
            table = sources.answer_of(source.name)
            check_answer_columns(block, table.schema.names)
            rows = rows_of_answer(table)
        case Once.TABLE:
            rows = rows_of_answer(pa.Table.from_batches([sources.table_of(source.name).batch()]))
        case _:
            channel = sources.channel_of(source.name)
            assert block.window is not None
            rows = sources.rows_in(block.window, channel, last_report(block.window, channel.watermark))
    return relation_in_parts(block, rows, budget)


def last_report(window: Window, watermark: int) -> int:
    """The last instant up to the watermark at which a window reports the rows before it."""
    if isinstance(window, RowsWindow) or window.slide_us is None or watermark == INT64_MIN:
        return watermark
    return window.last_report(watermark)


def rows_of_answer(table: pa.Table) -> Rows:
    """An answer as rows for a one-time query, in the order of the answer. Their times are numbers."""
    batches = table.combine_chunks().to_batches()
    batch = batches[0] if batches else pa.RecordBatch.from_pylist([], table.schema)
    numbers = np.arange(batch.num_rows, dtype=np.int64)
    return Rows(batch, numbers, numbers)


def from_slices(block: Block, channel: Channel, families: Iterable[FamilyConsumer]) -> pa.Table | None:
    """The last report of an aggregate over a window with SLIDE, from a family that holds it; None if none does."""
    assert isinstance(block.window, TimeWindow)
    aggregation = aggregation_of(block)
    for consumer in families:
        family = consumer.family
        if consumer.channel is not channel or consumer.counts_rows or not _fits(consumer, block):
            continue
        if family.watermark != INT64_MIN and set(aggregation.states) <= set(family.states):
            batch = family.last_report_of(aggregation, cadence_of(block.window))
            if batch is not None:
                return pa.Table.from_batches([batch]).select(range(2, batch.num_columns))
    return None


def _fits(consumer: FamilyConsumer, block: Block) -> bool:
    assert block.aggregate is not None
    return consumer.family.where == block.where and consumer.family.keys == block.aggregate.keys


def rows_for(plan: Emit) -> WindowRows:
    """The function that finds the rows of a plan's windows."""
    return rows_in_order if minds_order(plan) else rows_in


def rows_in(window: Window, channel: Channel, until: int) -> Rows:
    """The rows that a window shows just before an instant, in order of time, from the stream or else from an archive.
    NotHeldError if only a part of them is held."""
    start, end = (None, until) if isinstance(window, RowsWindow) else stretch_of(window, until)
    if needs_archive(window, channel, until):
        archived = _archived_rows(window, channel, start, end)
        if archived is not None:
            return archived
    rows = channel.retained()
    rows = rows.take(np.lexsort((rows.arrivals, rows.times)))
    if isinstance(window, RowsWindow):
        return _last_rows(rows.take(rows.times < until), window, channel)
    require_held(channel, start, window)
    inside = rows.times < end
    return rows.take(inside if start is None else inside & (rows.times >= start))


def _archived_rows(window: Window, channel: Channel, start: int | None, end: int) -> Rows | None:
    if not isinstance(window, RowsWindow):
        return channel.history(INT64_MIN if start is None else start, end)
    known = shown_rows(window, channel, end)
    return None if known is None else known.rows


def needs_archive(window: Window, channel: Channel, until: int) -> bool:
    """Whether the window reaches further back than what the channel retains, and there is an archive of it."""
    start = None if isinstance(window, RowsWindow) else stretch_of(window, until)[0]
    return bool(channel.past) and not channel.retains(start)


def rows_in_order(window: Window, channel: Channel, until: int) -> Rows:
    """`rows_in` for an aggregate that depends on the order of rows with the same time, which archives do not know."""
    rows = rows_in(window, channel, until)
    if needs_archive(window, channel, until) and bool((rows.times[1:] == rows.times[:-1]).any()):
        raise NotHeldError(
            f"in {window} of '{channel.name}' rows have the same time, and an archive does not know which came first",
            hint=_retaining(channel, "1 day"),
        )
    return rows


def stretch_of(window: TimeWindow, until: int) -> tuple[int | None, int]:
    """The start and the end of what a window shows just before `until`; the start is None if it is endless."""
    end = until - window.offset_us
    return None if window.range_us is None else end - window.range_us, end


def require_held(channel: Channel, start: int | None, window: TimeWindow) -> None:
    """NotHeldError if a window begins before what the channel holds."""
    if channel.retains(start):
        return
    held = f"rows since {format_instant(channel.retained_from)}" if channel.retain_us else "no rows"
    raise NotHeldError(
        f"the window {window} reaches further back than what {_kind(channel)} '{channel.name}' holds ({held})",
        hint=_reaching(channel, window),
    )


def _reaching(channel: Channel, window: TimeWindow) -> str:
    """The hint for a window that begins before what is held. It never suggests less than what is retained now."""
    if channel.of_query or not channel.retain_us:
        return _retaining(channel, "1 day" if window.range_us is None else _text(window.range_us + window.offset_us))
    kept = _text(channel.retain_us)
    within = f"FROM {channel.name} [RANGE {kept.upper()}] reads what is held"
    if window.range_us is None or window.range_us + window.offset_us <= channel.retain_us:
        return f"{within} of the {kept} that are retained"
    return f"{within}; {_retaining(channel, _text(window.range_us + window.offset_us))}"


def _text(duration: int) -> str:
    return format_duration(duration).lower()


def _kind(channel: Channel) -> str:
    return "query" if channel.of_query else "stream"


def _retaining(channel: Channel, duration: str) -> str:
    """The hint that says how rows are kept for one-time queries."""
    if channel.of_query:
        return f"FROM {channel.name} without a window reads its answer; CREATE ARCHIVE keeps its results"
    if duration_us(duration) <= channel.retain_us:
        return f"a retain of more than the {_text(channel.retain_us)} of now keeps more rows from now on"
    return f"ALTER STREAM {channel.name} SET (retain = '{duration}') keeps rows from now on"


def _last_rows(rows: Rows, window: RowsWindow, channel: Channel) -> Rows:
    """The last rows of a window of rows, by partition if it has any. `rows` are all from an instant on."""
    enough = not window.partition_by and len(rows) >= window.rows + window.offset
    if not enough and not channel.retains(None):
        held = f"the last {len(rows)}" if channel.retain_us else "none"
        raise NotHeldError(
            f"the window {window} counts rows that {_kind(channel)} '{channel.name}' does not hold (it holds {held})",
            hint=_retaining(channel, "1 day"),
        )
    if not window.partition_by:
        stop = max(0, len(rows) - window.offset)
        return rows.slice(max(0, stop - window.rows), stop)
    columns = [rows.batch.column(name) for name in window.partition_by]
    types = tuple(channel.schema[name].type for name in window.partition_by)
    owners = GroupTable(types).ids(columns)
    order = np.argsort(owners, kind="stable")
    counts = np.bincount(owners, minlength=1)
    from_end = np.empty(len(rows), np.int64)
    ends = np.cumsum(counts)
    from_end[order] = np.repeat(ends, counts) - 1 - np.arange(len(rows))
    return rows.take((from_end >= window.offset) & (from_end < window.offset + window.rows))
