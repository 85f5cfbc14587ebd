"""A running plan made from the plan of a query: an operator for every node that keeps state.

Which state an operator keeps follows from the update patterns of its inputs (Golab 2006, section 3.5.2), which the
plan's edges carry.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from panewise.language.expressions import Call, ColumnRef, Expression, rewritten
from panewise.language.statements import SelectItem
from panewise.operators.beginning import Beginning
from panewise.operators.delta_nodes import DeltaNode, OperatorNode, RenamedNode, Selecting, SourceNode, ValuesNode
from panewise.operators.deltas import DeltaOperator
from panewise.operators.distinct import Distinct as DistinctOperator
from panewise.operators.grouped_relation import GroupedRelation
from panewise.operators.negation import Negation
from panewise.operators.ordered_join import OrderedJoin
from panewise.operators.union import UnionAll
from panewise.operators.versioned_join import VersionedJoin
from panewise.plan.aggregation import Aggregation
from panewise.plan.conjunctions import conjunction, conjuncts
from panewise.plan.inputs import (
    in_layers,
    is_table,
    joined_as,
    source_names,
)
from panewise.plan.nodes import (
    Aggregate,
    Distinct,
    Filter,
    Join,
    Negate,
    Node,
    Pattern,
    Project,
    Union,
    WindowOf,
)
from panewise.schema import Column, Schema
from panewise.state.calendar_queue import CalendarQueue
from panewise.state.fifo_queue import FifoQueue


@dataclass(frozen=True)
class PlanBuilder:
    """Builds the nodes of one plan.

    `numbers`: of windows and tables, by id, among the sources; `begins`: the first instant that the plan accounts for;
    `core`: a node whose deltas somebody else makes, as source 0.
    """

    numbers: dict[int, int]
    begins: int
    core: Node | None = None

    def built(self, node: Node) -> DeltaNode:
        if node is self.core:
            return SourceNode(0)
        match node:
            case WindowOf():
                return SourceNode(self.numbers[id(node)])
            case Project(input=Filter(input=Aggregate() as aggregate, predicate=having), items=items):
                return self._grouped(aggregate, having, items)
            case Project(input=Aggregate() as aggregate, items=items):
                return self._grouped(aggregate, None, items)
            case Project(input=below, items=items):
                return self._values(items, self.built(below))
            case Filter(input=below, predicate=predicate):
                return OperatorNode(Selecting(predicate, _strict(below)), [self.built(below)])
            case Join(inputs=inputs, condition=condition):
                return self._joined(inputs, condition)
            case Distinct(input=below):
                distinct = DistinctOperator(below.schema, _strict(below), _queue(below))
                return OperatorNode(distinct, [self.built(below)])
            case Union(left=left, right=right):
                union = UnionAll(node.schema, (_strict(left), _strict(right)))
                return OperatorNode(union, [self.built(left), self.built(right)])
            case Negate(left=left, right=right, kind=kind) if kind in ("EXISTS", "NOT EXISTS"):
                return self._related(left, right, kind)
            case Negate(left=left, right=right, kind=kind):
                negation = Negation(kind, left.schema, left_queue=_queue(left), right_queue=_queue(right))
                return OperatorNode(negation, [self.built(left), self.built(right)])
        raise AssertionError(node)

    def _values(self, items: tuple[SelectItem, ...], below: DeltaNode) -> DeltaNode:
        return ValuesNode(items, below)

    def _grouped(self, node: Aggregate, having: Expression | None, items: tuple[Any, ...]) -> DeltaNode:
        aggregation = Aggregation(
            node.keys,
            tuple(aggregated.bound for aggregated in node.aggregates),
            tuple(aggregated.arguments for aggregated in node.aggregates),
            items,
            having,
        )
        return OperatorNode(self._group_operator(aggregation, node), [self.built(node.input)])

    def _group_operator(self, aggregation: Aggregation, node: Aggregate) -> DeltaOperator:
        return GroupedRelation(aggregation, node.input.pattern)

    def _joined(self, inputs: tuple[Node, ...], condition: Expression | None) -> DeltaNode:
        """All inputs at once, or, where rows meet versions of tables, layer by layer (`in_layers`)."""
        ordered = in_layers(inputs)
        versioned = [node for node in ordered if is_table(node) and not node.retroactive]
        if not versioned:
            return self._window_join(ordered, condition)
        streams = [node for node in ordered if not is_table(node)]
        parts = conjuncts(condition)
        known = {name for node in streams for name in source_names(node)}
        if len(streams) == 1:
            joined = self.source(streams[0])
        else:
            joined = self._window_join(streams, conjunction(_taken(parts, known)))
        columns = [column for node in streams for column in _named(node)]
        for table in versioned:
            known.add(table.alias)
            own = _named(table)
            condition = in_join(conjunction(_taken(parts, known)))
            operator = VersionedJoin(Schema(tuple(columns)).to_arrow(), own.to_arrow(), condition)
            joined = OperatorNode(operator, [joined, self.source(table)])
            columns += own
        joined = OperatorNode(Beginning(Schema(tuple(columns)).to_arrow(), self.begins), [joined])
        changing = [node for node in ordered if is_table(node) and node.retroactive]
        if not changing:
            return joined
        schemas = [Schema(tuple(columns)), *(_named(node) for node in changing)]
        join = OrderedJoin(
            [schema.to_arrow() for schema in schemas],
            in_join(conjunction(parts)),
            strict=[False] + [True] * len(changing),
        )
        join.names = (", ".join(name for node in [*streams, *versioned] for name in source_names(node)),)
        join.names += tuple(node.alias for node in changing)
        return OperatorNode(join, [joined, *map(self.source, changing)])

    def _window_join(self, inputs: Sequence[Node], condition: Expression | None) -> DeltaNode:
        schemas = [_named(node).to_arrow() for node in inputs]
        strict = [_strict(node) for node in inputs]
        internal = [any(window.internal for window in node.windows()) for node in inputs]
        join = OrderedJoin(schemas, in_join(condition), strict=strict, internal=internal)
        join.names = tuple(map(joined_as, inputs))
        return OperatorNode(join, [self.source(node) for node in inputs])

    def source(self, node: Node) -> DeltaNode:
        """An input that is joined with others."""
        names = list(_named(node).names)
        if isinstance(node, WindowOf) or is_table(node):
            return SourceNode(self.numbers[id(node)], names)
        return RenamedNode(self.built(node), names)

    def _related(self, left: Node, right: Node, kind: str) -> DeltaNode:
        """[NOT] EXISTS: equalities between both sides are keys, what reads the right side alone is its selection."""
        below, condition = _taken_apart(right)
        inner = source_names(below)
        own, left_keys, right_keys = [], [], []
        for part in conjuncts(condition):
            sources = {column.source for column in part.columns()}
            if not sources - inner - {None}:
                own.append(part)
                continue
            assert isinstance(part, Call) and part.function == "eq", "the planner refuses other relations"
            outside, inside = part.arguments
            if {column.source for column in outside.columns()} & inner:
                outside, inside = inside, outside
            left_keys.append(outside)
            right_keys.append(inside)
        selection = conjunction(own)
        if isinstance(below, Join):
            node: DeltaNode = self._joined(below.inputs, selection)
        else:
            node = self.built(below)
            if selection is not None:
                node = OperatorNode(Selecting(selection, _strict(below)), [node])
        operator = Negation(
            kind,
            _edge_schema(left),
            tuple(left_keys),
            tuple(right_keys),
            left_queue=_queue(left),
            right_queue=_queue(below),
        )
        return OperatorNode(operator, [self.built(left), node])


def _strict(node: Node) -> bool:
    return node.pattern is Pattern.STRICT


def _queue(node: Node) -> type[FifoQueue] | type[CalendarQueue]:
    """What keeps the rows of an edge in the order in which they leave (Golab 2006, section 3.5.2)."""
    return FifoQueue if node.pattern <= Pattern.WEAKEST else CalendarQueue


def _named(node: Node) -> Schema:
    """The columns of an input that is joined with others."""
    source = joined_as(node)
    return Schema(tuple(Column(f"{source}.{column.name}", column.type) for column in node.schema))


def in_join(condition: Expression | None) -> Expression | None:
    return None if condition is None else rewritten(condition, _qualified)


def _taken(parts: list[Expression], known: set[str]) -> list[Expression]:
    """Takes those out that read no other inputs than these."""
    found = [part for part in parts if {column.source for column in part.columns()} <= known]
    parts[:] = [part for part in parts if part not in found]
    return found


def _edge_schema(node: Node) -> Schema:
    """The columns of what comes out of a node, by the names that they have there."""
    if isinstance(node, Join):
        return Schema(tuple(column for part in in_layers(node.inputs) for column in _named(part)))
    if isinstance(node, Filter):
        return _edge_schema(node.input)
    return _edge_schema(node.left) if isinstance(node, Negate) else node.schema


def _qualified(expression: Expression) -> Expression | None:
    """Columns by the names that they have in a join."""
    if isinstance(expression, ColumnRef) and expression.source is not None:
        return ColumnRef(expression.type, f"{expression.source}.{expression.name}")
    return None


def _taken_apart(right: Node) -> tuple[Node, Expression | None]:
    """What stands behind EXISTS: its inputs, and its WHERE."""
    assert isinstance(right, Project), "the planner refuses aggregates and DISTINCT behind EXISTS"
    below = right.input
    if isinstance(below, Filter):
        return below.input, below.predicate
    return (below, below.condition) if isinstance(below, Join) else (below, None)
