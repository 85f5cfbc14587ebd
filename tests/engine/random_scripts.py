"""Hypothesis strategies for streams, queries and the ways in which rows reach a host.

A script is what happens: rows and punctuations in order of arrival. How rows are cut into pushes and where snapshots
are taken is drawn apart from it, because no answer may depend on that. Doubles are multiples of a quarter, NaN or
infinite, so that every sum is exact and multisets of sums can be compared.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import strategies as st

from tests.case_runner import Host

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SECOND = 1_000_000
DELAYS = (0, 2, 6)
BASES = (0, -30 * SECOND, 1_700_000_000 * SECOND, -86_400 * SECOND + 1)

EXACT = (
    "COUNT(*)",
    "COUNT(v)",
    "SUM(v)",
    "AVG(v)",
    "MIN(v)",
    "MAX(v)",
    "SUM(i)",
    "MAX(i)",
    "SUM(x)",
    "AVG(x)",
    "MIN(x)",
    "MAX(x)",
    "MIN(w)",
    "MAX(w)",
    "FIRST(v)",
    "LAST(w)",
    "FIRST(x)",
    "LAST(ts)",
    "MIN(ts)",
    "ARG_MIN(w, v)",
    "ARG_MAX(v, x)",
    "ARG_MAX(x, w)",
    "BOOL_AND(b)",
    "BOOL_OR(b)",
    "SUM(v) + COUNT(*)",
    "SUM(v * 2 - i)",
    "MAX(CASE WHEN b THEN v ELSE -v END)",
)
ROUNDED = ("VAR_POP(v)", "VAR_SAMP(x)", "STDDEV_POP(x)", "STDDEV_SAMP(v)", "GEOMEAN(ABS(v) + 1)")
# Of states without a fixed size; only for periodic windows with a range and without partitions.
HELD = (
    "MEDIAN(v)",
    "MEDIAN(x)",
    "QUANTILE(v, 0.5)",
    "QUANTILE(v, 0.9)",
    "QUANTILE(x, 0.25)",
    "QUANTILE(ts, 0.5)",
    "PERCENTILE_CONT(i, 0.3)",
    "PERCENTILE_DISC(x, 0.75)",
    "COUNT(DISTINCT v)",
    "COUNT(DISTINCT x)",
    "COUNT(DISTINCT w)",
    "TOP(2, w)",
    "TOP(1, v)",
    "TOP(3, x)",
    "FREQUENT(1, w)",
    "FREQUENT(2, w)",
    "FREQUENT(1, v)",
    "FREQUENT(2, b)",
    "APPROX_COUNT_DISTINCT(w)",
    "APPROX_QUANTILE(v, 0.5)",
    "APPROX_TOP(2, w)",
)
GROUPS = ("", "k", "k, b", "v % 3", "i", "x")
CONDITIONS = ("", "v > 0", "x < 2 OR k IS NULL", "NOT b", "k IN ('a', 'b') AND v IS NOT NULL")
CONDITIONS_OF_GROUPS = ("", "", "COUNT(*) > 1", "SUM(v) > 0", "MAX(x) IS NOT NULL AND COUNT(v) < 4")


@dataclass(frozen=True)
class Script:
    """A stream's delay and, in order of arrival, its rows (dicts) and punctuations (microseconds)."""

    delay_seconds: int
    events: tuple[dict[str, Any] | int, ...]
    end: int

    @property
    def stream(self) -> str:
        return (
            "CREATE STREAM t (ts TIMESTAMP, k STRING, i INT, v BIGINT, x DOUBLE, w STRING, b BOOLEAN, "
            f"WATERMARK FOR ts AS ts - INTERVAL {self.delay_seconds} SECONDS);"
        )


