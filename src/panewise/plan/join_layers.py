"""How a join node of a plan is divided into operators: their inputs, their conditions, and the names of their columns.

A join node runs as one operator over all its inputs. If one input is a non-retroactive table, whose rows have versions,
the node runs as layers instead (`inputs.in_layers`): first the streams are joined with each other, then the result
meets one versioned table after another, then it is joined with the tables whose changes change results.

    JOIN a, b, versioned v, changing t      (a JOIN b) -> meets v -> JOIN t
                                            AMONG_STREAMS            WITH_CHANGES
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from panewise.language.expressions import ColumnRef, Expression, rewritten
from panewise.plan.expressions.conjunctions import conjunction, conjuncts
from panewise.plan.inputs import in_layers, is_table, joined_as, of_block, source_names
from panewise.plan.nodes import Filter, Join, Negate, Node, Project, Scan
from panewise.schema import Column, Schema

AMONG_STREAMS, WITH_CHANGES = 0, 1


@dataclass(frozen=True)
class JoinLayer:
    """A join that one operator runs: the names and columns of its inputs, and the condition over those columns."""

    names: tuple[str, ...]
    schemas: tuple[Schema, ...]
    condition: Expression | None


@dataclass(frozen=True)
class Layers:
    """A join node, layer by layer. A layer that joins nothing is None.

    `first`: the inputs of the first layer. `versioned`: the versioned tables, each with the columns of the rows that
    meet it and its condition. `changing`: the tables of the last layer.
    """

    first: tuple[Node, ...]
    among_streams: JoinLayer | None
    versioned: tuple[tuple[Scan, Schema, Expression | None], ...]
    changing: tuple[Scan, ...]
    with_changes: JoinLayer | None

    def operators(self) -> Iterator[tuple[int, JoinLayer]]:
        """The layers that join several inputs at once, each with its number."""
        if self.among_streams is not None:
            yield AMONG_STREAMS, self.among_streams
        if self.with_changes is not None:
            yield WITH_CHANGES, self.with_changes


def layers_of(inputs: Sequence[Node], condition: Expression | None) -> Layers:
    """The layers of a join of these inputs. The condition must read no other inputs."""
    ordered = in_layers(inputs)
    versioned = [node for node in ordered if is_table(node) and not node.retroactive]
    if not versioned:
        return Layers(tuple(ordered), _layer(ordered, condition), (), (), None)
    streams = [node for node in ordered if not is_table(node)]
    changing = tuple(node for node in ordered if is_table(node) and node.retroactive)
    parts = conjuncts(condition)
    known = {name for node in streams for name in source_names(node)}
    among = _layer(streams, conjunction(_taken(parts, known))) if len(streams) > 1 else None
    columns = [column for node in streams for column in named_columns(node)]
    met = []
    for table in versioned:
        known.add(table.alias)
        met.append((table, Schema(tuple(columns)), in_join(conjunction(_taken(parts, known)))))
        columns += named_columns(table)
    last = None
    if changing:
        below = ", ".join(name for node in [*streams, *versioned] for name in sorted(source_names(node)))
        schemas = Schema(tuple(columns)), *map(named_columns, changing)
        last = JoinLayer((below, *(table.alias for table in changing)), schemas, in_join(conjunction(parts)))
    return Layers(tuple(streams), among, tuple(met), changing, last)


def joins_of(plan: Node) -> list[tuple[Join, Expression | None]]:
    """The join nodes of a plan, without those inside its input queries, each with the condition on its own inputs.

    This order numbers the joins of a plan.
    """
    nodes = list(of_block(plan))
    behind: dict[int, Expression | None] = {}
    for node in nodes:
        if isinstance(node, Negate) and node.kind in ("EXISTS", "NOT EXISTS"):
            below, condition = behind_exists(node.right)
            inner = source_names(below)
            behind[id(below)] = conjunction([part for part in conjuncts(condition) if not read_outside(part, inner)])
    return [(node, behind.get(id(node), node.condition)) for node in nodes if isinstance(node, Join)]


def behind_exists(right: Node) -> tuple[Node, Expression | None]:
    """The inputs and the WHERE of the SELECT inside EXISTS."""
    assert isinstance(right, Project), "the planner refuses aggregates and DISTINCT inside EXISTS"
    below = right.input
    if isinstance(below, Filter):
        return below.input, below.predicate
    return (below, below.condition) if isinstance(below, Join) else (below, None)


def read_outside(part: Expression, inner: set[str]) -> set[str | None]:
    """The inputs that a conjunct reads and that are not in `inner`."""
    return {column.source for column in part.columns()} - inner - {None}


def named_columns(node: Node) -> Schema:
    """The columns of an input of a join, named `input.column`."""
    source = joined_as(node)
    return Schema(tuple(Column(f"{source}.{column.name}", column.type) for column in node.schema))


def in_join(condition: Expression | None) -> Expression | None:
    """The condition with columns named as in a join: `input.column`."""
    return None if condition is None else rewritten(condition, _qualified)


def _layer(inputs: Sequence[Node], condition: Expression | None) -> JoinLayer:
    return JoinLayer(tuple(map(joined_as, inputs)), tuple(map(named_columns, inputs)), in_join(condition))


def _taken(parts: list[Expression], known: set[str]) -> list[Expression]:
    """Removes and returns the conjuncts that read only inputs in `known`."""
    found = [part for part in parts if {column.source for column in part.columns()} <= known]
    parts[:] = [part for part in parts if part not in found]
    return found


def _qualified(expression: Expression) -> Expression | None:
    if isinstance(expression, ColumnRef) and expression.source is not None:
        return ColumnRef(expression.type, f"{expression.source}.{expression.name}")
    return None
