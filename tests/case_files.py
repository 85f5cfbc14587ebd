"""Cases: files of statements, rows and expected answers that a user could have written, for any host.

A file holds many cases. A case begins with `=== its name`, then statements; steps follow, each under a line that begins
with `---`. A line that begins with `#` is a comment. Before the statements, `skip HOST: reason` marks a gap of a host.

    === sums of five seconds
    CREATE STREAM t (ts TIMESTAMP, k STRING, v BIGINT);
    CREATE QUERY q AS SELECT k, SUM(v) AS s FROM t [RANGE 5 SECONDS SLIDE 5 SECONDS] GROUP BY k;
    --- push t
    ts       | k | v
    00:00:01 | a | 1
    --- advance t 00:00:10
    --- results q
    window_start | window_end | k | s
    00:00:00     | 00:00:05   | a | 1

The steps:

    push STREAM                 a batch of rows; a column that the header leaves out is missing
    push STREAM fails: TEXT     the batch is refused with an error that contains TEXT, and changes nothing
    advance STREAM INSTANT      a punctuation
    flush                       every window that holds rows closes
    results QUERY [ordered]     exactly these rows are new; in any order within one instant unless `ordered`
    lookup QUERY [at INSTANT]   the answer now or then; only the columns of the header are compared
    lookup QUERY ... fails: TEXT
    execute                     statements; below a line `->` stands the table that the last one returns
    error TEXT                  the statements are refused with an error that contains TEXT
    late STREAM COUNT           that many rows came late
    late rows STREAM            the late rows that a stream with late = 'keep' has set aside
    bad STREAM COUNT            that many bad rows were set aside
    status QUERY STATUS         as SHOW QUERIES says
    snapshot                    the host is replaced by one that is restored from its snapshot

Instants are `HH:MM:SS[.ffffff]` of 1970-01-01 or `YYYY-MM-DD HH:MM:SS[.ffffff]`, UTC. Cells are NULL, true, false,
integers, numbers with a point or an exponent (doubles), NaN, inf, -inf, instants, dates, or text; quotes keep a text
as it is: '' is the empty one. A type is part of the answer: `3` is not `3.0`. A table of only a header, or nothing,
is no rows.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Table:
    """Cells as they are written."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Step:
    """One step: its word, its arguments, and its body as text or as a table."""

    line: int
    action: str
    subject: str = ""
    at: int | None = None
    fails: str | None = None
    text: str = ""
    count: int = 0
    ordered: bool = False
    table: Table | None = None


@dataclass(frozen=True)
class Case:
    file: str
    name: str
    line: int
    steps: tuple[Step, ...]
    skips: dict[str, str] = field(default_factory=dict, hash=False)

    def __str__(self) -> str:
        return f"{self.file}: {self.name}"


class CaseError(Exception):
    """A case file is not written as it should be."""


def read_cases(path: Path) -> list[Case]:
    """All cases of a file, in its order."""
    lines = path.read_text(encoding="utf-8").split("\n")
    starts = [number for number, line in enumerate(lines) if line.startswith("===")]
    cases = [
        _read_case(path.stem, lines, start, end) for start, end in zip(starts, [*starts[1:], len(lines)], strict=True)
    ]
    names = [case.name for case in cases]
    repeated = {name for name in names if names.count(name) > 1}
    if repeated:
        raise CaseError(f"{path.name}: the names {sorted(repeated)} occur more than once")
    return cases


def _read_case(file: str, lines: list[str], start: int, end: int) -> Case:
    name = lines[start].removeprefix("===").strip()
    body = [(number, line) for number, line in enumerate(lines[start + 1 : end], start + 2) if not line.startswith("#")]
    skips = {}
    while body and (not body[0][1].strip() or body[0][1].startswith("skip ")):
        match = re.fullmatch(r"skip (\w+): (.+)", body.pop(0)[1])
        if match:
            skips[match[1]] = match[2]
    sections: list[tuple[int, str, list[str]]] = [(start + 2, "execute", [])]
    for number, line in body:
        if line.startswith("---"):
            sections.append((number, line.removeprefix("---").strip(), []))
        else:
            sections[-1][2].append(line)
    steps = tuple(_read_step(number, head, content) for number, head, content in sections)
    return Case(file, name, start + 1, steps, skips)


def _read_step(line: int, head: str, content: list[str]) -> Step:
    head, _, fails = head.partition(" fails:")
    words = head.split()
    action, rest = words[0], words[1:]
    refused = fails.strip() or None
    match action:
        case "push":
            return Step(line, "push", rest[0], fails=refused, table=_read_table(content))
        case "advance":
            return Step(line, "advance", rest[0], at=instant(" ".join(rest[1:])))
        case "flush" | "snapshot":
            return Step(line, action)
        case "results":
            return Step(line, "results", rest[0], ordered="ordered" in rest[1:], table=_read_table(content))
        case "lookup":
            at = instant(" ".join(rest[2:])) if rest[1:2] == ["at"] else None
            return Step(line, "lookup", rest[0], at=at, fails=refused, table=_read_table(content))
        case "execute":
            text, _, expected = "\n".join(content).partition("\n->\n")
            return Step(line, "execute", text=text, table=_read_table(expected.split("\n")) if expected else None)
        case "error":
            return Step(line, "error", fails=head.removeprefix("error").strip(), text="\n".join(content))
        case "late" if rest[0] == "rows":
            return Step(line, "late rows", rest[1], table=_read_table(content))
        case "late" | "bad":
            return Step(line, action, rest[0], count=int(rest[1]))
        case "status":
            return Step(line, "status", rest[0], text=rest[1])
    raise CaseError(f"line {line}: there is no step '{action}'")


