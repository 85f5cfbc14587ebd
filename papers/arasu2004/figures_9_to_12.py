"""Resource sharing in sliding-window aggregates: Arasu and Widom 2004, figures 9 to 12.

    figure 9    inputs a second, updates and lookups mixed, against the share of updates, 1,000 windows of 1 to 1,000
                rows: R-INT, B-INT, PSoup, and the two extremes, all answers or no answers materialised; also of 100 to
                100,000 rows, because a machine of today adds up a thousand numbers as fast as it is asked to
    figure 10   updates a second against the longest window: R-INT (SUM), B-INT (MAX), B-INT-QNT (QUANTILE)
    figure 11   lookups a second against the window, suffix and historical, the longest one being 100,000 rows
    figure 12   substream filters, see `substream_filters.py`

Every row is a slice of its own. Inputs come in batches, as the engine hands them on: of a batch's inputs the updates
enter in one call and the lookups are asked in one call. The first answers
of figure 9 are compared with the sums of the rows, all of figure 12 with each other.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from time import process_time

import numpy as np
from rich.console import Console

from panewise.aggregates.states import COUNT, MAXIMUM, Feed, StateKind
from panewise.arrays import Ints
from panewise.synopses.synopsis import Synopsis
from panewise.synopses.values.bags import BagSynopsis
from panewise.synopses.windows.interval import IntervalSynopsis
from panewise.synopses.windows.materialize_all import MaterializeAll
from panewise.synopses.windows.panes_synopsis import Panes
from panewise.synopses.windows.psoup import PSoup
from panewise.synopses.windows.running import RunningSynopsis
from papers.arasu2004.substream_filters import FilterOutcome, Trades, measured
from papers.plots import Panel
from papers.shown import figures_console, show_plot, show_table

Rates = dict[str, list[float]]
NO_RANKS = np.empty(0, np.int64)
# A count adds up int64 numbers, and so is the SUM of the paper.
SUM, MAX = COUNT, MAXIMUM[Feed.INTEGER]
WINDOWS = 1000
BATCH = 100
SHARES = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99)  # not 1: some put work off until something is asked
SPREADS = (1, 100)  # rows from one window to the next longer one
LONGEST = (1_000, 10_000, 100_000)
WIDTHS = (10, 100, 1_000, 10_000, 100_000)
LEVELS = (1, 2, 4, 8, 16)
SELECTIVITIES = (0.04, 0.02, 0.01, 0.005)
FASTER_WANTED = 15.0
ALGORITHMS: dict[str, Callable[[StateKind, int], Synopsis]] = {
    "R-INT": RunningSynopsis,
    "B-INT": IntervalSynopsis,
    "PSoup": PSoup,
    "materialize all": MaterializeAll,
    "materialize none": Panes,
}


def run(quick: bool, folder: Path | None) -> int:
    console = figures_console()
    wrong = figure_9(console, quick)
    figure_10(console, quick)
    figure_11(console, quick)
    wrong |= figure_12(console, quick)
    return int(wrong)


def _rates_shown(console: Console, title: str, axis: str, points: list[str], rates: Rates) -> None:
    rows = [[name, *(f"{rate:,.0f}" for rate in line)] for name, line in rates.items()]
    show_table(console, title, [axis, *points], rows)


# -- figure 9 ----------------------------------------------------------------------------------------------------------


def figure_9(console: Console, quick: bool) -> bool:
    """Returns whether some answer was wrong."""
    panels, wrong = [], False
    for spread in SPREADS[:1] if quick else SPREADS:
        rates: Rates = {}
        for name, made in ALGORITHMS.items():
            found = [input_rate(made, spread, share, 0.05 if quick else 0.3) for share in SHARES]
            rates[name] = [rate for rate, _ in found]
            wrong |= not all(agrees for _, agrees in found)
        title = f"{WINDOWS:,} windows of up to {WINDOWS * spread:,} rows"
        points = [f"{share:g}" for share in SHARES]
        full = f"figure 9: inputs a second by the share of updates, {title}, batches of {BATCH} inputs"
        _rates_shown(console, full, "share of updates", points, rates)
        lines = {name: (SHARES, line) for name, line in rates.items()}
        panels.append(Panel(f"figure 9: {title}", "share of updates", "inputs / s", lines, log_y=True))
    if wrong:
        console.print("some answer was wrong: the rates mean nothing", style="bold red")
    show_plot(console, "papers-arasu2004_9", panels)
    return wrong


def input_rate(
    made: Callable[[StateKind, int], Synopsis], spread: int, share: float, seconds: float
) -> tuple[float, bool]:
    """Inputs a second of processor time at this share of updates, and whether the first answers were right."""
    random = np.random.default_rng(9)
    synopsis = made(SUM, 1)
    longest, updates = WINDOWS * spread, round(share * BATCH)
    recent = random.integers(0, 1000, longest)
    _update(synopsis, recent, longest)
    # Every window is asked for once: what keeps answers up to date knows of all of them from then on.
    _lookup(synopsis, np.arange(1, WINDOWS + 1), spread)
    agrees, spent, inputs = True, 0.0, 0
    while spent < seconds:
        fresh = random.integers(0, 1000, updates)
        windows = random.integers(1, WINDOWS + 1, BATCH - updates)
        begin = process_time()
        _update(synopsis, fresh, longest)
        answers = _lookup(synopsis, windows, spread)
        spent += process_time() - begin
        inputs += BATCH
        if inputs <= 20 * BATCH:
            recent = np.concatenate([recent, fresh])[-longest:]
            agrees &= bool((answers == np.cumsum(recent[::-1])[windows * spread - 1]).all())
    return inputs / spent, agrees


def _update(synopsis: Synopsis, values: Ints, longest: int) -> None:
    if len(values):
        synopsis.insert(values.reshape(1, -1, 1), np.empty((0, len(values), 1)), NO_RANKS)
        synopsis.evict(synopsis.after - longest)


def _lookup(synopsis: Synopsis, windows: Ints, spread: int) -> Ints:
    """The answers of suffix windows; window n is of n times the spread's rows."""
    ends = np.full(len(windows), synopsis.after)
    return synopsis.answer(ends - windows * spread, ends, NO_RANKS, 1, windows - 1)[0][0, :, 0]


