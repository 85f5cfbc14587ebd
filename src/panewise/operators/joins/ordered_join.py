"""A join that measures its inputs while it runs, and whose orders can change.

`optimize/joins/reordering.py` decides on the orders, and a host applies them between two steps. Rows stay as they are;
their chains are rebuilt.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations

import pyarrow as pa

from panewise.language.expressions import Expression
from panewise.operators.joins.window_join import WindowJoin
from panewise.operators.relation_delta import Delta
from panewise.optimize.joins.join_graph import JoinEdge, JoinInput
from panewise.optimize.joins.reordering import JoinLoad


class OrderedJoin(WindowJoin):
    """A `WindowJoin` that counts the rows of its inputs. `names` are those of the inputs, for EXPLAIN."""

    name = "OrderedJoin"

    def __init__(
        self,
        schemas: Sequence[pa.Schema],
        condition: Expression | None,
        orders: Sequence[Sequence[int]] | None = None,
        strict: Sequence[bool] | None = None,
        internal: Sequence[bool] | None = None,
        names: Sequence[str] = (),
    ) -> None:
        super().__init__(schemas, condition, orders, strict, internal=internal)
        self.names = tuple(names)
        self.reorders = 0
        self._new_counts: list[int] | None = None  # by input, rows since the last look; None before the first step
        self._since, self._last_until = 0, 0

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
        if self._new_counts is None:
            self._new_counts, self._since = [0] * len(inputs), since
        self._new_counts = [before + len(delta) for before, delta in zip(self._new_counts, inputs, strict=True)]
        self._last_until = until

    @property
    def rows_come(self) -> int:
        """Number of rows since the last `look`."""
        return 0 if self._new_counts is None else sum(self._new_counts)

    def look(self) -> JoinLoad:
        """What was measured since the last call. Starts a new measurement. O(rows held)."""
        assert self._new_counts is not None, "there have been no steps since the last look"
        span = max(1, self._last_until - self._since)
        inputs = [JoinInput(count / span, float(self.rows_alive(i))) for i, count in enumerate(self._new_counts)]
        self._new_counts = None
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
