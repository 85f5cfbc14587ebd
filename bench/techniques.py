"""Techniques: SUM, COUNT and MAX by every technique, windows of 1 slice to 4 Mi, one range and 1,000 ranges, one core.

Slices of one row and one group go through the calls of the engine: `insert_from` for new slices, one `answer` for all
windows that they make due, `evict`. Each slide is one slice, and each of the ranges is answered at each slide. The
bare loop reads the same values and folds them into one state of the same kind, nothing else; both run in turn. Each
technique, aggregate, size and number of ranges has a process of its own. An exact
SUM has two words a state; COUNT adds one word, as the sum of the C++ library does whose figures stand beside ours.

What a technique cannot do in reasonable time or memory is left out by rule: a size is not tried where the last one,
times the growth of the window, would take more than TRY_S for a slide or to be filled, or TRY_BYTES of memory, and
not measured where a slide takes more than SLIDE_S.
"""

from __future__ import annotations

import gc
import itertools
import time
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from bench.measure import MEBIBYTE, isolated
from bench.report import Aim, Report
from panewise.aggregates.states import COUNT, MAXIMUM, SUM_INTEGER, Feed
from panewise.arrays import Floats, Ints
from panewise.synopses.synopsis import Synopsis
from panewise.synopses.techniques import TECHNIQUES

KINDS = {"SUM": SUM_INTEGER, "COUNT": COUNT, "MAX": MAXIMUM[Feed.FLOAT]}
SIZES = (1, 1 << 10, 1 << 16, 1 << 22)
QUICK_SIZES = (1, 1 << 6, 1 << 10)
RANGES = (1, 1000)
BATCH = 1 << 14  # answers of one call when throughput is measured
CALLS = 1 << 14  # of which a latency each is taken
TRY_S, SLIDE_S, TRY_BYTES = 5.0, 0.1, 4 << 30
CALL_S = 0.5  # calls are made of fewer answers where they would take longer
# Of a well-known C++ library, one evict, insert and answer per item, sum, million items/s at 1 Ki and 64 Ki.
ELSEWHERE = {
    "subtract_on_evict": (361, 353), "two_stacks": (102, 101), "daba": (113, 113), "flat_fit": (74, 41),
    "flat_fat": (4.2, 3.5),
}  # fmt: skip
# Part of the bare loop's rows/s that is wanted at 64 Ki: technique, aggregate, part.
WANTED = (
    ("subtract_on_evict", "SUM", 0.4), ("r_int", "SUM", 0.4), ("two_stacks", "SUM", 0.2), ("daba", "SUM", 0.2),
    ("slick_deque", "MAX", 0.1),
)  # fmt: skip
PER_ANSWER_WANTED = 50
LOOKUPS_WANTED = 20e6
COLUMNS = (
    *("technique", "aggregate", "window", "ranges", "rows/s", "answers/s", "of bare loop"),
    *("p50 us", "p99 us", "p99.9 us", "max us", "state MiB", "agrees", "left out"),
)


def run(quick: bool) -> Report:
    sizes = QUICK_SIZES if quick else SIZES
    budget_s = 0.02 if quick else 0.3
    report = Report(
        "techniques", "techniques: SUM, COUNT, MAX; one group, slide of one slice, one core, all ranges at once",
        COLUMNS,
    )  # fmt: skip
    figures: dict[tuple[str, str, int, int], dict[str, Any]] = {}
    for name, technique in TECHNIQUES.items():
        # COUNT is there for the comparison with the library that adds one word.
        named = [aggregate for aggregate in KINDS if aggregate != "COUNT" or name in (*ELSEWHERE, "r_int")]
        aggregates = [aggregate for aggregate in named if technique.refusal(KINDS[aggregate]) is None]
        if quick:  # few processes: what aims are about
            aggregates = [aggregate for wanted, aggregate, _ in WANTED if wanted == name]
        for aggregate, ranges in itertools.product(aggregates, RANGES):
            for row in growing(name, aggregate, ranges, sizes, budget_s):
                figures[name, aggregate, row["window"], ranges] = row
                report.rows.append(_shown(row) | {"technique": name})
                report.agree &= row.get("agrees", True)
        if aggregates:
            report.rows[-1]["section"] = True
    alone = isolated(measure_calls, budget_s=budget_s)
    shared = sharing(sizes[-1] if quick else 1 << 10, 50 if quick else 1000)
    lookups = isolated(measure_lookups, window=sizes[-1] if quick else 1 << 16, count=100_000 if quick else 1_000_000)
    report.notes = [
        f"rows/s: calls of {BATCH:,} answers, processor seconds of the calls; of bare loop: runs in turn",
        f"latencies: insert + answer + evict of one slide, called from Python, {CALLS:,} calls one by one",
        f"of that, calls that do nothing: p50 {alone['p50']:.2f}, p99 {alone['p99']:.2f}, max {alone['max']:.1f} us",
        f"max us: the lesser of two turns of the window in {CALLS:,} calls, of several slides from 64 Ki on",
        f"left out: by the last size over {TRY_S:g} s a slide or {TRY_BYTES >> 30} GiB; or over {SLIDE_S:g} s a slide",
        *_elsewhere(figures),
    ]
    _add_aims(report, figures, sizes, shared, lookups)
    return report


