"""Rewrites WSTREAM, windowed output (Golab 2006, section 3.4), as a window over a subquery.

    SELECT WSTREAM(*)[W] FROM s [V]                ->  SELECT * FROM (SELECT ISTREAM * FROM s [V INTERNAL]) [W]
    SELECT k, SUM(WSTREAM(SUM(a))[W])              ->  SELECT k, SUM(wstream_1) FROM
      FROM s [V] GROUP BY k                             (SELECT k, SUM(a) AS wstream_1
                                                          FROM s [V INTERNAL] GROUP BY k) [W] GROUP BY k

Every input of the inner SELECT is INTERNAL, so that its output is append-only. An inner SELECT that aggregates appends
all rows of each report, because ISTREAM would drop a sum that equals the previous one. Everything outside of WSTREAM,
including HAVING, applies to the windowed rows. If the whole list is in WSTREAM, HAVING moves to the inner SELECT.
"""

from __future__ import annotations

from sqlglot import exp

from panewise.language.bind.binding import Binding
from panewise.language.bind.item_names import readable_name
from panewise.language.parse import syntax as nodes


def rewrite_wstream(select: nodes.StreamSelect, binding: Binding) -> nodes.StreamSelect:
    """The rewritten SELECT, or the same SELECT if it has no WSTREAM."""
    found = _windowed_results(select)
    if not found:
        return select
    for result in found:
        if any(isinstance(part, nodes.WindowedResult) for part in result.walk() if part is not result):
            raise binding.error("WSTREAM is not allowed inside WSTREAM", result)
        if result.args["window"] != found[0].args["window"]:
            raise binding.error("every WSTREAM of a SELECT must have the same window", result.args["window"])
    if len(select.expressions) == 1 and select.expressions[0] is found[0]:
        return _windowed_list(select, found[0], binding)
    return _windowed_columns(select, binding)


def _windowed_results(select: nodes.StreamSelect) -> list[nodes.WindowedResult]:
    having = select.args.get("having")
    places = [*select.expressions, *([having.this] if having is not None else [])]
    return [node for place in places for node in place.find_all(nodes.WindowedResult, bfs=False)]


def _windowed_list(select: nodes.StreamSelect, result: nodes.WindowedResult, binding: Binding) -> nodes.StreamSelect:
    inner = _inner_select(select, [item.copy() for item in result.expressions], binding)
    if select.args.get("having") is not None:
        inner.set("having", select.args["having"].copy())
    return _outer_select(select, [exp.Star()], inner, result)


def _windowed_columns(select: nodes.StreamSelect, binding: Binding) -> nodes.StreamSelect:
    outer = select.copy()
    group = _grouped(outer)
    items: list[exp.Expr] = [exp.alias_(value.copy(), name, quoted=True, copy=False) for name, value in group]
    named = [_named(item) for item in outer.expressions]
    outer.set("expressions", named)
    results = _windowed_results(outer)
    for number, result in enumerate(results, start=1):
        if len(result.expressions) != 1 or isinstance(result.expressions[0], exp.Star | exp.Alias):
            raise binding.error("WSTREAM inside an expression takes one expression", result)
        name = f"wstream_{number}"
        items.append(exp.alias_(result.expressions[0].copy(), name, quoted=True, copy=False))
        result.replace(_column(name, result))
    inner = _inner_select(select, items, binding)
    if group:
        inner.set("group", exp.Group(expressions=[value.copy() for _, value in group]))
    for name, value in group:
        if isinstance(value, exp.Literal | exp.Boolean | exp.Null):
            continue  # a column cannot replace the text inside DATE '2026-01-31', and a constant needs no replacement
        for place in [*outer.expressions, *filter(None, [outer.args.get("having")])]:
            for node in [node for node in place.find_all(type(value)) if node == value]:
                node.replace(_column(name, node))
    rewritten = _outer_select(select, outer.expressions, inner, results[0])
    if group:
        columns = [_column(name, value) for name, value in group]
        rewritten.set("group", exp.Group(expressions=columns))
    if outer.args.get("having") is not None:
        rewritten.set("having", outer.args["having"])
    return rewritten


def _grouped(select: nodes.StreamSelect) -> list[tuple[str, exp.Expr]]:
    """The grouping expressions with their names in the inner SELECT. An alias is replaced by its item."""
    group = select.args.get("group")
    aliases = {item.alias.lower(): item.this for item in select.expressions if isinstance(item, exp.Alias)}
    found = []
    for number, expression in enumerate(group.expressions if group is not None else [], start=1):
        plain = isinstance(expression, exp.Column)
        value = aliases.get(expression.name.lower(), expression) if plain and not expression.table else expression
        name = value.name if isinstance(value, exp.Column) else f"group_{number}"
        found.append((name, value.copy()))
    return found


def _named(item: exp.Expr) -> exp.Expr:
    """The item with the name that it would have had without the rewrite."""
    if isinstance(item, exp.Alias | exp.Star | exp.Column):
        return item
    name = readable_name(item)
    return exp.alias_(item, exp.to_identifier(name, quoted=True), copy=False)


def _inner_select(select: nodes.StreamSelect, items: list[exp.Expr], binding: Binding) -> nodes.StreamSelect:
    inner = nodes.StreamSelect(expressions=items)
    for key in ("from_", "where", "group"):
        if select.args.get(key) is not None:
            inner.set(key, select.args[key].copy())
    inner.set("joins", [join.copy() for join in select.args.get("joins") or []])
    for join in [inner.args["from_"], *inner.args["joins"]]:
        window = join.this.args.get("window")
        if window is not None:
            window.set("internal", True)
    calls = (call for item in items for call in item.find_all(exp.Anonymous))
    aggregated = inner.args.get("group") is not None or any(binding.find_aggregate(call.this) for call in calls)
    if not aggregated:
        inner.set("emit", "ISTREAM")
    return inner


def _outer_select(
    select: nodes.StreamSelect, items: list[exp.Expr], inner: nodes.StreamSelect, result: nodes.WindowedResult
) -> nodes.StreamSelect:
    entry = nodes.FromItem(this=inner, window=result.args["window"].copy())
    outer = nodes.StreamSelect(expressions=items, from_=exp.From(this=entry))
    for key in ("emit", "restore", "distinct"):
        outer.set(key, select.args.get(key))
    return outer


def _column(name: str, place: exp.Expr) -> exp.Column:
    """A column with the place of the expression that it replaces, for errors."""
    column = exp.Column(this=exp.to_identifier(name, quoted=True))
    for part in (column, column.this):
        part.update_positions(place)
    return column
