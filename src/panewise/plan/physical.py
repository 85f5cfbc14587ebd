"""What runs, as values: a frozen node for every query, made by `optimize/physical.py` and executed by both hosts.

    FamilyQuery   an aggregate over a window that slides: a member of the family of its shape
    RowQuery      one windowed input whose rows come in event-time order: an operator of its own
    DeltaQuery    several inputs: operators over deltas, perhaps over a core that others have too
    OnceQuery     a query that is answered once, over what is held

Queries whose nodes have equal *shapes*, over the same channels, share what the shape names. A node says how the rows of
its query may be spread over the buckets of a host that has several (`spread`): folded first, exchanged by keys, or
together in one. A query in parentheses is a node inside the one that reads it. Nothing here knows of a host, of rows,
or of what has been measured.

All that runs in one place is a `PhysicalPlan`: the nodes of its queries by name. A host goes from one plan to the next
between two batches, by the `Difference` of the two. How the members of a family are divided is a value too, a
`FamilyPlan`: a family begins with one tree and goes to other plans between two batches, as its `Adapting` allows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum

from panewise.language.expressions import Expression
from panewise.plan.aggregation import Aggregation, StateKey
from panewise.plan.blocks import Block
from panewise.plan.nodes import Emit
from panewise.plan.shared_core import SharedCore
from panewise.slicing.pairs import Cadence

SHARING = ("weave", "full", "none")  # how much is shared: trees by cost, one tree for all, nothing
SPARSE_ABOVE = 4096  # groups


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
    """A rewrite that was made, with what the whole plan cost before and after, in row touches a second."""

    name: str
    cost_before: float
    cost_after: float

    def __str__(self) -> str:
        return f"{self.name} ({self.cost_before:,.0f} -> {self.cost_after:,.0f})"


@dataclass(frozen=True)
class FamilyQuery:
    """An aggregate over a window that slides."""

    plan: Emit
    block: Block
    inner: PhysicalQuery | None
    shape: FamilyShape
    spread: Spread


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
    """A query over several inputs: its plan as rewritten, and the core that it may share. `inner`: by input."""

    plan: Emit
    block: Block
    inner: tuple[PhysicalQuery | None, ...]
    core: SharedCore | None
    rewrites: tuple[Rewrite, ...]
    alone: str
    spread: Spread


PhysicalQuery = FamilyQuery | RowQuery | DeltaQuery


class Once(Enum):
    """What a one-time query is answered from.

    WINDOW: the slices of a family that hold its last report, else the rows of its window, in steps where they are many.
    WHOLE: all rows that its inputs hold, at once.
    """

    ARCHIVE = "archive"
    ANSWER = "answer of a query"
    WINDOW = "window"
    WHOLE = "whole"


@dataclass(frozen=True)
class OnceQuery:
    """A query that is answered once. `block` is None where it has several inputs."""

    plan: Emit
    block: Block | None
    way: Once


@dataclass(frozen=True)
class MemberPlan:
    """A member of a family, for one query or for several that are alike.

    `can_move`: slices of other trees than the first may answer it.
    """

    name: str
    aggregation: Aggregation
    cadence: Cadence
    can_move: bool


@dataclass(frozen=True)
class TreePlan:
    """Members that share slices, and by which technique each state is kept; a state that is not here, by its default.

    `edges`: where slices are cut, as residue classes (slide, phase).
    """

    members: tuple[MemberPlan, ...]
    techniques: Mapping[StateKey, str]
    edges: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class FamilyPlan:
    """A family as it is divided: the first tree has the family's own slices, cut at the edges of all trees."""

    trees: tuple[TreePlan, ...]

    @property
    def members(self) -> Iterator[MemberPlan]:
        return (member for tree in self.trees for member in tree.members)

    @property
    def movable(self) -> list[MemberPlan]:
        """The members that other slices than the family's own may answer."""
        return [member for member in self.members if member.can_move]


@dataclass(frozen=True)
class Planned:
    """A query of a plan. `created` tells it from another one of its name that was dropped before."""

    node: PhysicalQuery
    created: int = 0


@dataclass(frozen=True)
class Difference:
    """What leads from a running plan to another one: first queries go, then others come, each in this order.

    Who knows what has changed says it so; else two plans are compared.
    """

    going: tuple[str, ...] = ()
    coming: Mapping[str, Planned] = field(default_factory=dict)


@dataclass(frozen=True)
class PhysicalPlan:
    """The queries that run in one place, by name, in the order of their creation."""

    queries: Mapping[str, Planned] = field(default_factory=dict)

    def difference(self, running: PhysicalPlan) -> Difference:
        """What leads here from a running plan. Queries go in the reverse order of their creation: readers first."""
        here, there = self.queries, running.queries
        going = tuple(name for name in reversed(list(there)) if here.get(name) != there[name])
        return Difference(going, {name: query for name, query in here.items() if name in going or name not in there})
