"""Subsuming many sliding windows: Patroumpas and Sellis 2011, section 5, figures 10 to 12.

    figure 10   groups, and the time to find them, for 1,000 to 10,000 windows in three classes: smooth, medium and
                abrupt windows have slides of up to 10, 20 and 30 timestamps, and longer ranges of up to 60
    figure 11   bytes of state by the number of windows: stairs, one shared synopsis, one structure per window, and, as
                a sum, what windows hold that keep their own rows, which is what the paper compares with
    figure 12   milliseconds per timestamp for all answers of 10,000 windows by the rate of rows, for SUM; at the
                highest rate also for MAX and DISTINCT (how many values, not which)

The paper says that ranges are longer than slides, and its structure needs multiples of them: figure 10 has ranges of
both kinds, the others have multiples. The paper's connections are not at hand: rows are drawn, few values frequent. One
structure per window is measured for some of them and multiplied by the number of windows, which share nothing. All
answers are compared with those from the rows alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from time import process_time

import numpy as np
from rich.console import Console

from panewise.arrays import Ints
from papers.patroumpas2011.window_pools import STRUCTURES, Pool, PoolOutcome, drawn_rows, measured
from papers.plots import Panel
from papers.shown import figures_console, show_plot, show_table

CLASSES = {"smooth": 10, "medium": 20, "abrupt": 30}
ALONE = "one per window"
ROW_BYTES = 8
HANDFUL = 10  # groups
CONSTANT = 2.0  # times the bytes, for ten times the windows
SECONDS_WANTED = 2.0


@dataclass(frozen=True)
class Size:
    """How much is measured: the rates are rows a timestamp, which is a second."""

    counts: tuple[int, ...]
    rates: tuple[int, ...]
    timestamps: int
    alone: int  # windows that are measured of those with a structure of their own
    repeats: int
    batches: int  # different timestamps' rows: a prime, so that no window meets the same ones in every report


FULL = Size((1_000, 2_000, 5_000, 10_000), (10_000, 20_000, 50_000, 100_000), 240, 60, 5, 97)
QUICK = Size((1_000, 2_000), (1_000, 10_000), 20, 5, 1, 13)


def run(quick: bool, folder: Path | None) -> int:
    console = figures_console()
    size = QUICK if quick else FULL
    rows = {rate: drawn_rows(rate, size.batches) for rate in size.rates}
    figure_10(console, size.counts)
    agrees = figure_11(console, size, rows[size.rates[-1]])
    agrees &= figure_12(console, size, rows)
    console.print("every answer is that of the rows alone" if agrees else "[bold red]some answer was wrong[/]")
    return int(not agrees)


def _agreement(console: Console, paper: str, here: str, met: bool) -> None:
    console.print(f"  the paper: {paper}; here: {here}: {'[green]agrees[/]' if met else '[red]DIFFERS[/]'}")


# -- figure 10 ---------------------------------------------------------------------------------------------------------


def groups_by_seed(pool: Pool) -> int:
    """How many groups there are when windows go to the group whose seed has the longest slide, as in the paper."""
    lasts: list[tuple[int, int, int]] = []  # slide of the seed, range and slide of the last window; seeds descend
    for range_, slide in sorted({*zip(pool.ranges.tolist(), pool.slides.tolist(), strict=True)}):
        place = next((i for i, last in enumerate(lasts) if slide % last[2] == 0), None)
        if place is None:
            lasts.append((slide, range_, slide))
            lasts.sort(key=lambda last: -last[0])
        elif lasts[place][1] != range_:
            lasts[place] = lasts[place][0], range_, slide
    return len(lasts)


def _last(panel: Panel) -> int:
    """The most groups of any class for the most windows."""
    return int(max(line[-1] for _, line in panel.lines.values()))


def figure_10(console: Console, counts: tuple[int, ...]) -> None:
    cells, panels, most = [], [], {}
    for whole in (True, False):
        kind = "multiples of the slide" if whole else "any"
        lines = {}
        for name, slide_max in CLASSES.items():
            found = []
            for count in counts:
                pool = Pool.drawn(slide_max, count, whole)
                begin = process_time()
                grouping = pool.grouped()
                spent = process_time() - begin
                found.append(grouping.group_count)
                enclosing = sum(len(group.chain) for group in grouping.groups) - len(grouping.groups)
                cells.append(
                    [name, kind, f"{count:,}", str(found[-1]), str(groups_by_seed(pool)), str(enclosing),
                     f"{count - enclosing - found[-1]:,}", f"{1000 * spent:.1f}"]
                )  # fmt: skip
            lines[name] = (counts, found)
        most[kind] = max(groups for _, line in lines.values() for groups in line)
        panels.append(Panel(f"figure 10: ranges {kind}", "windows", "groups", lines))
    columns = ["class", "ranges", "windows", "groups", "in the paper's order", "enclosing", "piggybacked", "ms"]
    show_table(console, "figure 10: groups of subsumed windows", columns, cells)
    for kind, groups in most.items():
        _agreement(
            console,
            "a handful of groups for any number of windows",
            f"ranges {kind}: at most {groups}",
            groups <= HANDFUL,
        )
    said = ", ".join(f"{panel.title.removeprefix('figure 10: ')}: at most {_last(panel)}" for panel in panels)
    _agreement(console, f"a handful of groups for {counts[-1]:,} windows", said, max(map(_last, panels)) <= HANDFUL)
    show_plot(console, "papers-patroumpas2011_10", panels)


# -- figure 11 ---------------------------------------------------------------------------------------------------------


def outcome(aggregate: str, structure: str, pool: Pool, batches: list[Ints], size: Size) -> PoolOutcome:
    """Of one structure for all windows; of one per window, from some of them."""
    if structure != ALONE:
        return measured(aggregate, structure, pool, batches, size.timestamps)
    some = pool.some(size.alone)
    found = measured(aggregate, structure, some, batches, min(size.timestamps, 60))
    times = len(pool) / len(some)
    return PoolOutcome(found.seconds * times, found.answers * times, round(found.bytes_held * times), found.agrees)


def figure_11(console: Console, size: Size, batches: list[Ints]) -> bool:
    """Returns whether all answers were right."""
    agrees, growths, cells, panels = True, [], [], []
    names, counts = ["stairs", "R-INT", ALONE], size.counts
    for name, slide_max in CLASSES.items():
        held: dict[str, list[float]] = {structure: [] for structure in (*names, "rows of each window")}
        for count in counts:
            pool = Pool.drawn(slide_max, count)
            for structure in names:
                found = outcome("SUM", structure, pool, batches, size)
                agrees &= found.agrees
                held[structure].append(found.bytes_held)
            held["rows of each window"].append(float(pool.ranges.sum() * len(batches[0]) * ROW_BYTES))
        growths.append(held["stairs"][-1] / held["stairs"][0])
        cells += [
            [name, f"{count:,}", *(f"{line[place]:,.0f}" for line in held.values())]
            for place, count in enumerate(counts)
        ]
        panels.append(
            Panel(f"figure 11: {name}", "windows", "bytes", {k: (counts, v) for k, v in held.items()}, log_y=True)
        )
    title = f"figure 11: bytes of state, SUM, {len(batches[0]):,} rows a timestamp"
    show_table(console, title, ["class", "windows", *names, "rows of each window"], cells)
    said = f"{counts[-1]:,} windows take at most {max(growths):.2f} times the bytes of {counts[0]:,}"
    _agreement(console, "space is practically stable in the number of windows", said, max(growths) <= CONSTANT)
    show_plot(console, "papers-patroumpas2011_11", panels)
    return agrees


# -- figure 12 ---------------------------------------------------------------------------------------------------------


def figure_12(console: Console, size: Size, rows: dict[int, list[Ints]]) -> bool:
    """Returns whether all answers were right."""
    count = size.counts[-1]
    pools = {name: Pool.drawn(slide_max, count) for name, slide_max in CLASSES.items()}
    by_rate = {name: [_best(pool, batches, size) for batches in rows.values()] for name, pool in pools.items()}
    title = f"figure 12: milliseconds per timestamp, SUM by stairs, {count:,} windows, by rows a timestamp"
    cells = [[name, *(f"{found.ms:.3f}" for found in line)] for name, line in by_rate.items()]
    show_table(console, title, ["class", *(f"{rate:,}" for rate in rows)], cells)
    fastest = max(rows)
    cells, worst, everything = [], 0.0, [found for line in by_rate.values() for found in line]
    for name, pool in pools.items():
        for aggregate, structures in STRUCTURES.items():
            for structure in structures:
                found = outcome(aggregate, structure, pool, rows[fastest], size)
                everything.append(found)
                if structure != ALONE:
                    worst = max(worst, found.ms)
                cells.append(
                    [name, aggregate, structure, f"{found.ms:,.3f}", f"{found.answers:,.0f}", f"{found.bytes_held:,}"]
                )
    title = f"{count:,} windows, {fastest:,} rows a timestamp"
    show_table(console, title, ["class", "aggregate", "structure", "ms", "answers", "bytes"], cells)
    _agreement(
        console, f"all windows answered within {SECONDS_WANTED:g} s per timestamp in most cases",
        f"within {worst:.2f} ms in all, where they share", worst <= 1000 * SECONDS_WANTED,
    )  # fmt: skip
    _trends(console, by_rate, list(rows))
    lines = {name: (list(rows), [found.ms for found in line]) for name, line in by_rate.items()}
    show_plot(console, "papers-patroumpas2011_12", [Panel("figure 12: SUM by stairs", "rows a timestamp", "ms", lines)])
    return all(found.agrees for found in everything)


def _best(pool: Pool, batches: list[Ints], size: Size) -> PoolOutcome:
    """The fastest of some runs, timestamp by timestamp: each takes less than others on the machine disturb."""
    found = [outcome("SUM", "stairs", pool, batches, size) for _ in range(size.repeats)]
    fastest = np.min([one.seconds for one in found], axis=0)
    return replace(found[0], seconds=fastest, agrees=all(one.agrees for one in found))


def _trends(console: Console, by_rate: dict[str, list[PoolOutcome]], rates: list[int]) -> None:
    """What the paper says of the lines of figure 12."""
    worst = 1.0
    for line in by_rate.values():
        times = np.array([found.ms for found in line])
        fitted = np.polyval(np.polyfit(rates, times, 1), rates)
        worst = min(worst, 1 - float(((times - fitted) ** 2).sum() / ((times - times.mean()) ** 2).sum()))
    said = f"a straight line explains {worst:.1%} of it or more"
    _agreement(console, "time grows almost linearly with the rate", said, worst >= 0.9)
    first, *_, last = (line[-1] for line in by_rate.values())
    said = f"abrupt windows take {last.ms / first.ms:.2f} times as long as smooth ones, for {last.answers:,.0f} answers"
    said += f" against {first.answers:,.0f}"
    _agreement(console, "the longer the slides the more expensive", said, last.ms > first.ms)
