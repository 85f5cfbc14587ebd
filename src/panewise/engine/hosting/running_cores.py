"""The cores that run, a join or a DISTINCT each, by what their queries have in common.

Invariant: a key has one core at most, and new queries join that one. A query that begins with archived rows gets a core
of its own if there is one already. A core that has failed is replaced when the next query of its key comes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from panewise.engine.archives.archive_history import PlanHistory
from panewise.engine.channels.channel import Channel
from panewise.engine.channels.hosted_query import HostedQuery
from panewise.engine.consumers.adapting import Change
from panewise.engine.consumers.shared_plan import SharedPlan, SharingConsumer
from panewise.operators.joins.ordered_join import OrderedJoin
from panewise.optimize.node_of_plan import alone_with_past
from panewise.plan.physical_plan import CoreKey, DeltaQuery, core_key


class RunningCores:
    """The cores of one registry."""

    def __init__(self, change: Change) -> None:
        """`change`: applies a difference to the plan of the host."""
        self._change = change
        self._cores: dict[CoreKey, SharedPlan] = {}

    def __iter__(self) -> Iterator[CoreKey]:
        return iter(self._cores)

    def joins(self, key: CoreKey) -> Mapping[tuple[int, int], OrderedJoin]:
        """The joins of a core whose orders may change, by number and layer."""
        return self._cores[key].core.adapting

    def first_member(self, key: CoreKey) -> str | None:
        """The query that has been with a core for longest; None where all have failed."""
        return next(iter(self._cores[key].members), None)

    def leave(self, name: str) -> None:
        """A query leaves whatever core it has."""
        for shared in [shared for shared in self._cores.values() if name in shared.members]:
            shared.remove(shared.members[name])

    def drop_unused(self) -> None:
        """Cores without queries go; the last query that left one has detached it."""
        self._cores = {key: shared for key, shared in self._cores.items() if shared.members}

    def consumer_of(
        self, query: HostedQuery, node: DeltaQuery, channels: list[Channel], history: PlanHistory | None
    ) -> SharingConsumer:
        """The consumer of a query over the core of its key; it joins the core when it is attached."""
        key = core_key(query.name, node)
        if key in self._cores and history is not None:
            node = alone_with_past(node, query.name)  # rows of the past cannot be put below those of others
            key = core_key(query.name, node)
        assert key is not None
        if key not in self._cores or self._cores[key].torn:
            self._cores[key] = SharedPlan(key, node, channels, self._change)
        return SharingConsumer(query, node, channels, self._cores[key], history)
