"""Statements that are valid, in the order in which they can be executed, and a catalog that holds what they create."""

from __future__ import annotations

from functools import cache

from panewise.catalog import (
    ArchiveDefinition,
    Catalog,
    Definition,
    QueryDefinition,
    SinkDefinition,
    StreamDefinition,
    TableDefinition,
)
from panewise.language.bind.binder import bind_one, parse
from panewise.language.bind.selected_columns import event_time, result_columns
from panewise.language.statements import (
    CreateArchive,
    CreateQuery,
    CreateSink,
    CreateStream,
    CreateTable,
    Statement,
)

DEFINITIONS = """
CREATE STREAM trades (ts TIMESTAMP, symbol STRING, price DOUBLE, size BIGINT, day DATE, cost DECIMAL(10, 2),
                      WATERMARK FOR ts AS ts - INTERVAL 5 SECONDS)
  WITH (connector = 'parquet', path = 'data/trades');
CREATE STREAM IF NOT EXISTS quotes (at TIMESTAMP, symbol STRING, bid DOUBLE, ok BOOLEAN);
CREATE STREAM noted (`the time` TIMESTAMP, `a "b"` INT, WATERMARK FOR `the time`) WITH (late = 'keep', retain = '1 h');
CREATE TABLE companies (symbol STRING PRIMARY KEY, sector STRING, founded DATE, worth DECIMAL(12, 3)) NON RETROACTIVE;
CREATE TABLE pairs (a INT, b INT, PRIMARY KEY (a, b)) WITH (connector = 'csv', path = 'x', a.b = -3.5, 'c d' = TRUE);
CREATE QUERY momentum AS
  SELECT symbol, AVG(price) AS mean, MAX(price) - MIN(price) AS spread, COUNT(*) AS n
  FROM trades [RANGE 5 MINUTES SLIDE 10 SECONDS]
  WHERE size > 100 GROUP BY symbol HAVING COUNT(*) > 20;
CREATE QUERY calm WITH (mode = 'lookup') AS SELECT MAX(spread) FROM momentum [RANGE 1 HOUR SLIDE 1 MINUTE];
CREATE SINK alerts FROM momentum WITH (connector = 'parquet', path = 'out/momentum');
CREATE ARCHIVE IF NOT EXISTS past FROM momentum WITH (path = 'out/past', key = 'SYMBOL', lifetime = '30 days');
CREATE ARCHIVE ticks FROM trades
  WITH (path = 'out/ticks', key = 'symbol, day', lifetime = '1 week', every = '1 hour', layout = 'chronological 4x4',
        update = 'no_rebuild');
"""

