"""Sketches against the obvious: exact where they hold everything, within their errors where they do not."""

from __future__ import annotations

import sys
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from panewise.errors import PanewiseError
from panewise.synopses.values.runs import floats_of, ordered_of, run_of
from panewise.synopses.values.sketch_kinds import SKETCH_KINDS
from panewise.synopses.values.sketches import SketchSlice, SketchSynopsis
from tests.now_or_soak import examples

pytest.importorskip("datasketches")
GROUPS = 3
# Few enough that every sketch still holds all of them, so that answers are exact.
words = st.sampled_from(["", "a", "b", "grün", "日本"])
doubles = st.sampled_from([float("-inf"), -1.5, 0.0, 2.0, float("nan")])
Row = tuple[int, object]


def made(synopsis: SketchSynopsis, rows: list[Row]) -> SketchSlice:
    """Rows counted into a run, as an engine does it: strings by their codes, doubles by their keys."""
    groups = np.array([g for g, _ in rows], np.int64)
    if rows and isinstance(rows[0][1], str):
        pool = sorted({str(v) for _, v in rows})
        run = run_of(groups, np.array([pool.index(str(v)) for _, v in rows], np.int64))
        return synopsis.made_from(run, [pool[code] for code in run.values])
    if rows and isinstance(rows[0][1], float):
        run = run_of(groups, ordered_of(np.array([v for _, v in rows], np.float64)))
        return synopsis.made_from(run, floats_of(run.values))
    run = run_of(groups, np.array([v for _, v in rows], np.int64))
    return synopsis.made_from(run, run.values)


def key(value: object) -> tuple[bool, object]:
    """NaN equals itself and is greatest."""
    return (value != value, 0 if value != value else value)


def slices_of(values: st.SearchStrategy[object]) -> st.SearchStrategy[list[list[Row]]]:
    row = st.tuples(st.integers(0, GROUPS - 1), values)
    return st.lists(st.lists(row, max_size=8), min_size=1, max_size=9)


@given(st.data(), st.sampled_from(sorted(SKETCH_KINDS)), st.sampled_from([words, doubles, st.integers(-2, 2)]))
@examples(60, soak=120)
def test_small_windows_are_exact(data: st.DataObject, kind: str, values: st.SearchStrategy[object]) -> None:
    if kind == "kll" and values is words:
        values = doubles
    slices = data.draw(slices_of(values))
    synopsis = SketchSynopsis(kind)
    synopsis.insert([made(synopsis, rows) for rows in slices])
    if data.draw(st.booleans()):
        synopsis.estimate(np.array([0]), np.array([len(slices)]), np.arange(GROUPS)) if kind == "hll" else None
    first = data.draw(st.integers(0, len(slices)))
    synopsis.evict(first)
    if data.draw(st.booleans()):
        snapshot = synopsis.snapshot()
        synopsis = SketchSynopsis(kind)
        synopsis.restore(snapshot)
    if data.draw(st.booleans()):
        synopsis.regroup(np.array([2, -1, 0]))
        numbers = {0: 2, 2: 0}
        slices = [[(numbers[g], v) for g, v in rows if g in numbers] for rows in slices]
    starts = data.draw(st.lists(st.integers(first, len(slices)), min_size=1, max_size=3))
    ends = [data.draw(st.integers(start, len(slices))) for start in starts]
    check(synopsis, slices, starts, ends, data)


