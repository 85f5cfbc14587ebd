"""Random windows of every kind, and the few of them that the queries of one script have."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from random import Random

MILLISECOND = 1_000
SECOND = 1_000_000
LENGTHS = (1, 2, 3, 4, 5, 6, 7, 10, 2.5, 0.3)  # seconds
LONG = (60, 3_600, 86_400)
ALIGNMENTS = ("1970-01-01 00:00:01", "2000-01-01 00:00:00.25")


@dataclass(frozen=True)
class Window:
    """`length` and `slide` are microseconds or, where `rows`, rows; `length` 0 is UNBOUNDED, `slide` 0 continuous."""

    length: int
    slide: int = 0
    offset: int = 0
    align: str = ""
    rows: bool = False
    partition: str = ""
    internal: bool = False

    @property
    def periodic(self) -> bool:
        return self.slide > 0

    @property
    def unbounded(self) -> bool:
        return self.length == 0

    @property
    def reach_us(self) -> int:
        """How long after a change of the input no report depends on what was before."""
        return 10**18 if self.rows or self.unbounded else self.length + self.slide + self.offset

    def __str__(self) -> str:
        inside = " INTERNAL" if self.internal else ""
        if self.rows:
            parts = [f"PARTITION BY {self.partition} " if self.partition else "", f"ROWS {self.length}"]
            parts += [f" SLIDE {self.slide}" if self.slide else "", f" OFFSET {self.offset}" if self.offset else ""]
            return f"[{''.join(parts)}{inside}]"
        length = "UNBOUNDED" if self.unbounded else "NOW" if self.length == 1 else f"RANGE {_written(self.length)}"
        slide = f" SLIDE {_written(self.slide)}" if self.slide else ""
        offset = f" OFFSET {_written(self.offset)}" if self.offset and length.startswith("RANGE") else ""
        return f"[{length}{slide}{offset}{f' ALIGN {self.align!r}' if self.align and self.slide else ''}{inside}]"


@dataclass(frozen=True)
class Side:
    """A stream under a window of a query over several inputs; `range_us` None: without a beginning, or of rows."""

    stream: str
    window: str
    range_us: int | None = None
    slide_us: int = 0  # 0: continuous
    offset_us: int = 0

    def __str__(self) -> str:
        return f"{self.stream} {self.window}"

    def first_report(self, times: Iterable[int]) -> int | None:
        """The end of the first window that holds one of the rows; None where no window does."""
        found: int | None = None
        for time in times:
            end = time + self.offset_us + 1
            end += -end % self.slide_us
            if self.range_us is None or end - self.offset_us - self.range_us <= time:
                found = end if found is None else min(found, end)
        return found


def _written(duration: int) -> str:
    return f"{duration // SECOND} SECONDS" if duration % SECOND == 0 else f"{duration // MILLISECOND} MS"


class Taste:
    """The windows that a script's queries like."""

    def __init__(self, chance: Random, long: bool) -> None:
        self._long = LONG if long else LENGTHS
        self._liked = [self._any(chance) for _ in range(3)]
        self._rows = chance.choice((0.1, 0.1, 0.5))  # how many of the windows are of rows
        self._sides = chance.sample((1, 2, 3, 5, 8), 2)

    def window(self, chance: Random) -> Window:
        if chance.random() < self._rows:
            return self.row_window(chance, chance.random() < 0.6)
        if chance.random() < 0.3:
            return self._alike(chance)
        return self.time_window(chance, chance.random() < 0.75)

    def _any(self, chance: Random) -> Window:
        return self.time_window(chance, chance.random() < 0.75)

    def _alike(self, chance: Random) -> Window:
        """A window that is liked, or one of another length that reports when it does."""
        window = chance.choice(self._liked)
        if not window.periodic or window.length <= 1 or chance.random() < 0.5:
            return window
        return replace(window, length=chance.choice((0, 0, 2 * window.length)), offset=0)

    def time_window(self, chance: Random, periodic: bool) -> Window:
        length = chance.choice(LENGTHS)
        slide = chance.choice((length, length / 2, 1, chance.choice(LENGTHS), chance.choice(LENGTHS)))
        if chance.random() < 0.06:
            slide = length = chance.choice(self._long)
        kind = chance.random()
        length_us = 0 if kind < 0.1 else 1 if kind < 0.15 else _whole(length)
        offset = chance.choice((0, 0, 0, 0, 0, 3 * SECOND, 1_500 * MILLISECOND)) if length_us > 1 else 0
        align = chance.choice(("", "", "", "", *ALIGNMENTS))
        return Window(length_us, max(_whole(slide), 250 * MILLISECOND) if periodic else 0, offset, align)

    def row_window(self, chance: Random, periodic: bool) -> Window:
        partition = chance.choice(("", "", "k", "k, b"))
        offset = chance.choice((0, 0, 0, 1, 3))
        return Window(chance.randint(1, 6), chance.randint(1, 4) if periodic else 0, offset, "", True, partition)

    def side_window(self, chance: Random, stream: str, slide: int | None, rows: bool = True) -> Side:
        """A window of a query over several inputs, whose slides are equal."""
        every, slide_us = (f" SLIDE {slide} SECONDS", slide * SECOND) if slide else ("", 0)
        kind = chance.random()
        if rows and kind < 0.08 and not slide:
            return Side(stream, f"[{'PARTITION BY k ' if chance.random() < 0.4 else ''}ROWS {chance.randint(1, 4)}]")
        if kind < 0.13:
            return Side(stream, f"[UNBOUNDED{every}]", None, slide_us)
        offset = chance.choice((0,) * 6 + (2,))
        seconds = chance.choice((*self._sides, *self._sides, 4))
        past = f" OFFSET {offset} SECONDS" if offset else ""
        return Side(stream, f"[RANGE {seconds} SECONDS{every}{past}]", seconds * SECOND, slide_us, offset * SECOND)


def _whole(seconds: float) -> int:
    """In microseconds, a multiple of 10 milliseconds."""
    return int(seconds * 100) * 10 * MILLISECOND
