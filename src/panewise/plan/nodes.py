"""Plan nodes: immutable and hashable, with derived schemas and update patterns. Equal plans are equal values.

The output of a node is an edge. Its update pattern follows from the rules of Golab 2006, section 3.5.1:

| node                              | pattern of its output                                               |
| --------------------------------- | ------------------------------------------------------------------- |
| Scan of a stream                  | MONOTONIC                                                           |
| Window by time; by rows           | WEAKEST; STRICT. Unbounded: as its input                            |
| Filter, Project, non-retro. join  | as its input (rule 1)                                               |
| Union                             | the more complex input; WEAK for unequal ranges (rule 2)            |
| Join                              | STRICT above STRICT, else WEAK; MONOTONIC without external windows  |
| Distinct                          | STRICT above STRICT, else WEAK (rule 3)                             |
| Aggregate, Negate, retro. join    | STRICT (rule 4)                                                     |
| Emit                              | MONOTONIC, unless it is a change log, which is as its input         |
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

from panewise.aggregates.aggregate_functions import BoundAggregate
from panewise.language.expressions import ColumnRef, Expression
from panewise.language.statements import Emission as Emission
from panewise.language.statements import SelectItem
from panewise.schema import INT, TIMESTAMP, Column, Schema
from panewise.temporal import RowsWindow, TimeWindow, Window


class Pattern(IntEnum):
    """How results expire, from the simplest pattern to the most complex."""

    MONOTONIC = 0
    WEAKEST = 1
    WEAK = 2
    STRICT = 3


@dataclass(frozen=True)
class Node:
    """The base of all nodes."""

    def children(self) -> tuple[Node, ...]:
        return ()

    @property
    def schema(self) -> Schema:
        raise NotImplementedError

    @property
    def pattern(self) -> Pattern:
        return self.children()[0].pattern

    def walk(self) -> Iterator[Node]:
        yield self
        for child in self.children():
            yield from child.walk()

    def windows(self) -> list[Window]:
        """The windows of this block, without those inside the queries that it reads."""
        found: list[Window] = []
        for child in self.children():
            found.extend(child.windows())
        return found


@dataclass(frozen=True)
class Scan(Node):
    """A stream, a table, an archive or the results of a registered query."""

    name: str
    kind: str
    columns: Schema
    timestamp: str | None
    retroactive: bool = True
    alias: str = ""  # table or archive only; other inputs are named by their WindowOf

    @property
    def schema(self) -> Schema:
        return self.columns

    @property
    def pattern(self) -> Pattern:
        return Pattern.STRICT if self.kind == "table" and self.retroactive else Pattern.MONOTONIC


@dataclass(frozen=True)
class WindowOf(Node):
    """The part of an input that a query sees at an instant. `source` is the input's alias."""

    input: Node
    window: Window
    source: str

    def children(self) -> tuple[Node, ...]:
        return (self.input,)

    @property
    def schema(self) -> Schema:
        return self.input.schema

    @property
    def pattern(self) -> Pattern:
        if isinstance(self.window, RowsWindow):
            return Pattern.STRICT
        return self.input.pattern if self.window.range_us is None else max(Pattern.WEAKEST, self.input.pattern)

    def windows(self) -> list[Window]:
        return [self.window]


@dataclass(frozen=True)
class Filter(Node):
    """The rows for which the predicate is true."""

    input: Node
    predicate: Expression

    def children(self) -> tuple[Node, ...]:
        return (self.input,)

    @property
    def schema(self) -> Schema:
        return self.input.schema


@dataclass(frozen=True)
class Aggregated:
    """One aggregate: the function for its argument types, and the row expressions that it reads."""

    bound: BoundAggregate
    arguments: tuple[Expression, ...]


@dataclass(frozen=True)
class Aggregate(Node):
    """One row per group, with columns key_0, key_1, ... and aggregate_0, aggregate_1, ..."""

    input: Node
    keys: tuple[Expression, ...]
    aggregates: tuple[Aggregated, ...]

    def children(self) -> tuple[Node, ...]:
        return (self.input,)

    @property
    def schema(self) -> Schema:
        keys = [Column(f"key_{i}", key.type) for i, key in enumerate(self.keys)]
        answers = [Column(f"aggregate_{i}", a.bound.result_type) for i, a in enumerate(self.aggregates)]
        return Schema((*keys, *answers))

    @property
    def pattern(self) -> Pattern:
        return Pattern.STRICT


