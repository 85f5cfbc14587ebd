"""The words and signs of CQL.

Only words that could be mistaken for a name where they stand are keywords here; all others (CREATE, STREAM, SLIDE,
FIRST, type names, ...) are plain words that the parser knows by their text: columns may be called `first` or `date`.
"""

from __future__ import annotations

import re
from typing import ClassVar

from sqlglot.errors import TokenError
from sqlglot.tokenizer_core import Token, TokenType
from sqlglot.tokens import Tokenizer

from panewise.errors import ParseError, Span

STATEMENT_CHARACTERS_MAX = 1_000_000

_KEYWORDS = """
    :: || >= <= <> != <=> ALL AND AS BETWEEN CASE CROSS DISTINCT ELSE END EXCEPT EXISTS FALSE FROM FULL GROUP_BY HAVING
    ILIKE IN INNER INTERSECT IS JOIN LEFT LIKE NOT NULL ON OR ORDER_BY OUTER PARTITION_BY RIGHT SELECT THEN TRUE UNION
    USING WHEN WHERE DIV
"""
_WORD = re.compile(r"[^\W\d][\w$]*")


class CqlTokenizer(Tokenizer):
    IDENTIFIERS: ClassVar[list[str | tuple[str, str]]] = ['"', "`"]
    QUOTES: ClassVar[list[tuple[str, str] | str]] = ["'"]
    KEYWORDS: ClassVar[dict[str, TokenType]] = {
        word: Tokenizer.KEYWORDS[word] for word in (keyword.replace("_", " ") for keyword in _KEYWORDS.split())
    }
    COMMANDS: ClassVar[set[TokenType]] = set()


def tokens_of(text: str) -> list[Token]:
    """The tokens of a text; what cannot be read as one is a ParseError that says where."""
    if not isinstance(text, str):
        raise ParseError(f"a statement is a text, not a {type(text).__name__}")
    if len(text) > STATEMENT_CHARACTERS_MAX:
        raise ParseError(f"the text has {len(text):,} characters, more than the {STATEMENT_CHARACTERS_MAX:,} allowed")
    if (place := text.find("\0")) >= 0:
        raise ParseError("a statement cannot hold the NUL character", text=text, span=Span(place, place + 1))
    tokenizer = CqlTokenizer(dialect="cql")
    try:
        tokens = tokenizer.tokenize(text)
    except TokenError as error:
        raise _unreadable(text, tokenizer) from error
    for token in tokens:
        if token.token_type == TokenType.VAR and not _WORD.fullmatch(token.text):
            raise _unknown_character(text, token)
    return tokens


def _unreadable(text: str, tokenizer: CqlTokenizer) -> ParseError:
    """Where the tokenizer stopped: a quote or a comment that is never closed, almost always."""
    start = min(tokenizer._core._start, max(0, len(text) - 1))
    openings = {"'": "quoted text", '"': "quoted name", "`": "quoted name", "/*": "comment"}
    for opening, kind in openings.items():
        if text.startswith(opening, start):
            span = Span(start, start + len(opening))
            return ParseError(f"the {kind} that begins here has no end", text=text, span=span)
    return ParseError("this cannot be read", text=text, span=Span(start, start + 1))


def _unknown_character(text: str, token: Token) -> ParseError:
    good = _WORD.match(token.text)
    place = token.start + (good.end() if good else 0)
    return ParseError(f"unexpected character {text[place]!r}", text=text, span=Span(place, place + 1))
