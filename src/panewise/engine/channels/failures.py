"""An error in an operator fails only the queries whose state it has torn.

Any error that an operator raises while it takes rows, MemoryError included, marks the queries of its consumer FAILED
with the reason. They take no more rows, their state is dropped, and queries that read them fail too. All other queries
go on with the same rows. An interrupt (KeyboardInterrupt, SystemExit) belongs to no query: it leaves the engine broken
(`turns.py`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Protocol

from panewise.errors import PanewiseError, raise_interrupt_behind

LOGGER = logging.getLogger("panewise.engine")


class Fallible(Protocol):
    """An object whose state an error may tear."""

    def fail(self, reason: str) -> None:
        """All its queries become FAILED for this reason, and it takes no more rows."""


def guarded(consumer: Fallible, work: Callable[[], None]) -> None:
    """Does the work of a consumer; an error fails only the consumer."""
    try:
        work()
    except Exception as problem:  # noqa: BLE001 - it has to be a reason, whatever it is
        raise_interrupt_behind(problem)
        failed(consumer, problem)


def failed(consumer: Fallible, problem: Exception) -> None:
    """A consumer has raised this error, so its state cannot be trusted any more."""
    if not isinstance(problem, PanewiseError):
        LOGGER.error("queries have failed: %s", reason_of(problem), exc_info=problem)
    consumer.fail(reason_of(problem))


def reason_of(problem: Exception) -> str:
    """The text of an error in SHOW QUERIES.

    >>> reason_of(MemoryError("realloc of size 3840000000 failed"))
    'memory ran out: realloc of size 3840000000 failed'
    """
    if isinstance(problem, PanewiseError):
        return problem.message
    what = "memory ran out" if isinstance(problem, MemoryError) else type(problem).__name__
    return f"{what}: {problem}" if str(problem) else what
