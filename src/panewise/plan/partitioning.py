"""Finds keys by which the inputs of a plan can be divided, so that rows that may meet are always in the same part.

A *division* gives each stream of a plan an expression over its rows. It is sound if every operator combines only rows
whose values are equal. Then the results of the plan over all parts are together the results over all rows. Values are
equal as for hashes of keys (`state/key_hash.py`): NULL is a value, -0.0 equals 0.0, and types must be the same. The
expressions of a comparison include its conversions, so that both sides are hashed in the common type.

| node                     | a division must                                                                         |
| ------------------------ | --------------------------------------------------------------------------------------- |
| a window of time         | nothing: any expression will do                                                         |
| PARTITION BY c ROWS n    | be by c, or by what c determines. Without PARTITION BY there is none                     |
| Join                     | be by equalities that relate all its inputs                                             |
| [NOT] EXISTS             | be by an equality between both sides; a left row whose key is NULL is alone in its part |
| DISTINCT, EXCEPT         | be by a selected column, at the same place on both sides                                |
| GROUP BY                 | be by one of its keys                                                                   |
| changes of the result    | be by a selected column: equal values that leave and come at one instant cancel out      |

The search goes up the plan. `held` are the expressions over the rows of an edge that have the value of the division in
every row. Several divisions together are one division by several columns. Cost: a few microseconds per pair of columns
of a SELECT, once per query.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product

from panewise.language.expressions import Call, ColumnRef, Expression, rewritten
from panewise.language.statements import Emission as Emission
from panewise.plan.expressions.canonical import canonical
from panewise.plan.expressions.conjunctions import conjuncts
from panewise.plan.inputs import of_block
from panewise.plan.nodes import (
    Aggregate,
    Distinct,
    Emit,
    Filter,
    Join,
    Negate,
    Node,
    Pattern,
    Project,
    Scan,
    Union,
    WindowOf,
    reference,
)
from panewise.temporal import RowsWindow

COLUMNS_MAX = 3  # more columns do not spread rows better, and each is hashed for every row


@dataclass(frozen=True)
class Partitioning:
    """The keys by which the streams of a plan are divided.

    `keys`: for each stream, by its name in lower case, the same number of expressions over its columns. Empty if the
    plan needs all rows in one place; then `reason` says why.
    """

    keys: Mapping[str, tuple[Expression, ...]] = field(default_factory=dict)
    reason: str = ""


class _Undivided(Exception):
    """Raised if there is no division; the message says why."""


@dataclass(frozen=True)
class _Division:
    """`keys` by stream. `held`: below the items of a SELECT expressions, above them the numbers of its columns."""

    keys: Mapping[str, Expression]
    held: frozenset[Expression | int]

    def with_held(self, held: Iterable[Expression | int]) -> _Division:
        return _Division(self.keys, frozenset(held))


def partitioning(plan: Emit) -> Partitioning:
    """How to divide the streams of a plan over several inputs, or why they cannot be divided."""
    try:
        divisions = _DivisionSearch(plan).divisions(plan.input)
        compares = plan.restore or not (plan.emission is Emission.RSTREAM or plan.input.pattern is Pattern.MONOTONIC)
        if compares:
            divisions = _required(
                (division for division in divisions if division.held),
                f"{plan.emission.value} compares results, and the key is not among what is selected",
            )
    except _Undivided as problem:
        return Partitioning(reason=str(problem))
    distinct = list({tuple(sorted(d.keys.items(), key=lambda pair: pair[0])): d for d in divisions}.values())
    chosen = distinct[:COLUMNS_MAX] if any(d.held for d in divisions) else distinct[:1]
    return Partitioning({stream: tuple(d.keys[stream] for d in chosen) for stream in sorted(chosen[0].keys)})


def _required(divisions: Iterable[_Division], reason: str) -> list[_Division]:
    found = list(divisions)
    if not found:
        raise _Undivided(reason)
    return found


class _DivisionSearch:
    """Finds the divisions of each edge of a plan, from the bottom."""

    def __init__(self, plan: Emit) -> None:
        # Expressions by which a single input may be divided, besides its columns.
        self._named = list(dict.fromkeys(_expressions(plan.input)))

    def divisions(self, node: Node) -> list[_Division]:
        match node:
            case WindowOf():
                return self._of_window(node)
            case Filter(input=below):
                return self.divisions(below)
            case Join(inputs=inputs, condition=condition):
                return self._of_join(inputs, condition)
            case Aggregate():
                return self._of_aggregate(node)
            case Project(input=below, items=items):
                values = [_qualified(item.expression, _only_input(below)) for item in items]
                return [
                    division.with_held(i for i, value in enumerate(values) if value in division.held)
                    for division in self.divisions(below)
                ]
            case Distinct(input=below):
                return _required((d for d in self.divisions(below) if d.held), "DISTINCT is not over the key")
            case Union():
                return self._of_union(node)
            case Negate(kind="EXISTS" | "NOT EXISTS"):
                return self._of_exists(node)
            case Negate():
                pairs = self._compatible(node.left, node.right)
                found = ((left, keys) for left, keys, shared in pairs if shared)
                return _required((_Division(keys, left.held) for left, keys in found), "EXCEPT is not over the key")
        raise _Undivided("it reads a table")

    def _of_window(self, node: WindowOf) -> list[_Division]:
        """A single window is divided by any of its columns, or by an expression over them that the query contains."""
        stream = _stream_of(node)
        columns = [ColumnRef(column.type, column.name, node.source) for column in node.schema]
        own = [e for e in self._named if e.columns() and set(e.columns()) <= set(columns)]
        every = list(dict.fromkeys([*own, *columns]))
        return [_Division({stream: _unqualified(e)}, frozenset([e])) for e in every if _admits(node, e)]

    def _of_join(self, inputs: tuple[Node, ...], condition: Expression | None) -> list[_Division]:
        """A join is divided by each class of equal expressions that has one expression of every input."""
        divided = [self.divisions(node) for node in inputs]
        found = []
        for terms in _classes(condition, {part.source for node in inputs for part in _inputs_of(node)}):
            held = [[division for division in own if division.held & terms] for own in divided]
            for choice in product(*held):
                keys = _merged_keys(*(division.keys for division in choice))
                if keys is not None:
                    found.append(_Division(keys, frozenset(terms)))
                    break
        return _required(found, "no equality relates all inputs of the join")

    def _of_aggregate(self, node: Aggregate) -> list[_Division]:
        if not node.keys:
            raise _Undivided("an aggregate without GROUP BY is over all rows")
        keys = [_qualified(key, _only_input(node.input)) for key in node.keys]
        kept = [
            division.with_held(reference(f"key_{i}", key) for i, key in enumerate(keys) if key in division.held)
            for division in self.divisions(node.input)
        ]
        return _required((division for division in kept if division.held), "GROUP BY does not contain the key")

    def _of_union(self, node: Union) -> list[_Division]:
        """Rows of the two sides do not meet in a union, but operators above may need the same column of both."""
        found = [_Division(keys, shared) for _, keys, shared in self._compatible(node.left, node.right)]
        found = _required(found, "one stream would have to be divided by different keys")
        return [division for division in found if division.held] or found[:1]

    def _compatible(self, left: Node, right: Node) -> Iterator[tuple[_Division, dict[str, Expression], frozenset[int]]]:
        """Compatible divisions of both sides: that of the left, all keys, and the columns in which both are held."""
        typed = zip(left.schema, right.schema, strict=True)
        same = frozenset(i for i, (one, other) in enumerate(typed) if one.type == other.type)
        for one, other in product(self.divisions(left), self.divisions(right)):
            keys = _merged_keys(one.keys, other.keys)
            if keys is not None:
                yield one, keys, frozenset(i for i in one.held & other.held & same if isinstance(i, int))

    def _of_exists(self, node: Negate) -> list[_Division]:
        """[NOT] EXISTS. Its results are rows of the left side."""
        assert isinstance(node.right, Project), "the planner refuses aggregates and DISTINCT inside EXISTS"
        below = node.right.input
        condition = (
            below.predicate if isinstance(below, Filter) else below.condition if isinstance(below, Join) else None
        )
        inside = {part.source for part in _inputs_of(below)}
        relations = []
        for sides in _equalities(condition):
            for outer, inner in (sides, sides[::-1]):
                if _sources(inner) <= inside and not _sources(outer) & inside:
                    relations.append((outer, inner))
        found = []
        for left, right in product(self.divisions(node.left), self.divisions(below)):
            keys = _merged_keys(left.keys, right.keys)
            if keys is not None and any(outer in left.held and inner in right.held for outer, inner in relations):
                found.append(_Division(keys, left.held))
        return _required(found, f"{node.kind} does not relate its sides by one key")


def _classes(condition: Expression | None, names: set[str]) -> list[set[Expression]]:
    """Classes of expressions that are equal in every result. Each expression reads one input."""
    classes: list[set[Expression]] = []
    for sides in _equalities(condition):
        if all(len(_sources(side)) == 1 and _sources(side) <= names for side in sides):
            touched = [known for known in classes if known & set(sides)]
            classes = [known for known in classes if known not in touched]
            classes.append(set(sides).union(*touched))
    return classes


def _equalities(condition: Expression | None) -> Iterator[tuple[Expression, Expression]]:
    """Both sides of each conjunct that is an equality of two values of one type."""
    for part in conjuncts(condition):
        if isinstance(part, Call) and part.function == "eq" and part.arguments[0].type == part.arguments[1].type:
            yield canonical(part.arguments[0]), canonical(part.arguments[1])


def _merged_keys(*divided: Mapping[str, Expression]) -> dict[str, Expression] | None:
    """The union of the keys; None if a stream has two different ones, because each row goes to one place only."""
    found: dict[str, Expression] = {}
    for keys in divided:
        for stream, key in keys.items():
            if found.setdefault(stream, key) != key:
                return None
    return found


def _stream_of(node: WindowOf) -> str:
    if not isinstance(node.input, Scan) or node.input.kind != "stream":
        raise _Undivided("it reads the results of another query")
    if isinstance(node.window, RowsWindow) and not node.window.partition_by:
        raise _Undivided(f"the window {node.window} counts the rows of all keys")
    return node.input.name.lower()


def _admits(node: WindowOf, expression: Expression) -> bool:
    """Whether all rows that the window counts together have one value of the expression.

    0.0 and -0.0 are one partition but have two texts, so of floating numbers only the column itself will do.
    """
    if not isinstance(node.window, RowsWindow):
        return True
    columns = expression.columns()
    within = {column.name.lower() for column in columns} <= {name.lower() for name in node.window.partition_by}
    return within and (isinstance(expression, ColumnRef) or not any(column.type.fractional for column in columns))


def _expressions(node: Node) -> Iterator[Expression]:
    """The expressions that a plan selects, groups by and compares, with the names of their inputs."""
    for part in of_block(node):
        match part:
            case Project(input=below, items=items):
                yield from (_qualified(item.expression, _only_input(below)) for item in items)
            case Aggregate(input=below, keys=keys):
                yield from (_qualified(key, _only_input(below)) for key in keys)
            case Filter(predicate=condition) | Join(condition=condition):
                for sides in _equalities(condition):
                    yield from sides


def _inputs_of(node: Node) -> Iterator[WindowOf]:
    """The windows in the FROM of a SELECT."""
    if isinstance(node, WindowOf):
        yield node
    elif isinstance(node, Filter):
        yield from _inputs_of(node.input)
    elif isinstance(node, Negate):
        yield from _inputs_of(node.left)
    elif isinstance(node, Join):
        for part in node.inputs:
            yield from _inputs_of(part)


def _only_input(node: Node) -> str | None:
    """The name of the only input of a SELECT, whose columns may be unqualified; None if there are several."""
    names = [part.source for part in _inputs_of(node)]
    return names[0] if len(names) == 1 else None


def _qualified(expression: Expression, only_input: str | None) -> Expression:
    def change(part: Expression) -> Expression | None:
        if isinstance(part, ColumnRef) and part.source is None and only_input is not None:
            return ColumnRef(part.type, part.name, only_input)
        return None

    return canonical(rewritten(expression, change))


def _unqualified(expression: Expression) -> Expression:
    """The expression with unqualified columns, as in a stream by itself."""
    return rewritten(expression, lambda part: ColumnRef(part.type, part.name) if isinstance(part, ColumnRef) else None)


def _sources(expression: Expression) -> set[str | None]:
    return {column.source for column in expression.columns()}
