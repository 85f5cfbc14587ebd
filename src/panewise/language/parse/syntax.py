"""The nodes of the syntax tree that sqlglot lacks: windows, SELECT over streams, and the statements of CQL.

Each is an ordinary sqlglot expression, so that walking, comparing and copying work as for any other. `span_of` gives
the place of a node in the text that it was parsed from. Leaves have the offsets of their tokens in `meta`; an inner
node extends over its children.
"""

from __future__ import annotations

from typing import ClassVar

from sqlglot import exp

from panewise.errors import Span


class Duration(exp.Expression):
    """`1 MINUTE 30 SECONDS`, a list of parts."""

    arg_types: ClassVar[dict[str, bool]] = {"expressions": True}


class DurationPart(exp.Expression):
    """A number with a unit, or a text such as '5 seconds' without one."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "unit": False}


class IntervalLiteral(exp.Expression, exp.Condition):
    """`INTERVAL 5 SECONDS`."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True}


class TimeLiteral(exp.Expression, exp.Condition):
    """`TIMESTAMP '...'` and `DATE '...'`: `kind` says which."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "kind": True}


class TypeName(exp.Expression):
    """A type as written: any word, with numbers in parentheses. The binder knows which types exist."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "expressions": False}


class StreamWindow(exp.Expression):
    """The window in brackets after an input. Exactly one of range, rows, now and unbounded is given."""

    arg_types: ClassVar[dict[str, bool]] = {
        "range": False,
        "rows": False,
        "now": False,
        "unbounded": False,
        "partition": False,
        "slide": False,
        "offset": False,
        "align": False,
        "internal": False,
    }


class FromItem(exp.Expression):
    """One input: a name or a query in parentheses, its window and its alias."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "window": False, "alias": False}


class WindowedResult(exp.Expression, exp.Condition):
    """`WSTREAM(a, b)[window]`."""

    arg_types: ClassVar[dict[str, bool]] = {"expressions": True, "window": True}


class StreamSelect(exp.Select):
    """SELECT with ISTREAM, DSTREAM or RSTREAM in `emit`, and RESTORE."""

    arg_types: ClassVar[dict[str, bool]] = {**exp.Select.arg_types, "emit": False, "restore": False}


class ColumnDeclaration(exp.Expression):
    arg_types: ClassVar[dict[str, bool]] = {"this": True, "kind": True, "primary_key": False}


class WatermarkNode(exp.Expression):
    """`WATERMARK FOR this AS expression - INTERVAL delay`."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "expression": False, "delay": False}


class OptionNode(exp.Expression):
    arg_types: ClassVar[dict[str, bool]] = {"this": True, "expression": True}


class CreateStreamNode(exp.Expression):
    arg_types: ClassVar[dict[str, bool]] = {
        "this": True,
        "expressions": True,
        "watermark": False,
        "options": False,
        "exists": False,
    }


class CreateTableNode(exp.Expression):
    arg_types: ClassVar[dict[str, bool]] = {
        "this": True,
        "expressions": True,
        "primary_key": False,
        "non_retroactive": False,
        "options": False,
        "exists": False,
    }


class CreateQueryNode(exp.Expression):
    arg_types: ClassVar[dict[str, bool]] = {"this": True, "expression": True, "options": False, "exists": False}


class CreateSinkNode(exp.Expression):
    arg_types: ClassVar[dict[str, bool]] = {"this": True, "source": True, "options": False, "exists": False}


class CreateArchiveNode(exp.Expression):
    arg_types: ClassVar[dict[str, bool]] = {"this": True, "source": True, "options": False, "exists": False}


class DropDefinition(exp.Expression):
    arg_types: ClassVar[dict[str, bool]] = {"this": True, "kind": True, "exists": False}


class SuspendQueryNode(exp.Expression):
    pass


class ResumeQueryNode(exp.Expression):
    pass


class AlterStreamNode(exp.Expression):
    arg_types: ClassVar[dict[str, bool]] = {"this": True, "options": True}


class AlterArchiveNode(exp.Expression):
    arg_types: ClassVar[dict[str, bool]] = {"this": True, "options": True}


class ShowDefinitions(exp.Expression):
    """SHOW STREAMS, TABLES, QUERIES, SINKS or ARCHIVES: `kind` is the word."""

    arg_types: ClassVar[dict[str, bool]] = {"kind": True}


class ExplainStatement(exp.Expression):
    """EXPLAIN QUERY this, EXPLAIN expression (a query), or EXPLAIN PLAN (neither)."""

    arg_types: ClassVar[dict[str, bool]] = {"this": False, "expression": False}


class InsertRows(exp.Expression):
    arg_types: ClassVar[dict[str, bool]] = {"this": True, "columns": False, "expressions": True}


class UpdateRows(exp.Expression):
    arg_types: ClassVar[dict[str, bool]] = {"this": True, "expressions": True, "where": False}


class DeleteRows(exp.Expression):
    arg_types: ClassVar[dict[str, bool]] = {"this": True, "where": False}


def span_of(node: exp.Expr) -> Span | None:
    """The place of a node in its text; None if no part of the node has a place."""
    start: int | None = None
    end: int | None = None
    for part in node.walk():
        first, last = part.meta_get("start"), part.meta_get("end")
        if first is not None and last is not None:
            start = first if start is None else min(start, first)
            end = last if end is None else max(end, last)
    return None if start is None or end is None else Span(start, end + 1)
