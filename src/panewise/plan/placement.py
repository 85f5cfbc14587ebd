"""Where a query runs on a host with several buckets: a value that `optimize/placing.py` makes from its node.

Queries with equal placements run in one fragment of the host: their rows are read, exchanged and kept once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from panewise.language.expressions import Expression
from panewise.plan.physical_plan import Way


@dataclass(frozen=True)
class Placement:
    """How rows reach the queries of a fragment, and over how many buckets they are spread.

    `streams`: the streams of the rows, by the names that the host uses. `keys` (FOLDED): the keys that partials are
    spread by, in the same order for all queries. `exchanged_by` (EXCHANGED): for each stream, the expressions whose
    values say to which bucket a row goes. `shard` (TOGETHER): the number of the one bucket that gets all rows.
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
        """Whether both spread rows in the same way; the shard may differ."""
        return self.in_shard(0) == other.in_shard(0)
