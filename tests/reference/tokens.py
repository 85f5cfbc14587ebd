"""Tokens of CQL, and what is written the same way everywhere: durations, instants and windows.

What is not read raises `NotCovered`, which makes a case be skipped on the reference host rather than be judged wrongly.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
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


_TOKEN = re.compile(
    r"\s+|--[^\n]*|(?P<number>\d+\.\d*(?:[eE][-+]?\d+)?|\d+[eE][-+]?\d+|\d+)|(?P<string>'(?:[^']|'')*')"
    r"|(?P<word>[A-Za-z_][A-Za-z_0-9]*)|(?P<symbol><>|!=|<=|>=|\|\||[-+*/%=<>(),;.\[\]])"
)


def instant(text: str) -> int:
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - EPOCH) // MICROSECOND


class TokenReader:
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

    def duration(self) -> int:
        """One or more of number and unit, or the same as a text."""
        if self.tokens[self.at][0] == "string":
            return TokenReader(self.text()).duration()
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

    def several(self, read: Callable[[], Any]) -> list[Any]:
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
