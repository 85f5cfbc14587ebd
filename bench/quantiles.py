"""Exact quantiles of sliding windows: runs of a bag against sorting the window, which an answer costs without one.

Windows hold 100,000 values in slices of 100; values are uniform, heavy-tailed or drifting. Timed are, per answer: a
slide of one slice with its answer (the new slice's rows sorted and inserted, one quantile, the oldest evicted), and
answers asked a thousand at a time, of random fractions. Sorting is `np.sort` of the same window. The three run in turn,
each in a process of its own. Every answer of the first slides and of the first batch is compared with the sorted
window's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from bench.measure import MEBIBYTE, Setting, in_turn, median_cpu
from bench.report import Aim, Report
from panewise.arrays import Ints

WINDOW = 100_000
SLICE_ROWS = 100
SLIDES = 400
BATCH = 1000
BATCHES = 20  # in a run
FASTER_WANTED = 10.0
VALUES = ("uniform", "heavy-tailed", "drifting")


def run(quick: bool) -> Report:
    window, slides, repeat = (5_000, 20, 1) if quick else (WINDOW, SLIDES, 5)
    report = Report(
        "quantiles",
        f"quantiles: windows of {window:,} values in slices of {SLICE_ROWS}, exact, one core",
        ("values", "way", "us per answer", "times faster", "MiB", "agrees"),
    )
    for values in VALUES:
        figure = measure(values, window, slides, repeat)
        for way in ("sort", "slide", "batch"):
            seconds = figure[f"{way}_s"]
            report.rows.append(
                {"values": values, "way": WAYS[way], "us per answer": seconds * 1e6,
                 "times faster": figure["sort_s"] / seconds, "agrees": figure["agrees"]}
                | ({"MiB": figure["bytes"] / MEBIBYTE} if way == "slide" else {})
            )  # fmt: skip
        report.rows[-1]["section"] = True
        report.agree &= figure["agrees"]
        for way in ("slide", "batch"):
            what = f"{values}: {WAYS[way]}, times faster than sorting the window"
            report.aims.append(Aim.at_least(what, FASTER_WANTED, figure["sort_s"] / figure[f"{way}_s"]))
    report.notes.append("a slide also sorts, inserts and evicts a slice; a batched answer is the quantile alone")
    return report


WAYS = {"sort": "np.sort of the window", "slide": "slide and answer", "batch": f"{BATCH} answers in a call"}


def measure(values: str, window: int, slides: int, repeat: int) -> dict[str, Any]:
    """The three ways in turn; seconds per answer."""
    given = {"values": values, "window": window, "slides": slides}
    found = in_turn(setting_of, {way: given | {"way": way} for way in WAYS}, repeat)
    answers = {"sort": slides, "slide": slides, "batch": BATCHES * BATCH}
    return {f"{way}_s": median_cpu(side.timings) / answers[way] for way, side in found.items()} | {
        "bytes": found["slide"].told["bytes"],
        "agrees": found["slide"].told["agrees"] and found["batch"].told["agrees"],
    }


# -- in a process of its own -----------------------------------------------------------------------------------------


def rows_of(values: str, count: int) -> Ints:
    rng = np.random.default_rng(4)
    if values == "uniform":
        return rng.integers(0, 1 << 40, count)
    if values == "heavy-tailed":
        return np.minimum(rng.zipf(1.3, count), 10**9).astype(np.int64)
    return (rng.normal(0, 10_000, count) + np.arange(count)).astype(np.int64)


def setting_of(values: str, window: int, slides: int, way: str) -> Setting:
    """One way, after a run that compiles and whose answers are compared."""
    from panewise.synopses.values.bags import BagSynopsis
    from panewise.synopses.values.runs import run_of

    rows, group = rows_of(values, window + slides * SLICE_ROWS), np.zeros(SLICE_ROWS, np.int64)
    slices, held = rows.reshape(-1, SLICE_ROWS), window // SLICE_ROWS
    ranks = np.random.default_rng(9).integers(1, window + 1, (slides, 1, 1))

    def sorted_window(slide: int) -> Ints:
        return np.sort(rows[(slide + 1) * SLICE_ROWS : (slide + 1) * SLICE_ROWS + window])

    def sort() -> None:
        for i in range(slides):
            sorted_window(i)

    def filled() -> BagSynopsis:
        bag = BagSynopsis()
        bag.insert([run_of(group, piece) for piece in slices[:held]])
        bag.ranked(np.array([0]), np.array([held]), group[:1], ranks[0])
        return bag

    def slide(bag: BagSynopsis) -> list[int]:
        answers = []
        for i in range(slides):
            bag.insert([run_of(group, slices[held + i])])
            bag.evict(bag.after - held)
            answers.append(int(bag.ranked(np.array([bag.first]), np.array([bag.after]), group[:1], ranks[i])[0, 0]))
        return answers

    def sliding() -> Callable[[], list[int]]:
        bag = filled()
        return lambda: slide(bag)

    if way == "sort":
        sort()
        return Setting(lambda: sort, {})
    bag = filled()
    size = bag.bytes_held
    if way == "slide":
        agrees = all(found == sorted_window(i)[ranks[i, 0, 0] - 1] for i, found in enumerate(slide(bag)))
        return Setting(sliding, {"agrees": bool(agrees), "bytes": size})
    starts, ends = np.zeros(BATCH, np.int64), np.full(BATCH, held)
    many = np.random.default_rng(8).integers(1, window + 1, (BATCH, 1))

    def batch() -> Ints:
        return bag.ranked(starts, ends, group[:1], many)[:, 0]

    agrees = np.array_equal(batch(), np.sort(rows[:window])[many[:, 0] - 1])
    return Setting(lambda: lambda: [batch() for _ in range(BATCHES)], {"agrees": agrees, "bytes": size})
