"""Parses the statements of CQL. The first word says which statement it is."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from panewise.errors import did_you_mean
from panewise.language.parse.parse_select import SelectParser
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
    ExplainStatement,
    InsertRows,
    OptionNode,
    ResumeQueryNode,
    ShowDefinitions,
    SuspendQueryNode,
    UpdateRows,
    WatermarkNode,
)

KINDS = ("STREAM", "TABLE", "QUERY", "SINK", "ARCHIVE")
SHOWN_KINDS = ("STREAMS", "TABLES", "QUERIES", "SINKS", "ARCHIVES")


class CqlParser(SelectParser):
    def parse_one(self, tokens: list[Token], text: str) -> exp.Expr:
        """The statement that these tokens of a text make."""
        self.reset()
        self.sql = text
        self._chunks = [tokens]
        self._advance_chunk()
        statement = self._parse_statement()
        if self._curr:
            self.refuse(f"unexpected {self._found()}")
        return statement

    def _parse_statement(self) -> exp.Expr:
        start = self._curr
        if start.token_type in (TokenType.SELECT, TokenType.L_PAREN):
            return self.query()
        statements: dict[str, Callable[[], exp.Expr]] = {
            "ALTER": self._alter,
            "CREATE": self._create,
            "DELETE": self._delete,
            "DROP": self._drop,
            "EXPLAIN": self._explain,
            "INSERT": self._insert,
            "RESUME": self._resume,
            "SHOW": self._show,
            "SUSPEND": self._suspend,
            "UPDATE": self._update,
        }
        if not self.word_is(*statements):
            self._refuse_clause()
            known = [*statements, "SELECT"]
            self.refuse_unless("a statement", hint=did_you_mean(start.text, known))
        self._advance()
        return self.placed(statements[start.text.upper()](), start)

    def _kind(self, kinds: tuple[str, ...]) -> str:
        if not self.word_is(*kinds):
            self.refuse_unless(" or ".join([", ".join(kinds[:-1]), kinds[-1]]) if len(kinds) > 1 else kinds[0])
        self._advance()
        return self._prev.text.upper()

    # ---- definitions ---------------------------------------------------------------------------------------------

    def _create(self) -> exp.Expr:
        if self.word_is("OR"):
            self.refuse("OR REPLACE is not part of the language", hint="drop it first, or write IF NOT EXISTS")
        kind = self._kind(KINDS)
        exists = self._match_text_seq("IF", "NOT", "EXISTS")
        name = self.name(f"the name of the {kind.lower()}")
        definitions = {
            "STREAM": self._create_stream,
            "TABLE": self._create_table,
            "QUERY": self._create_query,
            "SINK": self._create_sink,
            "ARCHIVE": self._create_archive,
        }
        return definitions[kind](name, exists)

    def _create_stream(self, name: exp.Identifier, exists: bool) -> exp.Expr:
        columns: list[exp.Expr] = []
        watermarks: list[WatermarkNode] = []

        def part() -> exp.Expr:
            if self.word_is("WATERMARK") and self._next.text.upper() == "FOR":
                if watermarks:
                    self.refuse("a stream has one WATERMARK")
                watermarks.append(self._watermark())
                return watermarks[0]
            columns.append(self._column())
            return columns[-1]

        self.expect(TokenType.L_PAREN, "(")
        self.separated(part)
        self.expect(TokenType.R_PAREN, ")")
        watermark = watermarks[0] if watermarks else None
        return self.expression(
            CreateStreamNode(
                this=name, expressions=columns, watermark=watermark, options=self._options(), exists=exists
            )
        )

    def _watermark(self) -> WatermarkNode:
        start = self._curr
        self._advance(2)
        column = self.name("a column")
        expression: exp.Identifier | None = None
        delay: Duration | None = None
        if self._match(TokenType.ALIAS):
            expression = self.name("the column again")
            if self._match(TokenType.DASH):
                self.expect_words("INTERVAL")
                delay = self.duration()
        return self.placed(self.expression(WatermarkNode(this=column, expression=expression, delay=delay)), start)

    def _column(self) -> ColumnDeclaration:
        start = self._curr
        name = self.name("the name of a column")
        kind = self.type_name()
        primary_key = self._match_text_seq("PRIMARY", "KEY")
        if not self._match_set((TokenType.COMMA, TokenType.R_PAREN), advance=False):
            if self._curr and (self._curr.token_type == TokenType.NOT or self.word_is("DEFAULT", "UNIQUE", "CHECK")):
                self.refuse(f"a column constraint {self._found()} is not part of the language")
            self.refuse_unless("',' or ')'")
        return self.placed(self.expression(ColumnDeclaration(this=name, kind=kind, primary_key=primary_key)), start)

    def _create_table(self, name: exp.Identifier, exists: bool) -> exp.Expr:
        columns: list[exp.Expr] = []
        keys: list[exp.Identifier] = []

        def part() -> exp.Expr:
            start = self._curr
            if self._match_text_seq("PRIMARY", "KEY"):
                if keys:
                    self.refuse("a table has one PRIMARY KEY", start)
                self.expect(TokenType.L_PAREN, "(")
                keys.extend(self.separated(lambda: self.name("a column")))
                self.expect(TokenType.R_PAREN, ")")
                return keys[0]
            columns.append(self._column())
            return columns[-1]

        self.expect(TokenType.L_PAREN, "(")
        self.separated(part)
        self.expect(TokenType.R_PAREN, ")")
        non_retroactive = self._match_text_seq("NON", "RETROACTIVE")
        return self.expression(
            CreateTableNode(
                this=name,
                expressions=columns,
                primary_key=keys or None,
                non_retroactive=non_retroactive,
                options=self._options(),
                exists=exists,
            )
        )

    def _create_query(self, name: exp.Identifier, exists: bool) -> exp.Expr:
        options = self._options()
        if not self._match(TokenType.ALIAS):
            self.refuse_unless("AS" if options else "AS or WITH")
        return self.expression(CreateQueryNode(this=name, expression=self.query(), options=options, exists=exists))

    def _create_sink(self, name: exp.Identifier, exists: bool) -> exp.Expr:
        if not self._match(TokenType.FROM):
            self.refuse_unless("FROM")
        source = self.name("the name of a query")
        return self.expression(CreateSinkNode(this=name, source=source, options=self._options(), exists=exists))

    def _create_archive(self, name: exp.Identifier, exists: bool) -> exp.Expr:
        if not self._match(TokenType.FROM):
            self.refuse_unless("FROM")
        source = self.name("the name of a query or stream")
        return self.expression(CreateArchiveNode(this=name, source=source, options=self._options(), exists=exists))

    def _options(self) -> list[OptionNode] | None:
        if not self._match_text_seq("WITH"):
            return None
        return self._option_list()

    def _option_list(self) -> list[OptionNode]:
        self.expect(TokenType.L_PAREN, "(")
        options = self.separated(self._option)
        self.expect(TokenType.R_PAREN, ")")
        return options

    def _option(self) -> OptionNode:
        start = self._curr
        key: exp.Expr
        if self._match(TokenType.STRING):
            key = exp.Literal.string(self._prev.text)
        elif self._match(TokenType.NULL):  # an option of csv files
            key = exp.Var(this="null")
        else:
            words = [self.name("the name of an option")]
            while self._match(TokenType.DOT):
                words.append(self.name("the rest of the name"))
            plain = len(words) == 1 and not words[0].quoted
            key = exp.Var(this=words[0].name) if plain else exp.Literal.string(".".join(word.name for word in words))
        self.placed(key, start)
        self.expect(TokenType.EQ, "=")
        first = self._curr
        negative = self._match(TokenType.DASH)
        value = self._parse_primary() if negative or not self._match(TokenType.L_PAREN, advance=False) else None
        number = isinstance(value, exp.Literal) and not value.is_string
        if not isinstance(value, exp.Literal | exp.Boolean) or (negative and not number):
            self.refuse_unless("a text in quotes, a number, TRUE or FALSE", first)
        if negative:
            value = self.placed(exp.Neg(this=value), first)
        return self.placed(self.expression(OptionNode(this=key, expression=value)), start)

    def _drop(self) -> exp.Expr:
        kind = self._kind(KINDS)
        exists = self._match_text_seq("IF", "EXISTS")
        return self.expression(
            DropDefinition(this=self.name(f"the name of the {kind.lower()}"), kind=kind, exists=exists)
        )

    def _suspend(self) -> exp.Expr:
        self._kind(("QUERY",))
        return self.expression(SuspendQueryNode(this=self.name("the name of the query")))

    def _resume(self) -> exp.Expr:
        self._kind(("QUERY",))
        return self.expression(ResumeQueryNode(this=self.name("the name of the query")))

    def _alter(self) -> exp.Expr:
        kind = self._kind(("STREAM", "ARCHIVE"))
        name = self.name(f"the name of the {kind.lower()}")
        self.expect_words("SET")
        altering = AlterStreamNode if kind == "STREAM" else AlterArchiveNode
        return self.expression(altering(this=name, options=self._option_list()))

    # ---- questions -----------------------------------------------------------------------------------------------

    def _show(self) -> exp.Expr:
        return self.expression(ShowDefinitions(kind=self._kind(SHOWN_KINDS)))

    def _explain(self) -> exp.Expr:
        if self._curr.token_type in (TokenType.SELECT, TokenType.L_PAREN):
            return self.expression(ExplainStatement(expression=self.query()))
        if self._match_text_seq("PLAN"):
            return self.expression(ExplainStatement())
        if not self._match_text_seq("QUERY"):
            self.refuse_unless("QUERY, PLAN or SELECT")
        return self.expression(ExplainStatement(this=self.name("the name of the query")))

    # ---- rows of tables ------------------------------------------------------------------------------------------

    def _insert(self) -> exp.Expr:
        self.expect_words("INTO")
        table = self.name("the name of a table")
        columns = None
        if self._match(TokenType.L_PAREN):
            columns = self.separated(lambda: self.name("a column"))
            self.expect(TokenType.R_PAREN, ")")
        self.expect_words("VALUES")
        rows = self.separated(self._row)
        return self.expression(InsertRows(this=table, columns=columns, expressions=rows))

    def _row(self) -> exp.Tuple:
        start = self.expect(TokenType.L_PAREN, "(")
        values = self.separated(self.required)
        self.expect(TokenType.R_PAREN, ")")
        return self.placed(self.expression(exp.Tuple(expressions=values)), start)

    def _update(self) -> exp.Expr:
        table = self.name("the name of a table")
        self.expect_words("SET")
        assignments = self.separated(self._assignment)
        return self.expression(UpdateRows(this=table, expressions=assignments, where=self.where()))

    def _assignment(self) -> exp.EQ:
        column = self.expression(exp.Column(this=self.name("a column")))
        self.expect(TokenType.EQ, "=")
        return self.expression(exp.EQ(this=column, expression=self.required()))

    def _delete(self) -> exp.Expr:
        if not self._match(TokenType.FROM):
            self.refuse_unless("FROM")
        return self.expression(DeleteRows(this=self.name("the name of a table"), where=self.where()))
