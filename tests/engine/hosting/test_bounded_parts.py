"""Results leave in bounded parts: however many windows a jump of time closes, nobody holds all that they say."""

from __future__ import annotations

from unittest.mock import patch

import pyarrow as pa
import pytest

import panewise as pw
from panewise.arrays import Ints
from panewise.engine.channels.hosted_query import HostedQuery
from panewise.engine.channels.ledger import row_count
from panewise.engine.consumers import bounded_steps
from panewise.operators.joins import probing
from panewise.operators.reports import Piece
from panewise.operators.shared_core.join_aggregates import JoinAggregates
from tests.engine.small_engine import SECOND, STREAM, engine_of, row

QUERIES = {
    "family": "SELECT k, SUM(v) AS s FROM t [RANGE 40 SECONDS SLIDE 1 SECOND] GROUP BY k",
    "families of two slides": "SELECT k, SUM(v) AS s FROM t [RANGE 40 SECONDS SLIDE 300 MILLISECONDS] GROUP BY k",
    "unbounded": "SELECT k, COUNT(*) AS n FROM t [UNBOUNDED SLIDE 1 SECOND] GROUP BY k",
    "ungrouped": "SELECT COUNT(*) AS n FROM t [RANGE 40 SECONDS SLIDE 1 SECOND]",
    "family of row windows": "SELECT k, SUM(v) AS s FROM t [ROWS 30 SLIDE 1] GROUP BY k",
    "selection": "SELECT k, v FROM t [RANGE 40 SECONDS SLIDE 1 SECOND]",
    "selection of rows": "SELECT k, v FROM t [ROWS 30 SLIDE 1]",
    "partitions": "SELECT k, SUM(v) AS s FROM t [PARTITION BY k ROWS 3 SLIDE 1] GROUP BY k",
    "restored": "SELECT RSTREAM RESTORE k, v FROM t [RANGE 40 SECONDS SLIDE 1 SECOND]",
    "join": "SELECT a.v, b.v AS w FROM t [RANGE 40 SECONDS SLIDE 1 SECOND] a, t [RANGE 9 SECONDS SLIDE 1 SECOND] b "
    "WHERE a.k = b.k",
    "grouped join": "SELECT a.k, COUNT(*) AS n FROM t [RANGE 40 SECONDS SLIDE 1 SECOND] a, "
    "t [RANGE 40 SECONDS SLIDE 1 SECOND] b WHERE a.k = b.k GROUP BY a.k",
    "distinct": "SELECT DISTINCT k, v FROM t [RANGE 40 SECONDS SLIDE 1 SECOND]",
}
KEYS = 5
# A report has at most this many rows: what one step may make, besides a factor of two for rows that come in it.
WIDEST = {"join": 320, "selection": 40, "restored": 40, "selection of rows": 30 * 8, "distinct": 40}


def played(text: str) -> tuple[pa.Table, list[int]]:
    """What the query says, and how many rows were handed to it at a time."""
    handed: list[int] = []
    receive = HostedQuery.receive

    def noting(query: HostedQuery, pieces: list[Piece], watermark: int) -> None:
        handed.append(sum(map(row_count, pieces)))
        receive(query, pieces, watermark)

    engine = engine_of(STREAM, f"CREATE QUERY q AS {text}")
    engine.subscribe("q", lambda batch: None)  # it stands apart, so that all is handed to it
    with patch.object(HostedQuery, "receive", noting):
        engine.push("t", [row(n / 4, f"k{n % KEYS}", n) for n in range(40)])
        engine.flush()
        engine.advance("t", 200 * SECOND)
        engine.push("t", [row(200 + n / 4, f"k{n % KEYS}", n) for n in range(8)])
        engine.advance("t", 300 * SECOND)
        engine.flush()
    return engine.results("q"), handed


@pytest.mark.parametrize("name", QUERIES)
def test_no_step_hands_on_more_than_its_bound(name: str) -> None:
    whole, _ = played(QUERIES[name])
    most = 32
    steps = {"RESULTS_MOST": most, "IN_REPORTS_MOST": most, "ROWS_FIRST": 8}
    with patch.multiple(bounded_steps, **steps):
        parts, handed = played(QUERIES[name])
    assert parts.equals(whole)
    assert whole.num_rows > most
    if name != "ungrouped":  # whose reports over empty windows are a range, whatever their number
        assert max(handed) <= most + WIDEST.get(name, 0)


def test_a_ledger_gets_parts_too() -> None:
    """Queries that nobody reads yet have their results in a ledger, which gives up the oldest while others come."""
    engine = pw.Engine()
    engine.execute(STREAM)
    engine.execute("CREATE QUERY q AS SELECT k, COUNT(*) AS n FROM t [RANGE 1 HOUR SLIDE 1 SECOND] GROUP BY k")
    engine.push("t", [row(0, f"k{n}") for n in range(100)])
    with patch.object(bounded_steps, "IN_REPORTS_MOST", 10_000):
        engine.advance("t", 3_600 * SECOND)
        engine.flush()
    (consumer,) = engine.hosting.families
    (ledger,) = consumer._results._ledgers.values()
    assert len(ledger._entries) >= 36
    assert engine.results("q").num_rows == 360_000


