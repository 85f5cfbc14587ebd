"""Chooses where queries run on a host with several buckets, one query after the other, from their nodes.

    FOLDED      one placement for all queries of a stream that group by the same expressions, in any order
    EXCHANGED   one placement for all queries that read the same streams by the same keys
    TOGETHER    a single bucket; the same streams may have several such buckets, so that CPU cores share the work

A query that needs a single bucket gets that of a query that it reads. If there is none, it gets that of a query that
has the same core or family, which is then computed once. Otherwise a hash of its name chooses. The placement of a query
never changes while it lives.

Cost: a walk over the plan. The first search for a query with the same core or family goes over all running queries.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from typing import Protocol

from panewise.plan.nodes import Emit, Scan
from panewise.plan.physical_plan import DeltaQuery, FamilyQuery, PhysicalQuery, RowQuery, Way
from panewise.plan.placement import Placement


class Placed(Protocol):
    """A query that runs."""

    @property
    def plan(self) -> Emit: ...

    @property
    def node(self) -> PhysicalQuery: ...

    @property
    def placement(self) -> Placement: ...


class Placing:
    """Chooses placements. `streams`: the host's identifiers of streams, by lower-case name. `running`: the running
    queries, by lower-case name. Both may change; each choice uses their current contents."""

    def __init__(self, buckets: int, streams: Mapping[str, str], running: Mapping[str, Placed]) -> None:
        self._buckets = buckets
        self._streams = streams
        self._running = running
        self._sharers: dict[object, str] | None = None  # for each core or family, one of the queries that have it

    def placement(self, name: str, plan: Emit, node: PhysicalQuery, by_name: bool = False) -> Placement:
        """The placement of a query. `by_name`: ignore equal cores and families, as earlier versions did."""
        streams, spread = self._streams_of(plan), node.spread
        if spread.way is Way.FOLDED:
            return Placement(Way.FOLDED, streams[:1], self._buckets if spread.keys else 1, keys=spread.keys)
        beside = self._beside_source(plan, streams)
        if beside is not None:
            return beside
        if spread.way is Way.EXCHANGED:
            names = {key: stream for stream, key in self._streams.items()}
            by = tuple(spread.exchanged_by[names[key]] for key in streams)
            return Placement(Way.EXCHANGED, streams, self._buckets, exchanged_by=by)
        beside = None if by_name else self._beside_sharer(name, node, streams)
        if beside is not None:
            return beside
        return Placement(Way.TOGETHER, streams, 1, shard=zlib.crc32(name.encode()) % self._buckets)

    def _streams_of(self, plan: Emit) -> tuple[str, ...]:
        """The streams that a query reads, directly or through other queries, each once."""
        found: set[str] = set()
        for node in plan.walk():
            if isinstance(node, Scan) and node.kind != "table":
                source = self._running.get(node.name.lower())
                found.update([self._streams[node.name.lower()]] if source is None else self._streams_of(source.plan))
        return tuple(sorted(found))

    def _beside_source(self, plan: Emit, streams: tuple[str, ...]) -> Placement | None:
        """The placement of a query that this one reads, if it is a single bucket that has all rows it needs."""
        for node in plan.walk():
            source = self._running.get(node.name.lower()) if isinstance(node, Scan) else None
            if source is not None and _gets_all_rows_of(source.placement, streams):
                return source.placement
        return None

    def _beside_sharer(self, name: str, node: PhysicalQuery, streams: tuple[str, ...]) -> Placement | None:
        """The placement of a running query with a core or family of this one, if its bucket has all rows."""
        if self._sharers is None:
            self._sharers = {}
            for other, query in self._running.items():
                self._note_sharer(other, query.node)
        found = (self._running_sharer(common) for common in shareable_parts(node))
        placements = (query.placement for query in found if query is not None)
        placement = next((placement for placement in placements if _gets_all_rows_of(placement, streams)), None)
        self._note_sharer(name, node)
        return placement

    def _running_sharer(self, common: object) -> Placed | None:
        """A running query that has this core or family."""
        assert self._sharers is not None
        if common not in self._sharers:
            return None
        known = self._running.get(self._sharers[common])
        if known is not None and common in shareable_parts(known.node):
            return known
        del self._sharers[common]  # that query is gone; another one may have it
        return next((query for query in self._running.values() if common in shareable_parts(query.node)), None)

    def _note_sharer(self, name: str, node: PhysicalQuery) -> None:
        assert self._sharers is not None
        for common in shareable_parts(node):
            self._sharers.setdefault(common, name)


def _gets_all_rows_of(placement: Placement, streams: tuple[str, ...]) -> bool:
    """Whether the placement is a single bucket that gets all rows of these streams."""
    return placement.way is Way.TOGETHER and set(streams) <= set(placement.streams)


def shareable_parts(node: PhysicalQuery) -> tuple[object, ...]:
    """The cores and families that a query in a single bucket may share, including those of its queries in parentheses.

    A core or family that reads a query in parentheses is not shared.
    """
    return tuple(_parts(node)) if node.spread.way is Way.TOGETHER else ()


def _parts(node: PhysicalQuery) -> Iterator[object]:
    match node:
        case FamilyQuery(inner=None, block=block, shape=shape):
            assert isinstance(block.source, Scan)
            yield block.source.name.lower(), shape
        case DeltaQuery(core=core, alone=alone, inner=inner):
            sources = [] if core is None else [part.input for part in core.inputs]
            names = tuple(source.name.lower() for source in sources if isinstance(source, Scan))
            if core is not None and len(names) == len(sources):
                yield names, core.meaning, alone
            for below in inner:
                if below is not None:
                    yield from _parts(below)
        case FamilyQuery(inner=below) | RowQuery(inner=below) if below is not None:
            yield from _parts(below)
