"""How a step's new rows find the results of a join: all at once, or in parts.

A compiled walk writes results into a buffer and stops when it is full; it can go on with another buffer. A residual
condition judges candidates in portions, which bounds the bytes of columns that are read at a time.

    new rows by birth, input and arrival  ->  walk  ->  candidates  ->  residual condition  ->  results

Results are ordered by birth, also across parts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from panewise.aggregates.columns import flags
from panewise.arrays import Ints, Small
from panewise.language.expressions import Expression
from panewise.operators.held.stored_columns import StoredColumns
from panewise.operators.joins.found_results import FoundResults
from panewise.operators.joins.join_loops import FRESH, NewRows, ResultArrays, merged, probe_many, probe_pair
from panewise.operators.joins.join_rows import JoinRows
from panewise.operators.joins.probe_plan import ProbePlan
from panewise.operators.read_budget import ReadBudget
from panewise.plan.expressions.evaluate import compiled

CANDIDATES = 1 << 18  # most candidates in a portion
CANDIDATE_BYTES = 16 << 20  # about the most bytes of columns that the residual condition reads at a time
LOOKS = 1 << 24  # most rows that a walk visits between two checks of a budget
RESULTS_MIN = 4096
RESULTS_IN_PART = 1 << 20


def probing_order(firsts: Ints, births: Sequence[Ints]) -> NewRows:
    """New rows in the order in which they probe: by birth, input and arrival. `firsts`: the place of each input's
    first new row."""
    ends = np.cumsum([len(own) for own in births])
    starts = ends - [len(own) for own in births]
    total = int(ends[-1])
    origins, rows, instants = np.empty(total, np.int32), np.empty(total, np.int32), np.empty(total, np.int64)
    merged(np.concatenate(births), starts, ends, firsts, origins, rows, instants)
    return origins, rows, instants


class Residual:
    """The part of a condition that no index answers. `read` are its columns as (input, column), in schema order."""

    def __init__(self, condition: Expression, schema: pa.Schema, read: list[tuple[int, int]]) -> None:
        self._condition = compiled(condition)
        self._schema = schema
        self._read = read

    def true_of(self, places: Small, columns: Sequence[StoredColumns], looked: Callable[[], None]) -> Ints:
        """The positions of the candidates for which it is true. Calls `looked` after each part of them."""
        size = sum(columns[i].taken_bytes(column, places[i]) for i, column in self._read)
        true = []
        step = max(1, places.shape[1] * CANDIDATE_BYTES // max(size, CANDIDATE_BYTES))
        for start in range(0, max(1, places.shape[1]), step):
            part = places[:, start : start + step]
            read = [columns[i].taken(column, part[i]) for i, column in self._read]
            batch = pa.RecordBatch.from_arrays(read, schema=self._schema)
            true.append(np.flatnonzero(flags(self._condition(batch))) + start)
            looked()
        return np.concatenate(true)


class Probing:
    """Runs the walks of a join. `bytes_of(places)` is the size of the results of these rows, for a budget."""

    def __init__(
        self, columns: list[StoredColumns], residual: Residual | None, bytes_of: Callable[[Small], int]
    ) -> None:
        self._columns = columns
        self._residual = residual
        self._bytes_of = bytes_of
        self._budget: ReadBudget | None = None
        self._room = RESULTS_MIN

    def spend(self, budget: ReadBudget | None) -> None:
        """From now on results are found in portions, and each is charged to the budget."""
        self._budget = budget

    def whole(self, new: NewRows, rows: JoinRows, plan: ProbePlan) -> ResultArrays:
        """All results of a step."""
        if self._residual is None and self._budget is None:
            return self._at_once(new, rows, plan)
        kept = [FoundResults(len(self._columns), 0).first(0), *self._portions(new, rows, plan)]
        places, births, deaths = zip(*kept, strict=True)
        return np.concatenate(places, axis=1), np.concatenate(births), np.concatenate(deaths)

    def parts(self, new: NewRows, rows: JoinRows, plan: ProbePlan) -> Iterator[ResultArrays]:
        """All results of a step, in parts of about `RESULTS_IN_PART` at most; at least one part."""
        if self._residual is None and self._budget is None:
            return self._bounded(new, rows, plan)
        return self._portions(new, rows, plan)

    def _at_once(self, new: NewRows, rows: JoinRows, plan: ProbePlan) -> ResultArrays:
        """The buffer has the size that the last step needed, and doubles when it is full."""
        found = FoundResults(len(self._columns), self._room)
        walk = Walk(new, rows, plan, self._looks)
        count = walk.go(found.part(0))
        while not walk.done:
            found = found.grown()
            count += walk.go(found.part(count))
        self._room = max(RESULTS_MIN, count + count // 4)
        return found.first(count)

    def _bounded(self, new: NewRows, rows: JoinRows, plan: ProbePlan) -> Iterator[ResultArrays]:
        """A part's buffer doubles when it is full, up to `RESULTS_IN_PART`."""
        walk = Walk(new, rows, plan, self._looks)
        made, more = 0, True
        while more:
            found = FoundResults(len(self._columns), min(self._room, RESULTS_IN_PART))
            count = walk.go(found.part(0))
            while not walk.done and 2 * count <= RESULTS_IN_PART:
                found = found.grown()
                count += walk.go(found.part(count))
            made, more = made + count, not walk.done
            yield found.first(count)
        self._room = max(RESULTS_MIN, made + made // 4)

    def _portions(self, new: NewRows, rows: JoinRows, plan: ProbePlan) -> Iterator[ResultArrays]:
        """The results among each portion of candidates; at least one portion."""
        room = FoundResults(len(self._columns), CANDIDATES)
        walk = Walk(new, rows, plan, self._looks)
        more = True
        while more:
            count = walk.go(room.part(0))
            more = not walk.done
            places, births, deaths = room.part(0, count)
            true = np.arange(count) if self._residual is None else self._true_of(places)
            portion = places[:, true], births[true], deaths[true]
            if self._budget is not None:
                self._budget.take(len(true), self._bytes_of(portion[0]))
            yield portion

    def _true_of(self, places: Small) -> Ints:
        assert self._residual is not None
        return self._residual.true_of(places, self._columns, self._look)

    def _look(self) -> None:
        if self._budget is not None:
            self._budget.take()

    @property
    def _looks(self) -> int:
        """How many rows the walk may visit before it stops for a check of the budget."""
        return np.iinfo(np.int64).max if self._budget is None else LOOKS


class Walk:
    """The walk of a step's new rows over the rows held; it can stop and go on."""

    def __init__(self, new: NewRows, rows: JoinRows, plan: ProbePlan, looks: int) -> None:
        self._new, self._rows, self._plan = new, rows, plan
        self._position = np.array([0, FRESH, FRESH, looks], np.int64)
        self._levels = np.zeros((4, len(rows.counts)), np.int64)

    @property
    def done(self) -> bool:
        return bool(self._position[0] >= len(self._new[0]))

    def go(self, room: ResultArrays) -> int:
        """Goes on until the room is full, `looks` rows were visited, or it is done. Returns the number of results."""
        held = self._rows.arrays
        if len(self._rows.counts) == 2:
            return probe_pair(self._new, self._position, held, room)
        return probe_many(self._new, self._position, self._levels, self._plan.levels, held, room)