STATEMENTS = [
    "SUSPEND QUERY momentum",
    "RESUME QUERY momentum",
    "DROP SINK alerts",
    "DROP QUERY IF EXISTS nothing",
    "SHOW STREAMS",
    "SHOW TABLES",
    "SHOW QUERIES",
    "SHOW SINKS",
    "SHOW ARCHIVES",
    "DROP ARCHIVE past",
    "DROP ARCHIVE IF EXISTS nothing",
    "ALTER ARCHIVE ticks SET (layout = 'by cost')",
    "ALTER ARCHIVE ticks SET (layout = 'wave by insertion 9', update = 'rebuild')",
    "SELECT symbol, window_end, mean FROM past WHERE symbol = 'IBM' AND window_end > TIMESTAMP '2026-01-01'",
    "SELECT p.symbol, COUNT(*) FROM past AS p JOIN companies AS c ON p.symbol = c.symbol GROUP BY p.symbol",
    "EXPLAIN QUERY momentum",
    "EXPLAIN PLAN",
    "EXPLAIN SELECT COUNT(*) FROM trades [NOW]",
    "ALTER STREAM trades SET (late = 'drop', idle = '30 seconds', on_bad_row = 'skip')",
    "INSERT INTO companies VALUES ('IBM', 'tech', DATE '1911-06-16', 1.5), ('it''s', NULL, '2020-01-01', -2)",
    "INSERT INTO companies (symbol, worth) VALUES ('IBM', 123456789.125)",
    "UPDATE companies SET sector = UPPER(sector) || '!', worth = 0 WHERE symbol = 'IBM' AND founded IS NOT NULL",
    "DELETE FROM companies WHERE sector LIKE 'te%' OR sector IS NULL",
    "DELETE FROM companies",
    "SELECT * FROM trades",
    "SELECT * FROM companies",
    "SELECT ISTREAM symbol, price FROM trades [NOW] WHERE price > 10.5",
    "SELECT ISTREAM(symbol, price) FROM trades [RANGE 1 MINUTE]",
    "SELECT ISTREAM (price + 1) * 2 AS p, size FROM trades [RANGE 1 MINUTE 30 SECONDS]",
    "SELECT DSTREAM DISTINCT symbol FROM trades [RANGE '90 seconds' SLIDE 1.5 MINUTES]",
    "SELECT RSTREAM RESTORE * FROM trades [RANGE 1 h SLIDE 7 min OFFSET 1 day ALIGN '2026-01-05']",
    "SELECT Istream-restore(symbol) FROM trades [RANGE 10 s SLIDE 10 s INTERNAL]",
    "SELECT SUM(size) FROM trades [ROWS 10 SLIDE 3 OFFSET 2]",
    "SELECT symbol, LAST(price) FROM trades [PARTITION BY symbol, day ROWS 5] GROUP BY symbol",
    "SELECT COUNT(*), COUNT(DISTINCT symbol), COUNT(1) AS ones FROM trades [UNBOUNDED]",
    "SELECT MEDIAN(price), QUANTILE(size, 0.99) AS q, TOP(3, symbol), FREQUENT(5, symbol) FROM trades [ROWS 9 SLIDE 3]",
    "SELECT PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY price), PERCENTILE_DISC(price, 1) AS d FROM trades [NOW]",
    "SELECT APPROX_COUNT_DISTINCT(symbol), APPROX_QUANTILE(price, 0.5) AS a, APPROX_TOP(2, symbol) FROM trades [NOW]",
    "SELECT MAX(price) FROM trades [UNBOUNDED SLIDE 1 DAY INTERNAL]",
    "SELECT WSTREAM(*)[ROWS 10] FROM trades [RANGE 1 MINUTE]",
    "SELECT WSTREAM(symbol, price * 2 AS twice)[RANGE 1 MINUTE SLIDE 1 MINUTE] FROM trades [NOW] WHERE size > 1",
    "SELECT SUM(WSTREAM(SUM(size))[ROWS 10]) FROM trades [RANGE 6 SECONDS SLIDE 6 SECONDS]",
    "SELECT symbol, SUM(WSTREAM(SUM(size))[ROWS 10]) / 2 AS half FROM trades [RANGE 6 s SLIDE 6 s] GROUP BY symbol",
    "SELECT SUM(a) FROM (SELECT SUM(size) AS a FROM trades [RANGE 6 SECONDS SLIDE 6 SECONDS INTERNAL]) [ROWS 10]",
    "SELECT x.a FROM (SELECT size AS a FROM trades [NOW]) AS x [RANGE 1 HOUR] WHERE x.a > 1",
    "SELECT t.symbol, c.sector FROM trades [NOW] AS t, companies AS c WHERE t.symbol = c.symbol",
    "SELECT t.price, q.bid FROM trades t [RANGE 1 MINUTE] JOIN quotes q [RANGE 1 MINUTE] ON t.symbol = q.symbol",
    "SELECT symbol, sector FROM trades [NOW] LEFT OUTER JOIN companies USING (symbol)",
    "SELECT t.*, bid FROM trades [NOW] t CROSS JOIN quotes [NOW] FULL JOIN companies c ON c.symbol = t.symbol",
    "SELECT symbol FROM trades [RANGE 1 m] t WHERE NOT EXISTS (SELECT * FROM quotes q [NOW] WHERE q.symbol = t.symbol)",
    "SELECT symbol FROM trades [NOW] UNION ALL SELECT symbol FROM quotes [NOW]",
    "(SELECT symbol FROM trades [NOW] UNION SELECT symbol FROM quotes [NOW]) EXCEPT ALL SELECT symbol FROM companies",
    "SELECT symbol FROM trades EXCEPT SELECT symbol FROM quotes INTERSECT SELECT symbol FROM companies",
    "SELECT UPPER(symbol) AS s, SUM(price) AS total FROM trades [RANGE 1 MINUTE SLIDE 1 s] GROUP BY s HAVING total > 3",
    "SELECT symbol, price * 2 AS p FROM trades [NOW] GROUP BY 1, 2",
    "SELECT ARG_MAX(symbol, price), FIRST(size), STDDEV(price), BOOL_AND(price > 1) FROM trades [RANGE 1 W SLIDE 1 D]",
    "SELECT CASE WHEN price > 1 THEN 'a' ELSE 'b' END AS c, CASE size WHEN 1 THEN 1.5 END AS d FROM trades [NOW]",
    "SELECT CAST(size AS STRING) AS s, TRY_CAST(symbol AS DECIMAL(5, 1)) AS d, price::INT AS i FROM trades [NOW]",
    "SELECT EXTRACT(HOUR FROM ts) AS h, DATE_TRUNC('day', ts) AS d, ts + INTERVAL '1' DAY AS t FROM trades [NOW]",
    "SELECT INTERVAL 5 SECONDS + ts AS later FROM trades WHERE ts - INTERVAL 1 HOUR < TIMESTAMP '2026-01-31 12:00:00'",
    "SELECT size FROM trades WHERE size IN (1, 2, 3) AND price NOT BETWEEN 1 AND 2 AND symbol NOT LIKE 'x%'",
    "SELECT size FROM trades WHERE NOT (price < 1 OR size >= 2) AND symbol IS DISTINCT FROM 'a' AND size <=> 3",
    "SELECT size FROM trades WHERE (size > 1) IS NOT TRUE AND size IS NOT NULL AND -size % 7 DIV 2 = - -3",
    "SELECT size & 1 | 2 ^ ~size AS bits, 'it''s' || symbol AS text, NULL AS nothing, TRUE AS yes, .5 AS h FROM trades",
    "SELECT COALESCE(symbol, 'none') AS a, IF(size > 1, 2, 3) AS b, LEFT(symbol, 2) AS c FROM trades",
    'SELECT `the time`, `a "b"` FROM noted [NOW] -- a comment\n/* and another */',
    "SELECT first AS last FROM (SELECT size AS first FROM trades [NOW]) AS date [ROWS 3]",
    "SELECT 1e3 AS a, 9223372036854775807 AS b, -9223372036854775808 AS c, 2147483648 AS d FROM trades [NOW]",
]


