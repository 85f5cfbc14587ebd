"""Damaged statements: whatever is done to a valid text, the answer is a statement or a PanewiseError, soon."""

from __future__ import annotations

import random
import time

import pytest

from panewise.catalog import Catalog
from panewise.errors import PanewiseError, QueryError
from panewise.language.bind.binder import bind_one, parse
from tests.language.samples import DEFINITIONS, STATEMENTS, sample_catalog

TEXTS = [*STATEMENTS, *(part.strip() for part in DEFINITIONS.split(";") if part.strip())]
DAMAGED_COUNT = 2000
# How long a damaged statement may take, in times that all texts together take, on this machine and now.
TIMES_MAX = 3.0
PIECES = [
    *"()[]{}'\"`,;.*+-/%<>=!?@#$&|^~\\:\0\n\t",
    *"0 9 1e999 99999999999999999999 é 漢 🙂 \u200b \u2028 -- /* */ :: <=> || NULL".split(),
    *"SELECT FROM WHERE GROUP BY HAVING NOT EXISTS CASE WHEN END AS UNION ALL DISTINCT INTERVAL OVER LIMIT".split(),
    *"ISTREAM WSTREAM RESTORE [NOW] RANGE ROWS SLIDE OFFSET ALIGN INTERNAL CREATE STREAM SUM( WSTREAM(".split(),
]


def damaged(text: str, dice: random.Random) -> str:
    """The text after one to five random edits."""
    for _ in range(dice.randint(1, 5)):
        start = dice.randint(0, len(text))
        end = min(len(text), start + dice.randint(0, 8))
        match dice.randrange(6):
            case 0:
                text = text[:start] + text[end:]
            case 1:
                text = text[:start] + dice.choice(PIECES) + text[start:]
            case 2:
                text = text[:start] + " " + dice.choice(PIECES) + " " + text[end:]
            case 3:
                text = text[:start] + text[start:end] * dice.randint(2, 4) + text[end:]
            case 4:
                words = text.split(" ")
                first, second = dice.randrange(len(words)), dice.randrange(len(words))
                words[first], words[second] = words[second], words[first]
                text = " ".join(words)
            case 5:
                other = dice.choice(TEXTS)
                text = text[:start] + other[dice.randint(0, len(other)) :]
    return text


def bind_all(text: str, catalog: Catalog) -> PanewiseError | None:
    """The error of a text, None where all of it binds. Nothing is created, so the catalog must stay as it is."""
    try:
        for parsed in parse(text):
            bind_one(parsed, catalog)
    except PanewiseError as error:
        return error
    return None


def timed(text: str, catalog: Catalog, limit: float) -> tuple[PanewiseError | None, float]:
    """What a text gives, and in how many seconds at best: a slow time may have met a pause of the machine."""
    least = float("inf")
    for _ in range(5):
        started = time.thread_time()
        error = bind_all(text, catalog)
        least = min(least, time.thread_time() - started)
        if least < limit:
            break
    return error, least


@pytest.fixture(scope="module")
def time_of_all() -> float:
    """That long all texts take here, at best. The first time whatever is needed is loaded."""
    catalog, least = sample_catalog(), float("inf")
    for _ in range(3):
        started = time.thread_time()
        for text in TEXTS:
            bind_all(text, catalog)
        least = min(least, time.thread_time() - started)
    return least


