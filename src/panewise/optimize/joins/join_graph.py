"""The inputs and predicates of a multi-way window join, and size estimates for any set of its inputs.

Estimates use the papers' assumptions: values are uniform, and of two value sets the smaller is contained in the larger
(Golab 2006, section 5.3; Golab and Özsu 2003, section 4.2). Then the size of a join depends on the set of its inputs
and not on their order. For an attribute with v_1, ..., v_k distinct values in k inputs, a combination of rows matches
with probability

    min(v) / (v_1 * ... * v_k)        that is 1 / max(v_i, v_j) for two, as in the papers

and the selectivities of independent predicates multiply. A pair of inputs without a predicate has selectivity 1. An
exact search over orders (`exact.py`) is cheap because sizes belong to sets.

A set of inputs is a bit mask. Cost: O(inputs + edges) for the first question about a mask, O(1) for later ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace


@dataclass(frozen=True)
class JoinInput:
    """A window of a join. `rate`: rows per unit of time. `distinct`: the number of values of its join attribute.

    `rows_in_window`: rate * length for a window by time, the number of rows for a window by count. `buckets`: the size
    of its hash table, of which a probe by a hashed predicate looks at one bucket. None means an index by value, of
    which a probe looks only at rows with an equal value.
    """

    rate: float
    rows_in_window: float
    distinct: float = 1.0
    buckets: float | None = None

    def __post_init__(self) -> None:
        assert self.rate >= 0 and self.rows_in_window >= 0 and self.distinct >= 0, self
        assert self.buckets is None or self.buckets >= 1, self


@dataclass(frozen=True)
class JoinEdge:
    """A predicate between two inputs, given by their numbers.

    With a `selectivity` it is any predicate. It is independent of all others and costs `expense` comparisons. Without
    one it is an equality: connected edges with the same `attribute` make all of their inputs equal in it. Numbers of
    distinct values are those of the inputs unless given here; they differ if an input is joined on several attributes.
    `hashed`: both sides have an index on the attribute.
    """

    left: int
    right: int
    selectivity: float | None = None
    hashed: bool = False
    attribute: str = ""
    left_distinct: float | None = None
    right_distinct: float | None = None
    expense: float = 1.0

    def __post_init__(self) -> None:
        assert self.left != self.right and min(self.left, self.right) >= 0, self
        assert self.selectivity is None or 0 <= self.selectivity <= 1, self
        assert self.selectivity is None or not self.hashed, "only an equality can be hashed"


def common_attribute(count: int, hashed: bool = False) -> tuple[JoinEdge, ...]:
    """The edges of a join of all inputs on one attribute."""
    return tuple(JoinEdge(place - 1, place, hashed=hashed) for place in range(1, count))


@dataclass
class _SharedAttribute:
    """An attribute in which several inputs are equal: distinct values for each input, and the inputs with an index."""

    distinct: dict[int, float] = field(default_factory=dict)
    hashed: set[int] = field(default_factory=set)

    def least(self, mask: int) -> float | None:
        """The number of values that the inputs of a mask have in common; None if no input has the attribute."""
        return min((v for place, v in self.distinct.items() if mask >> place & 1), default=None)

    def absorb(self, other: _SharedAttribute) -> None:
        for place, values in other.distinct.items():
            self.distinct[place] = min(values, self.distinct.get(place, values))
        self.hashed |= other.hashed


class JoinGraph:
    """Inputs and predicates, compiled. `lookup`: the cost of starting a probe, in comparisons; 0 in the papers.

    >>> graph = JoinGraph([JoinInput(10, 1000, 500), JoinInput(1, 100, 50)], common_attribute(2))
    >>> graph.joined_rows(0b11)  # phi_12 of table 5.4
    200.0
    """

    def __init__(self, inputs: Sequence[JoinInput], edges: Sequence[JoinEdge], lookup: float = 0.0) -> None:
        assert all(max(edge.left, edge.right) < len(inputs) for edge in edges), (
            "an edge names an input that is not there"
        )
        self.inputs = tuple(inputs)
        self.edges = tuple(edges)
        self.lookup = lookup
        self._attributes = _shared_attributes(self.inputs, [edge for edge in edges if edge.selectivity is None])
        self._predicates = [
            (1 << edge.left, 1 << edge.right, edge.selectivity, edge.expense)
            for edge in sorted(edges, key=lambda edge: edge.expense)
            if edge.selectivity is not None
        ]
        self._neighbours = [0] * len(inputs)
        for edge in edges:
            self._neighbours[edge.left] |= 1 << edge.right
            self._neighbours[edge.right] |= 1 << edge.left
        for attribute in self._attributes:
            together = sum(1 << place for place in attribute.distinct)
            for place in attribute.distinct:
                self._neighbours[place] |= together & ~(1 << place)
        self._selectivities: dict[int, float] = {}
        self._products: dict[int, float] = {0: 1.0}
        self._shares: dict[tuple[int, int], tuple[float, float]] = {}

    def __len__(self) -> int:
        return len(self.inputs)

    def with_longer_windows(self, units: float) -> JoinGraph:
        """The join with windows that are longer by `units` of time, as they are between two lazy expirations."""
        if not units:
            return self
        longer = [replace(one, rows_in_window=one.rows_in_window + one.rate * units) for one in self.inputs]
        return JoinGraph(longer, self.edges, self.lookup)

    # -- sizes -------------------------------------------------------------------------------------------------------

    def selectivity(self, mask: int) -> float:
        """The share of all combinations of rows of these inputs that satisfies all predicates among them."""
        known = self._selectivities.get(mask)
        if known is not None:
            return known
        found = 1.0
        for attribute in self._attributes:
            least = attribute.least(mask)
            if least is not None:
                found *= least
                for place, values in attribute.distinct.items():
                    if mask >> place & 1:
                        found /= values
        for left, right, selectivity, _ in self._predicates:
            if mask & left and mask & right:
                found *= selectivity or 0.0
        self._selectivities[mask] = found
        return found

    def window_product(self, mask: int) -> float:
        """The number of combinations of rows of these windows."""
        known = self._products.get(mask)
        if known is None:
            lowest = mask & -mask
            known = self.inputs[lowest.bit_length() - 1].rows_in_window * self.window_product(mask ^ lowest)
            self._products[mask] = known
        return known

    def joined_rows(self, mask: int) -> float:
        """The size of the join of these windows: phi in Golab 2006, section 5.3.1."""
        return self.window_product(mask) * self.selectivity(mask)

    def joined_with_new_rows(self, mask: int, origin: int, new_rows: float = 1.0) -> float:
        """The size of the join of these windows, with `new_rows` rows in place of the window of their origin."""
        return new_rows * self.window_product(mask & ~(1 << origin)) * self.selectivity(mask)

    # -- probes ------------------------------------------------------------------------------------------------------

    def connected(self, mask: int, place: int) -> bool:
        """Whether a predicate links the input at `place` with one of these inputs."""
        return bool(self._neighbours[place] & mask)

    def probe(self, bound: int, place: int, rows: float | None = None) -> float:
        """The comparisons of one combination of rows of the bound inputs with a window, or with `rows` of its rows."""
        looked_at, comparisons = self._probe_shares(bound, place)
        rows = self.inputs[place].rows_in_window if rows is None else rows
        return self.lookup + rows * looked_at * comparisons

    def _probe_shares(self, bound: int, place: int) -> tuple[float, float]:
        """The share of a window that a probe looks at, and the comparisons for each of those rows.

        A row is compared until a predicate fails: equalities first, then the others, cheap ones before expensive ones.
        A row without any predicate still counts as one comparison.
        """
        known = self._shares.get((bound, place))
        if known is not None:
            return known
        buckets, looked_at, passing, comparisons = self.inputs[place].buckets, 1.0, 1.0, 0.0
        for attribute in self._attributes:
            values, least = attribute.distinct.get(place), attribute.least(bound)
            if values is None or least is None:
                continue
            if place in attribute.hashed:
                looked_at = min(looked_at, 1 / buckets if buckets is not None else 1 / max(least, values))
            comparisons += passing
            passing /= max(least, values)
        for left, right, selectivity, expense in self._predicates:
            if (left | right) & (1 << place) and (left | right) & bound:
                comparisons += passing * expense
                passing *= selectivity or 0.0
        self._shares[bound, place] = looked_at, comparisons or 1.0
        return self._shares[bound, place]


def _shared_attributes(inputs: Sequence[JoinInput], equalities: Sequence[JoinEdge]) -> list[_SharedAttribute]:
    """One shared attribute for every set of inputs that equalities with the same attribute name connect."""
    found: list[tuple[str, _SharedAttribute]] = []
    for edge in equalities:
        merged = _SharedAttribute()
        for place, values in ((edge.left, edge.left_distinct), (edge.right, edge.right_distinct)):
            # An empty window has no values. At least 1 avoids a division by zero.
            merged.distinct[place] = max(inputs[place].distinct if values is None else values, 1.0)
            if edge.hashed:
                merged.hashed.add(place)
        apart = []
        for name, attribute in found:
            if name == edge.attribute and attribute.distinct.keys() & merged.distinct.keys():
                merged.absorb(attribute)
            else:
                apart.append((name, attribute))
        found = [*apart, (edge.attribute, merged)]
    return [attribute for _, attribute in found]