# -- figures 10 and 11 -------------------------------------------------------------------------------------------------


class _Quantiles:
    """B-INT-QNT: single values as runs."""

    def __init__(self) -> None:
        self._bag = BagSynopsis()
        self._group = np.zeros(1, np.int64)

    def update(self, values: Ints, longest: int) -> None:
        ones, groups = np.ones(len(values), np.int64), np.zeros(len(values), np.int64)
        self._bag.insert_joined(ones, groups, values, ones)
        self._bag.evict(self._bag.after - longest)

    def lookup(self, starts: Ints, ends: Ints) -> None:
        """Medians; the sorted arrays of intervals that are needed for the first time are made here."""
        ranks = ((ends - starts + 1) // 2).reshape(-1, 1)
        self._bag.ranked(starts, ends, self._group, ranks)

    @property
    def after(self) -> int:
        return self._bag.after


class _Sliced:
    """R-INT and B-INT over single rows."""

    def __init__(self, synopsis: Synopsis) -> None:
        self._synopsis = synopsis

    def update(self, values: Ints, longest: int) -> None:
        self._synopsis.insert(values.reshape(1, -1, 1), np.empty((0, len(values), 1)), NO_RANKS)
        self._synopsis.evict(self._synopsis.after - longest)

    def lookup(self, starts: Ints, ends: Ints) -> None:
        self._synopsis.answer(starts, ends, NO_RANKS, 1)

    @property
    def after(self) -> int:
        return self._synopsis.after


BASIC: dict[str, Callable[[], _Sliced | _Quantiles]] = {
    "R-INT (SUM)": lambda: _Sliced(RunningSynopsis(SUM, 1)),
    "B-INT (MAX)": lambda: _Sliced(IntervalSynopsis(MAX, 1)),
    "B-INT-QNT (QUANTILE)": _Quantiles,
}


def figure_10(console: Console, quick: bool) -> None:
    longest = LONGEST[:2] if quick else LONGEST
    seconds = 0.05 if quick else 0.5
    rates = {name: [update_rate(made(), window, seconds) for window in longest] for name, made in BASIC.items()}
    _rates_shown(
        console, "figure 10: updates a second by the longest window", "rows", [f"{n:,}" for n in longest], rates
    )
    lines = {name: (longest, line) for name, line in rates.items()}
    show_plot(console, "papers-arasu2004_10", [Panel("figure 10", "longest window", "updates / s", lines, True, True)])


def update_rate(kept: _Sliced | _Quantiles, longest: int, seconds: float) -> float:
    """Of a full window. After a batch the whole window is asked for once, so that no work is put off beyond it."""
    random = np.random.default_rng(10)
    batch = 1000
    spent, updates = 0.0, 0
    while kept.after < 2 * longest or spent < seconds:
        values = random.integers(0, 1 << 40, batch)
        begin = process_time()
        kept.update(values, longest)
        if kept.after > longest:
            kept.lookup(np.array([kept.after - longest]), np.array([kept.after]))
        if kept.after > 2 * longest:
            spent += process_time() - begin
            updates += batch
    return updates / spent


def figure_11(console: Console, quick: bool) -> None:
    widths = WIDTHS[:3] if quick else WIDTHS
    seconds = 0.05 if quick else 0.5
    rates: Rates = {}
    for name, made in BASIC.items():
        kept = made()
        longest = widths[-1]
        random = np.random.default_rng(11)
        for _ in range(max(1, longest // 1000)):
            kept.update(random.integers(0, 1 << 40, 1000), longest)
        rates[name] = [lookup_rate(kept, longest, width, seconds) for width in widths]
    title = f"figure 11: lookups a second by the window, of the last {widths[-1]:,} rows, suffix and historical"
    _rates_shown(console, title, "rows", [f"{n:,}" for n in widths], rates)
    lines = {name: (widths, line) for name, line in rates.items()}
    show_plot(console, "papers-arasu2004_11", [Panel("figure 11", "window", "lookups / s", lines, True, True)])


def lookup_rate(kept: _Sliced | _Quantiles, longest: int, width: int, seconds: float) -> float:
    random = np.random.default_rng(width)
    first = max(0, kept.after - longest)
    spent, lookups = 0.0, -BATCH * 10  # the first batch makes what is made when first needed
    while spent < seconds or lookups <= 0:
        starts = np.sort(random.integers(first, kept.after - width + 1, BATCH * 10))
        begin = process_time()
        kept.lookup(starts, starts + width)
        spent += process_time() - begin if lookups >= 0 else 0.0
        lookups += BATCH * 10
    return lookups / spent


# -- figure 12 ---------------------------------------------------------------------------------------------------------


def figure_12(console: Console, quick: bool) -> bool:
    """Returns whether some answer was wrong."""
    trades = Trades.drawn(*(500, 50_000) if quick else (5000, 1_000_000))
    count, repeat = (100, 1) if quick else (1500, 3)
    wrong = False
    rows, lines = [], {}
    naive = measured(trades, SELECTIVITIES[0], 0, False, count, repeat)
    rows.append(_outcome_cells("naive", "", naive, naive))
    best: FilterOutcome | None = None
    for trusts in (False, True):
        outcomes = [measured(trades, SELECTIVITIES[0], levels, trusts, count, repeat) for levels in LEVELS]
        for outcome in outcomes:
            error = max(0 if outcome.levels == 1 else 2 / (outcome.levels + 2), 3 / (2 * outcome.levels + 2))
            name = f"CI-COUNT, p = {outcome.levels}" + (", sure ones not asked" if trusts else "")
            rows.append(_outcome_cells(name, f"{error:.3f}", outcome, naive))
            wrong |= not np.array_equal(outcome.answers, naive.answers)
            best = outcome if best is None or outcome.inputs_per_s > best.inputs_per_s else best
        label = "sure ones not asked" if trusts else "all candidates asked"
        lines[label] = (LEVELS, [outcome.inputs_per_s for outcome in outcomes])
    lines["naive"] = (LEVELS, [naive.inputs_per_s for _ in LEVELS])
    assert best is not None
    title = f"figure 12: {trades.substreams:,} substreams, selectivity {SELECTIVITIES[0]}, one lookup after each update"
    columns = ["approach", "error", "inputs/s", "times naive", "asked a lookup", "pass", "MiB"]
    show_table(console, title, columns, rows)
    chosen = {SELECTIVITIES[0]: (best, naive)}
    for selectivity in SELECTIVITIES[1:]:
        # The more selective, the less a lookup costs and the fewer levels pay for their updates.
        rivals = [measured(trades, selectivity, levels, True, count, repeat) for levels in (0, *LEVELS[1:4])]
        wrong |= not all(np.array_equal(rival.answers, rivals[0].answers) for rival in rivals)
        chosen[selectivity] = max(rivals[1:], key=lambda outcome: outcome.inputs_per_s), rivals[0]
    ratios = {selectivity: a.inputs_per_s / b.inputs_per_s for selectivity, (a, b) in chosen.items()}
    cells = [[f"{s}", f"{chosen[s][0].levels}", f"{ratio:.1f}", f"{1 / s:.0f}"] for s, ratio in ratios.items()]
    title = "CI-COUNT with the best p by selectivity"
    show_table(console, title, ["selectivity", "p", "times naive", "1 / selectivity"], cells)
    _aim(console, "all approaches gave the same answers", not wrong)
    if quick:
        console.print("  the aims of speed are those of the full size", style="dim")
    else:
        first = ratios[SELECTIVITIES[0]]
        said = f"wanted >= {FASTER_WANTED:g}, measured {first:.1f}"
        _aim(console, f"exact lookups, times naive at {SELECTIVITIES[0]}: {said}", first >= FASTER_WANTED)
        growing = all(a < b for a, b in pairwise(ratios.values()))
        _aim(console, "the factor grows as the condition gets more selective", growing)
    show_plot(console, "papers-arasu2004_12", [Panel("figure 12", "p", "inputs / s", lines, log_x=True)])
    return wrong


def _aim(console: Console, what: str, met: bool) -> None:
    console.print(f"  {'met   ' if met else 'MISSED'}  {what}", style="green" if met else "bold red")


def _outcome_cells(name: str, error: str, outcome: FilterOutcome, naive: FilterOutcome) -> list[str]:
    times = outcome.inputs_per_s / naive.inputs_per_s
    mebibytes = outcome.bytes_held / 2**20
    return [
        name, error, f"{outcome.inputs_per_s:,.0f}", f"{times:.1f}", f"{outcome.asked:,.0f}", f"{outcome.passing:,.0f}",
        f"{mebibytes:,.1f}",
    ]  # fmt: skip
