"""Results leave in bounded parts: however many windows a jump of time closes, nobody holds all that they say."""

from __future__ import annotations

from unittest.mock import patch

import pyarrow as pa
import pytest

import panewise as pw
from panewise.operators.reports import Piece
from panewise.runtime import bounded_steps
from panewise.runtime.hosted_query import HostedQuery
from panewise.runtime.ledger import row_count
from tests.runtime.small_engine import SECOND, STREAM, engine_of, row

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
    (ledger,) = consumer._ledgers.values()
    assert len(ledger._entries) >= 36
    assert engine.results("q").num_rows == 360_000
