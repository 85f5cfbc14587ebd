"""Binds SELECT and set operations: inputs, windows, items, grouping, conditions."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from panewise.catalog import ArchiveDefinition, QueryDefinition, StreamDefinition, TableDefinition
from panewise.errors import BindError
from panewise.language import conversions, functions
from panewise.language.bind.bind_expressions import ExpressionBinder, joined
from panewise.language.bind.bind_windows import bind_window
from panewise.language.bind.binding import Binding
from panewise.language.bind.item_names import readable_name
from panewise.language.bind.rewrite_wstream import rewrite_wstream
from panewise.language.bind.scope import REPORT_COLUMNS, Scope, ScopeSource
from panewise.language.bind.selected_columns import item_columns, periodic, result_columns, windowed
from panewise.language.expressions import AggregateCall, ColumnRef, Expression, Literal
from panewise.language.parse import syntax as nodes
from panewise.language.statements import (
    WINDOWLESS,
    Emission,
    Exists,
    Input,
    Named,
    Query,
    Select,
    SelectItem,
    SetOperation,
)
from panewise.schema import DataType, Schema
from panewise.temporal import Window

_SET_OPERATIONS: dict[type[exp.Expr], str] = {
    exp.Union: "UNION",
    exp.Except: "EXCEPT",
    exp.Intersect: "INTERSECT",
}


def bind_query(node: exp.Expr, binding: Binding, outer: Scope | None = None) -> Query:
    """Binds a SELECT, a set operation, or either in parentheses. `outer`: the scope around an EXISTS."""
    if isinstance(node, exp.Subquery):
        return bind_query(node.this, binding, outer)
    if isinstance(node, exp.SetOperation):
        return _bind_set_operation(node, binding, outer)
    assert isinstance(node, nodes.StreamSelect)
    return _SelectBinder(rewrite_wstream(node, binding), binding, outer).bind()


# ---- set operations ------------------------------------------------------------------------------------------------


def _bind_set_operation(node: exp.SetOperation, binding: Binding, outer: Scope | None) -> SetOperation:
    kind = _SET_OPERATIONS[type(node)] + ("" if node.args.get("distinct") else " ALL")
    left, right = bind_query(node.this, binding, outer), bind_query(node.expression, binding, outer)
    left_columns, right_columns = item_columns(left), item_columns(right)
    if len(left_columns) != len(right_columns):
        counts = f"{len(left_columns)} and {len(right_columns)}"
        message = f"{kind} needs the same number of items on both sides, not {counts}"
        raise binding.error(message, node.expression)
    for position, (first, second) in enumerate(zip(left_columns, right_columns, strict=True)):
        common = _common_type(left, right, position)
        if common is None:
            message = (
                f"{kind} cannot take {first.type} and {second.type} together in item {position + 1} ({first.name})"
            )
            raise binding.error(message, node.expression, "write CAST(... AS ...) on one side")
        left, right = _item_as(left, position, common), _item_as(right, position, common)
    return SetOperation(kind, left, right)


def _common_type(left: Query, right: Query, position: int) -> DataType | None:
    """The common type of an item of both sides. A NULL takes the type of the other side."""
    first, second = item_columns(left)[position].type, item_columns(right)[position].type
    for query, other in ((left, second), (right, first)):
        item = query.items[position].expression if isinstance(query, Select) else None
        if isinstance(item, Literal) and item.value is None:
            return other
    return conversions.common_type(first, second)


def _item_as(query: Query, position: int, type_: DataType) -> Query:
    """The query with the item at `position` converted to a type."""
    if isinstance(query, SetOperation):
        return replace(query, left=_item_as(query.left, position, type_), right=_item_as(query.right, position, type_))
    items = list(query.items)
    items[position] = replace(items[position], expression=conversions.converted(items[position].expression, type_))
    return replace(query, items=tuple(items))


# ---- one SELECT ----------------------------------------------------------------------------------------------------


class _SelectBinder:
    def __init__(self, node: nodes.StreamSelect, binding: Binding, outer: Scope | None) -> None:
        self.node = node
        self.binding = binding
        self.outer = outer
        self.inputs: list[Input] = []
        self.sources: list[ScopeSource] = []
        self.conditions: list[Expression] = []
        self.exists: list[Exists] = []
        self.merged: frozenset[str] = frozenset()
        self.sides: list[str] = []

    def bind(self) -> Select:
        self._bind_inputs()
        scope = self._scope()
        self._bind_where(scope)
        group_by = self._bind_group(scope)
        items, places = self._bind_items(scope, group_by)
        having = self._bind_having(scope, items, group_by)
        emit = self.node.args.get("emit")
        select = Select(
            items=tuple(items),
            inputs=tuple(self.inputs),
            where=joined("and", self.conditions) if self.conditions else None,
            exists=tuple(self.exists),
            group_by=group_by,
            having=having,
            distinct=self.node.args.get("distinct") is not None,
            emit=Emission(emit) if emit else None,
            restore=bool(self.node.args.get("restore")),
            outer=tuple(self.sides) if any(side != "INNER" for side in self.sides) else (),
        )
        if select.aggregated:
            for item, place in zip(items, places, strict=True):
                self._check_grouped(item.expression, group_by, place)
            if having is not None:
                self._check_grouped(having, group_by, self.node.args["having"].this)
        self._check_emit(select)
        return select

    def _scope(self) -> Scope:
        # Inside EXISTS columns have their input's alias, so that inner and outer columns can be told apart.
        return Scope(tuple(self.sources), self.outer, self.merged, qualified=self.outer is not None)

    # ---- inputs --------------------------------------------------------------------------------------------------

    def _bind_inputs(self) -> None:
        joins = self.node.args.get("joins") or []
        self._add_input(self.node.args["from_"].this)
        for join in joins:
            self._add_input(join.this)
            self.sides.append(join.side or "INNER")
            if join.args.get("on") is not None:
                binder = self._binder(self._scope(), "ON", "aggregate in a subquery in FROM")
                self.conditions.append(binder.bind_condition(join.args["on"]))
            for column in join.args.get("using") or []:
                self._merge(column)

    def _add_input(self, node: nodes.FromItem) -> None:
        alias_node = node.args.get("alias")
        relation: Named | Query
        window: Window | None = None
        if isinstance(node.this, exp.Identifier):
            relation = self._named(node.this)
            alias, schema, report = relation.name, relation.schema, relation.kind == "query"
            if relation.kind not in WINDOWLESS:
                window = self.binding.default_window
        else:
            relation = bind_query(node.this, self.binding)
            alias, schema, report = "subquery", result_columns(relation), True
            number = 2
            while any(source.alias == alias for source in self.sources):
                alias, number = f"subquery_{number}", number + 1
        if alias_node is not None:
            alias = alias_node.name
        if any(source.alias.lower() == alias.lower() for source in self.sources):
            raise self.binding.error(
                f"two inputs are called '{alias}'", alias_node or node, "give one of them an alias"
            )
        if node.args.get("window") is not None:
            window = self._bind_window(node, relation, schema)
        self.inputs.append(Input(alias, relation, window))
        self.sources.append(ScopeSource(alias, schema, report))

    def _bind_window(self, node: nodes.FromItem, relation: Named | Query, schema: Schema) -> Window:
        window: nodes.StreamWindow = node.args["window"]
        if isinstance(relation, Named) and relation.kind in WINDOWLESS:
            kind = "a table" if relation.kind == "table" else "an archive"
            raise self.binding.error(f"'{relation.name}' is {kind}, and {kind} has no window", window)
        if not isinstance(relation, Named) and not windowed(relation):
            raise self.binding.error("a query that reads only tables has no window", window)
        return bind_window(window, schema, self.binding)

    def _named(self, name: exp.Identifier) -> Named:
        definition = self.binding.definition(name, "stream", "table", "query", "archive")
        assert isinstance(definition, StreamDefinition | TableDefinition | QueryDefinition | ArchiveDefinition)
        if isinstance(definition, ArchiveDefinition) and self.binding.registered:
            message = f"'{definition.name}' is an archive, which only a one-time query can read"
            raise self.binding.error(message, name, f"write SELECT ... FROM {definition.name} without CREATE QUERY")
        timestamp = None if isinstance(definition, TableDefinition) else definition.timestamp
        retroactive = not isinstance(definition, TableDefinition) or definition.retroactive
        return Named(definition.name, definition.kind, definition.schema, timestamp, retroactive)

    def _merge(self, name: exp.Identifier) -> None:
        """USING (column): adds the condition that both sides are equal, and makes them one column."""
        column = exp.Column(this=name.copy())
        left = Scope(tuple(self.sources[:-1]), None, self.merged, qualified=True).find(column, self.binding)
        right = Scope((self.sources[-1],), None, qualified=True).find(column, self.binding)
        with self.binding.at(name):
            self.conditions.append(functions.resolve("eq", (left, right)))
        self.merged |= {name.name.lower()}

    # ---- conditions ----------------------------------------------------------------------------------------------

    def _binder(self, scope: Scope, clause: str, aggregates_refused: str | None = None) -> ExpressionBinder:
        return ExpressionBinder(self.binding, scope, clause, aggregates_refused)

    def _bind_where(self, scope: Scope) -> None:
        where = self.node.args.get("where")
        if where is None:
            return
        plain = []
        for part in _conjuncts(where.this):
            negated, inner = _negation(part)
            if isinstance(inner, exp.Exists):
                self.exists.append(self._bind_exists(inner, negated, scope))
            else:
                plain.append(part)
        binder = self._binder(scope, "WHERE", "write it in HAVING")
        try:
            self.conditions.extend(binder.bind_condition(part) for part in plain)
        except BindError as error:
            raise self._with_alias_hint(error) from None

    def _with_alias_hint(self, error: BindError) -> BindError:
        """The error with a hint if the unknown column in WHERE is an item of SELECT."""
        aliases = {item.alias.lower() for item in self.node.expressions if isinstance(item, exp.Alias)}
        if error.span is not None and error.message.startswith("there is no column"):
            name = self.binding.text[error.span.start : error.span.end].strip('"`')
            if name.lower() in aliases:
                error.hint = f"'{name}' is an item of SELECT; WHERE sees the columns of the inputs, HAVING sees items"
        return error

    def _bind_exists(self, node: exp.Exists, negated: bool, scope: Scope) -> Exists:
        query = bind_query(node.this, self.binding, replace(scope, qualified=True))
        if not isinstance(query, Select):
            raise self.binding.error("EXISTS takes one SELECT", node)
        if query.emit is not None:
            raise self.binding.error(f"{query.emit} is not allowed inside EXISTS", node)
        return Exists(negated, query)

    # ---- grouping and items --------------------------------------------------------------------------------------

    def _bind_group(self, scope: Scope) -> tuple[Expression, ...]:
        group = self.node.args.get("group")
        grouped: list[Expression] = []
        for node in group.expressions if group is not None else []:
            bound = self._bind_group_expression(node, scope)
            if bound not in grouped:
                grouped.append(bound)
        return tuple(grouped)

    def _bind_group_expression(self, node: exp.Expr, scope: Scope) -> Expression:
        item = self._item_meant(node, scope)
        binder = self._binder(scope, "GROUP BY", "an aggregate is computed per group")
        return binder.bind(node if item is None else item)

    def _item_meant(self, node: exp.Expr, scope: Scope) -> exp.Expr | None:
        """The item that a position or alias in GROUP BY means. A column of an input takes precedence over an alias."""
        items = self.node.expressions
        if isinstance(node, exp.Literal) and not node.is_string:
            if not node.this.isdigit() or len(node.this) > 9 or not 1 <= int(node.this) <= len(items):
                raise self.binding.error(f"there is no item {node.this[:40]} to group by", node)
            item: exp.Expr = items[int(node.this) - 1]
            return item.unalias()
        if isinstance(node, exp.Column) and not node.table and not scope.matches(node.name, ""):
            for item in items:
                if isinstance(item, exp.Alias) and item.alias.lower() == node.name.lower():
                    return item.unalias()
        return None

    def _bind_items(self, scope: Scope, group_by: tuple[Expression, ...]) -> tuple[list[SelectItem], list[exp.Expr]]:
        items: list[SelectItem] = []
        places: list[exp.Expr] = []
        names: set[str] = set()
        binder = self._binder(scope, "SELECT")
        for node in self.node.expressions:
            for name, expression in self._bind_item(node, scope, binder):
                self._check_name(name, names, node)
                names.add(name.lower())
                items.append(SelectItem(name, expression))
                places.append(node)
        return items, places

    def _bind_item(self, node: exp.Expr, scope: Scope, binder: ExpressionBinder) -> list[tuple[str, Expression]]:
        if isinstance(node, exp.Star):
            return self._columns_of(scope.sources, scope)
        if isinstance(node, exp.Column) and isinstance(node.this, exp.Star):
            sources = tuple(source for source in scope.sources if source.alias.lower() == node.table.lower())
            if not sources:
                aliases = ", ".join(source.alias for source in scope.sources)
                raise self.binding.error(f"there is no input '{node.table}'", node, f"there is {aliases}")
            return self._columns_of(sources, replace(scope, merged=frozenset()))
        if isinstance(node, exp.Alias):
            return [(node.alias, binder.bind(node.this))]
        bound = binder.bind(node)
        return [(bound.name if isinstance(bound, ColumnRef) else readable_name(node), bound)]

    def _columns_of(self, sources: tuple[ScopeSource, ...], scope: Scope) -> list[tuple[str, Expression]]:
        found: list[tuple[str, Expression]] = []
        seen: set[str] = set()
        for source in sources:
            for column in source.shown():
                merged = column.name.lower() in scope.merged
                if not (merged and column.name.lower() in seen):
                    found.append((column.name, scope.reference(source, column)))
                    seen.add(column.name.lower())
        return found

    def _check_name(self, name: str, names: set[str], node: exp.Expr) -> None:
        """Refuses a reserved name and one of `names`, which are the names of earlier items in lower case."""
        if name.lower() in REPORT_COLUMNS and not self._of_archives:
            hint = f"{', '.join(REPORT_COLUMNS)} are columns that reports add; write AS and another name"
            raise self.binding.error(f"an item cannot be called '{name}'", node, hint)
        if name.lower() in names:
            hint = "name the columns that you want" if node.is_star else "write AS and another name"
            raise self.binding.error(f"two items are called '{name}'", node, hint)

    @property
    def _of_archives(self) -> bool:
        """Whether all inputs are archives. Such a query makes no reports, so report columns are ordinary names."""
        return all(isinstance(entry.relation, Named) and entry.relation.kind == "archive" for entry in self.inputs)

    def _bind_having(
        self, scope: Scope, items: list[SelectItem], group_by: tuple[Expression, ...]
    ) -> Expression | None:
        having = self.node.args.get("having")
        if having is None:
            return None
        binder = self._binder(scope, "HAVING")
        binder.aliases = {item.name.lower(): item.expression for item in items}
        binder.grouped = group_by
        return binder.bind_condition(having.this)

    # ---- checks --------------------------------------------------------------------------------------------------

    def _check_grouped(self, expression: Expression, group_by: tuple[Expression, ...], node: exp.Expr) -> None:
        """Refuses a column that is neither inside an aggregate nor in GROUP BY."""
        if expression in group_by or isinstance(expression, AggregateCall | Literal):
            return
        if isinstance(expression, ColumnRef):
            places = (c for c in node.find_all(exp.Column) if c.name.lower() == expression.name.lower())
            reason = "is neither in GROUP BY nor inside an aggregate" if group_by else "is used beside an aggregate"
            raise self.binding.error(
                f"column '{expression.name}' {reason}",
                next(places, node),
                f"add it to GROUP BY, or write MAX({expression.name}), for example",
            )
        for child in expression.children():
            self._check_grouped(child, group_by, node)

    def _check_emit(self, select: Select) -> None:
        if select.emit is None:
            return
        if not windowed(select):
            raise self.binding.error(f"{select.emit} needs an input with a window", self.node.args["from_"])
        if select.emit == Emission.RSTREAM and not periodic(select):
            raise self.binding.error(
                "RSTREAM needs a window with SLIDE",
                self.node.args["from_"],
                "a continuous query would repeat its whole answer at every change; leave RSTREAM out, or write ISTREAM",
            )


def _conjuncts(node: exp.Expr) -> list[exp.Expr]:
    """The operands of nested ANDs, without parentheses around ANDs, EXISTS and NOT."""
    found: list[exp.Expr] = []
    waiting = [node]
    while waiting:
        part = waiting.pop()
        if isinstance(part, exp.Paren) and isinstance(part.this, exp.And | exp.Exists | exp.Not | exp.Paren):
            waiting.append(part.this)
        elif isinstance(part, exp.And):
            waiting.extend((part.expression, part.this))
        else:
            found.append(part)
    return found


def _negation(node: exp.Expr) -> tuple[bool, exp.Expr]:
    """Whether a condition is negated, and the condition inside NOT and parentheses."""
    negated = False
    while isinstance(node, exp.Not | exp.Paren):
        negated ^= isinstance(node, exp.Not)
        node = node.this
    return negated, node
