"""Row expressions by recursive descent, as tuples.

("column", name), ("literal", value), ("call", name, arguments), ("aggregate", name, arguments),
("case", branches, default), ("cast", operand, type name), ("wstream", items, window).
"""

from __future__ import annotations

from datetime import date
from typing import Any

from tests.reference.tokens import EPOCH, MICROSECOND, NotCovered, TokenReader, instant

AGGREGATES = {
    "COUNT",
    "SUM",
    "AVG",
    "MIN",
    "MAX",
    "VAR_POP",
    "VAR_SAMP",
    "STDDEV_POP",
    "STDDEV_SAMP",
    "FIRST",
    "LAST",
    "ARG_MIN",
    "ARG_MAX",
    "BOOL_AND",
    "BOOL_OR",
    "GEOMEAN",
    "MEDIAN",
    "QUANTILE",
    "PERCENTILE_CONT",
    "PERCENTILE_DISC",
    "TOP",
    "FREQUENT",
    "APPROX_COUNT_DISTINCT",
    "APPROX_QUANTILE",
    "APPROX_TOP",
}


class ExpressionReader(TokenReader):
    """Reads what stands in SELECT, WHERE, GROUP BY and HAVING; loosest binding first."""

    def expression(self) -> Any:
        left = self.conjunction()
        while self.accept("OR"):
            left = ("call", "or", (left, self.conjunction()))
        return left

    def conjunction(self) -> Any:
        left = self.negation()
        while self.accept("AND"):
            left = ("call", "and", (left, self.negation()))
        return left

    def negation(self) -> Any:
        if self.accept("NOT"):
            return ("call", "not", (self.negation(),))
        return self.comparison()

    def comparison(self) -> Any:
        left = self.sum()
        while True:
            negated = False
            if self.accept("IS"):
                negated = self.accept("NOT")
                self.expect("NULL")
                left = ("call", "is_null", (left,))
            elif self.peek("NOT", "IN") or self.peek("NOT", "BETWEEN") or self.peek("NOT", "LIKE"):
                self.accept("NOT")
                left, negated = self.predicate(left), True
            elif self.peek("IN") or self.peek("BETWEEN") or self.peek("LIKE"):
                left = self.predicate(left)
            else:
                symbol = next((s for s in ("<=", ">=", "<>", "!=", "=", "<", ">") if self.accept(s)), None)
                if symbol is None:
                    return left
                left = ("call", "<>" if symbol == "!=" else symbol, (left, self.sum()))
            if negated:
                left = ("call", "not", (left,))

    def predicate(self, left: Any) -> Any:
        if self.accept("IN"):
            self.expect("(")
            values = tuple(self.several(self.expression))
            self.expect(")")
            return ("call", "in", (left, *values))
        if self.accept("BETWEEN"):
            low = self.sum()
            self.expect("AND")
            return ("call", "and", (("call", ">=", (left, low)), ("call", "<=", (left, self.sum()))))
        self.expect("LIKE")
        return ("call", "like", (left, self.sum()))

    def sum(self) -> Any:
        left = self.product()
        while True:
            symbol = next((s for s in ("+", "-", "||") if self.accept(s)), None)
            if symbol is None:
                return left
            left = ("call", "concat" if symbol == "||" else symbol, (left, self.product()))

    def product(self) -> Any:
        left = self.unary()
        while True:
            symbol = next((s for s in ("*", "/", "%") if self.accept(s)), None)
            if symbol is None:
                return left
            left = ("call", symbol, (left, self.unary()))

    def unary(self) -> Any:
        if self.accept("-"):
            return ("call", "negative", (self.unary(),))
        return self.primary()

    def primary(self) -> Any:
        if self.accept("("):
            inner = self.expression()
            self.expect(")")
            return inner
        kind, token = self.tokens[self.at]
        if kind == "number":
            self.at += 1
            return ("literal", float(token) if any(c in token for c in ".eE") else int(token))
        if kind == "string":
            return ("literal", self.text())
        for word, value in (("NULL", None), ("TRUE", True), ("FALSE", False)):
            if self.accept(word):
                return ("literal", value)
        if self.accept("TIMESTAMP"):
            return ("literal", EPOCH + instant(self.text()) * MICROSECOND)
        if self.accept("DATE"):
            return ("literal", date.fromisoformat(self.text()))
        if self.accept("CASE"):
            return self.case()
        if self.accept("CAST", "("):
            operand = self.expression()
            self.expect("AS")
            name = self.take("word").upper()
            self.expect(")")
            return ("cast", operand, name)
        if self.accept("WSTREAM", "("):
            arguments = None if self.accept("*") else tuple(self.several(self.item))
            self.expect(")")
            return ("wstream", arguments, self.window())
        name = self.take("word")
        if not self.accept("("):
            if self.accept("."):
                name = self.take("word")
            return ("column", name)
        return self.call(name.upper())

    def call(self, name: str) -> Any:
        if name == "COUNT" and self.accept("*", ")"):
            return ("aggregate", "COUNT(*)", ())
        if self.accept("DISTINCT"):
            if name != "COUNT":
                raise NotCovered("other aggregates of distinct values than COUNT")
            distinct = self.expression()
            self.expect(")")
            return ("aggregate", "COUNT(DISTINCT)", (distinct,))
        arguments: tuple[Any, ...] = ()
        if not self.accept(")"):
            arguments = tuple(self.several(self.expression))
            self.expect(")")
        if self.accept("WITHIN", "GROUP", "(", "ORDER", "BY"):
            arguments = (self.expression(), *arguments)
            self.expect(")")
        return ("aggregate" if name in AGGREGATES else "call", name if name in AGGREGATES else name.lower(), arguments)

    def case(self) -> Any:
        branches, default = [], ("literal", None)
        while self.accept("WHEN"):
            condition = self.expression()
            self.expect("THEN")
            branches.append((condition, self.expression()))
        if self.accept("ELSE"):
            default = self.expression()
        self.expect("END")
        return ("case", tuple(branches), default)

    def item(self) -> tuple[str, Any]:
        expression = self.expression()
        if self.accept("AS"):
            return self.take("word"), expression
        return (expression[1] if expression[0] == "column" else "?"), expression


def aggregates_of(expression: Any) -> bool:
    """Whether the expression holds an aggregate."""
    if not isinstance(expression, tuple):
        return False
    if expression and expression[0] == "aggregate":
        return True
    return any(aggregates_of(part) for part in expression if isinstance(part, tuple))
