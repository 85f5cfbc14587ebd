"""Frequent items in sliding windows: Golab 2006, figure 6.3 (a) to (f), on a connection trace.

The items are the source addresses of the trace, in the order of their time stamps, as in the paper, whose trace is
another one. Sub-windows are of b = 20, 100 and 500 rows, k runs from 1 to 10, and a hundred windows begin at random.
The paper's window of 100,000 rows is nearly the whole of this trace, so that all of its windows are much the same one:
a second size, a fifth of it, lets them differ. All windows of a setting are answered from one synopsis in one call.

What is measured, as means over the windows; the exact counts of a brute-force pass are the truth:

    (a) delta          the threshold, as a share of the window      (b) over       items that occur more than delta
    (c) reported       items that the algorithm reports             (d) found      reported / over
    (e) pairs          value and count pairs kept: of the lists of all sub-windows, and of the counters of the window
    (f) error          (true count - reported count) / true count, of the items reported
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from panewise.arrays import Ints
from panewise.synopses.values.frequent import FrequentSynopsis
from panewise.synopses.values.runs import Run, run_of
from papers.connection_trace import connections, source_numbers, trace_path
from papers.plots import Panel
from papers.shown import figures_console, show_plot

WINDOWS = (100_000, 20_000)  # rows
SUB_WINDOWS = (20, 100, 500)  # rows
COUNTERS = range(1, 11)
STARTS = 100
FOUND_WANTED = 0.8  # for k >= 3
ERROR_WANTED = 0.02  # for b = 20, k >= 7
ONE_GROUP = np.zeros(1, np.int64)


@dataclass(frozen=True)
class FrequentOutcome:
    """The means over all windows of one setting; NaN where nothing is over the threshold, or nothing reported."""

    window: int
    sub_window: int
    k: int
    delta: float
    over: float
    reported: float
    found: float
    false: int
    pairs: float
    error: float


def run(quick: bool, folder: Path | None) -> int:
    console = figures_console()
    items = source_addresses(trace_path(folder))
    console.print(f"{len(items):,} rows, {items.max() + 1:,} source addresses")
    failed = False
    for window in (10_000,) if quick else WINDOWS:
        outcomes = list(measured(items, window, 20 if quick else STARTS))
        _show(console, window, outcomes)
        failed |= any(outcome.false for outcome in outcomes)
        show_plot(console, f"papers-golab2006-ch6_{window}", panels(outcomes))
    return int(failed)


def source_addresses(path: Path) -> Ints:
    """The sources of all connections in the order of their starts, as small numbers."""
    return source_numbers(connections(path, ["id.orig_h"]))


def measured(items: Ints, window: int, starts: int) -> Iterator[FrequentOutcome]:
    for sub_window in SUB_WINDOWS:
        count, length = len(items) // sub_window, window // sub_window
        slices = items[: count * sub_window].reshape(count, sub_window)
        runs = [run_of(np.zeros(sub_window, np.int64), rows) for rows in slices]
        begins = np.random.default_rng(6).integers(0, count - length + 1, starts)
        types = int(items.max()) + 1
        truth = [np.bincount(slices[begin : begin + length].ravel(), minlength=types) for begin in begins]
        for k in COUNTERS:
            yield _outcome(window, sub_window, k, runs, begins, truth)


def _outcome(window: int, sub_window: int, k: int, runs: list[Run], begins: Ints, truth: list[Ints]) -> FrequentOutcome:
    synopsis = FrequentSynopsis(k)
    synopsis.insert(runs)
    asked = begins, begins + window // sub_window, ONE_GROUP
    deltas = synopsis.threshold(*asked)[:, 0]
    offsets, values, counts = synopsis.report(*asked)
    listed = np.concatenate([[0], np.cumsum([len(run) for run in synopsis.held()[0]])])
    counters = np.diff(synopsis.counters(*asked)[0])
    found, errors, over, false = [], [], [], 0
    for trial, (delta, exact) in enumerate(zip(deltas, truth, strict=True)):
        piece = slice(offsets[trial], offsets[trial + 1])
        actual = exact[values[piece]]
        over.append(int((exact > delta).sum()))
        false += int((actual <= delta).sum())
        errors += ((actual - counts[piece]) / actual).tolist()
        if over[-1]:
            found.append(len(actual) / over[-1])
    pairs = listed[asked[1]] - listed[begins] + counters
    return FrequentOutcome(
        window, sub_window, k, float(deltas.mean()) / window, float(np.mean(over)), len(values) / len(begins),
        float(np.mean(found)) if found else np.nan, false, float(pairs.mean()),
        float(np.mean(errors)) if errors else np.nan,
    )  # fmt: skip


def panels(outcomes: list[FrequentOutcome]) -> list[Panel]:
    """The six plots of the figure."""

    def panel(title: str, y: str, name: str, factor: float = 1.0) -> Panel:
        lines = {}
        for sub_window in SUB_WINDOWS:
            chosen = [outcome for outcome in outcomes if outcome.sub_window == sub_window]
            lines[f"b = {sub_window}"] = (
                [float(outcome.k) for outcome in chosen],
                [factor * float(getattr(outcome, name)) for outcome in chosen],
            )
        return Panel(title, "k", y, lines)

    return [
        panel("(a) threshold", "delta, % of the window", "delta", 100),
        panel("(b) items over the threshold", "items", "over"),
        panel("(c) items reported", "items", "reported"),
        panel("(d) share found", "% of the items over the threshold", "found", 100),
        panel("(e) space", "pairs of value and count", "pairs"),
        panel("(f) relative error", "% of the true count", "error", 100),
    ]


def _show(console: Console, window: int, outcomes: list[FrequentOutcome]) -> None:
    table = Table(title=f"figure 6.3, N = {window:,} rows", title_justify="left", title_style="bold")
    names = ("b", "k", "(a) delta %", "(b) over", "(c) reported", "(d) found %", "false", "(e) pairs", "(f) error %")
    for name in names:
        table.add_column(name, justify="right")
    for outcome in outcomes:
        table.add_row(
            str(outcome.sub_window), str(outcome.k), f"{100 * outcome.delta:.2f}", f"{outcome.over:.2f}",
            f"{outcome.reported:.2f}", _percent(outcome.found, 1), str(outcome.false), f"{outcome.pairs:,.0f}",
            _percent(outcome.error, 2), end_section=outcome.k == max(COUNTERS),
        )  # fmt: skip
    console.print(table)
    for line in _aims(outcomes):
        console.print(line)


def _percent(share: float, digits: int) -> str:
    return "" if np.isnan(share) else f"{100 * share:.{digits}f}"


def _aims(outcomes: list[FrequentOutcome]) -> Iterator[str]:
    """What the paper says of its trace, and what is found on this one."""
    false = sum(outcome.false for outcome in outcomes)
    yield f"  aim: false reports: 0; measured {false}: {_mark(not false)}"
    found = [outcome for outcome in outcomes if outcome.k >= 3 and not np.isnan(outcome.found)]
    mean, least = float(np.mean([outcome.found for outcome in found])), min(found, key=lambda outcome: outcome.found)
    reached = sum(outcome.found >= FOUND_WANTED for outcome in found)
    yield (
        f"  aim: share found for k >= 3, mean of all settings (the general trend, as the paper says): "
        f">= {FOUND_WANTED:.0%}; measured {mean:.1%}: {_mark(mean >= FOUND_WANTED)}"
    )
    yield (
        f"  aim: share found for k >= 3, each setting: >= {FOUND_WANTED:.0%}; measured in {reached} of {len(found)}, "
        f"least {least.found:.1%} at b = {least.sub_window}, k = {least.k}: {_mark(reached == len(found))}"
    )
    error = max(o.error for o in outcomes if o.sub_window == 20 and o.k >= 7)
    yield (
        f"  aim: relative error at b = 20, k >= 7: < {ERROR_WANTED:.0%}; "
        f"measured {error:.2%}: {_mark(error < ERROR_WANTED)}"
    )


def _mark(met: bool) -> str:
    return "[green]met[/]" if met else "[red]NOT MET[/]"
