"""A small reader of CQL by recursive descent: statements and expressions as plain tuples and dataclasses.

Independent of panewise.language by intent. It reads what the cases use and refuses the rest with `NotCovered`, which
makes a case be skipped on the reference host rather than be judged wrongly.

Expressions are tuples: ("column", name), ("literal", value), ("call", name, arguments), ("aggregate", name, arguments),
("case", branches, default), ("cast", operand, type name), ("wstream", arguments, window).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)

UNITS = {
    "US": 1,
    "MICROSECOND": 1,
    "MS": 1_000,
    "MILLISECOND": 1_000,
    "S": 1_000_000,
    "SEC": 1_000_000,
    "SECOND": 1_000_000,
    "MIN": 60_000_000,
    "MINUTE": 60_000_000,
    "H": 3_600_000_000,
    "HOUR": 3_600_000_000,
    "D": 86_400_000_000,
    "DAY": 86_400_000_000,
    "WEEK": 604_800_000_000,
}

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
}


class NotCovered(Exception):
    """The statement is outside of what the reference reads; this says nothing about its validity."""


@dataclass(frozen=True)
class TimeWindow:
    """Microseconds; `range` None is UNBOUNDED, `slide` None is continuous."""

    range: int | None
    slide: int | None = None
    offset: int = 0
    align: int = 0
    internal: bool = False


@dataclass(frozen=True)
class RowsWindow:
    rows: int
    slide: int | None = None
    offset: int = 0
    partition_by: tuple[str, ...] = ()
    internal: bool = False


@dataclass(frozen=True)
class Select:
    """`items` None is `*`; `source` is a name or another Select; `emit` None is the default of the window."""

    items: tuple[tuple[str, Any], ...] | None
    source: str | Select
    window: TimeWindow | RowsWindow
    where: Any = None
    group_by: tuple[Any, ...] = ()
    having: Any = None
    emit: str | None = None
    restore: bool = False


@dataclass(frozen=True)
class Stream:
    name: str
    columns: tuple[tuple[str, str], ...]  # name, type name without parameters
    timestamp: str
    delay: int = 0
    options: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class CreateQuery:
    name: str
    select: Select
    options: dict[str, str]


@dataclass(frozen=True)
class OneTime:
    select: Select


@dataclass(frozen=True)
class Drop:
    name: str


@dataclass(frozen=True)
class AlterStream:
    name: str
    options: dict[str, str]


_TOKEN = re.compile(
    r"\s+|--[^\n]*|(?P<number>\d+\.\d*(?:[eE][-+]?\d+)?|\d+[eE][-+]?\d+|\d+)|(?P<string>'(?:[^']|'')*')"
    r"|(?P<word>[A-Za-z_][A-Za-z_0-9]*)|(?P<symbol><>|!=|<=|>=|\|\||[-+*/%=<>(),;.\[\]])"
)


def instant(text: str) -> int:
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - EPOCH) // MICROSECOND


def statements(text: str) -> list[Any]:
    """Every statement of the text, in order."""
    reader = Reader(text)
    found = []
    while not reader.done():
        found.append(reader.statement())
        reader.accept(";")
    return found


class Reader:
    """One pass over the tokens; words are compared in upper case."""

    def __init__(self, text: str) -> None:
        self.tokens: list[tuple[str, str]] = []
        position = 0
        while position < len(text):
            match = _TOKEN.match(text, position)
            if match is None:
                raise NotCovered(f"no token at {text[position : position + 20]!r}")
            position = match.end()
            if match.lastgroup is not None:
                self.tokens.append((match.lastgroup, match[0]))
        self.at = 0

    def done(self) -> bool:
        return self.at >= len(self.tokens)

    def peek(self, *words: str) -> bool:
        """Whether the next tokens are these words or symbols."""
        for step, word in enumerate(words):
            if self.at + step >= len(self.tokens):
                return False
            kind, token = self.tokens[self.at + step]
            if kind == "string" or token.upper() != word:
                return False
        return True

    def accept(self, *words: str) -> bool:
        if self.peek(*words):
            self.at += len(words)
            return True
        return False

    def expect(self, *words: str) -> None:
        if not self.accept(*words):
            found = self.tokens[self.at][1] if not self.done() else "the end"
            raise NotCovered(f"expected {' '.join(words)}, found {found}")

    def take(self, kind: str) -> str:
        if self.done() or self.tokens[self.at][0] != kind:
            found = self.tokens[self.at][1] if not self.done() else "the end"
            raise NotCovered(f"expected a {kind}, found {found}")
        self.at += 1
        return self.tokens[self.at - 1][1]

    def text(self) -> str:
        return self.take("string")[1:-1].replace("''", "'")

    # Statements

    def statement(self) -> Any:
        if self.accept("CREATE", "STREAM"):
            return self.create_stream()
        if self.accept("CREATE", "QUERY"):
            name = self.take("word")
            options = self.options() if self.accept("WITH") else {}
            self.expect("AS")
            return CreateQuery(name, self.select(), options)
        if self.accept("DROP", "QUERY"):
            return Drop(self.take("word"))
        if self.accept("ALTER", "STREAM"):
            name = self.take("word")
            self.expect("SET")
            return AlterStream(name, self.options())
        if self.peek("SELECT"):
            return OneTime(self.select())
        raise NotCovered(f"statement {self.tokens[self.at][1]}")

    def create_stream(self) -> Stream:
        name = self.take("word")
        self.expect("(")
        columns: list[tuple[str, str]] = []
        timestamp, delay = None, 0
        while not self.accept(")"):
            if self.accept("WATERMARK", "FOR"):
                timestamp = self.take("word")
                if self.accept("AS"):
                    self.expect(timestamp.upper())
                    if self.accept("-"):
                        self.expect("INTERVAL")
                        delay = self.duration()
            else:
                column, kind = self.take("word"), self.take("word").upper()
                if self.accept("("):
                    while not self.accept(")"):
                        self.at += 1
                columns.append((column, kind))
            self.accept(",")
        if timestamp is None:
            timestamp = next(column for column, kind in columns if kind == "TIMESTAMP")
        options = self.options() if self.accept("WITH") else {}
        return Stream(name, tuple(columns), timestamp, delay, options)

    def options(self) -> dict[str, str]:
        found = {}
        self.expect("(")
        while not self.accept(")"):
            name = self.take("word").lower()
            self.expect("=")
            found[name] = self.text()
            self.accept(",")
        return found

    def duration(self) -> int:
        """One or more of number and unit, or the same as a text."""
        if self.tokens[self.at][0] == "string":
            return Reader(self.text()).duration()
        total, found = 0, False
        while not self.done() and self.tokens[self.at][0] == "number":
            number, unit = self.take("number"), self.take("word").upper()
            factor = UNITS.get(unit) or UNITS.get(unit.removesuffix("S"))
            if factor is None:
                raise NotCovered(f"unit {unit}")
            total += round(float(number) * factor) if "." in number else int(number) * factor
            found = True
        if not found:
            raise NotCovered("a duration was expected")
        return total

    # SELECT

    def select(self) -> Select:
        self.expect("SELECT")
        emit = next((word for word in ("ISTREAM", "DSTREAM", "RSTREAM") if self.accept(word)), None)
        restore = emit is not None and self.accept("RESTORE")
        items = self.items(enclosed=emit is not None)
        self.expect("FROM")
        source: str | Select
        if self.accept("("):
            source = self.select()
            self.expect(")")
        else:
            source = self.take("word")
        if self.done() or not self.peek("["):
            raise NotCovered("an input without a window")
        window = self.window()
        if not self.done() and self.tokens[self.at][0] == "word" and not self.peek_clause():
            self.accept("AS")
            self.take("word")
        where = self.expression() if self.accept("WHERE") else None
        group_by: tuple[Any, ...] = ()
        if self.accept("GROUP", "BY"):
            group_by = tuple(self.several(self.expression))
        having = self.expression() if self.accept("HAVING") else None
        return rewritten_wstream(Select(items, source, window, where, group_by, having, emit, restore))

    def peek_clause(self) -> bool:
        return any(self.peek(word) for word in ("WHERE", "GROUP", "HAVING"))

    def items(self, enclosed: bool) -> tuple[tuple[str, Any], ...] | None:
        """The select list; after ISTREAM and its like it may stand in parentheses."""
        if self.accept("*"):
            return None
        if enclosed and self.accept("(", "*", ")"):
            return None
        if enclosed and self.peek("("):
            start = self.at
            self.accept("(")
            found = tuple(self.several(self.item))
            if self.accept(")") and self.peek("FROM"):
                return found
            self.at = start
        return tuple(self.several(self.item))

    def item(self) -> tuple[str, Any]:
        expression = self.expression()
        if self.accept("AS"):
            return self.take("word"), expression
        return (expression[1] if expression[0] == "column" else "?"), expression

    def several(self, read: Any) -> list[Any]:
        found = [read()]
        while self.accept(","):
            found.append(read())
        return found

    def window(self) -> TimeWindow | RowsWindow:
        self.expect("[")
        partition_by: tuple[str, ...] = ()
        if self.accept("PARTITION", "BY"):
            partition_by = tuple(self.several(lambda: self.take("word")))
        if self.accept("ROWS"):
            rows, slide, offset, internal = int(self.take("number")), None, 0, False
            while not self.accept("]"):
                if self.accept("SLIDE"):
                    slide = int(self.take("number"))
                elif self.accept("OFFSET"):
                    offset = int(self.take("number"))
                else:
                    self.expect("INTERNAL")
                    internal = True
            return RowsWindow(rows, slide, offset, partition_by, internal)
        if self.accept("NOW"):
            window = TimeWindow(1)
        elif self.accept("UNBOUNDED"):
            window = TimeWindow(None)
        else:
            self.expect("RANGE")
            window = TimeWindow(None) if self.accept("UNBOUNDED") else TimeWindow(self.duration())
        while not self.accept("]"):
            if self.accept("SLIDE"):
                window = replace(window, slide=self.duration())
            elif self.accept("OFFSET"):
                window = replace(window, offset=self.duration())
            elif self.accept("ALIGN"):
                window = replace(window, align=instant(self.text()))
            else:
                self.expect("INTERNAL")
                window = replace(window, internal=True)
        return window

    # Expressions, loosest binding first

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
        if self.peek("DISTINCT"):
            raise NotCovered("aggregates of distinct values")
        arguments: tuple[Any, ...] = ()
        if not self.accept(")"):
            arguments = tuple(self.several(self.expression))
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


def aggregates_of(expression: Any) -> bool:
    """Whether the expression holds an aggregate."""
    if not isinstance(expression, tuple):
        return False
    if expression and expression[0] == "aggregate":
        return True
    return any(aggregates_of(part) for part in expression if isinstance(part, tuple))


def rewritten_wstream(select: Select) -> Select:
    """`f(WSTREAM(x)[W])` is f over the column x of an inner append-only select that is windowed by W."""
    if select.items is None:
        return select
    for position, (name, item) in enumerate(select.items):
        if item[0] == "wstream":
            if len(select.items) != 1:
                raise NotCovered("WSTREAM beside other items")
            inner = replace(select, items=item[1], emit="ISTREAM")
            return Select(None, inner, item[2])
        if item[0] == "aggregate" and len(item[2]) == 1 and item[2][0][0] == "wstream":
            _, arguments, window = item[2][0]
            grouping = tuple(other for at, other in enumerate(select.items) if at != position)
            inner_items = (*grouping, ("windowed", arguments[0][1]))
            inner = replace(select, items=inner_items, window=replace(select.window, internal=True))
            outer = list(select.items)
            outer[position] = (name, ("aggregate", item[1], (("column", "windowed"),)))
            return Select(tuple(outer), inner, window, group_by=select.group_by)
    return select
