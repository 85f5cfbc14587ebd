"""An error in one query's operators is that query's alone, and that of the queries whose state it tore.

Whatever an operator raises while it takes rows, an end of memory included, marks the queries of its consumer FAILED
with the reason; they take no rows any more, what they held is let go, and queries that read them fail too. All others
go on with the same rows. An interrupt (KeyboardInterrupt, SystemExit) is nobody's: it leaves the engine broken
(`turns`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Protocol

from panewise.errors import PanewiseError, raise_interrupt_behind

LOGGER = logging.getLogger("panewise.engine")


class Fallible(Protocol):
    """Somebody with state that an error may tear."""

    def fail(self, reason: str) -> None:
        """All its queries are FAILED for this reason, and it takes nothing any more."""


def guarded(consumer: Fallible, work: Callable[[], None]) -> None:
    """Does the work of a consumer; what that raises is its own."""
    try:
        work()
    except Exception as problem:  # noqa: BLE001 - it has to be a reason, whatever it is
        raise_interrupt_behind(problem)
        failed(consumer, problem)


def failed(consumer: Fallible, problem: Exception) -> None:
    """A consumer has raised this, and its state is not to be trusted any more."""
    if not isinstance(problem, PanewiseError):
        LOGGER.error("queries have failed: %s", reason_of(problem), exc_info=problem)
    consumer.fail(reason_of(problem))


def reason_of(problem: Exception) -> str:
    """The error as it stands in SHOW QUERIES.

    >>> reason_of(MemoryError("realloc of size 3840000000 failed"))
    'memory ran out: realloc of size 3840000000 failed'
    """
    if isinstance(problem, PanewiseError):
        return problem.message
    what = "memory ran out" if isinstance(problem, MemoryError) else type(problem).__name__
    return f"{what}: {problem}" if str(problem) else what