def growing(name: str, aggregate: str, ranges: int, sizes: tuple[int, ...], budget_s: float) -> list[dict[str, Any]]:
    """One technique at all sizes that have so many ranges, each in a process of its own unless it is left out."""
    rows: list[dict[str, Any]] = []
    for window in sizes:
        if ranges > window:
            continue
        reason = _too_much(rows[-1], window) if rows else None
        setting = {"aggregate": aggregate, "window": window, "ranges": ranges}
        rows.append(
            setting | ({"left out": reason} if reason else isolated(measure, name=name, **setting, budget_s=budget_s))
        )
    return rows


def _too_much(last: dict[str, Any], window: int) -> str | None:
    """Why a size is not tried, by the figures of the size before."""
    growth = window / last["window"]
    if "left out" in last:
        return "as the size before"
    if max(last["slide_s"], last["fill_s"]) * growth > TRY_S:
        return "too long"
    return "too large" if last["bytes"] * growth > TRY_BYTES else None


def sharing(window: int, count: int) -> dict[str, Any]:
    """Seconds per answer of one structure with many ranges, and of as many structures with one range each."""
    times = {}
    for name, aggregate in (("r_int", "SUM"), ("slick_deque", "MAX")):
        given = {"name": name, "aggregate": aggregate, "window": window, "count": count}
        times[name] = {
            f"{way}_s": isolated(measure_sharing, **given, together=way == "together")["seconds"]
            for way in ("together", "apart")
        }
    return {"times": times, "count": count}


def _shown(row: dict[str, Any]) -> dict[str, Any]:
    return row | {"state MiB": row["bytes"] / MEBIBYTE} if "bytes" in row else row


def _elsewhere(figures: dict[tuple[str, str, int, int], dict[str, Any]]) -> list[str]:
    notes = []
    for name, theirs in ELSEWHERE.items():
        ours = [figures.get((name, "COUNT", window, 1), {}).get("rows/s") for window in (1 << 10, 1 << 16)]
        if None not in ours:
            text = " / ".join(f"{figure / 1e6:.0f}" for figure in ours if figure is not None)
            notes.append(
                f"{name}, sum of one word, M rows/s at 1 Ki / 64 Ki: {text}; C++ library {theirs[0]} / {theirs[1]}"
            )
    return notes


def _add_aims(
    report: Report, figures: dict[tuple[str, str, int, int], dict[str, Any]], sizes: tuple[int, ...],
    shared: dict[str, Any], lookups: dict[str, Any],
) -> None:  # fmt: skip
    middle = sizes[2]
    for name, aggregate, wanted in WANTED:
        row = figures.get((name, aggregate, middle, 1))
        if row is not None and "of bare loop" in row:
            what = f"{name}, {aggregate}, window {middle:,}: part of the bare loop's rows/s"
            report.aims.append(Aim.at_least(what, wanted, row["of bare loop"]))
    for name, times in shared["times"].items():
        ranges = f"{shared['count']:,}"
        what = f"{name}: an answer of {ranges} structures to one of {ranges} ranges at once, one slide a call"
        report.aims.append(Aim.at_least(what, PER_ANSWER_WANTED, times["apart_s"] / times["together_s"], " times"))
    report.aims.append(Aim.at_least("r_int: lookups in a batch", LOOKUPS_WANTED, lookups["lookups_per_s"], "/s"))
    for aggregate in KINDS:
        rows = [figures.get((name, aggregate, sizes[-1], 1), {}) for name in ("daba", "two_stacks")]
        if all("max us" in row for row in rows):
            what = f"{aggregate}: largest latency of daba to that of two_stacks, window {sizes[-1]:,}"
            report.aims.append(Aim.at_most(what, 1.0, rows[0]["max us"] / rows[1]["max us"]))


