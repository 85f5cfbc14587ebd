"""What runs, as values: a frozen node for every query, made by `optimize/node_of_plan.py` and executed by both hosts.

    FamilyQuery   an aggregate over a window that slides: a member of the family of its shape
    RowQuery      one windowed input whose rows come in event-time order: an operator of its own
    DeltaQuery    several inputs: operators over deltas, perhaps over a core that others have too

Queries whose nodes have equal *shapes*, over the same channels, share what the shape names. A node says how the rows of
its query may be spread over the buckets of a host that has several (`spread`): folded first, exchanged by keys, or
together in one. A query in parentheses is a node inside the one that reads it. Nothing here knows of a host, of rows,
or of what has been measured.

All that runs in one place is a `PhysicalPlan`: the nodes of its queries by name, from which follows which of them share
a family or a core. (A query that is answered once has a node of its own, `once.py`.) A host goes from one plan to the
next between two batches, by the `Difference` of the two. How the members of a family are divided is a value too, a
`FamilyPlan`: a family begins with one tree and goes to other plans between two batches, as its `Adapting` allows; so do
the orders of a join, where its `JoinPlan` says that it adapts.
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
HIDDEN = "\0"  # stands in names of queries inside queries, and in no name that a statement can give
Orders = tuple[tuple[int, ...], ...]


class Way(Enum):
    """How rows reach the operators of a query, where a host has several buckets."""

    FOLDED = "folded"  # partials are folded where the rows are read, and merged by group
    EXCHANGED = "exchanged"  # whole rows go to the bucket of their key
    TOGETHER = "together"  # all rows go to one bucket


@dataclass(frozen=True)
class Spread:
    """`keys`: what a FOLDED query is grouped by, in an order of its own, so that equal sets are equal. `exchanged_by`:
    by stream, expressions over its rows. `reason`: why all rows of several inputs have to be together."""

    way: Way
    keys: tuple[Expression, ...] = ()
    exchanged_by: Mapping[str, tuple[Expression, ...]] = field(default_factory=dict)
    reason: str = ""


@dataclass(frozen=True)
class Adapting:
    """What a family changes by itself, by what it measures where it runs. None of it moves an edge or changes a report.

    `weave`: its members are divided into trees anew. `fold_together`: where it pays, its rows are folded in one pass
    with those of other families of its channel. `sparse_above`: past so many groups, slices list those they have.
    """

    weave: bool = True
    fold_together: bool = True
    sparse_above: int = field(default_factory=lambda: SPARSE_ABOVE)


@dataclass(frozen=True)
class FamilyShape:
    """What all members of a family have in common besides their channel; `keys` in the order that they name them.

    `technique`: asked for by its queries. `alone`: the only query of a family, where queries share nothing.
    """

    counts_rows: bool
    where: Expression | None
    keys: tuple[Expression, ...]
    technique: str | None = None
    alone: str = ""
    adapting: Adapting = field(default_factory=Adapting)


class Operator(Enum):
    """The operators over rows of one input, by the names that EXPLAIN says."""

    CONTINUOUS_ROWS = "ContinuousRows"
    CONTINUOUS_AGGREGATE = "ContinuousAggregate"
    COLLECTIVE_LOOKUP = "CollectiveLookup"
    ROW_WINDOW = "RowWindow"
    COUNTED_ROW_WINDOW = "CountedRowWindow"
    PARTITIONED_ROWS = "PartitionedRows"
    RESTORED = "RestoredOperator"


@dataclass(frozen=True)
class Rewrite:
    """A rewrite that was made, with what the whole plan cost before and after, in row touches a second.

    `place`: the way from the top of the plan to the node, by the numbers of children. `variant`: which of the plans
    that the rule gives there.
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
    """An operator that joins: `join` is the number of its node in the plan, `layer` which part of that it joins.

    `orders`: by input, the places of the others in the order in which its new rows probe them. `adapting`: they are
    those to begin with, and others take their place where these turn out to be cheaper. Answers do not depend on them.
    """

    join: int
    layer: int
    names: tuple[str, ...]
    orders: Orders
    adapting: bool


class CoreOperator(Enum):
    """The operators of cores, by the names that EXPLAIN says."""

    JOIN = "SharedJoin"
    DISTINCT = "SharedDistinct"


@dataclass(frozen=True)
class FamilyQuery:
    """An aggregate over a window that slides.

    `slide_got`: of one whose slide is an upper bound, which one it has instead; the plan has it too. `with_past`: it
    begins with rows of before its time, which cannot be put below those that others hold, and shares with nobody.
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
    """A query over one input that shares with nobody. `silent`: it is only asked, and reports nothing."""

    plan: Emit
    block: Block
    inner: PhysicalQuery | None
    operator: Operator
    silent: bool
    spread: Spread


@dataclass(frozen=True)
class DeltaQuery:
    """A query over several inputs: its plan as rewritten, and the core that it may share. `inner`: by input.

    `core_operator`: what runs the core. `folds`: the core folds the query's aggregates with those of others. `joins`:
    the operators that join, the core among them. `with_past`: as of a `FamilyQuery`.
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
        """The join that is the core; None where the core is a DISTINCT, or there is none."""
        if self.core is None or self.core_operator is not CoreOperator.JOIN:
            return None
        nodes = [node for node, _ in joins_of(self.plan.input)]
        return next(join for join in self.joins if nodes[join.join] is self.core.node)