def check(
    synopsis: SketchSynopsis, slices: list[list[Row]], starts: list[int], ends: list[int], data: st.DataObject
) -> None:
    windows = np.array(starts), np.array(ends), np.arange(GROUPS)
    expected = [
        Counter(key(v) for rows in slices[s:e] for g, v in rows if g == group)
        for s, e in zip(starts, ends, strict=True)
        for group in range(GROUPS)
    ]
    if synopsis.kind == "hll":
        found = synopsis.estimate(*windows).ravel()
        assert np.allclose(found, [len(counter) for counter in expected], rtol=1e-6)
    elif synopsis.kind == "kll":
        fraction = data.draw(st.floats(0, 1))
        for quantile, counter in zip(synopsis.quantile(*windows, fraction).ravel(), expected, strict=True):
            numbers = sorted(v for (missing, v), count in counter.items() if not missing for _ in range(count))
            if not numbers:
                assert np.isnan(quantile)
            else:
                below, upto = (np.searchsorted(numbers, quantile, side) for side in ("left", "right"))
                assert quantile in numbers
                assert below - 1e-9 <= fraction * len(numbers) <= upto + 1e-9
    else:
        offsets, values, counts = synopsis.top(*windows, 2)
        for entry, counter in enumerate(expected):
            piece = slice(offsets[entry], offsets[entry + 1])
            top = sorted(counter.items(), key=lambda item: (-item[1], item[0]))[:2]
            assert list(zip(map(key, values[piece]), counts[piece].tolist(), strict=True)) == top


def test_large_windows_are_within_their_errors() -> None:
    rng = np.random.default_rng(3)
    rows = [np.minimum(rng.zipf(1.2, 5000), 10**6).astype(np.int64) for _ in range(16)]
    runs = [run_of(np.zeros(len(piece), np.int64), piece) for piece in rows]
    window = np.array([3]), np.array([16]), np.array([0])
    truth = np.sort(np.concatenate(rows[3:]))

    def filled(kind: str) -> SketchSynopsis:
        synopsis = SketchSynopsis(kind)
        synopsis.insert([synopsis.made_from(run, run.values) for run in runs])
        return synopsis

    estimate = filled("hll").estimate(*window)[0, 0]
    assert estimate == pytest.approx(len(np.unique(truth)), rel=0.065)  # four standard deviations
    kll = filled("kll")
    for fraction in (0.1, 0.5, 0.9):
        quantile = kll.quantile(*window, fraction)[0, 0]
        below, upto = (np.searchsorted(truth, quantile, side) / len(truth) for side in ("left", "right"))
        assert below - 0.04 <= fraction <= upto + 0.04
    _, values, counts = filled("frequent").top(*window, 3)
    exact = Counter(truth.tolist()).most_common(3)
    assert values == [value for value, _ in exact]
    assert np.abs(counts - [count for _, count in exact]).max() <= len(truth) * 0.0035


def test_slices_that_have_gone_take_no_space() -> None:
    synopsis = SketchSynopsis("hll")
    sizes = []
    for number in range(200):
        synopsis.insert([made(synopsis, [(0, number), (0, number + 1)])])
        synopsis.evict(number - 15)
        estimate = synopsis.estimate(np.array([synopsis.first]), np.array([synopsis.after]), np.array([0]))[0, 0]
        assert estimate == pytest.approx(number + 2 - synopsis.first)
        sizes.append(synopsis.bytes_held)
    assert max(sizes[100:]) <= max(sizes[:100])


def test_parts_of_a_slice_made_apart_are_merged_from_bytes() -> None:
    synopsis = SketchSynopsis("hll", {"lg_k": 10})
    parts = [[(0, "a"), (1, "b")], [(0, "c"), (0, "a")]]
    sent = [synopsis.serialised(made(synopsis, list(part))) for part in parts]
    groups, sketches = synopsis.merged(sent)
    synopsis.insert([(groups, sketches)])
    assert synopsis.estimate(np.array([0]), np.array([1]), np.array([0, 1])).round(3).tolist() == [[2.0, 1.0]]


def test_what_does_not_exist_is_refused() -> None:
    with pytest.raises(PanewiseError, match="no parameter 'size'"):
        SketchSynopsis("hll", {"size": 3})
    with pytest.raises(PanewiseError, match="7 to 21, not 40"):
        SketchSynopsis("hll", {"lg_k": 40})


def test_without_the_package_its_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasketches", None)
    with pytest.raises(PanewiseError, match=r"pip install 'panewise\[sketches\]'"):
        SketchSynopsis("kll")
