"""The families that run, by what their queries have in common, and how a new query joins one.

Invariant: a key has one family at most, and new queries join that one. A query that begins with archived rows gets a
family under a key of its own, because rows of the past cannot be put below the slices that a family has already. A
family that has failed is replaced when the next query of its key comes.
"""

from __future__ import annotations

from collections.abc import Set

from panewise.arrays import INT64_MIN
from panewise.engine.archives.archive_history import ArchivedHistory
from panewise.engine.channels.channel import Channel
from panewise.engine.channels.hosted_query import HostedQuery
from panewise.engine.channels.window_ends import cadence_of
from panewise.engine.consumers.adapting import Change
from panewise.engine.consumers.family_consumer import FamilyConsumer
from panewise.engine.consumers.family_folding import FoldedFamilies
from panewise.engine.consumers.query_consumer import QueryConsumer
from panewise.engine.consumers.report_diff import CountedFinish, TimedFinish
from panewise.engine.hosting.block_operators import items_of
from panewise.engine.hosting.history_reader import HistoryReader
from panewise.language.statements import Emission
from panewise.operators.deltas.series_start import surely_shown
from panewise.operators.relation_to_stream import RelationToStream
from panewise.optimize.node_of_plan import alone_with_past
from panewise.plan.aggregation import Aggregation, aggregation_of
from panewise.plan.blocks import Block
from panewise.plan.family_plan import FamilyPlan
from panewise.plan.physical_plan import FamilyKey, FamilyQuery, family_key
from panewise.temporal import RowsWindow, TimeWindow, Window


class RunningFamilies:
    """The families of one registry."""

    def __init__(self, history: HistoryReader, change: Change) -> None:
        """`change`: applies a difference to the plan of the host."""
        self._history = history
        self._change = change
        self._families: dict[FamilyKey, FamilyConsumer] = {}

    @property
    def sound(self) -> list[FamilyConsumer]:
        """Those that have not failed."""
        return [family for family in self._families.values() if not family.torn]

    def find(self, consumer: QueryConsumer | None) -> FamilyConsumer | None:
        """This consumer, if it is a family; None otherwise."""
        return next((family for family in self._families.values() if family is consumer), None)

    def weave(self, key: FamilyKey, woven: FamilyPlan) -> None:
        """Divides the members of a family into other trees."""
        self._families[key].family.become(woven)

    def leave(self, name: str) -> None:
        """A query leaves whatever family it is in."""
        for family in list(self._families.values()):
            family.leave(name)

    def drop_unused(self, feeding: Set[int]) -> None:
        """Detaches families without queries. `feeding`: the ids of consumers that queries still have.

        A query that has failed keeps its place in its family, which is not replaced as long as that query is there.
        """
        for family in [f for f in self._families.values() if not f.queries and id(f) not in feeding]:
            family.detach()
            self._families = {key: other for key, other in self._families.items() if other is not family}

    def join(
        self, query: HostedQuery, node: FamilyQuery, channel: Channel, history: ArchivedHistory | None
    ) -> tuple[FamilyConsumer, FamilyQuery]:
        """Adds a query to the family of its shape, or to a new one. Returns the family, and the node as it runs.

        `history`: the archived rows that it cannot begin without; others are read where the family holds too little.
        """
        block, key = node.block, family_key(query.name, node)
        assert block.window is not None
        aggregation = aggregation_of(block)
        consumer = self._families.get(key)
        if consumer is not None and consumer.torn:
            consumer = None
        if history is None and (consumer is None or not _answers_at_once(consumer, aggregation, block.window)):
            history = self._history.read(block, channel)
        if history is not None and (consumer is not None or history.begins is not None):
            # The slices of the others begin too late for it. Nor can others use its own slices: where `begins` is set,
            # these hold the whole past as if it were of one instant.
            node = alone_with_past(node, query.name)
            key, consumer = family_key(query.name, node), None
        fresh = consumer is None
        if consumer is None:
            consumer = self._begin(key, channel, history)
        finish, since = _finish(block, consumer), channel.missed_before
        consumer.add(query, aggregation, cadence_of(block.window), finish)
        if fresh:
            _attach(consumer, block.window, history)
        if since is not None and history is None and not aggregation.keys and _has_shown_a_row(block.window, channel):
            consumer.goes_on(query.name, since)
        return consumer, node

    def _begin(self, key: FamilyKey, channel: Channel, history: ArchivedHistory | None) -> FamilyConsumer:
        """A new family, which is not attached yet."""
        held_from = channel.missed_before if history is None else history.held_from
        consumer = self._families[key] = FamilyConsumer(channel, key, held_from, self._change)
        if channel.together is None and key.shape.adapting.fold_together:
            channel.together = FoldedFamilies()
        if key.shape.counts_rows:
            # A family of row windows begins at the row that the reorder buffer releases next, or with rows before it.
            first = channel.released_now() if history is None else history.first
            consumer.begin_at(first)
            consumer.family.hold_from(first or None)
        return consumer


def _attach(consumer: FamilyConsumer, window: Window, history: ArchivedHistory | None) -> None:
    """A new family with its first query reads its channel, after the archived rows."""
    if history is not None and history.begins is not None:
        assert isinstance(window, TimeWindow)
        consumer.begin_with(history.rows, history.begins - window.offset_us)
        consumer.attach()
    else:
        consumer.attach(None if history is None else history.rows)


def _finish(block: Block, consumer: FamilyConsumer) -> TimedFinish | CountedFinish | None:
    if block.emission is Emission.RSTREAM:
        return None
    relation = RelationToStream(block.emission, items_of(block))
    window = block.window
    if isinstance(window, TimeWindow):
        return TimedFinish(relation, window)
    assert isinstance(window, RowsWindow) and window.slide is not None
    return CountedFinish(relation, window.rows, window.slide, window.offset, consumer.rows_taken)


def _answers_at_once(consumer: FamilyConsumer, aggregation: Aggregation, window: Window) -> bool:
    """Whether the slices of a family are enough for the last report of a new query."""
    family = consumer.family
    if family.watermark == INT64_MIN:
        return True  # no rows have come
    if not set(aggregation.states) <= set(family.states):
        return False
    cadence = cadence_of(window)
    if not family.store.has_place(cadence):
        return False  # nobody has kept its place among the slices
    return family.answers_exactly(aggregation, cadence, cadence.next_report(family.watermark) - cadence.slide)


def _has_shown_a_row(window: Window | None, channel: Channel) -> bool:
    """Whether a query with this window that had always been there would have begun, so that empty reports count."""
    if not isinstance(window, TimeWindow) or not channel.rows_seen or channel.missed_before is None:
        return False
    return surely_shown(window.range_us, window)
