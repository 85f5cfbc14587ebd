"""Where a query runs on a host with several buckets: a value, made of its node by `optimize/placing.py`.

Queries of equal placements run together, in one fragment of the host: their rows are read, exchanged and kept once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from panewise.language.expressions import Expression
from panewise.plan.physical_plan import Way


@dataclass(frozen=True)
class Placement:
    """How rows reach the queries that are placed here, and over how many buckets they are spread.

    `streams`: whose rows they are, by what the host knows streams by. `keys`: what partials are spread by, where rows
    are FOLDED, in one order for all queries. `exchanged_by`: for each of the streams what says to which bucket a row
    goes, where whole rows are EXCHANGED. `shard`: which of the single buckets it is, where all rows are TOGETHER.
    """

    way: Way
    streams: tuple[str, ...]
    buckets: int
    keys: tuple[Expression, ...] = ()
    exchanged_by: tuple[tuple[Expression, ...], ...] = ()
    shard: int = 0

    def in_shard(self, shard: int) -> Placement:
        return replace(self, shard=shard)

    def spreads_as(self, other: Placement) -> bool:
        """Whether rows are spread alike; which of the single buckets it is does not matter."""
        return self.in_shard(0) == other.in_shard(0)
