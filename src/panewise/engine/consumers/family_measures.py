"""What is measured of a family while it runs, and when its measurements call for another weave.

Rows are counted along the axis: their rate is their number, divided by the distance between the first and the greatest
of them. With the numbers of groups and windows it is the `Load` that weaves are priced for.
"""

from __future__ import annotations

from collections.abc import Mapping

from panewise.arrays import Ints
from panewise.engine.channels.channel import Channel
from panewise.operators.family.family import Family
from panewise.optimize.sharing.report.family_report import MeasuredFamily
from panewise.optimize.sharing.weave.weaver import ASSUMED_ROWS_PER_SECOND, SECOND, Load, Weaver
from panewise.plan.family_plan import FamilyPlan
from panewise.plan.physical_plan import shown_name


class FamilyMeasures:
    """Row counts of one family, and its weaver."""

    def __init__(self, channel: Channel, family: Family) -> None:
        self._channel = channel
        self._family = family
        self._weaver = Weaver()
        self._first_point: int | None = None
        self._rows = 0

    def count(self, points: Ints) -> None:
        """Rows at these points of the axis have come."""
        if len(points):
            if self._first_point is None:
                self._first_point = int(points.min())
            self._rows += len(points)

    @property
    def _rows_per_unit(self) -> float | None:
        """Rows per unit of the axis; None for row numbers, and before there is a span to measure over."""
        if not self._family.timed or self._first_point is None or self._family.greatest <= self._first_point:
            return None
        return self._rows / (self._family.greatest - self._first_point)

    @property
    def load(self) -> Load:
        """What the family's plan depends on, as it is now."""
        rate = self._rows_per_unit
        assumed = ASSUMED_ROWS_PER_SECOND / SECOND if self._family.timed else 1.0
        return Load(assumed if rate is None else rate, max(1, self._family.group_count), len(self._family.windows))

    def next_plan(self) -> FamilyPlan | None:
        """The plan that the family is to have from now on; None if it keeps its plan."""
        family, load = self._family, self.load
        if not self._weaver.is_due(load, family.changes, family.tree_count):
            return None
        return self._weaver.next_plan(family.plan, load, family.changes)

    def measured(self, queries: Mapping[str, tuple[tuple[str, str], ...]]) -> MeasuredFamily:
        """What is known of the family now, to price it. `queries`: names and windows by member."""
        family, together = self._family, self._channel.together
        store = family.store
        slices = (store.starts, *(store.trees[number].starts for number in sorted(store.trees)))
        return MeasuredFamily(
            shown_name(self._channel.name),
            tuple(family.states),
            self.load,
            self._rows_per_unit,
            (family.group_count or None) if family.keys else 1,
            tuple(map(len, slices)),
            queries,
            None if together is None else together.folded_with(family),
        )
