"""Parses SELECT: ISTREAM, DSTREAM and RSTREAM, items, inputs with windows in brackets, joins and set operations.

SQL clauses that a query over streams does not have (ORDER BY, LIMIT, QUALIFY, ...) are refused here by name.
"""

from __future__ import annotations

from typing import Any, NoReturn

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from panewise.language.parse.parse_expressions import ExpressionParser
from panewise.language.parse.syntax import FromItem, StreamSelect, StreamWindow, WindowedResult

EMIT_WORDS = ("ISTREAM", "DSTREAM", "RSTREAM")
WINDOW_CLAUSES = ("RANGE", "ROWS", "NOW", "UNBOUNDED", "SLIDE", "OFFSET", "ALIGN", "INTERNAL")

_SORT = "rows come in time order; sort an answer after you have received it: table.sort_by('column')"
# Words with their hints. Without this list each would be taken for an alias.
REFUSED_WORDS: dict[str, str | None] = {
    "ANTI": "write WHERE NOT EXISTS (...)",
    "ASOF": None,
    "CLUSTER": None,
    "DISTRIBUTE": None,
    "FETCH": "a query over a stream has no last row",
    "FOR": None,
    "GROUP": "write GROUP BY",
    "LATERAL": None,
    "LIMIT": "a query over a stream has no last row",
    "MATCH_RECOGNIZE": None,
    "MINUS": "write EXCEPT",
    "NATURAL": "write JOIN ... USING (...)",
    "OFFSET": "write the OFFSET of a window inside its brackets",
    "ORDER": _SORT,
    "PIVOT": None,
    "QUALIFY": None,
    "SEMI": "write WHERE EXISTS (...)",
    "SORT": _SORT,
    "STRAIGHT_JOIN": None,
    "TABLESAMPLE": None,
    "UNPIVOT": None,
    "WINDOW": "write a window in brackets after its input",
    "WITH": "write a subquery in FROM; write options before AS: CREATE QUERY name WITH (...) AS SELECT ...",
}


# Each set operation makes the plan one level deeper, and every walk over a plan is recursive.
SET_OPERATIONS_MAX = 64


