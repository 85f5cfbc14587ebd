"""CQL as a sqlglot dialect: `parse` turns a text into statements, `print_node` turns a node back into text.

A text holds any number of statements, separated by `;`, with comments. The whole text is parsed before anything runs.
Every mistake is a ParseError with its place in the given text. Time is linear in the text.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import sqlglot.errors
from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ErrorLevel
from sqlglot.tokenizer_core import Token, TokenType

from panewise.errors import ParseError, Span
from panewise.language.parse.parse_expressions import Refusal
from panewise.language.parse.parse_statements import CqlParser
from panewise.language.parse.printer import CqlGenerator
from panewise.language.parse.tokens import CqlTokenizer, tokens_of


class CQL(Dialect):
    NORMALIZE_NOT_NULL = False
    INTERSECT_BINDS_TIGHTER_THAN_UNION_AND_EXCEPT = True

    Tokenizer = CqlTokenizer
    Parser = CqlParser
    Generator: ClassVar[type[CqlGenerator]] = CqlGenerator


@dataclass(frozen=True)
class ParsedStatement:
    """One statement: its tree, the whole text that it was parsed from, and its place in that text."""

    node: exp.Expr
    text: str
    span: Span

    def __str__(self) -> str:
        return print_node(self.node)


def parse(text: str) -> list[ParsedStatement]:
    """The statements of a text, in order.

    >>> [str(statement) for statement in parse("show queries; drop query if exists calm; -- done")]
    ['SHOW QUERIES', 'DROP QUERY IF EXISTS calm']
    """
    statements = []
    chunk: list[Token] = []
    tokens = tokens_of(text)
    for token in tokens:
        if token.token_type != TokenType.SEMICOLON:
            chunk.append(token)
        elif chunk:
            statements.append(_parse_one(chunk, text))
            chunk = []
    if chunk:
        statements.append(_parse_one(chunk, text))
    return statements


def parse_one(text: str) -> ParsedStatement:
    """The only statement of a text; ParseError if there are none or several."""
    statements = parse(text)
    if len(statements) != 1:
        raise ParseError(f"expected one statement, found {len(statements)}")
    return statements[0]


def print_node(node: exp.Expr) -> str:
    """The canonical text of a statement or of any part of one."""
    return CqlGenerator(dialect=CQL, comments=False, unsupported_level=ErrorLevel.IGNORE).generate(node, copy=False)


def _parse_one(tokens: list[Token], text: str) -> ParsedStatement:
    span = Span(tokens[0].start, tokens[-1].end + 1)
    parser = CqlParser(error_level=ErrorLevel.IMMEDIATE, dialect=CQL)
    try:
        return ParsedStatement(parser.parse_one(tokens, text), text, span)
    except Refusal as refusal:
        raise refusal.error from None
    except RecursionError:
        raise ParseError("the statement is nested too deeply", text=text, span=span) from None
    except (sqlglot.errors.SqlglotError, ValueError) as error:
        # sqlglot wrote this message. It has no token to underline.
        raise ParseError(f"the statement cannot be parsed: {error}", text=text, span=span) from error
