"""Errors as a user sees them: `errors.golden` holds wrong statements, each followed by its whole message.

After a change of wording, `python -m tests.language.test_errors` writes the file anew; read the difference.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from panewise.errors import BindError, ParseError, QueryError
from panewise.language.bind.binder import bind_one, parse
from tests.language.samples import sample_catalog

GOLDEN = Path(__file__).parent / "errors.golden"
SEPARATOR = "\n---\n"


def cases() -> list[tuple[str, str]]:
    """The pairs of statement and message."""
    pairs = GOLDEN.read_text(encoding="utf-8").strip().split("\n\n===\n")
    found = []
    for pair in pairs:
        statement, _, message = pair.partition(SEPARATOR)
        found.append((statement.removeprefix("===\n"), message))
    return found


def bind_all(text: str) -> None:
    catalog = sample_catalog()
    for parsed in parse(text):
        bind_one(parsed, catalog)


def message_of(text: str) -> str:
    with pytest.raises(QueryError) as raised:
        bind_all(text)
    return f"{type(raised.value).__name__}: {raised.value}"


@pytest.mark.parametrize(("statement", "message"), cases(), ids=[statement[:50] for statement, _ in cases()])
def test_messages(statement: str, message: str) -> None:
    assert message_of(statement) == message


def test_places_are_those_of_the_whole_text() -> None:
    text = "SHOW QUERIES;\n-- é\n  SELECT symbol,\n    prise FROM trades [NOW]; SHOW SINKS"
    with pytest.raises(BindError) as raised:
        bind_all(text)
    error = raised.value
    assert error.span is not None
    assert (error.line, error.column, text[error.span.start : error.span.end]) == (4, 5, "prise")
    assert error.hint == "did you mean price?"


def test_nothing_is_bound_where_a_later_statement_does_not_parse() -> None:
    with pytest.raises(ParseError, match="expected a statement"):
        parse("SHOW QUERIES; SHOWW QUERIES")


def test_a_text_that_is_too_long() -> None:
    with pytest.raises(ParseError, match="1,000,001 characters"):
        parse(" " * 1_000_001)


if __name__ == "__main__":
    statements = [statement for statement, _ in cases()]
    GOLDEN.write_text(
        "\n\n".join(f"===\n{statement}{SEPARATOR}{message_of(statement)}" for statement in statements) + "\n",
        encoding="utf-8",
    )