class SelectParser(ExpressionParser):
    def reset(self) -> None:
        super().reset()
        self._set_operations = 0

    def _parse_select(self, *arguments: Any, **options: Any) -> exp.Expr | None:
        """The query that begins here, or None. sqlglot calls this at every opening parenthesis."""
        if self._curr.token_type == TokenType.SELECT:
            return self.query()
        if self.word_is("WITH", "VALUES") and self._next.token_type in (TokenType.VAR, TokenType.L_PAREN):
            self._refuse_word()
        return self.query() if self._selects_in_parentheses() else None

    def _selects_in_parentheses(self) -> bool:
        """Whether the parentheses that open here enclose one side of a set operation: `((SELECT ...) UNION ...)`."""
        index = self._index
        while index < len(self._tokens) and self._tokens[index].token_type == TokenType.L_PAREN:
            index += 1
        opened = index - self._index
        if not opened or index == len(self._tokens) or self._tokens[index].token_type != TokenType.SELECT:
            return False
        depth = 0
        for position in range(self._index, len(self._tokens)):
            token_type = self._tokens[position].token_type
            depth += (token_type == TokenType.L_PAREN) - (token_type == TokenType.R_PAREN)
            if depth == 0:
                following = self._tokens[position + 1].token_type if position + 1 < len(self._tokens) else None
                return following in self.SET_OPERATIONS
        return False

    # ---- set operations ------------------------------------------------------------------------------------------

    def query(self) -> exp.Query:
        """SELECTs combined by UNION and EXCEPT, and by INTERSECT, which binds more tightly."""
        self.enter()
        left = self._intersection()
        while self._match_set((TokenType.UNION, TokenType.EXCEPT)):
            kind = exp.Union if self._prev.token_type == TokenType.UNION else exp.Except
            left = self._set_operation(kind, left, self._intersection)
        self.leave()
        return left

    def _intersection(self) -> exp.Query:
        left = self._operand()
        while self._match(TokenType.INTERSECT):
            left = self._set_operation(exp.Intersect, left, self._operand)
        return left

    def _set_operation(self, kind: type[exp.SetOperation], left: exp.Query, operand: Any) -> exp.Query:
        self._set_operations += 1
        if self._set_operations > SET_OPERATIONS_MAX:
            self.refuse(f"a statement has at most {SET_OPERATIONS_MAX} set operations", self._prev)
        every = self._match(TokenType.ALL)
        if not every:
            self._match(TokenType.DISTINCT)
        operation: exp.Query = self.expression(kind(this=left, expression=operand(), distinct=not every))
        return operation

    def _operand(self) -> exp.Query:
        start = self._curr
        if self._match(TokenType.L_PAREN):
            inner = self.query()
            self.expect(TokenType.R_PAREN, ")")
            return self.placed(self.expression(exp.Subquery(this=inner)), start)
        if not self._match(TokenType.SELECT):
            self.refuse_unless("SELECT")
        return self._select(start)

    # ---- one SELECT ----------------------------------------------------------------------------------------------

    def _select(self, start: Token) -> StreamSelect:
        emit, restore = self._emit()
        distinct = exp.Distinct() if self._match(TokenType.DISTINCT) else None
        if distinct is None:
            self._match(TokenType.ALL)
        elif self._match(TokenType.ON, advance=False):
            self.refuse("DISTINCT ON is not part of the language")
        if emit is not None and self._list_in_parentheses():
            self._advance()
            items = self.separated(self.item)
            self.expect(TokenType.R_PAREN, ")")
        else:
            items = self.separated(self.item)
        if not self._match(TokenType.FROM):
            self._refuse_clause()
            self.refuse_unless("FROM")
        source = self.expression(exp.From(this=self.from_item()))
        select = StreamSelect(
            emit=emit,
            restore=restore,
            distinct=distinct,
            expressions=items,
            from_=source,
            joins=self._joins(),
            where=self.where(),
            group=self._group(),
            having=self._having(),
        )
        self._refuse_clause()
        return self.placed(self.expression(select), start)

    def _emit(self) -> tuple[str | None, bool]:
        """ISTREAM, DSTREAM or RSTREAM, and whether RESTORE follows. The dissertation writes `Istream-restore`."""
        if not self.word_is(*EMIT_WORDS, "WSTREAM"):
            return None, False
        word = self._curr.text.upper()
        index = self._index
        self._advance()
        self._match(TokenType.DASH)
        if self.word_is("RESTORE"):
            if word in ("DSTREAM", "WSTREAM"):
                self.refuse(f"{word} cannot have RESTORE", hint="write RESTORE after ISTREAM or RSTREAM")
            self._advance()
            return word, True
        self._retreat(index + (word != "WSTREAM"))
        return (None if word == "WSTREAM" else word), False

    def _list_in_parentheses(self) -> bool:
        """Whether the whole list of items is in parentheses, as in `ISTREAM(a, b) FROM`."""
        if self._curr.token_type != TokenType.L_PAREN:
            return False
        depth = 0
        for position in range(self._index, len(self._tokens) - 1):
            token_type = self._tokens[position].token_type
            depth += (token_type == TokenType.L_PAREN) - (token_type == TokenType.R_PAREN)
            if depth == 0:
                return self._tokens[position + 1].token_type == TokenType.FROM
        return False

    def _parse_column(self) -> exp.Expr | None:
        if self.word_is(*EMIT_WORDS):
            hint = "write it directly after SELECT; in double quotes it is a name"
            self.refuse(f"{self._curr.text.upper()} is not allowed here", hint=hint)
        return super()._parse_column()

    def item(self) -> exp.Expr:
        """An expression or a star, with its alias."""
        found = self.required()
        alias = self._alias()
        return found if alias is None else self.expression(exp.Alias(this=found, alias=alias))

    def _alias(self) -> exp.Identifier | None:
        if self._match(TokenType.ALIAS):
            return self.name("an alias")
        if self.word_is(*REFUSED_WORDS):
            self._refuse_word()
        return self.name("an alias") if self._curr.token_type in self.IDENTIFIER_TOKENS else None

    def where(self) -> exp.Where | None:
        return self.expression(exp.Where(this=self.required())) if self._match(TokenType.WHERE) else None

    def _group(self) -> exp.Group | None:
        if not self._match(TokenType.GROUP_BY):
            return None
        if self.word_is("ALL", "CUBE", "GROUPING", "ROLLUP") and self._next.token_type != TokenType.COMMA:
            self.refuse(f"GROUP BY {self._curr.text.upper()} is not part of the language")
        return self.expression(exp.Group(expressions=self.separated(self.required)))

    def _having(self) -> exp.Having | None:
        return self.expression(exp.Having(this=self.required())) if self._match(TokenType.HAVING) else None

    def _refuse_clause(self) -> None:
        if self._curr.token_type == TokenType.ORDER_BY:
            self.refuse("ORDER BY is not part of the language", hint=REFUSED_WORDS["ORDER"])
        if self.word_is(*REFUSED_WORDS):
            self._refuse_word()

    def _refuse_word(self) -> NoReturn:
        word = self._curr.text.upper()
        self.refuse(f"{word} is not part of the language", hint=REFUSED_WORDS.get(word))

    # ---- inputs --------------------------------------------------------------------------------------------------

    def from_item(self) -> FromItem:
        start = self._curr
        source: exp.Expr
        if self._match(TokenType.L_PAREN):
            source = self.query()
            self.expect(TokenType.R_PAREN, ")")
        else:
            source = self.name("the name of a stream, table or query, or a query in parentheses")
        if self._match(TokenType.DOT, advance=False):
            self.refuse("a name has one part only")
        window = self._window_in_brackets()
        alias = self._alias()
        if window is None:
            window = self._window_in_brackets()
        return self.placed(self.expression(FromItem(this=source, window=window, alias=alias)), start)

    def _joins(self) -> list[exp.Join]:
        joins = []
        while True:
            if self._match(TokenType.COMMA):
                joins.append(self.expression(exp.Join(this=self.from_item())))
                continue
            side = self._prev.text.upper() if self._match_set(self.JOIN_SIDES) else None
            if side is not None:
                self._match(TokenType.OUTER)
            kind = self._prev.text.upper() if self._match_set((TokenType.INNER, TokenType.CROSS)) else None
            if not self._match(TokenType.JOIN):
                if side is not None or kind is not None:
                    self.refuse_unless("JOIN")
                return joins
            joins.append(self._join(side, kind))

    def _join(self, side: str | None, kind: str | None) -> exp.Join:
        join = exp.Join(this=self.from_item(), side=side, kind=kind)
        if kind != "CROSS":
            if self._match(TokenType.ON):
                join.set("on", self.required())
            elif self._match(TokenType.USING):
                self.expect(TokenType.L_PAREN, "(")
                join.set("using", self.separated(lambda: self.name("a column")))
                self.expect(TokenType.R_PAREN, ")")
            else:
                self.refuse_unless("ON or USING")
        return self.expression(join)

    # ---- windows -------------------------------------------------------------------------------------------------

    def _window_in_brackets(self) -> StreamWindow | None:
        start = self._curr
        if not self._match(TokenType.L_BRACKET):
            return None
        found: dict[str, object] = {}
        while not self._match(TokenType.R_BRACKET):
            clause = "PARTITION" if self._match(TokenType.PARTITION_BY, advance=False) else self._curr.text.upper()
            if clause.lower() in found:
                self.refuse(f"{clause} is given twice")
            if clause == "PARTITION":
                self._advance()
                found["partition"] = self.separated(lambda: self.name("a column"))
            elif self.word_is(*WINDOW_CLAUSES):
                self._advance()
                self._window_clause(clause, found)
            else:
                more = "']'" if found else "a window"
                self.refuse_unless(more, hint="clauses of a window are PARTITION BY, " + ", ".join(WINDOW_CLAUSES))
        kinds = [kind for kind in ("range", "rows", "now", "unbounded") if kind in found]
        if len(kinds) != 1:
            self.refuse(
                "a window needs RANGE, ROWS, NOW or UNBOUNDED"
                if not kinds
                else f"a window cannot have both {kinds[0].upper()} and {kinds[1].upper()}",
                start if not kinds else self._prev,
            )
        return self.placed(self.expression(StreamWindow(**found)), start)

    def _window_clause(self, clause: str, found: dict[str, object]) -> None:
        key = clause.lower()
        if clause in ("NOW", "UNBOUNDED", "INTERNAL"):
            found[key] = True
        elif clause == "RANGE" and self.word_is("UNBOUNDED", "NOW"):
            found[self._curr.text.lower()] = True
            self._advance()
        elif clause == "ROWS":
            if not self._match(TokenType.NUMBER):
                self.refuse_unless("a number of rows")
            found[key] = self.expression(exp.Literal(this=self._prev.text, is_string=False), self._prev)
        elif clause == "ALIGN":
            if not self._match(TokenType.STRING):
                self.refuse_unless("an instant such as '2026-01-31 12:00:00'")
            found[key] = self.expression(exp.Literal(this=self._prev.text, is_string=True), self._prev)
        else:
            found[key] = self.duration(WINDOW_CLAUSES)

    def _call(self, token: Token, name: str) -> exp.Expr:
        if name != "WSTREAM":
            return super()._call(token, name)
        items = self.separated(self.item)
        self.expect(TokenType.R_PAREN, ")")
        window = self._window_in_brackets()
        if window is None:
            self.refuse_unless("a window in brackets")
        return self.placed(self.expression(WindowedResult(expressions=items, window=window)), token)
