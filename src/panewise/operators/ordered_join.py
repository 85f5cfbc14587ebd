"""A join of three inputs or more in the order that is cheapest by what is measured while it runs.

Rates, rows alive and distinct keys are looked at when as many rows have come as the join holds, and at least
`LOOK_FROM`; where the orders in use cost more than `DRIFT` times the best ones, the join goes on with those. Its rows
stay as they are, only their chains are made anew. Golab and Özsu 2003, section 5; Golab 2006, chapter 5.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations

from panewise.operators.deltas import Delta
from panewise.operators.window_join import WindowJoin
from panewise.optimize.joins.drift import drift_of
from panewise.optimize.joins.join_graph import JoinEdge, JoinInput

LOOK_FROM = 4096  # rows
DRIFT = 1.2


class OrderedJoin(WindowJoin):
    """A `WindowJoin` that changes its orders."""

    name = "OrderedJoin"
    _come: list[int] | None = None  # rows of each input since the last look
    _since: int | None = None
    reorders = 0
    names: tuple[str, ...] = ()  # of the inputs, for people

    @property
    def said(self) -> Mapping[str, str]:
        """Of a join of many, which inputs the rows of each probe, one after the other."""
        if len(self.orders) < 3:
            return {}
        names = self.names or tuple(map(str, range(len(self.orders))))
        probes = (f"{names[i]} probes {', '.join(names[j] for j in o)}" for i, o in enumerate(self.orders))
        return {"order": "; ".join(probes)}

    def process(self, inputs: list[Delta], since: int, until: int) -> Delta:
        result = super().process(inputs, since, until)
        if len(inputs) > 2:
            self._note([len(delta) for delta in inputs], since, until)
        return result

    def in_parts(self, inputs: list[Delta], since: int, until: int) -> Iterator[Delta]:
        yield from super().in_parts(inputs, since, until)
        if len(inputs) > 2:
            self._note([len(delta) for delta in inputs], since, until)

    def _note(self, come: list[int], since: int, until: int) -> None:
        if self._come is None or self._since is None:
            self._come, self._since = [0] * len(come), since
        self._come = [before + more for before, more in zip(self._come, come, strict=True)]
        if sum(self._come) >= max(LOOK_FROM, sum(self.rows_held)):
            drift = drift_of(self.orders, *self.measured(max(1, until - self._since)))
            self._come = None
            if drift.exceeds(DRIFT):
                self.reorder(drift.best)
                self.reorders += 1

    def measured(self, span: int) -> tuple[list[JoinInput], list[JoinEdge]]:
        """The inputs and their equalities, by the rows that have come in a span of time and those that are alive."""
        assert self._come is not None
        inputs = [JoinInput(come / span, float(self.rows_alive(i))) for i, come in enumerate(self._come)]
        edges = []
        for c, members in enumerate(self.classes):
            distinct = {i: float(max(1, self.distinct_keys(i, c))) for i in members}
            for left, right in combinations(sorted(members), 2):
                edges.append(
                    JoinEdge(
                        left,
                        right,
                        hashed=True,
                        attribute=f"class {c}",
                        left_distinct=distinct[left],
                        right_distinct=distinct[right],
                    )
                )
        return inputs, edges
