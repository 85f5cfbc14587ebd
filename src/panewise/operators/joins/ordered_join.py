"""A join that measures its inputs while it runs, and whose orders can change.

`optimize/joins/reordering.py` decides on the orders, and a host applies them between two steps. Rows stay as they are;
their chains are rebuilt.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations

from panewise.operators.joins.window_join import WindowJoin
from panewise.operators.relation_delta import Delta
from panewise.optimize.joins.join_graph import JoinEdge, JoinInput
from panewise.optimize.joins.reordering import JoinLoad


class OrderedJoin(WindowJoin):
    """A `WindowJoin` that counts the rows of its inputs."""

    name = "OrderedJoin"
    _come: list[int] | None = None  # rows of each input since the last look
    _since, _until_now = 0, 0
    reorders = 0
    names: tuple[str, ...] = ()  # names of the inputs, for EXPLAIN

    @property
    def said(self) -> Mapping[str, str]:
        """For three inputs or more: which others the rows of each input probe, in order."""
        if len(self.orders) < 3:
            return {}
        names = self.names or tuple(map(str, range(len(self.orders))))
        probes = (f"{names[i]} probes {', '.join(names[j] for j in o)}" for i, o in enumerate(self.orders))
        return {"order": "; ".join(probes)}

    def process(self, inputs: list[Delta], since: int, until: int) -> Delta:
        result = super().process(inputs, since, until)
        self._note(inputs, since, until)
        return result

    def in_parts(self, inputs: list[Delta], since: int, until: int) -> Iterator[Delta]:
        yield from super().in_parts(inputs, since, until)
        self._note(inputs, since, until)

    def _note(self, inputs: list[Delta], since: int, until: int) -> None:
        if self._come is None:
            self._come, self._since = [0] * len(inputs), since
        self._come = [before + len(delta) for before, delta in zip(self._come, inputs, strict=True)]
        self._until_now = until

    @property
    def rows_come(self) -> int:
        """Number of rows since the last `look`."""
        return 0 if self._come is None else sum(self._come)

    def look(self) -> JoinLoad:
        """What was measured since the last call. Starts a new measurement. O(rows held)."""
        assert self._come is not None, "there have been no steps since the last look"
        span = max(1, self._until_now - self._since)
        inputs = [JoinInput(come / span, float(self.rows_alive(i))) for i, come in enumerate(self._come)]
        self._come = None
        return JoinLoad(inputs, self._equalities())

    def reorder(self, orders: Sequence[Sequence[int]]) -> None:
        super().reorder(orders)
        self.reorders += 1

    def _equalities(self) -> list[JoinEdge]:
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
        return edges
