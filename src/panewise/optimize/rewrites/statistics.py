"""What is known, or assumed, of the streams that a plan reads.

Where nothing was measured: `RATE` rows a second of every stream, `DISTINCT` values of every column, of the keys that
NOT EXISTS asks for `MATCHED` among those that the right side can have, and customary shares of rows for each kind of
predicate. So a plan without measurements is judged by its windows and its shape alone, always in the same way. What was
decided by measurements is written down (`plan/decided.py`), and a restored query runs the same plan.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from panewise.language.expressions import Expression

RATE = 1_000.0  # rows a second
DISTINCT = 1_000.0  # values of a column
MATCHED = 0.5  # of the keys on the left of a negation, those that the right has
TABLE_ROWS = 1_000.0
COMPARED = 1 / 3  # of the rows that pass <, <=, BETWEEN
OTHERWISE = 1 / 2  # of the rows that pass any other predicate
ENDLESS = 86_400.0  # seconds that a row stays in a window without an end

PASSED = 0.05  # touches: a row that is tested or handed on, column by column
PROBED = 0.1  # touches: a row that a probe looks at, and a result of a join


@dataclass(frozen=True)
class Statistics:
    """Measurements, by the names of streams, tables and columns as they were declared; what is missing is assumed.

    `selectivities` are by predicate as it stands in the plan.

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
        """Values that the column can have."""
        return max(1.0, self.distinct_counts.get((source, column), DISTINCT))

    def measured(self, source: str, column: str) -> bool:
        return (source, column) in self.distinct_counts

    def rows(self, table: str) -> float:
        return self.table_rows.get(table, TABLE_ROWS)
