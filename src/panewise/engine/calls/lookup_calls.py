"""Lookups of callers: a published answer, which takes no turn, or else one that is computed in a turn."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from panewise.engine.calls.flusher import Flusher
from panewise.engine.channels.turns import Turns
from panewise.engine.reads.lookups import Lookups, lookup_instant
from panewise.engine.reads.one_group import of_key
from panewise.engine.reads.published_answers import PublishedAnswers
from panewise.errors import CatalogError


class LookupCalls:
    """Calls that ask one engine's queries for their answers."""

    def __init__(self, turns: Turns, lookups: Lookups, answers: PublishedAnswers, flusher: Flusher) -> None:
        self._turns = turns
        self._lookups = lookups
        self._answers = answers
        self._flusher = flusher

    def lookup(self, query: str, at: Any, key: Any) -> pa.Table:
        """The answer now, or at an instant; `key` picks one group."""
        if not isinstance(query, str):
            raise CatalogError(f"the name of a query is a text, not a {type(query).__name__}", missing=True)
        instant = None if at is None else lookup_instant(at)
        answer = (self._answers.find(query) or self._answers.wait_for(query)) if instant is None else None
        if answer is None:
            with self._turns:
                self._answers.settle(self._flusher.flush_all)
                answer = self._answers.answer(query) if instant is None else self._lookups.answer(query, instant)
        return answer.table if key is None else of_key(answer.name, answer.block, answer.table, key)

    def published(self, query: str) -> pa.Table | None:
        """The published answer; None if it takes a turn to answer. Never waits."""
        answer = self._answers.find(query) if isinstance(query, str) else None
        return None if answer is None else answer.table
