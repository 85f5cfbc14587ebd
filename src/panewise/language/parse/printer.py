"""Prints a syntax tree as text: one line, words in upper case, names as written, no comments.

If the parser made the tree, its text parses to an equal tree.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.generator import Generator

from panewise.language.parse.syntax import (
    AlterArchiveNode,
    AlterStreamNode,
    ColumnDeclaration,
    CreateArchiveNode,
    CreateQueryNode,
    CreateSinkNode,
    CreateStreamNode,
    CreateTableNode,
    DeleteRows,
    DropDefinition,
    Duration,
    DurationPart,
    ExplainStatement,
    FromItem,
    InsertRows,
    IntervalLiteral,
    OptionNode,
    ResumeQueryNode,
    ShowDefinitions,
    StreamSelect,
    StreamWindow,
    SuspendQueryNode,
    TimeLiteral,
    TypeName,
    UpdateRows,
    WatermarkNode,
    WindowedResult,
)


class CqlGenerator(Generator):
    def words(self, *parts: str | None) -> str:
        return " ".join(part for part in parts if part)

    def listed(self, found: list[exp.Expr] | None) -> str:
        return ", ".join(self.sql(node) for node in found or [])

    def stream_select(self, node: StreamSelect) -> str:
        joins = "".join(self.sql(join) for join in node.args.get("joins") or [])
        group = node.args.get("group")
        return self.words(
            "SELECT",
            node.args.get("emit"),
            "RESTORE" if node.args.get("restore") else None,
            "DISTINCT" if node.args.get("distinct") else None,
            self.listed(node.expressions),
            f"FROM {self.sql(node.args['from_'].this)}{joins}",
            self.where(node),
            f"GROUP BY {self.listed(group.expressions)}" if group else None,
            f"HAVING {self.sql(node.args['having'].this)}" if node.args.get("having") else None,
        )

    def where(self, node: exp.Expr) -> str | None:
        return f"WHERE {self.sql(node.args['where'].this)}" if node.args.get("where") else None

    def from_item(self, node: FromItem) -> str:
        source = self.sql(node.this)
        window, alias = node.args.get("window"), node.args.get("alias")
        return self.words(
            f"({source})" if isinstance(node.this, exp.Query) else source,
            self.sql(window) if window else None,
            f"AS {self.sql(alias)}" if alias else None,
        )

    def stream_window(self, node: StreamWindow) -> str:
        parts = [f"PARTITION BY {self.listed(node.args['partition'])}" if node.args.get("partition") else None]
        for key in ("range", "rows", "now", "unbounded", "slide", "offset", "align", "internal"):
            value = node.args.get(key)
            if value:
                parts.append(key.upper() if value is True else f"{key.upper()} {self.sql(value)}")
        return f"[{self.words(*parts)}]"

    def create(self, node: exp.Expr, kind: str, *parts: str | None) -> str:
        exists = "IF NOT EXISTS" if node.args.get("exists") else None
        return self.words("CREATE", kind, exists, self.sql(node.this), *parts)

    def options(self, node: exp.Expr, word: str = "WITH") -> str | None:
        options = node.args.get("options")
        return f"{word} ({self.listed(options)})" if options else None

    def create_stream(self, node: CreateStreamNode) -> str:
        watermark = node.args.get("watermark")
        parts = [*node.expressions, *([watermark] if watermark else [])]
        return self.create(node, "STREAM", f"({self.listed(parts)})", self.options(node))

    def create_table(self, node: CreateTableNode) -> str:
        keys = node.args.get("primary_key")
        columns = self.listed(node.expressions) + (f", PRIMARY KEY ({self.listed(keys)})" if keys else "")
        non_retroactive = "NON RETROACTIVE" if node.args.get("non_retroactive") else None
        return self.create(node, "TABLE", f"({columns})", non_retroactive, self.options(node))

    def watermark(self, node: WatermarkNode) -> str:
        delay = node.args.get("delay")
        return self.words(
            f"WATERMARK FOR {self.sql(node.this)}",
            f"AS {self.sql(node.expression)}" if node.expression else None,
            f"- INTERVAL {self.sql(delay)}" if delay else None,
        )

    def column_declaration(self, node: ColumnDeclaration) -> str:
        primary_key = "PRIMARY KEY" if node.args.get("primary_key") else None
        return self.words(self.sql(node.this), self.sql(node.args["kind"]), primary_key)

    def insert_rows(self, node: InsertRows) -> str:
        columns = node.args.get("columns")
        shown = f"({self.listed(columns)})" if columns else None
        return self.words("INSERT INTO", self.sql(node.this), shown, f"VALUES {self.listed(node.expressions)}")

    def explain(self, node: ExplainStatement) -> str:
        if node.this:
            return f"EXPLAIN QUERY {self.sql(node.this)}"
        return f"EXPLAIN {self.sql(node.expression)}" if node.expression else "EXPLAIN PLAN"

    TRANSFORMS: ClassVar[dict[type[exp.Expr], Callable[..., str]]] = {
        **Generator.TRANSFORMS,
        exp.Div: lambda self, node: self.binary(node, "/"),
        exp.IntDiv: lambda self, node: self.binary(node, "DIV"),
        Duration: lambda self, node: " ".join(self.sql(part) for part in node.expressions),
        DurationPart: lambda self, node: self.words(self.sql(node.this), self.sql(node, "unit")),
        IntervalLiteral: lambda self, node: f"INTERVAL {self.sql(node.this)}",
        TimeLiteral: lambda self, node: f"{node.args['kind']} {self.sql(node.this)}",
        TypeName: lambda self, node: _type_name(self, node),
        StreamWindow: stream_window,
        FromItem: from_item,
        WindowedResult: lambda self, node: f"WSTREAM({self.listed(node.expressions)}){self.sql(node, 'window')}",
        StreamSelect: stream_select,
        ColumnDeclaration: column_declaration,
        WatermarkNode: watermark,
        OptionNode: lambda self, node: f"{self.sql(node.this)} = {self.sql(node.expression)}",
        CreateStreamNode: create_stream,
        CreateTableNode: create_table,
        CreateQueryNode: lambda self, node: self.create(
            node, "QUERY", self.options(node), f"AS {self.sql(node.expression)}"
        ),
        CreateSinkNode: lambda self, node: self.create(
            node, "SINK", f"FROM {self.sql(node, 'source')}", self.options(node)
        ),
        CreateArchiveNode: lambda self, node: self.create(
            node, "ARCHIVE", f"FROM {self.sql(node, 'source')}", self.options(node)
        ),
        DropDefinition: lambda self, node: self.words(
            "DROP", node.args["kind"], "IF EXISTS" if node.args.get("exists") else None, self.sql(node.this)
        ),
        SuspendQueryNode: lambda self, node: f"SUSPEND QUERY {self.sql(node.this)}",
        ResumeQueryNode: lambda self, node: f"RESUME QUERY {self.sql(node.this)}",
        AlterStreamNode: lambda self, node: f"ALTER STREAM {self.sql(node.this)} {self.options(node, 'SET')}",
        AlterArchiveNode: lambda self, node: f"ALTER ARCHIVE {self.sql(node.this)} {self.options(node, 'SET')}",
        ShowDefinitions: lambda self, node: f"SHOW {node.args['kind']}",
        ExplainStatement: explain,
        InsertRows: insert_rows,
        UpdateRows: lambda self, node: self.words(
            "UPDATE", self.sql(node.this), "SET", self.listed(node.expressions), self.where(node)
        ),
        DeleteRows: lambda self, node: self.words("DELETE FROM", self.sql(node.this), self.where(node)),
    }


def _type_name(generator: Any, node: TypeName) -> str:
    numbers = generator.listed(node.expressions)
    return f"{node.this}({numbers})" if numbers else str(node.this)
