"""One-time queries over several inputs: DuckDB's answer over what the windows hold, and that of a registered query."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import panewise as pw
from panewise.errors import NotHeldError, PanewiseError, PlanError
from tests.engine.random_relations import CREATE, SECOND, STREAMS, Query, QueryWriter, Row, random_rows
from tests.engine.tables.random_tables import BEGINNING, Play

RETAINED = " WITH (retain = '1 day')"
WINDOW_COLUMNS = ("window_start", "window_end")


def values_of(table: pa.Table) -> Counter[Any]:
    kept = table.select([name for name in table.column_names if name not in WINDOW_COLUMNS])
    return Counter(tuple(row.values()) for row in kept.to_pylist())


def instant_of(query: Query, reached: dict[str, int]) -> int:
    """The last instant that the query knows: before the least watermark, or before the last report by then."""
    until = min(reached[source.stream] for source in query.sources)
    if query.slide is not None and until > -3 * SECOND and any(not source.rows for source in query.sources):
        until -= until % (query.slide * SECOND)
    return until - 1


def play(seed: int) -> tuple[Query, Counter[Any], bool]:
    """A random query, its answer, and whether a registered one could be asked too."""
    chance = Random(seed)
    engine = pw.Engine()
    for stream in STREAMS:
        engine.execute(CREATE.format(stream) + RETAINED)
    query = QueryWriter(chance).query()
    try:
        engine.execute(f"CREATE QUERY q AS {query.cql}")
        registered = True
    except PlanError:
        registered = False  # what cannot be kept for ever can be asked once
    batches = random_rows(chance, 60)
    rows: dict[str, list[Row]] = {stream: [] for stream in STREAMS}
    order = [stream for stream, parts in batches.items() for _ in parts]
    chance.shuffle(order)
    times = [row["ts"] for parts in batches.values() for batch in parts for row in batch if row["ts"] < 9 * SECOND]
    now = chance.choice(times or [0]) + chance.choice((1, 1, SECOND))
    for stream in order:
        batch = [row for row in batches[stream].pop(0) if row["ts"] <= now + SECOND]
        rows[stream] += batch
        engine.push(stream, batch)
    reached = {}
    for stream, own in rows.items():
        punctuation = chance.choice((now,) * 6 + (now + SECOND, None))
        reached[stream] = max((row["ts"] for row in own), default=BEGINNING + 2 * SECOND) - 2 * SECOND
        if punctuation is not None:
            reached[stream] = max(reached[stream], punctuation)
            engine.advance(stream, punctuation)
    if chance.random() < 0.3:
        engine = pw.Engine.restore(engine.snapshot())
    table = engine.execute(query.cql)
    assert table is not None
    found = values_of(table)
    instant = instant_of(query, reached)
    ordered = {stream: sorted(own, key=lambda row: row["ts"]) for stream, own in rows.items()}
    assert found == query.answer(ordered, instant), query.cql
    empty = not any(source.held(ordered[source.stream], instant) for source in query.sources)
    if registered and not empty:
        assert found == values_of(engine.lookup("q")), query.cql
    return query, found, registered and not empty


@settings(max_examples=settings.default.max_examples // 3)
@given(st.integers(0, 2**32))
def test_the_answer_of_sql_and_of_a_registered_query(seed: int) -> None:
    play(seed)


def test_queries_are_worth_comparing() -> None:
    played = [play(seed) for seed in range(48)]
    assert sum(bool(found) for _, found, _ in played) > 9
    assert sum(registered for _, _, registered in played) > 9
    for word in ("DISTINCT", "UNION", "EXCEPT", "EXISTS", "GROUP BY", "ROWS", "SLIDE"):
        assert any(word in query.cql and found for query, found, _ in played), word


def play_with_tables(seed: int) -> Counter[Any]:
    chance = Random(seed)
    game = Play(chance)
    for stream in ("a", "b"):
        game.engine.execute(f"ALTER STREAM {stream} SET (retain = '1 day')")
    for name in dict.fromkeys(game.tables):
        game.engine.execute(f"INSERT INTO {name} VALUES (1, 2, 'p'), (2, NULL, 'q'), (3, 3, 'p')")
        rows = zip((1, 2, 3), (2, None, 3), "pqp", strict=True)
        game.histories[name].change([], [{"k": k, "v": v, "w": w} for k, v, w in rows], BEGINNING)
    for stream, parts in random_rows(chance, 20).items():
        for batch in parts if stream in game.rows else []:
            game.engine.push(stream, batch)
            game.rows[stream] += batch
            game.statement()
    for history in game.histories.values():
        history.rows = [row | {"since": BEGINNING} for row in history.present]
    until = game.watermark()
    if game.slide is not None and until > -3 * SECOND:
        until -= until % (game.slide * SECOND)
    table = game.engine.execute(game.cql())
    assert table is not None
    found = values_of(table)
    assert found == game.expected(max(until, BEGINNING + 1) - 1), game.cql()
    return found


@settings(max_examples=settings.default.max_examples // 5)
@given(st.integers(0, 2**32))
def test_joins_with_tables_as_they_are(seed: int) -> None:
    play_with_tables(seed)


def test_tables_are_worth_comparing() -> None:
    assert sum(bool(play_with_tables(seed)) for seed in range(16)) > 2


# ---- by hand ---------------------------------------------------------------------------------------------------------


def engine_with(*statements: str) -> pw.Engine:
    engine = pw.Engine()
    engine.execute("CREATE STREAM a (ts TIMESTAMP, k BIGINT, v BIGINT) WITH (retain = '1 hour')")
    engine.execute("CREATE STREAM b (ts TIMESTAMP, k BIGINT, v BIGINT)")
    engine.execute("CREATE TABLE r (k BIGINT PRIMARY KEY, w STRING)")
    engine.execute("INSERT INTO r VALUES (1, 'x'), (2, 'y'), (7, 'z')")
    for statement in statements:
        engine.execute(statement)
    engine.push("a", [{"ts": i * SECOND, "k": i % 3, "v": i} for i in range(20)])
    return engine


def rows_of(engine: pw.Engine, text: str) -> list[tuple[Any, ...]]:
    table = engine.execute(text)
    assert table is not None
    return sorted(tuple(row.values()) for row in table.to_pylist())


def test_answers_of_queries_and_tables_are_inputs_too() -> None:
    engine = engine_with(
        "CREATE QUERY counts AS SELECT k, COUNT(*) AS n FROM a [RANGE 10 SECONDS] GROUP BY k",
        "CREATE QUERY reports AS SELECT k, MAX(v) AS m FROM a [RANGE 10 SECONDS SLIDE 5 SECONDS] GROUP BY k",
    )
    assert rows_of(engine, "SELECT c.n, r.w FROM counts AS c, r WHERE c.k = r.k") == [(3, "x"), (3, "y")]
    assert rows_of(engine, "SELECT c.n, p.m FROM counts c, reports p WHERE c.k = p.k") == [(3, 13), (3, 14), (4, 12)]
    assert rows_of(engine, "SELECT k FROM r EXCEPT SELECT k FROM counts") == [(7,)]
    assert rows_of(engine, "SELECT x.w FROM r AS x, r AS y WHERE x.k = y.k + 1") == [("y",)]
    assert rows_of(engine, "SELECT w FROM r WHERE NOT EXISTS (SELECT 1 FROM a [RANGE 2 SECONDS] WHERE a.k = r.k)") == [
        ("x",),
        ("z",),
    ]
    with pytest.raises(PlanError, match="the answer of a query has no column 'change'"):
        engine.execute("SELECT r.w FROM counts AS c, r WHERE c.k = r.k AND c.change = 1")


def test_aggregates_that_keep_values_and_order() -> None:
    engine = engine_with()
    found = rows_of(
        engine,
        "SELECT MEDIAN(a.v) AS m, COUNT(*) AS n, FIRST(a.v) AS f, LAST(a.v) AS l "
        "FROM a [RANGE 10 SECONDS SLIDE 5 SECONDS], r WHERE a.k = r.k",
    )
    assert found == [(10.0, 7, 5, 14)]


def test_a_sum_of_a_part_of_the_rows_may_overflow() -> None:
    engine = engine_with()
    for time, v in ((30, 2**63 - 1), (31, 2**63 - 1), (32, -(2**63) + 1), (40, 0)):
        engine.push("a", [{"ts": time * SECOND, "k": 1, "v": v}])
    assert rows_of(engine, "SELECT SUM(a.v) AS s FROM a [RANGE 10 SECONDS], r WHERE a.k = r.k") == [(2**63 - 1,)]


def test_what_is_not_held_is_said() -> None:
    engine = engine_with()
    join = "SELECT a.v FROM a [RANGE 2 SECONDS], b [RANGE 1 MINUTE] WHERE a.k = b.k"
    assert rows_of(engine, join) == []  # b has come nowhere yet
    assert rows_of(engine, "SELECT COUNT(*) AS n FROM a [NOW] AS x, b [NOW] AS y WHERE x.k = y.k") == [(0,)]
    engine.push("b", [{"ts": i * SECOND, "k": 1, "v": i} for i in range(20)])
    with pytest.raises(NotHeldError) as refused:
        engine.execute(join)
    assert "the window [RANGE 1 MINUTE] reaches further back than what stream 'b' holds (no rows)" in str(refused.value)
    assert "ALTER STREAM b SET (retain = '1 minute')" in str(refused.value)
    with pytest.raises(NotHeldError, match=r"(?s)\[ROWS 3\] counts rows that stream 'b' .*ALTER STREAM b SET"):
        engine.execute("SELECT DISTINCT k FROM b [ROWS 3]")
    engine.execute("CREATE QUERY few AS SELECT k, v FROM b [RANGE 2 SECONDS SLIDE 2 SECONDS]")
    engine.push("b", [{"ts": i * SECOND, "k": 1, "v": i} for i in range(20, 30)])
    for window in ("[ROWS 3]", "[RANGE 9 SECONDS]"):
        with pytest.raises(NotHeldError, match=r"(?s)query 'few' .*FROM few without a window"):
            engine.execute(f"SELECT v FROM few {window}")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("SELECT DISTINCT k FROM (SELECT k FROM a [RANGE 1 SECOND]) [RANGE 1 SECOND]", "subquery|change log"),
        ("SELECT a.v FROM a LEFT JOIN r ON a.k = r.k", "LEFT JOIN has no operator yet"),
        ("SELECT a.v FROM a [RANGE 1 SECOND SLIDE 1 SECOND], b [RANGE 2 SECONDS SLIDE 2 SECONDS]", "the same SLIDE"),
        ("SELECT k FROM a WHERE EXISTS (SELECT 1 FROM r WHERE r.k > a.k)", "only by equalities"),
    ],
)
def test_refused_in_words(text: str, words: str) -> None:
    with pytest.raises(PanewiseError, match=words):
        engine_with().execute(text)


def test_a_table_that_has_been_another_one() -> None:
    engine = engine_with(
        "CREATE STREAM changes (ts TIMESTAMP, k BIGINT, w STRING)",
        "CREATE TABLE now_ (k BIGINT PRIMARY KEY, w STRING) WITH (changes = 'changes')",
        "CREATE TABLE then_ (k BIGINT PRIMARY KEY, w STRING) NON RETROACTIVE WITH (changes = 'changes')",
    )
    text = "SELECT a.v, t.w FROM a [RANGE 4 SECONDS], {} AS t WHERE a.k = t.k"
    assert rows_of(engine, text.format("now_")) == []  # the change stream has come nowhere
    engine.push("changes", [{"ts": 10 * SECOND, "k": 1, "w": "x"}])
    engine.advance("changes", 18 * SECOND)
    for table in ("now_", "then_"):  # at the watermark of the change stream
        assert rows_of(engine, text.format(table)) == [(16, "x")]
        assert engine.execute("SELECT * FROM now_").to_pylist() == [{"k": 1, "w": "x"}]
    engine.push("changes", [{"ts": 18 * SECOND, "k": 1, "w": "y"}])
    engine.advance("changes", 19 * SECOND)
    assert rows_of(engine, text.format("now_")) == [(16, "y")]
    with pytest.raises(NotHeldError, match=r"table 'then_' has changed at .*:18.* what it was at .*:15.* is not held"):
        engine.execute(text.format("then_"))
    engine.advance("changes", 50 * SECOND)
    engine.push("changes", [{"ts": 50 * SECOND, "k": 1, "w": "z"}])
    engine.advance("changes", 60 * SECOND)
    with pytest.raises(NotHeldError, match="table 'now_' has changed"):
        engine.execute(text.format("now_"))


@pytest.mark.parametrize("explain", ["", "EXPLAIN "])
@pytest.mark.parametrize("inner", ["SELECT n FROM q", "SELECT COUNT(*) AS n FROM q", "(SELECT n FROM q WHERE n > 1)"])
def test_a_query_in_parentheses_over_an_answer_is_refused(explain: str, inner: str) -> None:
    engine = pw.Engine()
    engine.execute("CREATE STREAM s (ts TIMESTAMP, k STRING)")
    engine.execute("CREATE QUERY q AS SELECT k, COUNT(*) AS n FROM s [RANGE 2 SECONDS SLIDE 1 SECOND] GROUP BY k")
    with pytest.raises(PanewiseError, match="in parentheses is read without a window"):
        engine.execute(f"{explain}SELECT n FROM ({inner}) AS x WHERE n > 0")
