"""A small reader of CQL by recursive descent: statements as plain dataclasses.

Independent of panewise.language by intent. It reads what the cases use and refuses the rest with `NotCovered`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from tests.reference.row_expressions import ExpressionReader
from tests.reference.tokens import NotCovered, RowsWindow, TimeWindow


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


def statements(text: str) -> list[Any]:
    """Every statement of the text, in order."""
    reader = Reader(text)
    found = []
    while not reader.done():
        found.append(reader.statement())
        reader.accept(";")
    return found


class Reader(ExpressionReader):
    """One statement after the other."""

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