PhysicalQuery = FamilyQuery | RowQuery | DeltaQuery


@dataclass(frozen=True)
class Planned:
    """A query of a plan. `created` tells it from another one of its name that was dropped before."""

    node: PhysicalQuery
    created: int = 0


@dataclass(frozen=True)
class FamilyKey:
    """Queries share a family where they read the same and have the same shape."""

    source: str
    shape: FamilyShape


@dataclass(frozen=True)
class CoreKey:
    """Queries share a core where they read the same and mean the same by it. `alone`: the only one that has it."""

    sources: tuple[str, ...]
    meaning: tuple[object, ...]
    alone: str


@dataclass(frozen=True)
class JoinKey:
    """A join that runs: that of a query by its name, or of a core; which one of them, and which layer of it."""

    of: str | CoreKey
    join: int
    layer: int


@dataclass(frozen=True)
class Difference:
    """What leads from a running plan to another one: first queries go, then others come, each in this order.

    `woven`: families whose members are divided otherwise. `ordered`: joins whose rows probe in other orders. Both adapt
    what runs, and no query goes or comes for it. Who knows what has changed says it so; else two plans are compared.
    """

    going: tuple[str, ...] = ()
    coming: Mapping[str, Planned] = field(default_factory=dict)
    woven: Mapping[FamilyKey, FamilyPlan] = field(default_factory=dict)
    ordered: Mapping[JoinKey, Orders] = field(default_factory=dict)


@dataclass(frozen=True)
class PhysicalPlan:
    """The queries that run in one place, by name, in the order of their creation.

    `ordered`: the joins that go on in other orders than their nodes began with. That is of the place where they run:
    who compares plans compares queries.
    """

    queries: Mapping[str, Planned] = field(default_factory=dict)
    ordered: Mapping[JoinKey, Orders] = field(default_factory=dict)

    def difference(self, running: PhysicalPlan) -> Difference:
        """What leads here from a running plan. Queries go in the reverse order of their creation: readers first."""
        made: tuple[ReferenceType[PhysicalPlan], Difference] | None = self.__dict__.get("made_from")
        if made is not None and made[0]() is running:
            return made[1]
        here, there = self.queries, running.queries
        going = tuple(name for name in reversed(list(there)) if here.get(name) != there[name])
        return Difference(going, {name: query for name, query in here.items() if name in going or name not in there})

    def changed(self, difference: Difference) -> PhysicalPlan:
        """The plan that a difference leads to, which remembers what has led to it: comparing takes long for many."""
        queries = dict(self.queries)
        for name in difference.going:
            queries.pop(name, None)
        queries.update(difference.coming)
        ordered = {**self.ordered, **difference.ordered}
        # The cores go along, or every query that comes would look at all that there are.
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
        """The node of a query by the name that it is hosted under, of one in parentheses too."""
        outer, *path = name.split(HIDDEN)
        node = self.queries[outer].node
        for number in path:
            node = inner_queries(node)[int(number) - 1]
        return node

    @cached_property
    def families(self) -> Mapping[FamilyKey, tuple[str, ...]]:
        """The families, each with its queries, those in parentheses among them."""
        found: dict[FamilyKey, tuple[str, ...]] = {}
        for name, planned in self.queries.items():
            for own, node in hosted(name, planned.node):
                if isinstance(node, FamilyQuery):
                    key = family_key(own, node)
                    found[key] = (*found.get(key, ()), own)
        return found

    @cached_property
    def cores(self) -> Mapping[CoreKey, tuple[str, ...]]:
        """The same for cores."""
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
    """The same node over other nodes of its queries in parentheses, in the order of `inner_queries`."""
    if all(new is old for new, old in zip(inner, inner_queries(node), strict=True)):
        return node
    if isinstance(node, DeltaQuery):
        left = iter(inner)
        return replace(node, inner=tuple(None if old is None else next(left) for old in node.inner))
    return replace(node, inner=inner[0])


def hosted(name: str, node: PhysicalQuery) -> Iterator[tuple[str, PhysicalQuery]]:
    """A query and those in parentheses inside it, by the names under which they are hosted; inner ones first."""
    for number, inner in enumerate(inner_queries(node), 1):
        yield from hosted(inner_name(name, number), inner)
    yield name, node


def shown_name(name: str) -> str:
    """The name of a query for people: that of the second query inside `q` is `q/2`."""
    return name.replace(HIDDEN, "/")


def _outer(name: str) -> str:
    """The query that one in parentheses is inside of; itself, where it is in none."""
    return name.partition(HIDDEN)[0]


def inner_name(name: str, number: int) -> str:
    """What a query in parentheses is hosted as."""
    return f"{name}{HIDDEN}{number}"


def family_key(name: str, node: FamilyQuery) -> FamilyKey:
    """What a query that is hosted under this name shares a family by."""
    return FamilyKey(sources_of(name, [node.block.source])[0], node.shape)


def core_key(name: str, node: DeltaQuery) -> CoreKey | None:
    """What a query shares a core by; None where it has none."""
    if node.core is None:
        return None
    return CoreKey(sources_of(name, [part.input for part in windowed_inputs(node.plan)]), node.core.meaning, node.alone)


def sources_of(name: str, inputs: list[Node]) -> tuple[str, ...]:
    found, hidden = [], 0
    for part in inputs:
        hidden += not isinstance(part, Scan)
        found.append(part.name.lower() if isinstance(part, Scan) else inner_name(name, hidden))
    return tuple(found)