@st.composite
def scripts(draw: st.DrawFn, most_rows: int = 30, fewest_rows: int = 0, delays: tuple[int, ...] = DELAYS) -> Script:
    now = draw(st.sampled_from(BASES))
    delay = draw(st.sampled_from(delays))
    events: list[dict[str, Any] | int] = []
    greatest = now
    for _ in range(draw(st.integers(fewest_rows, most_rows))):
        now += draw(st.sampled_from((0, 0, 1, SECOND // 2, SECOND, SECOND, 2 * SECOND, 7 * SECOND, 40 * SECOND)))
        ts = now - draw(st.sampled_from((0, 0, 0, 1, SECOND, 3 * SECOND, 8 * SECOND)))
        events.append(draw(rows(ts)))
        greatest = max(greatest, ts)
        if draw(st.integers(0, 11)) == 0:
            now += draw(st.sampled_from((0, SECOND, 5 * SECOND)))
            events.append(now)
            greatest = max(greatest, now)
    return Script(delay, tuple(events), greatest + draw(st.sampled_from((0, 1, 9 * SECOND, 60 * SECOND))))


@st.composite
def rows(draw: st.DrawFn, ts: int) -> dict[str, Any]:
    number = st.integers(-5, 9)
    return {
        "ts": EPOCH + timedelta(microseconds=ts),
        "k": draw(st.sampled_from(("a", "a", "b", "c", "", None))),
        "i": draw(st.one_of(st.none(), number)),
        "v": draw(st.one_of(st.none(), number, number)),
        "x": draw(
            st.one_of(
                number.map(lambda n: n / 4),
                number.map(lambda n: n / 4),
                st.sampled_from((None, float("nan"), float("inf"), float("-inf"), -0.0)),
            )
        ),
        "w": draw(st.sampled_from(("", "p", "q", "é", None))),
        "b": draw(st.sampled_from((True, False, None))),
    }


def time_windows(*, slide: bool) -> st.SearchStrategy[str]:
    """Ranges and slides of whole and odd lengths, with offsets and alignments now and then."""
    lengths = st.sampled_from(("1 SECOND", "2 SECONDS", "3 SECONDS", "5 SECONDS", "7 SECONDS", "2500 MILLISECONDS"))
    rare = st.sampled_from(("", "", "", " OFFSET 3 SECONDS", " OFFSET 1500 MS"))
    if not slide:
        ranges = st.one_of(lengths.map(lambda length: f"RANGE {length}"), st.sampled_from(("NOW", "UNBOUNDED")))
        return st.builds(lambda r, o: f"[{r}{o if r.startswith('RANGE') else ''}]", ranges, rare)
    aligned = st.sampled_from(("", "", "", " ALIGN '1970-01-01 00:00:01'", " ALIGN '2000-01-01 00:00:00.25'"))
    ranges = st.one_of(lengths.map(lambda length: f"RANGE {length}"), st.just("UNBOUNDED"))
    return st.builds(lambda r, s, o, a: f"[{r} SLIDE {s}{o}{a}]", ranges, lengths, rare, aligned)


def count_windows(*, slide: bool) -> st.SearchStrategy[str]:
    def text(partition: str, count: int, step: int, offset: int) -> str:
        parts = [f"PARTITION BY {partition} " if partition else "", f"ROWS {count}"]
        parts += [f" SLIDE {step}" if slide else "", f" OFFSET {offset}" if offset else ""]
        return f"[{''.join(parts)}]"

    partitions = st.sampled_from(("", "", "k", "k, b"))
    return st.builds(text, partitions, st.integers(1, 7), st.integers(1, 5), st.sampled_from((0, 0, 0, 1, 3)))


@st.composite
def selects(draw: st.DrawFn, window: str, *, word: str = "", exact: bool = False, source: str = "t") -> str:
    """An aggregated SELECT over a window."""
    choices = EXACT if exact else EXACT + ROUNDED
    if "SLIDE" in window and "RANGE" in window and "RESTORE" not in word and draw(st.booleans()):
        choices = HELD + EXACT[:4]
    aggregates = draw(st.lists(st.sampled_from(choices), min_size=1, max_size=4))
    items = [f"{aggregate} AS a{at}" for at, aggregate in enumerate(aggregates)]
    group = draw(st.sampled_from(GROUPS))
    names = [f"{part} AS g{at}" for at, part in enumerate(group.split(", "))] if group else []
    text = f"SELECT {word} {', '.join(names + items)} FROM {source} {window}"
    condition = draw(st.sampled_from(CONDITIONS))
    if condition:
        text += f" WHERE {condition}"
    if group:
        text += f" GROUP BY {group}"
    having = draw(st.sampled_from(CONDITIONS_OF_GROUPS))
    if having:
        text += f" HAVING {having}"
    return text


@st.composite
def selections(draw: st.DrawFn, window: str, *, word: str = "") -> str:
    """A SELECT of rows over a window."""
    items = draw(st.sampled_from(("*", "k, v", "v", "x, w", "v % 2 AS parity, b")))
    condition = draw(st.sampled_from(CONDITIONS))
    return f"SELECT {word} {items} FROM t {window}" + (f" WHERE {condition}" if condition else "")


@dataclass(frozen=True)
class Manner:
    """How a script reaches a host: push sizes, in turn, and after which pushes the host is restored from a snapshot."""

    sizes: tuple[int, ...] = (10_000,)
    snapshots: tuple[bool, ...] = (False,)


manners = st.builds(
    Manner,
    st.lists(st.sampled_from((1, 2, 3, 7, 100)), min_size=1, max_size=4).map(tuple),
    st.lists(st.sampled_from((False, False, True)), min_size=1, max_size=3).map(tuple),
)


def run(host: Host, script: Script, queries: list[str], manner: Manner) -> list[list[dict[str, Any]]]:
    """Runs a script with queries q0, q1, ... and gives all results of each, fetched as they appear."""
    host.execute(script.stream)
    for at, query in enumerate(queries):
        host.execute(f"CREATE QUERY q{at} AS {query};")
    found: list[list[dict[str, Any]]] = [[] for _ in queries]
    for turn, piece in enumerate(pieces(script, manner)):
        if isinstance(piece, int):
            host.advance("t", piece)
        else:
            host.push("t", piece)
        if manner.snapshots[turn % len(manner.snapshots)]:
            host.snapshot_and_restore()
        if turn % 3 == 2:
            for at, rows_found in enumerate(found):
                rows_found += host.results(f"q{at}")
    host.advance("t", script.end)
    for at, rows_found in enumerate(found):
        rows_found += host.results(f"q{at}")
    return found


def pieces(script: Script, manner: Manner) -> list[list[dict[str, Any]] | int]:
    """The script's rows in pushes of the manner's sizes; a punctuation ends a push."""
    found: list[list[dict[str, Any]] | int] = []
    turn, batch = 0, []
    for event in script.events:
        if isinstance(event, int):
            if batch:
                found.append(batch)
            found.append(event)
            batch = []
            continue
        batch.append(event)
        if len(batch) >= manner.sizes[turn % len(manner.sizes)]:
            found.append(batch)
            batch, turn = [], turn + 1
    return [*found, batch] if batch else found
