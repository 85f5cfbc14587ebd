"""Queries that join a tree in mid-stream begin with the windows that they would begin with alone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

import panewise as pw
from panewise.engine.consumers import leading_families
from panewise.operators.family.family import Family
from tests.soak.mid_stream import play

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SHARED = ("weave", "full")
SCHEMA = pa.schema({"ts": pa.timestamp("us", tz="UTC"), "k": pa.string(), "v": pa.int64()})


def rows(*seconds: float) -> list[dict[str, Any]]:
    return [{"ts": EPOCH + timedelta(seconds=at), "k": "a", "v": 1} for at in seconds]


def engine(sharing: str, delay: int = 0, beside: bool = True) -> pw.Engine:
    made = pw.Engine(sharing=sharing)
    made.execute(
        f"CREATE STREAM t (ts TIMESTAMP, k STRING, v BIGINT, WATERMARK FOR ts AS ts - INTERVAL {delay} SECONDS)"
    )
    if beside:
        made.execute("CREATE QUERY day AS SELECT k, COUNT(*) AS n FROM t [RANGE 1 DAY SLIDE 1 DAY] GROUP BY k")
        made.execute("CREATE QUERY day_of_all AS SELECT COUNT(*) AS n FROM t [RANGE 1 DAY SLIDE 1 DAY]")
    return made


def said(made: pw.Engine, name: str) -> list[tuple[int, int]]:
    """The ends of reports, in seconds, and what they count."""
    return [(int(r["window_end"].timestamp()), r["n"]) for r in made.results(name).to_pylist()]


@pytest.mark.parametrize("seed", range(12))
def test_queries_that_come_and_go_in_mid_stream(seed: int) -> None:
    play(seed)


@pytest.mark.parametrize("sharing", ["none", *SHARED])
def test_a_query_beside_a_long_window_is_the_query_alone(sharing: str) -> None:
    """The newest row, at 299 seconds, is folded already, and it is in the first window all the same."""
    found = []
    for beside in (True, False):
        made = engine(sharing, beside=beside)
        made.push("t", rows(*range(300)))
        made.execute("CREATE QUERY q AS SELECT COUNT(*) AS n FROM t [RANGE 10 SECONDS SLIDE 1 SECOND]")
        made.push("t", rows(*range(300, 400)))
        found.append(said(made, "q"))
    assert found[0] == found[1] == [(end, 10) for end in range(309, 400)]


@pytest.mark.parametrize("sharing", SHARED)
@pytest.mark.parametrize("grouped", [False, True])
def test_rows_that_the_watermark_has_not_passed(sharing: str, grouped: bool) -> None:
    """All of them are in the windows of a new query, and so are those that come out of order afterwards.

    watermark 20   newest 30    windows from [20, 25) on, of which those from [35, 40) on are the tree's own
    """
    made = engine(sharing, delay=10)
    made.push("t", rows(1, 22, 30, 26))
    by = " GROUP BY k" if grouped else ""
    made.execute(f"CREATE QUERY q AS SELECT COUNT(*) AS n FROM t [RANGE 5 SECONDS SLIDE 5 SECONDS]{by}")
    made.execute(f"CREATE QUERY r AS SELECT COUNT(*) AS n FROM t [RANGE 6 SECONDS SLIDE 3 SECONDS]{by}")
    made.push("t", rows(21, 24, 29))
    made = pw.Engine.restore(made.snapshot())
    made.push("t", rows(36, 33))
    made = pw.Engine.restore(made.snapshot())
    made.push("t", rows(60))
    assert said(made, "q") == [(25, 3), (30, 2), (35, 2), (40, 1)] + ([] if grouped else [(45, 0), (50, 0)])
    assert said(made, "r")[:4] == [(27, 4), (30, 3), (33, 2), (36, 2)]
    assert made.results("r").num_rows == 0


@pytest.mark.parametrize("sharing", SHARED)
def test_reports_go_on_without_a_row_where_a_lead_has_begun_them(sharing: str) -> None:
    """An ungrouped query reports empty windows once it has begun, also those of the tree that it has joined."""
    made = engine(sharing)
    made.push("t", rows(1, 20))
    made.execute("CREATE QUERY q AS SELECT COUNT(*) AS n FROM t [RANGE 5 SECONDS SLIDE 5 SECONDS]")
    made.advance("t", EPOCH + timedelta(seconds=40))
    assert said(made, "q") == [(25, 1), (30, 0), (35, 0), (40, 0)]


@pytest.mark.parametrize("sharing", SHARED)
def test_queries_that_are_alike_and_one_that_goes(sharing: str) -> None:
    """The lead is theirs together; it goes on when the one that it is named after is dropped."""
    made = engine(sharing)
    made.push("t", rows(1, 20))
    for name in ("q", "r", "s"):
        made.execute(f"CREATE QUERY {name} AS SELECT COUNT(*) AS n FROM t [RANGE 5 SECONDS SLIDE 5 SECONDS]")
    made.push("t", rows(21))
    made.execute("DROP QUERY q")
    made.push("t", rows(31))
    assert said(made, "r") == said(made, "s") == [(25, 2), (30, 0)]


@pytest.mark.parametrize("sharing", SHARED)
def test_a_slice_of_rows_to_come_may_begin_before_the_watermark(sharing: str) -> None:
    """The row at 79 seconds falls into a slice [70, 80) of `old`: the new query does not begin with [75, 135)."""
    made = engine(sharing, delay=3)
    made.execute("CREATE QUERY old AS SELECT COUNT(*) AS n FROM t [RANGE 20 SECONDS SLIDE 10 SECONDS]")
    made.push("t", rows(1, 81))
    made.execute("CREATE QUERY q AS SELECT COUNT(*) AS n FROM t [RANGE 60 SECONDS SLIDE 5 SECONDS]")
    made.push("t", rows(79, 79, 150))
    assert said(made, "q") == [(140, 1), (145, 0)]


def test_what_a_lead_says_can_be_looked_up() -> None:
    made = engine("weave", delay=10)
    made.push("t", rows(1, 30))
    made.execute("CREATE QUERY q AS SELECT COUNT(*) AS n FROM t [RANGE 5 SECONDS SLIDE 5 SECONDS]")
    made.push("t", rows(21, 24, 35))
    assert made.lookup("q").column("n").to_pylist() == [2]


def test_leads_are_few_and_leave(monkeypatch: pytest.MonkeyPatch) -> None:
    """A query that comes while there are too many begins behind the newest row; in the end there are none."""
    monkeypatch.setattr(leading_families, "LEADS_MOST", 1)
    made = engine("weave")
    made.push("t", rows(0, 10))
    made.execute("CREATE QUERY q AS SELECT COUNT(*) AS n FROM t [RANGE 40 SECONDS SLIDE 5 SECONDS]")
    made.push("t", rows(17, 21))
    made.execute("CREATE QUERY r AS SELECT COUNT(*) AS n FROM t [RANGE 7 SECONDS SLIDE 7 SECONDS]")
    made.push("t", rows(25, 60))
    assert said(made, "q")[0] == (50, 4)
    assert said(made, "r")[0] == (35, 0)
    [consumer] = [consumer for consumer in made.hosting.families if "q" in consumer.queries]
    assert not consumer.snapshot()["leads"]


def test_a_lead_is_a_family_like_the_one_that_it_leads() -> None:
    """By the same technique, dense for as many groups; only rows from another point on are seen."""
    shared = Family((), None, held_from=3, technique="recompute", sparse_above=7)
    lead = leading_families.Lead(shared, 5, None, None).family
    assert (lead.technique, lead.sparse_above, lead.held_from) == ("recompute", 7, 5)


@pytest.mark.parametrize("parts", [1, 2])
def test_an_error_in_a_lead_fails_its_family_and_lets_everything_go(
    parts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where more rows are still to come before the tree moves on."""

    def failing(*_: Any) -> None:
        raise MemoryError("of a lead")

    made = engine("full")
    made.push("t", rows(*range(300)))
    made.execute("CREATE QUERY q AS SELECT k, COUNT(*) AS n FROM t [RANGE 10 SECONDS SLIDE 1 SECOND] GROUP BY k")
    made.push("t", rows(300))
    made.stats()
    consumer = made.hosting.consumers["q"]
    leads = consumer._leads._leads
    assert len(leads) == 1
    monkeypatch.setattr(leads[0].family, "fold", failing)
    monkeypatch.setattr("panewise.engine.ingest.pending_rows.BATCH_ROWS", 1)
    for second in range(parts):
        made.push("t", pa.table({"ts": [(301 + second) * 1_000_000] * 2, "k": ["a", "b"], "v": [1, 1]}).cast(SCHEMA))
    found = {row["name"]: row["status"] for row in made.execute("SHOW QUERIES").to_pylist()}
    assert found == {"day": "FAILED", "q": "FAILED", "day_of_all": "RUNNING"}
    assert not consumer._leads._leads
    made.flush(["t"])
    assert said(made, "day_of_all") == [(86_400, 301 + 2 * parts)]
