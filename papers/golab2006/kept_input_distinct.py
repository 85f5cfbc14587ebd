"""DISTINCT with its input kept: the two forms that need no known patterns, baselines of delta-star.

`ListedDistinct` is that of the direct approach, `KeyedDistinct` that of negative rows. Both show a value by one of its
rows, and when that row goes, by the youngest row with the value, as delta-star does: their results are the same. Values
are small integers, found by the number of a row; all rows of a step are born at its only instant, after everything has
left that does so then. State is the rows of the window and the values shown. Golab 2006, sections 3.2.2 and 3.6.3.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from panewise.aggregates.columns import wrapped
from panewise.arrays import Ints
from panewise.loops import compiled_loop
from panewise.operators.relation_delta import FOREVER, NONE, Delta, DeltaOperator
from papers.golab2006.keyed_store import KeyedStore
from papers.golab2006.list_store import ListStore

Mask = NDArray[np.bool_]
SPREAD = np.uint64(0x9E3779B97F4A7C15)  # odd, so that nothing coincides


def spread(codes: Ints) -> Ints:
    """Different numbers for different codes, as wide as addresses are: operators have to look them up."""
    return (codes.astype(np.uint64) * SPREAD).view(np.int64)


@compiled_loop
def _youngest(values: Ints, value_of: Ints, rows: Ints, deaths: Ints, place_of: Ints, out: Ints) -> None:
    """For each of these different values when the last of its rows dies, -1 where there is none; one scan of the rows.
    `place_of` is -1 for every value, before and after."""
    for i in range(len(values)):
        place_of[values[i]] = i
        out[i] = -1
    for k in range(len(rows)):
        place = place_of[value_of[rows[k]]]
        if place >= 0:
            out[place] = max(out[place], deaths[k])
    for i in range(len(values)):
        place_of[values[i]] = -1


class ListedDistinct(DeltaOperator):
    """DIRECT: input and output are lists, both scanned at every instant. Where a result expires, the input is scanned
    for the youngest row with its value. O(rows in the window) a step."""

    name = "ListedDistinct"

    def __init__(self, value_of: Ints) -> None:
        self._value_of = value_of
        self._input, self._output = ListStore(), ListStore()
        self._shown = np.zeros(int(value_of.max()) + 1, np.bool_)
        self._place_of = np.full(len(self._shown), -1, np.int64)
        self._next = 0

    @property
    def bytes_held(self) -> int:
        values = self._value_of.itemsize * len(self._input)  # read from the trace here, part of the rows in truth
        return self._input.bytes_held + values + self._output.bytes_held + self._shown.nbytes

    def process(self, inputs: list[Delta], since: int, until: int) -> Delta:
        (delta,) = inputs
        self._input.expire(until)
        gone, _ = self._output.expire(until)
        self._shown[gone] = False
        following = np.empty(len(gone), np.int64)
        if len(gone):
            held = self._input.snapshot()
            _youngest(gone, self._value_of, held["ids"], held["expires"], self._place_of, following)
        again = following >= 0
        self._shown[gone[again]] = True
        self._input.insert(delta.sequences, delta.deaths)
        fresh = _first_of_each(self._value_of[delta.sequences], self._shown)
        values = np.concatenate([gone[again], self._value_of[delta.sequences[fresh]]])
        deaths = np.concatenate([following[again], delta.deaths[fresh]])
        self._shown[values] = True
        self._output.insert(values, deaths)
        result = _values_delta(self._next, values, since, deaths)
        self._next += len(values)
        return result

    def snapshot(self) -> dict[str, Any]:
        return {"input": self._input.snapshot(), "output": self._output.snapshot(), "next": self._next}

    def restore(self, snapshot: dict[str, Any]) -> None:
        self._input.restore(snapshot["input"])
        self._output.restore(snapshot["output"])
        self._shown[:] = False
        self._shown[snapshot["output"]["ids"]] = True
        self._next = snapshot["next"]


class KeyedDistinct(DeltaOperator):
    """NT: input and output are found by value. The end of a row that is shown ends its result, and the youngest row
    with the value takes over. O(1) a row and an end, expected."""

    name = "KeyedDistinct"

    def __init__(self, value_of: Ints) -> None:
        self._value_of = value_of
        self._input, self._output = KeyedStore(), KeyedStore()
        self._shown = np.full(int(value_of.max()) + 1, -1, np.int64)  # the row that stands for each value
        self._next = 0

    @property
    def bytes_held(self) -> int:
        return self._input.bytes_held + self._output.bytes_held + self._shown.nbytes

    def process(self, inputs: list[Delta], since: int, until: int) -> Delta:
        (delta,) = inputs
        self._input.remove(delta.ended)
        gone = self._value_of[delta.ended]
        stood = self._shown[gone] == delta.ended
        gone, ended_at = gone[stood], delta.ended_at[stood]
        ended = self._output.take(gone)
        youngest = self._input.take(gone)
        self._shown[gone] = youngest
        again = youngest >= 0
        self._input.insert(gone[again], youngest[again], np.full(int(again.sum()), FOREVER))
        values = self._value_of[delta.sequences]
        self._input.insert(values, delta.sequences, delta.deaths)
        fresh = _first_of_each(values, self._shown >= 0)
        self._shown[values[fresh]] = delta.sequences[fresh]
        results = np.concatenate([gone[again], values[fresh]])
        deaths = np.full(len(results), FOREVER)
        numbers = np.arange(self._next, self._next + len(results))
        self._output.insert(results, numbers, deaths)
        self._next += len(results)
        return _values_delta(int(self._next - len(results)), results, since, deaths, ended, ended_at)

    def snapshot(self) -> dict[str, Any]:
        stores = {"input": self._input.snapshot(), "output": self._output.snapshot()}
        return {**stores, "shown": self._shown.copy(), "next": self._next}

    def restore(self, snapshot: dict[str, Any]) -> None:
        self._input.restore(snapshot["input"])
        self._output.restore(snapshot["output"])
        self._shown, self._next = snapshot["shown"].copy(), snapshot["next"]


def _first_of_each(values: Ints, shown: Mask) -> Ints:
    """The first place of every value that is not shown."""
    places: Ints = np.sort(np.unique(values, return_index=True)[1])
    return places[~shown[values[places]]]


def _values_delta(
    first: int, values: Ints, birth: int, deaths: Ints, ended: Ints = NONE, ended_at: Ints = NONE
) -> Delta:
    batch = pa.record_batch({"value": wrapped(spread(values))})
    sequences = np.arange(first, first + len(values))
    return Delta(batch, sequences, np.full(len(values), birth), deaths, ended, ended_at)
