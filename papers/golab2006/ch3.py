"""Update-pattern-aware processing: Golab 2006, section 3.6, figures 3.8 to 3.15, on a connection trace.

    query 1   joins two links on the source; one protocol is rare (a small result), one common (a large result)
    query 2   the different sources of a link, and the different pairs of source and destination port
    query 3   the rows of a link whose source is not on another link
    query 4   joins two links on the source, where it is not on a third link; with the negation above and below the join

The paper's trace is another one. Nearly all connections of this one go to one address, so that links are told apart
by the destination port (its remainder), and pairs are of source and port; ICMP, UDP and TCP stand for FTP and telnet.
Rates are fixed, as in the paper: a row comes in each unit of time, all links together: windows are counted in rows.

Rows are processed in steps of ten, because the operators of the engine are made for batches: a step has a fixed cost,
which a window of one step shows (the first line of every table). The paper's executions, row by row, have none. Larger
steps hide more: a scan of a list costs the same for one row as for a hundred. All executions of a query have to end
with the same relation, and those of one plan must have had as many results; otherwise the exit code is 1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from papers.connection_trace import trace_path
from papers.golab2006.update_patterns import (
    DIRECT,
    MANY,
    NT,
    UPA,
    Build,
    distinct,
    join,
    negated_join,
    negation,
)
from papers.golab2006.update_patterns_runs import STEP, ExecutionOutcome, Outcomes, differences, outcomes_of, read_trace
from papers.plots import Panel
from papers.shown import figures_console, show_plot, show_table

WINDOWS = (STEP, 2_000, 5_000, 10_000, 20_000, 50_000)  # rows
LONG_WINDOWS = (*WINDOWS, 100_000, 200_000)  # where results do not grow with the square of the window
UNREPEATED = (*WINDOWS, 100_000)  # replayed, all sources are always on both links: nothing ends before its time
ROWS_MEASURED = 5_000
REPETITIONS = 2
FLAT = 0.15  # a difference of so much is none
UPA_MANY, JOIN_UP = f"UPA({MANY})", "NT (join up)"


@dataclass(frozen=True)
class LinkQuery:
    name: str
    figure: str
    executions: dict[str, Build]
    windows: tuple[int, ...]
    sentences: Callable[[Sequence[int], Outcomes], list[str]]


# ---- what the chapter says, and what is found ------------------------------------------------------------------------


def ahead(windows: Sequence[int], outcomes: Outcomes, best: str, other: str, reported: float, claim: str) -> str:
    """One execution against another with the largest window; where it is less ahead than reported, where time goes."""
    one, two = outcomes[best][-1].milliseconds, outcomes[other][-1].milliseconds
    sentence = (
        f"{claim}; here, with a window of {windows[-1]:,} rows, {other} takes {two / one:.2f} times as long as {best}: "
    )
    if two / one >= reported:
        return sentence + "agrees"
    fixed, other_fixed = outcomes[best][0].milliseconds, outcomes[other][0].milliseconds
    reason = (
        f"of {best}'s {one:.1f} ms a window of one step costs {fixed:.1f} already, of {other}'s {two:.1f} ms "
        f"{other_fixed:.1f}"
    )
    if two - other_fixed < FLAT * two:
        reason += f"; {other} hardly grows with the window"
        reason += ", because ends find their rows by key, where the paper's scan" if other == NT else ""
    elif one > fixed:
        reason += f"; what the window adds is {one - fixed:.1f} against {two - other_fixed:.1f} ms"
    return f"{sentence}{_verdict(two / one)} ({reason})"


def _verdict(ratio: float) -> str:
    """Of a ratio that is less than reported."""
    return "agrees in direction, by less" if ratio > 1 + FLAT else "DOES NOT AGREE"


def crossing(windows: Sequence[int], one: Sequence[ExecutionOutcome], other: Sequence[ExecutionOutcome]) -> int | None:
    """The first window from which on `one` is always slower; None where it is not slower with the largest one."""
    slower = [a.milliseconds > b.milliseconds for a, b in zip(one, other, strict=True)]
    begin = len(slower)
    while begin and slower[begin - 1]:
        begin -= 1
    return windows[begin] if begin < len(slower) else None


def _small_join(windows: Sequence[int], outcomes: Outcomes) -> list[str]:
    return [
        ahead(windows, outcomes, UPA, NT, 1.8, "UPA is nearly twice as fast as NT"),
        ahead(windows, outcomes, UPA, DIRECT, 1.8, "UPA is nearly twice as fast as DIRECT, too"),
    ]


def _large_join(windows: Sequence[int], outcomes: Outcomes) -> list[str]:
    last = {name: found[-1].milliseconds for name, found in outcomes.items()}
    slowest = max(last, key=lambda name: last[name])
    return [
        ahead(windows, outcomes, UPA_MANY, NT, 10, "UPA with 50 partitions is up to ten times as fast as NT"),
        ahead(windows, outcomes, UPA_MANY, UPA, 1.5, "UPA with 10 partitions becomes slow as the result grows"),
        f"DIRECT is by far the slowest; here that is {slowest}, {last[slowest] / last[UPA_MANY]:.1f} times {UPA_MANY}: "
        + ("agrees" if slowest == DIRECT else "DOES NOT AGREE"),
    ]


def _distinct_sentences(
    reported: float, times: str, smaller: float, space: str
) -> Callable[[Sequence[int], Outcomes], list[str]]:
    def sentences(windows: Sequence[int], outcomes: Outcomes) -> list[str]:
        values, own = len(outcomes[UPA][-1].results), outcomes[UPA][-1].state_bytes
        ratios = {name: outcomes[name][-1].state_bytes / own for name in (NT, DIRECT)}
        least = min(ratios.values())
        return [
            ahead(windows, outcomes, UPA, NT, reported, f"UPA is about {times} as fast as NT"),
            ahead(windows, outcomes, UPA, DIRECT, reported, f"UPA is about {times} as fast as DIRECT, or more"),
            f"UPA is {space}; here NT holds {ratios[NT]:.1f} and DIRECT {ratios[DIRECT]:.1f} times as much, with "
            f"{values:,} different values in a window of {windows[-1]:,} rows of all links, {own / max(values, 1):.0f} "
            "bytes each: " + ("agrees" if least >= smaller else _verdict(least)),
        ]

    return sentences


def _negation_sentences(windows: Sequence[int], outcomes: Outcomes) -> list[str]:
    upa, nt = outcomes[UPA], outcomes[NT]
    share = f"{upa[-1].premature:.0%} of the results end before they die (the chapter: 40 %)"
    begin = crossing(windows, upa, nt)
    text = "UPA is slightly ahead with small windows and loses to NT past some size; here "
    if begin is not None and begin != windows[0]:
        before = windows[list(windows).index(begin) - 1]
        return [f"{text}NT is ahead from a window between {before:,} and {begin:,} rows on; {share}: agrees"]
    kept, other, results = upa[-1].result_milliseconds, nt[-1].result_milliseconds, len(upa[-1].results)
    who = "UPA is ahead with the largest window" if begin is None else "NT is ahead with every window"
    reason = (
        f"{share}, in {upa[-1].ending_steps:.0f} steps for 1,000 rows, each scanning {results:,} results: keeping "
        f"them costs UPA {kept:.1f} ms and NT {other:.1f}, all else {upa[-1].milliseconds - kept:.1f} and "
        f"{nt[-1].milliseconds - other:.1f}"
    )
    growth = (kept - upa[1].result_milliseconds) / max(results - len(upa[1].results), 1)
    if begin is None and growth > 0:
        enough = results + (nt[-1].milliseconds - upa[-1].milliseconds) / growth
        reason += f"; as scans grow, the two would meet at about {enough:,.0f} results"
    return [f"{text}{who}: DOES NOT AGREE ({reason})"]


def _negated_join_sentences(windows: Sequence[int], outcomes: Outcomes) -> list[str]:
    sentences = [ahead(windows, outcomes, UPA, NT, 1.2, "UPA is ahead of NT with the same plan")]
    begin = crossing(windows, outcomes[UPA], outcomes[JOIN_UP])
    text = "UPA is ahead of NT with the join above too, with large windows, unless the join has many results; here "
    if begin is None:
        return [*sentences, f"{text}it is ahead with {windows[-1]:,} rows: agrees"]
    own, other = outcomes[UPA][-1].state_bytes, outcomes[JOIN_UP][-1].state_bytes
    reason = f"all state is {own / 1e6:.1f} MB, with the join above {other / 1e6:.1f} MB"
    verdict = "agrees, as that exception" if own > 2 * other else "DOES NOT AGREE"
    return [*sentences, f"{text}it is behind from {begin:,} rows on ({reason}): {verdict}"]


def _queries() -> list[LinkQuery]:
    small = {name: join(name, "icmp") for name in (UPA, NT, DIRECT)}
    large = {**{name: join(name, "tcp") for name in (UPA, NT, DIRECT)}, UPA_MANY: join(UPA, "tcp", MANY)}
    sources, pairs = ({name: distinct(name, both) for name in (UPA, NT, DIRECT)} for both in (False, True))
    negations = {name: negation(name) for name in (UPA, NT)}
    few, many = (
        {UPA: negated_join(UPA, p), NT: negated_join(NT, p), JOIN_UP: negated_join(NT, p, join_up=True)}
        for p in ("udp", "tcp")
    )
    up_to_hundred, less = "up to a hundred times smaller", "still significantly smaller"
    return [
        LinkQuery("query 1, ICMP, a small result", "3.8", small, WINDOWS, _small_join),
        LinkQuery("query 1, TCP, a large result", "3.9", large, WINDOWS, _large_join),
        LinkQuery(
            "query 2, sources",
            "3.10, 3.12",
            sources,
            LONG_WINDOWS,
            _distinct_sentences(10, "ten times", 100, up_to_hundred),
        ),
        LinkQuery("query 2, pairs", "3.11, 3.13", pairs, LONG_WINDOWS, _distinct_sentences(2, "twice", 1.5, less)),
        LinkQuery("query 3", "3.14", negations, UNREPEATED, _negation_sentences),
        LinkQuery("query 4, UDP, few results below", "3.15", few, WINDOWS, _negated_join_sentences),
        LinkQuery("query 4, TCP, many results below", "3.15", many, WINDOWS, _negated_join_sentences),
    ]


# ---- showing ---------------------------------------------------------------------------------------------------------


def run(quick: bool, folder: Path | None) -> int:
    console = figures_console()
    trace = read_trace(trace_path(folder))
    console.print(
        f"{len(trace):,} rows, {trace.sources.max() + 1:,} sources; steps of {STEP} rows; "
        "milliseconds for 1,000 rows, of which for keeping the result; kilobytes of state"
    )
    panels, failed = [], False
    for query in _queries():
        windows = (STEP, 500) if quick else query.windows
        outcomes = outcomes_of(
            query.executions, trace, windows, 320 if quick else ROWS_MEASURED, 1 if quick else REPETITIONS
        )
        wrong = differences(windows, outcomes, JOIN_UP)
        _show(console, query, windows, outcomes, wrong)
        panels += panels_of(query, windows, outcomes)
        failed |= bool(wrong)
    show_plot(console, "papers-golab2006-ch3", panels)
    return int(failed)


def _show(console: Console, query: LinkQuery, windows: Sequence[int], outcomes: Outcomes, wrong: Sequence[str]) -> None:
    columns = ["window, rows", "results"]
    columns += [f"{name} {what}" for name in outcomes for what in ("ms", "result", "kB")]
    rows = []
    for place, window in enumerate(windows):
        row = [f"{window:,}", f"{len(outcomes[UPA][place].results):,}"]
        for found in outcomes.values():
            one = found[place]
            row += [f"{one.milliseconds:.1f}", f"{one.result_milliseconds:.1f}", f"{one.state_bytes / 1e3:,.0f}"]
        rows.append(row)
    show_table(console, f"{query.name} (figure {query.figure})", columns, rows)
    for sentence in query.sentences(windows, outcomes):
        console.print(f"  {sentence}")
    for difference in wrong:
        console.print(f"  [red]WRONG: {difference}[/]")


def panels_of(query: LinkQuery, windows: Sequence[int], outcomes: Outcomes) -> list[Panel]:
    """Time and state by window, without that of one step."""
    sizes = [float(window) for window in windows[1:]]

    def panel(what: str, y: str, of: Callable[[ExecutionOutcome], float]) -> Panel:
        lines = {name: (sizes, [of(outcome) for outcome in found[1:]]) for name, found in outcomes.items()}
        return Panel(f"{query.name}: {what}", "window, rows", y, lines, log_x=True, log_y=True)

    return [
        panel("time", "ms for 1,000 rows", lambda outcome: outcome.milliseconds),
        panel("state", "kB", lambda outcome: outcome.state_bytes / 1e3),
    ]
