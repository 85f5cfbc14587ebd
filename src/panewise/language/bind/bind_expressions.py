"""Binds scalar expressions and aggregates: from the syntax tree to typed expressions.

Each operator and function becomes a call with one canonical name, which `functions.resolve` types. Nodes that are not
in the tables of this module are refused by name. Depth is limited, so that a walk over the result cannot exhaust the
stack.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from sqlglot import exp

from panewise.errors import BindError
from panewise.language import conversions, functions
from panewise.language.bind.bind_types import bind_type
from panewise.language.bind.bind_windows import bind_duration
from panewise.language.bind.binding import Binding, KnownAggregate
from panewise.language.bind.scope import Scope
from panewise.language.expressions import AggregateCall, Call, Expression, Literal, chained
from panewise.language.parse import syntax as nodes
from panewise.language.parse.dialect import print_node
from panewise.language.sql_text import name_to_sql
from panewise.schema import BIGINT, BOOLEAN, DATE, DOUBLE, INT, STRING, TIMESTAMP

DEPTH_MAX = 100

_OPERATORS: dict[type[exp.Expr], str] = {
    exp.Add: "add",
    exp.Sub: "sub",
    exp.Mul: "mul",
    exp.Div: "div",
    exp.IntDiv: "integer_divide",
    exp.Mod: "mod",
    exp.BitwiseAnd: "bitwise_and",
    exp.BitwiseOr: "bitwise_or",
    exp.BitwiseXor: "bitwise_xor",
    exp.EQ: "eq",
    exp.NEQ: "ne",
    exp.LT: "lt",
    exp.LTE: "le",
    exp.GT: "gt",
    exp.GTE: "ge",
    exp.DPipe: "concat",
    exp.NullSafeNEQ: "is_distinct_from",
}
_COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE)
_NOT_CALLED_BY_NAME = {*conversions.SYMBOLS, "and", "or", "not", "in", "like", "ilike", "timestamp_diff"}
_PARTS = {
    "DOW": "day_of_week",
    "DOY": "day_of_year",
    "DAYOFWEEK": "day_of_week",
    "DAYOFYEAR": "day_of_year",
    "EPOCH": "unix_seconds",
    **{name: name.lower() for name in ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND")},
}
SCALAR_NAMES = sorted(
    name.upper() for name in (*functions.FUNCTIONS, *functions.ALIASES) if name not in _NOT_CALLED_BY_NAME
)


@dataclass
class ExpressionBinder:
    """Binds the expressions of one clause. `aggregates_refused`: why the clause has no aggregates; None if it may."""

    binding: Binding
    scope: Scope
    clause: str
    aggregates_refused: str | None = None
    aliases: Mapping[str, Expression] = field(default_factory=dict)  # items of SELECT by name, in lower case
    grouped: tuple[Expression, ...] = ()  # columns that take precedence over an alias of the same name
    _depth: int = 0
    _inside: str | None = None  # the aggregate whose arguments are being bound

    def bind(self, node: exp.Expr) -> Expression:
        handler = self._HANDLERS.get(type(node))
        if handler is None:
            raise self._unknown(node)
        self._depth += 1
        if self._depth > DEPTH_MAX:
            raise self.binding.error(f"this expression is nested more than {DEPTH_MAX} levels deep", node)
        bound = handler(self, node)
        self._depth -= 1
        return bound

    def bind_condition(self, node: exp.Expr) -> Expression:
        """Binds a condition, which must be BOOLEAN or NULL."""
        bound = self.bind(node)
        if isinstance(bound, Literal) and bound.value is None:
            return Literal(BOOLEAN, None)
        if bound.type != BOOLEAN:
            raise self.binding.error(
                f"{self.clause} takes a BOOLEAN, not {bound.type}", node, "compare it to something"
            )
        return bound

    def _call(self, function: str, node: exp.Expr, *arguments: Expression) -> Expression:
        try:
            return functions.resolve(function, arguments)
        except BindError as error:
            raise self.binding.error(error.message, node, error.hint) from None

    def _unknown(self, node: exp.Expr) -> BindError:
        if isinstance(node, nodes.WindowedResult):
            return self.binding.error(f"WSTREAM is not allowed in {self.clause}", node, "write it as an item of SELECT")
        if isinstance(node, exp.Exists):
            hint = "write EXISTS as a condition of WHERE, alone or joined to others by AND"
            return self.binding.error("EXISTS is not allowed here", node, hint)
        if isinstance(node, exp.Query):
            return self.binding.error("a query is not allowed here as a value", node, "join it, or use EXISTS")
        if isinstance(node, exp.Star):
            return self.binding.error("'*' is not allowed here", node, "write it as an item of SELECT, or COUNT(*)")
        words = "".join(" " + c if c.isupper() else c for c in type(node).__name__).strip().upper()
        return self.binding.error(f"{words} is not part of the language", node)

    # ---- names and literals --------------------------------------------------------------------------------------

    def _column(self, node: exp.Column) -> Expression:
        if isinstance(node.this, exp.Star):
            raise self.binding.error(f"'{print_node(node)}' is not allowed here", node, "write it as an item of SELECT")
        alias = self.aliases.get(node.name.lower()) if not node.table and self._inside is None else None
        if alias is None:
            return self.scope.find(node, self.binding)
        try:
            column: Expression | None = self.scope.find(node, self.binding)
        except BindError:
            column = None
        return column if column is not None and column in self.grouped else alias

    def _literal(self, node: exp.Literal) -> Expression:
        if node.is_string:
            return Literal(STRING, node.this)
        return self._number(node.this, node)

    def _number(self, text: str, node: exp.Expr) -> Literal:
        digits = text.lstrip("-")
        if digits.isdigit():
            if len(digits.lstrip("0")) > 19 or not -(2**63) <= int(text) < 2**63:
                raise self.binding.error("this number is too large for a BIGINT", node, "write it with a decimal point")
            value = int(text)
            return Literal(INT if -(2**31) <= value < 2**31 else BIGINT, value)
        try:
            number = float(text)
        except ValueError:
            raise self.binding.error(f"'{text[:40]}' is not a number", node) from None
        if number in (float("inf"), float("-inf")):
            raise self.binding.error("this number is too large for a DOUBLE", node)
        return Literal(DOUBLE, number)

    def _negative(self, node: exp.Neg) -> Expression:
        operand = node.this
        if isinstance(operand, exp.Literal) and not operand.is_string:
            return self._number("-" + operand.this, node)
        return self._call("neg", node, self.bind(operand))

    def _time_literal(self, node: nodes.TimeLiteral) -> Expression:
        with self.binding.at(node):
            target = TIMESTAMP if node.args["kind"] == "TIMESTAMP" else DATE
            return conversions.converted(Literal(STRING, node.this.this), target)

    def _interval(self, node: exp.Expr) -> Expression:
        raise self.binding.error("INTERVAL is not allowed here", node, "add it to a TIMESTAMP or subtract it from one")

    # ---- operators -----------------------------------------------------------------------------------------------

    def _binary(self, node: exp.Binary) -> Expression:
        sides = (node.this, node.expression)
        intervals = [isinstance(side, nodes.IntervalLiteral) for side in sides]
        if any(intervals) and not all(intervals):
            return self._with_interval(node, *sides)
        left, right = (self.bind(side) for side in sides)
        return self._call(_OPERATORS[type(node)], node, left, right)

    def _with_interval(self, node: exp.Binary, left: exp.Expr, right: exp.Expr) -> Expression:
        """Binds `ts + INTERVAL ...`, `ts - INTERVAL ...`, and `ts_1 - ts_2` compared to an INTERVAL."""
        interval, other = (left, right) if isinstance(left, nodes.IntervalLiteral) else (right, left)
        micros = bind_duration(interval.this, self.binding)
        bound = self.bind(other)
        if isinstance(node, exp.Add):
            return self._call("timestamp_add", node, bound, Literal(BIGINT, micros))
        if isinstance(node, exp.Sub) and interval is right:
            return self._call("timestamp_add", node, bound, Literal(BIGINT, -micros))
        if isinstance(node, _COMPARISONS) and isinstance(bound, Call) and bound.function == "timestamp_diff":
            sides = (Literal(BIGINT, micros), bound) if interval is left else (bound, Literal(BIGINT, micros))
            return self._call(_OPERATORS[type(node)], node, *sides)
        return self._interval(interval)

    def _chain(self, node: exp.Connector) -> Expression:
        function = "and" if isinstance(node, exp.And) else "or"
        operands = [self.bind(operand) for operand in node.flatten(unnest=False)]
        with self.binding.at(node):
            return joined(function, operands)

    def _not(self, node: exp.Not) -> Expression:
        return self._negated(self.bind(node.this), node)

    def _negated(self, operand: Expression, node: exp.Expr) -> Expression:
        """The negated operand; two NOTs cancel out."""
        if isinstance(operand, Call) and operand.function == "not":
            return operand.arguments[0]
        return self._call("not", node, operand)

    def _null_safe_equal(self, node: exp.NullSafeEQ) -> Expression:
        distinct = self._call("is_distinct_from", node, self.bind(node.this), self.bind(node.expression))
        return self._negated(distinct, node)

    def _is(self, node: exp.Is) -> Expression:
        tested, negated = node.expression, bool(node.args.get("negate"))
        operand = self.bind(node.this)
        if isinstance(tested, exp.Null):
            return self._call("is_not_null" if negated else "is_null", node, operand)
        if not isinstance(tested, exp.Boolean):
            raise self.binding.error("IS takes NULL, TRUE, FALSE or DISTINCT FROM", tested)
        differs = self._call("is_distinct_from", node, operand, Literal(BOOLEAN, bool(tested.this)))
        return differs if negated else self._negated(differs, node)

    def _in(self, node: exp.In) -> Expression:
        if node.args.get("query") is not None:
            hint = self._instead_of_in(node.this, node.args["query"])
            raise self.binding.error("IN (SELECT ...) is not part of the language", node.args["query"], hint)
        return self._call("in", node, self.bind(node.this), *(self.bind(choice) for choice in node.expressions))

    def _instead_of_in(self, sought: exp.Expr, query: exp.Expr) -> str:
        """A hint: the equivalent join if the query reads one column of a table, otherwise EXISTS."""
        tables = list(query.find_all(nodes.FromItem))
        select = query.find(nodes.StreamSelect)
        items = [] if select is None else select.expressions
        found = self.binding.catalog.find(tables[0].this.name) if len(tables) == 1 else None
        if found is None or found.kind != "table" or len(items) != 1 or not isinstance(items[0], exp.Column):
            return "use EXISTS"
        name, item = name_to_sql(found.name), print_node(items[0].this)
        return f"join the table: add {name} to FROM, and to WHERE {print_node(sought)} = {name}.{item}"

    def _between(self, node: exp.Between) -> Expression:
        operand = self.bind(node.this)
        above = self._call("ge", node, operand, self.bind(node.args["low"]))
        return self._call("and", node, above, self._call("le", node, operand, self.bind(node.args["high"])))

    def _like(self, node: exp.Like | exp.ILike) -> Expression:
        function = "like" if isinstance(node, exp.Like) else "ilike"
        found = self._call(function, node, self.bind(node.this), self.bind(node.expression))
        return self._negated(found, node) if node.args.get("negate") else found

    def _cast(self, node: exp.Cast) -> Expression:
        target = bind_type(node.args["to"], self.binding)
        operand = self.bind(node.this)
        with self.binding.at(node):
            return conversions.resolve_cast(operand, target)

    def _case(self, node: exp.Case) -> Expression:
        operand = self.bind(node.this) if node.this is not None else None
        branches = []
        for branch in node.args["ifs"]:
            condition = self.bind(branch.this)
            if operand is not None:
                condition = self._call("eq", branch, operand, condition)
            branches.append((condition, self.bind(branch.args["true"])))
        default = self.bind(node.args["default"]) if node.args.get("default") is not None else None
        with self.binding.at(node):
            return functions.resolve_case(branches, default)

    def _extract(self, node: exp.Extract) -> Expression:
        part = _PARTS.get(node.this.name)
        if part is None:
            raise self.binding.error(f"EXTRACT knows no part {node.this.name}", node, "parts are " + ", ".join(_PARTS))
        return self._call(part, node, self.bind(node.expression))

    # ---- functions -----------------------------------------------------------------------------------------------

    def _function(self, node: exp.Anonymous) -> Expression:
        name: str = node.this
        aggregate = self.binding.find_aggregate(name)
        if aggregate is not None:
            return self._aggregate(node, aggregate)
        lower = name.lower()
        if lower in _NOT_CALLED_BY_NAME or (lower not in functions.FUNCTIONS and lower not in functions.ALIASES):
            raise self.binding.no_function(name, SCALAR_NAMES, node)
        return self._call(lower, node, *(self.bind(argument) for argument in node.expressions))

    def _aggregate(self, node: exp.Anonymous, aggregate: KnownAggregate) -> Expression:
        name = aggregate.name
        if self._inside is not None:
            hint = f"compute {name} in a subquery in FROM that has a window"
            raise self.binding.error(f"{name} is not allowed inside {self._inside}", node, hint)
        if self.aggregates_refused is not None:
            raise self.binding.error(
                f"the aggregate {name} is not allowed in {self.clause}", node, self.aggregates_refused
            )
        given = node.expressions
        distinct = len(given) == 1 and isinstance(given[0], exp.Distinct)
        if distinct:
            given = given[0].expressions
        star = len(given) == 1 and isinstance(given[0], exp.Star)
        if star and (name != "COUNT" or distinct):
            raise self.binding.error(f"{name}{' DISTINCT' if distinct else ''} cannot take '*'", node)
        if not given and name == "COUNT":
            raise self.binding.error("COUNT takes one argument", node, "write COUNT(*) to count rows")
        self._inside = name
        arguments = () if star else tuple(self.bind(argument) for argument in given)
        self._inside = None
        constant = arguments[0] if len(arguments) == 1 else None
        if name == "COUNT" and not distinct and isinstance(constant, Literal) and constant.value is not None:
            arguments = ()  # COUNT(1) counts rows
        with self.binding.at(node):
            constants = tuple(a.value if isinstance(a, Literal) else ... for a in arguments)
            result_type = aggregate.result_type(tuple(argument.type for argument in arguments), constants)
        return AggregateCall(result_type, name, arguments, distinct)

    _HANDLERS: ClassVar[dict[type[exp.Expr], Callable[..., Expression]]] = {
        **dict.fromkeys(_OPERATORS, _binary),
        exp.Not: _not,
        exp.BitwiseNot: lambda self, node: self._call("bitwise_not", node, self.bind(node.this)),
        exp.Column: _column,
        exp.Literal: _literal,
        exp.Boolean: lambda self, node: Literal(BOOLEAN, bool(node.this)),
        exp.Null: lambda self, node: Literal(STRING, None),
        exp.Neg: _negative,
        exp.Paren: lambda self, node: self.bind(node.this),
        exp.And: _chain,
        exp.Or: _chain,
        exp.NullSafeEQ: _null_safe_equal,
        exp.Is: _is,
        exp.In: _in,
        exp.Between: _between,
        exp.Like: _like,
        exp.ILike: _like,
        exp.Cast: _cast,
        exp.TryCast: _cast,
        exp.Case: _case,
        exp.Extract: _extract,
        exp.Anonymous: _function,
        nodes.TimeLiteral: _time_literal,
        nodes.IntervalLiteral: _interval,
    }


def joined(function: str, operands: list[Expression]) -> Expression:
    """All operands joined by AND or OR."""
    return chained(operands, lambda left, right: functions.resolve(function, (left, right)))