# -- in a process of its own -----------------------------------------------------------------------------------------


@njit(cache=True)  # type: ignore[untyped-decorator]
def _fold_sum(values: Ints, state: Ints) -> None:
    """An exact sum, in two words as all integer sums here are."""
    high, low = state[0], state[1]
    for i in range(values.shape[0]):
        part = low + (values[i] & 0xFFFFFFFF)
        high += (values[i] >> 32) + (part >> 32)
        low = part & 0xFFFFFFFF
    state[0], state[1] = high, low


@njit(cache=True)  # type: ignore[untyped-decorator]
def _fold_count(values: Ints, state: Ints) -> None:
    count = state[0]
    for i in range(values.shape[0]):
        count += values[i]
    state[0] = count


@njit(cache=True)  # type: ignore[untyped-decorator]
def _fold_max(values: Floats, state: Floats) -> None:
    """NaN is the greatest, as in every MAX here."""
    old = state[0]
    for i in range(values.shape[0]):
        old = values[i] if values[i] > old or values[i] != values[i] else old
    state[0] = old


class Feeder:
    """A synopsis that slides: the same BATCH values over and over, and all ranges answered at each slide."""

    def __init__(self, synopsis: Synopsis, window: int, ranges: int) -> None:
        random = np.random.default_rng(window)
        self.synopsis, self.window = synopsis, window
        self.words = synopsis.kind.int_fields
        whole, real = random.integers(-(2**40), 2**40, BATCH), random.normal(size=BATCH)
        self.values: NDArray[Any] = whole if self.words else real
        words = {0: [], 1: [whole], 2: [whole >> 32, whole & 0xFFFFFFFF]}[self.words]
        self.ints = np.array(words, np.int64).reshape(self.words, BATCH)
        self.floats = np.empty((0, BATCH)) if self.words else real.reshape(1, BATCH)
        self.rooms = np.arange(BATCH, dtype=np.int64)
        self.ranks = np.empty(0, np.int64)
        self.ranges = np.unique(np.ceil(np.arange(1, ranges + 1) * (window / ranges)).astype(np.int64))
        self.batch = max(1, BATCH // len(self.ranges))
        self.shape(self.batch)

    def fill(self) -> None:
        """Slices for the longest window, thrice over: every place of the structure's rings has been written to."""
        while self.synopsis.after < 3 * (self.window + BATCH):
            self.synopsis.insert_from(self.ints, self.floats, self.rooms, self.ranks)
            self.synopsis.evict(self.synopsis.after - self.window)

    def shape(self, slides: int) -> None:
        """Calls have so many slides from now on."""
        behind = np.repeat(np.arange(1, slides + 1, dtype=np.int64), len(self.ranges))
        self.slides = slides
        self.base_ends, self.base_starts = behind, behind - np.tile(self.ranges, slides)
        several = len(self.ranges) > 1
        self.numbers = np.tile(np.arange(len(self.ranges), dtype=np.int64), slides) if several else None

    def prepare(self) -> tuple[Ints, Ints, Ints]:
        """The arguments of a call, made before the clock starts."""
        after = self.synopsis.after
        place = after % BATCH
        rooms = (
            self.rooms[place : place + self.slides]
            if place + self.slides <= BATCH
            else (self.rooms[: self.slides] + place) % BATCH
        )
        return rooms, after + self.base_starts, after + self.base_ends

    def call(self, rooms: Ints, starts: Ints, ends: Ints) -> tuple[Ints, Floats]:
        synopsis = self.synopsis
        synopsis.insert_from(self.ints, self.floats, rooms, self.ranks)
        answers = synopsis.answer(starts, ends, self.ranks, None, self.numbers)
        synopsis.evict(synopsis.after - self.window)
        return answers

    def bare(self) -> None:
        if self.words:
            fold = _fold_sum if self.words == 2 else _fold_count
            fold(self.values, np.zeros(2, np.int64))
        else:
            _fold_max(self.values, np.full(1, -np.inf))

    def agrees(self) -> bool:
        """The last slide's answers against NumPy's, of all ranges or a hundred of them."""
        rooms, starts, ends = self.prepare()
        ints, floats = self.call(rooms, starts, ends)
        last = len(starts) - len(self.ranges)
        for place in range(0, len(self.ranges), max(1, len(self.ranges) // 100)):
            q = last + place
            turns, rest = divmod(int(ends[q] - starts[q]), BATCH)
            places = (int(starts[q]) + np.arange(rest)) % BATCH
            if self.words:
                wanted = turns * int(self.values.sum()) + int(self.values[places].sum())
                had = int(ints[0, q, 0]) if self.words == 1 else int(ints[0, q, 0]) * 2**32 + int(ints[1, q, 0])
                if had != wanted:
                    return False
            elif floats[0, q, 0] != (self.values if turns else self.values[places]).max():
                return False
        return True


def measure(name: str, aggregate: str, window: int, ranges: int, budget_s: float) -> dict[str, Any]:
    """One technique, aggregate, size and number of ranges."""
    technique, kind = TECHNIQUES[name], KINDS[aggregate]
    # The same on no larger a scale: compiled, or loaded, before anything is timed.
    warm = Feeder(technique.made(kind, 1), min(window, 64), min(ranges, 64))
    warm.fill()
    warm.call(*warm.prepare())
    feeder = Feeder(technique.made(kind, 1), window, ranges)
    begin = time.thread_time()
    feeder.fill()
    fill_s = time.thread_time() - begin
    feeder.shape(1)
    feeder.call(*feeder.prepare())  # compiled, or loaded; structures per window begin here
    slide_s = min(_seconds(feeder) for _ in range(3))
    figure = {"bytes": feeder.synopsis.bytes_held, "slide_s": slide_s, "fill_s": fill_s}
    if slide_s > SLIDE_S:
        return figure | {"left out": f"{slide_s:.2g} s a slide"}
    agrees = feeder.agrees()
    feeder.shape(max(1, min(feeder.batch, int(CALL_S / slide_s))))
    figure |= throughput(feeder, budget_s)
    agrees &= feeder.agrees()
    figure |= latencies(feeder, budget_s)
    return figure | {"bytes": feeder.synopsis.bytes_held, "agrees": agrees and feeder.agrees()}


def _seconds(feeder: Feeder) -> float:
    arguments = feeder.prepare()
    begin = time.thread_time_ns()
    feeder.call(*arguments)
    return (time.thread_time_ns() - begin) / 1e9


def throughput(feeder: Feeder, budget_s: float) -> dict[str, Any]:
    """Batches and bare loops in turn, until the window has turned and the budget is spent, or three budgets."""
    feeder.bare()
    taken: list[float] = []
    bare: list[float] = []
    slides = 0
    while sum(taken) < budget_s or (slides < feeder.window and sum(taken) < 3 * budget_s):
        taken.append(_seconds(feeder))
        slides += feeder.slides
        begin = time.thread_time_ns()
        feeder.bare()
        bare.append((time.thread_time_ns() - begin) / 1e9 / BATCH)
    seconds = sum(taken) / slides
    return {
        "rows/s": 1 / seconds,
        "answers/s": len(feeder.ranges) / seconds,
        "of bare loop": sum(bare) / len(bare) / seconds,
    }


def latencies(feeder: Feeder, budget_s: float) -> dict[str, Any]:
    """Single slides; and, for the worst call, two turns of the window: what a busy machine adds hits one of them.

    A turn has so many calls, so that with large windows a call has several slides: they take far less than a technique
    whose worst slide goes through the window.
    """
    alone = len(feeder.ranges) == 1
    feeder.shape(max(1, feeder.window // CALLS) if alone else 1)
    turns = [_latencies(feeder, CALLS, 15 * budget_s if alone else budget_s) for _ in range(2)]
    worst = float(min(turn.max() for turn in turns)) / 1e3
    if feeder.slides > 1:
        feeder.shape(1)
        turns = [_latencies(feeder, CALLS, budget_s)]
    return _quantiles(np.concatenate(turns)) | {"max us": worst}


def _latencies(feeder: Feeder, count: int, budget_s: float) -> Ints:
    """Nanoseconds of each call, at most so many calls and little longer than the budget."""
    taken = np.zeros(count, np.int64)
    clock = time.thread_time_ns
    gc.disable()
    give_up = clock() + int(budget_s * 1e9)
    done = 0
    while done < count and (done < 10 or clock() < give_up):
        rooms, starts, ends = feeder.prepare()
        begin = clock()
        feeder.call(rooms, starts, ends)
        taken[done] = clock() - begin
        done += 1
    gc.enable()
    return taken[:done]


def _quantiles(taken: Ints) -> dict[str, float]:
    p50, p99, p999 = np.quantile(taken, [0.5, 0.99, 0.999]) / 1e3
    return {"p50 us": float(p50), "p99 us": float(p99), "p99.9 us": float(p999)}


class _Nothing:
    """The calls of a synopsis, without a synopsis: what of a latency is Python and the clock."""

    def __init__(self) -> None:
        self.kind, self.width, self.first, self.after = SUM_INTEGER, 1, 0, 0
        self._answers = np.zeros((2, 1, 1), np.int64), np.empty((0, 1, 1))

    def insert_from(self, ints: Ints, floats: Floats, rooms: Ints, ranks: Ints) -> None:
        self.after += len(rooms)

    def answer(
        self, starts: Ints, ends: Ints, ranks: Ints, groups: int | None = None, windows: Ints | None = None
    ) -> tuple[Ints, Floats]:
        return self._answers

    def evict(self, before: int) -> None:
        self.first = before


def measure_calls(budget_s: float) -> dict[str, Any]:
    feeder = Feeder(_Nothing(), 1, 1)  # type: ignore[arg-type]
    feeder.shape(1)
    taken = _latencies(feeder, CALLS, max(budget_s, 0.1))
    quantiles = {name.removesuffix(" us"): value for name, value in _quantiles(taken).items()}
    return quantiles | {"max": float(taken.max()) / 1e3}


def measure_sharing(name: str, aggregate: str, window: int, count: int, together: bool) -> dict[str, Any]:
    """Seconds per answer, one slide a call: one structure of many ranges, or as many structures of one range each."""
    technique, kind = TECHNIQUES[name], KINDS[aggregate]
    whole = Feeder(technique.made(kind, 1), window, count)
    feeders = [whole] if together else [Feeder(technique.made(kind, 1), int(r), 1) for r in whole.ranges]
    for feeder in feeders:
        feeder.fill()
        feeder.shape(1)
        feeder.call(*feeder.prepare())
    slides = [sum(_seconds(feeder) for feeder in feeders) for _ in range(200 if together else 5)]
    return {"seconds": float(np.median(slides)) / len(whole.ranges)}


def measure_lookups(window: int, count: int) -> dict[str, Any]:
    """Random windows of random lengths, all in one call."""
    from panewise.synopses.windows.running import RunningSynopsis

    feeder = Feeder(RunningSynopsis(SUM_INTEGER, 1), window, 1)
    feeder.fill()
    synopsis, random = feeder.synopsis, np.random.default_rng(1)
    pairs = np.sort(random.integers(synopsis.first, synopsis.after + 1, (count, 2)), axis=1)
    starts, ends = np.ascontiguousarray(pairs[:, 0]), np.ascontiguousarray(pairs[:, 1])
    taken = []
    for _ in range(7):
        begin = time.thread_time_ns()
        synopsis.answer(starts, ends, feeder.ranks)
        taken.append(time.thread_time_ns() - begin)
    return {"lookups_per_s": count / (float(np.median(taken)) / 1e9)}
