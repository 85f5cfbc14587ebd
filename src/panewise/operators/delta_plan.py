"""A plan over several inputs while it runs: sources, a tree of operators over deltas, and results.

    rows of each input -> its window -> deltas -> join, negation, DISTINCT, GROUP BY ... -> results

Time goes in steps: a step accounts for the instants from the last watermark up to the least of the inputs' new ones.
Each operator's state follows from the update patterns of its inputs (Golab 2006, section 3.5.2), which the plan's edges
carry. At every instant the relation is the one-time answer of the same SQL over what the windows then hold
(definition 3.1).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from panewise.language.expressions import Call, ColumnRef, Expression, rewritten
from panewise.language.statements import Emit as Emission
from panewise.operators.aggregation import Aggregation
from panewise.operators.beginning import Beginning
from panewise.operators.delta_nodes import DeltaNode, OperatorNode, RenamedNode, Selecting, SourceNode, ValuesNode
from panewise.operators.deltas import Delta
from panewise.operators.distinct import Distinct as DistinctOperator
from panewise.operators.grouped_relation import GroupedRelation
from panewise.operators.lifetimes import FOREVER, NEVER
from panewise.operators.negation import Negation
from panewise.operators.ordered_join import OrderedJoin
from panewise.operators.relation_results import RelationResults
from panewise.operators.relation_to_stream import Restore
from panewise.operators.rows import Rows
from panewise.operators.table_source import TableSource
from panewise.operators.union import UnionAll
from panewise.operators.versioned_join import VersionedJoin
from panewise.operators.windowed_source import WindowedSource
from panewise.plan.conjunctions import conjunction, conjuncts
from panewise.plan.inputs import (
    in_layers,
    is_table,
    joined_as,
    of_block,
    report_window,
    source_names,
    table_inputs,
    windowed_inputs,
)
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
)
from panewise.schema import Column, Schema
from panewise.state.calendar_queue import CalendarQueue
from panewise.state.fifo_queue import FifoQueue
from panewise.temporal import RowsWindow, TimeWindow


class DeltaPlan:
    """`held_from[i]`: rows of input i before that instant were not all seen; None: all were.

    `core`: a node of the plan, with all its windows below it, whose deltas somebody else makes (`run_core`).
    `tables_held_from[i]`: what table i was before that instant is not known; None: as it is now.
    """

    def __init__(
        self,
        plan: Emit,
        held_from: Sequence[int | None],
        core: Node | None = None,
        tables_held_from: Sequence[int | None] = (),
    ) -> None:
        inputs = windowed_inputs(plan)
        tables = table_inputs(plan)
        self._core = core
        begins = max((_whole_from(node, held) for node, held in zip(inputs, held_from, strict=True)), default=NEVER)
        for table, held in zip(tables, tables_held_from, strict=False):
            begins = max(begins, _known_from(table, inputs, held))
        self.begins = begins  # the first instant that it accounts for
        early = _meeting_versions(plan)
        self._sources = [
            WindowedSource(node.window, node.schema, held, begins, early=id(node) in early)
            for node, held in zip(inputs, held_from, strict=True)
        ]
        self.tables = [TableSource(node.schema.to_arrow()) for node in tables]
        self._numbers = {id(node): number for number, node in enumerate([*inputs, *tables])}
        self._root = self._built(plan.input)
        self._operators = self._root.operators()
        window = report_window(plan)
        schema = plan.input.schema
        append_only = plan.input.pattern is Pattern.MONOTONIC
        self._results = RelationResults(schema, plan.emission, window, begins, append_only)
        self._insertions: RelationResults | None = None
        self._restore: Restore | None = None
        if plan.restore:
            assert window is not None
            self._insertions = RelationResults(schema, Emission.ISTREAM, None, begins)
            self._restore = Restore(plan.emission, schema.to_arrow(), window)
            self._results = RelationResults(schema, Emission.RSTREAM, window, begins)
        self._watermark = NEVER + 1

    @property
    def operators(self) -> list[Any]:
        return list(self._operators)

    @property
    def bytes_held(self) -> int:
        held = self._results.bytes_held + sum(source.bytes_held for source in self._sources)
        held += sum(table.bytes_held for table in self.tables)
        held += sum(operator.bytes_held for operator in self._operators)
        if self._insertions is not None and self._restore is not None:
            held += self._insertions.bytes_held + self._restore.bytes_held
        return held

    # -- building ------------------------------------------------------------------------------------------------

    def _built(self, node: Node) -> DeltaNode:
        if node is self._core:
            return SourceNode(0)
        match node:
            case WindowOf():
                return SourceNode(self._numbers[id(node)])
            case Project(input=Filter(input=Aggregate() as aggregate, predicate=having), items=items):
                return self._grouped(aggregate, having, items)
            case Project(input=Aggregate() as aggregate, items=items):
                return self._grouped(aggregate, None, items)
            case Project(input=below, items=items):
                return ValuesNode(items, self._built(below))
            case Filter(input=below, predicate=predicate):
                return OperatorNode(Selecting(predicate, _strict(below)), [self._built(below)])
            case Join(inputs=inputs, condition=condition):
                return self._joined(inputs, condition)
            case Distinct(input=below):
                distinct = DistinctOperator(below.schema, _strict(below), _queue(below))
                return OperatorNode(distinct, [self._built(below)])
            case Union(left=left, right=right):
                union = UnionAll(node.schema, (_strict(left), _strict(right)))
                return OperatorNode(union, [self._built(left), self._built(right)])
            case Negate(left=left, right=right, kind=kind) if kind in ("EXISTS", "NOT EXISTS"):
                return self._related(left, right, kind)
            case Negate(left=left, right=right, kind=kind):
                negation = Negation(kind, left.schema, left_queue=_queue(left), right_queue=_queue(right))
                return OperatorNode(negation, [self._built(left), self._built(right)])
        raise AssertionError(node)

    def _grouped(self, node: Aggregate, having: Expression | None, items: tuple[Any, ...]) -> DeltaNode:
        aggregation = Aggregation(
            node.keys,
            tuple(aggregated.bound for aggregated in node.aggregates),
            tuple(aggregated.arguments for aggregated in node.aggregates),
            items,
            having,
        )
        return OperatorNode(GroupedRelation(aggregation, node.input.pattern), [self._built(node.input)])

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
            joined = self._source(streams[0])
        else:
            joined = self._window_join(streams, conjunction(_taken(parts, known)))
        columns = [column for node in streams for column in _named(node)]
        for table in versioned:
            known.add(table.alias)
            own = _named(table)
            condition = _in_join(conjunction(_taken(parts, known)))
            operator = VersionedJoin(Schema(tuple(columns)).to_arrow(), own.to_arrow(), condition)
            joined = OperatorNode(operator, [joined, self._source(table)])
            columns += own
        joined = OperatorNode(Beginning(Schema(tuple(columns)).to_arrow(), self.begins), [joined])
        changing = [node for node in ordered if is_table(node) and node.retroactive]
        if not changing:
            return joined
        schemas = [Schema(tuple(columns)), *(_named(node) for node in changing)]
        join = OrderedJoin(
            [schema.to_arrow() for schema in schemas],
            _in_join(conjunction(parts)),
            strict=[False] + [True] * len(changing),
        )
        join.names = (", ".join(name for node in [*streams, *versioned] for name in source_names(node)),)
        join.names += tuple(node.alias for node in changing)
        return OperatorNode(join, [joined, *map(self._source, changing)])

    def _window_join(self, inputs: Sequence[Node], condition: Expression | None) -> DeltaNode:
        schemas = [_named(node).to_arrow() for node in inputs]
        strict = [_strict(node) for node in inputs]
        internal = [any(window.internal for window in node.windows()) for node in inputs]
        join = OrderedJoin(schemas, _in_join(condition), strict=strict, internal=internal)
        join.names = tuple(map(joined_as, inputs))
        return OperatorNode(join, [self._source(node) for node in inputs])

    def _source(self, node: Node) -> DeltaNode:
        """An input that is joined with others."""
        names = list(_named(node).names)
        if isinstance(node, WindowOf) or is_table(node):
            return SourceNode(self._numbers[id(node)], names)
        return RenamedNode(self._built(node), names)

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
            node = self._built(below)
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
        return OperatorNode(operator, [self._built(left), node])

    # -- running -------------------------------------------------------------------------------------------------

    def process(self, rows: Sequence[Rows], until: int) -> pa.Table:
        """Accounts for all instants below `until`; the rows are all those below it that have not come yet."""
        since, until = self._watermark, max(until, self._watermark)
        deltas = [source.take(part, until) for source, part in zip(self._sources, rows, strict=True)]
        deltas += [table.take(since, until) for table in self.tables]
        starts_at = min((source.starts_at for source in self._sources), default=FOREVER)
        return self._step(deltas, starts_at, until)

    def run_core(self, delta: Delta, starts_at: int, until: int) -> pa.Table:
        """The same where the core's changes are known, and when the first of its inputs had a row."""
        return self._step([delta], starts_at, max(until, self._watermark))

    def _step(self, deltas: list[Delta], starts_at: int, until: int) -> pa.Table:
        for operator in self._operators:
            if isinstance(operator, GroupedRelation):
                operator.starts_at = min(operator.starts_at, starts_at)
        delta = self._root.run(deltas, self._watermark, until)
        self._watermark = until
        table = self._results.process(delta, until)
        if self._restore is None:
            return table
        assert self._insertions is not None
        return self._restore.process(table, self._insertions.process(delta, until), until)

    def lookup(self, at: int) -> pa.Table:
        return self._results.lookup(at)

    def snapshot(self) -> dict[str, Any]:
        return {
            "sources": [source.snapshot() for source in self._sources],
            "tables": [table.snapshot() for table in self.tables],
            "operators": [operator.snapshot() for operator in self._operators],
            "results": self._results.snapshot(),
            "insertions": self._insertions.snapshot() if self._insertions is not None else None,
            "restore": self._restore.snapshot() if self._restore is not None else None,
            "watermark": self._watermark,
        }

    def restore(self, snapshot: dict[str, Any]) -> None:
        for source, saved in zip(self._sources, snapshot["sources"], strict=True):
            source.restore(saved)
        for table, saved in zip(self.tables, snapshot.get("tables", []), strict=True):
            table.restore(saved)
        for operator, saved in zip(self._operators, snapshot["operators"], strict=True):
            operator.restore(saved)
        self._results.restore(snapshot["results"])
        if self._insertions is not None and self._restore is not None:
            self._insertions.restore(snapshot["insertions"])
            self._restore.restore(snapshot["restore"])
        self._watermark = snapshot["watermark"]


