"""What runs, as values: a frozen node for every query, made by `optimize/node_of_plan.py` and executed by both hosts.

    FamilyQuery   an aggregate over a sliding window: a member of the family of its shape
    RowQuery      one windowed input whose rows come in event-time order: an operator of its own
    DeltaQuery    several inputs: operators over deltas, perhaps over a core that it shares with others

Queries over the same channels whose nodes have equal *shapes* share a family. A node says how a host with several
buckets may spread the query's rows over them (`spread`): folded first, exchanged by keys, or all in one bucket. A query
in parentheses is a node inside the node that reads it. Nodes know nothing of hosts, rows or measurements.

A `PhysicalPlan` is all that runs in one place: the nodes of the queries by name. Which queries share a family or a core
follows from them. (A one-time query has a node of its own, `once.py`.) Between two batches a host goes from one plan to
the next by their `Difference`. A `FamilyPlan` says how the members of a family are divided into trees. A family begins
with one tree and may change its plan between two batches, as its `Adapting` allows. A join may change its orders in the
same way, if its `JoinPlan` says that it adapts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property
from weakref import ReferenceType, ref

from panewise.language.expressions import Expression
from panewise.plan.blocks import Block
from panewise.plan.family_plan import FamilyPlan
from panewise.plan.inputs import windowed_inputs
from panewise.plan.join_layers import joins_of
from panewise.plan.nodes import Emit, Node, Scan
from panewise.plan.shared_core import SharedCore

SHARING = ("weave", "full", "none")  # how much is shared: trees by cost, one tree for all, nothing
SPARSE_ABOVE = 4096  # groups
HIDDEN = "\0"  # part of the names of queries inside queries; no statement can give such a name
Orders = tuple[tuple[int, ...], ...]


class Way(Enum):
    """How rows reach the operators of a query on a host with several buckets."""

    FOLDED = "folded"  # partials are folded where the rows are read, and merged by group
    EXCHANGED = "exchanged"  # whole rows go to the bucket of their key
    TOGETHER = "together"  # all rows go to one bucket


@dataclass(frozen=True)
class Spread:
    """`keys`: the grouping keys of a FOLDED query, in a canonical order, so that equal sets are equal. `exchanged_by`:
    for each stream, expressions over its rows. `reason`: why all rows of several inputs must be together."""

    way: Way
    keys: tuple[Expression, ...] = ()
    exchanged_by: Mapping[str, tuple[Expression, ...]] = field(default_factory=dict)
    reason: str = ""


@dataclass(frozen=True)
class Adapting:
    """What a running family may change by its own measurements. No change moves an edge or changes a report.

    `weave`: it may divide its members into trees anew. `fold_together`: it may fold its rows in one pass with those of
    other families of its channel, if that is cheaper. `sparse_above`: with more groups, its slices become sparse.
    """

    weave: bool = True
    fold_together: bool = True
    sparse_above: int = field(default_factory=lambda: SPARSE_ABOVE)


@dataclass(frozen=True)
class FamilyShape:
    """What the members of a family have in common besides their channel. `keys` are in the order of GROUP BY.

    `technique`: the technique that its queries ask for. `alone`: if queries share nothing, the family's only query.
    """

    counts_rows: bool
    where: Expression | None
    keys: tuple[Expression, ...]
    technique: str | None = None
    alone: str = ""
    adapting: Adapting = field(default_factory=Adapting)


class Operator(Enum):
    """The operators over rows of one input, with their names in EXPLAIN."""

    CONTINUOUS_ROWS = "ContinuousRows"
    CONTINUOUS_AGGREGATE = "ContinuousAggregate"
    COLLECTIVE_LOOKUP = "CollectiveLookup"
    ROW_WINDOW = "RowWindow"
    COUNTED_ROW_WINDOW = "CountedRowWindow"
    PARTITIONED_ROWS = "PartitionedRows"
    RESTORED = "RestoredOperator"


@dataclass(frozen=True)
class Rewrite:
    """A rewrite that was made, with the cost of the whole plan before and after, in row touches per second.

    `place`: the path from the top of the plan to the node, as numbers of children. `variant`: the number of the chosen
    plan among those that the rule gives at that node.
    """

    name: str
    cost_before: float
    cost_after: float
    place: tuple[int, ...] = ()
    variant: int = 0

    def __str__(self) -> str:
        return f"{self.name} ({self.cost_before:,.0f} -> {self.cost_after:,.0f})"


@dataclass(frozen=True)
class JoinPlan:
    """An operator that joins. `join` is the number of its node in the plan, `layer` the layer of that node.

    `orders`: for each input, the numbers of the other inputs in the order in which its new rows probe them.
    `adapting`: these are the first orders, and cheaper ones may replace them. Answers do not depend on the orders.
    """

    join: int
    layer: int
    names: tuple[str, ...]
    orders: Orders
    adapting: bool


class CoreOperator(Enum):
    """The operators of cores, with their names in EXPLAIN."""

    JOIN = "SharedJoin"
    DISTINCT = "SharedDistinct"


@dataclass(frozen=True)
class FamilyQuery:
    """An aggregate over a sliding window.

    `slide_got`: the chosen slide, if the query gives only an upper bound; the plan has it too. `with_past`: the query
    starts from rows that arrived before it was created. A running family cannot take earlier rows, so it shares
    nothing.
    """

    plan: Emit
    block: Block
    inner: PhysicalQuery | None
    shape: FamilyShape
    spread: Spread
    slide_got: int | None = None
    with_past: bool = False


@dataclass(frozen=True)
class RowQuery:
    """A query over one input that shares nothing. `silent`: it makes no reports and is only looked up."""

    plan: Emit
    block: Block
    inner: PhysicalQuery | None
    operator: Operator
    silent: bool
    spread: Spread


@dataclass(frozen=True)
class DeltaQuery:
    """A query over several inputs: its rewritten plan, and the core that it may share. `inner`: for each input.

    `core_operator`: the operator of the core. `folds`: whether the core folds the query's aggregates together with
    those of other queries. `joins`: the operators that join, including the core. `with_past`: as in `FamilyQuery`.
    """

    plan: Emit
    block: Block
    inner: tuple[PhysicalQuery | None, ...]
    core: SharedCore | None
    core_operator: CoreOperator | None
    folds: bool
    joins: tuple[JoinPlan, ...]
    rewrites: tuple[Rewrite, ...]
    alone: str
    spread: Spread
    with_past: bool = False

    @property
    def core_join(self) -> JoinPlan | None:
        """The join that is the core; None if the core is a DISTINCT or there is none."""
        if self.core is None or self.core_operator is not CoreOperator.JOIN:
            return None
        nodes = [node for node, _ in joins_of(self.plan.input)]
        return next(join for join in self.joins if nodes[join.join] is self.core.node)


PhysicalQuery = FamilyQuery | RowQuery | DeltaQuery


@dataclass(frozen=True)
class Planned:
    """A query of a plan. `created` distinguishes it from an earlier query of the same name that was dropped."""

    node: PhysicalQuery
    created: int = 0


@dataclass(frozen=True)
class FamilyKey:
    """Identifies a family. Queries share it if they read the same source and have the same shape."""

    source: str
    shape: FamilyShape


@dataclass(frozen=True)
class CoreKey:
    """Identifies a core. Queries share it if they read the same sources and their cores have the same meaning.

    `alone`: the only query of the core, if it is not shared.
    """

    sources: tuple[str, ...]
    meaning: tuple[object, ...]
    alone: str


@dataclass(frozen=True)
class JoinKey:
    """Identifies a running join: of a query, by its name, or of a core; the number of the join, and its layer."""

    of: str | CoreKey
    join: int
    layer: int


@dataclass(frozen=True)
class Difference:
    """The step from a running plan to another one: queries are removed, then queries are added, in these orders.

    `woven`: families with a new division of their members. `ordered`: joins with new orders. Both change queries that
    run on. A caller that knows the changes states them here; otherwise `PhysicalPlan.difference` compares two plans.
    """

    going: tuple[str, ...] = ()
    coming: Mapping[str, Planned] = field(default_factory=dict)
    woven: Mapping[FamilyKey, FamilyPlan] = field(default_factory=dict)
    ordered: Mapping[JoinKey, Orders] = field(default_factory=dict)


@dataclass(frozen=True)
class PhysicalPlan:
    """The queries that run in one place, by name, in the order of their creation.

    `ordered`: the joins whose orders have changed since they began. They belong to the place where the joins run, so
    `difference` does not compare them.
    """

    queries: Mapping[str, Planned] = field(default_factory=dict)
    ordered: Mapping[JoinKey, Orders] = field(default_factory=dict)

    def difference(self, running: PhysicalPlan) -> Difference:
        """The step from a running plan to this one. Queries are removed newest first, so that readers go first."""
        made: tuple[ReferenceType[PhysicalPlan], Difference] | None = self.__dict__.get("made_from")
        if made is not None and made[0]() is running:
            return made[1]
        here, there = self.queries, running.queries
        going = tuple(name for name in reversed(list(there)) if here.get(name) != there[name])
        return Difference(going, {name: query for name, query in here.items() if name in going or name not in there})

    def changed(self, difference: Difference) -> PhysicalPlan:
        """The plan after a difference. It keeps the difference, because comparing plans of many queries is slow."""
        queries = dict(self.queries)
        for name in difference.going:
            queries.pop(name, None)
        queries.update(difference.coming)
        ordered = {**self.ordered, **difference.ordered}
        # The cores are carried over. Otherwise every new query would go through all queries to find them.
        cores = _cores_after(self, difference) if ordered or "cores" in self.__dict__ else None
        if ordered and cores is not None and difference.going:
            of = {key.of for key in ordered}
            there = {one for one in of if one in cores or (isinstance(one, str) and _outer(one) in queries)}
            ordered = {key: orders for key, orders in ordered.items() if key.of in there}
        plan = PhysicalPlan(queries, ordered)
        made: tuple[ReferenceType[PhysicalPlan], Difference] = ref(self), difference
        plan.__dict__["made_from"] = made
        if cores is not None:
            plan.__dict__["cores"] = cores
        return plan

    def node_of(self, name: str) -> PhysicalQuery:
        """The node of a query by its hosted name, which may be that of a query in parentheses."""
        outer, *path = name.split(HIDDEN)
        node = self.queries[outer].node
        for number in path:
            node = inner_queries(node)[int(number) - 1]
        return node

    @cached_property
    def families(self) -> Mapping[FamilyKey, tuple[str, ...]]:
        """The families, each with the names of its queries, including those in parentheses."""
        found: dict[FamilyKey, tuple[str, ...]] = {}
        for name, planned in self.queries.items():
            for own, node in hosted(name, planned.node):
                if isinstance(node, FamilyQuery):
                    key = family_key(own, node)
                    found[key] = (*found.get(key, ()), own)
        return found

    @cached_property
    def cores(self) -> Mapping[CoreKey, tuple[str, ...]]:
        """The cores, each with the names of its queries, including those in parentheses."""
        found: dict[CoreKey, tuple[str, ...]] = {}
        for name, planned in self.queries.items():
            _note_cores(found, name, planned.node)
        return found


def _note_cores(found: dict[CoreKey, tuple[str, ...]], name: str, node: PhysicalQuery) -> None:
    for own, part in hosted(name, node):
        key = core_key(own, part) if isinstance(part, DeltaQuery) else None
        if key is not None:
            found[key] = (*found.get(key, ()), own)


def _cores_after(before: PhysicalPlan, difference: Difference) -> dict[CoreKey, tuple[str, ...]]:
    found = dict(before.cores)
    for name in difference.going:
        gone: dict[CoreKey, tuple[str, ...]] = {}
        if name in before.queries:
            _note_cores(gone, name, before.queries[name].node)
        for key, names in gone.items():
            left = tuple(other for other in found.pop(key) if other not in names)
            found |= {key: left} if left else {}
    for name, planned in difference.coming.items():
        _note_cores(found, name, planned.node)
    return found


def inner_queries(node: PhysicalQuery) -> tuple[PhysicalQuery, ...]:
    """The queries in parentheses that a query reads, in the order in which they are hosted."""
    inner = node.inner if isinstance(node.inner, tuple) else (node.inner,)
    return tuple(part for part in inner if part is not None)


def with_inner(node: PhysicalQuery, inner: Sequence[PhysicalQuery]) -> PhysicalQuery:
    """The node with other nodes for its queries in parentheses, in the order of `inner_queries`."""
    if all(new is old for new, old in zip(inner, inner_queries(node), strict=True)):
        return node
    if isinstance(node, DeltaQuery):
        left = iter(inner)
        return replace(node, inner=tuple(None if old is None else next(left) for old in node.inner))
    return replace(node, inner=inner[0])


def hosted(name: str, node: PhysicalQuery) -> Iterator[tuple[str, PhysicalQuery]]:
    """A query and the queries in parentheses inside it, with their hosted names; inner queries come first."""
    for number, inner in enumerate(inner_queries(node), 1):
        yield from hosted(inner_name(name, number), inner)
    yield name, node


def shown_name(name: str) -> str:
    """The name of a query for people: the second query inside `q` is `q/2`."""
    return name.replace(HIDDEN, "/")


def _outer(name: str) -> str:
    """The outermost query around a query in parentheses; the query itself if it is not in parentheses."""
    return name.partition(HIDDEN)[0]


def inner_name(name: str, number: int) -> str:
    """The hosted name of a query in parentheses."""
    return f"{name}{HIDDEN}{number}"


def family_key(name: str, node: FamilyQuery) -> FamilyKey:
    """The key of the family of a query with this hosted name."""
    return FamilyKey(sources_of(name, [node.block.source])[0], node.shape)


def core_key(name: str, node: DeltaQuery) -> CoreKey | None:
    """The key of the core of a query with this hosted name; None if it has no core."""
    if node.core is None:
        return None
    return CoreKey(sources_of(name, [part.input for part in windowed_inputs(node.plan)]), node.core.meaning, node.alone)


def sources_of(name: str, inputs: list[Node]) -> tuple[str, ...]:
    """The names of a query's inputs: of channels, in lower case, and of queries in parentheses as they are hosted."""
    found, hidden = [], 0
    for part in inputs:
        hidden += not isinstance(part, Scan)
        found.append(part.name.lower() if isinstance(part, Scan) else inner_name(name, hidden))
    return tuple(found)
