"""Runs: the values of one or several slices, sorted and counted. States without a fixed size consist of runs.

    rows (group, value):  (0, 7) (1, 5) (0, 3) (0, 7)
    run:   groups   0  0  1
           values   3  7  5          sorted by (group, value), pairs distinct
           counts   1  2  1

Values are int64 keys. Integers are their own keys. Doubles are encoded so that their order is kept (-0.0 equals 0.0,
NaN equals itself and is greatest, as in SQL). Strings are codes of a pool, whose order means nothing. A bag of values
is a distributive state: two runs merge into the run of both, so runs are partials, of a size that grows with the
distinct values. `run_of` sorts n rows; `merged` takes O(n log runs) and does not sort.

Source: Arasu and Widom 2004, section 3.3 (sorted arrays), with equal elements counted, as Golab 2006, section 2.3.4,
keeps the multiplicities of distinct values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from panewise.arrays import Floats, Ints
from panewise.loops import compiled_loop

_MAGNITUDE = np.int64(0x7FFFFFFFFFFFFFFF)
ONE_EACH = np.empty(0, np.int64)  # in place of counts: every value counts once


@dataclass(frozen=True, eq=False)
class Run:
    """Distinct (group, value) pairs in order, each with its number of occurrences, at least 1."""

    groups: Ints
    values: Ints
    counts: Ints

    def __len__(self) -> int:
        return len(self.values)

    @property
    def rows(self) -> int:
        """Number of values; equal values count each time."""
        return int(self.counts.sum())

    @property
    def bytes_held(self) -> int:
        return self.groups.nbytes + self.values.nbytes + self.counts.nbytes


def empty_run() -> Run:
    nothing = np.empty(0, np.int64)
    return Run(nothing, nothing, nothing)


# -- doubles as keys -------------------------------------------------------------------------------------------------


def ordered_of(floats: Floats) -> Ints:
    """Keys in the order of the doubles. All NaN have one key, above that of infinity.

    >>> keys = ordered_of(np.array([-1.5, -0.0, 0.0, 2.0, np.inf, np.nan]))
    >>> np.diff(keys) > 0
    array([ True, False,  True,  True,  True])
    """
    normal = np.where(np.isnan(floats), np.nan, np.asarray(floats, np.float64) + 0.0)  # -0.0 + 0.0 is 0.0
    bits = np.ascontiguousarray(normal).view(np.int64)
    return np.where(bits < 0, bits ^ _MAGNITUDE, bits)


def floats_of(keys: Ints) -> Floats:
    """The doubles of their keys."""
    keys = np.asarray(keys, np.int64)
    return np.ascontiguousarray(np.where(keys < 0, keys ^ _MAGNITUDE, keys)).view(np.float64)


# -- making ----------------------------------------------------------------------------------------------------------


def run_of(groups: Ints, values: Ints, counts: Ints | None = None) -> Run:
    """The run of rows in any order. `counts` has the number of occurrences of each row's value, by default 1.

    >>> run = run_of(np.array([0, 1, 0, 0]), np.array([7, 5, 3, 7]))
    >>> run.groups.tolist(), run.values.tolist(), run.counts.tolist()
    ([0, 0, 1], [3, 7, 5], [1, 2, 1])
    """
    groups, values = np.asarray(groups, np.int64), np.asarray(values, np.int64)
    if not len(values):
        return empty_run()
    counts = ONE_EACH if counts is None else np.asarray(counts, np.int64)
    least, bits = _packing(groups, values)
    if bits < 0:
        order = np.lexsort((values, groups))
        counts = counts[order] if len(counts) else np.ones(len(values), np.int64)
        return Run(*_collapsed(groups[order], values[order], counts))
    # One word holds group and value: sorting words is several times faster than sorting pairs.
    words = (groups << bits) | (values - least)
    if len(counts):
        order = np.argsort(words)
        words, counts = words[order], counts[order]
    else:
        words.sort()
    return Run(*_collapsed_words(words, counts, least, bits))


@compiled_loop
def _packing(groups: Ints, values: Ints) -> tuple[int, int]:
    """The least value and the bits for differences from it; -1 bits if a group does not fit into the same word."""
    least, most, group = values[0], values[0], groups[0]
    for i in range(values.shape[0]):
        least, most, group = min(least, values[i]), max(most, values[i]), max(group, groups[i])
    spread, bits, group_bits = most - least, 0, 0
    if spread < 0:  # wrapped: values from both ends of the integers
        return 0, -1
    while spread >> bits:
        bits += 1
    while group >> group_bits:
        group_bits += 1
    return least, bits if bits + group_bits <= 63 else -1


@compiled_loop
def _collapsed(groups: Ints, values: Ints, counts: Ints) -> tuple[Ints, Ints, Ints]:
    """Merges equal neighbours and adds their counts."""
    at = 0
    for i in range(1, values.shape[0]):
        if values[i] != values[at] or groups[i] != groups[at]:
            at += 1
            groups[at], values[at], counts[at] = groups[i], values[i], counts[i]
        else:
            counts[at] += counts[i]
    return groups[: at + 1].copy(), values[: at + 1].copy(), counts[: at + 1].copy()


@compiled_loop
def _collapsed_words(words: Ints, counts: Ints, least: int, bits: int) -> tuple[Ints, Ints, Ints]:
    """`_collapsed` for words of group and value. Without counts, every word counts once."""
    count = words.shape[0]
    distinct = 1
    for i in range(1, count):
        distinct += words[i] != words[i - 1]
    groups, values, totals = np.empty(distinct, np.int64), np.empty(distinct, np.int64), np.zeros(distinct, np.int64)
    mask = (1 << bits) - 1
    at = -1
    for i in range(count):
        if i == 0 or words[i] != words[i - 1]:
            at += 1
            groups[at], values[at] = words[i] >> bits, (words[i] & mask) + least
        totals[at] += counts[i] if counts.shape[0] else 1
    return groups, values, totals


# -- merging ---------------------------------------------------------------------------------------------------------


def merged(runs: Sequence[Run]) -> Run:
    """The run of the values of all runs."""
    left = [run for run in runs if len(run)]
    if not left:
        return empty_run()
    while len(left) > 1:
        pairs = [_merged_two(left[i], left[i + 1]) for i in range(0, len(left) - 1, 2)]
        left = pairs if len(left) % 2 == 0 else [*pairs, left[-1]]
    return left[0]


def _merged_two(a: Run, b: Run) -> Run:
    return Run(*_merge(a.groups, a.values, a.counts, b.groups, b.values, b.counts))


@compiled_loop
def _merge(
    groups: Ints, values: Ints, counts: Ints, groups2: Ints, values2: Ints, counts2: Ints
) -> tuple[Ints, Ints, Ints]:
    one, two = values.shape[0], values2.shape[0]
    new_groups, new_values = np.empty(one + two, np.int64), np.empty(one + two, np.int64)
    new_counts = np.empty(one + two, np.int64)
    i, j, at = 0, 0, 0
    while i < one or j < two:
        first = j == two or (
            i < one and (groups[i] < groups2[j] or (groups[i] == groups2[j] and values[i] <= values2[j]))
        )
        second = i == one or (
            j < two and (groups2[j] < groups[i] or (groups2[j] == groups[i] and values2[j] <= values[i]))
        )
        if first:
            new_groups[at], new_values[at], new_counts[at] = groups[i], values[i], counts[i]
            i += 1
            if second:
                new_counts[at] += counts2[j]
                j += 1
        else:
            new_groups[at], new_values[at], new_counts[at] = groups2[j], values2[j], counts2[j]
            j += 1
        at += 1
    return new_groups[:at].copy(), new_values[:at].copy(), new_counts[:at].copy()
