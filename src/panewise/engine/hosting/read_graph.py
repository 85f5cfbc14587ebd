"""Which channels feed which queries, directly or through other queries.

    stream  -->  consumer  -->  query  -->  consumer  -->  query
            roots <-------------------|-------------------> last_end

The shortest slides by stream are kept up to date as queries come and go. Everything else is found in a pass over the
consumers, when somebody asks.
"""

from __future__ import annotations

from collections.abc import Mapping

from panewise.engine.channels.channel import Channel
from panewise.engine.channels.hosted_query import HostedQuery
from panewise.engine.channels.window_ends import last_window
from panewise.engine.consumers.query_consumer import QueryConsumer
from panewise.engine.ingest.shortest_slides import ShortestSlides


class ReadGraph:
    """The channels and consumers of one registry."""

    def __init__(self, consumers: Mapping[str, QueryConsumer]) -> None:
        """`consumers`: by query, kept by the registry."""
        self._consumers = consumers
        self._slides = ShortestSlides()

    def roots(self, channel: Channel) -> list[Channel]:
        """The streams from which the rows of a channel come, directly or through queries."""
        if not channel.of_query:
            return [channel]
        return [root for source in self._consumers[channel.name].waits_for for root in self.roots(source)]

    def last_end(self, channel: Channel, newest: int) -> int:
        """When the last window closes that holds a row of time `newest`, or a result of such a window."""
        last = max(newest + 1, channel.watermark)
        for consumer in {id(found): found for found in self._consumers.values() if channel in found.waits_for}.values():
            last = max([last, *consumer.ends(channel, newest)])
            for query in consumer.read_queries:
                last = max(last, self.last_end(query, last_window(query.block.window, newest)))
        return last

    def begun_beside(self, stream: Channel) -> int | None:
        """The oldest instant from which a periodic query over this stream and others has windows to close; None where
        no such query has rows of the others yet."""
        begun = []
        for consumer in self._consumers.values():
            # A family is the consumer of each of its queries: it must not look at all of them for each.
            periodic = [q for q in consumer.fed if q.block.slide_us is not None] if consumer.reads_several else []
            if periodic:
                roots = [root for channel in consumer.waits_for for root in self.roots(channel)]
                if any(root is stream for root in roots):
                    oldest = [root.oldest for root in roots if root is not stream and root.oldest is not None]
                    begun += [max(query.watermark, min(oldest)) for query in periodic] if oldest else []
        return min(begun, default=None)

    # -- slides ------------------------------------------------------------------------------------------------------

    def slides(self) -> dict[int, int]:
        """The shortest slide of the reports that the rows of each stream cause, by the stream's id."""
        return self._slides.shortest()

    def note(self, query: HostedQuery) -> None:
        """A query has been started."""
        slide_us = query.block.slide_us
        if slide_us is not None:
            self._slides.note(query.name, slide_us, [id(root) for root in self.roots(query)])

    def forget(self, name: str) -> None:
        """A query is being stopped."""
        self._slides.forget(name)
