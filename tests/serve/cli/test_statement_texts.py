"""Texts of many statements."""

from __future__ import annotations

import pytest

from panewise.serve.cli.statement_texts import is_complete, split_statements


def test_every_piece_keeps_its_line_and_column() -> None:
    text = "SHOW STREAMS; SHOW\n  TABLES;\n\n-- and; then\nSHOW QUERIES"
    pieces = split_statements(text)
    assert [piece.strip() for piece in pieces] == ["SHOW STREAMS", "SHOW\n  TABLES", "SHOW QUERIES"]
    for piece, word in zip(pieces, ("STREAMS", "TABLES", "QUERIES"), strict=True):
        assert piece.index(word) == text.index(word)
        assert piece.count("\n", 0, piece.index(word)) == text.count("\n", 0, text.index(word))


def test_a_text_without_statements() -> None:
    assert split_statements("") == []
    assert split_statements(" ; ;\n-- nothing;\n") == []


@pytest.mark.parametrize(
    ("text", "complete"),
    [
        ("SHOW QUERIES;", True),
        ("SHOW QUERIES;  -- all\n", True),
        ("SHOW QUERIES", False),
        ("SELECT 'a;", False),
        ("SELECT 'a;\n", False),
        ("SELECT 'a;';", True),
        ("SHOW QUERIES; SHOW", False),
        ("", False),
    ],
)
def test_when_a_text_is_complete(text: str, complete: bool) -> None:
    assert is_complete(text) is complete
