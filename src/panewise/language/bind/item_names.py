"""The name of an item without an alias: the name of a column, otherwise its text with functions in lower case."""

from __future__ import annotations

from sqlglot import exp
from sqlglot.errors import ErrorLevel

from panewise.language.parse.dialect import CQL
from panewise.language.parse.printer import CqlGenerator


def readable_name(node: exp.Expr) -> str:
    """The name of an item that has no alias and is not a column.

    >>> from panewise.language.parse.dialect import parse_one
    >>> readable_name(parse_one("SELECT MAX(price) - MIN(price) FROM trades").node.expressions[0])
    'max(price) - min(price)'
    """
    generator = CqlGenerator(
        dialect=CQL, comments=False, normalize_functions="lower", unsupported_level=ErrorLevel.IGNORE
    )
    return generator.generate(node, copy=False)
