"""The live results of a join by their rows of STRICT inputs: when such a row ends, its results end too.

An entry has the number and the death of a result and, for each STRICT input, its row. The results of a row are a chain.
Dead results are dropped when they are more than half, so that the log is proportional to the live results. Only joins
with a STRICT input keep one: elsewhere every death is known when a result is made (Golab 2006, section 3.5.2: negative
rows are for STRICT patterns alone).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from panewise.arrays import Ints, Small
from panewise.operators.held.stored_columns import appended, trimmed
from panewise.operators.joins.join_loops import end_results, log_results

STEP_COST = 64  # the cost of a step, in results checked for deaths


class JoinResults:
    """The live results of a join; `strict` are the numbers of its STRICT inputs."""

    def __init__(self, strict: Sequence[int]) -> None:
        self._strict = tuple(strict)
        self._clear()

    def _clear(self) -> None:
        strict = self._strict
        self._count = 0
        self._counted = 0  # number of results at the last check for dead ones
        self._steps = 0  # number of steps since then
        self._sequences: Ints = np.empty(0, np.int64)
        self._deaths: Ints = np.empty(0, np.int64)
        self._rows: dict[int, Small] = {i: np.empty(0, np.int32) for i in strict}
        self._links: dict[int, Small] = {i: np.empty(0, np.int32) for i in strict}
        # The newest result of each row of the input.
        self._firsts: dict[int, Small] = {i: np.empty(0, np.int32) for i in strict}

    @property
    def bytes_held(self) -> int:
        by_input = [*self._rows.values(), *self._links.values(), *self._firsts.values()]
        return self._sequences.nbytes + self._deaths.nbytes + sum(array.nbytes for array in by_input)

    def add_rows(self, i: int, held: int, new: int) -> None:
        """Adds `new` rows of a STRICT input, which had `held`. They have no results yet."""
        self._firsts[i] = appended(self._firsts[i], held, np.full(new, -1, np.int32))

    def add(self, sequences: Ints, deaths: Ints, places: Small) -> None:
        """Adds results; `places[i]` are their rows of input i."""
        begin = self._count
        self._sequences = appended(self._sequences, begin, sequences)
        self._deaths = appended(self._deaths, begin, deaths)
        self._count = begin + len(sequences)
        for i in self._strict:
            self._rows[i] = appended(self._rows[i], begin, places[i])
            self._links[i] = appended(self._links[i], begin, places[i])
            self._link(i, begin)

    def _link(self, i: int, begin: int) -> None:
        log_results(self._rows[i][: self._count], self._firsts[i], self._links[i], begin)

    def end(self, ends: dict[int, tuple[Small, Ints]]) -> tuple[Ints, Ints]:
        """Ends rows: `ends` has places and instants by input. Returns the numbers of the results that end with them and
        when, each result once, ordered by instant."""
        touched = np.zeros(self._count, np.bool_)
        found = np.empty(self._count, np.int32)
        count = 0
        for i, (rows, instants) in ends.items():
            count = end_results(rows, instants, self._firsts[i], self._links[i], self._deaths, touched, found, count)
        sequences, instants = self._sequences[found[:count]], self._deaths[found[:count]]
        order = np.lexsort((sequences, instants))
        return sequences[order], instants[order]

    def forget(self, until: int) -> None:
        """Drops dead results if they are more than half.

        Checks only if a quarter of the results, or many steps, have come since the last check.
        """
        self._steps += 1
        if 4 * (self._count - self._counted + STEP_COST * self._steps) < self._count:
            return
        self._steps, self._counted = 0, self._count
        kept = np.flatnonzero(self._deaths[: self._count] > until)
        if 2 * len(kept) < self._count:
            self._keep(kept, {})

    def rename(self, until: int, renamed: dict[int, tuple[Small, int]]) -> None:
        """Renumbers rows: `renamed` has, by input, the new number of each row and the number of rows.

        Drops dead results, whose rows are gone.
        """
        self._keep(np.flatnonzero(self._deaths[: self._count] > until), renamed)

    def _keep(self, kept: Ints, renamed: dict[int, tuple[Small, int]]) -> None:
        self._count = self._counted = len(kept)
        self._sequences = trimmed(appended(self._sequences, 0, self._sequences[kept]), len(kept))
        self._deaths = trimmed(appended(self._deaths, 0, self._deaths[kept]), len(kept))
        for i in self._strict:
            rows = self._rows[i][kept]
            if i in renamed:
                numbers, held = renamed[i]
                rows = numbers[rows]
                self._firsts[i] = trimmed(self._firsts[i], held)
            self._firsts[i][:] = -1
            self._rows[i] = trimmed(appended(self._rows[i], 0, rows), len(kept))
            self._links[i] = trimmed(self._links[i], len(kept))
            self._link(i, 0)

    def snapshot(self) -> dict[str, Any]:
        count = self._count
        rows = [self._rows[i][:count].astype(np.int64) for i in self._strict]
        return {"sequences": self._sequences[:count].copy(), "deaths": self._deaths[:count].copy(), "rows": rows}

    def restore(self, snapshot: dict[str, Any], held: Sequence[int]) -> None:
        """Call on a fresh log. `held` is the number of rows by input."""
        self._clear()
        for i in self._strict:
            self.add_rows(i, 0, held[i])
        rows = dict(zip(self._strict, snapshot["rows"], strict=True))
        places = np.zeros((len(held), len(snapshot["sequences"])), np.int32)
        for i, own in rows.items():
            places[i] = own
        self.add(snapshot["sequences"], snapshot["deaths"], places)
