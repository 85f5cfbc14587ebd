"""Buffers for the results of a join's loops: the row of each input, birth and death."""

from __future__ import annotations

import numpy as np

from panewise.arrays import Ints, Small
from panewise.operators.held.stored_columns import pooled
from panewise.operators.joins.join_loops import ResultArrays


class FoundResults:
    """Rows by input, births and deaths of up to `room` results."""

    def __init__(self, inputs: int, room: int) -> None:
        self._places: Small = pooled(inputs * room, np.int32).reshape(inputs, room)
        self._births: Ints = pooled(room, np.int64)
        self._deaths: Ints = pooled(room, np.int64)

    def part(self, begin: int, end: int | None = None) -> ResultArrays:
        """Views of the results in [begin, end), to be written or read."""
        return self._places[:, begin:end], self._births[begin:end], self._deaths[begin:end]

    def first(self, count: int) -> ResultArrays:
        """The first `count` results. They are copied if they fill less than half of the buffers."""
        places, births, deaths = self.part(0, count)
        if 2 * count < len(self._births):
            return places.copy(), births.copy(), deaths.copy()
        return places, births, deaths

    def grown(self) -> FoundResults:
        """Buffers twice as large, with the results so far."""
        room = len(self._births)
        larger = FoundResults(len(self._places), 2 * room)
        larger._places[:, :room], larger._births[:room], larger._deaths[:room] = (
            self._places,
            self._births,
            self._deaths,
        )
        return larger