def test_damaged_statements_give_only_our_errors(time_of_all: float, capfd: pytest.CaptureFixture[str]) -> None:
    catalog = sample_catalog()
    before = catalog.copy()
    limit = TIMES_MAX * time_of_all
    dice = random.Random(20_260_131)
    failed = 0
    for _ in range(DAMAGED_COUNT):
        text = damaged(dice.choice(TEXTS), dice)
        error, elapsed = timed(text, catalog, limit)
        assert elapsed < limit, text
        if error is not None:
            failed += 1
            assert str(error), text
            assert not isinstance(error, QueryError) or error.span is None or error.text == text
    assert catalog.copy() == before
    assert failed > DAMAGED_COUNT / 2  # the damage is real
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    "text",
    [
        "SELECT " + "(" * 10_000 + "1" + ")" * 10_000 + " FROM trades",
        "SELECT " + "(" * 10_000,
        "SELECT " + "- " * 10_000 + "1 FROM trades",
        "SELECT size FROM trades WHERE " + "NOT " * 10_000 + "TRUE",
        "SELECT " + "ABS(" * 5_000 + "1" + ")" * 5_000 + " FROM trades",
        "SELECT " + "CASE WHEN TRUE THEN " * 5_000 + "1" + " END" * 5_000 + " FROM trades",
        "SELECT * FROM " + "(SELECT * FROM " * 3_000 + "trades" + ")" * 3_000,
        "SELECT size FROM trades WHERE EXISTS " + "(SELECT * FROM trades WHERE EXISTS " * 2_000,
        "(" * 5_000 + "SELECT * FROM trades" + ")" * 5_000,
        "SELECT 1" + " + 1" * 10_000 + " AS x FROM trades",
        "SELECT " + "9" * 100_000 + " AS x FROM trades",
        "SELECT symbol FROM trades [RANGE " + "9" * 5_000 + " SECONDS]",
        "SELECT symbol FROM trades [ROWS " + "9" * 5_000 + "]",
        "SELECT CAST(size AS DECIMAL(" + "9" * 5_000 + ")) AS x FROM trades",
        "SELECT size" + "::BIGINT" * 5_000 + " AS x FROM trades",
        "ALTER STREAM trades SET (late = " + "9" * 5_000 + ")",
        "INSERT INTO companies (symbol, worth) VALUES ('a', " + "9" * 5_000 + ")",
        "INSERT INTO companies (symbol, worth) VALUES ('a', 1e999999999)",
        "SELECT '" + "x" * 999_999 + "' AS x FROM trades",
        "x" * 1_000_001,
        "SELECT 'abc",
        'SELECT "abc',
        "SELECT `abc FROM trades",
        'SELECT "" FROM trades',
        "SELECT N'x' AS x FROM trades",
        "/* never closed",
        "\0",
        "{% jinja %}",
        "\ud800",
        "SELECT [1, 2] AS x FROM trades",
        "SELECT {'a': 1} AS x FROM trades",
        "SELECT a -> 'b' FROM trades",
        "SELECT x -> x + 1 FROM trades",
        "SELECT :name FROM trades",
        "SELECT @name FROM trades",
        "SELECT ? FROM trades",
        "BEGIN",
        "COMMIT",
        "VACUUM trades",
        "SET x = 1",
        "GRANT ALL ON trades TO me",
        "CREATE VIEW v AS SELECT 1",
        "CREATE INDEX i ON trades (size)",
        "MERGE INTO companies USING trades ON TRUE",
        "WITH x AS (SELECT 1) SELECT * FROM x",
        "VALUES (1)",
        "SELECT *",
        "SELECT * FROM trades.symbol",
        "SELECT size FROM trades TABLESAMPLE (10)",
        "SELECT SUM(size) OVER () FROM trades",
        "SELECT SUM(size) FILTER (WHERE size > 1) FROM trades",
        "SELECT size FROM trades QUALIFY size > 1",
        "SELECT (SELECT 1 FROM trades) AS x FROM trades",
        "SELECT size FROM trades WHERE size IN (SELECT size FROM trades)",
        "SELECT size FROM trades AT TIME ZONE 'UTC'",
        "SELECT ts AT TIME ZONE 'UTC' AS x FROM trades",
        "SELECT size << 2 AS x FROM trades",
        "SELECT symbol LIKE 'a' ESCAPE '!' AS x FROM trades",
    ],
    ids=lambda text: text[:24].strip(),
)
def test_hostile_texts_are_refused_in_words(text: str, time_of_all: float, capfd: pytest.CaptureFixture[str]) -> None:
    catalog = sample_catalog()
    limit = (60 if len(text) > 5_000 else 15) * time_of_all
    error, elapsed = timed(text, catalog, limit)
    assert isinstance(error, QueryError) or (error is None and text.startswith("SELECT 'x"))
    assert error is None or len(str(error)) < 1000
    assert elapsed < limit
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("text", ["", " \n\t", ";", ";;;", "-- nothing", "/* nothing */", "-- one\n;/* two */;"])
def test_a_text_without_statements_has_none(text: str) -> None:
    assert parse(text) == []


def test_long_but_flat_statements_are_fine() -> None:
    catalog = sample_catalog()
    either = " OR ".join(f"size = {number}" for number in range(3_000))
    listed = ", ".join(map(str, range(3_000)))
    for condition in (either, f"size IN ({listed})", either.replace(" OR ", " AND ")):
        assert bind_all(f"SELECT size FROM trades WHERE {condition}", catalog) is None