AGGREGATES = {
    "cross": "SELECT COUNT(*) AS n, SUM(a.v * b.v) AS s FROM t [RANGE 40 SECONDS SLIDE 1 SECOND] a, "
    "t [RANGE 40 SECONDS SLIDE 1 SECOND] b",
    "by key": "SELECT a.k, COUNT(*) AS n, MAX(b.v) AS m FROM t [RANGE 40 SECONDS SLIDE 1 SECOND] a, "
    "t [RANGE 10 SECONDS SLIDE 1 SECOND] b WHERE a.k = b.k GROUP BY a.k",
    "by a condition": "SELECT a.k, COUNT(*) AS n FROM t [RANGE 40 SECONDS SLIDE 1 SECOND] a, "
    "t [RANGE 40 SECONDS SLIDE 1 SECOND] b WHERE a.v < b.v GROUP BY a.k",
    "of three": "SELECT a.k, COUNT(*) AS n FROM t [RANGE 40 SECONDS SLIDE 1 SECOND] a, "
    "t [RANGE 40 SECONDS SLIDE 1 SECOND] b, t [RANGE 5 SECONDS SLIDE 1 SECOND] c "
    "WHERE a.k = b.k AND b.k = c.k GROUP BY a.k",
}


def aggregated(text: str) -> tuple[pa.Table, list[int]]:
    """What an aggregate over a join says of many rows of one instant, and how many pairs were folded at a time."""
    folded: list[int] = []
    process = JoinAggregates.process

    def noting(
        self: JoinAggregates,
        batch: pa.RecordBatch,
        births: Ints,
        times: list[Ints],
        until: int,
        series_starts: dict[str, int],
    ) -> dict[str, pa.Table]:
        folded.append(batch.num_rows)
        return process(self, batch, births, times, until, series_starts)

    engine = engine_of(STREAM, f"CREATE QUERY q AS {text}")
    with patch.object(JoinAggregates, "process", noting):
        for second in (0, 1, 3, 60):
            engine.push("t", [row(second, f"k{n % KEYS}", n) for n in range(60)])
            engine.flush()
        engine.advance("t", 200 * SECOND)
        engine.flush()
    return engine.results("q"), folded


@pytest.mark.parametrize("name", AGGREGATES)
def test_pairs_of_one_instant_are_folded_in_parts(name: str) -> None:
    """A cross join of n rows of one instant has n * n pairs, which are never there at once."""
    whole, at_once = aggregated(AGGREGATES[name])
    most = 64
    with patch.multiple(probing, RESULTS_IN_PART=most, CANDIDATES=most, RESULTS_MIN=16):
        parts, folded = aggregated(AGGREGATES[name])
    assert parts.equals(whole)
    assert max(at_once) > 8 * most
    assert max(folded) <= most and sum(folded) == sum(at_once)


def test_results_of_one_instant_that_nobody_keeps_leave_in_parts() -> None:
    """A relation that is only added to: the n * n results of n rows of one instant leave part by part."""
    window = "[RANGE 9 SECONDS INTERNAL]"
    text = f"SELECT ISTREAM a.v, b.v AS w FROM t {window} a, t {window} b WHERE b.v <> 3"
    over_it = "CREATE QUERY over_it AS SELECT COUNT(*) AS n FROM q [RANGE 5 SECONDS SLIDE 1 SECOND]"

    def played() -> tuple[pa.Table, pa.Table, list[int]]:
        handed: list[int] = []
        receive = HostedQuery.receive

        def noting(query: HostedQuery, pieces: list[Piece], watermark: int) -> None:
            if query.name == "q":
                handed.append(sum(map(row_count, pieces)))
            receive(query, pieces, watermark)

        engine = engine_of(STREAM, f"CREATE QUERY q AS {text}", over_it)
        with patch.object(HostedQuery, "receive", noting):
            for second in (0, 0.25, 3, 60):
                engine.push("t", [row(second, f"k{n % KEYS}", n) for n in range(50)])
                engine.flush()
            engine.advance("t", 200 * SECOND)
            engine.flush()
        return engine.results("q"), engine.results("over_it"), handed

    most = 64
    whole, counted, at_once = played()
    with patch.multiple(probing, RESULTS_IN_PART=most, CANDIDATES=most, RESULTS_MIN=16):
        parts, counted_in_parts, handed = played()
    assert parts.equals(whole) and counted_in_parts.equals(counted)
    assert max(at_once) > 8 * most
    assert max(handed) <= most and sum(handed) == sum(at_once)


@pytest.mark.parametrize("name", ["family", "families of two slides", "ungrouped", "join", "grouped join", "distinct"])
def test_a_query_that_joins_others_has_one_report_at_once(name: str) -> None:
    """However long others have been there, what is due when a query comes is its last report, and no more."""
    handed: list[int] = []
    receive = HostedQuery.receive

    def noting(query: HostedQuery, pieces: list[Piece], watermark: int) -> None:
        if query.name == "late":
            handed.append(sum(map(row_count, pieces)))
        receive(query, pieces, watermark)

    engine = engine_of(STREAM, f"CREATE QUERY q AS {QUERIES[name]}")
    engine.push("t", [row(n / 4, f"k{n % KEYS}", n) for n in range(400)])
    engine.flush()
    with patch.object(HostedQuery, "receive", noting):
        engine.execute(f"CREATE QUERY late AS {QUERIES[name]}")
    assert sum(handed) <= KEYS