def with_created(catalog: Catalog, statement: Statement) -> None:
    """What an engine does to its catalog when it executes a statement that creates something."""
    match statement:
        case CreateStream():
            definition = StreamDefinition(
                statement.name, statement.schema, statement.timestamp, statement.delay_us, statement.options
            )
            catalog.add(definition)
        case CreateTable():
            catalog.add(
                TableDefinition(
                    statement.name, statement.schema, statement.primary_key, statement.retroactive, statement.options
                )
            )
        case CreateQuery():
            schema, timestamp = result_columns(statement.query), event_time(statement.query)
            assert timestamp is not None
            catalog.add(QueryDefinition(statement.name, schema, timestamp, statement.text, (), statement.options))
        case CreateSink():
            catalog.add(SinkDefinition(statement.name, statement.source, statement.options))
        case CreateArchive():
            source = statement.name, statement.source, statement.schema, statement.timestamp
            catalog.add(ArchiveDefinition(*source, statement.options))


@cache
def _sample_definitions() -> tuple[Definition, ...]:
    catalog = Catalog()
    for parsed in parse(DEFINITIONS):
        with_created(catalog, bind_one(parsed, catalog))
    return tuple(catalog)


def sample_catalog() -> Catalog:
    """A new catalog that holds what DEFINITIONS create."""
    catalog = Catalog()
    for definition in _sample_definitions():
        catalog.add(definition)
    return catalog


def bound(text: str, catalog: Catalog | None = None) -> Statement:
    """The one statement of a text, bound to the sample catalog."""
    [parsed] = parse(text)
    return bind_one(parsed, catalog or sample_catalog())
