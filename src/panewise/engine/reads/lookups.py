"""Lookups of the answer of one query: now, at an instant that is held, or at one that archives know.

Nothing changes but structures that answer, which may be rearranged by that: an interrupt there leaves a broken engine.
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
    """An instant that may be asked for."""
    instant = instant_us(at)
    if not INSTANT_MIN <= instant <= INSTANT_MAX + 1:
        raise NotHeldError(f"{instant} is not an instant of the years 1 to 9999, in microseconds since 1970")
    return instant


def answer_of(books: Books, hosted: HostedQuery, query: str, at: int | None) -> PublishedAnswer:
    """Inside a turn; `query`: its name as the reader writes it."""
    consumer = books.hosting.consumers[hosted.name]
    if hosted.status == "FAILED":
        raise NotHeldError(f"query '{query}' has failed: {hosted.reason}")
    with books.turns.change as change:
        try:
            table, come_to = _looked_up(books, hosted, consumer, at), consumer.come_to
        except Exception as problem:
            raise_interrupt_behind(problem)
            change.undone()
            raise
    table = with_watermark(table, None if come_to == INT64_MIN else come_to)
    return PublishedAnswer(hosted.name, hosted.block, table, _holding(consumer, hosted.name))


def _looked_up(books: Books, hosted: HostedQuery, consumer: QueryConsumer, at: int | None) -> pa.Table:
    """What the query holds or, of an instant of the past, what archives know."""
    try:
        return consumer.lookup(hosted.name, at)
    except NotHeldError:
        known = None if at is None or at > consumer.come_to else past_answer(hosted, at, books.channel)
        if known is None:
            raise
        return known


def _holding(consumer: QueryConsumer, name: str) -> Callable[[], bool] | None:
    """Whether what a query answers now is what it answers after all that was pushed."""
    until = consumer.holds_until(name)
    return None if until is None else consumer.channel.is_pushed_short_of(until)
