"""Equal rows and the changes that cancel each other."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from panewise.operators.multiset import equal_to_previous, remaining, row_numbers
from tests.operators.timelines import identity

NAN = float("nan")
VALUES = st.sampled_from([None, 0.0, -0.0, 1.5, NAN, float("inf")])
ROWS = st.lists(st.tuples(VALUES, st.sampled_from(["", "a", None])), min_size=1, max_size=20)


def columns_of(rows: list[tuple[float | None, str | None]]) -> list[pa.Array]:
    return [pa.array([x for x, _ in rows], pa.float64()), pa.array([s for _, s in rows], pa.string())]


@given(ROWS)
def test_equal_rows_have_equal_numbers(rows: list[tuple[float | None, str | None]]) -> None:
    numbers = row_numbers(columns_of(rows)).tolist()
    follows = equal_to_previous(columns_of(rows)).tolist()
    keys = [tuple(map(identity, row)) for row in rows]
    for i, key in enumerate(keys):
        assert [number == numbers[i] for number in numbers] == [other == key for other in keys]
        assert follows[i] == (i > 0 and keys[i - 1] == key)


@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from([-1, 1]), VALUES), max_size=25))
def test_opposite_changes_of_one_instant_cancel(changes: list[tuple[int, int, float | None]]) -> None:
    instants = np.array([t for t, _, _ in changes], np.int64)
    signs = np.array([sign for _, sign, _ in changes], np.int64)
    kept = remaining(instants, signs, [pa.array([x for _, _, x in changes], pa.float64())])
    net: Counter[object] = Counter()
    for t, sign, x in changes:
        net[t, identity(x)] += sign
    found: Counter[object] = Counter()
    for (t, sign, x), stays in zip(changes, kept.tolist(), strict=True):
        if stays:
            found[t, identity(x)] += sign
            assert sign * net[t, identity(x)] > 0
    assert found == Counter({key: count for key, count in net.items() if count})
