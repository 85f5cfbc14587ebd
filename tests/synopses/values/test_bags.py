"""Bags against the obvious: rows of a window, sorted and counted by Python."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from panewise.synopses.values.bags import BagSynopsis
from panewise.synopses.values.runs import Run, floats_of, merged, ordered_of, run_of
from tests.now_or_soak import examples

GROUPS = 4
Row = tuple[int, int]  # group, value
values = st.one_of(st.integers(-3, 3), st.integers(-(2**63), 2**63 - 1))
slice_rows = st.lists(st.tuples(st.integers(0, GROUPS - 1), values), max_size=12)


def made(rows: list[Row]) -> Run:
    return run_of(np.array([g for g, _ in rows], np.int64), np.array([v for _, v in rows], np.int64))


def triples(run: Run) -> list[tuple[int, int, int]]:
    return list(zip(run.groups.tolist(), run.values.tolist(), run.counts.tolist(), strict=True))


def counted(rows: list[Row]) -> list[tuple[int, int, int]]:
    return [(*pair, count) for pair, count in sorted(Counter(rows).items())]


class Model:
    """The rows of every slice."""

    def __init__(self) -> None:
        self.first = 0
        self.slices: list[list[Row]] = []

    def window(self, start: int, end: int, group: int) -> list[int]:
        return sorted(v for rows in self.slices[start - self.first : end - self.first] for g, v in rows if g == group)


def check(bag: BagSynopsis, model: Model, starts: list[int], ends: list[int], groups: list[int], k: int) -> None:
    windows = np.array(starts), np.array(ends), np.array(groups)
    expected = [[model.window(s, e, g) for g in groups] for s, e in zip(starts, ends, strict=True)]
    assert bag.totals(*windows).tolist() == [[len(rows) for rows in line] for line in expected]
    assert bag.distinct(*windows).tolist() == [[len(set(rows)) for rows in line] for line in expected]
    most = max((len(rows) for line in expected for rows in line), default=0)
    for rank in range(most + 2):
        found = bag.ranked(*windows, np.full((len(starts), len(groups)), rank))
        wanted = [[rows[rank - 1] if 0 < rank <= len(rows) else 0 for rows in line] for line in expected]
        assert found.tolist() == wanted
    offsets, top_values, counts = (part.tolist() for part in bag.top(*windows, k))
    for entry, rows in enumerate(rows for line in expected for rows in line):
        wanted_top = sorted(Counter(rows).items(), key=lambda item: (-item[1], item[0]))[:k]
        piece = slice(offsets[entry], offsets[entry + 1])
        assert list(zip(top_values[piece], counts[piece], strict=True)) == wanted_top


def check_random_windows(bag: BagSynopsis, model: Model, data: st.DataObject) -> None:
    held = range(bag.first, bag.after + 1)
    starts = data.draw(st.lists(st.sampled_from(held), min_size=1, max_size=4))
    ends = [data.draw(st.integers(start, bag.after)) for start in starts]
    groups = data.draw(st.permutations(range(GROUPS + 1)))[: data.draw(st.integers(1, GROUPS + 1))]
    check(bag, model, starts, ends, list(groups), data.draw(st.integers(1, 4)))


@given(st.data())
@examples(30, soak=60)
def test_windows_hold_what_their_rows_say(data: st.DataObject) -> None:
    bag, model = BagSynopsis(), Model()
    for _ in range(data.draw(st.integers(1, 6))):
        match data.draw(st.sampled_from(["insert", "insert", "evict", "regroup", "restore"])):
            case "insert":
                new = data.draw(st.lists(slice_rows, max_size=9))
                bag.insert([made(rows) for rows in new])
                model.slices += new
            case "evict":
                before = data.draw(st.integers(model.first, model.first + len(model.slices)))
                bag.evict(before)
                model.slices = model.slices[before - model.first :]
                model.first = before
            case "regroup":
                # Numbers of their own for all that stay, in any order.
                renamed = data.draw(st.permutations(range(GROUPS)))
                gone = data.draw(st.sets(st.integers(0, GROUPS - 1)))
                numbers = [-1 if g in gone else renamed[g] for g in range(GROUPS)]
                bag.regroup(np.array(numbers))
                model.slices = [[(numbers[g], v) for g, v in rows if numbers[g] >= 0] for rows in model.slices]
            case "restore":
                snapshot = bag.snapshot()
                bag = BagSynopsis()
                bag.restore(snapshot)
        assert (bag.first, bag.after) == (model.first, model.first + len(model.slices))
        check_random_windows(bag, model, data)
    assert [triples(run) for run in bag.held()] == [counted(rows) for rows in model.slices]


@given(st.lists(slice_rows, min_size=1, max_size=6), st.permutations(range(7)), st.booleans())
@examples(20, soak=40)
def test_codes_are_renumbered(slices: list[list[Row]], renamed: list[int], ordered: bool) -> None:
    coded = [[(g, v % 7) for g, v in rows] for rows in slices]
    new = [2 * code + 1 for code in range(7)] if ordered else renamed
    bag, model = BagSynopsis(), Model()
    bag.insert([made(rows) for rows in coded])
    whole = np.array([0]), np.array([len(slices)]), np.arange(GROUPS)
    bag.distinct(*whole)  # intervals are made, and must be renumbered or made anew
    bag.recode(np.array(new))
    model.slices = [[(g, new[v]) for g, v in rows] for rows in coded]
    check(bag, model, [0], [len(slices)], list(range(GROUPS)), 3)
    # What was seen before has its new code when it is seen again.
    model.slices += model.slices
    bag.insert([made(rows) for rows in model.slices[len(slices) :]])
    check(bag, model, [0, 1], [2 * len(slices)] * 2, list(range(GROUPS)), 3)


def test_groups_change_places_in_slices_and_intervals() -> None:
    bag, model = BagSynopsis(), Model()
    model.slices = [[(g, 10 * g + number % 3) for g in range(GROUPS)] for number in range(6)]
    bag.insert([made(rows) for rows in model.slices])
    check(bag, model, [0], [6], list(range(GROUPS)), 3)  # intervals are made
    renamed = [3, 0, -1, 1]
    bag.regroup(np.array(renamed))
    model.slices = [[(renamed[g], v) for g, v in rows if renamed[g] >= 0] for rows in model.slices]
    more = [[(g, 7) for g in range(GROUPS)], [(2, 1), (0, 2)]]
    bag.insert([made(rows) for rows in more])  # merged with what was renumbered
    model.slices += more
    check(bag, model, [0, 1, 3], [8, 6, 8], [3, 2, 1, 0, 4], 3)


def test_the_top_of_many_values() -> None:
    rng = np.random.default_rng(8)
    bag, model = BagSynopsis(), Model()
    for _ in range(5):
        rows = [(0, int(v)) for v in np.minimum(rng.zipf(1.3, 400), 90)]
        bag.insert([made(rows)])
        model.slices.append(rows)
    exact = sorted(Counter(model.window(0, 5, 0)).items(), key=lambda item: (-item[1], item[0]))
    for k in (1, 2, 7, 20, 33, len(exact), len(exact) + 5):
        _, values, counts = bag.top(np.array([0]), np.array([5]), np.array([0]), k)
        assert list(zip(values.tolist(), counts.tolist(), strict=True)) == exact[:k]


def test_a_long_stream_slides_through_a_small_arena() -> None:
    rng = np.random.default_rng(5)
    bag, model = BagSynopsis(), Model()
    most = 0
    for number in range(3000):
        rows = [(int(g), int(v)) for g, v in zip(rng.integers(0, GROUPS, 8), rng.integers(0, 50, 8), strict=True)]
        bag.insert([made(rows)])
        model.slices.append(rows)
        if number >= 100:
            bag.evict(number - 99)
            model.slices.pop(0)
            model.first += 1
        windows = np.array([bag.first]), np.array([bag.after]), np.arange(GROUPS)
        medians = bag.ranked(*windows, (bag.totals(*windows) + 1) // 2)[0]
        if number % 97 == 0:
            for group in range(GROUPS):
                expected = model.window(bag.first, bag.after, group)
                assert not expected or medians[group] == expected[(len(expected) - 1) // 2]
        if number == 500:
            most = bag.bytes_held
    assert bag.bytes_held <= most  # the arena is moved, not grown


def test_equal_counts_come_in_the_order_of_strings() -> None:
    bag = BagSynopsis()
    bag.insert([run_of(np.zeros(4, np.int64), np.array([0, 1, 2, 3]))])
    order = np.array([2, 0, 3, 1])  # code 1 is the first string
    assert bag.top(np.array([0]), np.array([1]), np.array([0]), 2, order)[1].tolist() == [1, 3]


@given(st.lists(slice_rows, max_size=8))
@settings(deadline=None)
def test_runs_merge_into_the_run_of_all_rows(slices: list[list[Row]]) -> None:
    whole = merged([made(rows) for rows in slices])
    assert triples(whole) == counted([row for rows in slices for row in rows])
    assert whole.rows == sum(map(len, slices))
    again = run_of(*(np.repeat(part, 2) for part in (whole.groups, whole.values, whole.counts)))
    assert triples(again) == [(g, v, 2 * count) for g, v, count in triples(whole)]


@given(st.lists(st.floats(), min_size=1))
def test_doubles_keep_their_order_as_keys(floats: list[float]) -> None:
    array = np.array(floats)
    keys = ordered_of(array)
    assert np.array_equal(floats_of(keys), array, equal_nan=True)
    for i, j in np.ndindex(len(floats), len(floats)):
        if np.isnan(array[i]) or np.isnan(array[j]):
            assert (keys[i] > keys[j]) == bool(np.isnan(array[i]) and not np.isnan(array[j]))
        else:
            assert (keys[i] < keys[j]) == (array[i] < array[j])
            assert (keys[i] == keys[j]) == (array[i] == array[j])
