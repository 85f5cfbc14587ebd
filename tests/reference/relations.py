"""From rows, a window and a watermark to result rows, by recomputing every state from all rows.

A row is in a time window at instant t when `ts + offset <= t < ts + offset + range`. A periodic report at e shows the
state at e minus one microsecond and exists once the watermark has reached e; a continuous change at instant t exists
once the watermark is past t. Count windows see rows in the order of (event time, arrival) once the watermark is past
them.

Every function here yields results in time order, so a later watermark only ever appends.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from typing import Any

from tests.reference.cql import Select
from tests.reference.folds import EVENT_TIME, fold
from tests.reference.row_expressions import aggregates_of
from tests.reference.scalars import evaluate, identity_key
from tests.reference.tokens import EPOCH, MICROSECOND, NotCovered, RowsWindow, TimeWindow

Values = tuple[Any, ...]


@dataclass(frozen=True)
class Row:
    """One row of an input with its event time in microseconds."""

    ts: int
    values: dict[str, Any]


@dataclass(frozen=True)
class Relation:
    """What is known of an input: its columns, its rows in event-time order, and how far time has come in it."""

    columns: tuple[str, ...]
    rows: Sequence[Row]
    watermark: int | None


@dataclass(frozen=True)
class Result:
    """One result row: its event time, its window or change columns, and the selected values."""

    ts: int
    extra: dict[str, Any]
    values: dict[str, Any]

    def as_dict(self) -> dict[str, Any]:
        return {**self.extra, **self.values}


def moment(ts: int) -> datetime:
    return EPOCH + ts * MICROSECOND


def item_names(select: Select, columns: tuple[str, ...]) -> tuple[str, ...]:
    return columns if select.items is None else tuple(name for name, _ in select.items)


def aggregated(select: Select) -> bool:
    if select.group_by or select.having is not None:
        return True
    return select.items is not None and any(aggregates_of(item) for _, item in select.items)


def ungrouped(select: Select) -> bool:
    return aggregated(select) and not select.group_by


def emission(select: Select) -> str:
    """RSTREAM, ISTREAM, DSTREAM or CHANGES, where the statement does not say so by the window."""
    if select.emit is not None:
        if select.emit == "RSTREAM" and select.window.slide is None:
            raise NotCovered("a continuous RSTREAM")
        return select.emit
    if select.window.slide is not None:
        return "ISTREAM" if select.window.internal and not aggregated(select) else "RSTREAM"
    return "ISTREAM" if select.window.internal else "CHANGES"


def answer(select: Select, rows: Sequence[Row], columns: tuple[str, ...]) -> list[Values]:
    """The relation that the query computes from the rows of its window."""
    chosen = [row for row in rows if select.where is None or evaluate(select.where, row.values) is True]
    kept = [row.values | {EVENT_TIME: row.ts} for row in chosen]
    if not aggregated(select):
        if select.items is None:
            return [tuple(values[column] for column in columns) for values in kept]
        return [tuple(evaluate(item, values) for _, item in select.items) for values in kept]
    groups: dict[Any, list[dict[str, Any]]] = {}
    if not select.group_by:
        groups[()] = kept
    else:
        for values in kept:
            key = tuple(identity_key(evaluate(expression, values)) for expression in select.group_by)
            groups.setdefault(key, []).append(values)
    assert select.items is not None
    found = []
    for members in groups.values():
        # Items and HAVING read grouping columns from any member of the group: they agree on them.
        sample = members[0] if members else {}
        having = select.having or ("literal", True)

        def folded(call: Any, members: list[dict[str, Any]] = members) -> Any:
            return fold(call, members, select.window)

        if evaluate(having, sample, folded) is not True:
            continue
        found.append(tuple(evaluate(item, sample, folded) for _, item in select.items))
    return found


def difference(left: list[Values], right: list[Values]) -> list[Values]:
    """The multiset difference of left and right, in the order of left."""
    spare = Counter(key_of(values) for values in right)
    found = []
    for values in left:
        if spare[key_of(values)] > 0:
            spare[key_of(values)] -= 1
        else:
            found.append(values)
    return found


def key_of(values: Values) -> Values:
    return tuple(identity_key(value) for value in values)


def results(select: Select, relation: Relation) -> Iterator[Result]:
    """Every result that the watermark allows, in time order."""
    names = item_names(select, relation.columns)
    if relation.watermark is None:
        return
    if select.window.slide is None:
        yield from continuous_results(select, relation, names)
    elif isinstance(select.window, TimeWindow):
        yield from reported(select, periodic_states(select, relation), relation, names)
    else:
        if select.window.partition_by and emission(select) != "RSTREAM":
            raise NotCovered("ISTREAM and DSTREAM between reports of different partitions")
        yield from reported(select, counted_reports(select, relation), relation, names)


# Continuous queries


def time_state(window: TimeWindow, rows: Sequence[Row], t: int) -> list[Row]:
    """The rows in a time window at instant t; `rows` are in time order."""
    last = t - window.offset
    low = 0 if window.range is None else bisect_left(rows, last - window.range + 1, key=lambda row: row.ts)
    return list(rows[low : bisect_left(rows, last + 1, key=lambda row: row.ts)])


def count_state(window: RowsWindow, rows: Sequence[Row]) -> list[Row]:
    """The rows in a count window once exactly `rows` have entered."""
    if not window.partition_by:
        end = max(0, len(rows) - window.offset)
        return list(rows[max(0, end - window.rows) : end])
    partitions: dict[Any, list[int]] = {}
    for position, row in enumerate(rows):
        partitions.setdefault(partition_of(window, row), []).append(position)
    kept = []
    for positions in partitions.values():
        end = max(0, len(positions) - window.offset)
        kept += positions[max(0, end - window.rows) : end]
    return [rows[position] for position in sorted(kept)]


def partition_of(window: RowsWindow, row: Row) -> Values:
    return tuple(identity_key(evaluate(("column", column), row.values)) for column in window.partition_by)


def continuous_states(select: Select, relation: Relation) -> Iterator[tuple[int, list[Values]]]:
    """The relation after every change instant that the watermark has passed."""
    window, rows = select.window, relation.rows
    assert relation.watermark is not None
    if isinstance(window, TimeWindow):
        instants = {row.ts + window.offset for row in rows}
        if window.range is not None:
            instants |= {row.ts + window.offset + window.range for row in rows}
        for t in sorted(t for t in instants if t < relation.watermark):
            yield t, answer(select, time_state(window, rows, t), relation.columns)
    else:
        entered: list[Row] = []
        started = False
        for t, tied in groupby((row for row in rows if row.ts < relation.watermark), key=lambda row: row.ts):
            entered += tied
            state = count_state(window, entered)
            started = started or bool(state)
            if started:
                yield t, answer(select, state, relation.columns)


def continuous_results(select: Select, relation: Relation, names: tuple[str, ...]) -> Iterator[Result]:
    emit = emission(select)
    before: list[Values] = []
    for t, now in continuous_states(select, relation):
        gone, new = difference(before, now), difference(now, before)
        changes = [(-1, values) for values in gone] + [(1, values) for values in new]
        before = now
        for change, values in changes:
            if emit == "CHANGES":
                extra = {"instant": moment(t), "change": change}
            elif change == (1 if emit == "ISTREAM" else -1):
                extra = {"instant": moment(t)}
            else:
                continue
            yield Result(t, extra, dict(zip(names, values, strict=True)))


# Periodic queries


@dataclass(frozen=True)
class Report:
    """The window columns and the rows of one report; `since` and `until` bound the instants that RESTORE looks at."""

    start: int | None
    end: int
    rows: list[Row]
    since: int | None = None
    until: int | None = None


def next_report(window: TimeWindow, ts: int) -> int:
    """The first report after a row has entered: the smallest e with e - offset > ts."""
    assert window.slide is not None
    steps = -((window.align - (ts + window.offset + 1)) // window.slide)
    return window.align + steps * window.slide


def periodic_states(select: Select, relation: Relation) -> Iterator[Report]:
    """Every report up to the watermark from the first that holds a row (RESTORE: that follows a row) on."""
    window, rows = select.window, relation.rows
    assert isinstance(window, TimeWindow) and window.slide is not None and relation.watermark is not None
    firsts = [next_report(window, row.ts) for row in rows]
    if not select.restore:
        firsts = [e for e, row in zip(firsts, rows, strict=True) if row in time_state(window, rows, e - 1)]
    if not firsts:
        return
    first = e = min(firsts)
    while e <= relation.watermark:
        start = None if window.range is None else e - window.range - window.offset
        since = None if e == first else e - window.slide
        yield Report(start, e, time_state(window, rows, e - 1), since, e - 1)
        e += window.slide


def counted_reports(select: Select, relation: Relation) -> Iterator[Report]:
    """A report whenever the row number, of the stream or of the partition, is a multiple of the slide."""
    window = select.window
    assert isinstance(window, RowsWindow) and window.slide is not None and relation.watermark is not None
    entered: dict[Any, list[Row]] = {}
    for row in relation.rows:
        if row.ts >= relation.watermark:
            break
        own = entered.setdefault(partition_of(window, row), [])
        own.append(row)
        state = count_state(window, own)
        if len(own) % window.slide == 0 and state:
            yield Report(state[0].ts, state[-1].ts, state)


def reported(select: Select, reports: Iterator[Report], relation: Relation, names: tuple[str, ...]) -> Iterator[Result]:
    emit = emission(select)
    before: list[Values] = []
    started = False
    insertions = list(continual_insertions(select, relation)) if select.restore else []
    for report in reports:
        # An ungrouped query has no answer before the first window that holds a row.
        started = started or bool(report.rows)
        now = answer(select, report.rows, relation.columns) if started else []
        shown = {"RSTREAM": now, "ISTREAM": difference(now, before), "DSTREAM": difference(before, now)}[emit]
        if select.restore:
            assert report.until is not None
            produced = [
                values for t, values in insertions if (report.since is None or t >= report.since) and t <= report.until
            ]
            shown = shown + difference(produced, difference(now, before))
        before = now
        extra = {
            "window_start": None if report.start is None else moment(report.start),
            "window_end": moment(report.end),
        }
        for values in shown:
            yield Result(report.end, extra, dict(zip(names, values, strict=True)))


def continual_insertions(select: Select, relation: Relation) -> Iterator[tuple[int, Values]]:
    """What a continual evaluation of a periodic query would have produced, with the instant of each."""
    if not isinstance(select.window, TimeWindow):
        raise NotCovered("RESTORE over count windows")
    before: list[Values] = []
    for t, now in continuous_states(select, relation):
        for values in difference(now, before):
            yield t, values
        before = now


# Lookups


def state_at(select: Select, relation: Relation, t: int) -> list[dict[str, Any]]:
    """The relation at an instant, or nothing before the first row."""
    names = item_names(select, relation.columns)
    window = select.window
    if isinstance(window, TimeWindow):
        if not any(row.ts + window.offset <= t for row in relation.rows):
            return []
        state = time_state(window, relation.rows, t)
    else:
        state = count_state(window, [row for row in relation.rows if row.ts <= t])
        if not state:
            return []
    return [dict(zip(names, values, strict=True)) for values in answer(select, state, relation.columns)]


def report_at(select: Select, relation: Relation, t: int) -> list[dict[str, Any]]:
    """The last report at or before an instant."""
    names = item_names(select, relation.columns)
    last = None
    states = periodic_states if isinstance(select.window, TimeWindow) else counted_reports
    for report in states(select, relation):
        if report.end <= t:
            last = report
    if last is None:
        return []
    start = None if last.start is None else moment(last.start)
    return [
        {"window_start": start, "window_end": moment(last.end), **dict(zip(names, values, strict=True))}
        for values in answer(select, last.rows, relation.columns)
    ]