@dataclass(frozen=True)
class Project(Node):
    """The selected items."""

    input: Node
    items: tuple[SelectItem, ...]

    def children(self) -> tuple[Node, ...]:
        return (self.input,)

    @property
    def schema(self) -> Schema:
        return Schema(tuple(Column(item.name, item.expression.type) for item in self.items))


@dataclass(frozen=True)
class Join(Node):
    """All combinations of the inputs' rows for which the condition is true. Columns are named alias.column."""

    inputs: tuple[Node, ...]
    condition: Expression | None
    kinds: tuple[str, ...] = ()

    def children(self) -> tuple[Node, ...]:
        return self.inputs

    @property
    def schema(self) -> Schema:
        return Schema(tuple(column for node in self.inputs for column in node.schema))

    @property
    def pattern(self) -> Pattern:
        streams = [node for node in self.inputs if not _versioned(node)]
        patterns = [node.pattern for node in streams]
        if Pattern.STRICT in patterns:
            return Pattern.STRICT
        if len(streams) == 1:
            return patterns[0]
        external = [w for node in streams for w in node.windows() if not w.internal and _bounded(w)]
        return Pattern.WEAK if external else Pattern.MONOTONIC


@dataclass(frozen=True)
class Distinct(Node):
    """Each row once."""

    input: Node

    def children(self) -> tuple[Node, ...]:
        return (self.input,)

    @property
    def schema(self) -> Schema:
        return self.input.schema

    @property
    def pattern(self) -> Pattern:
        return Pattern.STRICT if self.input.pattern is Pattern.STRICT else Pattern.WEAK


@dataclass(frozen=True)
class Negate(Node):
    """The rows of the left input without (or, for EXISTS, with) a partner in the right one."""

    left: Node
    right: Node
    kind: str

    def children(self) -> tuple[Node, ...]:
        return (self.left, self.right)

    @property
    def schema(self) -> Schema:
        return self.left.schema

    @property
    def pattern(self) -> Pattern:
        return Pattern.STRICT


@dataclass(frozen=True)
class Union(Node):
    """The rows of both inputs, in time order."""

    left: Node
    right: Node
    kind: str

    def children(self) -> tuple[Node, ...]:
        return (self.left, self.right)

    @property
    def schema(self) -> Schema:
        return self.left.schema

    @property
    def pattern(self) -> Pattern:
        most = max(self.left.pattern, self.right.pattern)
        ranges = {w.range_us for w in self.windows() if isinstance(w, TimeWindow)}
        return max(most, Pattern.WEAK) if len(ranges) > 1 else most


@dataclass(frozen=True)
class Emit(Node):
    """Turns a relation into a stream of results, with columns for their time."""

    input: Node
    emission: Emission
    periodic: bool
    restore: bool = False
    internal: bool = False

    def children(self) -> tuple[Node, ...]:
        return (self.input,)

    @property
    def schema(self) -> Schema:
        if self.periodic:
            when = [Column("window_start", TIMESTAMP), Column("window_end", TIMESTAMP)]
        else:
            when = [Column("instant", TIMESTAMP)]
            if self.emission is Emission.CHANGES:
                when.append(Column("change", INT))
        return Schema((*when, *self.input.schema))

    @property
    def timestamp(self) -> str:
        return "window_end" if self.periodic else "instant"

    @property
    def pattern(self) -> Pattern:
        return self.input.pattern if self.emission is Emission.CHANGES else Pattern.MONOTONIC

    def windows(self) -> list[Window]:
        return []


def _versioned(node: Node) -> bool:
    return isinstance(node, Scan) and node.kind == "table" and not node.retroactive


def _bounded(window: Window) -> bool:
    return isinstance(window, RowsWindow) or window.range_us is not None


def reference(name: str, expression: Expression) -> ColumnRef:
    """A column that holds an expression's value."""
    return ColumnRef(expression.type, name)