def _strict(node: Node) -> bool:
    return node.pattern is Pattern.STRICT


def _queue(node: Node) -> type[FifoQueue] | type[CalendarQueue]:
    """What keeps the rows of an edge in the order in which they leave (Golab 2006, section 3.5.2)."""
    return FifoQueue if node.pattern <= Pattern.WEAKEST else CalendarQueue


def _named(node: Node) -> Schema:
    """The columns of an input that is joined with others."""
    source = joined_as(node)
    return Schema(tuple(Column(f"{source}.{column.name}", column.type) for column in node.schema))


def _in_join(condition: Expression | None) -> Expression | None:
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


def _whole_from(node: WindowOf, held_from: int | None) -> int:
    """The first instant at which a window that begins in mid-stream holds all that it should."""
    window = node.window
    if held_from is None or isinstance(window, RowsWindow) or window.range_us is None:
        return NEVER
    assert isinstance(window, TimeWindow)
    return held_from + window.range_us + window.offset_us - 1


def _known_from(table: Scan, inputs: Sequence[WindowOf], held_from: int | None) -> int:
    """The first instant at which all that a table has to do with is known, where it is known from an instant on.

    Of a table that keeps no versions, what the rows in the windows have met.
    """
    if held_from is None or table.retroactive:
        return NEVER if held_from is None else held_from
    return max([held_from, *(_whole_from(node, held_from) for node in inputs)])


def _meeting_versions(plan: Emit) -> set[int]:
    """The windows, by id, whose rows meet versions of tables."""
    joins = [node for node in of_block(plan.input) if isinstance(node, Join)]
    meeting = [join for join in joins if any(is_table(part) and not part.retroactive for part in join.inputs)]
    below = [node for join in meeting for part in join.inputs for node in of_block(part)]
    return {id(node) for node in below if isinstance(node, WindowOf) and isinstance(node.window, TimeWindow)}
