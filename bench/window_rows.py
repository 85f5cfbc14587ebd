"""The rows and the answers of the window benchmark, for the engine and its peers alike.

Answers are compared window by window with a reference of NumPy's making: sums of slices by `bincount`, windows by
differences of exact-enough running sums, maxima by a sliding view.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bench import floor

RANGES = (1, 10, 60, 300)
KEY_TYPES = ("BIGINT", "STRING", "STRING dictionary")
PUSH_ROWS = 65_536
KEY_NAMES = [f"station-{key:03}" for key in range(floor.GROUPS)]
SUM_TOLERANCE = 1e-9


def batches(key_type: str, count: int) -> list[pa.RecordBatch]:
    """The rows in batches of a push each, with buffers of their own."""
    times, keys, values = floor.rows(count)
    return [
        pa.RecordBatch.from_arrays(
            [
                pa.array(times[begin : begin + PUSH_ROWS] * 1000).view(pa.timestamp("us", "UTC")),
                _keys(keys[begin : begin + PUSH_ROWS], key_type),
                pa.array(values[begin : begin + PUSH_ROWS].copy()),
            ],
            names=["ts", "k", "v"],
        )
        for begin in range(0, count, PUSH_ROWS)
    ]


def _keys(keys: NDArray[np.int64], key_type: str) -> pa.Array:
    if key_type == "BIGINT":
        return pa.array(keys.copy())
    encoded = pa.DictionaryArray.from_arrays(pa.array(keys.astype(np.int32)), pa.array(KEY_NAMES))
    return encoded if key_type == "STRING dictionary" else encoded.cast(pa.string())


def disagreement(
    results: pa.Table,
    count: int,
    range_s: int,
    slide_s: int = 1,
    until_s: int | None = None,
    generated: int | None = None,
) -> str:
    """What is wrong with results (window_end, k, s, m in any order of rows); empty where nothing is.

    With `until_s` only windows that end at most so many seconds after the first row are expected; with `generated` the
    rows are the first ones of so many, which differ from as many generated alone.
    """
    sums, maxima, present = _reference(count, range_s, generated or count)
    if until_s is not None:
        present[until_s + 1 :] = False
    # Reports count from the epoch, the reference from the first row.
    present[(np.arange(len(present)) + floor.EPOCH_MS // 1000) % slide_s != 0] = False
    ends = results.column("window_end").cast(pa.int64()).to_numpy() // 1_000_000 - floor.EPOCH_MS // 1000
    keys = results.column("k")
    if pa.types.is_integer(keys.type):
        groups = keys.to_numpy()
    else:
        groups = pa.compute.index_in(keys.cast(pa.string()), pa.array(KEY_NAMES)).to_numpy()
    found = np.zeros_like(present)
    found[ends, groups] = True
    if results.num_rows != present.sum() or not (found == present).all():
        return f"{results.num_rows} results instead of {present.sum()}"
    error = np.abs(results.column("s").to_numpy() - sums[ends, groups]) / np.abs(sums[ends, groups])
    if not error.max() <= SUM_TOLERANCE:
        return f"a sum is off by {error.max():.2e}"
    if not (results.column("m").to_numpy() == maxima[ends, groups]).all():
        return "a maximum differs"
    return ""


def _reference(count: int, range_s: int, generated: int) -> tuple[Any, Any, Any]:
    """Sums, maxima and presence by (end in seconds since the first row, group)."""
    times, keys, values = (column[:count] for column in floor.rows(generated))
    slices = int((times[-1] - times[0]) // 1000) + 1
    cells = ((times - times[0]) // 1000) * floor.GROUPS + keys
    shape = slices, floor.GROUPS
    counts = np.bincount(cells, minlength=slices * floor.GROUPS).reshape(shape)
    slice_sums = np.bincount(cells, values, minlength=slices * floor.GROUPS).reshape(shape)
    slice_maxima = np.full(slices * floor.GROUPS, -np.inf)
    np.maximum.at(slice_maxima, cells, values)
    # A window that ends at e holds the slices e - range_s to e - 1; none before the first nor after the last.
    around = ((range_s, range_s - 1), (0, 0))
    ends = slices + range_s
    sums = _windows(np.pad(slice_sums, around), ends, range_s)
    present = _windows(np.pad(counts, around), ends, range_s) > 0
    padded = np.pad(slice_maxima.reshape(shape), around, constant_values=-np.inf)
    maxima = np.lib.stride_tricks.sliding_window_view(padded, range_s, axis=0).max(axis=2)[:ends]
    return sums, maxima, present


def _windows(slices: Any, ends: int, range_s: int) -> Any:
    running = np.cumsum(np.pad(slices, ((1, 0), (0, 0))), axis=0, dtype=np.longdouble)
    return (running[range_s : range_s + ends] - running[:ends]).astype(np.float64)
