"""Waiting for what another thread or process is about to do, however busy the machine is.

A wait is for a condition and ends as soon as it holds. `PATIENCE_S` only decides when a test that would never end
fails, so it is far more than any machine needs: nothing may be inferred from how long something has taken.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

PATIENCE_S = 300.0
PATIENCE_MS = PATIENCE_S * 1e3

# Between two looks at a condition.
_PAUSE_S = 0.005


def until(holds: Callable[[], Any], what: Callable[[], object] = lambda: "it did not come to that") -> None:
    """Returns when the condition holds; `what` says what there is instead, where it never does."""
    give_up = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < give_up, what()
        time.sleep(_PAUSE_S)


async def until_async(holds: Callable[[], Any]) -> None:
    """The same in an event loop, whose other tasks go on."""
    async with asyncio.timeout(PATIENCE_S):
        while not holds():
            await asyncio.sleep(_PAUSE_S)
