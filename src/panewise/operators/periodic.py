"""The tree: periodic aggregates that share one sequence of slices.

Queries over one stream with the same selection and grouping, whatever their windows, are members of one tree. A row is
filtered, grouped, sliced and folded once, for all of them; each distinct state is kept once. When the watermark passes
the end of a slice its partials enter the synopses, and all reports that have come due are answered together.

    rows -> WHERE -> group ids -> slots -> fold    | once for all members
    closed slices -> synopses -> answers           | one call for all due windows
    answers -> lower -> HAVING -> items            | per member

The axis is integers: event times in microseconds, or row numbers for windows of rows. Rows come in any order as long as
none falls into a slice that the watermark has closed. A tree with few groups keeps dense slices; past `DENSE_GROUPS` it
moves to sparse ones for good.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from panewise.aggregates.matrix import Encoded
from panewise.aggregates.string_pool import StringPool
from panewise.errors import NotHeldError, QueryFailed
from panewise.language.expressions import Expression
from panewise.operators.aggregation import ROW_COUNT, Aggregation, Pools, StateKey, encoded_arguments
from panewise.operators.dense_slices import Arguments, DenseSlices
from panewise.operators.due_reports import EmptyReports, due_reports
from panewise.operators.rows import Rows
from panewise.operators.sparse_slices import SparseSlices
from panewise.plan.evaluate import compiled
from panewise.slicing.pairs import Cadence
from panewise.state.group_table import GroupTable

Ints = NDArray[np.int64]
Piece: TypeAlias = pa.RecordBatch | EmptyReports

DENSE_GROUPS = 4096
ANSWERS_AT_ONCE = 1 << 21  # groups times windows: bounds the memory of one call
GAP_MATERIALISED = 1024  # longer runs of empty reports stay ranges
INT64_MIN = -(2**63)


@dataclass
class Member:
    """A query in a tree. Reports up to `reported` are out; windows that begin before `held_from` are not whole."""

    aggregation: Aggregation
    cadence: Cadence
    reported: int
    held_from: int | None = None
    begun: bool = False  # an ungrouped query reports every window from the first one with a row on
    suspended: bool = False
    passing: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, np.bool_))
    touched: list[Ints] = field(default_factory=list)


class PeriodicTree:
    """Members, one store of slices, one table of groups. `held_from`: rows before it were not all seen (None: all were)."""

    def __init__(self, keys: tuple[Expression, ...], where: Expression | None, held_from: int | None = None) -> None:
        self.keys = keys
        self.where = where
        self.members: dict[str, Member] = {}
        self.failures: dict[str, str] = {}  # members that met data they cannot answer for, for the host to remove
        self.state_held_from: dict[StateKey, int | None] = {}
        self.pools: Pools = {}
        self.table = GroupTable(tuple(key.type for key in keys))
        self.store: DenseSlices | SparseSlices = DenseSlices(16 if keys else 1, self.pools)
        self.watermark = INT64_MIN
        self.greatest = INT64_MIN  # the greatest point seen
        self._held_from = held_from
        self._repeated_keys: tuple[tuple[int, int, int], list[pa.Array]] | None = None
        self._where = compiled(where) if where is not None else None
        self._keys = [compiled(key) for key in keys]

    def hold_from(self, point: int | None) -> None:
        """Rows before the point were not seen (None: all were); before any member is there."""
        assert not self.members
        self._held_from = point

    # -- members -------------------------------------------------------------------------------------------------

    def add(self, name: str, aggregation: Aggregation, cadence: Cadence) -> None:
        """A query joins: with history where the slices held answer it exactly, else from its first whole window on."""
        assert aggregation.keys == self.keys
        held_from = self._held_from
        for key in aggregation.states:
            if key not in self.state_held_from:
                # Nobody kept this state so far: it is whole from the next point that no row has reached.
                seen = self._held_from if self.greatest == INT64_MIN else self.greatest + 1
                self.state_held_from[key] = seen
                self.store.add_state(key)
            since = self.state_held_from[key]
            if since is not None:
                held_from = since if held_from is None else max(held_from, since)
        self.members[name] = Member(aggregation, cadence, INT64_MIN, held_from)
        self._recut()
        if self.watermark != INT64_MIN:
            self.members[name].reported = self._first_answerable(self.members[name]) - cadence.slide

    def _first_answerable(self, member: Member) -> int:
        """The first report whose window is whole and straddles no slice: the last one due, if the slices held answer it."""
        cadence, since = member.cadence, member.held_from
        report = cadence.next_report(self.watermark)
        if cadence.range is None:
            return report
        reach = cadence.range + cadence.offset
        candidates = [report - cadence.slide]
        if since is not None:
            report = max(report, cadence.next_report(since + reach - 1))
        # Past the newest cut every window of a member begins and ends at an edge.
        certain = max(report, cadence.next_report(self._cut + reach - 1))
        candidates.extend(range(report, min(certain, report + 1000 * cadence.slide), cadence.slide))
        return next((e for e in candidates if self._whole(cadence, e, since)), certain)

    def _whole(self, cadence: Cadence, report: int, since: int | None) -> bool:
        start = cadence.start(report)
        if start is None:
            return True
        if since is not None and start < since:
            return False
        if self._evicted_to is not None and start < self._evicted_to:
            return False
        starts = np.concatenate([self.store.starts, self.store.open.starts])
        ends = np.concatenate([self.store.ends, self.store.open.ends])
        for edge in (start, report - cadence.offset):
            if ((starts < edge) & (edge < ends)).any():
                return False
        return not (start < self._cut and self._misses_edges(start, report - cadence.offset))

    def _misses_edges(self, start: int, end: int) -> bool:
        """Whether rows yet to come before the newest cut could fall into a slice that straddles an end of the window."""
        from panewise.slicing.open_slices import _bounds

        held = self.store.open
        for edge in (start, end):
            if self.watermark < edge < self._cut:
                low, _ = _bounds(edge, held._epochs, held._firsts, held._slides, held._phases)
                if low != edge:
                    return True
        return False

    _cut: int = INT64_MIN
    _evicted_to: int | None = None

    def _recut(self) -> None:
        """Edges of the members from the first point on that no row has reached."""
        open_ends = self.store.open.ends
        reached = INT64_MIN if self.greatest == INT64_MIN else self.greatest + 1
        if len(open_ends):
            reached = max(reached, int(open_ends.max()))
        reached = max(reached, self.watermark)
        self._cut = reached
        self.store.cut_from(reached, [member.cadence for member in self.members.values()])

    def remove(self, name: str) -> None:
        del self.members[name]
        wanted = {key for member in self.members.values() for key in member.aggregation.states}
        for key in [key for key in self.state_held_from if key not in wanted]:
            del self.state_held_from[key]
            self.store.drop_state(key)
        if self.members:
            self._recut()

    # -- rows ----------------------------------------------------------------------------------------------------

    def process(self, rows: Rows, points: Ints, watermark: int) -> dict[str, list[Piece]]:
        """Takes rows in, moves the watermark, and returns what has come due per member, in order of time.

        A piece is a batch (window_start, window_end as points, then the items) or a range of empty reports.
        """
        if len(rows):
            self.greatest = max(self.greatest, rows.latest if points is rows.times else int(points[-1]))
            self._fold(rows, points)
        if watermark <= self.watermark:
            return {}
        self.store.close(watermark)
        self.watermark = watermark
        pieces = self._dense_reports() if isinstance(self.store, DenseSlices) else self._sparse_reports()
        self._evict()
        return pieces

    def _fold(self, rows: Rows, points: Ints) -> None:
        batch, times, arrivals = rows.batch, rows.times, rows.arrivals
        if self._where is not None:
            kept = self._where(batch)
            chosen = np.flatnonzero(kept.fill_null(False).to_numpy(zero_copy_only=False))
            if len(chosen) < len(rows):
                if not len(chosen):
                    return
                batch = batch.take(pa.array(chosen))
                times, arrivals, points = times[chosen], arrivals[chosen], points[chosen]
        arguments = encoded_arguments(tuple(self.state_held_from), batch, self.pools)
        done = 0
        groups = np.empty(0, np.int64)
        if self.keys:
            words, nulls = self.table.words([key(batch) for key in self._keys])
            done = self._fold_known(words, nulls, points, arguments, times, arrivals)
            if done == len(points):
                return
            groups = self.table.ids_of(words[:, done:], nulls[done:])
            self._make_room()
        slots = self.store.assign(points[done:], groups)
        self._fold_slots(slots, _rest(arguments, done), times[done:], arrivals[done:])

    def _fold_known(
        self, words: Ints, nulls: Ints, points: Ints, arguments: Arguments, times: Ints, arrivals: Ints
    ) -> int:
        """The short way: rows up to the first one with a new key find their group by one load. How many there were."""
        direct = self.table.direct(words, nulls)
        if direct is None or not isinstance(self.store, DenseSlices):
            return 0
        slots = self.store.open.assign_known(points, words[0], *direct)
        if len(slots):
            self._fold_slots(slots, arguments, times, arrivals)
        return len(slots)

    def _fold_slots(self, slots: Ints, arguments: Arguments, times: Ints, arrivals: Ints) -> None:
        for key, problem in self.store.fold(slots, arguments, times, arrivals):
            for name, member in self.members.items():
                if key in member.aggregation.states:
                    self.failures[name] = f"an aggregate raised {type(problem).__name__}: {problem}"

    def _make_room(self) -> None:
        needed = len(self.table)
        if isinstance(self.store, DenseSlices):
            if needed > DENSE_GROUPS:
                cadences = [member.cadence for member in self.members.values()]
                self.store = SparseSlices.of_dense(self.store, 2 * needed, cadences)
                for member in self.members.values():
                    member.touched = [held.groups for held in self.store.slices]
            elif needed > self.store.width:
                roomy = max(needed, self.store.width + self.store.width // 2)
                self.store.widen(min(DENSE_GROUPS, -(-roomy // 16) * 16))
        elif needed > self.store.groups:
            self.store.widen(2 * needed)

    def late_joiners(self) -> dict[str, list[Piece]]:
        """Reports that are due already to members that joined with history."""
        return self._dense_reports() if isinstance(self.store, DenseSlices) else self._sparse_reports()

    def report_at(self, name: str, report: int) -> pa.RecordBatch | None:
        """A report of the past, where the slices held still answer it."""
        member = self.members[name]
        if not isinstance(self.store, DenseSlices) or member.cadence.range is None:
            raise NotHeldError(f"only the last report of '{name}' is held")
        if not self._whole(member.cadence, report, member.held_from):
            raise NotHeldError(f"the report of '{name}' at point {report} is no longer held")
        found = self._answered([(name, np.array([report], np.int64))])
        if name in self.failures:
            raise QueryFailed(self.failures.pop(name))
        return found[0][1] if found else None

    def asked(self, aggregation: Aggregation, cadence: Cadence) -> pa.RecordBatch | None:
        """The last report of a window that is no member's, where the slices held answer it exactly; else None."""
        report = cadence.next_report(self.watermark) - cadence.slide
        if not isinstance(self.store, DenseSlices) or cadence.range is None:
            return None
        since = [point for key in aggregation.states if (point := self.state_held_from[key]) is not None]
        held_from = max(since, default=self._held_from if self._held_from is not None else INT64_MIN)
        if not self._whole(cadence, report, None if held_from == INT64_MIN else held_from):
            return None
        self.members[""] = Member(aggregation, cadence, report)
        try:
            found = self._answered([("", np.array([report], np.int64))])
        finally:
            member = self.members.pop("")
        if "" in self.failures:
            raise QueryFailed(self.failures.pop(""))
        return found[0][1] if found else self._stamped_nothing(member)

    def _stamped_nothing(self, member: Member) -> pa.RecordBatch:
        nothing = [pa.array([], field.type) for field in member.aggregation.item_schema]
        return self._stamped(member, np.empty(0, np.int64), nothing)

    # -- reports -------------------------------------------------------------------------------------------------

    def _due(self, member: Member) -> Ints:
        """The reports of non-empty, whole windows that the watermark has reached since the last time."""
        due = due_reports(member.cadence, self.store.starts, self.store.ends, member.reported, self.watermark)
        if member.held_from is not None and member.cadence.range is not None and len(due):
            due = due[due - member.cadence.range - member.cadence.offset >= member.held_from]
        return due

    def _dense_reports(self) -> dict[str, list[Piece]]:
        assert isinstance(self.store, DenseSlices)
        requests: list[tuple[str, Ints]] = []
        pieces: dict[str, list[Piece]] = {}
        for name, member in self.members.items():
            due = self._due(member)
            if not self.keys:
                due, gaps = self._with_gaps(member, due)
                if gaps:
                    pieces[name] = list(gaps)
            if len(due) and not member.suspended:
                requests.append((name, due))
        self._finish(requests, pieces)
        return pieces

    def _finish(self, requests: list[tuple[str, Ints]], pieces: dict[str, list[Piece]]) -> None:
        """Answers the requests in chunks of bounded size and moves every member's mark to the watermark."""
        limit = max(1, ANSWERS_AT_ONCE // self.store.width)  # type: ignore[union-attr]
        longest = max((len(due) for _, due in requests), default=0)
        step = max(1, limit // max(1, len(requests)))
        for begin in range(0, longest, step):
            chunk = [(name, due[begin : begin + step]) for name, due in requests if begin < len(due)]
            for name, batch in self._answered(chunk):
                pieces.setdefault(name, []).append(batch)
        for name, member in self.members.items():
            member.reported = max(member.reported, self.watermark)
            if name in pieces and len(pieces[name]) > 1:
                pieces[name].sort(key=_first_end)

    def _with_gaps(self, member: Member, due: Ints) -> tuple[Ints, list[EmptyReports]]:
        """The reports of an ungrouped query: those of empty windows between and after, long runs as ranges."""
        cadence, slide = member.cadence, member.cadence.slide
        if not member.begun:
            if not len(due):
                return due, []
            member.begun = True
            first = int(due[0])
        else:
            first = cadence.next_report(member.reported)
        last = self.watermark - (self.watermark - cadence.align) % slide
        if last < first:
            return due, []
        known = np.concatenate([[first - slide], due, [last + slide]])
        missing = (np.diff(known) // slide) - 1
        filled, gaps = [due], []
        for i in np.flatnonzero(missing > 0):
            begin, count = int(known[i]) + slide, int(missing[i])
            if count <= GAP_MATERIALISED:
                filled.append(begin + slide * np.arange(count, dtype=np.int64))
            else:
                gaps.append(EmptyReports(begin, count, slide))
        return np.sort(np.concatenate(filled)), [] if member.suspended else gaps

    def _answered(self, requests: list[tuple[str, Ints]]) -> list[tuple[str, pa.RecordBatch]]:
        store = self.store
        assert isinstance(store, DenseSlices)
        starts, ends, sizes = [], [], []
        for name, due in requests:
            cadence = self.members[name].cadence
            last = due - cadence.offset
            ends.append(store.first + np.searchsorted(store.starts, last, side="left"))
            if cadence.range is None:
                starts.append(np.full(len(due), -1, np.int64))
            else:
                starts.append(store.first + np.searchsorted(store.starts, last - cadence.range, side="left"))
            sizes.append(len(due))
        all_starts, all_ends = np.concatenate(starts), np.concatenate(ends)
        keys = list(dict.fromkeys(k for name, _ in requests for k in self.members[name].aggregation.states))
        if len(requests) == 1:
            places = np.arange(len(all_starts))
            answers = store.answers(keys, all_starts, all_ends, len(self.table))
        else:
            # Equal windows are answered once; those that end together build on each other, shortest first.
            windows, places = np.unique(np.stack([all_ends, -all_starts], axis=1), axis=0, return_inverse=True)
            places = places.reshape(-1)
            starts_, ends_ = np.ascontiguousarray(-windows[:, 1]), np.ascontiguousarray(windows[:, 0])
            answers = store.answers(keys, starts_, ends_, len(self.table))
        result, begin = [], 0
        for (name, due), size in zip(requests, sizes, strict=True):
            chosen = places[begin : begin + size]
            begin += size
            try:
                batch = self._member_batch(self.members[name], due, chosen, answers, whole=len(requests) == 1)
            except QueryFailed as problem:
                self.failures[name] = problem.message
                continue
            if batch is not None:
                result.append((name, batch))
        return result

    def _member_batch(
        self, member: Member, due: Ints, chosen: Ints, answers: dict[StateKey, Any], whole: bool
    ) -> pa.RecordBatch | None:
        """The rows of a member's reports, from the answers at the chosen places."""
        count = len(self.table)
        rows = answers[ROW_COUNT][0][0]
        everything = not self.keys or bool((rows if whole else rows[chosen]).all())
        flat = None if everything else np.flatnonzero((rows if whole else rows[chosen]).reshape(-1))
        if flat is not None and not len(flat):
            return None
        fields = {}
        for key in member.aggregation.states:
            ints, floats = answers[key]
            picked = [(part if whole else part[chosen]).reshape(-1) for part in (*ints, *floats)]
            fields[key] = picked if flat is None else [part[flat] for part in picked]
        if flat is not None:
            return self._result(member, due[flat // count], self._keys_of(flat % count), fields)
        return self._result(member, np.repeat(due, count), self._all_keys(len(due)), fields)

    def _keys_of(self, ids: Ints) -> list[pa.Array]:
        return self.table.keys(ids) if self.keys else []

    def _all_keys(self, times: int) -> list[pa.Array]:
        """The key columns of all groups, so many times; the same for report after report, so they are kept."""
        shape = times, len(self.table), self.table.version
        if self._repeated_keys is None or self._repeated_keys[0] != shape:
            ids = np.tile(np.arange(len(self.table), dtype=np.int64), times)
            self._repeated_keys = shape, self._keys_of(ids)
        return self._repeated_keys[1]

    def _result(
        self, member: Member, ends: Ints, keys: list[pa.Array], fields: dict[StateKey, list[NDArray[Any]]]
    ) -> pa.RecordBatch | None:
        aggregation = member.aggregation
        answers = aggregation.answer_batch(keys, fields, self.pools)
        passing = aggregation.passing(answers)
        if passing is not None and not passing.all():
            if not passing.any():
                return None
            kept = np.flatnonzero(passing)
            answers, ends = answers.take(pa.array(kept)), ends[kept]
        return self._stamped(member, ends, aggregation.selected(answers))

    def _stamped(self, member: Member, ends: Ints, columns: list[pa.Array]) -> pa.RecordBatch:
        cadence = member.cadence
        last = ends - cadence.offset
        starts = pa.array(last - cadence.range) if cadence.range is not None else pa.nulls(len(ends), pa.int64())
        return pa.RecordBatch.from_arrays([starts, pa.array(ends), *columns], schema=member.aggregation.report_schema)

    def empty_batch(self, member: Member, ends: Ints) -> pa.RecordBatch | None:
        """What an ungrouped query says of empty windows, at these reports."""
        from panewise.aggregates.user import matrix_of

        fields = {key: matrix_of(key.kind, len(ends)).fields() for key in member.aggregation.states}
        return self._result(member, ends, [], fields)

    def _sparse_reports(self) -> dict[str, list[Piece]]:
        assert isinstance(self.store, SparseSlices)
        due = [(int(e), name) for name, member in self.members.items() for e in self._due(member)]
        pieces: dict[str, list[Piece]] = {}
        marks: dict[tuple[int | None, int], int] = {}
        for report, name in sorted(due):
            member = self.members[name]
            cadence = member.cadence
            span = cadence.range, cadence.offset
            marks[span] = report
            self._move(span, report)
            try:
                batch = self._sparse_batch(member, report)
            except QueryFailed as problem:
                self.failures[name] = problem.message
                continue
            if batch is not None and not member.suspended:
                pieces.setdefault(name, []).append(batch)
        for member in self.members.values():
            member.reported = max(member.reported, self.watermark)
            # Windows without rows report nothing, but what has left must leave the cursor too.
            cadence = member.cadence
            last = self.watermark - (self.watermark - cadence.align) % cadence.slide
            if last > marks.get((cadence.range, cadence.offset), INT64_MIN):
                marks[cadence.range, cadence.offset] = last
                self._move((cadence.range, cadence.offset), last)
        return pieces

    def _move(self, span: tuple[int | None, int], report: int) -> None:
        assert isinstance(self.store, SparseSlices)
        end = report - span[1]
        touched = self.store.move(span, None if span[0] is None else end - span[0], end)
        for member in self.members.values():
            if (member.cadence.range, member.cadence.offset) == span:
                member.touched.extend(touched)

    def _sparse_batch(self, member: Member, report: int) -> pa.RecordBatch | None:
        """Judges the touched groups anew, then reports all groups that pass."""
        assert isinstance(self.store, SparseSlices)
        span = member.cadence.range, member.cadence.offset
        keys = list(member.aggregation.states)
        if len(member.passing) < self.store.groups:
            member.passing = np.append(member.passing, np.zeros(self.store.groups - len(member.passing), np.bool_))
        if member.touched:
            groups = np.unique(np.concatenate(member.touched))
            member.touched = []
            member.passing[groups] = self._judge(member, span, keys, groups)
        ids = np.flatnonzero(member.passing)
        if not len(ids):
            return None
        fields = self.store.states_of(span, keys, ids)
        answers = member.aggregation.answer_batch(self.table.keys(ids), fields, self.pools)
        ends = np.full(len(ids), report, np.int64)
        return self._stamped(member, ends, member.aggregation.selected(answers))

    def _judge(
        self, member: Member, span: tuple[int | None, int], keys: list[StateKey], groups: Ints
    ) -> NDArray[np.bool_]:
        assert isinstance(self.store, SparseSlices)
        fields = self.store.states_of(span, keys, groups)
        present: NDArray[np.bool_] = fields[ROW_COUNT][0] > 0
        if member.aggregation.having is None or not present.any():
            return present
        there = np.flatnonzero(present)
        some = {key: [part[there] for part in parts] for key, parts in fields.items()}
        answers = member.aggregation.answer_batch(self.table.keys(groups[there]), some, self.pools)
        passing = member.aggregation.passing(answers)
        assert passing is not None
        present[there] = passing
        return present

    # -- forgetting ----------------------------------------------------------------------------------------------

    def _evict(self) -> None:
        """Drops the slices that no member's next report needs."""
        if not len(self.store.starts):
            return
        needed = self.store.after
        held_to = None
        for member in self.members.values():
            following = member.cadence.next_report(max(self.watermark, member.reported))
            start = member.cadence.start(following)
            if start is None:
                number = int(np.searchsorted(self.store.ends, following - member.cadence.offset, side="right"))
            else:
                number = int(np.searchsorted(self.store.starts, start, side="left"))
                held_to = start if held_to is None else min(held_to, start)
            needed = min(needed, self.store.first + number)
        if held_to is not None and (self._evicted_to is None or held_to > self._evicted_to):
            self._evicted_to = held_to
        self.store.evict(needed)

    @property
    def bytes_held(self) -> int:
        return self.store.bytes_held + self.table.bytes_held + sum(pool.bytes_held for pool in self.pools.values())

    # -- snapshots -----------------------------------------------------------------------------------------------

    def snapshot(self) -> dict[str, Any]:
        return {
            "sparse": isinstance(self.store, SparseSlices),
            "store": self.store.snapshot(),
            "table": self.table.snapshot(),
            "pools": [pa.record_batch({"s": pool.all_strings()}) for pool in self._pool_list()],
            "watermark": self.watermark,
            "greatest": self.greatest,
            "held_from": self._held_from,
            "cut": self._cut,
            "evicted_to": self._evicted_to,
            "states": [repr(key) for key in self.state_held_from],
            "state_held_from": list(self.state_held_from.values()),
            "members": {
                name: {
                    "reported": member.reported,
                    "held_from": member.held_from,
                    "begun": member.begun,
                    "suspended": member.suspended,
                    "passing": member.passing.view(np.uint8).astype(np.int64),
                    "touched": np.concatenate(member.touched) if member.touched else np.empty(0, np.int64),
                }
                for name, member in self.members.items()
            },
        }

    def _pool_list(self) -> list[StringPool]:
        """The pools in an order that follows from the states alone."""
        from panewise.aggregates.states import Feed

        found: dict[Expression, StringPool] = {}
        for key in self.state_held_from:
            for argument, feed in zip(key.arguments, key.kind.feeds, strict=False):
                if feed is Feed.CODE:
                    found[argument] = self.pools.setdefault(argument, StringPool())
        return list(found.values())

    def restore(self, snapshot: dict[str, Any]) -> None:
        """The members must have been added already; their states take the order of the snapshot."""
        by_name = {repr(key): key for key in self.state_held_from}
        order = [by_name[name] for name in snapshot["states"]]
        self.state_held_from = dict(zip(order, snapshot["state_held_from"], strict=True))
        self.store.restore_counts(snapshot["store"])
        self.store.order_states(order)
        for pool, strings in zip(self._pool_list(), snapshot["pools"], strict=True):
            pool.load(strings.column(0))
        self.table.restore(snapshot["table"])
        if snapshot["sparse"] and isinstance(self.store, DenseSlices):
            cadences = [member.cadence for member in self.members.values()]
            self.store = SparseSlices.of_dense(self.store, 1, cadences)
        self.store.restore(snapshot["store"])
        for name in ("watermark", "greatest"):
            setattr(self, name, snapshot[name])
        self._held_from, self._cut = snapshot["held_from"], snapshot["cut"]
        self._evicted_to = snapshot["evicted_to"]
        for name, saved in snapshot["members"].items():
            member = self.members[name]
            for attribute in ("reported", "held_from", "begun", "suspended"):
                setattr(member, attribute, saved[attribute])
            member.passing = saved["passing"].astype(np.bool_)
            member.touched = [saved["touched"]] if len(saved["touched"]) else []


def _rest(arguments: Arguments, begin: int) -> Arguments:
    """The arguments without their first rows."""
    return {key: Encoded(a.values[begin:], a.valid[begin:]) for key, a in arguments.items()} if begin else arguments


def _first_end(piece: Piece) -> int:
    if isinstance(piece, EmptyReports):
        return piece.first
    first: int = piece.column(1)[0].as_py()
    return first
