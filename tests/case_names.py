"""Names of a case under a prefix, so that many cases can live in one host.

Streams, tables, queries and sinks get the prefix; columns, functions, words of the language and texts stay. A name is
known by where it stands: after the words that make, change or drop a thing, before the bracket of a window, after FROM
and JOIN, and before the point of a qualified column. What no token can be made of is left as it is: it is refused
under any name. Time is linear in the text.
"""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot.tokenizer_core import Token, TokenType

import panewise.language.parse.dialect  # noqa: F401 - the tokens belong to this dialect
from panewise.errors import ParseError
from panewise.language.parse.tokens import tokens_of

_VERBS = ("CREATE", "DROP", "SUSPEND", "RESUME", "EXPLAIN", "ALTER")
_KINDS = ("STREAM", "TABLE", "QUERY", "SINK")
_CONDITION = ("IF", "NOT", "EXISTS")
_SOURCE_WORDS = ("FROM", "JOIN", "INTO", "UPDATE")
_NAMES = (TokenType.VAR, TokenType.IDENTIFIER)


def with_prefix(text: str, prefix: str) -> str:
    """The statements with the prefix before every name of a stream, table, query or sink.

    >>> with_prefix("CREATE QUERY q AS SELECT t.v, 't' AS t FROM t [NOW] WHERE t.v IS DISTINCT FROM 1;", "c1_")
    "CREATE QUERY c1_q AS SELECT c1_t.v, 't' AS t FROM c1_t [NOW] WHERE c1_t.v IS DISTINCT FROM 1;"
    """
    try:
        tokens = tokens_of(text)
    except ParseError:
        return text
    places = sorted(_starts_of_names(tokens))
    pieces = [text[start:end] for start, end in zip([0, *places], [*places, len(text)], strict=True)]
    return prefix.join(pieces)


def _starts_of_names(tokens: list[Token]) -> set[int]:
    found = {at for at, _ in enumerate(tokens) if _is_name(tokens, at) and _names_a_thing(tokens, at)}
    names = {tokens[at].text.lower() for at in found}
    qualifiers = {
        at
        for at, token in enumerate(tokens)
        if _is_name(tokens, at) and _word(tokens, at + 1) == "." and token.text.lower() in names
    }
    quoted = {at for at in found | qualifiers if tokens[at].token_type == TokenType.IDENTIFIER}
    # The prefix of a quoted name goes behind its quote.
    return {tokens[at].start + (1 if at in quoted else 0) for at in found | qualifiers}


def _is_name(tokens: list[Token], at: int) -> bool:
    return tokens[at].token_type in _NAMES


def _names_a_thing(tokens: list[Token], at: int) -> bool:
    before = list(_words_before(tokens, at))
    if _word(tokens, at) == "IF" and _word(tokens, at + 1) in _CONDITION:
        return False
    if before[0] in _KINDS and before[1] in _VERBS:
        return True
    if _word(tokens, at + 1) == "[":
        return True
    # `IS DISTINCT FROM x` and `EXTRACT(part FROM x)` are expressions.
    return before[0] in _SOURCE_WORDS and not (before[1] == "DISTINCT" or before[3] == "EXTRACT")


def _words_before(tokens: list[Token], at: int) -> Iterator[str]:
    """The four words before a token, without `IF [NOT] EXISTS`."""
    at -= 1
    if _word(tokens, at) == "EXISTS" and "IF" in (_word(tokens, at - 1), _word(tokens, at - 2)):
        while _word(tokens, at) in _CONDITION:
            at -= 1
    for place in range(at, at - 4, -1):
        yield _word(tokens, place)


def _word(tokens: list[Token], at: int) -> str:
    return tokens[at].text.upper() if 0 <= at < len(tokens) else ""
