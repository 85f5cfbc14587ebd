"""Lookups of the answer of one query: now, at an instant that it holds, or at an instant that archives know.

A lookup may rearrange the structures that answer, and changes nothing else. An interrupt in the middle of that leaves a
broken engine.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from panewise.arrays import INT64_MIN
from panewise.engine.books.books import Books
from panewise.engine.channels.hosted_query import HostedQuery
from panewise.engine.consumers.query_consumer import QueryConsumer
from panewise.engine.reads.past_answers import past_answer
from panewise.engine.reads.published_answers import PublishedAnswer, with_watermark
from panewise.errors import NotHeldError, raise_interrupt_behind
from panewise.temporal import INSTANT_MAX, INSTANT_MIN, instant_us


def lookup_instant(at: Any) -> int:
    """The instant that a caller asks for, in microseconds; NotHeldError if it is outside the years 1 to 9999."""
    instant = instant_us(at)
    if not INSTANT_MIN <= instant <= INSTANT_MAX + 1:
        raise NotHeldError(f"{instant} is not an instant of the years 1 to 9999, in microseconds since 1970")
    return instant


class Lookups:
    """Answers lookups of one engine's queries. `answer` is called inside a turn."""

    def __init__(self, books: Books, answered: Callable[[], None]) -> None:
        """`answered` is called when reports that were postponed have been made for a lookup."""
        self._books = books
        self._answered = answered

    def answer(self, query: str, at: int | None = None) -> PublishedAnswer:
        """The answer of a query, by its name as the reader writes it: now, or at an instant."""
        hosted = self._books.query_to_read(query)
        consumer = self._books.hosting.consumers[hosted.name]
        if consumer.is_postponed:
            with self._books.turns.change:
                consumer.catch_up()
            self._answered()
        if hosted.status == "FAILED":
            raise NotHeldError(f"query '{query}' has failed: {hosted.reason}")
        with self._books.turns.change as change:
            try:
                table, watermark = self._found(hosted, consumer, at), consumer.watermark
            except Exception as problem:
                raise_interrupt_behind(problem)
                change.undone()
                raise
        table = with_watermark(table, None if watermark == INT64_MIN else watermark)
        return PublishedAnswer(hosted.name, hosted.block, table, _holding(consumer, hosted.name))

    def _found(self, hosted: HostedQuery, consumer: QueryConsumer, at: int | None) -> pa.Table:
        """The answer from what the query holds or, for an instant of the past, from what archives know."""
        try:
            return consumer.lookup(hosted.name, at)
        except NotHeldError:
            known = None if at is None or at > consumer.watermark else past_answer(hosted, at, self._books.channel)
            if known is None:
                raise
            return known


def _holding(consumer: QueryConsumer, name: str) -> Callable[[], bool] | None:
    """A function that says whether the answer stays the same when all pushed rows have been processed; None where
    that is not known."""
    until = consumer.holds_until(name)
    return None if until is None else consumer.channel.is_pushed_short_of(until)
