"""Parses expressions: sqlglot's precedence levels over a closed set of operators, functions and literals.

sqlglot's tables are reduced to the operators of CQL, and mistakes that sqlglot accepts (a trailing comma, BETWEEN
without AND) are refused. Every function is an `exp.Anonymous` with its name in upper case; the binder knows which
exist. Nesting is limited, so that no text can exhaust the interpreter's stack.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, ClassVar, NoReturn, TypeVar

import sqlglot.errors
from sqlglot import exp
from sqlglot.parser import Parser
from sqlglot.tokenizer_core import Token, TokenType

from panewise.errors import ParseError, Span
from panewise.language.parse.syntax import Duration, DurationPart, IntervalLiteral, TimeLiteral, TypeName

# One level of parentheses takes about 18 frames of the interpreter's 1,000.
NESTING_MAX = 40

NodeType = TypeVar("NodeType", bound=exp.Expr)

_FUNCTION_NAMES = {TokenType.VAR, TokenType.LEFT, TokenType.RIGHT, TokenType.EXISTS}
_AFTER_FUNCTIONS = {
    "OVER": "write a window in brackets after its input",
    "FILTER": "write the aggregate over CASE WHEN condition THEN value END",
    "WITHIN": "only PERCENTILE_CONT and PERCENTILE_DISC have WITHIN GROUP",
}
_WITHIN_GROUP = ("PERCENTILE_CONT", "PERCENTILE_DISC")


class Refusal(sqlglot.errors.ParseError):
    """Carries a ParseError of ours out of sqlglot's parser. When sqlglot backtracks, it catches only its own errors."""

    def __init__(self, error: ParseError) -> None:
        super().__init__(error.message)
        self.error = error


