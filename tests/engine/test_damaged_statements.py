"""Two thousand damaged statements: each is refused with a PanewiseError, fast, and leaves the catalog as it was.

Damage is a few random edits of a valid statement: characters dropped, doubled, swapped or replaced, tokens of other
statements put in, the end cut off. Some edits give a valid statement again; it then is undone and not counted.
"""

from __future__ import annotations

import random
import re
import time

import pytest

import panewise as pw
from tests.case_files import read_cases
from tests.places import CASES

DAMAGED, DAMAGED_SOAK = 2_000, 50_000
SECONDS_EACH = 0.1  # of processor time: other processes do not count

BASE = """
CREATE STREAM t (ts TIMESTAMP, k STRING, v BIGINT, x DOUBLE, b BOOLEAN, WATERMARK FOR ts AS ts - INTERVAL 5 SECONDS);
CREATE STREAM u (ts TIMESTAMP, k STRING, w BIGINT);
CREATE QUERY base AS SELECT k, SUM(v) AS s FROM t [RANGE 5 SECONDS SLIDE 1 SECOND] GROUP BY k;
"""

STATEMENTS = (
    """CREATE STREAM s (ts TIMESTAMP, k STRING, d DECIMAL(10, 2), WATERMARK FOR ts AS ts - INTERVAL 5 SECONDS)
       WITH (connector = 'parquet', path = 'data/trades', late = 'keep')""",
    "CREATE TABLE companies (symbol STRING PRIMARY KEY, sector STRING) NON RETROACTIVE",
    """CREATE QUERY q AS SELECT k, AVG(x) AS mean, MAX(x) - MIN(x) AS spread, COUNT(*) AS n
       FROM t [RANGE 5 MINUTES SLIDE 10 SECONDS] WHERE v > 100 GROUP BY k HAVING COUNT(*) > 20""",
    """CREATE QUERY q AS SELECT ISTREAM * FROM t [RANGE 1 MINUTE OFFSET 5 SECONDS]
       WHERE k IN ('a', 'b') OR x BETWEEN 1 AND 2""",
    "CREATE QUERY q WITH (mode = 'lookup') AS SELECT SUM(v) AS s FROM t [PARTITION BY k ROWS 10]",
    "CREATE QUERY q AS SELECT SUM(WSTREAM(SUM(v))[ROWS 10]) AS s FROM t [RANGE 6 SECONDS SLIDE 6 SECONDS]",
    "CREATE QUERY q AS SELECT MAX(s) AS m FROM (SELECT SUM(v) AS s FROM t [RANGE 1 SECOND SLIDE 1 SECOND]) [ROWS 5]",
    "CREATE QUERY q AS SELECT CASE WHEN v > 1 THEN 'x' ELSE UPPER(k) END AS c, CAST(x AS BIGINT) AS i FROM t [NOW]",
    "CREATE QUERY q AS SELECT MAX(s) AS m FROM base [RANGE 1 HOUR SLIDE 1 MINUTE ALIGN '2024-01-01 00:00:00']",
    "CREATE SINK alerts FROM base WITH (connector = 'parquet', path = 'out/momentum')",
    "ALTER STREAM t SET (late = 'drop', idle = '30 seconds', on_bad_row = 'skip')",
    "SUSPEND QUERY base",
    "RESUME QUERY base",
    "EXPLAIN QUERY base",
    "SHOW QUERIES",
    "SELECT k, COUNT(*) AS n FROM t [RANGE 10 SECONDS] GROUP BY k",
)

TOKENS = re.compile(r"\w+|'[^']*'|\S")


def damaged(statement: str, source: random.Random, vocabulary: list[str]) -> str:
    """The statement after one to four edits."""
    text = statement
    for _ in range(source.randint(1, 4)):
        at = source.randrange(len(text) + 1)
        match source.randrange(8):
            case 0:
                text = text[:at] + text[at + source.randint(1, 3) :]
            case 1:
                text = text[:at] + source.choice("()[],;'\"`.*-+/%=<>\\\0\n\t#$@!?:|&^~{} é€😀0123456789eE") + text[at:]
            case 2:
                text = text[:at]
            case 3:
                text = text[:at] + source.choice(vocabulary) + text[at:]
            case 4:
                tokens = TOKENS.findall(text)
                if tokens:
                    tokens[source.randrange(len(tokens))] = source.choice(vocabulary)
                text = " ".join(tokens)
            case 5:
                tokens = TOKENS.findall(text)
                source.shuffle(tokens)
                text = " ".join(tokens) if source.random() < 0.3 else text
            case 6:
                text = text[:at] + text[at : at + 20] * source.randint(1, 5) + text[at:]
            case _:
                text = re.sub(r"\d+", lambda _: str(source.choice((0, -1, 10**9, 10**30, 0.5))), text, count=1)
    return text


def valid_statements() -> list[str]:
    """Those above and all of the cases."""
    folder = CASES
    texts = [
        step.text
        for path in sorted(folder.glob("*.case"))
        for case in read_cases(path)
        for step in case.steps
        if step.action in ("execute", "error") and step.text.strip()
    ]
    return [*STATEMENTS * 10, *texts]


def again(engine: pw.Engine, text: str) -> float:
    """How long a refusal takes at best: a slow one may have met the collector of garbage."""
    times = []
    for _ in range(3):
        begin = time.thread_time()
        with pytest.raises(pw.PanewiseError):
            engine.execute(text)
        times.append(time.thread_time() - begin)
    return min(times)


def test_damaged_statements(soak: bool) -> None:
    source = random.Random(20260131)
    statements = valid_statements()
    vocabulary = sorted({token for statement in STATEMENTS for token in TOKENS.findall(statement)})
    engine = pw.Engine()
    engine.execute(BASE)
    # The first statement loads modules; that is not what is timed here.
    engine.execute("EXPLAIN QUERY base")
    refused, slowest = 0, (0.0, "")
    wanted = DAMAGED_SOAK if soak else DAMAGED
    while refused < wanted:
        text = damaged(source.choice(statements), source, vocabulary)
        before = engine.catalog.copy()
        begin = time.thread_time()
        try:
            engine.execute(text)
        except pw.PanewiseError as error:
            str(error)
            taken = time.thread_time() - begin
            refused += 1
            slowest = max(slowest, (min(taken, again(engine, text)) if taken > SECONDS_EACH else taken, text))
            if ";" not in text:
                assert engine.catalog.copy() == before, text
        # Several statements in one text run until one is refused, and some damage is none: begin anew where they ran.
        if engine.catalog.copy() != before:
            engine = pw.Engine()
            engine.execute(BASE)
    assert slowest[0] < SECONDS_EACH, slowest
