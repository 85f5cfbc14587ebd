"""Decides from a running join's measurements when it changes its orders.

A join is measured (rates, rows alive, distinct keys) when at least `LOOK_FROM` rows have come and at least as many as
it holds, because measuring costs as much as the held rows. If the orders in use cost more than `DRIFT` times the best
ones, the join changes to the best. Golab and Özsu 2003, section 5; Golab 2006, chapter 5.
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
    """The measurements of a join: its inputs with the rows that have come and that are alive, and its equalities."""

    inputs: Sequence[JoinInput]
    edges: Sequence[JoinEdge]


class Measuring(Protocol):
    """What is needed of a running join."""

    @property
    def orders(self) -> Orders: ...

    @property
    def rows_come(self) -> int:
        """The number of rows since the last `look`."""

    @property
    def rows_held(self) -> list[int]:
        """The number of rows held, for each input."""

    def look(self) -> JoinLoad:
        """Returns the measurements since the last call, and starts new ones."""


def next_orders(join: Measuring) -> Orders | None:
    """The orders to which a join should change; None if it should keep its orders."""
    if join.rows_come < max(LOOK_FROM, sum(join.rows_held)):
        return None
    load = join.look()
    drift = drift_of(join.orders, load.inputs, load.edges)
    return drift.best if drift.exceeds(DRIFT) else None
