"""When a running join goes on in other orders: it measures and says its load, and here is decided.

Rates, rows alive and distinct keys are looked at when as many rows have come as the join holds, and at least
`LOOK_FROM`: looking costs as much as the rows that are held. Where the orders in use cost more than `DRIFT` times the
best ones, it goes on with those. Golab and Özsu 2003, section 5; Golab 2006, chapter 5.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from panewise.optimize.joins.drift import drift_of
from panewise.optimize.joins.join_graph import JoinEdge, JoinInput
from panewise.plan.physical_plan import Orders

LOOK_FROM = 4096  # rows
DRIFT = 1.2


@dataclass(frozen=True)
class JoinLoad:
    """What a join has measured: its inputs, by the rows that have come and those that are alive, and its equalities."""

    inputs: Sequence[JoinInput]
    edges: Sequence[JoinEdge]


class Measuring(Protocol):
    """A join that runs."""

    @property
    def orders(self) -> Orders: ...

    @property
    def rows_come(self) -> int:
        """How many rows have come since the last look."""

    @property
    def rows_held(self) -> list[int]:
        """By input."""

    def look(self) -> JoinLoad:
        """What has been measured since the last look, which this one is from now on."""


def next_orders(join: Measuring) -> Orders | None:
    """The orders that a join is to go on in; None where it stays as it is."""
    if join.rows_come < max(LOOK_FROM, sum(join.rows_held)):
        return None
    load = join.look()
    drift = drift_of(join.orders, load.inputs, load.edges)
    return drift.best if drift.exceeds(DRIFT) else None