class ExpressionParser(Parser):
    FUNCTIONS: ClassVar[dict[str, Callable[..., Any]]] = {}
    FUNCTION_PARSERS: ClassVar[dict[str, Callable[..., Any]]] = {}
    NO_PAREN_FUNCTIONS: ClassVar[dict[TokenType, Any]] = {}
    NO_PAREN_FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {}
    PLACEHOLDER_PARSERS: ClassVar[dict[TokenType, Any]] = {}
    LAMBDAS: ClassVar[dict[TokenType, Any]] = {}
    ID_VAR_TOKENS: ClassVar[set[TokenType]] = {TokenType.VAR}
    ALIAS_TOKENS: ClassVar[set[TokenType]] = {TokenType.VAR}
    STATEMENT_PARSERS: ClassVar[dict[TokenType, Any]] = {}
    TERM: ClassVar[dict[TokenType, Any]] = {TokenType.DASH: exp.Sub, TokenType.PLUS: exp.Add}
    FACTOR: ClassVar[dict[TokenType, Any]] = {
        TokenType.DIV: exp.IntDiv,
        TokenType.MOD: exp.Mod,
        TokenType.SLASH: exp.Div,
        TokenType.STAR: exp.Mul,
    }
    UNARY_PARSERS: ClassVar[dict[TokenType, Any]] = {
        token: Parser.UNARY_PARSERS[token] for token in (TokenType.PLUS, TokenType.NOT, TokenType.TILDE, TokenType.DASH)
    }
    RANGE_PARSERS: ClassVar[dict[TokenType, Any]] = {
        token: Parser.RANGE_PARSERS[token]
        for token in (TokenType.BETWEEN, TokenType.IN, TokenType.IS, TokenType.LIKE, TokenType.ILIKE)
    }
    COLUMN_OPERATORS: ClassVar[dict[TokenType, Any]] = {
        TokenType.DOT: None,
        TokenType.DCOLON: lambda self, this, to: self.expression(exp.Cast(this=this, to=to)),
    }
    PRIMARY_PARSERS: ClassVar[dict[TokenType, Any]] = {
        TokenType.STRING: Parser.PRIMARY_PARSERS[TokenType.STRING],
        TokenType.NUMBER: Parser.PRIMARY_PARSERS[TokenType.NUMBER],
        TokenType.NULL: lambda self, token: self.expression(exp.Null(), token),
        TokenType.TRUE: lambda self, token: self.expression(exp.Boolean(this=True), token),
        TokenType.FALSE: lambda self, token: self.expression(exp.Boolean(this=False), token),
        TokenType.STAR: lambda self, token: self.expression(exp.Star(), token),
    }

    def reset(self) -> None:
        super().reset()
        self._nesting = 0

    # ---- errors -------------------------------------------------------------------------------------------------

    def raise_error(self, message: str, token: Token | None = None) -> NoReturn:
        if message.startswith("Required keyword"):
            self.refuse_unless("an expression", token)
        if message.startswith("Expecting "):
            self.refuse_unless(f"'{message.removeprefix('Expecting ')}'", token)
        if message.startswith("Invalid expression"):
            self.refuse(f"unexpected {self._found(token)}", token)
        self.refuse(message, token)

    def refuse(self, message: str, token: Token | None = None, hint: str | None = None) -> NoReturn:
        """Stops with a message that underlines the token, by default the current one."""
        raise Refusal(ParseError(message, text=self.sql, span=self._place(token), hint=hint))

    def refuse_unless(self, expected: str, token: Token | None = None, hint: str | None = None) -> NoReturn:
        place = self._place(token).start
        if hint is None and self.sql[place - 1 : place + 1] == "==":  # two tokens
            hint = "write one = to compare"
        self.refuse(f"expected {expected}, found {self._found(token)}", token, hint)

    def _place(self, token: Token | None) -> Span:
        token = token or self._curr
        if token:
            return Span(token.start, token.end + 1)
        end = self._prev.end + 1 if self._prev else 0
        return Span(end, end + 1)

    def _found(self, token: Token | None = None) -> str:
        token = token or self._curr
        if not token:
            return "the end of the statement"
        shown = self.sql[token.start : token.end + 1] or token.text
        return shown if token.token_type == TokenType.STRING else f"'{shown}'"

    # ---- small steps --------------------------------------------------------------------------------------------

    def expect(self, token_type: TokenType, shown: str) -> Token:
        if not self._match(token_type):
            self.refuse_unless(f"'{shown}'")
        return self._prev

    def expect_words(self, *words: str) -> None:
        for word in words:
            if not self._match_text_seq(word):
                self.refuse_unless(word)

    def word_is(self, *words: str) -> bool:
        """Whether the current token is a plain word with one of these texts."""
        return self._curr.token_type == TokenType.VAR and self._curr.text.upper() in words

    def placed(self, node: NodeType, start: Token) -> NodeType:
        """The node with the extent from a token to the one just read."""
        node.meta["start"], node.meta["end"] = start.start, self._prev.end
        return node

    def name(self, what: str) -> exp.Identifier:
        """An identifier, quoted or not. `what` names in the error message what was expected."""
        if not self._match_set((TokenType.VAR, TokenType.IDENTIFIER)):
            quotable = bool(self._curr) and self._curr.text.isalpha()
            self.refuse_unless(what, hint="write the word in double quotes to use it as a name" if quotable else None)
        quoted = self._prev.token_type == TokenType.IDENTIFIER
        if quoted and not self._prev.text:
            self.refuse("a name cannot be empty", self._prev)
        return self.expression(exp.Identifier(this=self._prev.text, quoted=quoted), self._prev)

    def separated(self, parse: Callable[[], NodeType]) -> list[NodeType]:
        """One or more nodes, separated by commas."""
        found = [parse()]
        while self._match(TokenType.COMMA):
            found.append(parse())
        return found

    def required(self) -> exp.Expr:
        return self._parse_disjunction() or self.refuse_unless("an expression")

    # ---- levels of sqlglot's grammar, made strict ------------------------------------------------------------------

    def enter(self) -> None:
        self._nesting += 1
        if self._nesting > NESTING_MAX:
            self.refuse(f"this is nested more than {NESTING_MAX} levels deep")

    def leave(self) -> None:
        self._nesting -= 1

    def _parse_unary(self) -> exp.Expr | None:
        self.enter()
        start = self._curr
        parsed = super()._parse_unary()
        self.leave()
        if parsed is None:
            self.refuse_unless("an expression")
        if parsed.meta_get("start") is None and isinstance(parsed, exp.Unary):
            self.placed(parsed, start)
        return parsed

    def _parse_type(self, parse_interval: bool = True, fallback_to_identifier: bool = False) -> exp.Expr | None:
        start = self._curr
        if self._next.token_type in (TokenType.STRING, TokenType.NUMBER) and self.word_is("INTERVAL"):
            self._advance()
            return self.placed(self.expression(IntervalLiteral(this=self.duration())), start)
        if self._next.token_type == TokenType.STRING and self.word_is("DATE", "TIMESTAMP"):
            self._advance(2)
            literal = exp.Literal.string(self._prev.text)
            moment = self.placed(self.expression(TimeLiteral(this=literal, kind=start.text.upper())), start)
            return self._parse_column_ops(moment)
        return self._parse_column()

    def duration(self, clauses: tuple[str, ...] = ()) -> Duration:
        """`5 SECONDS`, `1 MINUTE 30 SECONDS` or `'5 seconds'`. A word of `clauses` ends it."""
        start = self._curr
        parts = []
        while self._match_set((TokenType.NUMBER, TokenType.STRING)):
            token = self._prev
            text = token.token_type == TokenType.STRING
            literal = self.expression(exp.Literal(this=token.text, is_string=text), token)
            unit = None
            if self._curr.token_type == TokenType.VAR and self._curr.text.upper() not in clauses:
                self._advance()
                unit = self.expression(exp.Var(this=self._prev.text.upper()), self._prev)
            parts.append(self.expression(DurationPart(this=literal, unit=unit)))
        if not parts:
            self.refuse_unless("a number")
        return self.placed(self.expression(Duration(expressions=parts)), start)

    def type_name(self) -> TypeName:
        """A type: a word, and numbers in parentheses if there are any."""
        start = self._curr
        if not self._match(TokenType.VAR):
            self.refuse_unless("a type")
        name = self._prev.text.upper()
        numbers: list[exp.Expr] = []
        if self._match(TokenType.L_PAREN):
            numbers = self.separated(lambda: self._parse_number() or self.refuse_unless("a number"))
            self.expect(TokenType.R_PAREN, ")")
        return self.placed(self.expression(TypeName(this=name, expressions=numbers)), start)

    def _parse_column_ops(self, this: exp.Expr | None) -> exp.Expr | None:
        if not isinstance(this, exp.Column) and self._match(TokenType.DOT, advance=False):
            self.refuse("unexpected '.'")
        return super()._parse_column_ops(this)

    def _parse_field(
        self, any_token: bool = False, tokens: Collection[TokenType] | None = None, anonymous_func: bool = False
    ) -> exp.Expr | None:
        if not any_token:
            return super()._parse_field(any_token, tokens, anonymous_func)
        # sqlglot asks for any token after a dot.
        return self.expression(exp.Star(), self._prev) if self._match(TokenType.STAR) else self.name("a column")

    def _parse_dcolon(self) -> exp.Expr | None:
        return self.type_name()

    def _parse_bracket(self, this: exp.Expr | None = None) -> exp.Expr | None:
        if this is not None and self._match_set((TokenType.L_BRACKET, TokenType.L_BRACE), advance=False):
            self.refuse(
                f"unexpected {self._found()}", hint="write a window after an input in FROM or after WSTREAM(...)"
            )
        return this

    def _parse_primary(self) -> exp.Expr | None:
        start = self._curr
        if self._match_set(self.PRIMARY_PARSERS):
            primary: exp.Expr = self.PRIMARY_PARSERS[start.token_type](self, start)
            return primary
        if self._match_pair(TokenType.DOT, TokenType.NUMBER):
            return self.placed(exp.Literal.number(f"0.{self._prev.text}"), start)
        return self._parse_paren()

    def _parse_paren(self) -> exp.Expr | None:
        start = self._curr
        if not self._match(TokenType.L_PAREN):
            return None
        query = self._parse_select()
        inner = exp.Subquery(this=query) if query is not None else exp.Paren(this=self.required())
        self.expect(TokenType.R_PAREN, ")")
        return self.placed(self.expression(inner), start)

    def _parse_in(self, this: exp.Expr | None, alias: bool = False) -> exp.In:
        self.expect(TokenType.L_PAREN, "(")
        query = self._parse_select()
        if query is not None:
            found = exp.In(this=this, query=exp.Subquery(this=query))
        else:
            found = exp.In(this=this, expressions=self.separated(self.required))
        self.expect(TokenType.R_PAREN, ")")
        return self.expression(found)

    def _parse_between(self, this: exp.Expr | None) -> exp.Between:
        low = self._parse_bitwise()
        if not self._match(TokenType.AND):
            self.refuse_unless("AND")
        return self.expression(exp.Between(this=this, low=low, high=self._parse_bitwise()))

    def _parse_function_call(
        self,
        functions: dict[str, Any] | None = None,
        anonymous: bool = False,
        optional_parens: bool = True,
        any_token: bool = False,
    ) -> exp.Expr | None:
        token = self._curr
        if token.token_type == TokenType.CASE:
            self._advance()
            return self.placed(self._case(), token)
        after_dot = bool(self._prev) and self._prev.token_type == TokenType.DOT
        if self._next.token_type != TokenType.L_PAREN or token.token_type not in _FUNCTION_NAMES or after_dot:
            return None
        self._advance(2)
        call = self._call(token, token.text.upper())
        if self.word_is("WITHIN") and isinstance(call, exp.Anonymous) and call.this in _WITHIN_GROUP:
            return self.placed(self._within_group(call), token)
        if self.word_is(*_AFTER_FUNCTIONS):
            word = self._curr.text.upper()
            self.refuse(f"{word} is not part of the language", hint=_AFTER_FUNCTIONS[word])
        return call

    def _call(self, token: Token, name: str) -> exp.Expr:
        """The call whose name and opening parenthesis have been read."""
        found: exp.Expr
        if token.token_type == TokenType.EXISTS:
            query = self._parse_select() or self.refuse_unless("SELECT")
            found = exp.Exists(this=query)
        elif name in ("CAST", "TRY_CAST"):
            operand = self.required()
            if not self._match(TokenType.ALIAS):
                self.refuse_unless("AS")
            found = (exp.Cast if name == "CAST" else exp.TryCast)(this=operand, to=self.type_name())
        elif name == "EXTRACT":
            unit = self.name("a unit such as HOUR")
            if not self._match(TokenType.FROM):
                self.refuse_unless("FROM")
            found = exp.Extract(this=exp.Var(this=unit.name.upper()), expression=self.required())
        else:
            found = exp.Anonymous(this=name, expressions=self._arguments())
        self.expect(TokenType.R_PAREN, ")")
        return self.placed(self.expression(found), token)

    def _within_group(self, call: exp.Anonymous) -> exp.Anonymous:
        """PERCENTILE_CONT(p) WITHIN GROUP (ORDER BY x) is PERCENTILE_CONT(x, p)."""
        if len(call.expressions) != 1:
            self.refuse(f"{call.this} takes one argument before WITHIN GROUP: the fraction")
        self.expect_words("WITHIN", "GROUP")
        self.expect(TokenType.L_PAREN, "(")
        if not self._match(TokenType.ORDER_BY):
            self.refuse_unless("ORDER BY")
        value = self.required()
        if self.word_is("DESC"):
            self.refuse("DESC is not part of the language here", hint="the fraction is counted from the least value")
        self._match_text_seq("ASC")
        self.expect(TokenType.R_PAREN, ")")
        return self.expression(exp.Anonymous(this=call.this, expressions=[value, *call.expressions]))

    def _arguments(self) -> list[exp.Expr]:
        if self._match(TokenType.R_PAREN, advance=False):
            return []
        if self._match(TokenType.DISTINCT):
            return [self.expression(exp.Distinct(expressions=self.separated(self.required)))]
        self._match(TokenType.ALL)
        return self.separated(self.required)

    def _case(self) -> exp.Case:
        operand = None if self._match(TokenType.WHEN, advance=False) else self.required()
        branches = []
        while self._match(TokenType.WHEN):
            condition = self.required()
            if not self._match(TokenType.THEN):
                self.refuse_unless("THEN")
            branches.append(self.expression(exp.If(this=condition, true=self.required())))
        if not branches:
            self.refuse_unless("WHEN")
        default = self.required() if self._match(TokenType.ELSE) else None
        if not self._match(TokenType.END):
            self.refuse_unless("END" if default is not None else "WHEN, ELSE or END")
        return self.expression(exp.Case(this=operand, ifs=branches, default=default))
