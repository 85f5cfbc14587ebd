"""Measurements of the streams that a plan reads, and the assumptions in place of those that are missing.

Assumptions: every stream has `RATE` rows a second, every column `DISTINCT` values, `MATCHED` of the keys that NOT
EXISTS looks up can occur on its right side, and each kind of predicate has a customary selectivity. So the cost of a
plan without measurements depends only on its windows and its shape. Decisions by measurements are stored
(`plan/decided.py`), and a restored query runs the same plan.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from panewise.language.expressions import Expression

RATE = 1_000.0  # rows a second
DISTINCT = 1_000.0  # values of a column
MATCHED = 0.5  # share of the keys on the left of a negation that the right can have
TABLE_ROWS = 1_000.0
COMPARED = 1 / 3  # share of the rows that pass <, <=, BETWEEN
OTHERWISE = 1 / 2  # share of the rows that pass any other predicate
ENDLESS = 86_400.0  # seconds for which a row counts as alive in a window without an end

PASSED = 0.05  # touches for a row that is tested or handed on, column by column
PROBED = 0.1  # touches for a row that a probe looks at, and for a result of a join


@dataclass(frozen=True)
class Statistics:
    """Measurements, by the declared names of streams, tables and columns. What is missing is assumed.

    `selectivities` are by predicate, in the form that it has in the plan.

    >>> Statistics(rates={"clicks": 5.0}).rate("clicks"), Statistics().rate("clicks")
    (5.0, 1000.0)
    """

    rates: Mapping[str, float] = field(default_factory=dict)
    distinct_counts: Mapping[tuple[str, str], float] = field(default_factory=dict)
    selectivities: Mapping[Expression, float] = field(default_factory=dict)
    table_rows: Mapping[str, float] = field(default_factory=dict)

    def rate(self, stream: str) -> float:
        """Rows a second."""
        return self.rates.get(stream, RATE)

    def distinct(self, source: str, column: str) -> float:
        """The number of values that the column can have."""
        return max(1.0, self.distinct_counts.get((source, column), DISTINCT))

    def measured(self, source: str, column: str) -> bool:
        return (source, column) in self.distinct_counts

    def rows(self, table: str) -> float:
        return self.table_rows.get(table, TABLE_ROWS)
