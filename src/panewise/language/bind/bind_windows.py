"""Binds windows: checks their parameters and converts them to microseconds or numbers of rows."""

from __future__ import annotations

import re

from sqlglot import exp

from panewise.errors import did_you_mean
from panewise.language.bind.binding import Binding
from panewise.language.parse.syntax import Duration, StreamWindow
from panewise.schema import Schema
from panewise.temporal import DURATION_MAX, RowsWindow, TimeWindow, Window, duration_us, instant_us, scaled_us

ROWS_MAX = 2**63 - 1
_NUMBER = re.compile(r"[0-9]+(\.[0-9]+)?")


def bind_window(node: StreamWindow, schema: Schema, binding: Binding) -> Window:
    """The window in brackets after an input with that schema."""
    return _rows_window(node, schema, binding) if node.args.get("rows") else _time_window(node, binding)


def bind_duration(node: Duration, binding: Binding) -> int:
    """The microseconds of `1 MINUTE 30 SECONDS` or `'90 seconds'`."""
    total = 0
    for part in node.expressions:
        with binding.at(part):
            number: exp.Literal = part.this
            unit = part.args.get("unit")
            if unit is not None:
                if not _NUMBER.fullmatch(number.this):
                    raise binding.error(f"'{number.this[:40]}' is not a number of {unit.this}", part)
                total += scaled_us(number.this, unit.this)
            elif number.is_string:
                total += duration_us(number.this)
            else:
                raise binding.error(f"{number.this} has no unit", part, f"write {number.this} SECONDS, for example")
    if total > DURATION_MAX:
        raise binding.error("this is longer than all of time (years 1 to 9999)", node)
    return total


def _time_window(node: StreamWindow, binding: Binding) -> TimeWindow:
    partition, align, slide_node = (node.args.get(key) for key in ("partition", "align", "slide"))
    if partition:
        raise binding.error("only a ROWS window has PARTITION BY", partition[0], "GROUP BY gives one result per value")
    range_us: int | None = None
    if node.args.get("now"):
        range_us = 1
    elif node.args.get("range"):
        range_us = _positive(node.args["range"], "RANGE", binding)
    slide_us = _positive(slide_node, "SLIDE", binding) if slide_node else None
    offset = node.args.get("offset")
    offset_us = bind_duration(offset, binding) if offset else 0
    align_us = 0
    if align is not None:
        if slide_us is None:
            raise binding.error("ALIGN needs SLIDE: a window without SLIDE has no reports to align", align)
        with binding.at(align):
            align_us = instant_us(align.this)
    return TimeWindow(range_us, slide_us, offset_us, align_us, bool(node.args.get("internal")))


def _positive(node: Duration, clause: str, binding: Binding) -> int:
    duration = bind_duration(node, binding)
    if duration <= 0:
        raise binding.error(f"{clause} must be longer than zero", node)
    return duration


def _rows_window(node: StreamWindow, schema: Schema, binding: Binding) -> RowsWindow:
    if node.args.get("align"):
        raise binding.error("a ROWS window has no ALIGN", node.args["align"], "its SLIDE counts from the first row")
    rows = _row_count(node.args["rows"], "ROWS", 1, binding)
    slide_node, offset_node = node.args.get("slide"), node.args.get("offset")
    slide = _row_count(_without_unit(slide_node, "SLIDE", binding), "SLIDE", 1, binding) if slide_node else None
    offset = _row_count(_without_unit(offset_node, "OFFSET", binding), "OFFSET", 0, binding) if offset_node else 0
    partition_by: list[str] = []
    for name in node.args.get("partition") or []:
        column = schema.find(name.name)
        if column is None:
            raise binding.error(f"there is no column '{name.name}'", name, did_you_mean(name.name, schema.names))
        if column.name in partition_by:
            raise binding.error(f"column '{column.name}' is in PARTITION BY twice", name)
        partition_by.append(column.name)
    return RowsWindow(rows, slide, offset, tuple(partition_by), bool(node.args.get("internal")))


def _without_unit(node: Duration, clause: str, binding: Binding) -> exp.Literal:
    """The number of a SLIDE or OFFSET that counts rows; it must have no unit."""
    part = node.expressions[0]
    if len(node.expressions) > 1 or part.args.get("unit") is not None or part.this.is_string:
        raise binding.error(f"{clause} of a ROWS window is a number of rows", node, f"write {clause} 10, for example")
    number: exp.Literal = part.this
    return number


def _row_count(number: exp.Literal, clause: str, least: int, binding: Binding) -> int:
    text = number.this
    if not text.isdigit() or len(text) > 19 or not least <= int(text) <= ROWS_MAX:
        expected = "a whole number of rows above 0" if least else "a whole number of rows"
        raise binding.error(f"{clause} takes {expected}, not {text[:40]}", number)
    return int(text)
