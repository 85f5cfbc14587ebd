"""Makes the nodes of a running plan from the plan of a query.

Which state an operator keeps follows from the update patterns of its inputs (Golab 2006, section 3.5.2).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from panewise.language.expressions import Call, Expression
from panewise.language.statements import SelectItem
from panewise.operators.deltas.beginning import Beginning
from panewise.operators.deltas.delta_nodes import (
    DeltaNode,
    OperatorNode,
    RenamedNode,
    Selecting,
    SourceNode,
    ValuesNode,
)
from panewise.operators.deltas.distinct import DistinctOperator as DistinctOperator
from panewise.operators.deltas.grouped_relation import GroupedRelation
from panewise.operators.deltas.negation import Negation
from panewise.operators.deltas.union import UnionAll
from panewise.operators.joins.ordered_join import OrderedJoin
from panewise.operators.joins.versioned_join import VersionedJoin
from panewise.operators.relation_delta import DeltaOperator
from panewise.plan.aggregation import Aggregation
from panewise.plan.expressions.conjunctions import conjunction, conjuncts
from panewise.plan.inputs import in_layers, is_table, source_names
from panewise.plan.join_layers import (
    AMONG_STREAMS,
    WITH_CHANGES,
    JoinLayer,
    behind_exists,
    layers_of,
    named_columns,
    read_outside,
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
from panewise.plan.physical_plan import JoinPlan
from panewise.schema import Schema
from panewise.state.calendar_queue import CalendarQueue
from panewise.state.fifo_queue import FifoQueue


@dataclass(frozen=True)
class PlanBuilder:
    """Builds the nodes of one plan.

    `numbers`: the source numbers of windows and tables, by the id of their node.
    `begins`: the first instant that the plan shows.
    `core`: a node whose deltas come from outside, as source 0.
    `joins`: the planner's decisions on joins, by the id of their node and their layer.
    `built_joins`: the operators of joins made so far, by the number of the join and its layer.
    """

    numbers: dict[int, int]
    begins: int
    core: Node | None = None
    joins: Mapping[tuple[int, int], JoinPlan] = field(default_factory=dict)
    built_joins: dict[tuple[int, int], OrderedJoin] = field(default_factory=dict)

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
            case Join(condition=condition):
                return self._joined(node, condition)
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

    def _joined(self, node: Join, condition: Expression | None) -> DeltaNode:
        """One join of all inputs or, if rows meet versions of tables, one for each layer (`join_layers`)."""
        layers = layers_of(node.inputs, condition)
        if layers.among_streams is None:
            joined = self.source(layers.first[0])
        else:
            strict = [_strict(part) for part in layers.first]
            internal = [any(window.internal for window in part.windows()) for part in layers.first]
            join = self._ordered(node, AMONG_STREAMS, layers.among_streams, strict, internal)
            joined = OperatorNode(join, [self.source(part) for part in layers.first])
        if not layers.versioned:
            return joined
        for table, met_by, met in layers.versioned:
            operator = VersionedJoin(met_by.to_arrow(), named_columns(table).to_arrow(), met)
            joined = OperatorNode(operator, [joined, self.source(table)])
        columns = [column for table, met_by, _ in layers.versioned[-1:] for column in (*met_by, *named_columns(table))]
        joined = OperatorNode(Beginning(Schema(tuple(columns)).to_arrow(), self.begins), [joined])
        if layers.with_changes is None:
            return joined
        strict = [False] + [True] * len(layers.changing)
        join = self._ordered(node, WITH_CHANGES, layers.with_changes, strict, None)
        return OperatorNode(join, [joined, *map(self.source, layers.changing)])

    def _ordered(
        self, node: Join, number: int, layer: JoinLayer, strict: list[bool], internal: list[bool] | None
    ) -> OrderedJoin:
        """The operator of a layer, with the orders that the planner has chosen."""
        planned = self.joins[id(node), number]
        schemas = [schema.to_arrow() for schema in layer.schemas]
        join = OrderedJoin(schemas, layer.condition, planned.orders, strict, internal, planned.names)
        self.built_joins[planned.join, number] = join
        return join

    def source(self, node: Node) -> DeltaNode:
        """An input of a join, with names by which its columns differ from those of others."""
        names = list(named_columns(node).names)
        if isinstance(node, WindowOf) or is_table(node):
            return SourceNode(self.numbers[id(node)], names)
        return RenamedNode(self.built(node), names)

    def _related(self, left: Node, right: Node, kind: str) -> DeltaNode:
        """[NOT] EXISTS: equalities between both sides become keys, conditions on the right side alone its selection."""
        below, condition = behind_exists(right)
        inner = source_names(below)
        own, left_keys, right_keys = [], [], []
        for part in conjuncts(condition):
            if not read_outside(part, inner):
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
            node: DeltaNode = self._joined(below, selection)
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
    """The expiration queue for the rows of an edge (Golab 2006, section 3.5.2)."""
    return FifoQueue if node.pattern <= Pattern.WEAKEST else CalendarQueue


def _edge_schema(node: Node) -> Schema:
    """The columns that a node of a running plan gives, with the names that they have there."""
    if isinstance(node, Join):
        return Schema(tuple(column for part in in_layers(node.inputs) for column in named_columns(part)))
    if isinstance(node, Filter):
        return _edge_schema(node.input)
    return _edge_schema(node.left) if isinstance(node, Negate) else node.schema
