"""The tokens of CQL.

Only words that could be taken for a name are keywords here. The parser recognises all others (CREATE, STREAM, SLIDE,
FIRST, type names, ...) by their text, so a column may be called `first` or `date`.
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
    """The tokens of a text; ParseError with the place of what is not a token."""
    if not isinstance(text, str):
        raise ParseError(f"a statement must be a text, not a {type(text).__name__}")
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
    """The error for the place where the tokenizer stopped: almost always a quote or comment that is not closed."""
    start = min(tokenizer._core._start, max(0, len(text) - 1))
    openings = {"'": "quoted text", '"': "quoted name", "`": "quoted name", "/*": "comment"}
    for opening, kind in openings.items():
        if text.startswith(opening, start):
            span = Span(start, start + len(opening))
            return ParseError(f"the {kind} that begins here is not closed", text=text, span=span)
    return ParseError("this is not a word or sign of the language", text=text, span=Span(start, start + 1))


def _unknown_character(text: str, token: Token) -> ParseError:
    good = _WORD.match(token.text)
    place = token.start + (good.end() if good else 0)
    return ParseError(f"unexpected character {text[place]!r}", text=text, span=Span(place, place + 1))
