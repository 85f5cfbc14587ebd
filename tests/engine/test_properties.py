"""Random streams and queries, end to end: the engine against the reference, and against itself in other manners."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from panewise.operators.family import family_slices
from tests.case_files import moment
from tests.case_runner import same_rows
from tests.embedded_host import EmbeddedHost
from tests.engine.random_scripts import (
    EPOCH,
    SECOND,
    Manner,
    Script,
    count_windows,
    manners,
    run,
    scripts,
    selections,
    selects,
    time_windows,
)
from tests.reference.cql import statements
from tests.reference.host import ReferenceHost


@pytest.fixture(autouse=True, scope="module")
def fast_path() -> Iterator[None]:
    """Small batches take the fast path too, which is meant for large ones."""
    before, family_slices.FAST_PATH_FROM = family_slices.FAST_PATH_FROM, 1
    yield
    family_slices.FAST_PATH_FROM = before


WORDS = st.sampled_from(("ISTREAM", "DSTREAM"))

periodic = time_windows(slide=True).flatmap(selects)
counted = count_windows(slide=True).flatmap(selects)
continuous = st.one_of(time_windows(slide=False), count_windows(slide=False)).flatmap(
    lambda window: st.one_of(selects(window, exact=True), selections(window))
)
differences = st.tuples(time_windows(slide=True), WORDS).flatmap(
    lambda drawn: st.one_of(selects(drawn[0], word=drawn[1], exact=True), selections(drawn[0], word=drawn[1]))
)
continuous_differences = st.tuples(time_windows(slide=False), WORDS).flatmap(
    lambda drawn: st.one_of(selects(drawn[0], word=drawn[1], exact=True), selections(drawn[0], word=drawn[1]))
)
restored = st.tuples(time_windows(slide=True), st.sampled_from(("ISTREAM RESTORE", "RSTREAM RESTORE"))).flatmap(
    lambda drawn: st.one_of(selects(drawn[0], word=drawn[1], exact=True), selections(drawn[0], word=drawn[1]))
)
internal = st.sampled_from(
    ("RANGE 3 SECONDS SLIDE 2 SECONDS", "RANGE 5 SECONDS", "ROWS 3", "UNBOUNDED", "RANGE 2 SECONDS SLIDE 5 SECONDS")
).flatmap(lambda window: st.one_of(selects(f"[{window} INTERNAL]", exact=True), selections(f"[{window} INTERNAL]")))
selected = time_windows(slide=True).flatmap(selections)


def agree(query: str, expected: list[dict[str, Any]], found: list[dict[str, Any]]) -> None:
    # Windows of partitions with an OFFSET end before the row that makes them report: their ends are not in order.
    by_time = not ("PARTITION" in query and "OFFSET" in query)
    try:
        same_rows(expected, found, by_time=by_time)
    except AssertionError as mismatch:
        raise AssertionError(f"{query}\n{mismatch}") from None


# Each example is a script on two hosts: half as many of them, but in long runs.
EXAMPLES = settings.default.max_examples
HALF = settings(max_examples=EXAMPLES if EXAMPLES > 1_000 else EXAMPLES // 2)


def against_reference(script: Script, queries: list[str], manner: Manner) -> None:
    reference, engine = ReferenceHost(), EmbeddedHost()
    expected = run(reference, script, queries, Manner())
    found = run(engine, script, queries, manner)
    for query, wanted, got in zip(queries, expected, found, strict=True):
        agree(query, wanted, got)
    assert engine.late_count("t") == reference.late_count("t")


@HALF
@given(scripts(), st.lists(periodic, min_size=1, max_size=3), manners)
def test_periodic_aggregates(script: Script, queries: list[str], manner: Manner) -> None:
    against_reference(script, queries, manner)


@HALF
@given(scripts(), st.lists(counted, min_size=1, max_size=2), manners)
def test_count_windows(script: Script, queries: list[str], manner: Manner) -> None:
    against_reference(script, queries, manner)


@HALF
@given(scripts(), st.lists(continuous, min_size=1, max_size=2), manners)
def test_continuous_queries(script: Script, queries: list[str], manner: Manner) -> None:
    against_reference(script, queries, manner)


@HALF
@given(scripts(), st.lists(st.one_of(differences, continuous_differences), min_size=1, max_size=2), manners)
def test_istream_and_dstream(script: Script, queries: list[str], manner: Manner) -> None:
    against_reference(script, queries, manner)


@HALF
@given(scripts(), st.lists(st.one_of(restored, internal, selected), min_size=1, max_size=2), manners)
def test_restore_internal_and_selections(script: Script, queries: list[str], manner: Manner) -> None:
    against_reference(script, queries, manner)


@given(
    scripts(),
    st.sampled_from(("RANGE 2 SECONDS SLIDE 1 SECOND", "RANGE 3 SECONDS SLIDE 2 SECONDS", "RANGE 4 SECONDS INTERNAL")),
    st.sampled_from(("RANGE 5 SECONDS SLIDE 5 SECONDS", "RANGE 7 SECONDS SLIDE 3 SECONDS", "ROWS 3 SLIDE 2", "ROWS 4")),
    st.sampled_from(("SUM(s)", "MAX(s)", "COUNT(*)", "LAST(s)")),
    manners,
)
def test_queries_over_queries(script: Script, inner: str, outer: str, aggregate: str, manner: Manner) -> None:
    query = f"SELECT {aggregate} AS a FROM (SELECT SUM(v) AS s, COUNT(*) AS n FROM t [{inner}]) [{outer}]"
    against_reference(script, [query], manner)


any_query = st.one_of(periodic, counted, continuous, differences, internal)


@HALF
@given(scripts(), st.lists(any_query, min_size=1, max_size=3), manners, manners)
def test_manners_make_no_difference(script: Script, queries: list[str], first: Manner, second: Manner) -> None:
    expected = run(EmbeddedHost(), script, queries, first)
    found = run(EmbeddedHost(), script, queries, second)
    for query, wanted, got in zip(queries, expected, found, strict=True):
        agree(query, wanted, got)


@settings(max_examples=EXAMPLES // (2 if EXAMPLES > 1_000 else 4))
@given(scripts(), st.lists(any_query, min_size=2, max_size=8), manners)
def test_many_queries_equal_each_alone(script: Script, queries: list[str], manner: Manner) -> None:
    together = run(EmbeddedHost(), script, queries, manner)
    for query, got in zip(queries, together, strict=True):
        agree(query, run(EmbeddedHost(), script, [query], manner)[0], got)


@given(scripts(), st.lists(periodic, min_size=1, max_size=2), periodic, st.integers(0, 30))
def test_a_new_query_is_never_wrong(script: Script, old: list[str], query: str, arrival: int) -> None:
    """What a query reports that comes in mid-stream is what it would have reported, and it misses no whole window."""
    assume("UNBOUNDED" not in query)  # such a window is never whole again
    host = EmbeddedHost()
    host.execute(script.stream)
    for at, text in enumerate(old):
        host.execute(f"CREATE QUERY q{at} AS {text};")
    greatest = None
    for at, event in enumerate(script.events):
        if at == arrival:
            host.execute(f"CREATE QUERY fresh AS {query};")
        reached = event if isinstance(event, int) else (event["ts"] - EPOCH) // timedelta(microseconds=1)
        if at < arrival:
            greatest = reached if greatest is None else max(greatest, reached)
        if isinstance(event, int):
            host.advance("t", event)
        else:
            host.push("t", [event])
    if arrival >= len(script.events):
        host.execute(f"CREATE QUERY fresh AS {query};")
    host.advance("t", script.end)
    found = host.results("fresh")
    everything = run(ReferenceHost(), script, [query], Manner())[0]
    ends = {row["window_end"] for row in found}
    same_rows([row for row in everything if row["window_end"] in ends], found)
    # Slices that were cut for the others may reach one slide of theirs beyond the newest row; and without groups the
    # reports begin with the first window that holds a row.
    whole_from = None if greatest is None else moment(greatest + 10 * SECOND)
    length = timedelta(microseconds=statements(query)[0].select.window.range)
    times = [event["ts"] for event in script.events if not isinstance(event, int)]
    for row in everything:
        start = row["window_start"]
        if (whole_from is None or start > whole_from) and any(start <= ts < start + length for ts in times):
            assert row["window_end"] in ends, f"{query}: the window that ends at {row['window_end']} is missing"


magnitudes = st.floats(-1e3, 1e3) | st.sampled_from((1e16, -1e16, 1e300, -1e300, 0.1, 1e-9, math.inf, math.nan))


@given(st.lists(magnitudes, min_size=5, max_size=60), st.integers(1, 9))
def test_sums_of_doubles_keep_their_promise(values: list[float], seconds: int) -> None:
    """Within 1e-12 times the sum of absolute values of the window, whatever has been in earlier windows."""
    host = EmbeddedHost()
    host.execute("CREATE STREAM t (ts TIMESTAMP, x DOUBLE);")
    host.execute(f"CREATE QUERY q AS SELECT SUM(x) AS s, AVG(x) AS a FROM t [RANGE {seconds} SECONDS SLIDE 1 SECOND];")
    host.push("t", [{"ts": moment(at * SECOND), "x": value} for at, value in enumerate(values)])
    host.advance("t", len(values) * SECOND)
    for at, row in enumerate(host.results("q")):
        window = values[max(0, at + 1 - seconds) : at + 1]
        if all(map(math.isfinite, window)):
            bound = 1e-12 * math.fsum(map(abs, window))
            assert abs(row["s"] - math.fsum(window)) <= bound
            assert abs(row["a"] - math.fsum(window) / len(window)) <= bound
        elif math.nan in window or any(map(math.isnan, window)):
            assert math.isnan(row["s"])
        else:
            assert row["s"] == math.inf
