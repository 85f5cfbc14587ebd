"""Splits a text of many statements at its semicolons.

Each piece keeps its position: the text before it is replaced by blanks and line breaks, so that an error in the third
statement of a file still names the line and column in the file.
"""

from __future__ import annotations

from pathlib import Path

from panewise.errors import ConnectorError, ParseError


def read_statements(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConnectorError(f"the file '{file}' cannot be read: {error}") from None


def split_statements(text: str) -> list[str]:
    """The statements without their semicolons; raises ParseError if one of them cannot be parsed.

    >>> [piece.strip() for piece in split_statements("SHOW QUERIES; -- all; of them\\nSHOW STREAMS")]
    ['SHOW QUERIES', 'SHOW STREAMS']
    """
    from panewise.language.parse.dialect import parse

    spans = [statement.span for statement in parse(text)]
    return [_blank(text[: span.start]) + text[span.start : span.end] for span in spans]


def is_complete(text: str) -> bool:
    """Whether a text ends with a semicolon outside quotes and comments.

    >>> is_complete("SELECT 1;"), is_complete("SELECT ';"), is_complete("SELECT 1 -- ;")
    (True, False, False)
    """
    import panewise.language.parse.dialect  # noqa: F401 - the tokens belong to this dialect
    from panewise.language.parse.tokens import tokens_of

    try:
        tokens = tokens_of(text)
    except ParseError:
        # An odd number of quotes: the text is incomplete. Other errors are reported when the engine parses the text.
        return text.count("'") % 2 == 0 and text.rstrip().endswith(";")
    return bool(tokens) and tokens[-1].token_type.name == "SEMICOLON"


def _blank(text: str) -> str:
    return "".join(character if character == "\n" else " " for character in text)
