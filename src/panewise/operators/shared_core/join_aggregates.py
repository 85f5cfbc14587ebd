"""Many periodic aggregates over one join: queries share its results and groups, and have windows of their own.

The join runs once, with the longest windows of all queries. Here each query counts only the results in its own windows.
The *shape* of a query is by how much the window of each input is shorter than the query's longest. Queries of one shape
share one sequence of slices (`join_slices.py`), whatever their ranges, slides, alignments and aggregates. Each shape
folds the rows once; all shapes share rows, groups and strings. The generalised synopses of rule SS3 put a few shapes
into one structure and limit how much ranges may differ; this module has no such limit.

A report at e shows results with `birth < e <= death`, as in `relation_results.py`. With GROUP BY it has a row for each
group with results in the windows. Without, it has one row, at every e from the first that shows a row of an input. A
query that is added in mid-stream reports once all its windows lie in the time that it accounts for. Answers equal those
of the plan that runs alone (`GroupedRelation`) up to the order in which doubles are added, and do not depend on how
time is divided into steps. Golab 2006, section 8.3.2.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from panewise.aggregates.columns import wrapped
from panewise.aggregates.matrix import Encoded
from panewise.aggregates.overflows import Overflows
from panewise.aggregates.string_pool import StringPool
from panewise.arrays import Ints
from panewise.errors import NotHeldError, QueryFailed
from panewise.language.expressions import Expression
from panewise.operators.arguments import ArgumentPlan
from panewise.operators.continuous.row_states import chosen_states
from panewise.operators.lifetimes import NEVER
from panewise.operators.relation_delta import FOREVER
from panewise.operators.result_columns import microseconds, table_of, timestamps
from panewise.operators.shared_core.join_reports import JoinWindow
from panewise.operators.shared_core.join_slices import JoinSlices, Results, SliceAnswers
from panewise.optimize.sharing.selections.core_folds import can_be_folded
from panewise.plan.aggregation import Aggregation, Pools, StateKey
from panewise.plan.expressions.evaluate import compiled
from panewise.plan.expressions.written_names import written
from panewise.state.group_table import GroupTable
from panewise.temporal import format_instant

Shape = tuple[int, ...]
ROWS_MAX = 1 << 18  # about the most results that are folded at once
LAST_MAX = 4096  # most rows of earlier reports that are kept together with the last one
NO_STARTS: Mapping[str, int] = MappingProxyType({})
FORGET_FROM = 1024  # fewer groups or strings than this are never dropped


@dataclass
class _Reader:
    """A query: its shape and window, the number of its last report, and a table that ends with this report."""

    aggregation: Aggregation
    shape: Shape
    window: JoinWindow
    last: int | None
    table: pa.Table  # Its end is the last report with rows; earlier reports may stand before it.

    @property
    def last_report(self) -> pa.Table:
        if self.last is None:
            return self.table
        at = self.window.align + self.last * self.window.slide
        ends = [microseconds(chunk) for chunk in self.table.column(1).chunks]
        return self.table.slice(sum(int(np.searchsorted(part, at, side="left")) for part in ends))


class JoinAggregates:
    """Aggregates of queries by name; all have the grouping keys `keys`. `until`: how far the join has come."""

    name: ClassVar[str] = "JoinAggregates"  # in EXPLAIN
    said: ClassVar[Mapping[str, str]] = {}  # what EXPLAIN says of it besides its name

    def __init__(self, keys: tuple[Expression, ...], inputs: int, until: int = NEVER) -> None:
        self._keys = keys
        self._inputs = inputs
        self._key_columns = [compiled(key) for key in keys]
        self._groups = GroupTable(tuple(key.type for key in keys))
        self._pools: Pools = {}
        self._readers: dict[str, _Reader] = {}
        self._shapes: dict[Shape, JoinSlices] = {}
        # By shape and aggregation: its queries, each with the position of its window.
        self._selections: dict[Shape, dict[Aggregation, dict[str, int]]] = {}
        self._cut: dict[Shape, int] = {}  # shapes with changed windows, and from which point on the change holds
        self._plan = ArgumentPlan((), self._pools)
        self._any = False  # whether results have come
        self._until = until
        self._groups_kept = 0  # number of groups in use at the last check
        self._strings_kept: dict[Expression, int] = {}  # number of strings in use at the last check, by pool
        self.overflows: dict[str, int] = {}  # by query, number of overflows that were not taken yet
        self.failed: dict[str, QueryFailed] = {}  # queries that failed by an overflow under an earlier version

    @property
    def group_count(self) -> int:
        return len(self._groups)

    @property
    def bytes_held(self) -> int:
        reports = sum(reader.table.nbytes for reader in self._readers.values())
        strings = sum(pool.bytes_held for pool in self._pools.values())
        slices = sum(shape.bytes_held for shape in self._shapes.values())
        return int(self._groups.bytes_held + strings + slices + reports)

    # -- queries ---------------------------------------------------------------------------------------------------

    def add(
        self, name: str, aggregation: Aggregation, ranges: tuple[int, ...], slide: int, align: int, begins: int
    ) -> None:
        """Adds a query over windows of these ranges in microseconds that reports at every `align + k * slide`.

        `begins`: results before it are not all known (NEVER: they are). The windows of the first report begin there or
        later.
        """
        assert can_be_folded(aggregation) and aggregation.keys == self._keys and len(ranges) == self._inputs
        assert name not in self._readers
        self.failed.pop(name, None)
        if self._any:
            begins = max(begins, self._until)  # earlier slices were not cut for its window
        longest = max(ranges)
        shape = tuple(longest - range_ for range_ in ranges)
        window = JoinWindow(longest, slide, align, begins if begins == NEVER else begins + longest)
        self._readers[name] = _Reader(aggregation, shape, window, None, aggregation.timed_schema.empty_table())
        if shape not in self._shapes:
            self._shapes[shape] = JoinSlices(shape, bool(self._keys), self._pools)
        self._cut[shape] = min(self._cut.get(shape, FOREVER), begins)

    def remove(self, name: str) -> None:
        shape = self._readers.pop(name).shape
        self._cut[shape] = min(self._cut.get(shape, FOREVER), self._until)

    def _arrange(self) -> None:
        """Applies all changes of queries together, before the next rows."""
        for shape, point in self._cut.items():
            windows: dict[JoinWindow, set[StateKey]] = {}
            for reader in self._readers.values():
                if reader.shape == shape:
                    windows.setdefault(reader.window, set()).update(reader.aggregation.states)
            self._selections.pop(shape, None)
            if not windows:
                del self._shapes[shape]
                continue
            self._shapes[shape].arrange(windows, point)
            positions = {window: i for i, window in enumerate(self._shapes[shape].windows)}
            selections = self._selections[shape] = {}
            for name, reader in self._readers.items():
                if reader.shape == shape:
                    selections.setdefault(reader.aggregation, {})[name] = positions[reader.window]
        if self._cut:
            states = dict.fromkeys(key for slices in self._shapes.values() for key in slices.matrices)
            for argument in set(self._pools) - {argument for key in states for _, argument in key.code_fields}:
                del self._pools[argument]
            self._plan = ArgumentPlan(tuple(states), self._pools)
        self._cut = {}

    # -- a step ----------------------------------------------------------------------------------------------------

    def process(
        self,
        batch: pa.RecordBatch,
        births: Ints,
        times: list[Ints],
        until: int,
        series_starts: Mapping[str, int] = NO_STARTS,
    ) -> dict[str, pa.Table]:
        """Takes the results born before `until`, in order of birth. Returns all reports up to `until`, by query.

        `times`: by input, the event times of the rows in the results. `series_starts`: by query without GROUP BY, when
        its series begins.
        """
        self._arrange()
        self._any = self._any or batch.num_rows > 0
        if not self._shapes:
            self._until = max(until, self._until)
            return {}
        found: dict[str, list[pa.Table]] = {}
        groups = np.zeros(batch.num_rows, np.int64)
        if len(groups) and self._keys:
            groups = self._groups.ids([column(batch) for column in self._key_columns])
        arguments = self._plan.read(batch)
        new = {
            shape: Results(births, slices.points(times), groups, _read(arguments, slices))
            for shape, slices in self._shapes.items()
        }
        starts = {shape: self._starts_of(shape, series_starts) for shape in self._shapes}
        for begin, end, upto in self._pieces(births, max(until, self._until)):
            for shape, slices in self._shapes.items():
                part = new[shape].slice(begin, end)
                for answers in slices.step(part, len(self._groups), self._until, upto, starts[shape]):
                    for name, table in self._tables(shape, answers):
                        found.setdefault(name, []).append(table)
            self._until = upto
        self._forget()
        for name in self.failed.keys() & self._readers.keys():
            self.remove(name)
        result = {name: pa.concat_tables(parts) for name, parts in found.items()}
        self._note_last(result)
        return result

    def _starts_of(self, shape: Shape, starts: Mapping[str, int]) -> Ints:
        """When the series of each window of a shape begins."""
        by_window = {r.window: starts.get(name, FOREVER) for name, r in self._readers.items() if r.shape == shape}
        return np.array([by_window[window] for window in self._shapes[shape].windows], np.int64)

    def _pieces(self, births: Ints, until: int) -> Iterator[tuple[int, int, int]]:
        """Divides the rows into parts of about `ROWS_MAX`, between instants: begin, end, and up to when each goes."""
        firsts = births[ROWS_MAX::ROWS_MAX]
        begin = 0
        for cut in np.unique(np.searchsorted(births, firsts, side="left")).tolist():
            if cut:
                yield begin, cut, int(births[cut])
                begin = cut
        yield begin, len(births), until

    def _tables(self, shape: Shape, answers: SliceAnswers) -> Iterator[tuple[str, pa.Table]]:
        """The reports of each query; queries that select the same are answered together."""
        windows = self._shapes[shape].windows
        for aggregation, readers in self._selections[shape].items():
            with Overflows() as together:
                tables = self._selected(aggregation, readers, windows, answers)
            yield from tables
            for name, position in readers.items() if together.count else ():
                with Overflows(apart=True) as found:
                    self._selected(aggregation, {name: position}, windows, answers)
                self.overflows[name] = self.overflows.get(name, 0) + found.count

    def _selected(
        self, aggregation: Aggregation, readers: dict[str, int], windows: tuple[JoinWindow, ...], answers: SliceAnswers
    ) -> list[tuple[str, pa.Table]]:
        wanted = np.zeros(len(windows), np.bool_)
        wanted[list(readers.values())] = True
        of, ends, groups, states = answers.windows, answers.ends, answers.groups, answers.states
        if not wanted.all():
            chosen = np.flatnonzero(wanted[of])
            of, ends, groups = of[chosen], ends[chosen], groups[chosen]
            states = chosen_states({key: states[key] for key in aggregation.states}, chosen)
        if not len(of):
            return []
        fields = {key: states[key].fields() for key in aggregation.states}
        batch = aggregation.answer_batch(self._groups.keys(groups), fields, self._pools)
        passing = aggregation.passing(batch)
        if passing is not None and not passing.all():
            batch, of, ends = batch.filter(wrapped(passing)), of[passing], ends[passing]
        starts = ends - np.array([window.range for window in windows], np.int64)[of]
        columns = [timestamps(starts), timestamps(ends), *aggregation.selected(batch)]
        table = table_of(columns, aggregation.timed_schema)
        bounds = np.searchsorted(of, np.arange(len(windows) + 1)).tolist()
        parts = ((name, bounds[i], bounds[i + 1] - bounds[i]) for name, i in readers.items())
        return [(name, table.slice(begin, count)) for name, begin, count in parts if count]

    def _note_last(self, found: dict[str, pa.Table]) -> None:
        """Keeps each query's last report. If the step's reports have few rows, they are kept uncut."""
        for name, reader in self._readers.items():
            number = self._number(reader)
            if number != reader.last:
                reader.last = number
                reader.table = found.get(name, reader.table)
                if reader.table.num_rows > LAST_MAX:
                    reader.table = reader.last_report

    def _number(self, reader: _Reader) -> int:
        """The number of the last report that is due."""
        return (self._until - reader.window.align) // reader.window.slide

    def lookup(self, name: str, at: int) -> pa.Table:
        """The last report at or before `at`. NotHeldError if it is not the query's last one."""
        reader = self._readers[name]
        last = self._number(reader) if reader.last is None else reader.last  # None: added after the last step
        if (at - reader.window.align) // reader.window.slide != last:
            raise NotHeldError(f"the state at {format_instant(at)} is not held", hint="only the last report is kept")
        return reader.last_report

    # -- what is held ----------------------------------------------------------------------------------------------

    def _forget(self) -> None:
        """Drops groups and strings that no slice uses. Checks whenever their number has doubled."""
        count = len(self._groups)
        if self._keys and count >= max(FORGET_FROM, 2 * self._groups_kept):
            live = [slices.live_groups() for slices in self._shapes.values()]
            kept = np.unique(np.concatenate(live)) if live else np.empty(0, np.int64)
            self._groups_kept = len(kept)
            if 2 * len(kept) < count:
                renamed = self._groups.keep(kept)
                for slices in self._shapes.values():
                    slices.regroup(kept, renamed)
        for argument, pool in self._pools.items():
            if len(pool) >= max(FORGET_FROM, 2 * self._strings_kept.get(argument, 0)):
                self._strings_kept[argument] = self._forget_strings(argument, pool)

    def _forget_strings(self, argument: Expression, pool: StringPool) -> int:
        """Drops the unused strings of a pool if they are more than half. Returns how many are in use."""
        places = [
            matrix.ints[place]
            for slices in self._shapes.values()
            for key, matrix in slices.matrices.items()
            for place, found in key.code_fields
            if found == argument
        ]
        codes = np.unique(np.concatenate(places)) if places else np.empty(0, np.int64)
        codes = codes[codes >= 0]
        if 2 * len(codes) < len(pool):
            # -1 means no string. An empty state may also have code 0, which then counts as used and stays 0.
            renamed = np.append(pool.keep(codes), -1)
            for fields in places:
                fields[:] = renamed[fields]
        return len(codes)

    def snapshot(self) -> dict[str, Any]:
        self._arrange()
        return {
            "groups": self._groups.snapshot(),
            "strings": {
                written(argument): pa.record_batch({"s": pool.all_strings()}) for argument, pool in self._pools.items()
            },
            "readers": {
                name: {"first": reader.window.first, "last": reader.last, "table": reader.last_report}
                for name, reader in self._readers.items()
            },
            "shapes": [{"shape": list(shape), "slices": slices.snapshot()} for shape, slices in self._shapes.items()],
            "failed": {name: problem.message for name, problem in self.failed.items()},
            "any": self._any,
            "until": self._until,
        }

    def restore(self, snapshot: dict[str, Any]) -> None:
        """All queries of the snapshot must have been added already."""
        self.failed = {name: QueryFailed(message) for name, message in snapshot["failed"].items()}
        for name in self.failed:
            self._readers.pop(name, None)
        for name, saved in snapshot["readers"].items():
            reader = self._readers[name]
            window = reader.window
            reader.window = JoinWindow(window.range, window.slide, window.align, saved["first"])
            reader.last, reader.table = saved["last"], saved["table"]
        self._arrange()
        self._groups.restore(snapshot["groups"])
        states = [key for slices in self._shapes.values() for key in slices.matrices]
        by_name = {written(argument): argument for key in states for _, argument in key.code_fields}
        for text, strings in snapshot["strings"].items():
            self._pools.setdefault(by_name[text], StringPool()).load(strings.column(0))
        for saved in snapshot["shapes"]:
            self._shapes[tuple(saved["shape"])].restore(saved["slices"])
        self._any, self._until = snapshot["any"], snapshot["until"]


def _read(arguments: Any, slices: JoinSlices) -> dict[StateKey, list[Encoded]]:
    return {key: arguments.of(key) for key in slices.matrices}
