"""Estimates of the rows of an edge of a plan: how many come and end a second, and how many are alive.

Assumptions: values are uniform, columns are independent, and of two value sets the smaller is contained in the larger
(Golab and Özsu 2003, section 4.2). Of v values, n rows are expected to have v * (1 - exp(-n / v)).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from math import exp

from panewise.language.expressions import Call, ColumnRef, Expression, Literal
from panewise.optimize.rewrites.statistics import COMPARED, DISTINCT, OTHERWISE, Statistics

_COMPARISONS = {"lt", "le", "gt", "ge", "between"}


@dataclass(frozen=True)
class Values:
    """The number of values that a column can have, and whether it was measured."""

    count: float
    measured: bool = False


@dataclass(frozen=True)
class EdgeEstimate:
    """The rows of an edge. `births`: rows that come, per second. `ends`: rows that end before their death, per second.

    `alive`: rows at an instant. `columns` are named `alias.name` if several inputs are joined, otherwise `name`.
    """

    births: float
    alive: float
    ends: float = 0.0
    columns: Mapping[str, Values] = field(default_factory=dict)

    def column(self, column: ColumnRef) -> Values:
        qualified = f"{column.source}.{column.name}"
        found = self.columns.get(qualified) or self.columns.get(column.name)
        return found if found is not None else Values(DISTINCT)

    def values(self, expressions: Iterable[Expression]) -> Values:
        """The values of several expressions together, as if each expression were one-to-one in its columns."""
        count, measured = 1.0, True
        for column in dict.fromkeys(c for expression in expressions for c in expression.columns()):
            known = self.column(column)
            count, measured = count * known.count, measured and known.measured
        return Values(count, measured)

    def scaled(self, share: float) -> EdgeEstimate:
        """The estimate for a share of the rows."""
        return replace(self, births=self.births * share, alive=self.alive * share, ends=self.ends * share)

    def selected(self, predicates: Iterable[Expression], statistics: Statistics) -> EdgeEstimate:
        """The estimate for the rows that pass all predicates. A predicate on one column reduces its values too."""
        edge = self
        for predicate in predicates:
            share = edge.selectivity(predicate, statistics)
            columns = predicate.columns()
            kept = dict(edge.columns)
            if len(columns) == 1:
                names = [name for name in (f"{columns[0].source}.{columns[0].name}", columns[0].name) if name in kept]
                for name in names[:1]:
                    kept[name] = replace(kept[name], count=max(1.0, kept[name].count * share))
            edge = replace(edge.scaled(share), columns=kept)
        return edge

    def selectivity(self, predicate: Expression, statistics: Statistics) -> float:
        """The share of rows that pass the predicate."""
        known = statistics.selectivities.get(predicate)
        if known is not None:
            return known
        if isinstance(predicate, Literal):
            return 1.0 if predicate.value is True else 0.0
        if not isinstance(predicate, Call):
            return OTHERWISE
        parts = predicate.arguments
        match predicate.function:
            case "and":
                share = 1.0
                for part in parts:
                    share *= self.selectivity(part, statistics)
                return share
            case "or":
                share = 1.0
                for part in parts:
                    share *= 1 - self.selectivity(part, statistics)
                return 1 - share
            case "not":
                return 1 - self.selectivity(parts[0], statistics)
            case "eq" | "in":
                of_first = max(self.values([part]).count for part in parts)
                return min(1.0, max(1, len(parts) - 1) / of_first)
            case "ne":
                return 1 - 1 / max(2.0, *(self.values([part]).count for part in parts))
            case function if function in _COMPARISONS:
                return COMPARED
        return OTHERWISE


def present(values: float, rows: float) -> float:
    """The expected number of distinct values among `rows` rows, if there are `values` values.

    >>> round(present(100, 1000)), round(present(1_000_000, 10))
    (100, 10)
    """
    if values <= 0 or rows <= 0:
        return 0.0
    share = rows / values
    return rows * (1 - share / 2) if share < 1e-6 else values * (1 - exp(-share))