def _read_table(content: list[str]) -> Table:
    rows = [tuple(cell.strip() for cell in line.split("|")) for line in content if line.strip()]
    if not rows:
        return Table((), ())
    if any(len(row) != len(rows[0]) for row in rows):
        raise CaseError(f"a row has not as many cells as the header {' | '.join(rows[0])}")
    return Table(rows[0], tuple(rows[1:]))


def instant(text: str) -> int:
    """Microseconds since the epoch of an instant as cases write it."""
    full = text if re.match(r"\d{4}-", text) else f"1970-01-01 {text}"
    return (datetime.fromisoformat(full).replace(tzinfo=UTC) - EPOCH) // timedelta(microseconds=1)


def moment(microseconds: int) -> datetime:
    return EPOCH + timedelta(microseconds=microseconds)


# Rows that are pushed


_COLUMN = re.compile(r"\s*(\w+)\s+(BOOLEAN|INT|BIGINT|FLOAT|DOUBLE|DECIMAL|STRING|DATE|TIMESTAMP)\b", re.IGNORECASE)


def declared_types(text: str) -> dict[str, dict[str, str]]:
    """The column types of every CREATE STREAM in a text: stream in lower case, column, type."""
    found = {}
    for match in re.finditer(r"CREATE\s+STREAM\s+(?:IF\s+NOT\s+EXISTS\s+)?(\w+)\s*\(", text, re.IGNORECASE):
        parts = _split_at_top(text[match.end() :])
        columns = [_COLUMN.match(part) for part in parts]
        found[match[1].lower()] = {column[1]: column[2].upper() for column in columns if column}
    return found


def _split_at_top(text: str) -> Iterator[str]:
    """The parts between commas up to the closing parenthesis, not looking into inner parentheses."""
    depth, part = 0, ""
    for character in text:
        depth += {"(": 1, ")": -1}.get(character, 0)
        if depth < 0:
            break
        if character == "," and depth == 0:
            yield part
            part = ""
        else:
            part += character
    yield part


def value_of(cell: str, kind: str) -> Any:
    """The Python value of a cell in a column of that type; a cell that does not fit stays a text: a bad row."""
    if cell == "NULL":
        return None
    try:
        return _READERS[kind](cell)
    except (ValueError, InvalidOperation):
        return _text(cell)


def _text(cell: str) -> str:
    return cell[1:-1] if len(cell) >= 2 and cell[0] == cell[-1] == "'" else cell


def _boolean(cell: str) -> bool:
    return {"true": True, "false": False}[cell] if cell in ("true", "false") else _refuse(cell)


def _refuse(cell: str) -> bool:
    raise ValueError(cell)


_READERS: dict[str, Callable[[str], Any]] = {
    "BOOLEAN": _boolean,
    "INT": int,
    "BIGINT": int,
    "FLOAT": lambda cell: struct.unpack("f", struct.pack("f", float(cell)))[0],
    "DOUBLE": float,
    "DECIMAL": Decimal,
    "STRING": _text,
    "DATE": date.fromisoformat,
    "TIMESTAMP": lambda cell: moment(instant(cell)),
}


def rows_of(table: Table, types: dict[str, str]) -> list[dict[str, Any]]:
    return [
        {name: value_of(cell, types.get(name, "STRING")) for name, cell in zip(table.header, row, strict=True)}
        for row in table.rows
    ]


# Answers that are compared


_FRACTIONAL = re.compile(r"-?(\d+\.\d*|\d+(\.\d*)?[eE][-+]?\d+|inf)|NaN")


def matches(cell: str, value: Any, tolerance: float = 1e-12) -> bool:
    """Whether a value is what the cell says, type included."""
    if cell == "NULL" or value is None:
        return cell == "NULL" and value is None
    try:
        match value:
            case bool():
                return cell == ("true" if value else "false")
            case int():
                return re.fullmatch(r"-?\d+", cell) is not None and int(cell) == value
            case float():
                return _FRACTIONAL.fullmatch(cell) is not None and close(float(cell), value, tolerance)
            case Decimal():
                return Decimal(cell) == value
            case datetime():
                return moment(instant(cell)) == value
            case date():
                return date.fromisoformat(cell) == value
            case _:
                return _text(cell) == value
    except (ValueError, InvalidOperation):
        return False


def close(expected: float, found: float, tolerance: float) -> bool:
    if math.isnan(expected) or math.isnan(found):
        return math.isnan(expected) and math.isnan(found)
    return expected == found or math.isclose(expected, found, rel_tol=tolerance)


def shown(value: Any) -> str:
    """A value as a cell."""
    match value:
        case None:
            return "NULL"
        case bool():
            return "true" if value else "false"
        case float() if math.isnan(value):
            return "NaN"
        case datetime():
            text = value.replace(tzinfo=None).isoformat(sep=" ")
            return text.removeprefix("1970-01-01 ")
        case str() if value in ("", "NULL") or value != value.strip() or "|" in value:
            return f"'{value}'"
        case _:
            return str(value)


def shown_table(rows: list[dict[str, Any]]) -> str:
    """Rows as a table, for messages and for writing cases."""
    if not rows:
        return "(no rows)"
    lines = [list(rows[0]), *([shown(value) for value in row.values()] for row in rows)]
    widths = [max(len(line[at]) for line in lines) for at in range(len(lines[0]))]
    return "\n".join(" | ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)).rstrip() for line in lines)
